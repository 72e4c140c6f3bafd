"""Tests of the benchmarks: what they compute is right, and their pages say what they print."""
