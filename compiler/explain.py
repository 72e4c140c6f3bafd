"""Tells in prose what was decided about a program, and why."""

from __future__ import annotations

from .pipeline import Compilation


def explain(compilation: Compilation) -> str:
    """The explanation of a compiled program."""
    return str(compilation.plan)
