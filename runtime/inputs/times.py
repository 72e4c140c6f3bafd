"""The time of a batch."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime

from ..kernel.errors import JobError
from ..kernel.values import shown
from .typed_values import DAY, read_date, read_timestamp

GivenTime = str | date | None
"""A time in UTC: a date or a timestamp, or its text; None for that of the clock."""


class Unmoved(Exception):
    """Raised to leave a state as it was, since the time changes nothing that users see."""


def moment_of_batch(given: GivenTime, before: datetime | None) -> datetime:
    """Return the time of a batch in UTC: the one that is ``given``, or that of the clock, which is not ``before`` that
    of the state. Raise JobError for one that is given and is."""
    if given is None:
        now = datetime.now(UTC).replace(tzinfo=None)
        return max(now, before or now)
    is_day = re.fullmatch(DAY, given) if isinstance(given, str) else not isinstance(given, datetime)
    try:
        moment = datetime.combine(read_date(given), datetime.min.time()) if is_day else read_timestamp(given)
    except ValueError as error:
        raise JobError(f"{shown(given)} is no time of a batch, such as 2026-03-01 or 2026-03-01 12:00:00") from error
    if before is not None and moment < before:
        raise JobError(f"{moment} is before {before}, the time of the state, which does not go back")
    return moment


def time_changes(given: GivenTime, before: datetime | None) -> list[tuple[str, tuple[datetime]]]:
    """Return the changes of the relation with the time, behind a batch ``before``."""
    now = moment_of_batch(given, before)
    if now == before:
        return []
    return [*([("-", (before,))] if before is not None else []), ("+", (now,))]
