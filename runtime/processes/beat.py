"""Renews the lease of a process while it runs."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from ..errors import JobError
from ..log import Log
from .channels import DirectoryChannels, Lease, Number, Sent
from .kafka import KafkaChannels

#: The ways in which processes exchange messages.
Channels = DirectoryChannels | KafkaChannels


class Beat:
    """A thread that renews the lease of a process until it ends or another run takes over."""

    def __init__(self, channels: Channels, process: str, incarnation: Number, every: float, log: Log) -> None:
        """Start the thread, which renews the lease every ``every`` seconds."""
        self.channels, self.process, self.incarnation = channels, process, incarnation
        self.log = log
        #: What the process has sent on each channel; replaced as a whole, since two threads share it.
        self.sent: Mapping[str, Sent] = {}
        self.ended = threading.Event()
        self.beat = 0
        self.thread = threading.Thread(target=self._go_on, args=(every,), daemon=True)
        self.thread.start()

    def _go_on(self, every: float) -> None:
        trouble = ""
        while True:
            self.beat += 1
            try:
                if self.channels.last_incarnation(self.process).number > self.incarnation.number:
                    # This run was suspended, and must not renew the lease of the one that has taken over.
                    return
                self.channels.renew(self.process, Lease(self.incarnation, self.beat, True, self.sent))
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

    def end(self) -> None:
        """Stop the thread, and write a lease that says so unless another incarnation has taken over."""
        self.ended.set()
        self.thread.join()
        try:
            if self.channels.last_incarnation(self.process) == self.incarnation:
                self.channels.renew(self.process, Lease(self.incarnation, self.beat + 1, False, self.sent))
        except (OSError, JobError) as error:
            self.log.event("no_goodbye", error=error)
