"""The state of a process: one SQLite file in its home, with its relations and its inbox. A turn is one transaction."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...database.commands import check_folder
from ...database.state import DatabaseState, NoState, open_file_state, telling_errors
from ...kernel.errors import JobError
from ...kernel.model import MOST_ENTRIES, FunctionSource
from ...row_kernel.batch import RowChanges
from ...row_kernel.model import RowProgram, RowRelation
from ...row_kernel.tables import quoted_sql
from ...store.extensions import supply
from ...store.retention import checked_keep
from ...system.places import make_folder, sync
from .channels import Process

STATE_FILE = "state.db"
"""The name of the file in the home of a process."""

FORMER_PARTS = ("inbox.db", "inbox.duckdb", "state")
"""What homes of earlier versions have instead."""

INBOX_TABLES = {
    "_inbox_run": "(process TEXT NOT NULL, nonce TEXT NOT NULL)",
    "_inbox_lines": "(channel TEXT PRIMARY KEY, line TEXT NOT NULL) WITHOUT ROWID",
    "_inbox_seen": "(channel TEXT, sequence INTEGER, PRIMARY KEY (channel, sequence)) WITHOUT ROWID",
    "_inbox_fed": "(relation TEXT, file TEXT, PRIMARY KEY (relation, file)) WITHOUT ROWID",
    "_inbox_covered": "(relation TEXT, file TEXT, snapshot TEXT)",
}
"""What an inbox has besides the accumulators: the process, and its run that may write, its lines, the messages that
were seen behind a missing one, and the files that were fed, also as parts of snapshots."""

StoredRow = tuple[Any, ...]
"""A tuple as it is kept."""

SignedRow = tuple[int, StoredRow]
"""A tuple that comes or goes: 1 or -1, and the tuple."""


def with_inbox(program: RowProgram, received: Iterable[str]) -> RowProgram:
    """Return the program of a process, whose file has an inbox: tables for the inputs that it has ``received``."""
    beside = [("table", name, f"CREATE TABLE {name} {columns}") for name, columns in INBOX_TABLES.items()]
    for relation in (program.inputs[name] for name in received):
        table, index = f"_received_{relation.table}", f"_received_{relation.table}__1"
        listed = "".join(f"{column}, " for column in received_columns(relation))
        key = f"PRIMARY KEY ({listed}_shown, _channel)"
        made = f"({listed}_shown INTEGER, _channel TEXT, _copies INTEGER NOT NULL, {key}) WITHOUT ROWID"
        beside.append(("table", table, f"CREATE TABLE {quoted_sql(table)} {made}"))
        on = f"{quoted_sql(table)} (_channel, _shown)"
        beside.append(("index", index, f"CREATE INDEX {quoted_sql(index)} ON {on}"))
    return replace(program, beside=tuple(beside))


def received_table(relation: RowRelation) -> str:
    """Return the name in SQL of the table with the accumulators of a relation's channels."""
    return quoted_sql(f"_received_{relation.table}")


def received_columns(relation: RowRelation) -> list[str]:
    """Return the names in SQL of the columns of a relation's accumulators."""
    return [quoted_sql(column.sql) for column in relation.tuple_columns]


class ProcessState:
    """The state of a process, which is made if its home has none."""

    def __init__(
        self,
        program: RowProgram,
        process: Process,
        home: Path,
        functions: FunctionSource = None,
        max_entries: int = MOST_ENTRIES,
        keep: str | None = None,
    ) -> None:
        """Open the state in a home. A step that makes a recursion across processes larger than ``max_entries`` is
        refused; ``keep`` says how many commits keep their changes, or for how long. Raise JobError for a home of
        another program or of an earlier version."""
        self.program, self.process, self.home = with_inbox(program, process.received), process, home
        self.supplied, self.max_entries, self.keep = supply(program, functions), max_entries, checked_keep(keep)
        self.database = self.opened()

    def opened(self) -> DatabaseState:
        """Return the database, opened."""
        make_folder(self.home)
        path, name = self.home / STATE_FILE, self.process.name
        check_folder(str(path))
        for former in (self.home / part for part in FORMER_PARTS):
            if former.exists():
                raise JobError(
                    f"{self.home} is the home of {name} in an earlier version of Flintlog, with {former.name}: start "
                    "it in a new home (--home), or move this one away; its feeds are read again then"
                )
        options: dict[str, Any] = {"supplied": self.supplied, "max_entries": self.max_entries}
        try:
            database = open_file_state(self.program, str(path), **options)
        except NoState:
            database = open_file_state(self.program, str(path), new=True, **options)
        except JobError as error:
            if type(error) is not JobError:
                raise
            raise JobError(f"{error}; start {name} in a new home (--home): its feeds are read again then") from error
        try:
            with database.transaction():
                if database.last is None:
                    database.apply({}, None, "begin")
                if self.keep is not None:
                    database.set("keep", self.keep)
                    database.keep = self.keep
            # SQLite forces its log to disk, but not the folder.
            sync(self.home)
        except BaseException:
            database.close()
            raise
        return database

    def reopen(self) -> None:
        """Open the file again in the state of its last commit."""
        self.database.connection.close()
        self.database = self.opened()

    def apply(self, changes: RowChanges, step: str) -> None:
        """Apply the changes of a step, stored rows by table, in the transaction that is open; commits whose changes
        are not kept any more are forgotten. Raise Refused, with all as before, for changes that cannot be applied."""
        with self.database.attempt():
            self.database.apply(changes, step, "serve")
            kept_from = self.database.forgotten
            self.database.connection.execute("DELETE FROM _commits WHERE number < ?", (kept_from,))

    def whole(self, relation: RowRelation) -> list[SignedRow]:
        """Return all rows of a relation, each with 1."""
        with telling_errors(self.database.path):
            return [(1, row) for row in self.database.stored_rows_of(relation)]

    def changes(self, relation: RowRelation) -> list[SignedRow]:
        """Return the net changes of a relation in the step that was applied last, while its transaction is open."""
        return [(1 if op == "+" else -1, row) for op, row in self.database.stored_net_changes(relation)]

    def close(self) -> None:
        """Close the file."""
        self.database.close()
