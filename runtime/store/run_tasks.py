"""Run tasks in DuckDB inside Spark workers, watch their progress, and choose the engine of a stage."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..engines.duckdb import MANY_ROWS, DuckEngine, without_duckdb
from ..kernel.changes import check_key, resolve_input
from ..kernel.errors import JobError
from ..kernel.method_interface import Bucket, Choice, Effect, Run
from ..kernel.model import Stratum
from ..kernel.recursion import telling_culprits
from ..kernel.strategy import from_scratch, maintain
from ..system.log import Log
from ..system.machine import task_bytes
from ..system.places import local_copy, place_of, scheme_of
from .executors import Executor
from .manifest import StoredRelation
from .reading import bucket_files, load_changes, load_computed, load_external, load_former
from .resident import KeptEngines, key_of
from .sealed_records import from_json
from .task_records import Outcome, Task, WrittenRelation
from .writing import write_computed

MOST_BUCKET_ROWS = 150_000_000
"""With more stored rows than this in a bucket, or in a gathered stage, Spark runs the rounds."""

FEW_ROWS = 300_000
"""Up to this many stored rows in total, one task does the whole batch, since a Spark job costs more than the work. Up
to this many rows of inputs, stored or new, inputs get no Spark job of their own."""

ROWS_OF_THREAD = 122_880
"""The number of rows of a table that DuckDB gives to a thread at once: with no more in all, further threads would only
wait."""

PROGRESS_SECONDS = 1.0
"""The interval at which tasks record their progress, and at which the driver looks for it."""


def compute(run: Run, task: Task, part: int | None) -> dict[str, int]:
    """Run all that a task has to do on bucket ``part`` of what it computes (None: all); return clocks by stratum."""
    strata = [stratum for stage in task.stages for stratum in stage.strata]
    with telling_culprits(run.engine, (*task.computed, *task.external), strata):
        return compute_strata(run, task, strata, part)


def compute_strata(run: Run, task: Task, strata: Sequence[Stratum], part: int | None) -> dict[str, int]:
    """Load what a task reads, and bring its inputs and ``strata`` to their new state; return clocks by stratum."""
    engine = run.engine
    for relation in task.inputs:
        own = task.part_of(relation, part)
        load_computed(engine, task, relation, own)
        load_changes(engine, task, relation, Bucket() if own is None else run.bucket)
        resolve_input(engine, relation)
    for relation in task.external:
        load_external(engine, task, relation)
    clocks = {}
    for stratum in strata:
        if stratum.name in task.rebuilt:
            for relation in stratum.relations:
                load_former(engine, task, relation, run.bucket)
                run.choice.rewritten.add(relation.table)
            clocks[stratum.name] = from_scratch(run, stratum, "its definition has changed", False)
            for relation in stratum.relations:
                check_key(engine, relation, initial=True)
            continue
        for relation in stratum.relations:
            load_computed(engine, task, relation, part)
        before = of_buckets(task.clocks.get(stratum.name, {}), part, 0)
        clocks[stratum.name] = maintain(run, stratum, 0 if task.initial else before)
    return clocks


def of_buckets(known: Mapping[int, Any], part: int | None, default: Any) -> Any:
    """Return the value of bucket ``part`` in ``known`` (None: the greatest value), or ``default`` if there is none."""
    values = (value for bucket, value in known.items() if part is None or bucket == part)
    return max(values, default=default)


def choice_for(task: Task, part: int | None) -> Choice:
    """Return how to choose between incremental and from-scratch evaluation of bucket ``part`` (None: of all)."""
    strata = {stratum.name for stage in task.stages for stratum in stage.strata}
    recorded = {name: task.effects[name] for name in sorted(strata & task.effects.keys())}
    effects = {name: Effect(*of_buckets(by_bucket, part, [])) for name, by_bucket in recorded.items()}
    matrices = {"auto": "auto", "matrices": "always"}.get(task.options.engine, "never")
    return Choice(task.options.strategy, effects, matrices=matrices)


# Run tasks in DuckDB.


def open_engine(task: Task, threads: int = 1) -> DuckEngine:
    """Return DuckDB for a task: with a memory limit, the files of the state and the external functions."""
    memory = task.options.memory_limit or f"{task_bytes(threads, task.sharing) // 2**20}MiB"
    engine = DuckEngine(memory, threads, "" if scheme_of(task.state) else task.state)
    engine.sharing = task.sharing
    engine.fetch = functools.partial(local_copy, engine.folder)
    if task.options.functions:
        task.options.functions.define(engine)
    return engine


@contextlib.contextmanager
def duck_engine(task: Task, threads: int = 1) -> Iterator[DuckEngine]:
    """Yield DuckDB for a task, and discard it in the end."""
    with contextlib.closing(open_engine(task, threads)) as engine:
        yield engine


@contextlib.contextmanager
def task_engine(task: Task, number: int, kept: KeptEngines | None) -> Iterator[DuckEngine]:
    """Yield DuckDB for a task on bucket ``number``: one that was kept since an earlier batch, if there is one; unless
    the task fails, it is kept again. One that this task cannot use is discarded: of all that are kept it is said
    afterwards that they have what the task has written."""
    key = key_of(task, number)
    earlier = kept.take(key) if kept else None
    if kept is None or task.options.functions or task.rebuilt:
        if earlier:
            earlier.close()
        with duck_engine(task, task.threads) as engine:
            yield engine
        return
    engine = earlier or open_engine(task, task.threads)
    engine.keeps = True
    try:
        yield engine
        kept.give(key, engine, tables_to_keep(engine, task))
    except BaseException:
        engine.close()
        raise


def tables_to_keep(engine: DuckEngine, task: Task) -> set[str]:
    """Return the tables of a task that the next batch can use: all but those of large recursions, if they were mostly
    computed here. Their rows are scattered, while those of the files just written are sorted; that does not matter if
    they are looked up in matrices."""
    looked_up = {table for held in engine.resident.values() for table in held.tables}
    return looked_up | {
        relation.table
        for relation in (*task.computed, *task.external)
        if relation.kind != "ranked" or engine.scattered(relation.table) <= MANY_ROWS
    }


def run_task(task: Task, number: int, kept: KeptEngines | None = None) -> dict[str, Any]:
    """Run a task on bucket ``number``, write its files and return its report; use a database of ``kept`` ones, and keep
    it, if there are such."""
    started = time.monotonic()
    rounds: list[tuple[str, str, int, int, float]] = []
    told = started
    progress = place_of(task.state) / progress_file(task.attempt, number)

    def note(stratum: str, phase: str, done: int, tuples: int) -> None:
        nonlocal told
        rounds.append((stratum, phase, done, tuples, round(time.monotonic() - started, 3)))
        if time.monotonic() - told > PROGRESS_SECONDS:
            told = time.monotonic()
            progress.parent.mkdir(parents=True, exist_ok=True)
            progress.write_text(json.dumps(rounds[-1]), encoding="utf-8")

    part = None if task.whole else number
    bucket = Bucket() if part is None else Bucket(part, task.buckets)
    choice = choice_for(task, part)
    with task_engine(task, number, kept) as engine:
        run = task.run(engine, bucket, note, choice)
        clocks = compute(run, task, part)
        written = write_computed(run, task, part)
    seconds = round(time.monotonic() - started, 3)
    return {
        "bucket": number,
        "whole": part is None,
        "clocks": clocks,
        "effects": choice.effects,
        "scratch": choice.scratch,
        "algebra": choice.algebra,
        "written": written,
        "rounds": rounds,
        "seconds": seconds,
    }


def progress_file(attempt: str, number: int) -> str:
    """Return the path below the state where a task records its progress, which the driver cannot see otherwise."""
    return f"data/{attempt}/progress-{number:05d}.json"


@contextlib.contextmanager
def watched(task: Task, log: Log) -> Iterator[None]:
    """Log the progress that tasks record while the Spark job in the body runs."""
    done = threading.Event()

    def watch() -> None:
        told: dict[int, str] = {}
        while not done.wait(PROGRESS_SECONDS):
            for number in range(task.buckets):
                with contextlib.suppress(OSError, ValueError):
                    place = place_of(task.state) / progress_file(task.attempt, number)
                    text = place.read_text(encoding="utf-8")
                    stratum, phase, rounds, tuples, _ = json.loads(text)
                    if told.get(number) != text:
                        told[number] = text
                        log.event("working", bucket=number, stratum=stratum, phase=phase, round=rounds, tuples=tuples)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def collect_reports(outcome: Outcome, task: Task, reports: list[dict[str, Any]]) -> None:
    """Enter the files, net changes, clocks and effects that the tasks reported into the outcome."""
    for relation in task.computed:
        written = [report["written"][relation.table] for report in reports if relation.table in report["written"]]
        parts: list[WrittenRelation] = [from_json(WrittenRelation, part) for part in written]
        buckets = {number: bucket for part in parts for number, bucket in part.buckets.items()}
        outcome.relations[relation.table] = StoredRelation(sum(bucket.rows for bucket in buckets.values()), buckets)
        outcome.changes[relation.table] = tuple(path for part in parts for path in part.net)
        outcome.counts[relation.table] = (sum(part.gained for part in parts), sum(part.lost for part in parts))
    for report in reports:
        numbers = range(task.buckets) if report["whole"] else [report["bucket"]]
        for stratum, clock in report["clocks"].items():
            outcome.clocks.setdefault(stratum, {}).update(dict.fromkeys(numbers, clock))
        for stratum, effect in report["effects"].items():
            outcome.effects.setdefault(stratum, {}).update(dict.fromkeys(numbers, tuple(effect)))


# Choose the engine of a stage.


def choose_engine(executor: Executor, task: Task, wanted: str) -> tuple[str, str]:
    """Return the engine for a stage and the reason. Raise JobError if that is Spark's, or DuckDB is missing, and tasks
    run in this process."""
    if executor.local and wanted == "auto" and importlib.util.find_spec("duckdb") is None:
        raise JobError(without_duckdb())
    engine, reason = chosen_engine(task, wanted)
    if executor.local:
        if engine == "spark":
            executor.session("the engine spark" if wanted == "spark" else f"this state ({reason})")
        reason = "in this process"
    return engine, reason


def chosen_engine(task: Task, wanted: str) -> tuple[str, str]:
    """Return the engine for a stage and the reason, wherever it runs."""
    if wanted == "matrices":
        return "duckdb", "asked for, with matrices where they can be"
    if wanted != "auto":
        return wanted, "asked for"
    if importlib.util.find_spec("duckdb") is None or importlib.util.find_spec("pyarrow") is None:
        return "spark", "DuckDB or PyArrow is not installed"
    bucketed = all(stage.bucketed for stage in task.stages)
    largest = max(
        (
            sum(entry.rows for entry in bucket_files(task.relations, relation, None))
            // (task.buckets if bucketed else 1)
            for relation in task.computed
        ),
        default=0,
    )
    if largest > MOST_BUCKET_ROWS:
        return "spark", f"{largest} rows are too many for one worker"
    if task.fused:
        return "duckdb", "in one task, since the state is small"
    return "duckdb", "by bucket" if bucketed else "gathered in one task"
