"""Errors after which a process tries again, since nobody starts it anew."""

from __future__ import annotations

from ...kernel.errors import JobError, Refused, full_disk
from ...system.transient_errors import causes_of, classes_of, momentary


def passes_unattended(error: BaseException | None) -> bool:
    """Return whether a process tries again after an error: after an obstacle that may disappear, like other commands,
    but also after all other errors of the system and of Arrow, unless they led to rows being refused."""
    if momentary(error):
        return True
    if isinstance(error, Refused):
        return False
    if isinstance(error, JobError) and full_disk(error):
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
    """Return whether an error comes from the system or Arrow rather than from a job."""
    return isinstance(error, OSError | MemoryError) or ("pyarrow", "ArrowException") in classes_of(error)
