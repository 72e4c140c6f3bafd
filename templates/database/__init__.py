"""Templates of scripts whose state is a database."""
