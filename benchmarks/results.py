"""What is measured, and how the parts of a benchmark say what they do."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from checksum import Answer
from rich.console import Console

console = Console() if sys.stdout.isatty() else Console(width=160)


@dataclass(frozen=True)
class Result:
    """One measurement; ``job_seconds`` is what the process says its own work took, if it says. ``ended``: it was ended
    after ``seconds``, without an answer. ``parts``: the seconds of parts of the job's work, where they were counted.
    ``processor``: the seconds of the processor, where they were counted."""

    workload: str
    contender: str
    step: str
    seconds: float
    job_seconds: float | None
    peak_mb: float
    rows: int
    ended: bool = False
    parts: dict[str, float] | None = None
    processor: float | None = None


@dataclass(frozen=True)
class Scaled:
    """Batches of one size on one size of a closure by a contender: ``rows`` it has, the seconds of ``init``, and of
    each batch."""

    series: str
    edges: int
    rows: int
    changes: int
    init_seconds: float
    seconds: list[float]
    contender: str = "in session"


@dataclass(frozen=True)
class Strategy:
    """A batch that changes a share of a workload's rows, applied by one strategy in a warm session."""

    workload: str
    share: float
    changes: int
    strategy: str
    seconds: float


@dataclass(frozen=True)
class Batch:
    """A step of a workload by a contender: with how many changes, and how many seconds and how much memory it took."""

    workload: str
    step: str
    changes: int
    contender: str
    seconds: float
    peak_mb: float


@dataclass(frozen=True)
class Distributed:
    """A step of a job whose rounds are Spark jobs; ``heap_mb`` is what the JVM of driver and executors may use,
    ``peak_mb`` what the process tree held. ``changed``: tuples that came or went, those of the whole relation at first.
    """

    workload: str
    step: str
    rows: int
    changed: int
    rounds: int
    seconds: float
    job_seconds: float
    heap_mb: int
    peak_mb: float


class WrongAnswer(Exception):
    """A contender's answers are not those of DuckDB."""


def compare(found: dict[str, Answer], expected: dict[str, Answer], what: str) -> None:
    """Raise :class:`WrongAnswer` unless all answers are the expected ones."""
    for name, answer in expected.items():
        if found[name] != answer:
            raise WrongAnswer(f"{what}: {name} has {found[name]}, but in DuckDB {answer}")


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show what is being measured, with a clock that runs on a terminal."""
    with console.status(f"{what} ..."):
        yield
