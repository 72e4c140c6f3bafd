"""A closure that is larger than memory, in rounds of Spark jobs: built, changed, and verified by the job itself.

All of Spark, driver and executors, is one JVM with a fixed heap. The answers, and what a batch publishes, are compared
with DuckDB's, which is measured elsewhere and may use all memory there is.
"""

from __future__ import annotations

from pathlib import Path

from comparison import difference
from contenders import Answers, DuckDB, FlintlogJob, Place, last_object, spark_submit
from measure import Run, run
from results import Distributed, WrongAnswer, compare, console, working
from workloads import Step, Workload, cyclic, steps, write_changes, write_tables

CHANGES = 18
HEAP_MB = 2816

WORKLOAD = cyclic(17_850, 10_200)
QUICK = cyclic(400, 150)


def rounds(folder: Path, workload: Workload) -> list[Distributed]:
    """Measure ``init``, a batch of :data:`CHANGES` changes, and ``verify``."""
    console.print(f"[bold]distributed rounds: {workload.title}")
    place = Place(workload, folder / "rounds")
    duckdb, job, found = DuckDB(place), FlintlogJob(place), []
    before: Answers = {}
    for step in steps(workload, [(f"apply {CHANGES} changes", CHANGES)]):
        write_tables(workload, step, place.tables(step))
        write_changes(workload, step, place.changes(step))
        made = Step(step.name, {}, {}, {})
        with working(f"{step.name}: duckdb"):
            expected = duckdb.run(made).answers
        with working(f"{step.name}: distributed rounds"):
            measured = submit(job, made, *job.command(made))
        said = last_object(measured)
        compare(job.answers(), expected, f"distributed rounds, {step.name}")
        if before:
            compare(job.published(made), difference(expected, before), f"{step.name}, what is published")
        before = expected
        rows = sum(answer.rows for answer in expected.values())
        changed = sum(sum(said["changes"][name].values()) for name in workload.answers)
        found.append(result(workload, made, measured, rows, changed))
    with working("verify: distributed rounds"):
        measured = submit(job, Step("verify", {}, {}, {}), "verify", "--state", job.state)
    if last_object(measured)["differences"]:
        raise WrongAnswer("verify finds differences")
    found.append(result(workload, Step("verify", {}, {}, {}), measured, rows, 0))
    return found


def submit(job: FlintlogJob, step: Step, *arguments: str | Path) -> Run:
    """Run a command of the job by Spark's engine."""
    options = ("--engine", "spark", "--json")
    return run((*spark_submit(HEAP_MB), job.script, *arguments, *options), job.place.log(step, "rounds"))


def result(workload: Workload, step: Step, measured: Run, rows: int, changed: int) -> Distributed:
    """What a command took."""
    one = Distributed(
        workload.title,
        step.name,
        rows,
        changed,
        sum(line.startswith("event=round ") for line in measured.output.splitlines()),
        measured.seconds,
        last_object(measured)["seconds"],
        HEAP_MB,
        measured.peak_mb,
    )
    console.print(
        f"  {one.step:16} {one.rows:12,} rows {one.changed:12,} changed {one.rounds:4} rounds {one.seconds:8.2f} s"
        f" {one.peak_mb:8,.0f} MB"
    )
    return one
