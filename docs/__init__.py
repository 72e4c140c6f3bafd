"""The documentation; a package so that the command line can quote ``errors.md`` wherever it is installed."""
