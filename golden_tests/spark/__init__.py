"""Tests of rounds as Spark jobs."""
