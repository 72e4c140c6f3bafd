"""Contenders: the compiled job, imported and called step by step, as a notebook or a stream does.

It runs in one Spark session, which is warm: it has run a query with Python workers before the first step. With
``--here`` it runs without Spark, and this process keeps the tables that it has read, as ``follow`` does. With ``--undo
N`` every batch is undone by its opposite, and the first one is applied and undone N times before any is measured.

Usage: ``spark-submit in_session.py SCRIPT STATE TABLES [CHANGES ...]``, or ``python in_session.py --here SCRIPT ...``,
with folders that have a Parquet file per relation;
prints a JSON object per step, with the seconds that went into each part of it. With ``--strategy NAME``, which may be
repeated, each batch is applied once by each strategy and to a copy of the state that ``init`` leaves; the changes are
then published below ``STATE-published``. With ``--seen CHANGES`` that state has had these changes and then their
opposite, so that it knows what changes do.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import shutil
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq


def main() -> None:
    """Warm up, build the state and apply the changes, one after the other."""
    parser = argparse.ArgumentParser()
    parser.add_argument("script", type=Path)
    parser.add_argument("state", type=Path)
    parser.add_argument("tables")
    parser.add_argument("changes", nargs="*", type=Path)
    parser.add_argument("--strategy", action="append", default=[])
    parser.add_argument("--seen", type=Path)
    parser.add_argument("--here", action="store_true")
    parser.add_argument("--undo", type=int)
    options = parser.parse_args()
    if options.here:
        job = load_job(options.script)
        log = job.Log(quiet=True)
        with job.LocalExecutor(keep=True) as here:
            report(partial(job.init, here, str(options.state), options.tables, log=log), {})
            apply = partial(job.apply, here, str(options.state), log=log)
            for round_ in range(options.undo or 0):
                apply(str(options.changes[0]), batch=f"warm-up-{round_}")
                apply(str(undone(options.changes[0])), batch=f"warm-up-{round_}-undone")
            for changes in options.changes:
                batch = changes.parent.name
                report(partial(apply, str(changes), batch=batch), {})
                if options.undo is not None:
                    apply(str(undone(changes)), batch=f"{batch}-undone")
        return
    # Here, since gmark.py and tests import this module, and jobs need no Spark to be loaded.
    from pyspark.sql import SparkSession

    job = load_job(options.script)
    parts = watch(job)
    spark = SparkSession.builder.appName("in one session").getOrCreate()
    spark.conf.set("spark.sql.shuffle.partitions", str(spark.sparkContext.defaultParallelism))
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    spark.range(100).mapInArrow(passed_on, "id long").count()
    log = job.Log(quiet=True)
    report(partial(job.init, spark, str(options.state), options.tables, log=log), parts)
    if options.seen:
        opposite = options.state.with_name(f"{options.state.name}-opposite")
        write_opposite(options.seen, opposite)
        for batch, folder in (("seen", options.seen), ("opposite", opposite)):
            job.apply(spark, str(options.state), str(folder), batch=batch, strategy="incremental", log=log)
    for changes in options.changes:
        batch = changes.parent.name
        for strategy in options.strategy:
            copy = options.state.with_name(f"{options.state.name}-copy")
            shutil.copytree(options.state, copy)
            publish = options.state.with_name(f"{options.state.name}-published") / f"{batch}-{strategy}"
            more = {"strategy": strategy, "publish": str(publish)}
            report(partial(job.apply, spark, str(copy), str(changes), batch=batch, log=log, **more), parts, strategy)
            shutil.rmtree(copy)
        if not options.strategy:
            report(partial(job.apply, spark, str(options.state), str(changes), batch=batch, log=log), parts)
    spark.stop()


def load_job(script: Path) -> ModuleType:
    """Import a generated script."""
    spec = importlib.util.spec_from_file_location(script.stem, script)
    assert spec is not None
    assert spec.loader is not None
    job = importlib.util.module_from_spec(spec)
    sys.modules[script.stem] = job
    spec.loader.exec_module(job)
    return job


def undone(changes: Path) -> Path:
    """Return the folder with the changes that take back those in a folder, which batches.py has written."""
    return changes.with_name(f"{changes.name}-undone")


def write_opposite(changes: Path, folder: Path) -> None:
    """Write the changes that take back those in a folder."""
    folder.mkdir(parents=True)
    for path in sorted(changes.glob("*.parquet")):
        rows = pq.read_table(path)
        place = rows.schema.get_field_index("op")
        swapped = pc.if_else(pc.equal(rows.column(place), "+"), "-", "+")
        pq.write_table(rows.set_column(place, "op", swapped), folder / path.name)


def passed_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows as they are: what wakes the Python workers."""
    yield from batches


def watch(job: ModuleType) -> dict[str, float]:
    """Let a job count the seconds of what it does: staging rows in the driver, and in the slowest task of each Spark
    job reading files, evaluating rules and writing files; what is left of these Spark jobs is ``spark``."""
    parts: defaultdict[str, float] = defaultdict(float)
    stage_inputs, run_task, executors, engines = job.stage_inputs, job.run_task, job.SparkExecutor, job.DuckEngine
    on_buckets, run = executors.on_buckets, engines.run

    def watched_staging(*arguments: Any) -> Any:
        start = time.perf_counter()
        try:
            return stage_inputs(*arguments)
        finally:
            parts["staging"] += time.perf_counter() - start

    def watched_job(*arguments: Any) -> Any:
        start = time.perf_counter()
        reports = on_buckets(*arguments)
        slowest = max(reports, key=lambda said: said["seconds"])
        parts["spark"] += time.perf_counter() - start - slowest["seconds"]
        for part, seconds in slowest["parts"].items():
            parts[part] += seconds
        return reports

    def watched_task(task: Any, number: int, kept: Any) -> dict[str, Any]:
        spent: defaultdict[str, float] = defaultdict(float)
        nested = [0.0]

        def watched_run(engine: Any, sql: str) -> Any:
            start = time.perf_counter()
            nested.append(0.0)
            try:
                return run(engine, sql)
            finally:
                seconds = time.perf_counter() - start
                kind = "writing" if sql.startswith("COPY") else "reading" if "read_parquet(" in sql else "rules"
                spent[kind] += seconds - nested.pop()
                nested[-1] += seconds

        engines.run = watched_run
        said: dict[str, Any] = run_task(task, number, kept)
        return {**said, "parts": dict(spent)}

    vars(job).update(stage_inputs=watched_staging, run_task=watched_task)
    executors.on_buckets = watched_job
    return parts


def report(step: Callable[[], dict[str, Any]], parts: dict[str, float], strategy: str | None = None) -> None:
    """Do a step; print its seconds, those of the processor in this process and those of its parts, the rows of all
    relations after it, and where its changes are published."""
    parts.clear()
    start, spent = time.perf_counter(), time.process_time()
    done = step()
    seconds, processor = time.perf_counter() - start, time.process_time() - spent
    said = {"seconds": seconds, "processor": processor, "strategy": strategy, "parts": dict(parts)}
    print(json.dumps({**said, "rows": done["rows"], "published": done.get("published")}), flush=True)


if __name__ == "__main__":
    main()
