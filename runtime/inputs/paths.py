"""Files of rows: which are given for which relations, their formats and how they are written, and their lines. Commands
that read no rows import this module, too, which imports neither Arrow nor DuckDB."""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import unquote

from ..kernel.errors import JobError, Refused
from ..kernel.model import NamedFile
from ..kernel.sql import plain_type
from ..store.published_names import EMPTY_LOCATION, is_location
from ..system.places import without_scheme
from .dialects import DIALECT_OPTIONS, PLAIN_SUFFIXES, USUAL, Dialect, dialect_of_file, split_dialect
from .records import Problems, refused
from .values import RowShape, value_reader

COMPRESSIONS = (".gz", ".zst")

INPUT_FORMATS = {
    ".csv": "csv",
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), "json"),
    ".parquet": "parquet",
    **dict.fromkeys(PLAIN_SUFFIXES, "csv"),
}


def format_of(name: str, dialect: Dialect = USUAL) -> str:
    """Return the format of a file, which may be compressed, by its name; empty if that is unknown. A file with any
    other name is CSV if a dialect is given, and a plain one in any case."""
    if dialect.plain:
        return "csv"
    path = Path(name.lower())
    compressed = path.suffix in COMPRESSIONS
    format_name = INPUT_FORMATS.get(Path(path.stem).suffix if compressed else path.suffix, "")
    if compressed and format_name == "parquet":
        return ""
    return format_name or ("csv" if dialect.given else "")


def unknown_format(known: Iterable[str] = INPUT_FORMATS) -> str:
    """Return what is wrong with a file whose suffix is not one of the ``known`` ones."""
    return f"does not have the suffix of a known format ({', '.join(known)})"


def files_at(place: Path, columns: Collection[str] | None = None) -> Iterator[tuple[str, int, dict[str, str | None]]]:
    """Yield the location and size of a file, or of a folder's data files, also of published changes that are cut by
    location; with the values of those ``columns`` of a relation that are in the names of their folders, as in
    ``year=2026``. Raise Refused for Delta tables and other subfolders."""
    if not place.is_dir():
        if place.exists():
            yield str(place), place.stat().st_size, {}
        return
    known = columns or ()
    for entry in sorted(place.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir() and entry.name == "_delta_log":
            raise Refused(f"{place} is a Delta table, not a folder of files; pass it as table:NAME")
        column, separator, text = map(unquote, entry.name.partition("="))
        if separator and column and entry.is_dir() and (columns is not None or is_location(entry.name)):
            if column.startswith(("_", ".")) and column not in known and not is_location(entry.name):
                continue
            value = {column: None if text == EMPTY_LOCATION else text} if column in known else {}
            for name, size, others in files_at(entry, columns):
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


def files_of_relations(folder: Path, inputs: Mapping[str, NamedFile | None], read: Collection[str]) -> list[Path]:
    """Return what is in a folder with a file or folder for each input relation, except for those that are ``read``
    from the files that the program names, by relation. If it names one for each, other files are ignored."""
    all_named = bool(inputs) and None not in inputs.values()
    known_files = {PurePath(file.path).parts[0] for file in inputs.values() if file}
    return sorted(
        entry
        for entry in folder.iterdir()
        if (name := relation_name(entry)) not in read
        and entry.name not in known_files
        and (name in inputs or not (all_named or entry.name.startswith(("_", "."))))
    )


# Files that are given


ListedFile = tuple[str, int, dict[str, str | None]]
"""The location and the size of a file, and the values in the names of its folders."""


def data_files(
    named: NamedFile | None, place: str, problems: Problems, list_files: Callable[[str], Sequence[ListedFile]]
) -> Iterator[tuple[str, str, int, Dialect, dict[str, str | None]]]:
    """Yield the files behind a place given for a relation, for which the program may have ``named`` a file: the
    location of each, its format and size, how it is written and the values in the names of its folders. Missing or
    empty files and unknown formats are added to ``problems``. Behind a place, options may say how CSV files are
    written."""
    place, dialect = split_dialect(place)
    files = list_files(place)
    if not files:
        problems.add(f"{place} does not exist, or is a folder without files{unknown_options(place)}")
    dialects = [dialect_of_file(name, dialect, named) for name, _, _ in files]
    formats = [format_of(name, written) for (name, _, _), written in zip(files, dialects, strict=True)]
    if dialect.given and files and "csv" not in formats:
        problems.add(f"{place} has no CSV file, and ?{dialect.given} says how those are written")
    for (name, size, partition), format_name, written in zip(files, formats, dialects, strict=True):
        if not format_name:
            problems.add(f"{name} {unknown_format()}")
        elif size == 0 and not written.plain:
            problems.add(f"{name} is empty")
        else:
            yield name, format_name, size, written, partition


def unknown_options(place: str) -> str:
    """Return the known options, as text for messages, if a place seems to have other ones."""
    names = ", ".join(DIALECT_OPTIONS)
    return f"; options behind a place are {names}" if re.search(r"\?[a-z]+=", place) else ""


def named_places(inputs: Mapping[str, NamedFile | None], item: str) -> Iterator[tuple[str, str]]:
    """Yield the relations and places that a command-line argument stands for, given the files that the program names by
    relation; raise JobError if there are none."""
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
    named = {name: str(path / file.path) for name, file in inputs.items() if file and (path / file.path).is_file()}
    yield from ((name, f"{place}{behind}") for name, place in named.items())
    entries = files_of_relations(path, inputs, named)
    if not entries and not named:
        raise JobError(f"{path} is empty; it must contain a file or folder named after each relation")
    for entry in entries:
        # Options for CSV do not concern folders and files of other formats.
        yield relation_name(entry), f"{entry}{behind if entry.is_dir() or format_of(entry.name) == 'csv' else ''}"


# Lines


class CompressedDamage(OSError):
    """A compressed file that cannot be decompressed to its end."""


class Decompressed(io.RawIOBase):
    """The bytes that a file compressed with zstd contains; it can have several frames."""

    def __init__(self, content: Any) -> None:
        """Take the opened file, which is closed with this one."""
        import pyarrow as pa

        super().__init__()
        self._content, self._damage = content, (OSError, pa.ArrowException)
        self._stream = pa.CompressedInputStream(pa.PythonFile(content, "r"), "zstd")

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read bytes into a buffer and return their number; raise CompressedDamage if the file is damaged."""
        try:
            content: bytes = self._stream.read(len(buffer))
        except self._damage as error:
            raise CompressedDamage(str(error)) from error
        buffer[: len(content)] = content
        return len(content)

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            self._content.close()
        super().close()


def opened_file(place: Path) -> Any:
    """Open a file for reading bytes, decompressed if its name says that it is compressed."""
    suffix = place.suffix.lower()
    if suffix == ".gz":
        return gzip.open(place.open("rb"))
    return Decompressed(place.open("rb")) if suffix == ".zst" else place.open("rb")


def text_lines(file: object, opened: Callable[[], Any]) -> Iterator[str]:
    """Yield the lines of a file, opened for reading bytes, with their line ends; raise Refused if it is not UTF-8."""
    try:
        with opened() as content, io.TextIOWrapper(content, encoding="utf-8-sig", newline="") as lines:
            yield from lines
    except UnicodeDecodeError as error:
        raise refused(f"{file} is not UTF-8: {error.reason}") from error
    except (EOFError, zlib.error, gzip.BadGzipFile, CompressedDamage) as error:
        raise refused(f"{file} is damaged: {error}") from error


def typed_partition(
    file: object, partition: Mapping[str, str | None], shape: RowShape, problems: Problems
) -> dict[str, Any] | None:
    """Return the values in the names of the folders of a file by column, None for null; add a problem and return None
    if one does not fit."""
    values: dict[str, Any] = {}
    kinds = dict(zip(shape.names, shape.types, strict=True))
    for name, text in partition.items():
        kind = plain_type(kinds[name])
        try:
            values[name] = text if text is None or kind in ("operation", "order") else value_reader(kind, True)(text)
        except ValueError as error:
            problems.add(f"{file}, column {name}, in the name of a folder: {error}")
            return None
    return values
