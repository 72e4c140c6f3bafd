"""Run the tasks of a command: in threads of this process, or as Spark jobs."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from ..kernel.errors import JobError, OutOfMemory
from ..system.machine import available_cores, available_memory
from .resident import KEPT_SHARE, KeptEngines

if TYPE_CHECKING:
    from ..spark.types import SparkSession

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

    def sharing(self) -> int:
        """Return how many threads of tasks share the memory of a machine; 0 if that is not known here."""

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
        raise needs_spark(purpose)

    def cores(self) -> int:
        """Return the number of threads."""
        return self.threads

    def sharing(self) -> int:
        """Return the number of threads."""
        return self.threads

    def slots(self) -> int:
        """Return the number of threads."""
        return self.threads

    def on_buckets(self, numbers: range, work: TaskWork) -> list[dict[str, Any]]:
        """Call ``work`` with each number in this process, and return the reports in order."""

        def report(number: int) -> dict[str, Any]:
            result: dict[str, Any] = json.loads(json.dumps(work(number), default=as_json))
            return result

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


def needs_spark(purpose: str) -> JobError:
    """Return the error for a purpose that this process cannot do."""
    return JobError(f"{purpose} needs Spark, but this command runs without it; {with_spark()}")


def with_spark(*options: str) -> str:
    """Return how to run the present command on Spark, with further options."""
    if Path(sys.argv[0]).suffix == ".py" and len(sys.argv) > 1:
        return f"run `spark-submit {shlex.join([*sys.argv, *options])}`"
    return f"run it with spark-submit{''.join(f' {option}' for option in options)}, or pass a Spark session"


def as_json(value: object) -> Any:
    """Return a value of a report as JSON can hold it: a dataclass as an object, anything else as text."""
    return vars(value) if is_dataclass(value) else str(value)
