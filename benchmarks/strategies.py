"""Batches from 0.001 % to 50 % of a closure's edges, applied incrementally, by recomputing, and as the job chooses.

Each batch goes to a copy of one state, in a warm session, once per strategy. That state has seen a batch of 0.1 % and
then its opposite: what changes cost is estimated from what earlier ones did. All strategies have to publish the
difference between DuckDB's closures before and after.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from comparison import difference
from contenders import DuckDB, FlintlogJob, Place, published_below
from results import Strategy, compare, console, working
from workloads import Step, Workload, cyclic, forward, shortest_paths, steps_apart, write_changes, write_tables

STRATEGIES = ("incremental", "recompute", "auto")
SHARES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 50)
"""Percent of the rows of the inputs; a batch has at least two changes, and the tables say what share that is."""

SEEN = 0.1
"""Percent of the rows that the state has seen change."""

WORKLOADS = (cyclic(6_320, 1_103), forward(100_000, 90_000, 9_500), shortest_paths(200_000, 50_000))
QUICK = (cyclic(400, 150), forward(1_000, 900, 100))


def measure_strategies(folder: Path, workloads: tuple[Workload, ...]) -> list[Strategy]:
    """Measure all strategies on all workloads."""
    found = []
    for workload in workloads:
        console.print(f"[bold]batches by strategy: {workload.title}")
        for measured in measure(workload, folder / f"strategies-{workload.name.replace(' ', '-')}"):
            console.print(
                f"  {100 * measured.share:7.3f} % {measured.changes:9,} changes {measured.strategy:12}"
                f" {measured.seconds:8.2f} s"
            )
            found.append(measured)
    return found


def measure(workload: Workload, folder: Path) -> list[Strategy]:
    """Measure all strategies on one workload; shares that come to the same number of changes are measured once."""
    place = Place(workload, folder)
    duckdb, made, expected = DuckDB(place), [], []
    changes: list[int] = []
    total = 0
    for step in steps_apart(workload, SHARES):
        write_tables(workload, step, place.tables(step))
        write_changes(workload, step, place.changes(step))
        made.append(Step(step.name, {}, {}, {}))
        changes.append(step.changes)
        total = total or sum(map(len, step.tables.values()))
        with working(f"{workload.title}, {step.name}: duckdb"):
            expected.append(duckdb.run(step).answers)
        if len(made) > 1:
            shutil.rmtree(place.tables(step))
    job = FlintlogJob(place)
    options: list[str | Path] = [word for strategy in STRATEGIES for word in ("--strategy", strategy)]
    seen = min(made[1:], key=lambda step: abs(float(step.name.split()[1]) - SEEN))
    options += ["--seen", place.changes(seen)]
    with working(f"{workload.title}: in session"):
        _, said = job.in_session(made, options)
    found = []
    lines = iter(said[1:])
    for number, step in enumerate(made[1:], start=1):
        changed = difference(expected[number], expected[0])
        for strategy in STRATEGIES:
            published = job.state.with_name("state-published") / f"{step.batch}-{strategy}"
            what = f"{workload.title}, {step.name}, {strategy}, what is published"
            compare(published_below(published, step.batch, workload), changed, what)
            one = next(lines)
            found.append(Strategy(workload.title, changes[number] / total, changes[number], strategy, one["seconds"]))
    return found
