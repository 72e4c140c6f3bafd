"""Run programs in one process, on tables in memory."""
