"""Processes that maintain parts of a program and exchange changes as messages."""
