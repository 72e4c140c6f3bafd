"""The worker of a process: take in messages and fed files, apply them, and send on the changes.

The worker proceeds in turns. A turn takes in what has arrived as one step and applies it to the state, in one
transaction, sends the resulting changes on the output channels, and only then discards the messages. After a transient
error, the turn is resumed where it stopped. What a run that is killed has not sent is in the snapshots of the next one.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from ...database.reading import StoredChange
from ...kernel.errors import JobError, Passing, Refused, reason
from ...system.log import Log
from ...system.transient_errors import Troubles
from .channels import NO_NUMBER, Channel, CutOffs, Life, is_cut_off, path_text
from .feeds import Feeds
from .inbox import Inbox
from .lease_renewal import Beat, Channels
from .listening import Listener
from .sending import Sender
from .snapshots import SNAPSHOT_FILE, Replacement, changes_in, replacement
from .state import ProcessState
from .status import read_status, status_path, write_status
from .unattended import passes_unattended


@dataclass(frozen=True)
class Settings:
    """How a process runs: the folder ``root`` of all processes, its own folder ``home``, and times in seconds. A
    sender that has not renewed its lease for ``lease`` is considered gone, and its tuples are held for ``hold``."""

    root: Path
    home: Path
    lease: float = 5.0
    hold: float = 0.0


class FedFile(NamedTuple):
    """A file of a feed that was read: its path, its changes, and what it replaces if it is a snapshot."""

    path: Path
    changes: list[StoredChange]
    replaces: Replacement | None = None


class Worker:
    """A running process."""

    def __init__(self, state: ProcessState, channels: Channels, settings: Settings, log: Log) -> None:
        """Take an incarnation, open a session on each input channel, and start to renew the lease. The worker closes
        the state in the end, also if it cannot begin."""
        self.state, self.channels, self.process = state, channels, state.process
        self.settings, self.log = settings, log
        try:
            self.incarnation = self.channels.take_incarnation(self.process.name)
            self.inbox = Inbox(state, settings.hold, self.incarnation.nonce)
            self.feeds = Feeds(settings.root, self.process.name, self.process.fed, self.inbox.files_fed, log)
            self.cut_off = CutOffs(log, {})
            self.listener = Listener(self.inbox, channels, self.process, settings.lease, self.cut_off)
            self.check_home()
            self.listener.open_sessions()
        except BaseException:
            state.close()
            raise
        self.beat = Beat(self.channels, self.process, self.incarnation, settings.lease / 5, log)
        self.sender = Sender(state, channels, self.process, self.incarnation, self.beat, self.cut_off)
        #: The last commit that is known here: what it has changed is sent, or about to be.
        self.committed = state.database.commit.number
        # The unfinished part of a turn, which is resumed after an error.
        self.stepped = False
        #: The channels on which this turn still has to send, and whether it has caught up on them.
        self.unsent: list[tuple[Channel, bool]] | None = None
        self.gathered = self.unclean = False
        self.troubles = Troubles(log)
        #: Per fed relation, whether files were pending at the last check.
        self.waits = dict.fromkeys(self.process.fed, True)
        self.handled = self.steps = 0
        self.last = ""
        self.said = b""

    def check_home(self) -> None:
        """Raise JobError if the process has read files, as its status says, which the home does not know of, since it
        is new or an older copy, and which cannot be read again."""
        told = read_status(self.settings.root, self.process.name).get("fed")
        gone = []
        for relation in self.process.fed:
            said = told.get(relation, []) if isinstance(told, dict) else []
            needed = {*map(str, said)} - set(self.inbox.files_fed(relation))
            folder = self.feeds.folder(relation)
            needed = {name for name in needed if not os.path.lexists(folder / name)}
            if needed:
                # A snapshot stands for the files that it covers.
                needed -= self.feeds.listing(relation).covered
            gone += [folder / name for name in sorted(needed)]
        if gone:
            listed = ", ".join(map(path_text, gone[:3])) + (", ..." if len(gone) > 3 else "")
            known_in = status_path(self.settings.root, self.process.name)
            raise JobError(
                f"{self.settings.home}: the home is new, or an older copy, and {len(gone)} of the files that "
                f"{self.process.name} was fed are missing and cannot be read again: {listed}; restore them or, to "
                f"continue without their rows, remove {known_in}"
            )

    def try_turn(self) -> tuple[bool, float]:
        """Run a turn, and return whether there was news and how many seconds to wait. A transient error is logged,
        and the next call resumes the turn; raise other errors."""
        try:
            busy = self.turn()
        except Exception as error:
            if not passes_unattended(error):
                raise
            pause = self.troubles.note(reason(error))
            with contextlib.suppress(Exception):
                # What was not committed is discarded.
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
            if self.state.database.commit.number != self.committed:
                # A commit that failed is there nevertheless, and nobody knows what it has changed.
                self.sender.begin_anew()
                self.committed = self.state.database.commit.number
        self.unclean = True
        if not self.gathered:
            self.listener.read.clear()
            self.sender.forget_rows()
            self.stepped = self.take_in()
            self.gathered = True
        if self.unsent is None:
            self.waits = {relation: self.feeds.has_waiting(relation) for relation in self.process.fed}
            self.unsent = [(c, self.has_caught_up(c)) for c in self.process.sends]
        while self.unsent:
            channel, caught_up = self.unsent[-1]
            self.sender.try_to_send(channel, caught_up)
            self.unsent.pop()
        self.sender.forget_rows()
        busy = bool(self.stepped or self.listener.read)
        while self.listener.read:
            try:
                self.channels.done(*self.listener.read[-1])
            except OSError as error:
                # It is told again, and known then.
                if not is_cut_off(error):
                    raise
            self.listener.read.pop()
        self.unsent, self.gathered, self.unclean = None, False, False
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

    def take_in(self) -> bool:
        """Take in everything that has arrived as a step, and apply it, in one transaction; return whether that was
        anything that changes inputs."""
        now = time.monotonic()
        self.listener.senders.clear()
        with self.state.database.transaction():
            self.inbox.begin()
            for channel in self.process.receives:
                self.listener.listen(channel, now, self.sender.unsendable)
            self.inbox.end_holds(now)
            paths = self.feeds.next_files()
            if paths or self.listener.read:
                self.report(busy=True)
            fed = {relation: read for relation, path in paths.items() if (read := self.read_fed(relation, path))}
            received = self.inbox.received()
            taken, stepped = self.apply(received, fed)
            self.inbox.note_passed(self.feeds.passed)
            replaced = {name: each.replaces for name, each in taken.items() if each.replaces}
            self.inbox.finish({name: each.path for name, each in taken.items()}, replaced)
            if stepped:
                self.sender.note_changes()
        self.committed = self.state.database.commit.number
        self.feeds.alone.difference_update(taken)
        for name in taken.keys() & self.feeds.refused.keys():
            del self.feeds.refused[name]
        if stepped:
            # Lives are not sent.
            counts = {name: len(rows) for name, rows in received.items() if name != self.process.lives}
            self.handled += sum(counts.values())
            self.steps += 1
            self.last = datetime.now(UTC).isoformat(timespec="milliseconds")
            self.log.event("step", step=self.state.database.commit.number, handled=sum(counts.values()), **counts)
        return stepped

    def read_fed(self, relation: str, path: Path) -> FedFile | None:
        """Return what a file of a feed changes; None if it is refused, or was compacted meanwhile."""
        try:
            if SNAPSHOT_FILE.fullmatch(path.name):
                rows = self.state.database.stored_rows_of(self.state.program.inputs[relation])
                replaces = replacement(self.state.program, relation, path, self.feeds.listing(relation), rows)
                return FedFile(path, replaces.changes, replaces)
            return FedFile(path, changes_in(self.state.program, relation, path))
        except (Refused, FileNotFoundError) as error:
            if self.is_compacted(relation, path):
                return None
            if not isinstance(error, Refused) or passes_unattended(error):
                raise
            self.feeds.refuse(relation, path, error.plain)
            return None

    def apply(
        self, received: dict[str, list[StoredChange]], fed: dict[str, FedFile]
    ) -> tuple[dict[str, FedFile], bool]:
        """Apply what was received and fed to the state. If fed files are refused, leave them out, and apply the rest;
        return the files that were not, and whether inputs have changed, or may have."""
        taken = dict(fed)
        inputs = self.state.program.inputs
        while True:
            changes = {inputs[name].table: rows for name, rows in received.items()}
            changes |= {inputs[name].table: each.changes for name, each in taken.items()}
            if not changes or not (received or any(each.changes or not each.replaces for each in taken.values())):
                return taken, False
            number = self.state.database.commit.number + 1
            try:
                self.state.apply(changes, f"step-{number:09d}-{uuid.uuid4().hex[:8]}")
                return taken, True
            except Refused as error:
                if not taken or passes_unattended(error):
                    raise
                first, *others = taken
                if others:
                    # Take each in alone to find out which is refused.
                    self.feeds.alone.update(taken)
                    taken = {first: taken[first]}
                else:
                    self.feeds.refuse(first, taken[first].path, error.plain)
                    taken = {}

    def is_compacted(self, relation: str, path: Path) -> bool:
        """Return whether a file that was fed is gone, and a snapshot stands for it."""
        return not os.path.lexists(path) and path.name in self.feeds.listing(relation).covered

    def has_caught_up(self, channel: Channel) -> bool:
        """Return whether everything that a channel's relation is derived from is here, its senders having caught up."""
        waiting = [relation for relation in channel.needs if self.waits.get(relation)]
        lines = [c for c in self.process.receives if c.input in channel.needs]
        return not waiting and all(map(self.listener.is_here, lines))

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
                "total": self.sender.totals[name]._asdict(),
            }
            for name, (session, beginning, messages) in self.sender.sent.items()
        }
        said = {
            "process": self.process.name,
            "pid": os.getpid(),
            "home": str(self.settings.home.absolute()),
            "incarnation": self.incarnation.number,
            "caught_up": not (busy or self.sender.unsendable or any(self.waits.values()))
            and all(map(self.listener.is_here, self.process.receives)),
            "busy": busy,
            "fed": {relation: self.inbox.files_fed(relation) for relation in self.process.fed},
            "receives": receives,
            "sends": sends,
            "refused": [message for _, _, message in self.feeds.refused.values()],
            "held_up": sorted(self.feeds.refused),
            "aside": self.feeds.aside,
            "trouble": self.troubles.last or "; ".join(sorted(set(self.cut_off.why.values()))),
            "cut_off": self.cut_off.why,
            "last": self.last,
            "in": self.handled,
            "out": sum(total.inserted + total.deleted for total in self.sender.totals.values()),
            "steps": self.steps,
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
        """Give up the lease, and close the channels and the state."""
        self.beat.end()
        self.channels.close()
        self.state.close()
