"""Libraries that are imported when they are needed, in scripts that start often."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class LazyLibrary:
    """Stands for a library, which is imported when something of it is asked for."""

    def __init__(self, name: str) -> None:
        self.library = name

    def __getattr__(self, name: str) -> Any:
        """Return what the library has under a name."""
        return getattr(import_module(self.library), name)
