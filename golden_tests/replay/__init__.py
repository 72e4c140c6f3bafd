"""Command files: replayed, mistaken, and made of random batches."""
