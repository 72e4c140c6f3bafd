"""The output channels of a process: the messages on each of them, and the channels that accept nothing for now."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import pyarrow as pa

from ...engines.arrow import arrow_type
from ...kernel.errors import reason
from ...kernel.values import stored_row
from ...row_kernel.encodings import decoded_row
from ...row_kernel.model import RowProgram, RowRelation
from ...system.log import Log
from ...system.transient_errors import pause_after
from .channels import NO_NUMBER, Channel, CutOffs, Message, Number, Process, Sent, is_cut_off
from .inbox import sent_columns
from .lease_renewal import Beat, Channels
from .partition import fits
from .state import ProcessState, SignedRow


class Total(NamedTuple):
    """Traffic of a run of a process on a channel: messages, the snapshots among them, and the tuples in them."""

    messages: int = 0
    snapshots: int = 0
    inserted: int = 0
    deleted: int = 0


class Sender:
    """Sends the changes of a process on its output channels, turn by turn."""

    def __init__(
        self,
        state: ProcessState,
        channels: Channels,
        process: Process,
        incarnation: Number,
        beat: Beat,
        cut_off: CutOffs,
    ) -> None:
        """Begin with nothing sent."""
        self.state, self.channels, self.process = state, channels, process
        self.incarnation, self.beat, self.cut_off = incarnation, beat, cut_off
        self.log: Log = cut_off.log
        self.sent = {channel.name: Sent(NO_NUMBER, 0, 0) for channel in process.sends}
        self.totals = dict.fromkeys(self.sent, Total())
        self.relations = {channel.output: sent_relation(state.program, channel) for channel in process.sends}
        #: What is sent of relations in this turn: by name, all rows, or the changes of its step.
        self.rows: dict[str, list[SignedRow]] = {}
        self.changes: dict[str, list[SignedRow]] = {}
        #: Per channel on which sending fails, how often it did in a row, and when to try again.
        self.unsendable: dict[str, tuple[int, float]] = {}
        #: Per channel, whether this process had caught up when it last sent on it.
        self.caught_up = dict.fromkeys(self.sent, False)

    def forget_rows(self) -> None:
        """Forget the rows of a turn."""
        self.rows.clear()
        self.changes.clear()

    def note_changes(self) -> None:
        """Keep the changes of a step until they are sent, while its transaction is open."""
        self.changes = {name: self.state.changes(relation) for name, relation in self.relations.items()}

    def begin_anew(self) -> None:
        """Let all readers get snapshots next."""
        for channel in self.process.sends:
            self.note(channel, self.sent[channel.name]._replace(session=NO_NUMBER))

    def try_to_send(self, channel: Channel, caught_up: bool) -> None:
        """Send the changes on a channel. If it is cut off, go on without it, and try again at increasing intervals;
        once it accepts messages again, its reader gets a snapshot."""
        now, before = time.monotonic(), self.sent[channel.name]
        times, until = self.unsendable.get(channel.name, (0, now))
        if now >= until:
            try:
                if times:
                    self.note(channel, before._replace(session=NO_NUMBER))
                self.send_on(channel, caught_up)
            except Exception as error:
                if not is_cut_off(error):
                    raise
                until = now + pause_after(times + 1)
                self.unsendable[channel.name] = times + 1, until
                self.cut_off.note(channel, reason(error))
                # The reader learns that something is missing.
                _, beginning, messages = self.sent[channel.name]
                self.note(channel, Sent(before.session, beginning, messages + 1))
            else:
                self.unsendable.pop(channel.name, None)
                self.cut_off.note(channel, "")
            self.beat.cut_off = frozenset(self.unsendable)
        if channel.name not in self.unsendable:
            self.caught_up[channel.name] = caught_up

    def send_on(self, channel: Channel, caught_up: bool) -> None:
        """Send a snapshot to a reader with a new session, and the changes of a step to any other reader."""
        session = self.channels.session(channel)
        if session != self.sent[channel.name].session:
            # After a restore the session may be an older one, even one that was served before: start another stream.
            self.note(channel, Sent(session, self.sent[channel.name].beginning + 1, 0))
        if session == NO_NUMBER:
            return
        if self.sent[channel.name].messages == 0:
            self.send(channel, "snapshot", self.part(channel, self.whole(channel.output)), caught_up)
            return
        changes = self.part(channel, self.changes.get(channel.output, []))
        if changes or (caught_up and not self.caught_up[channel.name]):
            self.send(channel, "changes", changes, caught_up)

    def whole(self, name: str) -> list[SignedRow]:
        """Return all rows of a relation in this turn."""
        if name not in self.rows:
            self.rows[name] = self.state.whole(self.relations[name])
        return self.rows[name]

    def part(self, channel: Channel, rows: list[SignedRow]) -> list[SignedRow]:
        """Return those of a relation's rows that belong to the reader of a channel, or that it can use."""
        if channel.patterns:
            rows = [signed for signed in rows if fits(signed[1], channel.patterns)]
        partition, place = self.process.partition, channel.location
        if partition is None or place < 0:
            return rows
        return [signed for signed in rows if partition.node_of(signed[1][place]) == channel.node]

    def send(self, channel: Channel, kind: str, rows: list[SignedRow], caught_up: bool) -> None:
        """Send a message. If that fails, the next one reuses its sequence number."""
        session, beginning, messages = self.sent[channel.name]
        message = Message(self.incarnation, session, beginning, messages + 1, kind, caught_up)
        relation = self.relations[channel.output]
        self.channels.send(channel, message, sent_columns(message_rows(rows, relation), channel.columns, relation))
        self.note(channel, Sent(session, beginning, message.sequence))
        inserted = sum(sign > 0 for sign, _ in rows)
        here = (1, int(kind == "snapshot"), inserted, len(rows) - inserted)
        self.totals[channel.name] = Total(*map(sum, zip(self.totals[channel.name], here, strict=True)))
        self.log.event(
            "sent",
            channel=channel.name,
            kind=kind,
            incarnation=message.incarnation.number,
            session=session.number,
            beginning=beginning,
            sequence=message.sequence,
            inserted=inserted,
            deleted=len(rows) - inserted,
            caught_up=caught_up,
        )

    def note(self, channel: Channel, sent: Sent) -> None:
        """Record what was sent on a channel, for the lease, which tells the reader."""
        self.sent = {**self.sent, channel.name: sent}
        self.beat.sent = self.sent


def message_rows(rows: list[SignedRow], relation: RowRelation) -> Any:
    """Return rows as an Arrow table of ``_op`` and the relation's columns; one without columns has a constant."""
    columns = relation.row_columns
    values = [stored_row(columns, decoded_row(columns, row)) for _, row in rows]
    arrays = [pa.array([row[i] for row in values], arrow_type(column.type)) for i, column in enumerate(columns)]
    signs = pa.array([sign for sign, _ in rows], pa.int64())
    return pa.table([signs, *arrays], ["_op", *(column.sql for column in columns)])


def sent_relation(program: RowProgram, channel: Channel) -> RowRelation:
    """Return the relation of this program that a channel sends."""
    return next(r for r in program.relations if r.name == channel.output and r.kind != "input")
