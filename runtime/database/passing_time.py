"""Apply what the time has changed in a state in one SQLite file, for a job that follows a folder or feeds.

Scripts have this module if their program reads the time.
"""

from __future__ import annotations

import time

from ..inputs.times import Unmoved
from ..system.log import Log
from .commands import FileBatch, batch_summary
from .schema import CLOCK
from .state import DatabaseState, Result


def advance_file(database: DatabaseState, log: Log) -> Result | None:
    """Apply what the time has changed as a batch, and return its result; None, and no batch, if that is nothing."""
    if database.program.clock is None:
        return None
    started, database.as_of = time.monotonic(), None
    seen = {relation.table for relation in database.program.relations if not (relation.hidden or relation.clock)}
    try:
        with database.transaction():
            record = database.apply({}, None)
            if seen.isdisjoint(record.changes):
                raise Unmoved
    except Unmoved:
        return None
    return batch_summary(database, record, FileBatch("apply", None, log, started), None)


CLOCK["advance"] = advance_file
