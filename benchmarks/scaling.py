"""How the seconds of a batch grow with the state: closures of one kind with ten times the rows, and small ones.

Each batch is a process of its own (``here``), or all are in one that keeps its tables (``warm``) or its Spark session
(``in session``). The batches of a series all have the same number of changes, half of them deletions, and come one
after the other on one state. What they publish is compared with DuckDB's closures before and after.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from comparison import difference
from contenders import DuckDB, FlintlogJob, Place
from results import Scaled, compare, console, working
from workloads import Step, Workload, cyclic, forward, steps, write_changes, write_tables

BATCHES = 5
CONTENDERS = ("here", "warm", "in session")


@dataclass(frozen=True)
class Series:
    """Closures of one kind, the smallest first, and how many changes each batch has."""

    name: str
    changes: int
    workloads: tuple[Workload, ...]


SERIES = (
    Series("cyclic", 4, (cyclic(6_320, 1_103), cyclic(20_000, 3_490))),
    Series("forward", 10, (forward(10_000, 9_000, 950), forward(100_000, 90_000, 9_500))),
    Series("small", 4, (forward(100, 90, 20), forward(1_000, 900, 100))),
)
QUICK = (
    Series("cyclic", 4, (cyclic(126, 47), cyclic(400, 150))),
    Series("forward", 4, (forward(100, 90, 10), forward(1_000, 900, 100))),
)


def scale(folder: Path, series: tuple[Series, ...]) -> list[Scaled]:
    """Measure the closures of all series."""
    found = []
    for one in series:
        console.print(f"[bold]batches of {one.changes} changes: {one.name}")
        for number, workload in enumerate(one.workloads):
            for measured in measure(one, workload, folder / f"{one.name}-{number}"):
                console.print(
                    f"  {measured.edges:9,} edges {measured.rows:12,} rows, {measured.contender}:"
                    f" init {measured.init_seconds:.2f} s, a batch {median(measured.seconds):.2f} s"
                )
                found.append(measured)
    return found


def measure(series: Series, workload: Workload, folder: Path) -> Iterator[Scaled]:
    """Build a closure and apply the batches to it, with each contender."""
    place = Place(workload, folder)
    batches = [(f"apply {number}", series.changes) for number in range(1, BATCHES + 1)]
    duckdb, made, expected, edges = DuckDB(place), [], [], 0
    for step in steps(workload, batches):
        edges = sum(map(len, step.tables.values()))
        write_tables(workload, step, place.tables(step))
        write_changes(workload, step, place.changes(step))
        made.append(Step(step.name, {}, {}, {}))
        with working(f"{workload.title}, {step.name}: duckdb"):
            expected.append(duckdb.run(step).answers)
    rows = sum(answer.rows for answer in expected[0].values())
    for contender in CONTENDERS:
        job = FlintlogJob(place, contender)
        with working(f"{workload.title}: {contender}"):
            seconds = seconds_of_steps(job, made)
        compare(job.answers(), expected[-1], f"{workload.title}, {contender}, last step")
        for number, step in enumerate(made[1:], start=1):
            changed = difference(expected[number], expected[number - 1])
            compare(job.published(step), changed, f"{workload.title}, {contender}, {step.name}, what is published")
        yield Scaled(series.name, edges, rows, series.changes, seconds[0], seconds[1:], contender)


def seconds_of_steps(job: FlintlogJob, made: Sequence[Step]) -> list[float]:
    """Do all steps; the seconds of each, whole processes if each has its own."""
    if job.name == "here":
        return [job.run(step).measured.seconds for step in made]
    return [one["seconds"] for one in job.in_session(made)[1]]
