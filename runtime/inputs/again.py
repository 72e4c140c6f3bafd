"""Read sources once more, to tell where a row is that a batch is refused for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from .files import InputFile
from .frames import tables_of_frame
from .records import Problems
from .tables import staged_tables, unheard
from .values import InputShape


def tables_again(file: InputFile, shape: InputShape) -> Iterator[Any]:
    """Yield the rows of a source as Arrow tables of staged values, without reporting anything. Tables and DataFrames of
    Spark yield none, since their rows have no numbers."""
    numbered = replace(shape, numbered=True, aside=None)
    if file.format == "arrow":
        yield from tables_of_frame(file.place, str(file), numbered, Problems(), unheard)
    elif file.format not in ("table", "frame"):
        yield from staged_tables(file, numbered, Problems(), unheard)
