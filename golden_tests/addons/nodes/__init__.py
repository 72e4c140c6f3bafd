"""Tests of located programs on nodes."""
