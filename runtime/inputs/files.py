"""Find the files, tables and DataFrames that hold a relation's input rows."""

from __future__ import annotations

import errno
import functools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from ..kernel.errors import JobError, Refused, reason
from ..kernel.model import Program, Relation
from ..store.extensions import FURTHER
from ..store.manifest import Manifest
from ..store.published_names import operation_column
from ..store.set_aside import Aside, LeftOut
from ..system.places import forget_clients, input_place, scheme_of
from .dialects import USUAL, Dialect
from .paths import data_files, files_at, named_places, opened_file
from .records import Problems, refused
from .values import InputShape, Sequences

if TYPE_CHECKING:
    import pyarrow as pa

    from ..spark.types import DataFrame

Source: TypeAlias = "str | DataFrame | pa.Table"


@dataclass(frozen=True)
class InputFile:
    """A source of rows of a relation: a file (``place`` is its path or URI), a Spark table (its name) or a DataFrame.
    Its ``format`` is ``csv``, ``json``, ``parquet``, ``table``, ``frame`` or ``arrow``, and its ``size`` in bytes. The
    ``dialect`` tells how a CSV file is written. ``partition`` has the columns and values in the names of its folders,
    None for null, as far as the relation has these columns."""

    relation: Relation
    place: Source | Path
    format: str
    size: int = 0
    dialect: Dialect = USUAL
    partition: Mapping[str, str | None] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return the name of the source for messages."""
        if isinstance(self.place, str | Path):
            return f"table {self.place}" if self.format == "table" else str(self.place)
        return f"the DataFrame given for {self.relation.name}"

    def open(self) -> Any:
        """Open a file for reading bytes."""
        return opened_file(self.place if isinstance(self.place, Path) else input_place(str(self.place)))


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

    def in_order(self, root: Path, before: Manifest, names: Iterable[str]) -> Reading:
        """Return how to read changes of the input relations ``names``: if they have an order and a primary key, with
        the sequences that the state keeps. Raise JobError if these are by another order column."""
        return FURTHER["sequences"](self, root, before, names) if "sequences" in FURTHER else self

    def with_sequences(self, staged: dict[str, list[str]]) -> tuple[Relation, ...]:
        """Add the new sequences that reading has led to, if any, to what is ``staged`` by table; return the relations
        that they are stored in."""
        if self.sequences is None:
            return ()
        staged.update(self.sequences.staged)
        return tuple(self.sequences.relations)

    @property
    def told(self) -> dict[str, Any]:
        """How rows were read, as members of Batch."""
        told: dict[str, Any] = {"left_out": self.left_out, "aside": self.aside}
        if self.sequences:
            told |= {"sequences": self.sequences.records, "late": self.sequences.late}
        return told

    def shape(self, relation: Relation) -> InputShape:
        """Return what to read for a relation."""
        operation = operation_column(relation.columns, self.op_column, self.initial and self.all_inserts)
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
        yield InputFile(relation, place, "arrow" if type(place).__module__.startswith("pyarrow.") else "frame")
        return
    if place.startswith("table:"):
        yield InputFile(relation, place.removeprefix("table:"), "table")
        return
    listed = functools.partial(found_files, columns=[column.name for column in relation.columns])
    for name, format_name, size, dialect, partition in data_files(relation.file, place, problems, listed):
        yield InputFile(relation, name, format_name, size, dialect, partition)


def found_files(location: str, columns: Collection[str] | None = None) -> list[tuple[str, int, dict[str, str | None]]]:
    """Return what :func:`files_at` tells of a path or URI; raise Refused if that cannot be read."""
    try:
        return list(files_at(input_place(location), columns))
    except JobError:
        raise
    except Exception as error:
        # Clients of stores have errors of their own.
        advice = ""
        if isinstance(error, OSError) and error.errno == errno.ELOOP:
            advice = ": a link leads to itself; remove it, or let it lead to a file"
        elif "credential" in type(error).__name__.lower():
            forget_clients(location)
            advice = f": give keys for {scheme_of(location)}: in the variables or the files that its client reads"
            if scheme_of(location) in ("s3", "s3a"):
                advice += ", such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        raise refused(f"{location} cannot be read: {reason(error)}{advice}") from error


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
    inputs = {r.name: r.file for r in program.relations if r.kind == "input" and not r.clock}
    for item in [given] if isinstance(given, str) else given:
        for name, place in named_places(inputs, item):
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
    from .frames import arrow_table, is_pandas

    table = arrow_table(given)
    if table is None:
        kind = type(given).__name__
        forms = f"{name} is given as a path, a DataFrame of Spark, pandas or Polars, or an Arrow table"
        mixed = "has values in one column that Arrow has no common type for"
        raise Refused(f"{forms}, and this {kind} {mixed if is_pandas(given) else 'is none of these'}")
    return table
