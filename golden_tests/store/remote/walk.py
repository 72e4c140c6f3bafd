"""Builds, changes, checks and breaks a state somewhere, here or in a Spark session; prints what came of it as JSON.

Called with a script, a place for the state, a folder with the rows and changes, settings of Spark as JSON (null for
none: the commands run here), and the engine.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from golden_tests.faults.runner import load
from golden_tests.harness import tuples_in


def main() -> None:
    """Go through the commands."""
    script, state, data = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    settings = json.loads(sys.argv[4])
    spark = None if settings is None else session(settings)
    job = load(script)
    # As if the state were large: a task for each bucket, and files of changes beside the base.
    job.FEW_ROWS = 0
    engine = sys.argv[5]
    if engine == "spark":
        job.SMALL_PUBLICATION = 0
    root = job.given_place(state)
    options = {"log": job.Log(quiet=True), "engine": engine}
    said: dict[str, Any] = {}
    said["init"] = job.init(spark, state, str(data / "rows"), buckets=2, **options)
    said["first"] = rows_of(job, spark, state)
    said["apply"] = job.apply(spark, state, str(data / "one"), batch="one", **options)
    said["again"] = job.apply(spark, state, str(data / "one"), batch="one", **options)
    said["second"] = rows_of(job, spark, state)
    said["published"] = published(job, said["apply"])
    # As if the command had been killed when all was published but the mark, or when part of it was.
    for rest in (None,) if job.is_local(root) else (None, "part-00007.parquet"):
        job.manifest_path(root, said["apply"]["commit"]).with_suffix(".published").unlink()
        for folder in map(job.place_of, said["apply"]["published"].values() if rest else ()):
            first = next(path for path in folder.iterdir() if path.suffix == ".parquet")
            (folder / rest).write_bytes(first.read_bytes())
        job.open_state(job.PROGRAM, job.executor_of(spark), root)
        assert published(job, said["apply"]) == said["published"], rest
    said["race"] = refusal(job, lambda: job.commit_manifest(root, replace(job.read_state(root), attempt="other")))
    said["verify"] = job.verify(spark, state, **options)
    said["compact"] = job.compact(spark, state, **options)
    said["apply two"] = job.apply(spark, state, str(data / "two"), **options)
    said["third"] = rows_of(job, spark, state)
    if engine == "spark":
        with patch("importlib.util.find_spec", return_value=None):
            said["without DuckDB"] = rows_of(job, spark, state)
    said["status"] = job.status(state)
    said["verify two"] = job.verify(spark, state, **options)
    last = job.read_state(root)
    said["files"] = sorted(f"data/{name}" for name in job.files_under(root / "data"))
    kept = [job.read_manifest(root, number) for number in range(job.oldest_kept(last), last.commit + 1)]
    said["referenced"] = sorted({name for commit in kept for name in job.referenced_files(commit)})
    (victim,) = last.relations["reachable"].buckets[0].base
    content = (root / victim).read_bytes()
    (root / victim).write_bytes(content[:-7])
    said["cut off"] = refusal(job, lambda: job.apply(spark, state, str(data / "three"), **options))
    (root / victim).unlink()
    said["gone"] = refusal(job, lambda: job.apply(spark, state, str(data / "three"), **options))
    (root / victim).write_bytes(content[:40] + bytes([content[40] ^ 1]) + content[41:])
    said["changed"] = refusal(job, lambda: job.apply(spark, state, str(data / "three"), **options))
    print(json.dumps(said, default=str))
    if spark:
        spark.stop()


def session(settings: dict[str, str]) -> SparkSession:
    """A session, here or where ``spark.remote`` says."""
    remote = settings.pop("spark.remote", None)
    builder = SparkSession.builder.remote(remote) if remote else SparkSession.builder.master("local[2]")
    for name, value in {"spark.ui.enabled": "false", **settings, "spark.sql.shuffle.partitions": "2"}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    if not remote:
        spark.sparkContext.setLogLevel("OFF")
    return spark


def rows_of(job: ModuleType, spark: SparkSession | None, state: str) -> dict[str, list[list[Any]]]:
    """The tuples of all relations."""
    names = [relation.name for relation in job.PROGRAM.relations if not relation.hidden]
    return {name: sorted(map(list, tuples_in(job.relation(spark, state, name)))) for name in names}


def published(job: ModuleType, result: dict[str, Any]) -> dict[str, list[Any]]:
    """The changes that a commit published."""
    found = {}
    for name, folder in result["published"].items():
        rows = []
        for path in (path for path in job.place_of(folder).iterdir() if path.suffix == ".parquet"):
            with path.open("rb") as file:
                rows += [list(row.values()) for row in pq.read_table(file).to_pylist()]
        found[name] = sorted(rows)
    return found


def refusal(job: ModuleType, command: Callable[[], object]) -> str:
    """What is said of a command that fails, empty if it does not."""
    try:
        command()
    except (job.JobError, PySparkException, Py4JError) as error:
        return str(error)
    return ""


if __name__ == "__main__":
    # A local server of Spark Connect would keep the process alive.
    try:
        main()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    sys.stdout.flush()
    os._exit(0)
