"""Errors after which a process tries again, since nobody starts it anew."""

from __future__ import annotations

from ...kernel.errors import JobError, Refused, full_disk, is_of_spark
from ...system.transient_errors import causes_of, classes_of, momentary

DATABASE_TROUBLE = (
    "IOException",
    "OutOfMemoryException",
    "ConnectionException",
    "TransactionException",
    "InterruptException",
    "FatalException",
    "InternalException",
)
"""Errors of DuckDB after which a process opens its database again."""


def passes_unattended(error: BaseException | None) -> bool:
    """Return whether a process tries again after an error: after an obstacle that may disappear, like other commands,
    but also after all other errors of the system, Arrow and Spark, and after those of DuckDB that no JobError explains,
    unless they led to rows being refused."""
    if momentary(error):
        return True
    if isinstance(error, Refused):
        return False
    if is_of_database(error) or (isinstance(error, JobError) and full_disk(error)):
        return True
    for cause in causes_of(error):
        if isinstance(cause, JobError):
            continue
        if is_of_machine(cause):
            return True
        if cause.__cause__ is None:
            # A fault of the job while it handled an error of the system is none of the system.
            return False
    return False


def is_of_machine(error: BaseException) -> bool:
    """Return whether an error comes from the system, Arrow or Spark rather than from a job."""
    packages = {package for package, _ in classes_of(error)}
    of_arrow = ("pyarrow", "ArrowException") in classes_of(error)
    return isinstance(error, OSError | MemoryError) or of_arrow or is_of_spark(error) or "py4j" in packages


def is_of_database(error: BaseException | None) -> bool:
    """Return whether an error is one of DuckDB's after which it is worth opening the database again."""
    return error is not None and not {*classes_of(error)}.isdisjoint(("duckdb", kind) for kind in DATABASE_TROUBLE)
