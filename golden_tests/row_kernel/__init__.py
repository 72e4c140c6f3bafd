"""Tests of the methods for rows: relations in SQLite that batches change in place."""
