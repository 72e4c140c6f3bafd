"""Targets: what a compiled program is printed as."""
