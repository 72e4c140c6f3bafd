"""Find, read and validate input rows, and stage them as Parquet files."""

from __future__ import annotations

from . import typed_values

# Readers of all types are registered; a script chooses.
__all__ = ["typed_values"]
