"""The renewal of the leases of a process and its channels, in a thread, while it runs."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping

from ...kernel.errors import JobError
from ...system.log import Log
from .channels import DirectoryChannels, Lease, Number, Process, Pulse, Sent
from .kafka import KafkaChannels

Channels = DirectoryChannels | KafkaChannels
"""The ways in which processes exchange messages."""


class Beat:
    """A thread that renews the leases of a process and of the channels on which it sends, until it ends or another run
    takes over."""

    def __init__(self, channels: Channels, process: Process, incarnation: Number, every: float, log: Log) -> None:
        """Start the thread, which renews leases every ``every`` seconds."""
        self.channels, self.process, self.incarnation = channels, process, incarnation
        self.log = log
        #: What the process has sent on each channel; replaced as a whole, since two threads share it.
        self.sent: Mapping[str, Sent] = {}
        #: The channels on which messages do not get through, so that their leases are not renewed; replaced, too.
        self.cut_off: Collection[str] = frozenset()
        self.silent: set[str] = set()
        self.ended = threading.Event()
        self.beat = 0
        self.thread = threading.Thread(target=self._go_on, args=(every,), daemon=True)
        self.thread.start()

    def _go_on(self, every: float) -> None:
        trouble = ""
        while True:
            try:
                if self.channels.glance().last_incarnation(self.process.name).number > self.incarnation.number:
                    # This run was suspended, and must not renew the lease of the one that has taken over.
                    return
                self.renew()
            except Exception as error:
                # Keep trying: if the thread ended, a working process would be considered gone.
                if str(error) != trouble:
                    trouble = str(error)
                    self.log.event("lease_not_renewed", error=trouble)
            else:
                if trouble:
                    self.log.event("lease_renewed")
                trouble = ""
            if self.ended.wait(every):
                return

    def renew(self) -> None:
        """Renew the lease of the process, then those of its channels; if one fails, the others are renewed."""
        self.beat += 1
        self.channels.renew(self.process.name, Lease(self.incarnation, self.beat, True, self.sent))
        sessions = self.channels.glance()
        for channel in self.process.sends:
            if channel.name in self.cut_off:
                continue
            try:
                session = sessions.session(channel)
                self.channels.renew_channel(channel, Pulse(self.incarnation, self.beat, session))
            except (OSError, JobError) as error:
                # Before its reader has run, a channel may not exist.
                if channel.name not in self.silent and not isinstance(error, FileNotFoundError):
                    self.silent.add(channel.name)
                    self.log.event("channel_not_renewed", channel=channel.name, error=error)
            else:
                self.silent.discard(channel.name)

    def end(self) -> None:
        """Stop the thread, and write a lease that says so unless another incarnation has taken over."""
        self.ended.set()
        self.thread.join()
        try:
            if self.channels.last_incarnation(self.process.name) == self.incarnation:
                self.channels.renew(self.process.name, Lease(self.incarnation, self.beat + 1, False, self.sent))
        except (OSError, JobError) as error:
            self.log.event("no_goodbye", error=error)
