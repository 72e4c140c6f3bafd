"""The inbox of a process: an accumulator for each input channel, and the steps made from what arrives.

An accumulator holds the tuples that its channel has delivered, with counts. A deletion may arrive before its
insertion, and then waits with a negative count. A tuple is present if some channel has it with a positive count.
When a sender is gone, the tuples that it has delivered are deleted; when it returns, in another life, a snapshot
replaces everything of older lives, whose messages become void.

With ``hold``, the tuples of a sender that is gone stay until it has returned and caught up, or for that many
seconds. What it delivers in the meantime is collected separately, and only the difference is passed on.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from ...engines.arrow import arrow_type
from ...engines.instances import open_database
from ...kernel.errors import JobError, Passing
from ...kernel.model import Program, Relation
from ...kernel.sql import names, sql_type
from ...store.published_names import operation_column
from ...system.places import make_folder, sync, sync_files
from .channels import NO_LIFE, NO_NUMBER, Channel, Life, Message, Number, Process
from .snapshots import Replacement

INBOX_VERSION = 2
"""Increased whenever older inboxes become unreadable."""


@dataclass
class Line:
    """The state of an input channel: waiting, open, held (its sender is gone, its tuples stay) or cut (they are gone
    too).

    ``life`` is the life of the visible tuples, ``next`` of those collected separately, ``session`` the reader's
    session. Of the latest life, ``messages`` counts the messages that have arrived, ``highest`` is their highest
    sequence number, and ``complete`` the highest of those sent when the sender had caught up. All messages up to
    ``through`` have arrived. According to its lease, the sender has sent ``sent`` messages in the life ``told``.
    ``held_since`` is a time of the monotonic clock. ``leased`` says whether the sender of ``life`` renews a lease of
    the channel, which older versions do not.
    """

    state: str = "waiting"
    life: Life = NO_LIFE
    next: Life | None = None
    messages: int = 0
    highest: int = 0
    complete: int = 0
    through: int = 0
    session: Number = NO_NUMBER
    told: Life = NO_LIFE
    sent: int = 0
    held_since: float = 0.0
    leased: bool = False

    @property
    def last(self) -> Life:
        """Return the latest life."""
        return self.next or self.life

    def is_newer(self, life: Life) -> bool:
        """Return whether a life of the current session is newer than the latest life known."""
        return self.last.session != self.session or life > self.last

    def show(self, life: Life) -> None:
        """Open the channel with the tuples of a life."""
        self.leased = self.leased and life.incarnation == self.life.incarnation
        self.state, self.life, self.next = "open", life, None

    @property
    def lacks(self) -> bool:
        """Return whether messages were sent that have not arrived."""
        if self.sent and self.told.session == self.session and self.is_newer(self.told):
            return True
        sent = max(self.highest, self.sent if self.told == self.last else 0)
        return self.last.session == self.session and sent > self.messages

    @property
    def caught_up(self) -> bool:
        """Return whether the sender has caught up and everything that it has sent up to then has arrived."""
        answered = self.last.session == self.session and self.complete > 0
        return answered and self.complete == self.highest == self.messages and not self.lacks


def read_line(text: str) -> Line:
    """Return a line from its stored JSON text."""
    line = Line(**json.loads(text))
    for name in ("life", "next", "told"):
        if (said := getattr(line, name)) is not None:
            setattr(line, name, Life(Number(*said[0]), Number(*said[1]), said[2]))
    line.session = Number(*line.session)
    # The monotonic clock of another run is not comparable.
    line.held_since = time.monotonic()
    return line


class InputStep(NamedTuple):
    """The messages that a process takes in at once, as a batch: its ``number``, its ``name``, which is the unique ID of
    the batch, and for each input relation the files of its changes."""

    number: int
    name: str
    files: dict[str, list[str]]


class OtherColumns(Exception):
    """Raised if a message and its reader differ in columns, because the processes were not compiled together."""


class Inbox:
    """The accumulators of a process, in a DuckDB database of their own, and the steps made from what they receive.

    One transaction records both the messages that a step has read and the changes that it makes. A process that was
    killed finds its unfinished step and repeats it.
    """

    def __init__(self, home: Path, process: Process, program: Program, hold: float, life: str = "") -> None:
        """Open or create the database in the folder ``home``, and delete the files of all steps but an unfinished
        one. ``life`` is that of this run of the process."""
        make_folder(home)
        self.home, self.process, self.hold, self.life = home, process, hold, life
        self.named = {r.name: r for r in program.relations if r.kind == "input"}
        received = [channel.input for channel in process.receives] + [process.lives] * bool(process.lives)
        self.relations = {name: self.named[name] for name in received}
        self.connection = self._open()
        step = self.unfinished()
        for folder in (home / "steps").glob("step-*"):
            if step is None or folder.name != step.name:
                shutil.rmtree(folder, ignore_errors=True)

    def reopen(self) -> None:
        """Reopen the database in the state of its last commit, but keep the current sessions of the lines."""
        sessions = {name: line.session for name, line in self.lines.items()}
        self.connection.close()
        self.connection = self._open()
        for name, session in sessions.items():
            self.lines[name].session = session

    def begin_anew(self, kept: str) -> None:
        """Continue with an empty database; rename the files of the old one to end in ``kept``."""
        self.connection.close()
        for name in ("inbox.duckdb", "inbox.duckdb.wal"):
            with contextlib.suppress(FileNotFoundError):
                (self.home / name).rename(self.home / f"{name}.{kept}")
        self.connection = self._open()

    def _open(self) -> Any:
        """Open the database, create missing tables and read the lines. Raise Passing if it cannot be opened."""
        import duckdb

        path = self.home / "inbox.duckdb"
        for pause in (0.1, 0.5, 2.0, 5.0, 10.0, 0.0):
            try:
                self.connection = open_database(str(path), threads="1")
                break
            except duckdb.Error as error:
                # An older run of the process may still hold the lock.
                if "lock" not in str(error) or not pause:
                    raise Passing(
                        f"{path} cannot be opened: {error}; if it is damaged, move it away, so that the process "
                        "starts over"
                    ) from error
                time.sleep(pause)
        try:
            self.check_columns(str(path))
        except BaseException:
            self.connection.close()
            raise
        self.run("CREATE TABLE IF NOT EXISTS inbox__lines (channel VARCHAR, line VARCHAR)")
        self.run("CREATE TABLE IF NOT EXISTS inbox__seen (channel VARCHAR, sequence BIGINT)")
        self.run(
            "CREATE TABLE IF NOT EXISTS inbox__made "
            "(step BIGINT, name VARCHAR, before VARCHAR, files VARCHAR, done BOOLEAN)"
        )
        self.run("CREATE TABLE IF NOT EXISTS inbox__fed (relation VARCHAR, file VARCHAR)")
        self.run("CREATE TABLE IF NOT EXISTS inbox__covered (relation VARCHAR, file VARCHAR, snapshot VARCHAR)")
        for relation in self.relations.values():
            columns = ", ".join(f"{column.sql} {sql_type(column.type, 'duckdb')}" for column in relation.tuple_columns)
            self.run(
                f"CREATE TABLE IF NOT EXISTS {relation.table} "
                f"(_channel VARCHAR, _shown BOOLEAN, {columns}, _copies BIGINT)"
            )
            self.run(f"CREATE TEMP TABLE {relation.tables.net} ({columns}, _op BIGINT)")
        #: By input relation, the signed rows that were received, but are not in its table yet.
        self.given: dict[str, list[pa.Table]] = {}
        #: The input relations that this step may change.
        self.changed: set[str] = set()
        #: By fed relation, the files that were taken in, as far as they were asked for.
        self.taken: dict[str, list[str]] = {}
        #: The lines as they are stored.
        self.known = known = dict(self.run("SELECT channel, line FROM inbox__lines"))
        self.lines = {
            channel.name: (read_line(known[channel.name]) if channel.name in known else Line())
            for channel in self.process.receives
        }
        return self.connection

    def check_columns(self, path: str) -> None:
        """Raise JobError if the database was made for other columns or by another version of this code."""
        columns = {
            name: [(column.name, column.type) for column in relation.columns]
            for name, relation in self.relations.items()
        }
        made_for = json.dumps([INBOX_VERSION, columns], sort_keys=True)
        tables = [name for (name,) in self.run("SELECT table_name FROM duckdb_tables()")]
        if not tables:
            self.run("CREATE TABLE inbox__made_for AS SELECT CAST(? AS VARCHAR) AS text", [made_for])
        elif "inbox__made_for" not in tables or self.run("SELECT text FROM inbox__made_for") != [(made_for,)]:
            raise JobError(
                f"{path} was written by another version of the program or of the compiler; start {self.process.name} "
                "in a new home (--home)"
            )

    def agrees_with(self, last: str) -> bool:
        """Return whether a state whose last step is ``last`` matches the steps made here: ``last`` is the latest of
        them, or the one before it if the latest was not applied yet and its files are complete."""
        for name, before, files, done in self.run("SELECT name, before, files, done FROM inbox__made"):
            if last == before and not done:
                files_of_step = [f for paths in json.loads(files).values() for f in paths]
                return all((self.home / f).exists() for f in files_of_step if not Path(f).is_absolute())
            return bool(last == name)
        return not last

    def run(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        rows: list[tuple[Any, ...]] = self.connection.execute(sql, values).fetchall()
        return rows

    def table(self, sql: str, values: Sequence[Any] = ()) -> pa.Table:
        """Return the rows of a query as an Arrow table."""
        rows: pa.Table = self.connection.sql(sql, params=list(values)).to_arrow_table()
        return rows

    def begin(self) -> None:
        """Begin the transaction of a step."""
        self.run("BEGIN")
        for name in sorted(self.changed):
            self.run(f"DELETE FROM {self.relations[name].tables.net}")
        self.changed.clear()

    def receive(self, channel: Channel, message: Message, rows: Callable[[], pa.Table]) -> bool:
        """Take in a message, and return whether it is done with. It is not before the snapshot of its life has
        arrived, or if it is for a later session. If ``rows`` raises an error or the columns differ
        (:class:`OtherColumns`), nothing changes."""
        line = self.lines[channel.name]
        if message.session != line.session:
            # A message for a later session is for a later run of this process.
            return message.session.number <= line.session.number
        newer = line.is_newer(message.life)
        if newer:
            if message.kind != "snapshot":
                return False
        elif message.life != line.last or self.has_seen(channel, message.sequence):
            return True
        matched = matched_rows(rows(), channel, self.relations[channel.input])
        if newer:
            self._begin_life(channel, line, message)
        self.note_seen(channel, message.sequence)
        line.messages += 1
        line.highest = max(line.highest, message.sequence)
        if message.complete:
            line.complete = max(line.complete, message.sequence)
        self._add(channel, matched, shown=line.next is None)
        if line.next and line.caught_up:
            self._show_next(channel, line)
        return True

    def has_seen(self, channel: Channel, sequence: int) -> bool:
        """Return whether a message of the latest life has arrived before."""
        line = self.lines[channel.name]
        seen = "SELECT 1 FROM inbox__seen WHERE channel = ? AND sequence = ?"
        if sequence > line.highest:
            return False
        return sequence <= line.through or bool(self.run(seen, [channel.name, sequence]))

    def note_seen(self, channel: Channel, sequence: int) -> None:
        """Record that a message of the latest life has arrived. Only those behind a missing one are listed."""
        line = self.lines[channel.name]
        if sequence != line.through + 1:
            self.run("INSERT INTO inbox__seen VALUES (?, ?)", [channel.name, sequence])
            return
        line.through = sequence
        if line.highest < sequence:
            return
        listed = (
            "SELECT sequence, ROW_NUMBER() OVER (ORDER BY sequence) AS place FROM inbox__seen "
            "WHERE channel = ? AND sequence > ?"
        )
        following = f"SELECT COUNT(*) FROM ({listed}) AS s WHERE sequence = ? + place"
        ((count,),) = self.run(following, [channel.name, sequence, sequence])
        line.through = sequence + count
        if count:
            self.run("DELETE FROM inbox__seen WHERE channel = ? AND sequence <= ?", [channel.name, line.through])

    def cut(self, channel: Channel, now: float) -> None:
        """Delete the tuples of a sender that is gone, or hold them first. ``now`` is a time of the monotonic clock."""
        line = self.lines[channel.name]
        if line.state == "open" and self.hold:
            line.state, line.held_since = "held", now
            return
        self._clear(channel, shown=False)
        self._clear(channel, shown=True)
        line.state, line.next = "cut", None

    def end_holds(self, now: float) -> None:
        """End holds that have lasted for longer than ``hold`` seconds."""
        for channel in self.process.receives:
            line = self.lines[channel.name]
            if line.state == "held" and now - line.held_since > self.hold:
                if line.next:
                    self._show_next(channel, line)
                else:
                    self.cut(channel, now)

    def _begin_life(self, channel: Channel, line: Line, message: Message) -> None:
        """Begin a newer life, whose snapshot has arrived; older ones become void."""
        self.run("DELETE FROM inbox__seen WHERE channel = ?", [channel.name])
        line.messages = line.highest = line.complete = line.through = 0
        self._clear(channel, shown=False)
        if line.state == "held" and not message.complete:
            line.next = message.life
        else:
            self._clear(channel, shown=True)
            line.show(message.life)

    def _show_next(self, channel: Channel, line: Line) -> None:
        """Replace the held tuples of a channel by those collected since."""
        self._apply_given(channel.input)
        relation = self.relations[channel.input]
        columns = names(relation.tuple_columns)
        collected = self.table(
            f"SELECT _copies AS _op, {columns} FROM {relation.table} WHERE _channel = ? AND NOT _shown", [channel.name]
        )
        self._clear(channel, shown=False)
        self._clear(channel, shown=True)
        self._add(channel, collected, shown=True)
        assert line.next
        line.show(line.next)

    def _clear(self, channel: Channel, shown: bool) -> None:
        """Delete the visible tuples of a channel, which changes the step, or those collected separately."""
        self._apply_given(channel.input)
        relation = self.relations[channel.input]
        mine = f"FROM {relation.table} WHERE _channel = ? AND _shown = ?"
        columns = names(relation.tuple_columns)
        if shown:
            withdrawn = self.table(f"SELECT -_copies AS _op, {columns} {mine}", [channel.name, shown])
            self._add(channel, withdrawn, shown)
        else:
            self.run(f"DELETE {mine}", [channel.name, shown])

    def _add(self, channel: Channel, rows: pa.Table, shown: bool) -> None:
        """Add signed counts to those of a channel. If visible, tuples that appear or disappear change the step."""
        columns = self.relations[channel.input].tuple_columns
        types = [pa.int64(), *(arrow_type(column.type) for column in columns)]
        arrays = [column.cast(kind) for column, kind in zip(rows.columns, types, strict=True)]
        arrays += [pa.repeat(channel.name, rows.num_rows), pa.repeat(shown, rows.num_rows)]
        listed = ["_op", *(column.sql for column in columns), "_channel", "_shown"]
        self.given.setdefault(channel.input, []).append(pa.table(arrays, listed))

    def _apply_given(self, name: str) -> None:
        """Bring the table of an input relation up to date with what was added to its channels."""
        additions = [rows for rows in self.given.pop(name, ()) if rows.num_rows]
        if not additions:
            return
        self.changed.add(name)
        relation = self.relations[name]
        table, columns = relation.tables, names(relation.tuple_columns)
        same = " AND ".join(f"r.{c.sql} = d.{c.sql}" for c in relation.tuple_columns)
        self.connection.register("inbox__given", pa.concat_tables(additions))
        self.run(
            f"CREATE OR REPLACE TEMP TABLE inbox__added AS SELECT _channel, _shown, {columns}, "
            f"CAST(SUM(_op) AS BIGINT) AS _copies FROM inbox__given GROUP BY _channel, _shown, {columns} "
            "HAVING SUM(_op) <> 0"
        )
        self.connection.unregister("inbox__given")
        there = (
            f"CREATE OR REPLACE TEMP TABLE {{}} AS SELECT {names(relation.tuple_columns, 'd.')}, "
            f"COALESCE(BOOL_OR(r._copies > 0), FALSE) AS _there FROM (SELECT DISTINCT {columns} FROM inbox__added "
            f"WHERE _shown) AS d LEFT JOIN {table} AS r ON {same} AND r._shown GROUP BY ALL"
        )
        self.run(there.format("inbox__before"))
        mine = f"r._channel = d._channel AND r._shown = d._shown AND {same}"
        self.run(
            f"CREATE OR REPLACE TEMP TABLE inbox__counts AS SELECT d._channel, d._shown, "
            f"{names(relation.tuple_columns, 'd.')}, d._copies + COALESCE(r._copies, 0) AS _copies "
            f"FROM inbox__added AS d LEFT JOIN {table} AS r ON {mine}"
        )
        self.run(f"DELETE FROM {table} AS r USING inbox__added AS d WHERE {mine}")
        self.run(
            f"INSERT INTO {table} SELECT _channel, _shown, {columns}, _copies FROM inbox__counts WHERE _copies <> 0"
        )
        self.run(there.format("inbox__after"))
        self.run(
            f"INSERT INTO {table.net} SELECT {columns}, CAST(a._there AS INT) - CAST(b._there AS INT) "
            f"FROM inbox__after AS a JOIN inbox__before AS b USING ({columns}) WHERE a._there <> b._there"
        )

    def note_lives(self) -> bool:
        """Add what has changed to the lives of the processes that are there: this one's, and those of the senders whose
        dead base facts are known, in all recursions. While a sender does not get through with these, its base facts
        count for nothing here, whoever sends proofs with them; when it does again, they count again. Return whether
        anything has changed."""
        lives = {(self.process.name, self.life, True)}
        dead = [(c.sender, self.lines[c.name]) for c in self.process.receives if c.dead]
        unheard = {sender for sender, line in dead if line.state not in ("open", "held")}
        lives |= {(sender, line.life.incarnation.nonce, False) for sender, line in dead if sender not in unheard}
        relation = self.relations[self.process.lives]
        table, columns = relation.tables, names(relation.tuple_columns)
        recorded = set(self.run(f"SELECT {columns} FROM {table}"))
        if recorded == lives:
            return False
        self.changed.add(self.process.lives)
        for operation, rows in ((-1, recorded - lives), (1, lives - recorded)):
            for row in sorted(rows):
                self.run(f"INSERT INTO {table.net} VALUES (?, ?, ?, ?)", [*row, operation])
        self.run(f"DELETE FROM {table}")
        for row in sorted(lives):
            self.run(f"INSERT INTO {table} ({columns}, _channel, _shown, _copies) VALUES (?, ?, ?, '', TRUE, 1)", row)
        return True

    def finish(self, fed: Mapping[str, Path], replaced: Mapping[str, Replacement]) -> InputStep | None:
        """Commit the step, which also takes in the files ``fed`` from outside, those that are snapshots as what they
        have ``replaced``; return None if nothing has changed."""
        for name in list(self.given):
            self._apply_given(name)
        changed = bool(self.process.lives) and self.note_lives()
        lines = {channel: json.dumps(vars(line)) for channel, line in self.lines.items()}
        if not (changed or fed) and lines == self.known:
            # Nothing has come, so nothing needs to be forced to the disk.
            self.run("COMMIT")
            return None
        number, before = 1, ""
        for last, name in self.run("SELECT step, name FROM inbox__made"):
            number, before = last + 1, name
        batch = f"step-{number:09d}-{uuid.uuid4().hex[:8]}"
        files = {name: [str(path.absolute())] for name, path in fed.items()}
        for name in (name for name in self.relations if name in self.changed):
            relation = self.relations[name]
            columns = ", ".join(f'{c.sql} AS "{c.name}"' for c in relation.columns)
            listed, keys = f"{columns}, " if columns else "", names(relation.tuple_columns)
            operation = operation_column(relation.columns)
            net = self.table(
                f"SELECT {listed}CASE WHEN SUM(_op) > 0 THEN '+' ELSE '-' END AS \"{operation}\" "
                f"FROM {relation.tables.net} GROUP BY {keys} HAVING SUM(_op) <> 0"
            )
            if net.num_rows:
                files[name] = [self._write_changes(net, Path("steps", batch, f"{relation.table}.parquet"))]
        for name, replacement in replaced.items():
            del files[name]
            if replacement.changes.num_rows:
                # Under the name of the snapshot, in a folder for each relation.
                path = Path("steps", batch, f"feed-{self.named[name].table}", fed[name].name)
                files[name] = [self._write_changes(replacement.changes, path)]
        if (self.home / "steps" / batch).is_dir():
            sync_files(self.home / "steps" / batch)
        if files:
            self.run("DELETE FROM inbox__made")
            values = [number, batch, before, json.dumps(files)]
            self.run("INSERT INTO inbox__made VALUES (?, ?, ?, ?, FALSE)", values)
        for name, path in fed.items():
            self.run("INSERT INTO inbox__fed VALUES (?, ?)", [name, path.name])
        for name, replacement in replaced.items():
            for table in ("inbox__fed", "inbox__covered"):
                again = f"DELETE FROM {table} WHERE relation = ? AND file IN (SELECT UNNEST(CAST(? AS VARCHAR[])))"
                self.run(again, [name, sorted(replacement.again)])
            covered = "INSERT INTO inbox__covered SELECT ?, UNNEST(CAST(? AS VARCHAR[])), ?"
            self.run(covered, [name, sorted(replacement.covers), fed[name].name])
        self.run("DELETE FROM inbox__lines")
        self.run("INSERT INTO inbox__lines SELECT UNNEST(?), UNNEST(?)", [list(lines), list(lines.values())])
        self.run("COMMIT")
        self.known = lines
        self.taken.clear()
        # DuckDB calls fsync on its log, but not on the folder.
        sync(self.home)
        return self.unfinished() if files else None

    def _write_changes(self, changes: pa.Table, path: Path) -> str:
        """Write changes of a step to a file, whose path is relative to the home; return the path."""
        make_folder((self.home / path).parent)
        pq.write_table(changes, self.home / path)
        return str(path)

    def note_passed(self, passed: Mapping[str, Sequence[str]]) -> None:
        """Record snapshots of feeds, by relation, as taken in: the files that they cover were."""
        self.taken.clear()
        for relation, files in passed.items():
            for file in files:
                self.run("INSERT INTO inbox__fed VALUES (?, ?)", [relation, file])

    def unfinished(self) -> InputStep | None:
        """Return the step that was committed but not applied yet, or None."""
        for number, name, files in self.run("SELECT step, name, files FROM inbox__made WHERE NOT done"):
            # Files fed from outside have absolute paths, which joining with the folder does not change.
            absolute = {n: [str(self.home / f) for f in paths] for n, paths in json.loads(files).items()}
            return InputStep(number, name, absolute)
        return None

    def done(self, step: InputStep) -> None:
        """Record that a step was applied, and delete its files."""
        self.run("UPDATE inbox__made SET done = TRUE WHERE name = ?", [step.name])
        shutil.rmtree(self.home / "steps" / step.name, ignore_errors=True)

    def leave_out(self, step: InputStep, relations: Iterable[str]) -> InputStep:
        """Change a step to leave out the files fed to some relations, which are pending again; return the new step."""
        files = dict(step.files)
        self.taken.clear()
        self.run("BEGIN TRANSACTION")
        ((stored,),) = self.run("SELECT files FROM inbox__made WHERE step = ?", [step.number])
        named = json.loads(stored)
        for name in relations:
            (path,) = files.pop(name)
            del named[name]
            values = [name, Path(path).name]
            self.run("DELETE FROM inbox__fed WHERE relation = ? AND file = ?", values)
            self.run("DELETE FROM inbox__covered WHERE relation = ? AND snapshot = ?", values)
        changed = [json.dumps(named), step.number]
        self.run("UPDATE inbox__made SET files = ? WHERE step = ?", changed)
        self.run("COMMIT")
        return step._replace(files=files)

    def files_fed(self, relation: str) -> list[str]:
        """Return the names of the files from outside that were taken in for a relation, also as parts of snapshots,
        sorted."""
        if relation not in self.taken:
            all_files = "SELECT relation, file FROM inbox__fed UNION SELECT relation, file FROM inbox__covered"
            rows = self.run(f"SELECT file FROM ({all_files}) AS t WHERE relation = ? ORDER BY file", [relation])
            self.taken[relation] = [file for (file,) in rows]
        return self.taken[relation]


def sent_columns(rows: pa.Table, names: Sequence[str], relation: Relation) -> pa.Table:
    """Return rows to be sent (``_op`` and a relation's columns), with the columns' names and types as metadata."""
    said = [[name, column.type] for name, column in zip(names, relation.columns, strict=True)]
    return rows.replace_schema_metadata({"flintlog.columns": json.dumps(said)})


def matched_rows(rows: pa.Table, channel: Channel, relation: Relation) -> pa.Table:
    """Return the rows of a message as ``_op`` and the columns of the reader's relation, in its order and under its
    SQL names. Raise :class:`OtherColumns` unless both have the same columns by name and type."""
    said = (rows.schema.metadata or {}).get(b"flintlog.columns")
    sent = [tuple(column) for column in json.loads(said)] if said else None
    expected = [(name, column.type) for name, column in zip(channel.columns, relation.columns, strict=True)]
    if sent is None or sorted(sent) != sorted(expected):
        raise OtherColumns(
            f"{channel.sender} sends {channel.relation} with {column_list(sent)}, but {channel.reader} reads it with "
            f"{column_list(expected)}: they were not compiled together"
        )
    places = [sent.index(column) + 1 for column in expected] or [1]
    arrays = [rows.column(0).cast(pa.int64())]
    for place, column in zip(places, relation.tuple_columns, strict=True):
        arrays.append(rows.column(place).cast(arrow_type(column.type)))
    return pa.table(arrays, ["_op", *(column.sql for column in relation.tuple_columns)])


def column_list(columns: Sequence[tuple[str, str]] | None) -> str:
    """Return columns as messages show them."""
    if columns is None:
        return "unnamed columns"
    return f"({', '.join(f'{name}: {kind}' for name, kind in columns)})"
