"""The compiler passes, one module each, and their helpers; ``pipeline.PASSES`` defines the order."""
