"""Stage the time of a batch, in programs that read it. Scripts have this module only if theirs does."""

from __future__ import annotations

from datetime import datetime

import pyarrow.parquet as pq

from ..engines.arrow import table_of_rows
from ..store.extensions import FURTHER
from ..store.manifest import Manifest
from ..store.request import Request
from ..store.task_records import Outcome
from .times import time_changes


def stage_time(
    request: Request, before: Manifest | None, staged: dict[str, list[str]], attempt: str, outcome: Outcome
) -> dict[str, list[str]]:
    """Return the files of a batch by table with those of its time, unless these are among them, and note the time in
    the outcome."""
    clock = request.program.clock
    if clock is None or clock.table in staged:
        return staged
    was = before.as_of if before else ""
    changes = time_changes(request.as_of, datetime.fromisoformat(was) if was else None)
    outcome.as_of = changes[-1][1][0].isoformat(" ", "microseconds") if changes else was
    rows = [(time, op) for op, (time,) in changes]
    types = {clock.columns[0].sql: clock.columns[0].type, "_op": "string"}
    path = request.root / "data" / attempt / "input" / clock.table / "rows.parquet"
    path.parent.mkdir(parents=True)
    with path.open("wb") as content:
        pq.write_table(table_of_rows(types, rows), content)
    return {**staged, clock.table: [str(path)]}


FURTHER["stage_time"] = stage_time
