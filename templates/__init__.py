"""Jinja templates of the targets."""
