"""Read sources, and read them again to find the rows that a batch is refused for."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..kernel.errors import Refused
from ..kernel.model import Program, Relation
from ..kernel.values import named_values
from .files import InputFile, Reading, Source, input_files
from .frames import tables_of_frame
from .records import Problems, Warn
from .tables import staged_tables, unheard
from .values import InputShape


@contextlib.contextmanager
def telling_places(program: Program, place: Callable[[Relation, str], str]) -> Iterator[None]:
    """Add to an error of the body that is about a row its ``place``: a text for the relation and the values."""
    try:
        yield
    except Refused as error:
        if error.about is None:
            raise
        table, named, _ = error.about
        relation = next(relation for relation in program.relations if relation.table == table)
        raise error.at(place(relation, named)) from error


def place_in_sources(relation: Relation, named: str, sources: Mapping[str, Sequence[Source]], reading: Reading) -> str:
    """Return where the sources of a batch first delete a row."""
    places = sources.get(relation.name, ())
    files = (file for place in places for file in input_files(relation, place, Problems()))
    return place_of_deletion(relation, named, files, reading)


def place_of_deletion(relation: Relation, named: str, files: Iterable[InputFile], reading: Reading) -> str:
    """Return where a row, given by its values as messages name them, is first deleted, as text for messages; empty if
    no file does so."""
    columns = [column.sql for column in relation.row_columns]
    for place, row in rows_again(files, reading.shape(relation)):
        values = dict(zip(columns, row, strict=False))
        if row[len(columns)] in ("-", "<") and named_values(relation, values) == named:
            return place
    return ""


def rows_again(files: Iterable[InputFile], shape: InputShape) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield the staged rows of sources, which are read once more without reporting anything, each with its place as
    text for messages. Tables and DataFrames of Spark yield none, since their rows have no numbers."""
    numbered = replace(shape, numbered=True, aside=None)
    for file in files:
        if file.format not in ("table", "frame"):
            tables = tables_of_source(file, numbered, Problems(), unheard)
            for number, row in enumerate((row for table in tables for row in table_rows(table)), start=1):
                yield f" ({file}, row {number})", row


def tables_of_source(file: InputFile, shape: InputShape, problems: Problems, warn: Warn) -> Iterator[Any]:
    """Yield the rows of a file, or of a DataFrame that is Arrow data, as Arrow tables of staged values."""
    if file.format == "arrow":
        return tables_of_frame(file.place, str(file), shape, problems, warn)
    return staged_tables(file, shape, problems, warn)


def table_rows(table: Any) -> Iterator[tuple[Any, ...]]:
    """Return an iterator over the rows of an Arrow table."""
    return zip(*(column.to_pylist() for column in table.columns), strict=True)
