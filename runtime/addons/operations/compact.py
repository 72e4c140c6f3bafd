"""The command ``compact``: rewrite relations without files of changes."""

from __future__ import annotations

import functools
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...engines.options import Options
from ...inputs.sequences import sequence_relations
from ...job.command_line import COMMANDS, Command, on_executor, request_of
from ...job.report import summary
from ...job.shared_options import add_metrics, add_place, add_state, add_working
from ...kernel.engine import Engine
from ...kernel.model import Program
from ...spark.engine import SparkEngine
from ...store.batches import new_batch_id
from ...store.commits import open_state, run_and_commit
from ...store.data_files import check_stored, stored_bytes, stored_files
from ...store.executors import Executor
from ...store.extensions import FURTHER
from ...store.manifest import Manifest
from ...store.reading import base_order, bucket_files, new_bucket, stored_rows
from ...store.request import Batch, Request
from ...store.run_tasks import choose_engine, duck_engine
from ...store.task_records import Outcome, Task
from ...store.writing import write_parts
from ...system.log import Log
from ...system.transient_errors import obstacles_pass

if TYPE_CHECKING:
    from ...spark.types import SparkSession


def compact_stages(request: Request, before: Manifest, attempt: str) -> Outcome:
    """Rewrite the buckets that have files of changes as base files; tuples do not change."""
    executor, program, options = request.executor, request.program, request.options
    outcome = Outcome.of(before, before.buckets)
    relations = (*program.relations, *sequence_relations(before).values())
    task = Task(options, str(request.root), outcome.relations, relations, attempt=attempt)
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
                    files = write_parts(engine, task, folder, rows, str(number), order)
                    written[relation.table] = [file.path for file in files[number]]
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
    started = time.monotonic()
    request = request_of(program, spark, state, log, Options(1, engine, memory_limit=memory_limit))
    root = request.root
    before = open_state(program, request.executor, root)
    request = request.in_buckets(before.buckets)
    files = stored_files(before)
    check_stored(root, before, files, whole=True)
    size = stored_bytes(root, before)
    result = {"program": program.name, "batch": before.batch, "commit": before.commit}
    if not any(b.changes for r in before.relations.values() for b in r.buckets.values()):
        same = {"files": [len(files)] * 2, "bytes": [size] * 2}
        return {**result, "applied": False, **same}
    batch = new_batch_id(root, before, "compact")

    def work(attempt: str) -> Outcome:
        return replace(compact_stages(request, before, attempt), changes={}, counts={})

    manifest = run_and_commit(request, before, Batch(batch, "compact"), work)
    return {
        **summary(program, root, manifest, started),
        "files": [len(files), len(stored_files(manifest))],
        "bytes": [size, stored_bytes(root, manifest)],
    }


def report_compact(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the line that reports the numbers of files and bytes before and after."""
    (files, fewer), (size, smaller) = result["files"], result["bytes"]
    if result["applied"]:
        yield f"commit {result['commit']}: merged {files:,} files with {size:,} bytes into {fewer:,} with {smaller:,}"
    else:
        yield f"nothing to merge: no relation has files of changes ({files:,} files with {size:,} bytes)"


COMMANDS["compact"] = Command(
    "compact",
    "merge files of changes into the files of relations",
    "Merge the files of changes into the files of relations. Tuples do not change.",
    (add_state, add_place, add_working, add_metrics),
    on_executor(compact_state),
    report_compact,
)
FURTHER["compact"] = compact_state
