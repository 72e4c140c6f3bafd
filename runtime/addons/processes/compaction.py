"""Compact the feed of a process: replace the files that it has read by a snapshot."""

from __future__ import annotations

import base64
import contextlib
import errno
import json
import os
import uuid
import zlib
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from ...engines.arrow import ROWS_AT_ONCE, arrow_type
from ...engines.duckdb import DuckEngine
from ...inputs.records import input_relation
from ...kernel.changes import resolve_input
from ...kernel.errors import JobError, Refused
from ...kernel.model import Program, Relation
from ...kernel.sql import names
from ...store.published_names import operation_column
from ...system.places import sync
from .channels import table_bytes, write_whole
from .feeds import not_food
from .snapshots import COVERED, FeedFolder, staged_rows


def compact_feed(program: Program, name: str, folder: Path, read: Collection[str]) -> tuple[int, str, int]:
    """Replace the files of a feed, up to the first one that its process has not ``read``, by a snapshot; return the
    number of files, the name of the snapshot and its number of rows. Without a file to replace, the name is empty.

    The snapshot is forced to disk before files are removed, and what a killed command has left is removed first. Raise
    JobError if a file is refused, or if the feed is being compacted.
    """
    with locked_feed(folder):
        for path in folder.glob(".snapshot-*"):
            path.unlink()
        listing = FeedFolder(folder).listing()
        remove_files(folder, listing.covered)
        pending = [name for name in listing.files if name not in listing.covered]
        base = [name for name in pending if name in listing.snapshots]
        if base[1:]:
            raise JobError(f"{folder} has several snapshots, of which none stands for the other: {', '.join(base)}")
        chosen: list[str] = []
        for file in (file for file in pending if file not in base and not not_food(folder / file)):
            if file not in read:
                break
            chosen.append(file)
        if not chosen:
            return 0, "", 0
        relation = input_relation(program, name)
        rows = remaining_rows(program, relation, [folder / file for file in (*base, *chosen)])
        covers = frozenset[str]().union(*(listing.snapshots[file] for file in base), base, chosen)
        snapshot = write_snapshot(folder, relation, rows, covers)
        remove_files(folder, covers)
        return len(base) + len(chosen), snapshot, rows.num_rows


@contextlib.contextmanager
def locked_feed(folder: Path) -> Iterator[None]:
    """Hold the lock of a feed; raise JobError if another command has it, or if there is no such folder."""
    import fcntl

    try:
        descriptor = os.open(folder / ".compact.lock", os.O_RDWR | os.O_CREAT, 0o666)
    except (FileNotFoundError, NotADirectoryError):
        raise JobError(f"{folder} is not a folder") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            raise JobError(f"{folder} is being compacted by another command") from None
        yield
    finally:
        os.close(descriptor)


def remaining_rows(program: Program, relation: Relation, paths: Sequence[Path]) -> pa.Table:
    """Return the rows of a relation after the files of a feed in order: the columns of a tuple."""
    table = relation.tables
    with contextlib.closing(DuckEngine()) as engine:
        engine.empty(table, relation.state_columns)
        for path in paths:
            try:
                engine.connection.register("staged", staged_rows(program, relation.name, path))
                engine.table(table.changes, "SELECT * FROM staged")
                resolve_input(engine, relation)
            except Refused as error:
                raise JobError(f"{path}: {error.plain}; nothing was compacted") from error
        columns = names(relation.tuple_columns)
        order = ", ".join(column.sql for column in relation.tuple_columns)
        # The engine keeps no order in tables.
        rows: pa.Table = engine.arrow_reader(f"SELECT {columns} FROM {table} ORDER BY {order}", ROWS_AT_ONCE).read_all()
    return rows


def write_snapshot(folder: Path, relation: Relation, rows: pa.Table, covers: frozenset[str]) -> str:
    """Write a snapshot of a feed, force it and its name to disk, and return the name."""
    name = f"snapshot-{uuid.uuid4().hex[:16]}.parquet"
    fields = [pa.field(column.name, arrow_type(column.type)) for column in relation.columns]
    arrays: list[Any] = [rows.column(column.sql).cast(arrow_type(column.type)) for column in relation.columns]
    fields.append(pa.field(operation_column(relation.columns), pa.string()))
    arrays.append(pa.array(["+"] * rows.num_rows))
    said = base64.b64encode(zlib.compress(json.dumps(sorted(covers)).encode()))
    write_whole(folder / name, table_bytes(pa.table(arrays, schema=pa.schema(fields, {COVERED: said}))), forced=True)
    return name


def remove_files(folder: Path, files: Collection[str]) -> None:
    """Remove the files of a feed that a snapshot covers."""
    gone = [name for name in files if os.path.lexists(folder / name)]
    for name in gone:
        (folder / name).unlink(missing_ok=True)
    if gone:
        sync(folder)
