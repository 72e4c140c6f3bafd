"""Run the tasks of a command: in threads of this process, or as Spark jobs."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from .arrow import string_array
from .engines.spark import ship_functions_by_value
from .errors import JobError, OutOfMemory, Passing, Refused
from .kept import KEPT_SHARE, KeptEngines
from .log import describe

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TaskWork: TypeAlias = Callable[[int], dict[str, Any]]
"""The work of a task on one bucket, given its number; returns a report that can be written as JSON."""


class Executor(Protocol):
    """An executor of the tasks of a command."""

    @property
    def name(self) -> str:
        """Where tasks run: ``here`` or ``spark``."""

    @property
    def why(self) -> str:
        """Why they run there."""

    @property
    def local(self) -> bool:
        """Whether tasks run in this process."""

    @property
    def kept(self) -> KeptEngines | None:
        """The databases that are kept between batches; None if tables are read anew for each batch."""

    def session(self, purpose: str) -> SparkSession:
        """Return the Spark session; raise JobError, naming what needs it, if tasks run in this process."""

    def cores(self) -> int:
        """Return how many threads a task can use if it runs alone."""

    def slots(self) -> int:
        """Return how many tasks run at the same time."""

    def on_buckets(self, numbers: range, work: TaskWork) -> list[dict[str, Any]]:
        """Call ``work`` with each number, in a task of its own; return the reports in order. Raise the JobError of the
        first task that failed with one."""

    def describe(self, text: str) -> None:
        """Describe the tasks that follow, where Spark shows its jobs."""


class LocalExecutor:
    """Runs tasks in threads of this process: DuckDB releases Python's lock while it works.

    With ``keep``, tables that were read stay in memory for the next batch, until ``close``; it can be used in a
    ``with`` statement.
    """

    name, local = "here", True

    def __init__(self, threads: int = 0, why: str = "no Spark session was given", keep: bool = False) -> None:
        """Use ``threads`` threads, by default one for each core that this process may use."""
        self.why = why
        self.threads = threads or available_cores()
        self.kept = KeptEngines(int(available_memory() * KEPT_SHARE)) if keep else None

    def __enter__(self) -> LocalExecutor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Discard the tables that are kept."""
        if self.kept:
            self.kept.close()

    def session(self, purpose: str) -> SparkSession:
        """Raise JobError: there is no session."""
        raise JobError(f"{purpose} needs Spark, but this command runs without it; {with_spark()}")

    def cores(self) -> int:
        """Return the number of threads."""
        return self.threads

    def slots(self) -> int:
        """Return the number of threads."""
        return self.cores()

    def on_buckets(self, numbers: range, work: TaskWork) -> list[dict[str, Any]]:
        """Call ``work`` with each number in this process, and return the reports in order."""

        def report(number: int) -> dict[str, Any]:
            found: dict[str, Any] = json.loads(json.dumps(work(number), default=as_json))
            return found

        try:
            return self._all(report, numbers)
        except OutOfMemory as error:
            raise OutOfMemory(
                f"{error}\n{with_spark('--engine', 'spark')}, which keeps less in memory, or use a larger machine"
            ) from error

    def _all(self, report: TaskWork, numbers: range) -> list[dict[str, Any]]:
        """Return the reports of all numbers, from as many threads as there are."""
        threads = min(self.cores(), len(numbers))
        if threads <= 1:
            return [report(number) for number in numbers]
        with ThreadPoolExecutor(threads, "task") as pool:
            tasks = [pool.submit(report, number) for number in numbers]
            try:
                return [task.result() for task in tasks]
            except BaseException:
                # Tasks that have begun cannot be stopped, but the others need not begin.
                pool.shutdown(wait=True, cancel_futures=True)
                raise

    def describe(self, text: str) -> None:
        """Do nothing."""


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
        spark = self.session()
        given = spark.conf.get("spark.executor.cores", None)
        if given:
            return int(given)
        context = getattr(spark, "sparkContext", None)
        if context is None or not str(context.master).startswith("local"):
            return 1
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
                kind = {"Refused": Refused, "Passing": Passing, "OutOfMemory": OutOfMemory}.get(said["kind"], JobError)
                more = (
                    "; give executors more memory, use more buckets, or add --engine spark, which keeps less in memory"
                )
                raised = kind(f"{said['refused']}{more if kind is OutOfMemory else ''}")
                if isinstance(raised, Refused) and said["about"]:
                    raised.about = (said["about"][0], said["about"][1])
                raise raised
        return [said["report"] for said in reports]

    def describe(self, text: str) -> None:
        """Describe the Spark jobs that follow in Spark's UI."""
        describe(self.session(), text)


def executor_of(spark: SparkSession | Executor | None) -> Executor:
    """Return what runs tasks for a session that a caller gave to a command: Spark, or this process without one."""
    if spark is None:
        return LocalExecutor()
    return spark if isinstance(spark, LocalExecutor | SparkExecutor) else SparkExecutor(spark)  # type: ignore[arg-type]


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def available_memory() -> int:
    """Return the bytes of memory of the machine, or of the container that this process runs in."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with contextlib.suppress(OSError, ValueError):
        memory = min(memory, int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    return memory


def task_bytes(threads: int) -> int:
    """Return how many bytes a task with ``threads`` threads may use: 80 % of what Spark grants a Python worker or, if
    it sets no limit, the task's share of 60 % of the machine or container."""
    given = os.environ.get("PYSPARK_EXECUTOR_MEMORY_MB")
    if given:
        return int(given) * 8 // 10 * 2**20
    cores = os.cpu_count() or 1
    return available_memory() * 6 // 10 * min(threads, cores) // cores


def with_spark(*options: str) -> str:
    """Return how to run the present command on Spark, with further options."""
    if Path(sys.argv[0]).suffix == ".py" and len(sys.argv) > 1:
        return f"run `spark-submit {shlex.join([*sys.argv, *options])}`"
    return f"run it with spark-submit{''.join(f' {option}' for option in options)}, or pass a Spark session"


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
                    about = error.about if isinstance(error, Refused) else None
                    said = {"refused": str(error), "kind": type(error).__name__, "about": about}
                    report = {"number": number, **said}
                text = json.dumps(report, default=as_json)
                yield pyarrow.RecordBatch.from_arrays([string_array([text])], ["report"])

    return run_bucket


def as_json(value: object) -> Any:
    """Return a value of a report as JSON can hold it: a dataclass as an object, anything else as text."""
    return vars(value) if is_dataclass(value) else str(value)


def in_tasks(spark: SparkSession, count: int, work: Callable[[Iterator[Any]], Iterator[Any]], schema: str) -> DataFrame:
    """Return what ``work`` makes in ``count`` tasks, as a frame with ``schema``; each task passes it Arrow batches
    whose first column has the number of the task."""
    ship_functions_by_value()
    places = spark.range(0, count, 1, count).selectExpr("CAST(id AS INT) AS bucket")
    return places.mapInArrow(work, schema)
