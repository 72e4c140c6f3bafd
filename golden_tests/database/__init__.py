"""Tests of states in one SQLite file, and of scripts that keep them."""
