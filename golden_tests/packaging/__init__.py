"""Tests of what surrounds the compiler: packages, setting up, the examples and the benchmarks."""
