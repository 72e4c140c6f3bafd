"""The batches in a folder, for ``apply --batches`` and ``follow``."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterable
from pathlib import Path

from ..kernel.errors import JobError
from ..kernel.model import Program
from ..store.batches import batch_lists
from ..store.manifest import read_state
from ..store.published_names import check_batch
from ..store.versions import check_program
from ..system.places import given_place

SETTLED_SECONDS = 5.0
"""A folder that was changed longer ago than this is not listed again: file systems record changes in steps of up to two
seconds."""


class BatchFolder:
    """The batches in a folder, which is on a local or mounted file system: a subfolder each, named after its ID.

    Names that begin with ``.`` or ``_`` are passed over, so that a batch can be written under such a name and renamed
    when it is complete. ``known`` are the IDs that were given to the state, also by other commands.
    """

    def __init__(self, folder: str, known: Iterable[str]) -> None:
        """Take the IDs of the batches that the state has; raise JobError if there is no folder."""
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise JobError(f"{folder} is not a folder on this machine; it must contain a folder for each batch")
        self.known = {*known}
        self._listed = (-1, 0.0)
        self._seen: dict[str, Signature] = {}

    def waiting(self, complete: bool = True) -> list[str]:
        """Return the IDs of the batches that are not known, in the order of their names. Raise JobError for a file, or
        for a name that cannot be an ID. Unless they are ``complete``, stop at the first one that has changed since the
        last call: somebody may still be writing it."""
        changed, now = self.folder.stat().st_mtime_ns, time.time()
        if self._listed[0] == changed and self._listed[1] - changed / 1e9 > SETTLED_SECONDS:
            return []
        batches = []
        for entry in sorted(self.folder.iterdir(), key=lambda entry: entry.name):
            if entry.name in self.known or entry.name.startswith((".", "_")):
                continue
            if not entry.is_dir():
                raise JobError(f"{entry} is not a folder; {self.folder} must contain a folder for each batch")
            check_batch(entry.name)
            batches.append(entry.name)
        if not batches:
            self._listed = (changed, now)
        if complete:
            return batches
        before, self._seen = self._seen, {batch: signature(self.folder / batch) for batch in batches}
        return list(itertools.takewhile(lambda batch: before.get(batch) == self._seen[batch], batches))

    def place(self, batch: str) -> str:
        """Return the folder of a batch."""
        return str(self.folder / batch)


def batches_known(program: Program, state: str) -> set[str]:
    """Return the IDs of batches that were given to a state; raise JobError if there is none."""
    root = given_place(state)
    manifest = read_state(root)
    check_program(program, manifest)
    # A batch with an ID that the state generated for another one is not known; `apply` refuses it.
    return {name for listed in batch_lists(root, manifest) for name in {*listed.batches} - {*listed.generated}}


Signature = frozenset[tuple[str, int, int]]
"""The files below a folder, each with its path, its size and when it was changed."""


def signature(folder: Path) -> Signature:
    """Return by what changes to the files below a folder are noticed."""
    files = []
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            status = path.stat()
            files.append((str(path), status.st_size, status.st_mtime_ns))
    return frozenset(files)
