"""A state in one SQLite file: a batch is one transaction."""

from __future__ import annotations

import contextlib
import itertools
import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

from ..kernel.errors import JobError, Passing, Refused
from ..kernel.model import MOST_ENTRIES, MOST_ROUNDS
from ..row_kernel.batch import RowChanges, maintain_all, row_tables
from ..row_kernel.encodings import decoded_row, define_functions
from ..row_kernel.model import RowProgram, RowRelation
from ..row_kernel.recount import row_differences
from ..row_kernel.tables import RowTables, listed
from ..store.manifest import fed_elsewhere, is_moment, parsed_moment
from ..store.retention import UNITS, moment_after, moment_text
from .schema import (
    APPLICATION_ID,
    CLOCK,
    ORDERED,
    SCHEMA_VERSION,
    changes_table,
    check_origin,
    check_schema,
    check_settings,
    expected_schema,
    is_count,
    is_empty,
    logged,
    relation_records,
)

SETTINGS_OF_CONNECTIONS = (
    "trusted_schema = OFF",
    "cell_size_check = ON",
    "temp_store = MEMORY",
    "automatic_index = OFF",
    "cache_size = -65536",  # 64 MiB
)
"""Nothing of a file is executed that might be somebody else's; work tables are in memory; and joins use the indexes
that the compiler has chosen."""

LOCK_SECONDS = 30.0
"""How long a command waits for another one that writes to the file."""

COMMITS_LOGGED = "1000"
"""How many commits keep their changes unless a state says otherwise."""

MEMORY = ":memory:"

Result = dict[str, Any]
"""What a command returns, and prints as JSON."""

LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
FULL = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)


BATCHES = {"apply": "batch"}
"""What generated IDs call batches, if not by the command."""

EXTERNAL: dict[str, Callable[..., None]] = {}
"""What defines external functions for a connection; its module registers it."""


class NoState(JobError):
    """Raised for a file that has no state."""


class StateExists(JobError):
    """Raised for a file that is to get a state and has one."""

    def __init__(self, path: str) -> None:
        super().__init__(f"there is a database in {path} already; `apply` changes the state of a program")


class CommitRecord(NamedTuple):
    """A commit, as _commits has it: its number, the ID of its batch and whether the state has ``generated`` it, the
    command that made it, the batch that it reverts, its time in UTC, the greatest rank, and by table the number of its
    tuples and how many were inserted and deleted."""

    number: int
    batch: str
    generated: bool
    command: str
    reverts: str | None
    time: str
    clock: int
    rows: dict[str, int]
    changes: dict[str, list[int]]


def commit_of_row(row: Sequence[Any]) -> CommitRecord:
    """Return a commit as _commits has it; raise JobError if it is damaged."""
    try:
        rows, changes = map(json.loads, row[-2:])
        counts = [row[0], row[6], *rows.values(), *itertools.chain(*changes.values())]
        if all(map(is_count, counts)) and row[5] and is_moment(row[5]):
            return CommitRecord._make((*row[:-2], rows, changes))
    except (ValueError, TypeError, AttributeError, RecursionError):
        pass
    raise JobError(f"the state is damaged: the record of commit {row[0]} cannot be read")


@contextlib.contextmanager
def telling_errors(path: str) -> Iterator[None]:
    """Raise errors of SQLite as those of a job."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in LOCKED:
            raise Passing(f"another process has locked {path}; it was waited for, for {LOCK_SECONDS:.0f} s") from error
        if code == sqlite3.SQLITE_NOTADB:
            raise JobError(f"{path} is not an SQLite database") from error
        if code == sqlite3.SQLITE_CORRUPT:
            raise JobError(f"{path} is damaged: {error}; restore it from a copy") from error
        if isinstance(error, sqlite3.ProgrammingError) and "closed database" in str(error):
            raise JobError(f"{path} is closed") from error
        if code in FULL:
            raise Passing(f"{path} cannot be read or written: {error}") from error
        if code == sqlite3.SQLITE_TOOBIG:
            raise Refused(f"a value is too large for SQLite: {error}") from error
        raise


class DatabaseState:
    """The relations of a program in an SQLite file, or in memory.

    Like its connection, it belongs to the thread that has made it, unless it is not of ``one_thread``.
    """

    one_thread = True

    def __init__(
        self,
        program: RowProgram,
        path: str,
        supplied: Any | None = None,
        max_rounds: int = MOST_ROUNDS,
        max_entries: int = MOST_ENTRIES,
    ) -> None:
        """Open a file, which may be empty; see :func:`open_file_state`."""
        self.program, self.path, self.supplied = program, path, supplied
        with telling_errors(path):
            self.connection = sqlite3.connect(
                path, LOCK_SECONDS, isolation_level=None, check_same_thread=self.one_thread, cached_statements=4000
            )
            for setting in SETTINGS_OF_CONNECTIONS:
                self.connection.execute(f"PRAGMA {setting}")
        self.connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        self.tables: RowTables = row_tables(program, self.connection)
        self.tables.max_rounds, self.tables.max_entries = max_rounds, max_entries
        define_functions(self.connection)
        #: What brings the relations up to date, from the changes of inputs.
        self.maintain = maintain_all
        self.failures: list[str] = []
        if supplied is not None:
            EXTERNAL["define"](self.connection, program, supplied, self.failures)
        self.last: CommitRecord | None = None
        self.settings: dict[str, str] = {}
        self.keep = COMMITS_LOGGED
        self.as_of: Any = None

    def __enter__(self) -> DatabaseState:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        with telling_errors(self.path):
            self.connection.close()

    # ---- opening ---------------------------------------------------------------------------------------------------

    def make_schema(self) -> None:
        """Put the tables and views of the program that are not there yet into the database, in the transaction that is
        open."""
        execute = self.connection.execute
        execute(f"PRAGMA application_id = {APPLICATION_ID}")
        execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        there = {*execute("SELECT type, name FROM sqlite_schema")}
        for key, sql in expected_schema(self.tables).items():
            if key not in there:
                execute(sql)
        # What another process may have changed since this one has opened the file stays.
        first = {"keep": self.keep, "forgotten": "1", "begun": "{}", "lost_inputs": "{}"}
        own = {
            "program": self.program.name,
            "sha256": self.program.sha256,
            "compiler": self.program.compiler,
            "relations": relation_records(self.program),
            "functions": json.dumps(dict(self.supplied.sources) if self.supplied else {}),
        }
        self.connection.executemany("INSERT OR IGNORE INTO _settings VALUES (?, ?)", first.items())
        self.connection.executemany("REPLACE INTO _settings VALUES (?, ?)", own.items())
        self.settings = own

    def read_settings(self, recomputes: bool = False) -> None:
        """Read the last commit, and what the file says of itself. Raise JobError if it is of another program or has
        other functions, unless the command ``recomputes`` everything."""
        # All of it is of one commit.
        self.connection.execute("BEGIN")
        try:
            self.settings = check_origin(self.connection, self.path)
            self.keep = self.settings["keep"]
            counted = json.loads(self.settings["statistics"])
            self.tables.statistics = {
                (name, tuple(columns)): (rows, values, changes)
                for name, columns, rows, values, changes in counted
                if name in self.tables.tables and {*columns} <= {*self.tables.tables[name].columns}
            }
            if not recomputes:
                check_settings(self.program, self.settings, self.path)
                check_schema(self.connection, self.tables, self.path, self.sequences)
                if self.supplied:
                    self.supplied.check(json.loads(self.settings["functions"]))
            self.refresh()
        finally:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")

    def refresh(self) -> None:
        """Read the last commit again: another process may have made one. Raise JobError if it has converted the
        file."""
        for name, what in (("relations", "the program"), ("functions", "its functions")):
            if self.setting(name) != self.settings[name]:
                raise JobError(f"{self.path} was converted to another version of {what}; open it again with that one")
        row = self.connection.execute("SELECT * FROM _commits ORDER BY number DESC LIMIT 1").fetchone()
        if row is None:
            raise JobError(f"{self.path} is damaged: it has no commit")
        self.last = commit_of_row(row)
        self.tables.clock = self.last.clock
        for name, rows in self.last.rows.items():
            if name in self.tables.tables:
                self.tables.tables[name].rows = rows

    @property
    def forgotten(self) -> int:
        """The commit up to which changes are not kept."""
        return int(self.setting("forgotten"))

    def kept_from(self, relation: RowRelation) -> int:
        """Return the commit since which the changes of a relation are kept."""
        return max(self.forgotten, int(json.loads(self.setting("begun")).get(relation.table, 1)))

    def setting(self, name: str) -> str:
        """Return what the file says of itself under a name."""
        (text,) = self.connection.execute("SELECT value FROM _settings WHERE name = ?", (name,)).fetchone()
        return str(text)

    def set(self, name: str, text: str) -> None:
        """Let the file say something of itself."""
        self.connection.execute("UPDATE _settings SET value = ? WHERE name = ?", (text, name))

    @property
    def feeds(self) -> Any:
        """The records of the feeds of inputs, by their names, as JSON."""
        return self.records("feeds")

    @property
    def sequences(self) -> Any:
        """The records of the inputs that keep the sequences of their keys, by their names, as JSON."""
        kept = self.records("sequences") if ORDERED else {}
        return {name: kept[name] for name, relation in self.program.inputs.items() if relation.key and name in kept}

    def records(self, name: str) -> Any:
        """Return the records of inputs under a name, none if the file has no such setting."""
        row = self.connection.execute("SELECT value FROM _settings WHERE name = ?", (name,)).fetchone()
        return json.loads(row[0]) if row else {}

    def record(self, name: str, records: Any) -> None:
        """Let the file have records of inputs under a name."""
        self.connection.execute("REPLACE INTO _settings VALUES (?, ?)", (name, json.dumps(records)))

    def unfed(self, changes: dict[str, Any]) -> dict[str, Any]:
        """Return changes by table; raise JobError for those of an input that has a feed."""
        feeds = self.feeds
        for name, relation in self.program.inputs.items():
            if changes.get(relation.table) and name in feeds:
                raise fed_elsewhere(name, feeds[name]["source"])
        return changes

    def check_order(self, tables: Mapping[str, Any], order_column: str | None = None) -> None:
        """Raise JobError if one of the inputs with changes in ``tables`` keeps sequences by another order column."""
        if self.sequences:
            changed = [name for name, relation in self.program.inputs.items() if tables.get(relation.table)]
            ORDERED["check"](self, changed, order_column)

    @property
    def commit(self) -> CommitRecord:
        """The last commit."""
        assert self.last is not None
        return self.last

    # ---- batches ---------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Make what the body does one transaction, or nothing if it fails."""
        with telling_errors(self.path), self.undone("ROLLBACK"):
            self.connection.execute("BEGIN IMMEDIATE")
            if self.last is not None:
                self.refresh()
            yield
            self.connection.execute("COMMIT")

    @contextlib.contextmanager
    def attempt(self) -> Iterator[None]:
        """Undo what the body does in the transaction that is open, and nothing else of it, if the body fails."""
        with telling_errors(self.path), self.undone("ROLLBACK TO attempt"):
            self.connection.execute("SAVEPOINT attempt")
            yield
            self.connection.execute("RELEASE attempt")

    @contextlib.contextmanager
    def undone(self, statement: str) -> Iterator[None]:
        """Undo what the body does by a statement if it fails."""
        made, clock, last = set(self.tables.made), self.tables.clock, self.last
        try:
            yield
        except BaseException:
            if self.connection.in_transaction:
                self.connection.execute(statement)
            self.tables.made, self.tables.clock, self.last = made, clock, last
            raise

    def apply(
        self, changes: RowChanges, batch: str | None, command: str = "apply", reverts: str | None = None
    ) -> CommitRecord:
        """Apply changes of stored rows by table in the transaction that is open, and return the new commit; the first
        one makes the tables. Without the ID of a ``batch``, generate one. Raise Refused for a batch that cannot be
        applied."""
        before = self.last
        if before is None:
            if not is_empty(self.connection):
                # Another process was faster.
                raise StateExists(self.path)
            self.make_schema()
        self.failures.clear()
        try:
            self.maintain(self.tables, self.timed(changes), before is None)
        except Refused as error:
            raise self.with_failures(error) from error
        counts, rows = {}, dict(before.rows) if before else {}
        for relation in self.program.relations:
            table = self.tables.tables[relation.table]
            rows[relation.table] = rows.get(relation.table, 0) + table.gained - table.lost
            if table.gained or table.lost:
                counts[relation.table] = [table.gained, table.lost]
        record = self.add_commit(batch, command, reverts, rows, counts)
        self.log_changes(record.number)
        return record

    def timed(self, changes: RowChanges) -> RowChanges:
        """Return changes by table with those of the time of a batch, ``as_of`` or now, if the program reads it."""
        timed: RowChanges = CLOCK["changes"](self, changes) if CLOCK else changes
        return timed

    def with_failures(self, error: Refused) -> Refused:
        """Return the error of a batch with what external functions have raised."""
        fault, advice, details, options, about = error.parts
        failed = "".join(f"\n  {failure}" for failure in dict.fromkeys(self.failures))
        return Refused(fault, advice, f"{details}{failed}", options, about)

    def add_commit(
        self,
        batch: str | None,
        command: str,
        reverts: str | None,
        rows: dict[str, int],
        changes: dict[str, list[int]],
    ) -> CommitRecord:
        """Add a commit with these numbers of tuples and changes, and delete the changes of commits that are not kept
        any more."""
        before = self.last
        record = self.last = CommitRecord(
            before.number + 1 if before else 1,
            batch or self.new_batch(command),
            batch is None,
            command,
            reverts,
            moment_after(before.time if before else ""),
            self.tables.clock,
            rows,
            changes,
        )
        marks = ", ".join("?" * len(record))
        values = (*record[:-2], json.dumps(rows), json.dumps(changes))
        self.connection.execute(f"INSERT INTO _commits VALUES ({marks})", values)
        if self.tables.statistics:
            counted = json.dumps([[*key, *numbers] for key, numbers in sorted(self.tables.statistics.items())])
            self.connection.execute("REPLACE INTO _settings VALUES ('statistics', ?)", (counted,))
        self.forget_changes(record.number, record.time)
        return record

    def log_changes(self, number: int) -> None:
        """Keep the net changes of a commit; those of the first one are its rows."""
        if number == 1:
            return
        for relation in logged(self.program):
            table = self.tables.tables[relation.table]
            columns = listed(table.columns)
            for op, count, suffix in (("-", table.lost, "lost"), ("+", table.gained, "gained")):
                if count:
                    self.connection.execute(
                        f"INSERT INTO {changes_table(relation)} (_commit, _op, {columns}) "
                        f"SELECT ?, ?, {columns} FROM {table.work(suffix)}",
                        (number, op),
                    )

    def forget_changes(self, number: int, time: str) -> None:
        """Delete the changes of commits that are not kept any more; the commits themselves stay."""
        if self.keep.isdigit():
            oldest = number - int(self.keep) + 1
        else:
            since = moment_text(parsed_moment(time) - timedelta(**{UNITS[self.keep[-1]]: int(self.keep[:-1])}))
            (oldest,) = self.connection.execute("SELECT MIN(number) FROM _commits WHERE time >= ?", (since,)).fetchone()
        if oldest - 1 > self.forgotten:
            for relation in logged(self.program):
                self.connection.execute(f"DELETE FROM {changes_table(relation)} WHERE _commit < ?", (oldest,))
            self.set("forgotten", str(oldest - 1))

    def commit_of_batch(self, batch: str) -> CommitRecord | None:
        """Return the commit of a batch, None if there is none."""
        row = self.connection.execute("SELECT * FROM _commits WHERE batch = ?", (batch,)).fetchone()
        return row and commit_of_row(row)

    def known_batch(self, batch: str | None) -> CommitRecord | None:
        """Return the commit of the batch with this ID, None if there is none; raise JobError if the state has generated
        the ID itself."""
        found = self.commit_of_batch(batch) if batch is not None else None
        if found and found.generated:
            raise JobError(f"{batch} is an ID that this state generated for another batch; choose a different one")
        return found

    def new_batch(self, command: str) -> str:
        """Return an ID that no batch has: what the batch is, and the number of the next commit, or a higher one."""
        if self.last is None:
            return command
        names = (f"{BATCHES.get(command, command)}-{i:06d}" for i in itertools.count(self.commit.number + 1))
        return next(name for name in names if not self.commit_of_batch(name))

    # ---- reading ---------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Let the body read one commit, the last one; the file stays as it is. Raise JobError if another process has
        converted it."""
        made = set(self.tables.made)
        with telling_errors(self.path):
            self.connection.execute("BEGIN")
            try:
                self.refresh()
                yield
            finally:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                self.tables.made = made

    def net_changes(self, relation: RowRelation) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """Yield the net changes of a relation in the last batch that this object has applied."""
        columns = relation.term_columns
        for op, row in self.stored_net_changes(relation):
            yield op, decoded_row(columns, row[: len(columns)])

    def stored_net_changes(self, relation: RowRelation) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """Yield the same with rows as they are stored."""
        table = self.tables.tables[relation.table]
        for op, count, suffix in (("-", table.lost, "lost"), ("+", table.gained, "gained")):
            if count:
                for row in self.connection.execute(f"SELECT {listed(table.columns)} FROM {table.work(suffix)}"):
                    yield op, row

    def stored_rows_of(self, relation: RowRelation) -> Iterator[tuple[Any, ...]]:
        """Yield the tuples of a relation as they are stored, in their order."""
        columns = listed(self.tables.tables[relation.table].columns)
        yield from self.connection.execute(
            f"SELECT {columns} FROM {self.tables.tables[relation.table].name} ORDER BY {columns}"
        )

    def rows(
        self, relation: RowRelation, where: str = "", values: Sequence[Any] = (), hidden: Sequence[str] = ()
    ) -> Iterator[tuple[Any, ...]]:
        """Yield the tuples of a relation in the order of their stored values, each with some of its ``hidden`` columns;
        ``where`` is SQL that chooses some, by ``values``."""
        table, columns = self.tables.tables[relation.table], relation.term_columns
        query = f"SELECT {listed((*table.columns, *hidden))} FROM {table.name}{where} ORDER BY {listed(table.columns)}"
        for row in self.connection.execute(query, values):
            yield (*decoded_row(columns, row[: len(columns)]), *row[len(table.columns) :])

    def commits(self, first: int = 1) -> Iterator[CommitRecord]:
        """Yield the commits from a number on."""
        query = "SELECT * FROM _commits WHERE number >= ? ORDER BY number"
        return map(commit_of_row, self.connection.execute(query, (first,)))

    def stored_changes(
        self, relation: RowRelation, after: int, to: int, further: str = "", values: Sequence[Any] = ()
    ) -> Iterator[tuple[int, str, tuple[Any, ...]]]:
        """Yield the net changes of a relation in the commits behind one up to another, with their numbers; ``further``
        is SQL that chooses some, by ``values``."""
        table, columns = self.tables.tables[relation.table], relation.term_columns
        query = (
            f"SELECT _commit, _op, {listed(table.columns)} FROM {changes_table(relation)} "
            f"WHERE _commit > ? AND _commit <= ?{further} ORDER BY _commit, rowid"
        )
        for commit, op, *row in self.connection.execute(query, (after, to, *values)):
            yield commit, op, decoded_row(columns, row[: len(columns)])

    def differences(self) -> list[dict[str, Any]]:
        """Recount the relations from the rules and return what is wrong; the file stays as it is."""
        with self.reading():
            for table in self.tables.tables.values():
                table.lost = table.gained = 0
            wrong = ORDERED["faults"](self) if self.sequences else ()
            return [*row_differences(self.tables), *self.count_differences(), *wrong]

    def count_differences(self) -> Iterator[dict[str, Any]]:
        """Yield the relations that have another number of tuples than the last commit says."""
        for relation in self.program.relations:
            told, count = self.commit.rows[relation.table], self.tables.count(self.tables.tables[relation.table].name)
            if count != told:
                yield {"relation": relation.name, "problem": f"{told:,} tuples are recorded", "tuples": [count]}


def open_file_state(
    program: RowProgram,
    path: str,
    supplied: Any | None = None,
    max_rounds: int = MOST_ROUNDS,
    new: bool = False,
    recomputes: bool = False,
    max_entries: int = MOST_ENTRIES,
) -> DatabaseState:
    """Return the state in a file. Raise NoState if there is none, and JobError if it is of another program, unless the
    command ``recomputes`` it; for a ``new`` one, StateExists if there is one. That has no commit: the first batch makes
    everything in it."""
    absent = NoState(f"there is no state in {path}; `init` builds one")
    if not new and not Path(path).is_file():
        raise absent
    state = DatabaseState(program, path, supplied, max_rounds, max_entries)
    try:
        with telling_errors(path):
            if new:
                if not is_empty(state.connection):
                    raise StateExists(path)
                use_log(state)
            else:
                if is_empty(state.connection):
                    raise absent
                state.read_settings(recomputes)
                # A command that was killed may have built the state without it.
                use_log(state)
            # Where there is no log yet, folders are forced to disk, too.
            state.connection.execute("PRAGMA synchronous = EXTRA")
    except BaseException:
        state.connection.close()
        raise
    return state


def use_log(state: DatabaseState) -> None:
    """Let commits be appended to a log beside the file, which readers do not wait for."""
    if state.path != MEMORY:
        (mode,) = state.connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise JobError(
                f"{state.path} is where SQLite can keep no write-ahead log, such as on a network file system: put it "
                "on a disk of this machine"
            )
