"""The worker of a process: take in messages and fed files, apply them, and send on the changes.

The worker proceeds in turns. A turn takes in what has arrived as one step, applies the step to the state as a
batch, sends the resulting changes on the output channels, and only then discards the messages. After a transient
error, the turn is resumed where it stopped.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ...inputs.records import input_relation
from ...kernel.errors import JobError, Passing, Refused, reason
from ...system.log import Log
from ...system.places import rows_of_file
from ...system.transient_errors import Troubles
from .channels import NO_NUMBER, Channel, CutOffs, Life, Process, is_cut_off, path_text
from .feeds import Feeds
from .inbox import INBOX_FILE, Inbox, InputStep
from .lease_renewal import Beat, Channels
from .listening import Listener
from .sending import Sender
from .snapshots import SNAPSHOT_FILE, Replacement, replacement
from .state import JobState
from .status import read_status, status_path, write_status
from .unattended import passes_unattended


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


class Worker:
    """A running process."""

    def __init__(self, state: JobState, channels: Channels, process: Process, settings: Settings, log: Log) -> None:
        """Take an incarnation, open a session on each input channel, and start to renew the lease."""
        self.state, self.channels, self.process = state, channels, process
        self.settings, self.log = settings, log
        self.incarnation = self.channels.take_incarnation(process.name)
        self.inbox = Inbox(settings.home, process, state.program, settings.hold, self.incarnation.nonce)
        self.feeds = Feeds(settings.root, process.name, process.fed, self.inbox.files_fed, log)
        self.cut_off = CutOffs(log, {})
        self.listener = Listener(self.inbox, channels, process, settings.lease, self.cut_off)
        try:
            self.check_home()
            self.listener.open_sessions()
        except BaseException:
            self.inbox.connection.close()
            raise
        self.beat = Beat(self.channels, process, self.incarnation, settings.lease / 5, log)
        self.sender = Sender(state, channels, process, self.incarnation, self.beat, self.cut_off)
        # The unfinished part of a turn, which is resumed after an error.
        self.step: InputStep | None = None
        #: The channels on which this turn still has to send, and whether it has caught up on them.
        self.unsent: list[tuple[Channel, bool]] | None = None
        self.gathered = self.unclean = False
        self.troubles = Troubles(log)
        #: Per fed relation, whether files were pending at the last check.
        self.waits = dict.fromkeys(process.fed, True)
        self.handled = self.steps = 0
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
            read = set(self.inbox.files_fed(relation))
            said = told.get(relation, []) if isinstance(told, dict) else []
            needed = {*map(str, said), *read} if anew else {*map(str, said)} - read
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
                f"{' and ' + str(self.settings.home / INBOX_FILE) if anew else ''}"
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

    def try_turn(self) -> tuple[bool, float]:
        """Run a turn, and return whether there was news and how many seconds to wait. A transient error is logged,
        and the next call resumes the turn; raise other errors, and JobError if Spark has ended."""
        try:
            busy = self.turn()
        except Exception as error:
            if not self.state.has_spark():
                raise JobError("Spark has ended; start the process again") from error
            if not passes_unattended(error):
                raise
            pause = self.troubles.note(reason(error))
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
            self.listener.read.clear()
            self.step = self.inbox.unfinished() or self.gather()
            self.gathered = True
        if self.step:
            self.apply(self.step)
        if self.unsent is None:
            self.waits = {relation: self.feeds.has_waiting(relation) for relation in self.process.fed}
            self.unsent = [(c, self.has_caught_up(c)) for c in self.process.sends]
            self.sender.forget_rows()
        while self.unsent:
            channel, caught_up = self.unsent[-1]
            self.sender.try_to_send(channel, self.step, caught_up)
            self.unsent.pop()
        self.sender.forget_rows()
        if self.step:
            self.prune(self.step.name)
        busy = bool(self.step or self.listener.read)
        while self.listener.read:
            try:
                self.channels.done(*self.listener.read[-1])
            except OSError as error:
                # It is told again, and known then.
                if not is_cut_off(error):
                    raise
            self.listener.read.pop()
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
        self.listener.senders.clear()
        self.inbox.begin()
        for channel in self.process.receives:
            self.listener.listen(channel, now, self.sender.unsendable)
        self.inbox.end_holds(now)
        fed, replaced = self.feeds.next_files(), {}
        if fed or self.listener.read:
            self.report(busy=True)
        for relation, path in list(fed.items()):
            try:
                if change := self.replacement(relation, path):
                    replaced[relation] = change
            except Refused as error:
                if passes_unattended(error):
                    raise
                self.feeds.refuse(relation, path, error.plain)
                del fed[relation]
        self.inbox.note_passed(self.feeds.passed)
        return self.inbox.finish(fed, replaced)

    def replacement(self, relation: str, path: Path) -> Replacement | None:
        """Return what a file changes if it is a snapshot of a feed, otherwise None."""
        if not SNAPSHOT_FILE.fullmatch(path.name):
            return None
        listing, input_fed = self.feeds.listing(relation), input_relation(self.state.program, relation)
        return replacement(self.state.program, relation, path, listing, self.state.whole(input_fed))

    def apply(self, step: InputStep) -> None:
        """Apply a step to the state. If fed files are refused, leave them out and apply the rest of the step."""
        received = {channel.input for channel in self.process.receives}
        received_rows = {
            name: sum(rows_of_file(Path(path)) for path in paths if Path(path).exists())
            for name, paths in step.files.items()
            if name in received
        }
        try:
            applied = self.state.apply(step)
        except Exception as error:
            fed = [name for name in step.files if name in self.process.fed]
            if compacted := [name for name in fed if self.is_compacted(name, Path(step.files[name][0]))]:
                reduced = self.inbox.leave_out(step, compacted)
            elif not fed or not isinstance(error, Refused) or passes_unattended(error):
                raise
            elif fed[1:]:
                # Take each in alone to find out which is refused.
                self.feeds.alone.update(fed)
                reduced = self.inbox.leave_out(step, fed[1:])
            else:
                self.feeds.refuse(fed[0], self.feeds.folder(fed[0]) / Path(step.files[fed[0]][0]).name, error.plain)
                reduced = self.inbox.leave_out(step, fed)
            # If this fails too, the turn is resumed with the reduced step.
            self.step = reduced
            self.apply(reduced)
            return
        self.inbox.done(step)
        self.feeds.alone.difference_update(step.files)
        for name in set(step.files) & self.feeds.refused.keys():
            del self.feeds.refused[name]
        if applied:
            self.handled += sum(received_rows.values())
            self.steps += 1
            self.last = datetime.now(UTC).isoformat(timespec="milliseconds")
            self.log.event("step", step=step.number, handled=sum(received_rows.values()), **received_rows)

    def is_compacted(self, relation: str, path: Path) -> bool:
        """Return whether a file that was fed is gone, and a snapshot stands for it."""
        return not os.path.lexists(path) and path.name in self.feeds.listing(relation).covered

    def has_caught_up(self, channel: Channel) -> bool:
        """Return whether everything that a channel's relation is derived from is here, its senders having caught up."""
        waiting = [relation for relation in channel.needs if self.waits.get(relation)]
        lines = [c for c in self.process.receives if c.input in channel.needs]
        return not waiting and all(map(self.listener.is_here, lines))

    def prune(self, step: str = "") -> None:
        """Remove what a step, or each one before this run, has published of the relations that channels send: it was
        sent on all of them, and a reader that lost it gets a snapshot."""
        if not self.settings.keep_published:
            # A relation may be sent as a projection.
            names = {name for channel in self.process.sends for name in (channel.output, channel.relation)}
            sent = (r for r in self.state.program.relations if r.name in names and r.kind != "input")
            self.state.prune(sent, step)

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
        """Give up the lease, and close the channels and the inbox."""
        self.beat.end()
        self.channels.close()
        self.inbox.connection.close()
