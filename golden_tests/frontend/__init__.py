"""From program text to the typed program, and what is said about programs that have none."""
