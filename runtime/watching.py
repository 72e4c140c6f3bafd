"""Listeners that are told of the batches of a command, besides the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from .manifest import FeedRecord, Manifest


class Watcher(Protocol):
    """Is told of batches, one after the other; never raises an error."""

    def begin(
        self,
        root: Path,
        command: str,
        batch: str,
        before: Manifest | None,
        publish: str,
        given: Mapping[str, Sequence[Any]] | None,
        feeds: Mapping[str, FeedRecord] | None,
    ) -> None:
        """A batch begins: the state, the command and the ID; the last commit, the folder of published changes, the
        places whose rows are ``given``, and the ``feeds`` as they will be, by relation."""

    def end(self, manifest: Manifest) -> None:
        """The batch is committed and published."""

    def fail(self, error: BaseException) -> None:
        """The batch is not committed, or not published."""

    def close(self) -> None:
        """No batch follows."""
