"""Tests of programs of several processes: the compiler, the accumulators, and processes as they run."""
