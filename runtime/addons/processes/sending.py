"""The output channels of a process: the messages on each of them, and the channels that accept nothing for now."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ...kernel.errors import Passing, reason
from ...kernel.model import Program, Relation
from ...system.log import Log
from ...system.transient_errors import pause_after
from .channels import NO_NUMBER, Channel, CutOffs, Message, Number, Process, Sent, is_cut_off
from .inbox import InputStep, sent_columns
from .lease_renewal import Beat, Channels
from .partition import fitting_rows
from .state import JobState


class Total(NamedTuple):
    """Traffic of a run of a process on a channel: messages, the snapshots among them, and the tuples in them."""

    messages: int = 0
    snapshots: int = 0
    inserted: int = 0
    deleted: int = 0


class Sender:
    """Sends the changes of a process on its output channels, turn by turn."""

    def __init__(
        self, state: JobState, channels: Channels, process: Process, incarnation: Number, beat: Beat, cut_off: CutOffs
    ) -> None:
        """Begin with nothing sent."""
        self.state, self.channels, self.process = state, channels, process
        self.incarnation, self.beat, self.cut_off = incarnation, beat, cut_off
        self.log: Log = cut_off.log
        self.sent = {channel.name: Sent(NO_NUMBER, 0, 0) for channel in process.sends}
        self.totals = dict.fromkeys(self.sent, Total())
        #: What is sent of relations in this turn: by name, all rows, or the changes of its step.
        self.rows: dict[str, pa.Table] = {}
        self.changes: dict[str, pa.Table | None] = {}
        #: Per channel on which sending fails, how often it did in a row, and when to try again.
        self.unsendable: dict[str, tuple[int, float]] = {}
        #: Per channel, whether this process had caught up when it last sent on it.
        self.caught_up = dict.fromkeys(self.sent, False)

    def forget_rows(self) -> None:
        """Forget the rows of a turn."""
        self.rows.clear()
        self.changes.clear()

    def try_to_send(self, channel: Channel, step: InputStep | None, caught_up: bool) -> None:
        """Send the changes on a channel. If it is cut off, go on without it, and try again at increasing intervals;
        once it accepts messages again, its reader gets a snapshot."""
        now, before = time.monotonic(), self.sent[channel.name]
        times, until = self.unsendable.get(channel.name, (0, now))
        if now >= until:
            try:
                if times:
                    self.note(channel, before._replace(session=NO_NUMBER))
                self.send_on(channel, step, caught_up)
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

    def send_on(self, channel: Channel, step: InputStep | None, caught_up: bool) -> None:
        """Send a snapshot to a reader with a new session, and the changes of a step to any other reader."""
        session, relation = self.channels.session(channel), sent_relation(self.state.program, channel)
        if session != self.sent[channel.name].session:
            # After a restore the session may be an older one, even one that was served before: start another stream.
            self.note(channel, Sent(session, self.sent[channel.name].beginning + 1, 0))
        if session == NO_NUMBER:
            return
        if self.sent[channel.name].messages == 0:
            self.send(channel, "snapshot", self.part(channel, self.whole(relation)), caught_up)
            return
        changes = self.changes_of(relation, step) if step else None
        changes = self.part(channel, changes) if changes is not None else None
        if changes is not None and changes.num_rows:
            self.send(channel, "changes", changes, caught_up)
        elif caught_up and not self.caught_up[channel.name]:
            self.send(channel, "changes", self.whole(relation).slice(0, 0), caught_up)

    def whole(self, relation: Relation) -> pa.Table:
        """Return all rows of a relation in this turn."""
        if relation.name not in self.rows:
            self.rows[relation.name] = own(lambda: self.state.whole(relation))
        return self.rows[relation.name]

    def changes_of(self, relation: Relation, step: InputStep) -> pa.Table | None:
        """Return the changes of a relation in the step of this turn, None if there are none."""
        if relation.name not in self.changes:
            self.changes[relation.name] = own(lambda: self.state.changes(relation, step))
        return self.changes[relation.name]

    def part(self, channel: Channel, rows: pa.Table) -> pa.Table:
        """Return those of a relation's rows that belong to the reader of a channel, or that it can use."""
        if channel.patterns:
            rows = fitting_rows(rows, channel.patterns)
        if self.process.partition is None or channel.location < 0:
            return rows
        return self.process.partition.rows(rows, channel.location, channel.node)

    def send(self, channel: Channel, kind: str, rows: pa.Table, caught_up: bool) -> None:
        """Send a message. If that fails, the next one reuses its sequence number."""
        session, beginning, messages = self.sent[channel.name]
        message = Message(self.incarnation, session, beginning, messages + 1, kind, caught_up)
        self.channels.send(
            channel, message, sent_columns(rows, channel.columns, sent_relation(self.state.program, channel))
        )
        self.note(channel, Sent(session, beginning, message.sequence))
        inserted = pc.sum(pc.greater(rows.column(0), 0)).as_py() or 0
        here = (1, int(kind == "snapshot"), inserted, rows.num_rows - inserted)
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
            deleted=rows.num_rows - inserted,
            caught_up=caught_up,
        )

    def note(self, channel: Channel, sent: Sent) -> None:
        """Record what was sent on a channel, for the lease, which tells the reader."""
        self.sent = {**self.sent, channel.name: sent}
        self.beat.sent = self.sent


def own(read: Callable[[], Any]) -> Any:
    """Return what is read of this process's state; if that fails, no channel is cut off for it."""
    try:
        return read()
    except OSError as error:
        raise Passing(f"the state cannot be read: {error}") from error


def sent_relation(program: Program, channel: Channel) -> Relation:
    """Return the relation of this program that a channel sends."""
    return next(r for r in program.relations if r.name == channel.output and r.kind != "input")
