"""The end of a command that runs until a signal."""

from __future__ import annotations

import contextlib
import signal
import threading


class Ended(threading.Event):
    """An event that the handler of a signal may set. The ``set`` of others waits for a lock: forever, if the signal
    came while their ``wait`` held it."""

    def __init__(self) -> None:
        super().__init__()
        self._is_set = False
        self._unset = threading.Lock()
        self._unset.acquire()  # until it is set; a SimpleQueue may wait forever if its timeout ends early

    def set(self) -> None:
        """Wake what waits; a handler may also interrupt another here."""
        self._is_set = True
        with contextlib.suppress(RuntimeError):
            self._unset.release()

    def is_set(self) -> bool:
        """Return whether it was set."""
        return self._is_set

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, at most so many seconds, and return whether it is."""
        if self._unset.acquire(timeout=-1 if timeout is None else timeout):
            self.set()
        return self._is_set


def until_signal(twice: bool = True) -> Ended:
    """Return an event that SIGTERM and SIGINT set; with ``twice``, a second SIGINT interrupts what is being done."""
    ended = Ended()

    def end(number: int, _frame: object) -> None:
        if twice and ended.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        ended.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    return ended
