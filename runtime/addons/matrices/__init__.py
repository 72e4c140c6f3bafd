"""Recursions as sparse matrices, with GraphBLAS: an optional part."""
