"""States that are one SQLite file, and the commands on them: the standard library only."""
