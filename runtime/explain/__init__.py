"""Explanations: why a tuple is there or not, and what stopped a recursion."""
