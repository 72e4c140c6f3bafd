"""Tests over whole programs: cases, error cases, and the oracle they are compared with."""
