"""A folder of batches: ``apply --batches`` applies what is there, and ``follow`` also what arrives."""

from __future__ import annotations

import contextlib
import itertools
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..batches import batch_lists, check_batch
from ..errors import JobError, Passing
from ..executors import Executor
from ..log import Log
from ..manifest import read_state
from ..model import Program
from ..obstacles import obstacles_pass
from ..places import given_place
from ..versions import check_program
from .apply import apply_batch

SETTLED_SECONDS = 5.0
"""A folder that was changed longer ago than this is not listed again: file systems record changes in steps of up to two
seconds."""

LONGEST_WAIT = 30.0
"""The longest pause, in seconds, before a batch is tried again."""


class BatchFolder:
    """The batches in a folder, which is on a local or mounted file system: a subfolder each, named after its ID.

    Names that begin with ``.`` or ``_`` are passed over, so that a batch can be written under such a name and renamed
    when it is complete. ``known`` are the IDs that were given to the state, also by other commands.
    """

    def __init__(self, program: Program, state: str, folder: str) -> None:
        """Read which batches the state has; raise JobError if there is no state or no folder."""
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise JobError(f"{folder} is not a folder on this machine; it must contain a folder for each batch")
        root = given_place(state)
        manifest = read_state(root)
        check_program(program, manifest)
        self.known: set[str] = set()
        for listed in batch_lists(root, manifest):
            # A batch with an ID that the state generated for another one is not known; `apply` refuses it.
            self.known |= {*listed.batches} - {*listed.generated}
        self._listed = (-1, 0.0)
        self._seen: dict[str, Signature] = {}

    def waiting(self, complete: bool = True) -> list[str]:
        """Return the IDs of the batches that are not known, in the order of their names. Raise JobError for a file, or
        for a name that cannot be an ID. Unless they are ``complete``, stop at the first one that has changed since the
        last call: somebody may still be writing it."""
        changed, now = self.folder.stat().st_mtime_ns, time.time()
        if self._listed[0] == changed and self._listed[1] - changed / 1e9 > SETTLED_SECONDS:
            return []
        found = []
        for entry in sorted(self.folder.iterdir(), key=lambda entry: entry.name):
            if entry.name in self.known or entry.name.startswith((".", "_")):
                continue
            if not entry.is_dir():
                raise JobError(f"{entry} is not a folder; {self.folder} must contain a folder for each batch")
            check_batch(entry.name)
            found.append(entry.name)
        if not found:
            self._listed = (changed, now)
        if complete:
            return found
        before, self._seen = self._seen, {batch: signature(self.folder / batch) for batch in found}
        return list(itertools.takewhile(lambda batch: before.get(batch) == self._seen[batch], found))

    def place(self, batch: str) -> str:
        """Return the folder of a batch."""
        return str(self.folder / batch)


Signature = frozenset[tuple[str, int, int]]
"""The files below a folder, each with its path, its size and when it was changed."""


def signature(folder: Path) -> Signature:
    """Return by what changes to the files below a folder are noticed."""
    found = []
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            status = path.stat()
            found.append((str(path), status.st_size, status.st_mtime_ns))
    return frozenset(found)


def apply_batches(
    program: Program, executor: Executor, state: str, batches: str, log: Log, **options: Any
) -> Iterator[dict[str, Any]]:
    """Apply the batches of a folder that the state does not have, in the order of their names, and yield the result of
    each. ``options`` are those of ``apply_batch``. Raise JobError for the first batch that is refused; those before it
    are applied, those after it are not."""
    folder = BatchFolder(program, state, batches)
    for batch in folder.waiting():
        yield apply_one(program, executor, state, folder, batch, log, options)


def apply_one(
    program: Program,
    executor: Executor,
    state: str,
    folder: BatchFolder,
    batch: str,
    log: Log,
    options: dict[str, Any],
) -> dict[str, Any]:
    """Apply a batch of a folder and return its result; raise JobError, naming the batch, if that fails."""
    try:
        result = apply_batch(program, executor, state, folder.place(batch), batch, log=log, **options)
    except JobError as error:
        kind = type(error)
        raise kind(f"batch {batch}: {error}") from error
    folder.known.add(batch)
    return result


def follow_batches(
    program: Program,
    executor: Executor,
    state: str,
    batches: str,
    poll: float,
    told: Callable[[dict[str, Any]], None],
    log: Log,
    ended: threading.Event,
    troubled: Callable[[Passing], None] | None = None,
    **options: Any,
) -> None:
    """Apply the batches of a folder, and those that arrive in it, until ``ended`` is set; call ``told`` with the result
    of each. The folder is looked at every ``poll`` seconds; a batch is applied once it has not changed between two
    looks. After an error that may pass, call ``troubled``, and try the same batch again, after pauses that grow. Raise
    JobError for a batch that is refused: a later one could depend on it."""
    folder = BatchFolder(program, state, batches)
    log.event("follow", folder=batches, known=len(folder.known), on=executor.name, reason=executor.why)
    pause = poll
    while not ended.is_set():
        about: dict[str, str] = {}
        try:
            with obstacles_pass():
                waiting = folder.waiting(complete=False)
            for batch in waiting:
                about = {"batch": batch}
                told(apply_one(program, executor, state, folder, batch, log, options))
                pause = poll
                if ended.is_set():
                    return
        except Passing as error:
            pause = min(2 * max(pause, 0.1), LONGEST_WAIT)
            log.event("trouble", **about, error=str(error), again_in=pause)
            if troubled:
                troubled(error)
            ended.wait(pause)
            continue
        if not waiting:
            ended.wait(poll)


def until_signal() -> threading.Event:
    """Return an event that SIGTERM and SIGINT set; a second SIGINT interrupts the batch that is being applied."""
    ended = threading.Event()

    def end(number: int, _frame: object) -> None:
        if ended.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        ended.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    return ended
