"""Files with the rows that batches of a state in one SQLite file set aside. Scripts lack them; ``flintlog job`` has
them.

The rows are in the transaction of their batch. Once it is committed they move to their files: if the command is killed
in between, by the next command of ``flintlog job`` that applies a batch.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..database.reading import SET_ASIDE
from ..database.state import CommitRecord, DatabaseState
from ..job.shared_options import add_quarantine
from ..kernel.errors import Passing, reason
from ..row_kernel.model import RowRelation
from ..store.published_names import batch_folder
from ..system.log import Log
from ..system.places import make_folder, sync
from .quarantine import quarantine_folder, row_line


class FileQuarantine:
    """The rows that a batch sets aside: lines of JSON by relation, and once the batch is known, their files."""

    def __init__(self, place: str) -> None:
        """Take the folder; raise JobError if files cannot be renamed there."""
        self.place = quarantine_folder(place).absolute()
        self.lines: dict[str, list[str]] = {}
        self.folders: dict[str, str] = {}

    def add(self, relation: RowRelation, file: str, row: int, found: Sequence[tuple[str, str]], values: Any) -> None:
        """Set a row aside."""
        self.folders[relation.name] = relation.table
        self.lines.setdefault(relation.name, []).append(row_line(relation.name, file, row, found, values))

    def note(self, database: DatabaseState, record: CommitRecord) -> dict[str, Any]:
        """Keep the rows in the transaction that is open, which makes a commit. Return their numbers, and their files,
        by relation, as results have them; nothing if there are none."""
        folder = self.place / batch_folder(record.batch)
        name = f"{record.number:012d}-{uuid.uuid4().hex[:8]}.jsonl"
        files = {relation: str(folder / self.folders[relation] / name) for relation in self.lines}
        if not files:
            return {}
        lines = {file: "".join(self.lines[relation]) for relation, file in files.items()}
        database.record("set_aside", database.records("set_aside") | lines)
        return {"set_aside": {relation: len(rows) for relation, rows in self.lines.items()}, "quarantine": files}


def write_set_aside(database: DatabaseState, log: Log) -> None:
    """Write the rows that commits have set aside to their files. Raise Passing if that fails: the next command does
    it."""
    waiting: Mapping[str, str] = database.records("set_aside")
    for file, lines in waiting.items():
        path = Path(file)
        hidden = path.with_name(f".{path.name}")
        try:
            make_folder(path.parent)
            with hidden.open("w", encoding="utf-8") as content:
                content.write(lines)
                content.flush()
                os.fsync(content.fileno())
            hidden.rename(path)
            sync(path.parent)
        except OSError as error:
            raise Passing(
                f"the batch is applied, and rows that it has set aside cannot be written to {path.parent} "
                f"({reason(error)}); the next batch that `flintlog job` applies writes them"
            ) from error
        log.event("set aside", relation=path.parent.name, rows=lines.count("\n"), file=file)
    if waiting:
        with database.transaction():
            database.record("set_aside", {f: t for f, t in database.records("set_aside").items() if f not in waiting})


SET_ASIDE.update(option=add_quarantine, open=FileQuarantine, write=write_set_aside)
