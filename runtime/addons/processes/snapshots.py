"""Snapshots of feeds: each stands for files that a process was fed, with the rows that remain of them.

A snapshot is a Parquet file that lists the names of the files that it covers. A process that has read all of these
ignores it. Any other process makes the relation equal to the snapshot, then reads the files that are not covered. So
it makes no difference to a reader when a feed is compacted, and how far it has read.
"""

from __future__ import annotations

import base64
import json
import re
import stat
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from ...database.parquet import take_parquet
from ...database.reading import FORMATS, RowReading, StoredChange, read_sources
from ...engines.arrow import string_array, table_of_rows
from ...inputs.records import refused
from ...kernel.errors import reason
from ...row_kernel.encodings import decoded_row
from ...row_kernel.model import RowProgram, RowRelation
from ...store.published_names import operation_column
from ...system.log import Log
from .state import StoredRow

FORMATS.setdefault("parquet", take_parquet)

SNAPSHOT_FILE = re.compile(r"snapshot-[0-9a-f]{16}\.parquet")
"""The name of a snapshot, and the key of its metadata with the names of the files that it covers."""

COVERED = b"flintlog.covered"


class Replacement(NamedTuple):
    """The effect of a snapshot: the files that it ``covers``, those to be read ``again`` after it, and the ``changes``
    that make the relation equal to it."""

    covers: frozenset[str]
    again: frozenset[str]
    changes: list[StoredChange]


@dataclass(frozen=True)
class Listing:
    """The files of a feed by name, without dot files, and the names that each snapshot among them covers."""

    files: tuple[str, ...]
    snapshots: Mapping[str, frozenset[str]]

    @property
    def covered(self) -> frozenset[str]:
        """Return the names of all files that a snapshot covers."""
        return frozenset[str]().union(*self.snapshots.values())

    def passed(self, known: Collection[str]) -> list[str]:
        """Return the snapshots that a process can ignore, since it has read the files ``known``."""
        return [n for n, covers in self.snapshots.items() if n not in known and covers.issubset(known)]

    def waiting(self, known: Collection[str], passed: Collection[str]) -> list[str]:
        """Return the files that a process which has read ``known`` has to read, in order, the widest snapshot first;
        ``passed`` are the snapshots that it can ignore."""
        done = {*known, *self.covered, *passed}
        first = [name for name in self.snapshots if name not in done]
        first.sort(key=lambda name: -len(self.snapshots[name]))
        return [*first[:1], *(name for name in self.files if name not in done and name not in self.snapshots)]


class FeedFolder:
    """The folder with the files that a process is fed for a relation."""

    def __init__(self, folder: Path) -> None:
        """Look at nothing yet."""
        self.folder = folder
        #: By name, the files that snapshots cover, as far as they were read.
        self.covers: dict[str, frozenset[str]] = {}

    def listing(self) -> Listing:
        """Return what is there; nothing if there is no folder. Raise OSError or Refused if it cannot be read."""
        names = self._names()
        while True:
            # Covered files are removed after the snapshot is there, but a folder is not listed in one moment.
            again = self._names()
            if snapshots_in(again) == snapshots_in(names):
                break
            names = again
        covers = {}
        for name in snapshots_in(names):
            covered = self.covers.get(name)
            if covered is None:
                try:
                    covered = covered_names(self.folder / name)
                except FileNotFoundError:
                    continue
            if covered is not None:
                covers[name] = covered
        self.covers = covers
        return Listing(tuple(names), covers)

    def _names(self) -> list[str]:
        try:
            return sorted(path.name for path in self.folder.iterdir() if path.name[0] != ".")
        except FileNotFoundError:
            return []


def snapshots_in(found: Sequence[str]) -> list[str]:
    """Return the file names that may be those of snapshots."""
    return [name for name in found if SNAPSHOT_FILE.fullmatch(name)]


def covered_names(path: Path) -> frozenset[str] | None:
    """Return the names of the files that a snapshot covers, None if the file is none; raise Refused if damaged."""
    if not stat.S_ISREG(path.stat().st_mode):
        return None
    try:
        with path.open("rb") as file:
            said = (pq.read_schema(file).metadata or {}).get(COVERED)
        return None if said is None else frozenset(json.loads(zlib.decompress(base64.b64decode(said))))
    except (pa.ArrowException, ValueError, zlib.error) as error:
        raise refused(f"{path} is damaged, so it is not known which files it stands for ({reason(error)})") from error


def replacement(program: RowProgram, name: str, path: Path, listing: Listing, rows: Iterable[StoredRow]) -> Replacement:
    """Return what a snapshot changes in an input relation, which has ``rows``. Raise Refused if it is damaged."""
    relation, covers = program.inputs[name], listing.snapshots[path.name]
    width = len(relation.row_columns)
    # Of a multiset, copies count.
    known = Counter(row[:width] for row in rows)
    whole = Counter(row for _, row in changes_in(program, name, path))
    changes = [("-", row) for row in (known - whole).elements()] + [("+", row) for row in (whole - known).elements()]
    return Replacement(covers, frozenset(listing.files) - covers - {path.name}, changes)


def changes_in(program: RowProgram, name: str, path: Path) -> list[StoredChange]:
    """Return the net changes in a file of a feed. Raise Refused if it is wrong."""
    read = read_sources(program, {name: [str(path)]}, RowReading(), Log(quiet=True))
    return read[program.inputs[name].table]


def change_table(changes: Sequence[StoredChange], relation: RowRelation) -> pa.Table:
    """Return changes as an Arrow table, as a file of a feed has them."""
    columns, operation = relation.columns, operation_column(relation.columns)
    signs = string_array("+" if op in "+>" else "-" for op, _ in changes)
    if not columns:
        return pa.table({operation: signs})
    rows = [decoded_row(columns, row) for _, row in changes]
    return table_of_rows({column.name: column.type for column in columns}, rows).append_column(operation, signs)
