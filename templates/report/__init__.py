"""Templates of pages."""
