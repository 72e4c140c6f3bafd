"""Apply a staged batch to the state, stage by stage.

A stage is one Spark job with a task per bucket. A task reads its part of the state, runs all rounds of its strata in
DuckDB, writes its own files and reports them; the commit lists only reported files. Without DuckDB, or if a bucket is
too large for a worker, the driver runs the same SQL in rounds of Spark jobs and writes the same files.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping, Sequence

from .executors import Executor
from .log import Log
from .manifest import Manifest, StoredRelation
from .model import Program, Relation, Stage
from .options import Options
from .places import place_of, rows_of_file
from .reading import new_bucket
from .spark_rounds import run_rounds
from .task import Outcome, Task
from .tasks import FEW_ROWS, ROWS_OF_THREAD, choose_engine, collect_reports, run_task, watched

REPORTED = ("bucket", "seconds", "rounds", "scratch", "algebra")
"""What the manifest keeps of the reports of tasks."""


def run_stages(
    executor: Executor,
    program: Program,
    before: Manifest | None,
    staged: dict[str, list[str]],
    state_dir: str,
    attempt: str,
    options: Options,
    log: Log,
    initial: bool,
    rebuilt: frozenset[str] = frozenset(),
    also: tuple[Relation, ...] = (),
) -> Outcome:
    """Apply a staged batch, given by its files per table, to the state, stage by stage, without a commit. Strata named
    in ``rebuilt`` are computed from scratch. The batch changes ``also`` these relations with sequences.

    With one bucket, or a small state, everything is one Spark job. Otherwise large inputs get a job of their own, since
    they are cut into buckets by their own columns.
    """
    log.event("runs", on=executor.name, reason=executor.why)
    outcome = Outcome.of(before, options.buckets)
    empty = StoredRelation(0, {number: new_bucket([], 0) for number in range(options.buckets)})
    for relation in also:
        outcome.relations.setdefault(relation.table, empty)
    inputs = (*(relation for relation in program.relations if relation.kind == "input"), *also)
    parts: list[tuple[tuple[Relation, ...], tuple[Stage, ...]]] = [(inputs, ())]
    parts += [((), (stage,)) for stage in program.stages]
    stored = {table: entry.rows for table, entry in outcome.relations.items()}
    small = not initial and sum(stored.values()) <= FEW_ROWS and options.engine != "spark"
    if options.buckets == 1 or small:
        parts = [(inputs, program.stages)]
    elif program.stages and options.engine != "spark":
        given = sum(stored.get(relation.table, 0) for relation in inputs)
        if given + rows_of_files(staged) <= FEW_ROWS:
            parts[:2] = [(inputs, program.stages[:1])]
    little = small and sum(stored.values()) + rows_of_files(staged) <= ROWS_OF_THREAD
    cores = 1 if little else executor.cores()
    for number, (own_inputs, stages) in enumerate(parts):
        strata = [stratum.name for stage in stages for stratum in stage.strata]
        task = Task(
            options,
            state_dir,
            outcome.relations,
            own_inputs,
            stages,
            attempt,
            before=before.relations if before else {},
            clocks=outcome.clocks,
            effects=outcome.effects,
            staged=staged,
            changes=outcome.changes,
            initial=initial,
            fused=small,
            last=number == len(parts) - 1 and not rebuilt,
            rebuilt=rebuilt,
            cores=cores,
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
            reports = [run_rounds(executor.session("the engine spark"), task, log)]
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
        for report in reports:
            for stratum, reason in report["scratch"].items():
                log.event("from scratch", stratum=stratum, bucket=report["bucket"], reason=reason)
            for stratum, how in report["algebra"].items():
                log.event("matrices", stratum=stratum, bucket=report["bucket"], computed=how)
        for report in reports if engine == "duckdb" else ():
            for stratum, phase, done, tuples, seconds in report["rounds"]:
                log.event(
                    "round",
                    stratum=stratum,
                    phase=phase,
                    round=done,
                    tuples=tuples,
                    bucket=report["bucket"],
                    seconds=seconds,
                )
    for relation in also:
        # Nobody reads their changes.
        del outcome.changes[relation.table], outcome.counts[relation.table]
    return outcome


def rows_of_files(staged: Mapping[str, Sequence[str]]) -> int:
    """Return how many rows a staged batch has."""
    return sum(rows_of_file(place_of(path)) for paths in staged.values() for path in paths)


def unaffected(task: Task, outcome: Outcome) -> bool:
    """Return whether the batch changed nothing that a task reads, and rebuilds nothing that it computes."""
    changed = any(outcome.changes.get(relation.table) for relation in task.external)
    rebuilt = any(stratum.name in task.rebuilt for stage in task.stages for stratum in stage.strata)
    return not changed and not rebuilt
