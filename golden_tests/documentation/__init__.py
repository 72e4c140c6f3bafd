"""The documentation is followed as a reader follows it."""
