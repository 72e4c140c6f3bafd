"""DDlog command files: the reader, and their application to a running program."""
