"""Apply a staged batch to the state, stage by stage.

A stage is one Spark job with a task per bucket. A task reads its part of the state, runs all rounds of its strata in
DuckDB, writes its own files and reports them; the commit lists only reported files. Without DuckDB, or if a bucket is
too large for a worker, the driver runs the same SQL in rounds of Spark jobs and writes the same files.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ..kernel.model import Relation, Stage
from ..system.log import Log
from ..system.places import place_of, rows_of_file
from .extensions import FURTHER
from .manifest import Manifest, StoredRelation
from .reading import new_bucket
from .request import Request
from .run_tasks import FEW_ROWS, ROWS_OF_THREAD, choose_engine, collect_reports, run_task, watched
from .task_records import Outcome, Task

REPORTED = ("bucket", "seconds", "rounds", "scratch", "algebra")
"""The members of the reports of tasks that the manifest keeps."""


def run_stages(
    request: Request,
    before: Manifest | None,
    staged: dict[str, list[str]],
    attempt: str,
    initial: bool = False,
    rebuilt: frozenset[str] = frozenset(),
    also: tuple[Relation, ...] = (),
) -> Outcome:
    """Apply a staged batch, given by its files per table, to the state, stage by stage, without a commit. Strata named
    in ``rebuilt`` are computed from scratch. The batch changes ``also`` these relations with sequences.

    With one bucket, or a small state, everything is one Spark job. Otherwise large inputs get a job of their own, since
    they are cut into buckets by their own columns.
    """
    executor, options, log = request.executor, request.options, request.log
    log.event("runs", on=executor.name, reason=executor.why)
    outcome = Outcome.of(before, options.buckets)
    if request.program.clock is not None:
        staged = FURTHER["stage_time"](request, before, staged, attempt, outcome)
    empty = StoredRelation(0, {number: new_bucket([], 0) for number in range(options.buckets)})
    for relation in also:
        outcome.relations.setdefault(relation.table, empty)
    stored = {table: entry.rows for table, entry in outcome.relations.items()}
    small = not initial and sum(stored.values()) <= FEW_ROWS and options.engine != "spark"
    little = small and sum(stored.values()) + rows_of_files(staged) <= ROWS_OF_THREAD
    cores, sharing = 1 if little else executor.cores(), executor.sharing()
    jobs = jobs_of_run(request, stored, staged, small, also)
    for number, (inputs, stages) in enumerate(jobs):
        strata = [stratum.name for stage in stages for stratum in stage.strata]
        task = Task(
            options,
            str(request.root),
            outcome.relations,
            inputs,
            stages,
            attempt,
            before=before.relations if before else {},
            clocks=outcome.clocks,
            effects=outcome.effects,
            staged=staged,
            changes=outcome.changes,
            initial=initial,
            fused=small,
            last=number == len(jobs) - 1 and not rebuilt,
            rebuilt=rebuilt,
            cores=cores,
            sharing=sharing,
        )
        if not initial and number and unaffected(task, outcome):
            log.event("stage", strata=", ".join(strata), skipped="nothing it reads has changed")
            continue
        engine, reason = choose_engine(executor, task, options.engine)
        title = ", ".join(strata) or "inputs"
        log.event("stage", strata=title, engine=engine, reason=reason)
        executor.describe(f"strata {title}" if strata else "inputs")
        started = time.monotonic()
        if engine == "duckdb":
            with watched(task, log):
                numbers = range(1 if task.whole else options.buckets)
                reports = executor.on_buckets(numbers, functools.partial(run_task, task, kept=executor.kept))
        else:
            reports = [FURTHER["run_rounds"](executor.session("the engine spark"), task, log)]
        collect_reports(outcome, task, reports)
        if executor.kept and engine == "duckdb":
            executor.kept.label(task, numbers, outcome.relations)
        outcome.steps.append(
            {
                "strata": strata,
                "engine": engine,
                "reason": reason,
                "seconds": round(time.monotonic() - started, 3),
                "tasks": [{key: r[key] for key in REPORTED} for r in reports],
            }
        )
        log_reports(log, reports, engine)
    for relation in also:
        # Nobody reads their changes.
        del outcome.changes[relation.table], outcome.counts[relation.table]
    return outcome


def jobs_of_run(
    request: Request,
    stored: Mapping[str, int],
    staged: Mapping[str, Sequence[str]],
    small: bool,
    also: tuple[Relation, ...],
) -> list[tuple[tuple[Relation, ...], tuple[Stage, ...]]]:
    """Return the Spark jobs of a run, each by the inputs that it changes and the stages that it runs, given the number
    of stored rows by table and the staged files."""
    program, options = request.program, request.options
    inputs = (*(relation for relation in program.relations if relation.kind == "input"), *also)
    if options.buckets == 1 or small:
        return [(inputs, program.stages)]
    if program.stages and options.engine != "spark":
        input_rows = sum(stored.get(relation.table, 0) for relation in inputs)
        if input_rows + rows_of_files(staged) <= FEW_ROWS:
            return [(inputs, program.stages[:1]), *(((), (stage,)) for stage in program.stages[1:])]
    return [(inputs, ()), *(((), (stage,)) for stage in program.stages)]


def log_reports(log: Log, reports: Sequence[Mapping[str, Any]], engine: str) -> None:
    """Log what the tasks of a job report; the engine Spark has logged its rounds when they ended."""
    for report in reports:
        for stratum, reason in report["scratch"].items():
            log.event("from scratch", stratum=stratum, bucket=report["bucket"], reason=reason)
        for stratum, how in report["algebra"].items():
            log.event("matrices", stratum=stratum, bucket=report["bucket"], computed=how)
    for report in reports if engine == "duckdb" else ():
        for stratum, phase, done, tuples, seconds in report["rounds"]:
            counts = {"phase": phase, "round": done, "tuples": tuples}
            log.event("round", stratum=stratum, **counts, bucket=report["bucket"], seconds=seconds)


def rows_of_files(staged: Mapping[str, Sequence[str]]) -> int:
    """Return how many rows a staged batch has."""
    return sum(rows_of_file(place_of(path)) for paths in staged.values() for path in paths)


def unaffected(task: Task, outcome: Outcome) -> bool:
    """Return whether the batch changed nothing that a task reads, and rebuilds nothing that it computes."""
    changed = any(outcome.changes.get(relation.table) for relation in task.external)
    rebuilt = any(stratum.name in task.rebuilt for stage in task.stages for stratum in stage.strata)
    return not changed and not rebuilt
