"""Programs of Soufflé: parsed into a tree of their own, then rewritten to the syntax tree of all dialects."""
