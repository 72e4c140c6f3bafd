"""Jobs: their commands, one module each, and the command line."""
