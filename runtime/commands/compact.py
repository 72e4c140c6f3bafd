"""The command ``compact``: rewrite relations without files of changes."""

from __future__ import annotations

import functools
import time
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..batches import new_batch_id
from ..commits import open_state, run_and_commit
from ..engines.engine import Engine
from ..engines.spark import SparkEngine
from ..executors import Executor, executor_of
from ..inputs.late import sequence_relations
from ..log import Log
from ..manifest import PUBLISHED, Manifest
from ..model import Program
from ..obstacles import obstacles_pass
from ..options import Options
from ..places import given_place
from ..reading import base_order, bucket_files, new_bucket, stored_rows
from ..stored import check_stored, stored_bytes, stored_files
from ..task import Outcome, Task
from ..tasks import choose_engine, duck_engine
from ..writing import write_parts
from .report import summary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def compact_stages(
    executor: Executor, program: Program, before: Manifest, state_dir: str, attempt: str, options: Options
) -> Outcome:
    """Rewrite the buckets that have files of changes as base files; tuples do not change."""
    outcome = Outcome.of(before, before.buckets)
    relations = (*program.relations, *sequence_relations(before).values())
    task = Task(options, state_dir, outcome.relations, relations, attempt=attempt)
    executor.describe("compact")
    if choose_engine(executor, task, options.engine)[0] == "duckdb":
        numbers = range(options.buckets)
        reports = executor.on_buckets(numbers, functools.partial(compact_task, task))
    else:
        engine = SparkEngine(executor.session("the engine spark"), options.buckets)
        try:
            reports = [compact_bucket(engine, task, number) for number in range(options.buckets)]
        finally:
            engine.close()
    for number, report in enumerate(reports):
        for table, files in report.items():
            stored = outcome.relations[table]
            rewritten = new_bucket(files, stored.buckets[number].rows)
            outcome.relations[table] = replace(stored, buckets={**stored.buckets, number: rewritten})
    return outcome


def compact_task(task: Task, number: int) -> dict[str, list[str]]:
    """Rewrite one bucket of all relations in DuckDB; return the files by table."""
    with duck_engine(task) as engine:
        return compact_bucket(engine, task, number)


def compact_bucket(engine: Engine, task: Task, number: int) -> dict[str, list[str]]:
    """Rewrite one bucket of the relations that have files of changes in it; return the files by table."""
    written: dict[str, list[str]] = {}
    for relation in task.inputs:
        for entry in bucket_files(task.relations, relation, number):
            if entry.changes:
                rows = stored_rows(engine, task.state, relation, [entry])
                name = f"base-{number:05d}-{uuid.uuid4().hex[:8]}"
                folder = f"data/{task.attempt}/{relation.table}/{name}"
                written[relation.table] = []
                if entry.rows:
                    order = base_order(relation)
                    found = write_parts(engine, task, folder, rows, str(number), order)
                    written[relation.table] = [file.path for file in found[number]]
    return written


@obstacles_pass()
def compact_state(
    program: Program,
    spark: SparkSession | Executor | None,
    state: str,
    engine: str = "auto",
    memory_limit: str = "",
    log: Log | None = None,
) -> dict[str, Any]:
    """Rewrite relations so that no files of changes are left. The result has the numbers of ``files`` and ``bytes``
    before and after. No tuple changes, and nothing is published."""
    started, log = time.monotonic(), log or Log()
    executor = executor_of(spark)
    root = given_place(state)
    before = open_state(program, executor, root)
    files = stored_files(before)
    check_stored(root, before, files, whole=True)
    size = stored_bytes(root, before)
    result = {"program": program.name, "batch": before.batch, "commit": before.commit}
    if not any(b.changes for r in before.relations.values() for b in r.buckets.values()):
        same = {"files": [len(files)] * 2, "bytes": [size] * 2}
        return {**result, "applied": False, **same}
    options = Options(before.buckets, engine, memory_limit=memory_limit)
    batch = new_batch_id(root, before, "compact")

    def work(attempt: str) -> Any:
        outcome = compact_stages(executor, program, before, str(root), attempt, options)
        return outcome, {}, {}

    manifest = run_and_commit(program, executor, root, before, batch, PUBLISHED, None, log, work, command="compact")
    return {
        **summary(program, root, manifest, started),
        "files": [len(files), len(stored_files(manifest))],
        "bytes": [size, stored_bytes(root, manifest)],
    }
