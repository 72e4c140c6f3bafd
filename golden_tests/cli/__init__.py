"""The command line, what it explains, and the local rules that it says a program becomes."""
