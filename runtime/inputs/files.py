"""Find the files, tables and DataFrames that hold a relation's input rows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from ..errors import JobError, Refused, reason
from ..locations import is_location
from ..model import Program, Relation
from ..places import input_place, without_scheme
from .nulls import LeftOut
from .records import Problems, operation_column, refused
from .values import InputShape

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

INPUT_FORMATS = {".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".parquet": "parquet"}

Source: TypeAlias = "str | DataFrame"


@dataclass(frozen=True)
class InputFile:
    """A source of rows of a relation: a file (``place`` is its path or URI), a Spark table (its name) or a DataFrame.
    ``size`` is in bytes."""

    relation: Relation
    place: Source
    format: str
    size: int = 0

    def __str__(self) -> str:
        """Return the name of the source for messages."""
        if isinstance(self.place, str):
            return f"table {self.place}" if self.format == "table" else self.place
        return f"the DataFrame given for {self.relation.name}"

    def open(self) -> Any:
        """Open a file for reading bytes."""
        return input_place(str(self.place)).open("rb")


@dataclass(frozen=True)
class Reading:
    """How to read input rows: as the ``initial`` rows of a state or as changes, and the names of their operation and
    order columns. ``net``, ``all_inserts`` and ``left_out`` are as in InputShape."""

    initial: bool = False
    op_column: str = "op"
    order_column: str = ""
    net: str = ""
    all_inserts: bool = False
    left_out: LeftOut | None = None

    def shape(self, relation: Relation) -> InputShape:
        """Return what to read for a relation."""
        operation = operation_column(relation, self.op_column, self.initial and self.all_inserts)
        return InputShape(
            relation, operation, self.order_column, self.initial, self.net, self.all_inserts, self.left_out
        )


def input_files(relation: Relation, place: Source, problems: Problems) -> Iterator[InputFile]:
    """Yield the sources behind a place given for a relation: a file, a folder of files, ``table:NAME`` or a DataFrame.
    Missing or empty files and unknown formats are added to ``problems``."""
    if not isinstance(place, str):
        yield InputFile(relation, place, "frame")
        return
    if place.startswith("table:"):
        yield InputFile(relation, place.removeprefix("table:"), "table")
        return
    try:
        found = list(files_at(input_place(place)))
    except (OSError, ValueError) as error:
        raise refused(f"{place} cannot be read: {reason(error)}") from error
    if not found:
        problems.add(f"{place} does not exist, or is a folder without files")
    for name, size in found:
        format_name = INPUT_FORMATS.get(Path(name).suffix.lower())
        if format_name is None:
            problems.add(f"{name} does not have the suffix of a known format ({', '.join(INPUT_FORMATS)})")
        elif size == 0:
            problems.add(f"{name} is empty")
        else:
            yield InputFile(relation, name, format_name, size)


def files_at(place: Path) -> Iterator[tuple[str, int]]:
    """Yield location and size of a file, or of a folder's data files, also of published changes that are cut by
    location; raise Refused for Delta tables and other subfolders."""
    if not place.is_dir():
        if place.exists():
            yield str(place), place.stat().st_size
        return
    for entry in sorted(place.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir() and entry.name == "_delta_log":
            raise Refused(f"{place} is a Delta table, not a folder of files; pass it as table:NAME")
        if entry.is_dir() and is_location(entry.name):
            yield from files_at(entry)
            continue
        if entry.name.startswith(("_", ".")):
            continue
        if entry.is_dir():
            raise Refused(f"{place} contains a folder, {entry.name}; pass such data as table:NAME")
        yield str(entry), entry.stat().st_size


# What is given for which relation


def relation_sources(
    program: Program, given: str | Mapping[str, Source | Sequence[Source]] | Sequence[str]
) -> dict[str, list[Source]]:
    """Return the sources of each relation, given as ``REL=PATH``, as files or folders named after relations, as a
    folder of these, or as a mapping."""
    if isinstance(given, Mapping):
        return {
            name: [places] if isinstance(places, str) or not isinstance(places, Sequence) else list(places)
            for name, places in given.items()
        }
    sources: dict[str, list[Source]] = {}
    for item in [given] if isinstance(given, str) else given:
        for name, place in named_places(program, item):
            sources.setdefault(name, []).append(place)
    return sources


def named_places(program: Program, item: str) -> Iterator[tuple[str, str]]:
    """Yield the relations and places that a command-line argument stands for; raise JobError if there are none."""
    inputs = {relation.name for relation in program.relations if relation.kind == "input"}
    name, separator, place = item.partition("=")
    if separator and (name in inputs or (re.fullmatch(r"[\w.]+", name) and not Path(item).exists())):
        yield name, place
        return
    path = Path(without_scheme(item) or item)
    if not path.exists():
        raise JobError(f"{item} does not exist on this machine; pass data that is elsewhere as RELATION={item}")
    if not path.is_dir() or relation_name(path) in inputs:
        yield relation_name(path), str(path)
        return
    entries = sorted(e for e in path.iterdir() if relation_name(e) in inputs or not e.name.startswith(("_", ".")))
    if not entries:
        raise JobError(f"{path} is empty; it must contain a file or folder named after each relation")
    for entry in entries:
        yield relation_name(entry), str(entry)


def relation_name(path: Path) -> str:
    """Return the relation that a file or folder is named after."""
    return path.stem if path.suffix.lower() in INPUT_FORMATS else path.name
