"""Files with the rows that batches of a state in one SQLite file set aside. Scripts lack them; ``flintlog job`` has
them.

The rows are in the transaction of their batch. Once it is committed they move to their files: if the command is killed
in between, by the next command of ``flintlog job`` that applies a batch with ``--quarantine``. The file says nothing of
folders, since it may be somebody else's: files are only made below the folder of the command.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..database.reading import SET_ASIDE
from ..database.schema import SETTINGS_READ
from ..database.state import CommitRecord, DatabaseState
from ..job.shared_options import add_quarantine
from ..kernel.errors import JobError, Passing, reason
from ..row_kernel.model import RowRelation
from ..store.published_names import batch_folder, check_batch
from ..system.log import Log
from ..system.places import make_folder, sync
from .quarantine import quarantine_folder, row_line

WAITING = "set_aside"
"""The setting with the rows that are to be written to files: by the names of files, the ID of the batch, and the lines
by table."""

FILE_OF_ROWS = re.compile(r"[0-9]{12}-[0-9a-f]{8}\.jsonl")


class FileQuarantine:
    """The rows that a batch sets aside, as lines of JSON by table."""

    def __init__(self, place: str) -> None:
        """Take the folder; raise JobError if files cannot be renamed there."""
        self.place = quarantine_folder(place).absolute()
        self.lines: dict[str, list[str]] = {}
        self.names: dict[str, str] = {}

    def add(self, relation: RowRelation, file: str, row: int, found: Sequence[tuple[str, str]], values: Any) -> None:
        """Set a row aside."""
        self.names[relation.table] = relation.name
        self.lines.setdefault(relation.table, []).append(row_line(relation.name, file, row, found, values))

    def note(self, database: DatabaseState, record: CommitRecord) -> dict[str, Any]:
        """Keep the rows in the transaction that is open, which makes a commit, and make the folders of their files.
        Return their numbers, and their files, by relation, as results have them; nothing if there are none. Raise
        JobError if a folder cannot be made."""
        if not self.lines:
            return {}
        name = f"{record.number:012d}-{uuid.uuid4().hex[:8]}.jsonl"
        files = {table: file_of_rows(self.place, record.batch, table, name) for table in self.lines}
        for file in files.values():
            try:
                make_folder(file.parent)
            except OSError as error:
                raise JobError(
                    f"rows cannot be set aside in {file.parent} ({reason(error)}); nothing has changed"
                ) from error
        lines = {table: "".join(rows) for table, rows in self.lines.items()}
        database.record(WAITING, database.records(WAITING) | {name: [record.batch, lines]})
        return {
            "set_aside": {self.names[table]: len(rows) for table, rows in self.lines.items()},
            "quarantine": {self.names[table]: str(file) for table, file in files.items()},
        }


def file_of_rows(place: Path, batch: str, table: str, name: str) -> Path:
    """Return the path below a folder of a file with the rows of a table that a batch has set aside."""
    return place / batch_folder(batch) / table / name


def write_set_aside(database: DatabaseState, place: str | None, log: Log) -> None:
    """Write the rows that commits have set aside to their files below a folder, and warn if there are any but no
    folder. Raise Passing if that fails: the next command does it."""
    waiting = database.records(WAITING)
    if not waiting:
        return
    if place is None:
        log.warn(
            f"{database.path} has rows that batch {next(iter(waiting.values()))[0]} has set aside, and that no command "
            "has written to their files yet: the next one with --quarantine DIR does"
        )
        return
    for name, (batch, tables) in waiting.items():
        for table, lines in tables.items():
            path = file_of_rows(quarantine_folder(place).absolute(), batch, table, name)
            try:
                write_new_file(path, lines)
            except OSError as error:
                raise Passing(
                    f"the batch is applied, and rows that it has set aside cannot be written to {path.parent} "
                    f"({reason(error)}); the next batch that `flintlog job` applies with --quarantine writes them"
                ) from error
            log.event("set aside", relation=table, rows=lines.count("\n"), file=str(path))
    with database.transaction():
        database.record(WAITING, {f: t for f, t in database.records(WAITING).items() if f not in waiting})


def write_new_file(path: Path, text: str) -> None:
    """Make a file with a text, forced to disk; one that is there stays, as a command that was killed wrote it."""
    hidden = path.with_name(f".{path.name}")
    make_folder(path.parent)
    with hidden.open("w", encoding="utf-8") as content:
        content.write(text)
        content.flush()
        os.fsync(content.fileno())
    if os.path.lexists(path):
        hidden.unlink()
    else:
        hidden.rename(path)
    sync(path.parent)


def are_rows_waiting(text: str) -> bool:
    """Return whether a text is a JSON object of rows that are to be written to files, whose names can do no harm."""
    for name, (batch, tables) in json.loads(text).items():
        check_batch(batch)
        if not FILE_OF_ROWS.fullmatch(name) or not all(
            is_file_name(table) and isinstance(lines, str) for table, lines in tables.items()
        ):
            return False
    return True


def is_file_name(name: str) -> bool:
    """Return whether a text can be the name of a folder in another one."""
    return name.isprintable() and name not in ("", ".", "..") and "/" not in name and "\\" not in name


SETTINGS_READ[WAITING] = are_rows_waiting
SET_ASIDE.update(option=add_quarantine, open=FileQuarantine, write=write_set_aside)
