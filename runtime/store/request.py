"""Requests, and batches as their commits record them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Protocol

from ..engines.options import Options
from ..kernel.model import Program
from ..system.log import Log
from .executors import Executor
from .manifest import PUBLISHED, FeedRecord, Manifest, SequenceRecord
from .set_aside import Aside, LeftOut


@dataclass(frozen=True)
class Request:
    """A command as it was asked: the program and the state at ``root``, what runs its tasks and who is told of them,
    how strata are evaluated, and where changes are published, cut by ``by``. ``as_of`` is the time of its batch."""

    program: Program
    executor: Executor
    root: Path
    log: Log
    options: Options = field(default_factory=lambda: Options(1))
    publish: str = PUBLISHED
    by: str = ""
    as_of: str | date | None = None

    def in_buckets(self, buckets: int) -> Request:
        """Return the same request for a state with this number of buckets."""
        return replace(self, options=replace(self.options, buckets=buckets))


@dataclass(frozen=True)
class Batch:
    """A batch, as its commit records it: its ``id``, which the job has chosen if it is ``generated``, and the
    ``command`` that applies it.

    Rows come from ``sources``, by relation. ``left_out`` counts rows that are left out, ``aside`` has those that are
    set aside, and ``late`` counts those that are ignored. ``feeds`` are those of the commit, ``sequences`` says which
    relations keep sequences, as far as these are stored, and ``tables`` where output relations are kept as tables; by
    default they stay as they were. ``keep`` says how long commits are kept from now on. Of what is ``restored``, an
    earlier commit, the new one has all but what describes the commit itself. The time of the commit is not before the
    last one, unless ``jump`` says how far the clock may be off."""

    id: str
    command: str = "apply"
    generated: bool = True
    sources: Mapping[str, Sequence[Any]] | None = None
    left_out: LeftOut | None = None
    aside: Aside | None = None
    late: Counter[str] | None = None
    feeds: Mapping[str, FeedRecord] | None = None
    sequences: Mapping[str, SequenceRecord] | None = None
    tables: str | None = None
    keep: str | None = None
    restored: Manifest | None = None
    jump: timedelta | None = None


class Watcher(Protocol):
    """Is told of batches, one after the other; never raises an error."""

    def begin(self, request: Request, before: Manifest | None, batch: Batch) -> None:
        """A batch begins, after the last commit."""

    def end(self, manifest: Manifest) -> None:
        """The batch is committed and published."""

    def fail(self, error: BaseException) -> None:
        """The batch is not committed, or not published."""

    def close(self) -> None:
        """No batch follows."""
