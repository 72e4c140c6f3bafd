"""Run programs without Spark."""
