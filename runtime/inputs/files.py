"""Find the files, tables and DataFrames that hold a relation's input rows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from ..errors import JobError, Refused, reason
from ..model import Program, Relation
from ..places import input_place, without_scheme
from .aside import Aside
from .dialects import DIALECT_OPTIONS, USUAL, Dialect, split_dialect
from .frames import arrow_table, is_pandas
from .nulls import LeftOut
from .paths import files_at, format_of, opened_file, relation_name, unknown_format
from .records import Problems, operation_column, refused
from .values import InputShape, Sequences

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Source: TypeAlias = "str | DataFrame | pa.Table"


@dataclass(frozen=True)
class InputFile:
    """A source of rows of a relation: a file (``place`` is its path or URI), a Spark table (its name) or a DataFrame.
    ``size`` is in bytes; ``dialect`` and ``partition`` are as in :class:`~.tables.DataFile`."""

    relation: Relation
    place: Source
    format: str
    size: int = 0
    dialect: Dialect = USUAL
    partition: Mapping[str, str | None] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return the name of the source for messages."""
        if isinstance(self.place, str):
            return f"table {self.place}" if self.format == "table" else self.place
        return f"the DataFrame given for {self.relation.name}"

    def open(self) -> Any:
        """Open a file for reading bytes."""
        return opened_file(input_place(str(self.place)))


@dataclass(frozen=True)
class Reading:
    """How to read input rows: as the ``initial`` rows of a state or as changes, and the names of their operation and
    order columns. ``net``, ``all_inserts``, ``left_out``, ``aside`` and
    ``sequences`` are as in InputShape."""

    initial: bool = False
    op_column: str = "op"
    order_column: str = ""
    net: str = ""
    all_inserts: bool = False
    left_out: LeftOut | None = None
    aside: Aside | None = None
    sequences: Sequences | None = None

    def shape(self, relation: Relation) -> InputShape:
        """Return what to read for a relation."""
        operation = operation_column(relation, self.op_column, self.initial and self.all_inserts)
        return InputShape(
            relation,
            operation,
            self.order_column,
            self.initial,
            self.net,
            self.all_inserts,
            self.left_out,
            aside=self.aside,
            sequences=self.sequences if relation.key and not self.initial else None,
        )


def input_files(relation: Relation, place: Source, problems: Problems) -> Iterator[InputFile]:
    """Yield the sources behind a place given for a relation: a file, a folder of files, ``table:NAME`` or a DataFrame.
    Missing or empty files and unknown formats are added to ``problems``. Behind a place, options may say how CSV files
    are written."""
    if not isinstance(place, str):
        yield InputFile(relation, place, "arrow" if isinstance(place, pa.Table) else "frame")
        return
    if place.startswith("table:"):
        yield InputFile(relation, place.removeprefix("table:"), "table")
        return
    place, dialect = split_dialect(place)
    try:
        found = list(files_at(input_place(place), relation))
    except (OSError, ValueError) as error:
        raise refused(f"{place} cannot be read: {reason(error)}") from error
    if not found:
        problems.add(f"{place} does not exist, or is a folder without files{unknown_options(place)}")
    formats = [format_of(name, dialect) for name, _, _ in found]
    if dialect.given and found and "csv" not in formats:
        problems.add(f"{place} has no CSV file, and ?{dialect.given} says how those are written")
    for (name, size, partition), format_name in zip(found, formats, strict=True):
        if not format_name:
            problems.add(f"{name} {unknown_format()}")
        elif size == 0:
            problems.add(f"{name} is empty")
        else:
            yield InputFile(relation, name, format_name, size, dialect, partition)


def unknown_options(place: str) -> str:
    """Return the known options, as text for messages, if a place seems to have other ones."""
    known = ", ".join(DIALECT_OPTIONS)
    return f"; options behind a place are {known}" if re.search(r"\?[a-z]+=", place) else ""


# What is given for which relation


def relation_sources(
    program: Program, given: str | Mapping[str, Source | Sequence[Source]] | Sequence[str]
) -> dict[str, list[Source]]:
    """Return the sources of each relation, given as ``REL=PATH``, as files or folders named after relations, as a
    folder of these, or as a mapping."""
    if isinstance(given, Mapping):
        return {
            name: [
                given_source(name, place)
                for place in ([places] if isinstance(places, str) or not isinstance(places, Sequence) else places)
            ]
            for name, places in given.items()
        }
    sources: dict[str, list[Source]] = {}
    for item in [given] if isinstance(given, str) else given:
        for name, place in named_places(program, item):
            sources.setdefault(name, []).append(place)
    return sources


def given_source(name: str, given: Any) -> Source:
    """Return a source as it is read: DataFrames of pandas and Polars, and other Arrow data, as Arrow tables. Raise
    Refused for what is none."""
    if isinstance(given, str) or type(given).__module__.startswith("pyspark."):
        source: Source = given
        return source
    if isinstance(given, Path):
        return str(given)
    table = arrow_table(given)
    if table is None:
        kind = type(given).__name__
        known = f"{name} is given as a path, a DataFrame of Spark, pandas or Polars, or an Arrow table"
        mixed = "has values in one column that Arrow has no common type for"
        raise Refused(f"{known}, and this {kind} {mixed if is_pandas(given) else 'is none of these'}")
    return table


def named_places(program: Program, item: str) -> Iterator[tuple[str, str]]:
    """Yield the relations and places that a command-line argument stands for; raise JobError if there are none."""
    inputs = {relation.name for relation in program.relations if relation.kind == "input"}
    name, separator, place = item.partition("=")
    if separator and (name in inputs or (re.fullmatch(r"[\w.]+", name) and not Path(item).exists())):
        yield name, place
        return
    bare, dialect = split_dialect(item)
    behind = f"?{dialect.given}" if dialect.given else ""
    path = Path(without_scheme(bare) or bare)
    if not path.exists():
        raise JobError(f"{item} does not exist on this machine; pass data that is elsewhere as RELATION={item}")
    if not path.is_dir() or relation_name(path) in inputs:
        yield relation_name(path), f"{path}{behind}"
        return
    entries = sorted(e for e in path.iterdir() if relation_name(e) in inputs or not e.name.startswith(("_", ".")))
    if not entries:
        raise JobError(f"{path} is empty; it must contain a file or folder named after each relation")
    for entry in entries:
        # Options for CSV do not concern folders and files of other formats.
        yield relation_name(entry), f"{entry}{behind if entry.is_dir() or format_of(entry.name) == 'csv' else ''}"
