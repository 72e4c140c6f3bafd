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

from ...database.reading import StoredChange
from ...database.state import MEMORY, open_file_state
from ...kernel.errors import JobError, Refused
from ...row_kernel.model import RowProgram, RowRelation
from ...system.places import sync
from .channels import table_bytes, write_whole
from .feeds import not_food
from .snapshots import COVERED, FeedFolder, change_table, changes_in


def compact_feed(program: RowProgram, name: str, folder: Path, read: Collection[str]) -> tuple[int, str, int]:
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
        relation = program.inputs[name]
        rows = remaining_rows(program, relation, [folder / file for file in (*base, *chosen)])
        covers = frozenset[str]().union(*(listing.snapshots[file] for file in base), base, chosen)
        snapshot = write_snapshot(folder, relation, rows, covers)
        remove_files(folder, covers)
        return len(base) + len(chosen), snapshot, len(rows)


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


def remaining_rows(program: RowProgram, relation: RowRelation, paths: Sequence[Path]) -> list[StoredChange]:
    """Return the rows of a relation after the files of a feed in order, as insertions."""
    orders = tuple((table, by) for table, by in program.orders if table == relation.table)
    alone = RowProgram(program.name, "", program.compiler, (relation,), (), orders)
    with open_file_state(alone, MEMORY, new=True) as database:
        with database.transaction():
            database.apply({}, None, "begin")
        for path in paths:
            try:
                changes = changes_in(program, relation.name, path)
                with database.transaction():
                    database.apply({relation.table: changes}, None)
            except Refused as error:
                raise JobError(f"{path}: {error.plain}; nothing was compacted") from error
        return [("+", row[: len(relation.row_columns)]) for row in database.stored_rows_of(relation)]


def write_snapshot(folder: Path, relation: RowRelation, rows: list[StoredChange], covers: frozenset[str]) -> str:
    """Write a snapshot of a feed, force it and its name to disk, and return the name."""
    name = f"snapshot-{uuid.uuid4().hex[:16]}.parquet"
    said = base64.b64encode(zlib.compress(json.dumps(sorted(covers)).encode()))
    table = change_table(rows, relation).replace_schema_metadata({COVERED: said})
    write_whole(folder / name, table_bytes(table), forced=True)
    return name


def remove_files(folder: Path, files: Collection[str]) -> None:
    """Remove the files of a feed that a snapshot covers."""
    gone = [name for name in files if os.path.lexists(folder / name)]
    for name in gone:
        (folder / name).unlink(missing_ok=True)
    if gone:
        sync(folder)
