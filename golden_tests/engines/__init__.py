"""Tests of the engines: all of them find the same."""
