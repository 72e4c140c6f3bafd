"""The inbox of a process: an accumulator for each input channel, and the steps made from what arrives.

An accumulator holds the tuples that its channel has delivered, with counts. A deletion may arrive before its
insertion, and then waits with a negative count. A tuple is present if some channel has it with a positive count.
When a sender is gone, the tuples that it has delivered are deleted; when it returns, in another life, a snapshot
replaces everything of older lives, whose messages become void.

With ``hold``, the tuples of a sender that is gone stay until it has returned and caught up, or for that many
seconds. What it delivers in the meantime is collected separately, and only the difference is passed on.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from ...database.state import telling_errors
from ...engines.arrow import arrow_type
from ...kernel.errors import JobError
from ...kernel.values import plain_row, shown
from ...row_kernel.encodings import encoded_tuple
from ...row_kernel.model import RowRelation
from .channels import NO_LIFE, NO_NUMBER, Channel, Life, Message, Number
from .snapshots import Replacement
from .state import ProcessState, SignedRow, StoredRow, received_columns, received_table


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


class OtherColumns(Exception):
    """Raised if a message and its reader differ in columns, because the processes were not compiled together."""


class Inbox:
    """The accumulators of a process, in the file of its state, and the steps made from what they receive.

    One transaction records the messages that a step has read, and the changes that it makes.
    """

    def __init__(self, state: ProcessState, hold: float, life: str = "") -> None:
        """Let this run of the process, whose ``life`` it is, be the one that may write. Raise JobError for the home of
        another process."""
        self.state, self.process, self.hold, self.life = state, state.process, hold, life
        self.relations = {name: state.program.inputs[name] for name in self.process.received}
        with state.database.transaction():
            for (owner,) in self.run("DELETE FROM _inbox_run RETURNING process"):
                if owner != self.process.name:
                    raise JobError(
                        f"{state.database.path} is the home of {shown(owner)}: start {self.process.name} in its own, "
                        "or in a new one (--home)"
                    )
            self.run("INSERT INTO _inbox_run VALUES (?, ?)", [self.process.name, life])
        self.read()

    def reopen(self) -> None:
        """Open the file again in the state of its last commit, but keep the current sessions of the lines."""
        sessions = {name: line.session for name, line in self.lines.items()}
        self.state.reopen()
        self.read()
        for name, session in sessions.items():
            self.lines[name].session = session

    def read(self) -> None:
        """Read the lines."""
        #: By input relation, by how much rows are there more often than before the step: 1, -1 or 0.
        self.net: dict[str, Counter[StoredRow]] = {}
        #: By fed relation, the files that were taken in, as far as they were asked for.
        self.taken: dict[str, list[str]] = {}
        #: The lines as they are stored.
        self.known = known = dict(self.run("SELECT channel, line FROM _inbox_lines"))
        self.lines: dict[str, Line] = {}
        for channel in self.process.receives:
            try:
                self.lines[channel.name] = read_line(known[channel.name]) if channel.name in known else Line()
            except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
                raise JobError(
                    f"{self.state.database.path} is damaged: the line of channel {channel.name} cannot be read; start "
                    f"{self.process.name} in a new home (--home): its feeds are read again then"
                ) from error

    def run(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        with telling_errors(self.state.database.path):
            return self.state.database.connection.execute(sql, values).fetchall()

    def run_all(self, sql: str, values: Iterable[Sequence[Any]]) -> None:
        """Run a statement for each of several rows of values."""
        with telling_errors(self.state.database.path):
            self.state.database.connection.executemany(sql, values)

    def begin(self) -> None:
        """Begin a step, in the transaction that is open. Raise JobError if another run has the file now."""
        if self.run("SELECT nonce FROM _inbox_run") != [(self.life,)]:
            raise JobError(f"another run of {self.process.name} has taken over")
        self.net.clear()

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
        relation = self.relations[channel.input]
        changes = [*changes_received(matched_rows(rows(), channel, relation), relation)]
        if newer:
            self._begin_life(channel, line, message)
        self.note_seen(channel, message.sequence)
        line.messages += 1
        line.highest = max(line.highest, message.sequence)
        if message.complete:
            line.complete = max(line.complete, message.sequence)
        self._add(channel.input, channel.name, changes, shown=line.next is None)
        if line.next and line.caught_up:
            self._show_next(channel, line)
        return True

    def has_seen(self, channel: Channel, sequence: int) -> bool:
        """Return whether a message of the latest life has arrived before."""
        line = self.lines[channel.name]
        seen = "SELECT 1 FROM _inbox_seen WHERE channel = ? AND sequence = ?"
        if sequence > line.highest:
            return False
        return sequence <= line.through or bool(self.run(seen, [channel.name, sequence]))

    def note_seen(self, channel: Channel, sequence: int) -> None:
        """Record that a message of the latest life has arrived. Only those behind a missing one are listed."""
        line = self.lines[channel.name]
        if sequence != line.through + 1:
            self.run("INSERT INTO _inbox_seen VALUES (?, ?)", [channel.name, sequence])
            return
        line.through = sequence
        if line.highest < sequence:
            return
        listed = "SELECT sequence FROM _inbox_seen WHERE channel = ? AND sequence > ? ORDER BY sequence"
        for (later,) in self.run(listed, [channel.name, sequence]):
            if later != line.through + 1:
                break
            line.through = later
        if line.through > sequence:
            self.run("DELETE FROM _inbox_seen WHERE channel = ? AND sequence <= ?", [channel.name, line.through])

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
        self.run("DELETE FROM _inbox_seen WHERE channel = ?", [channel.name])
        line.messages = line.highest = line.complete = line.through = 0
        self._clear(channel, shown=False)
        if line.state == "held" and not message.complete:
            line.next = message.life
        else:
            self._clear(channel, shown=True)
            line.show(message.life)

    def _show_next(self, channel: Channel, line: Line) -> None:
        """Replace the held tuples of a channel by those collected since."""
        collected = self._received(channel, shown=False)
        self._clear(channel, shown=False)
        self._clear(channel, shown=True)
        self._add(channel.input, channel.name, collected, shown=True)
        assert line.next
        line.show(line.next)

    def _received(self, channel: Channel, shown: bool) -> list[SignedRow]:
        """Return the visible tuples of a channel, or those collected separately, with their counts."""
        relation = self.relations[channel.input]
        columns = "".join(f", {column}" for column in received_columns(relation))
        query = f"SELECT _copies{columns} FROM {received_table(relation)} WHERE _channel = ? AND _shown = ?"
        return [(copies, tuple(row)) for copies, *row in self.run(query, [channel.name, shown])]

    def _clear(self, channel: Channel, shown: bool) -> None:
        """Delete the visible tuples of a channel, which changes the step, or those collected separately."""
        if shown:
            withdrawn = [(-copies, row) for copies, row in self._received(channel, shown)]
            self._add(channel.input, channel.name, withdrawn, shown)
            return
        table = received_table(self.relations[channel.input])
        self.run(f"DELETE FROM {table} WHERE _channel = ? AND _shown = ?", [channel.name, shown])

    def _add(self, name: str, channel: str, changes: Iterable[SignedRow], shown: bool) -> None:
        """Add signed counts to those of a channel. If visible, tuples that appear or disappear change the step."""
        counts: Counter[StoredRow] = Counter()
        for copies, row in changes:
            counts[row] += copies
        changed = [(row, copies) for row, copies in counts.items() if copies]
        relation = self.relations[name]
        table, columns = received_table(relation), received_columns(relation)
        before = {row for row, _ in changed if self._is_there(relation, row)} if shown else set()
        key = ", ".join((*columns, "_shown", "_channel"))
        marks = ", ".join("?" * (len(columns) + 3))
        self.run_all(
            f"INSERT INTO {table} ({key}, _copies) VALUES ({marks}) "
            f"ON CONFLICT ({key}) DO UPDATE SET _copies = _copies + excluded._copies",
            ((*row, shown, channel, copies) for row, copies in changed),
        )
        same = "".join(f"{column} = ? AND " for column in (*columns, "_shown", "_channel"))
        self.run_all(f"DELETE FROM {table} WHERE {same}_copies = 0", ((*row, shown, channel) for row, _ in changed))
        if shown:
            net = self.net.setdefault(name, Counter())
            for row, _ in changed:
                net[row] += self._is_there(relation, row) - (row in before)

    def _is_there(self, relation: RowRelation, row: StoredRow) -> bool:
        """Return whether some channel shows a tuple."""
        same = "".join(f"{column} = ? AND " for column in received_columns(relation))
        return bool(
            self.run(f"SELECT 1 FROM {received_table(relation)} WHERE {same}_shown AND _copies > 0 LIMIT 1", row)
        )

    def note_lives(self) -> None:
        """Add what has changed to the lives of the processes that are there: this one's, and those of the senders whose
        dead base facts are known, in all recursions. While a sender does not get through with these, its base facts
        count for nothing here, whoever sends proofs with them; when it does again, they count again."""
        lives = {(self.process.name, self.life, True)}
        dead = [(c.sender, self.lines[c.name]) for c in self.process.receives if c.dead]
        unheard = {sender for sender, line in dead if line.state not in ("open", "held")}
        lives |= {(sender, line.life.incarnation.nonce, False) for sender, line in dead if sender not in unheard}
        relation = self.relations[self.process.lives]
        now = {encoded_tuple(relation.columns, life) for life in lives}
        columns = ", ".join(received_columns(relation))
        recorded = {*self.run(f"SELECT {columns} FROM {received_table(relation)}")}
        changes = [(-1, row) for row in recorded - now] + [(1, row) for row in now - recorded]
        self._add(relation.name, "", changes, shown=True)

    def received(self) -> dict[str, list[tuple[str, StoredRow]]]:
        """Return the changes that the step makes in what is received, by name, lives included."""
        if self.process.lives:
            self.note_lives()
        net = {
            name: [("+" if sign > 0 else "-", row) for row, sign in rows.items() if sign]
            for name, rows in self.net.items()
        }
        return {name: changes for name, changes in net.items() if changes}

    def finish(self, fed: Mapping[str, Path], replaced: Mapping[str, Replacement]) -> None:
        """Record the lines, and the files ``fed`` from outside, those that are snapshots with what they stand for."""
        self.run_all("REPLACE INTO _inbox_fed VALUES (?, ?)", [(name, path.name) for name, path in fed.items()])
        for name, replacement in replaced.items():
            for table in ("_inbox_fed", "_inbox_covered"):
                again = [(name, file) for file in sorted(replacement.again)]
                self.run_all(f"DELETE FROM {table} WHERE relation = ? AND file = ?", again)
            covered = [(name, file, fed[name].name) for file in sorted(replacement.covers)]
            self.run_all("INSERT INTO _inbox_covered VALUES (?, ?, ?)", covered)
        lines = {channel: json.dumps(vars(line)) for channel, line in self.lines.items()}
        self.run_all("REPLACE INTO _inbox_lines VALUES (?, ?)", lines.items() - self.known.items())
        self.known = lines
        if fed:
            self.taken.clear()

    def note_passed(self, passed: Mapping[str, Sequence[str]]) -> None:
        """Record snapshots of feeds, by relation, as taken in: the files that they cover were."""
        self.taken.clear()
        named = [(relation, file) for relation, files in passed.items() for file in files]
        self.run_all("REPLACE INTO _inbox_fed VALUES (?, ?)", named)

    def files_fed(self, relation: str) -> list[str]:
        """Return the names of the files from outside that were taken in for a relation, also as parts of snapshots,
        sorted."""
        if relation not in self.taken:
            all_files = "SELECT relation, file FROM _inbox_fed UNION SELECT relation, file FROM _inbox_covered"
            rows = self.run(f"SELECT file FROM ({all_files}) AS t WHERE relation = ? ORDER BY file", [relation])
            self.taken[relation] = [file for (file,) in rows]
        return self.taken[relation]


def changes_received(rows: pa.Table, relation: RowRelation) -> Iterator[SignedRow]:
    """Yield the rows of a message, each behind its count, as they are kept."""
    counts, *values = (column.to_pylist() for column in rows.columns)
    for copies, *row in zip(counts, *values, strict=True):
        yield copies, encoded_tuple(relation.tuple_columns, plain_row(relation.tuple_columns, row))


def sent_columns(rows: pa.Table, names: Sequence[str], relation: RowRelation) -> pa.Table:
    """Return rows to be sent (``_op`` and a relation's columns), with the columns' names and types as metadata."""
    said = [[name, column.type] for name, column in zip(names, relation.columns, strict=True)]
    return rows.replace_schema_metadata({"flintlog.columns": json.dumps(said)})


def matched_rows(rows: pa.Table, channel: Channel, relation: RowRelation) -> pa.Table:
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
