"""DDlog's command files: read, and applied to a program that runs."""
