"""Files and folders with rows: their formats, and which there are. Commands that read no rows import this module, too,
which imports neither Arrow nor DuckDB."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from ..errors import Refused
from ..locations import EMPTY_LOCATION, is_location
from ..model import Relation
from .compressed import Decompressed
from .dialects import USUAL, Dialect

COMPRESSIONS = (".gz", ".zst")

INPUT_FORMATS = {".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".parquet": "parquet"}


def format_of(name: str, dialect: Dialect = USUAL) -> str:
    """Return the format of a file, which may be compressed, by its name; empty if that is unknown. A file with any
    other name is CSV if a dialect is given."""
    path = Path(name.lower())
    compressed = path.suffix in COMPRESSIONS
    known = INPUT_FORMATS.get(Path(path.stem).suffix if compressed else path.suffix, "")
    if compressed and known == "parquet":
        return ""
    return known or ("csv" if dialect.given else "")


def unknown_format(known: Iterable[str] = INPUT_FORMATS) -> str:
    """Return what is wrong with a file whose suffix is not one of the ``known`` ones."""
    return f"does not have the suffix of a known format ({', '.join(known)})"


def opened_file(place: Path) -> Any:
    """Open a file for reading bytes, decompressed if its name says that it is compressed."""
    suffix = place.suffix.lower()
    if suffix == ".gz":
        return gzip.open(place.open("rb"))
    return Decompressed(place.open("rb")) if suffix == ".zst" else place.open("rb")


def files_at(place: Path, relation: Relation | None = None) -> Iterator[tuple[str, int, dict[str, str | None]]]:
    """Yield the location and size of a file, or of a folder's data files, also of published changes that are cut by
    location; with the values of those columns of a ``relation`` that are in the names of their folders, as in
    ``year=2026``. Raise Refused for Delta tables and other subfolders."""
    if not place.is_dir():
        if place.exists():
            yield str(place), place.stat().st_size, {}
        return
    columns = {column.name for column in relation.columns} if relation else set()
    for entry in sorted(place.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir() and entry.name == "_delta_log":
            raise Refused(f"{place} is a Delta table, not a folder of files; pass it as table:NAME")
        column, separator, text = map(unquote, entry.name.partition("="))
        if separator and column and entry.is_dir() and (relation or is_location(entry.name)):
            if column.startswith(("_", ".")) and column not in columns and not is_location(entry.name):
                continue
            value = {column: None if text == EMPTY_LOCATION else text} if column in columns else {}
            for name, size, others in files_at(entry, relation):
                if not value.keys().isdisjoint(others):
                    raise Refused(f"{name}: two of its folders have a value of {column}")
                yield name, size, {**value, **others}
            continue
        if entry.name.startswith(("_", ".")):
            continue
        if entry.is_dir():
            raise Refused(
                f"{place} contains a folder, {entry.name}, whose name is not of the form COLUMN=VALUE; pass such data "
                "as table:NAME"
            )
        yield str(entry), entry.stat().st_size, {}


def relation_name(path: Path) -> str:
    """Return the relation that a file or folder is named after."""
    name = Path(path.stem) if path.suffix.lower() in COMPRESSIONS and format_of(path.name) else path
    return name.stem if name.suffix.lower() in INPUT_FORMATS else path.name
