"""The input channels of a process: their sessions, their leases, and the messages that arrive."""

from __future__ import annotations

import functools
import time
from collections.abc import Container
from dataclasses import dataclass

from ...kernel.errors import reason
from ...system.log import Log
from ...system.transient_errors import MOST_PAUSE, pause_after
from .channels import (
    NO_NUMBER,
    Channel,
    CutOff,
    CutOffs,
    Lease,
    Life,
    Message,
    Number,
    Process,
    Pulse,
    UnsoundMessage,
    is_cut_off,
)
from .inbox import Inbox, OtherColumns
from .lease_renewal import Channels


@dataclass
class Hearing:
    """The knowledge of a run of a process about an input channel, beside its line. Times are of the monotonic clock.

    ``unopened``: it needs a new session as soon as one can be opened. ``unanswered_since``: since when a session has
    been waiting for an answer while the channel shows tuples of an older one. ``pulse`` is the last lease of the
    channel from the sender's latest incarnation, known since ``pulse_since``. ``deaf_since``: since when it cannot be
    read. ``strange`` is the life whose columns do not match. ``lacking_since``: since when messages have been missing.
    ``renewals`` counts the new sessions opened in a row, and no further one is opened before ``next_renewal``."""

    unopened: bool = False
    unanswered_since: float | None = None
    pulse: Pulse | None = None
    pulse_since: float = 0.0
    deaf_since: float | None = None
    strange: Life | None = None
    lacking_since: float | None = None
    renewals: int = 0
    next_renewal: float = 0.0


class Listener:
    """Takes in what arrives on the input channels of a process, turn by turn. A sender that has not renewed its lease
    for ``lease`` seconds is considered gone."""

    def __init__(self, inbox: Inbox, channels: Channels, process: Process, lease: float, cut_off: CutOffs) -> None:
        """Open no session yet."""
        self.inbox, self.channels, self.process, self.lease = inbox, channels, process, lease
        self.cut_off = cut_off
        self.log: Log = cut_off.log
        self.hearings = {channel.name: Hearing() for channel in process.receives}
        self.leases: dict[str, tuple[Lease | None, float]] = {}
        #: Per sender, its latest incarnation and its lease, as they were when this turn first asked for them.
        self.senders: dict[str, tuple[Number, Lease | None]] = {}
        #: The messages of the turn that were taken in, or are void.
        self.read: list[tuple[Channel, Message]] = []

    def open_sessions(self) -> None:
        """Open a session on each input channel, as far as possible."""
        for channel in self.process.receives:
            try:
                self.open_session(channel)
            except Exception as error:
                if not is_cut_off(error):
                    raise
                self.cut_off.note(channel, reason(error))

    def open_session(self, channel: Channel) -> None:
        """Open a new session on an input channel; until that is possible, it counts as unopened."""
        hearing = self.hearings[channel.name]
        hearing.unopened = True
        self.inbox.lines[channel.name].session = self.channels.open_session(channel)
        hearing.unopened = False
        if hearing.unanswered_since is None:
            hearing.unanswered_since = time.monotonic()

    def listen(self, channel: Channel, now: float, unsendable: Container[str]) -> None:
        """Take in the messages that have arrived on a channel. If it is cut off, go on without it; once it has been for
        longer than a lease, its tuples are deleted, as if the sender were gone. On channels that are ``unsendable``
        nothing gets through either: a node may send to itself."""
        line, hearing = self.inbox.lines[channel.name], self.hearings[channel.name]
        try:
            self.watch(channel, now)
            self.take_in(channel, now)
            if self.is_unanswered(channel, now):
                self.cut(channel, now)
        except Exception as error:
            if not is_cut_off(error):
                raise
            self.cut_off.note(channel, reason(error))
            if hearing.deaf_since is None:
                hearing.deaf_since = now
            if now - hearing.deaf_since > self.lease and line.state == "open":
                self.cut(channel, now)
        else:
            hearing.deaf_since = None
            if channel.name not in unsendable:
                self.cut_off.note(channel, "")

    def cut(self, channel: Channel, now: float) -> None:
        """Cut a channel, which needs a new session then."""
        line = self.inbox.lines[channel.name]
        self.inbox.cut(channel, now)
        self.hearings[channel.name].unopened = True
        # If messages come again, but no lease, the channel stays open.
        line.leased = False
        self.log.event("cut", channel=channel.name, sender=channel.sender, held=line.state == "held")

    def is_silent(self, channel: Channel, last: Number, now: float) -> bool:
        """Return whether the lease of a channel has run out, which the sender's incarnation ``last`` should renew. It
        counts only if the sender can see the reader's session, for which it sends nothing otherwise."""
        line, hearing = self.inbox.lines[channel.name], self.hearings[channel.name]
        pulse, last_pulse, since = self.channels.pulse(channel), hearing.pulse, hearing.pulse_since
        if last_pulse is None or last_pulse.incarnation != last:
            last_pulse, since = Pulse(last, 0, NO_NUMBER), now
        if pulse is not None and pulse.incarnation == last and pulse.beat > last_pulse.beat:
            heard = pulse.session == line.session
            last_pulse, since = pulse, now if heard else since
            line.leased = line.leased or not heard or line.life.incarnation == last
        hearing.pulse, hearing.pulse_since = last_pulse, since
        begun = since if hearing.unanswered_since is None else max(since, hearing.unanswered_since)
        return line.leased and now - begun > self.lease

    def is_unanswered(self, channel: Channel, now: float) -> bool:
        """Return whether a channel shows tuples of an older session, though its sender has answered the present one
        for longer than a lease: its answers are lost or damaged."""
        line, hearing = self.inbox.lines[channel.name], self.hearings[channel.name]
        if line.last.session == line.session:
            hearing.unanswered_since = None
        answered = line.told.session == line.session and line.sent and line.told != hearing.strange
        since = now if hearing.unanswered_since is None else hearing.unanswered_since
        late = now - since > self.lease
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
            latest = self.channels.last_incarnation(channel.sender), self.channels.lease(channel.sender)
            self.senders[channel.sender] = latest
        last, lease = self.senders[channel.sender]
        last_lease, since = self.leases.setdefault(channel.sender, (None, now))
        # A lease that is not newer, or is from an older run, may be a replay and is no sign of life.
        beat = last_lease.beat if last_lease is not None and last_lease.incarnation == last else 0
        if lease is not None and lease.incarnation == last and lease.beat > beat:
            last_lease, since = lease, now
            self.leases[channel.sender] = (lease, now)
        if last_lease is not None and channel.name in last_lease.sent:
            said = last_lease.sent[channel.name]
            line.told = Life(last_lease.incarnation, said.session, said.beginning)
            line.sent = said.messages
        gone = (last_lease is not None and not last_lease.running) or now - since > self.lease
        if (self.is_silent(channel, last, now) or gone) and line.state == "open":
            self.cut(channel, now)
        if self.hearings[channel.name].unopened:
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
        line, hearing = self.inbox.lines[channel.name], self.hearings[channel.name]
        unsound, early = "", False
        for message in self.channels.waiting(channel):
            if message.life == hearing.strange:
                self.read.append((channel, message))
                continue
            rows = functools.partial(self.channels.read, channel, message)
            try:
                received = self.inbox.receive(channel, message, rows)
            except FileNotFoundError:
                continue
            except UnsoundMessage as error:
                unsound = str(error)
                self.log.warn(f"{unsound}; it is ignored")
                continue
            except OtherColumns as error:
                hearing.strange = message.life
                self.log.warn(f"{error}; its messages are not read until it sends the expected columns")
                received = True
            early = early or not received
            if received:
                self.read.append((channel, message))
        strange = hearing.strange or line.last
        answered = line.last.session == line.session and line.last != strange
        if answered and (strange.session != line.session or line.last > strange):
            hearing.strange = None
        if early or (line.lacks and line.told != hearing.strange):
            if hearing.lacking_since is None:
                hearing.lacking_since = now
            if now - hearing.lacking_since > self.lease:
                unsound = unsound or "messages are missing"
        else:
            hearing.lacking_since = None
        if unsound:
            self.begin_session_anew(channel, unsound, now)

    def begin_session_anew(self, channel: Channel, why: str, now: float) -> None:
        """Open a new session on a channel to get a new snapshot, with exponential backoff."""
        hearing = self.hearings[channel.name]
        if now < hearing.next_renewal:
            return
        if now > hearing.next_renewal + 2 * MOST_PAUSE:
            hearing.renewals = 0
        hearing.next_renewal = now + pause_after(hearing.renewals, 1.0)
        hearing.renewals += 1
        self.open_session_anew(channel, why)

    def open_session_anew(self, channel: Channel, why: str) -> None:
        """Open a new session on a channel to get a new snapshot."""
        self.hearings[channel.name].lacking_since = None
        self.open_session(channel)
        self.log.event("begin_anew", channel=channel.name, why=why)

    def is_here(self, channel: Channel) -> bool:
        """Return whether everything from a channel has arrived and its sender has caught up."""
        line = self.inbox.lines[channel.name]
        unheard = self.hearings[channel.name].strange is not None or channel.name in self.cut_off.why
        return line.state == "open" and line.caught_up and not unheard
