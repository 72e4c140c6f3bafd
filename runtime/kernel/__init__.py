"""The kernel: the model of a compiled program, and the methods that maintain its strata."""
