"""Tests of the kernel: the methods that maintain strata, in whatever engine."""
