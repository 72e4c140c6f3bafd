"""Contender: the compiled job, imported and called step by step in one Spark session, as a notebook or a stream does.

The session is warm: it has run a query with Python workers before the first step.

Usage: ``spark-submit in_session.py SCRIPT STATE LINKS.parquet [CHANGES.parquet ...]``; prints a JSON object per step.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from types import ModuleType
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import SparkSession


def main() -> None:
    """Warm up, build the state and apply the changes, one after the other."""
    script, state, links, *batches = sys.argv[1:]
    job = load_job(script)
    spark = SparkSession.builder.appName("in one session").getOrCreate()
    spark.conf.set("spark.sql.shuffle.partitions", str(spark.sparkContext.defaultParallelism))
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    spark.range(100).mapInArrow(passed_on, "id long").count()
    log = job.Log(quiet=True)
    report(partial(job.init, spark, state, {"link": links}, log=log))
    for number, changes in enumerate(batches):
        report(partial(job.apply, spark, state, {"link": changes}, batch=str(number), log=log))
    spark.stop()


def load_job(script: str, name: str = "closure") -> ModuleType:
    """Import a generated script as the module ``name``."""
    spec = importlib.util.spec_from_file_location(name, script)
    assert spec is not None
    assert spec.loader is not None
    job = importlib.util.module_from_spec(spec)
    sys.modules[name] = job
    spec.loader.exec_module(job)
    return job


def passed_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows as they are: what wakes the Python workers."""
    yield from batches


def report(step: Callable[[], dict[str, Any]]) -> None:
    """Do a step; print its seconds and the rows of the closure after it."""
    start = time.perf_counter()
    done = step()
    print(json.dumps({"seconds": time.perf_counter() - start, "rows": done["rows"]["reachable"]}), flush=True)


if __name__ == "__main__":
    main()
