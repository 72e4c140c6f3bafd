"""The worker of a process: take in messages and fed files, apply them, and send on the changes.

The worker proceeds in turns. A turn takes in what has arrived as one step, applies the step to the state as a
batch, sends the resulting changes on the output channels, and only then discards the messages. After a transient
error, the turn is resumed where it stopped.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ..errors import JobError, Passing, Refused, reason
from ..inputs.records import input_relation
from ..log import Log
from ..model import Program, Relation
from ..places import rows_of_file
from .beat import Beat, Channels
from .channels import (
    NO_NUMBER,
    Channel,
    CutOff,
    Lease,
    Life,
    Message,
    Number,
    Process,
    Pulse,
    Sent,
    UnsoundMessage,
    is_cut_off,
    path_text,
)
from .feeds import Feeds
from .inbox import Inbox, InputStep, OtherColumns, sent_columns
from .partition import fitting_rows
from .snapshots import SNAPSHOT_FILE, Replacement, replacement
from .state import JobState
from .status import read_status, status_path, write_status
from .trouble import MOST_PAUSE, Troubles, may_pass, pause_after


@dataclass(frozen=True)
class Settings:
    """How a process runs: the folder ``root`` of all processes, its own folder ``home``, and times in seconds. A
    sender that has not renewed its lease for ``lease`` is considered gone, and its tuples are held for ``hold``. Unless
    the process is to ``keep_published``, it removes published changes once they were sent."""

    root: Path
    home: Path
    lease: float = 5.0
    hold: float = 0.0
    keep_published: bool = False


class Total(NamedTuple):
    """Traffic of a run of a process on a channel: messages, the snapshots among them, and the tuples in them."""

    messages: int = 0
    snapshots: int = 0
    inserted: int = 0
    deleted: int = 0


class Worker:
    """A running process."""

    def __init__(self, state: JobState, channels: Channels, process: Process, settings: Settings, log: Log) -> None:
        """Take an incarnation, open a session on each input channel, and start to renew the lease."""
        self.state, self.channels, self.process = state, channels, process
        self.settings, self.log = settings, log
        self.incarnation = self.channels.take_incarnation(process.name)
        self.inbox = Inbox(settings.home, process, state.program, settings.hold, self.incarnation.nonce)
        self.feeds = Feeds(settings.root, process.name, process.fed, self.inbox.files_fed, log)
        #: Why nothing gets through on a channel, as far as this process sees it.
        self.cut_off: dict[str, str] = {}
        #: The input channels that need a new session as soon as one can be opened.
        self.unopened: set[str] = set()
        #: Per input channel that shows tuples of an older session, since when a session has been waiting for an answer.
        self.unanswered: dict[str, float] = {}
        try:
            self.check_home()
            self.open_sessions()
        except BaseException:
            self.inbox.connection.close()
            raise
        self.beat = Beat(self.channels, process, self.incarnation, settings.lease / 5, log)
        self.sent = {channel.name: Sent(NO_NUMBER, 0, 0) for channel in process.sends}
        self.totals = dict.fromkeys(self.sent, Total())
        self.leases: dict[str, tuple[Lease | None, float]] = {}
        #: Per sender, its latest incarnation and its lease, as they were when this turn first asked for them.
        self.senders: dict[str, tuple[Number, Lease | None]] = {}
        #: What is sent of relations in this turn: by name, all rows, or the changes of its step.
        self.rows: dict[str, pa.Table] = {}
        self.changes: dict[str, pa.Table | None] = {}
        #: Per input channel, its last lease from the sender's latest incarnation, and since when it is known.
        self.pulses: dict[str, tuple[Pulse, float]] = {}
        #: Per input channel that cannot be read, since when.
        self.deaf: dict[str, float] = {}
        #: Per output channel on which sending fails, how often it did in a row, and when to try again.
        self.unsendable: dict[str, tuple[int, float]] = {}
        #: Per channel, whether this process had caught up when it last sent on it.
        self.caught_up = dict.fromkeys(self.sent, False)
        # The unfinished part of a turn, which is resumed after an error.
        self.step: InputStep | None = None
        self.read: list[tuple[Channel, Message]] = []
        #: The channels on which this turn still has to send, and whether it has caught up on them.
        self.unsent: list[tuple[Channel, bool]] | None = None
        self.gathered = self.unclean = False
        self.troubles = Troubles(log)
        #: Per channel: the life whose columns do not match; since when messages have been missing; how many new
        #: sessions were opened in a row, and the time before which no further one is.
        self.strange: dict[str, Life] = {}
        self.lacking: dict[str, float] = {}
        self.renewals: dict[str, tuple[int, float]] = {}
        #: Per fed relation, whether files were pending at the last check.
        self.waits = dict.fromkeys(process.fed, True)
        self.counts = {"in": 0, "out": 0, "steps": 0}
        self.last = ""
        self.said = b""
        # The lease is renewed already: there may be much to remove.
        self.prune()

    def check_home(self) -> None:
        """Start over with an empty state and inbox if the two do not match, for example after one was lost or
        restored from a copy, since rows would be missing or duplicated. All fed files are then taken in again, from
        the first; raise JobError if some are missing."""
        anew = not self.inbox.agrees_with(self.state.last_step())
        told = read_status(self.settings.root, self.process.name).get("fed")
        gone = []
        for relation in self.process.fed:
            known = set(self.inbox.files_fed(relation))
            said = told.get(relation, []) if isinstance(told, dict) else []
            needed = {*map(str, said), *known} if anew else {*map(str, said)} - known
            folder = self.feeds.folder(relation)
            needed = {name for name in needed if not os.path.lexists(folder / name)}
            if needed:
                # A snapshot stands for the files that it covers.
                needed -= self.feeds.listing(relation).covered
            gone += [folder / name for name in sorted(needed)]
        if gone:
            listed = ", ".join(map(path_text, gone[:3])) + (", ..." if len(gone) > 3 else "")
            what = "the state and the inbox do not match" if anew else "the home is new, or an older copy"
            known_in = status_path(self.settings.root, self.process.name)
            raise JobError(
                f"{self.settings.home}: {what}, and {len(gone)} of the files that {self.process.name} was fed are "
                f"missing and cannot be read again: {listed}; restore them or, to continue without their rows, "
                f"remove {known_in}"
                f"{' and ' + str(self.settings.home / 'inbox.duckdb') if anew else ''}"
            )
        if anew:
            kept = f"aside-{self.incarnation}"
            self.log.warn(
                f"{self.settings.home}: the state and the inbox do not match (was one of them lost, or restored from a "
                f"copy?); {self.process.name} starts over, and keeps the old ones under names with {kept}"
            )
            if self.state.last_step():
                self.state.begin_anew(kept)
            self.inbox.begin_anew(kept)

    def open_sessions(self) -> None:
        """Open a session on each input channel, as far as possible."""
        for channel in self.process.receives:
            try:
                self.open_session(channel)
            except Exception as error:
                if not is_cut_off(error):
                    raise
                self.note_cut_off(channel, reason(error))

    def open_session(self, channel: Channel) -> None:
        """Open a new session on an input channel; until that is possible, it counts as unopened."""
        self.unopened.add(channel.name)
        self.inbox.lines[channel.name].session = self.channels.open_session(channel)
        self.unopened.discard(channel.name)
        self.unanswered.setdefault(channel.name, time.monotonic())

    def note_cut_off(self, channel: Channel, why: str) -> None:
        """Report that nothing gets through on a channel, or with an empty text that it does again."""
        if why == self.cut_off.get(channel.name, ""):
            return
        if why:
            self.cut_off[channel.name] = why
            self.log.event("cut_off", channel=channel.name, why=why)
        else:
            del self.cut_off[channel.name]
            self.log.event("cut_off_over", channel=channel.name)

    def try_turn(self) -> tuple[bool, float]:
        """Run a turn, and return whether there was news and how many seconds to wait. A transient error is logged,
        and the next call resumes the turn; raise other errors, and JobError if Spark has ended."""
        try:
            busy = self.turn()
        except Exception as error:
            if not self.state.has_spark():
                raise JobError("Spark has ended; start the process again") from error
            if not may_pass(error):
                raise
            pause = self.troubles.note(error)
            with contextlib.suppress(Exception):
                # Discard uncommitted changes of the inbox.
                self.inbox.reopen()
                self.report(busy=True)
            return False, pause
        if self.troubles.over():
            self.report()
        return busy, 0.0

    def turn(self) -> bool:
        """Take in, apply and send on what has arrived, or resume a failed turn; return whether there was anything."""
        self.channels.look()
        self.check_incarnation()
        if self.unclean:
            self.inbox.reopen()
        self.unclean = True
        if not self.gathered:
            self.read.clear()
            self.step = self.inbox.unfinished() or self.gather()
            self.gathered = True
        if self.step:
            self.apply(self.step)
        if self.unsent is None:
            self.waits = {relation: self.feeds.has_waiting(relation) for relation in self.process.fed}
            self.unsent = [(c, self.has_caught_up(c)) for c in self.process.sends]
            self.rows.clear()
            self.changes.clear()
        while self.unsent:
            channel, caught_up = self.unsent[-1]
            if self.try_to_send(channel, caught_up):
                self.caught_up[channel.name] = caught_up
            self.unsent.pop()
        self.rows.clear()
        self.changes.clear()
        if self.step:
            self.prune(self.step.name)
        busy = bool(self.step or self.read)
        while self.read:
            try:
                self.channels.done(*self.read[-1])
            except OSError as error:
                # It is told again, and known then.
                if not is_cut_off(error):
                    raise
            self.read.pop()
        self.step, self.unsent, self.gathered, self.unclean = None, None, False, False
        self.report()
        return busy

    def check_incarnation(self) -> None:
        """Raise JobError if another run has taken over or the channels were replaced, Passing if they are missing."""
        name, last = self.process.name, self.channels.last_incarnation(self.process.name)
        if last == self.incarnation:
            return
        if last == NO_NUMBER:
            raise Passing(
                f"incarnation {self.incarnation.number} of {name} cannot be found: do the channels still exist? If "
                "they were created again, start the process again"
            )
        if self.is_overtaken():
            raise JobError(f"another run of {name} has taken over")
        raise JobError(
            f"incarnation {last} of {name} is the last one in the channels, but this is {self.incarnation}: the "
            "channels were restored from a copy; start the process again"
        )

    def gather(self) -> InputStep | None:
        """Take in everything that has arrived, and return it as a step; None if nothing has changed."""
        now = time.monotonic()
        self.senders.clear()
        self.inbox.begin()
        for channel in self.process.receives:
            self.listen(channel, now)
        self.inbox.end_holds(now)
        fed, replaced = self.feeds.next_files(), {}
        if fed or self.read:
            self.report(busy=True)
        for relation, path in list(fed.items()):
            try:
                if found := self.replacement(relation, path):
                    replaced[relation] = found
            except Refused as error:
                if may_pass(error):
                    raise
                self.feeds.refuse(relation, path, error.plain)
                del fed[relation]
        self.inbox.note_passed(self.feeds.passed)
        return self.inbox.finish(fed, replaced)

    def replacement(self, relation: str, path: Path) -> Replacement | None:
        """Return what a file changes if it is a snapshot of a feed, otherwise None."""
        if not SNAPSHOT_FILE.fullmatch(path.name):
            return None
        listing, known = self.feeds.listing(relation), input_relation(self.state.program, relation)
        return replacement(self.state.program, relation, path, listing, self.state.whole(known))

    def listen(self, channel: Channel, now: float) -> None:
        """Take in what has arrived on a channel. If it is cut off, go on without it; once it has been for longer than a
        lease, its tuples are deleted, as if the sender were gone."""
        line = self.inbox.lines[channel.name]
        try:
            self.watch(channel, now)
            self.take_in(channel, now)
            if self.is_unanswered(channel, now):
                self.cut(channel, now)
        except Exception as error:
            if not is_cut_off(error):
                raise
            self.note_cut_off(channel, reason(error))
            since = self.deaf.setdefault(channel.name, now)
            if now - since > self.settings.lease and line.state == "open":
                self.cut(channel, now)
        else:
            self.deaf.pop(channel.name, None)
            # A node may send to itself on a channel.
            if channel.name not in self.unsendable:
                self.note_cut_off(channel, "")

    def cut(self, channel: Channel, now: float) -> None:
        """Cut a channel, which needs a new session then."""
        line = self.inbox.lines[channel.name]
        self.inbox.cut(channel, now)
        self.unopened.add(channel.name)
        # If messages come again, but no lease, the channel stays open.
        line.leased = False
        self.log.event("cut", channel=channel.name, sender=channel.sender, held=line.state == "held")

    def is_silent(self, channel: Channel, last: Number, now: float) -> bool:
        """Return whether the lease of a channel has run out, which the sender's incarnation ``last`` should renew. It
        counts only if the sender can see the reader's session, for which it sends nothing otherwise."""
        line, pulse = self.inbox.lines[channel.name], self.channels.pulse(channel)
        known, since = self.pulses.get(channel.name, (Pulse(last, 0, NO_NUMBER), now))
        if known.incarnation != last:
            known, since = Pulse(last, 0, NO_NUMBER), now
        if pulse is not None and pulse.incarnation == last and pulse.beat > known.beat:
            heard = pulse.session == line.session
            known, since = pulse, now if heard else since
            line.leased = line.leased or not heard or line.life.incarnation == last
        self.pulses[channel.name] = known, since
        return line.leased and now - max(since, self.unanswered.get(channel.name, since)) > self.settings.lease

    def is_unanswered(self, channel: Channel, now: float) -> bool:
        """Return whether a channel shows tuples of an older session, though its sender has answered the present one
        for longer than a lease: its answers are lost or damaged."""
        line = self.inbox.lines[channel.name]
        if line.last.session == line.session:
            self.unanswered.pop(channel.name, None)
        answered = line.told.session == line.session and line.sent and line.told != self.strange.get(channel.name)
        late = now - self.unanswered.get(channel.name, now) > self.settings.lease
        return bool(line.state == "open" and answered and late)

    def watch(self, channel: Channel, now: float) -> None:
        """Cut a channel whose sender is gone, or whose own lease has run out. Open a new session then, and also if this
        one is not the latest or if the sender's incarnation numbers have fallen. Raise CutOff if no session can be
        found."""
        line, session = self.inbox.lines[channel.name], self.channels.session(channel)
        if session == NO_NUMBER and line.session != NO_NUMBER:
            # A new folder would block the return of one that is missing for a moment.
            raise CutOff(
                f"session {line.session.number} of {channel.name} cannot be found: do the channels still exist? If "
                "they were created again, start the process again"
            )
        if channel.sender not in self.senders:
            found = self.channels.last_incarnation(channel.sender), self.channels.lease(channel.sender)
            self.senders[channel.sender] = found
        last, lease = self.senders[channel.sender]
        known, since = self.leases.setdefault(channel.sender, (None, now))
        # A lease that is not newer, or is from an older run, may be a replay and is no sign of life.
        beat = known.beat if known is not None and known.incarnation == last else 0
        if lease is not None and lease.incarnation == last and lease.beat > beat:
            known, since = lease, now
            self.leases[channel.sender] = (lease, now)
        if known is not None and channel.name in known.sent:
            said = known.sent[channel.name]
            line.told = Life(known.incarnation, said.session, said.beginning)
            line.sent = said.messages
        gone = (known is not None and not known.running) or now - since > self.settings.lease
        if (self.is_silent(channel, last, now) or gone) and line.state == "open":
            self.cut(channel, now)
        if channel.name in self.unopened:
            self.open_session(channel)
        elif session != line.session:
            self.open_session_anew(channel, "its session is not the last one")
        elif (
            line.last.session == session
            and line.last.incarnation != last
            and line.last.incarnation.number >= last.number
        ):
            self.open_session_anew(channel, "its sender's incarnation number has decreased")

    def take_in(self, channel: Channel, now: float) -> None:
        """Take in the messages of a channel that have arrived. If some are damaged, or missing for longer than a
        lease, ask for a new snapshot."""
        line = self.inbox.lines[channel.name]
        unsound, early = "", False
        for message in self.channels.waiting(channel):
            if message.life == self.strange.get(channel.name):
                self.read.append((channel, message))
                continue
            rows = functools.partial(self.channels.read, channel, message)
            try:
                taken = self.inbox.receive(channel, message, rows)
            except FileNotFoundError:
                continue
            except UnsoundMessage as error:
                unsound = str(error)
                self.log.warn(f"{unsound}; it is ignored")
                continue
            except OtherColumns as error:
                self.strange[channel.name] = message.life
                self.log.warn(f"{error}; its messages are not read until it sends the expected columns")
                taken = True
            early = early or not taken
            if taken:
                self.read.append((channel, message))
        strange = self.strange.get(channel.name, line.last)
        answered = line.last.session == line.session and line.last != strange
        if answered and (strange.session != line.session or line.last > strange):
            del self.strange[channel.name]
        if early or (line.lacks and line.told != self.strange.get(channel.name)):
            if now - self.lacking.setdefault(channel.name, now) > self.settings.lease:
                unsound = unsound or "messages are missing"
        else:
            self.lacking.pop(channel.name, None)
        if unsound:
            self.begin_session_anew(channel, unsound, now)

    def begin_session_anew(self, channel: Channel, why: str, now: float) -> None:
        """Open a new session on a channel to get a new snapshot, with exponential backoff."""
        times, until = self.renewals.get(channel.name, (0, now))
        if now < until:
            return
        if now > until + 2 * MOST_PAUSE:
            times = 0
        self.renewals[channel.name] = (times + 1, now + pause_after(times, 1.0))
        self.open_session_anew(channel, why)

    def open_session_anew(self, channel: Channel, why: str) -> None:
        """Open a new session on a channel to get a new snapshot."""
        self.lacking.pop(channel.name, None)
        self.open_session(channel)
        self.log.event("begin_anew", channel=channel.name, why=why)

    def apply(self, step: InputStep) -> None:
        """Apply a step to the state. If fed files are refused, leave them out and apply the rest of the step."""
        received = {channel.input for channel in self.process.receives}
        taken = {
            name: sum(rows_of_file(Path(path)) for path in paths if Path(path).exists())
            for name, paths in step.files.items()
            if name in received
        }
        try:
            applied = self.state.apply(step)
        except Exception as error:
            fed = [name for name in step.files if name in self.process.fed]
            if compacted := [name for name in fed if self.is_compacted(name, Path(step.files[name][0]))]:
                left = self.inbox.leave_out(step, compacted)
            elif not fed or not isinstance(error, Refused) or may_pass(error):
                raise
            elif fed[1:]:
                # Take each in alone to find out which is refused.
                self.feeds.alone.update(fed)
                left = self.inbox.leave_out(step, fed[1:])
            else:
                self.feeds.refuse(fed[0], self.feeds.folder(fed[0]) / Path(step.files[fed[0]][0]).name, error.plain)
                left = self.inbox.leave_out(step, fed)
            # If this fails too, the turn is resumed with the reduced step.
            self.step = left
            self.apply(left)
            return
        self.inbox.done(step)
        self.feeds.alone.difference_update(step.files)
        for name in set(step.files) & self.feeds.refused.keys():
            del self.feeds.refused[name]
        if applied:
            self.counts["in"] += sum(taken.values())
            self.counts["steps"] += 1
            self.last = datetime.now(UTC).isoformat(timespec="milliseconds")
            self.log.event("step", step=step.number, handled=sum(taken.values()), **taken)

    def is_compacted(self, relation: str, path: Path) -> bool:
        """Return whether a file that was fed is gone, and a snapshot stands for it."""
        return not os.path.lexists(path) and path.name in self.feeds.listing(relation).covered

    def has_caught_up(self, channel: Channel) -> bool:
        """Return whether everything that a channel's relation is derived from is here, its senders having caught up."""
        waiting = [relation for relation in channel.needs if self.waits.get(relation)]
        lines = [c for c in self.process.receives if c.input in channel.needs]
        return not waiting and all(map(self.is_here, lines))

    def is_here(self, channel: Channel) -> bool:
        """Return whether everything from a channel has arrived and its sender has caught up."""
        line = self.inbox.lines[channel.name]
        unheard = channel.name in self.strange or channel.name in self.cut_off
        return line.state == "open" and line.caught_up and not unheard

    def try_to_send(self, channel: Channel, caught_up: bool) -> bool:
        """Send what there is on a channel, and return True. If it is cut off, go on without it, trying again at
        increasing intervals; once it accepts messages again, its reader gets a snapshot."""
        now, before = time.monotonic(), self.sent[channel.name]
        times, until = self.unsendable.get(channel.name, (0, now))
        if now >= until:
            try:
                if times:
                    self.note(channel, before._replace(session=NO_NUMBER))
                self.send_on(channel, self.step, caught_up)
            except Exception as error:
                if not is_cut_off(error):
                    raise
                until = now + pause_after(times + 1)
                self.unsendable[channel.name] = times + 1, until
                self.note_cut_off(channel, reason(error))
                # The reader learns that something is missing.
                _, beginning, messages = self.sent[channel.name]
                self.note(channel, Sent(before.session, beginning, messages + 1))
            else:
                self.unsendable.pop(channel.name, None)
                self.note_cut_off(channel, "")
            self.beat.cut_off = frozenset(self.unsendable)
        return channel.name not in self.unsendable

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

    def prune(self, step: str = "") -> None:
        """Remove what a step, or each one before this run, has published of the relations that channels send: it was
        sent on all of them, and a reader that lost it gets a snapshot."""
        if not self.settings.keep_published:
            # A relation may be sent as a projection.
            names = {name for channel in self.process.sends for name in (channel.output, channel.relation)}
            sent = (r for r in self.state.program.relations if r.name in names and r.kind != "input")
            self.state.prune(sent, step)

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
        self.counts["out"] += rows.num_rows
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

    def report(self, busy: bool = False) -> None:
        """Write the status file if it has changed, unless another run has taken over."""
        receives = {
            name: {
                "state": line.state,
                "life": line.last,
                "session": line.session,
                "messages": line.messages,
                "highest": line.highest,
            }
            for name, line in self.inbox.lines.items()
        }
        sends = {
            name: {
                "life": Life(self.incarnation, session, beginning),
                "messages": messages,
                "total": self.totals[name]._asdict(),
            }
            for name, (session, beginning, messages) in self.sent.items()
        }
        said = {
            "process": self.process.name,
            "pid": os.getpid(),
            "home": str(self.settings.home.absolute()),
            "incarnation": self.incarnation.number,
            "caught_up": not (busy or self.unsendable or any(self.waits.values()))
            and all(map(self.is_here, self.process.receives)),
            "busy": busy,
            "fed": {relation: self.inbox.files_fed(relation) for relation in self.process.fed},
            "receives": receives,
            "sends": sends,
            "refused": [message for _, _, message in self.feeds.refused.values()],
            "held_up": sorted(self.feeds.refused),
            "aside": self.feeds.aside,
            "trouble": self.troubles.last or "; ".join(sorted(set(self.cut_off.values()))),
            "cut_off": self.cut_off,
            "last": self.last,
            **self.counts,
        }
        text = json.dumps(said).encode()
        if text != self.said:
            # If that cannot be determined, report anyway, so that the trouble is visible.
            with contextlib.suppress(OSError):
                if self.is_overtaken():
                    return
            if write_status(self.settings.root, self.process.name, text, self.log):
                self.said = text

    def is_overtaken(self) -> bool:
        """Return whether another run of this process has taken over."""
        last = self.channels.last_incarnation(self.process.name)
        return last.number > self.incarnation.number

    def end(self) -> None:
        """Give up the lease, and close the channels and the inbox."""
        self.beat.end()
        self.channels.close()
        self.inbox.connection.close()


def own(read: Callable[[], Any]) -> Any:
    """Return what is read of this process's state; if that fails, no channel is cut off for it."""
    try:
        return read()
    except OSError as error:
        raise Passing(f"the state cannot be read: {error}") from error


def sent_relation(program: Program, channel: Channel) -> Relation:
    """Return the relation of this program that a channel sends."""
    return next(r for r in program.relations if r.name == channel.output and r.kind != "input")
