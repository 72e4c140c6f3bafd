"""Batches of all sizes on recursions that are products of matrices, followed by queries and with matrices.

Each batch goes to the state that ``init`` has built, and is then undone by its opposite. ``cold``: a process of its own
applies it, and its seconds are those from the start to the end of the process. ``warm``: one process applies all, and
has applied small ones before that, until it keeps the matrices in memory. What is published has to be the difference
between DuckDB's answers before and after. DuckDB, and Soufflé if it is installed, compute everything from scratch.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from comparison import difference
from contenders import DuckDB, FlintlogJob, Place, Souffle
from in_session import undone, write_opposite
from measure import Run
from results import Batch, compare, console, working
from workloads import (
    Step,
    Workload,
    cyclic,
    forward,
    same_generation,
    shortest_paths,
    steps_apart,
    write_changes,
    write_tables,
)

SHARES = (0.01, 0.1, 1, 10)
"""Percent of the rows of the inputs; a batch has at least two changes, and the tables say what share that is."""

WARM_UP = 8
"""How often the first batch is applied and undone before a warm process is measured."""

WORKLOADS = (
    cyclic(20_000, 3_490),
    forward(100_000, 90_000, 9_500),
    same_generation(12_200),
    shortest_paths(1_000_000, 250_000),
)
QUICK = (cyclic(400, 150), forward(1_000, 900, 100), same_generation(300), shortest_paths(2_000, 500))
WAYS = {"queries": (), "matrices": ("--with", "matrices")}
"""The ways to follow changes, and what the compiler is told for them."""


def measure_batches(folder: Path, workloads: tuple[Workload, ...]) -> list[Batch]:
    """Measure all contenders on all workloads."""
    found = []
    for workload in workloads:
        console.print(f"[bold]batches with matrices: {workload.title}")
        for measured in measure_workload(workload, folder / f"batches-{workload.name.replace(' ', '-')}"):
            console.print(
                f"  {measured.step:16} {measured.changes:9,} changes {measured.contender:15} {measured.seconds:8.2f} s"
                f" {measured.peak_mb:8,.0f} MB"
            )
            found.append(measured)
    return found


def measure_workload(workload: Workload, folder: Path) -> list[Batch]:
    """Measure all contenders on one workload; shares that come to the same number of changes are measured once."""
    place = Place(workload, folder)
    scratch: dict[str, DuckDB | Souffle] = {"duckdb": DuckDB(place)}
    if shutil.which("souffle"):
        scratch["souffle"] = Souffle(place)
    made, expected, changes, found = list[Step](), [], list[int](), list[Batch]()

    def note(number: int, contender: str, measured: Run) -> None:
        step = made[number].name
        found.append(Batch(workload.title, step, changes[number], contender, measured.seconds, measured.peak_mb))

    for step in steps_apart(workload, SHARES):
        write_tables(workload, step, place.tables(step))
        write_changes(workload, step, place.changes(step))
        made.append(Step(step.name, {}, {}, {}))
        changes.append(step.changes)
        for name, contender in scratch.items():
            with working(f"{workload.title}, {step.name}: {name}"):
                outcome = contender.run(step)
            note(len(made) - 1, name, outcome.measured)
            if name == "duckdb":
                expected.append(outcome.answers)
            else:
                compare(outcome.answers, expected[-1], f"{name}, {workload.title}, {step.name}")
        if len(made) > 1:
            write_opposite(place.changes(step), undone(place.changes(step)))
            shutil.rmtree(place.tables(step))
    for way, options in WAYS.items():
        job = FlintlogJob(place, f"{way}, cold", options)
        for number, step in enumerate(made):
            with working(f"{workload.title}, {step.name}: {way}, cold"):
                note(number, f"{way}, cold", job.run(step).measured)
                if number:
                    changed = difference(expected[number], expected[0])
                    compare(job.published(step), changed, f"{way}, cold, {workload.title}, {step.name}")
                    job.change(undone(place.changes(step)), f"{step.batch}-undone")
        compare(job.answers(), expected[0], f"{way}, cold, {workload.title}, in the end")
    for way, options in WAYS.items():
        job = FlintlogJob(place, f"{way}, warm", options)
        with working(f"{workload.title}: {way}, warm"):
            measured, said = job.in_session(made, ("--undo", str(WARM_UP)))
        for number, (step, one) in enumerate(zip(made, said, strict=True)):
            if number:
                changed = difference(expected[number], expected[0])
                compare(job.published(step), changed, f"{way}, warm, {workload.title}, {step.name}")
            note(number, f"{way}, warm", Run(json.dumps(one), one["seconds"], measured.peak_mb))
        compare(job.answers(), expected[0], f"{way}, warm, {workload.title}, in the end")
    return found
