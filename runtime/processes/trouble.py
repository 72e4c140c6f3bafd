"""Tells transient errors, after which a process goes on, from those that end it."""

from __future__ import annotations

import pyarrow as pa

from ..errors import JobError, Passing, Refused, full_disk, is_of_spark, reason
from ..log import Log
from ..obstacles import SURROUNDINGS

#: Seconds between retries at most.
MOST_PAUSE = 30.0

#: Transient errors of DuckDB, after which the database is reopened.
DATABASE_TROUBLE = (
    "IOException",
    "OutOfMemoryException",
    "ConnectionException",
    "TransactionException",
    "InterruptException",
    "FatalException",
    "InternalException",
)


class Troubles:
    """Transient errors in a row, and the ``last`` one in words, empty if all is well."""

    def __init__(self, log: Log) -> None:
        """Start without any."""
        self.log, self.times, self.last = log, 0, ""

    def note(self, error: Exception) -> float:
        """Report one more error, and return how many seconds to wait."""
        self.times += 1
        self.last = reason(error)
        pause = pause_after(self.times)
        self.log.event("trouble", error=self.last, again_in=pause)
        return pause

    def over(self) -> bool:
        """Return whether there was trouble, which is over; report it then."""
        if not self.times:
            return False
        self.times, self.last = 0, ""
        self.log.event("trouble_over")
        return True


def pause_after(times: int, first: float = 0.1) -> float:
    """Return how many seconds to wait after so many errors in a row: each time twice as long, up to MOST_PAUSE."""
    return min(first * 2.0 ** min(times, 20), MOST_PAUSE)


def may_pass(error: BaseException | None) -> bool:
    """Return whether an error is transient: a full disk, an unreachable network, a lost Spark worker and the like."""
    kinds = (Passing, OSError, MemoryError, pa.ArrowException)
    if not isinstance(error, JobError):
        named = {(c.__module__.split(".")[0].lstrip("_"), c.__name__) for c in type(error).__mro__}
        return (
            isinstance(error, kinds)
            or (error is not None and is_of_spark(error))
            or any(module == "py4j" for module, _ in named)
            or not named.isdisjoint(("duckdb", kind) for kind in DATABASE_TROUBLE)
        )
    if isinstance(error, Refused):
        # Its message may quote input data, so only error numbers count.
        return is_surroundings(error)
    return bool(full_disk(error)) or any(isinstance(c, kinds) or is_of_spark(c) for c in with_causes(error))


def is_surroundings(error: BaseException) -> bool:
    """Return whether an error or its cause is a failure of the system, independent of what was being done."""
    return any(isinstance(c, OSError) and c.errno in SURROUNDINGS for c in with_causes(error))


def with_causes(error: BaseException) -> list[BaseException]:
    """Return an error and the chain of errors that caused it."""
    causes = [error]
    while cause := causes[-1].__cause__ or causes[-1].__context__:
        causes.append(cause)
    return causes
