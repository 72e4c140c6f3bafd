"""The time of a batch, in programs that read ``now``: what is given with ``--as-of``, or the clock's, and never back.

Scripts have this module if their program reads the time.
"""

from __future__ import annotations

from ..inputs.times import time_changes
from ..job.shared_options import add_as_of
from ..kernel.errors import JobError
from ..row_kernel.batch import RowChanges
from ..row_kernel.encodings import encoded
from .schema import CLOCK
from .state import DatabaseState


def with_time(database: DatabaseState, changes: RowChanges) -> RowChanges:
    """Return changes by table with those of the time, unless it is among them. Raise JobError if the time that is given
    is before that of the state, or if that is damaged."""
    clock = database.program.clock
    if clock is None or clock.table in changes:
        return changes
    try:
        (before,) = [then for (then,) in database.rows(clock)] or [None]
    except (ValueError, TypeError) as error:
        raise JobError(f"{database.path} is damaged: it has no single time; restore it from a copy") from error
    made = time_changes(database.as_of, before)
    return {**changes, clock.table: [(op, (encoded(then, "timestamp"),)) for op, (then,) in made]}


CLOCK.update(changes=with_time, option=add_as_of)
