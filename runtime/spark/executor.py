"""Run the tasks of a command as Spark jobs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ..engines.arrow import string_array
from ..kernel.errors import JobError, OutOfMemory, Passing, Refused
from ..store.executors import Executor, LocalExecutor, TaskWork, as_json
from ..store.extensions import FURTHER
from ..system.log import describe
from .frames import in_tasks, write_renamed_on_spark
from .inputs import spark_tables
from .rounds_task import run_rounds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkExecutor:
    """Runs tasks as Spark jobs. A session that is not open yet is opened when something needs it."""

    name, local = "spark", False
    kept = None

    def __init__(
        self, spark: SparkSession | Callable[[], SparkSession], why: str = "a Spark session was given"
    ) -> None:
        """Use a session, or the one that a function returns."""
        self.why = why
        self._spark: SparkSession | None = None
        self._open: Callable[[], SparkSession] | None = None
        if callable(spark):
            self._open = spark
        else:
            self._spark = spark

    def session(self, purpose: str = "") -> SparkSession:
        """Return the session, opening it if necessary."""
        if self._spark is None:
            assert self._open
            self._spark = self._open()
        return self._spark

    def cores(self) -> int:
        """Return the number of cores of a Spark executor, or 1 if the session does not tell."""
        return self.sharing() or 1

    def sharing(self) -> int:
        """Return the number of cores of a Spark executor, or 0 if the session does not tell."""
        spark = self.session()
        cores = spark.conf.get("spark.executor.cores", None)
        if cores:
            return int(cores)
        context = getattr(spark, "sparkContext", None)
        if context is None or not str(context.master).startswith("local"):
            return 0
        return int(context.defaultParallelism)

    def slots(self) -> int:
        """Return the number of task slots of the cluster, or 8 if the session does not tell."""
        spark = self.session()
        return int(spark.sparkContext.defaultParallelism) if hasattr(spark, "sparkContext") else 8

    def on_buckets(self, numbers: range, work: TaskWork) -> list[dict[str, Any]]:
        """Call ``work`` with each number, in a Spark task of its own, as one job; return the reports in order."""
        rows = in_tasks(self.session(), len(numbers), reporting(work), "report string").collect()
        reports = sorted((json.loads(row.report) for row in rows), key=lambda said: int(said["number"]))
        assert [said["number"] for said in reports] == list(numbers), "each bucket reports once"
        for said in reports:
            if "refused" in said:
                kind = {"Passing": Passing, "OutOfMemory": OutOfMemory}.get(said["kind"], JobError)
                more = (
                    "; give executors more memory, use more buckets, or add --engine spark, which keeps less in memory"
                )
                if said["parts"]:
                    fault, advice, details, options, about = said["parts"]
                    raise Refused(fault, advice, details, options, tuple(about) if about else None)
                raise kind(f"{said['refused']}{more if kind is OutOfMemory else ''}")
        return [said["report"] for said in reports]

    def describe(self, text: str) -> None:
        """Describe the Spark jobs that follow in Spark's UI."""
        describe(self.session(), text)


def executor_of(spark: SparkSession | Executor | None) -> Executor:
    """Return the executor for a session that a caller gave to a command: Spark, or this process without one. Raise
    TypeError for anything else."""
    if spark is None:
        return LocalExecutor()
    if isinstance(spark, LocalExecutor | SparkExecutor):
        return spark
    own = type(spark)
    if any(kind.__name__ == "SparkSession" and kind.__module__.startswith("pyspark.") for kind in own.__mro__):
        return SparkExecutor(spark)  # type: ignore[arg-type]
    hint = ""
    if own.__name__ == LocalExecutor.__name__:
        hint = f": that of another script or runtime; take the one of {LocalExecutor.__module__}"
    raise TypeError(
        f"a job takes a SparkSession, None or its own LocalExecutor, not {own.__module__}.{own.__qualname__}{hint}"
    )


def reporting(work: TaskWork) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return a function for Spark's tasks, which calls ``work`` with the number of a task and yields its report."""

    def run_bucket(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow

        for batch in batches:
            for number in batch.column(0).to_pylist():
                try:
                    report = {"number": number, "report": work(number)}
                except JobError as error:
                    # Report it instead of raising: Spark would retry the task, which would fail again.
                    parts = error.parts if isinstance(error, Refused) else None
                    said = {"refused": str(error), "kind": type(error).__name__, "parts": parts}
                    report = {"number": number, **said}
                text = json.dumps(report, default=as_json)
                yield pyarrow.RecordBatch.from_arrays([string_array([text])], ["report"])

    return run_bucket


FURTHER.update(spark_tables=spark_tables, run_rounds=run_rounds, write_renamed_on_spark=write_renamed_on_spark)
