"""Apply what the time has changed, in programs that read it. Scripts have this module only if theirs does."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from ..engines.options import Options
from ..inputs.times import Unmoved
from ..kernel.model import Program
from ..store.batches import new_batch_id
from ..store.commits import open_state, run_and_commit
from ..store.executors import Executor
from ..store.extensions import FURTHER, supply
from ..store.request import Batch, Request
from ..store.stages import run_stages
from ..store.task_records import Outcome
from ..system.log import Log
from .command_line import request_of
from .report import summary


def advance_time(request: Request) -> dict[str, Any] | None:
    """Apply what the time has changed as a batch, and return its result; None, and no batch, if that is nothing."""
    started, program, root = time.monotonic(), request.program, request.root
    before = open_state(program, request.executor, root)
    # Who watches batches hears of those that are there.
    quiet = replace(request, log=Log()).in_buckets(before.buckets)
    seen = [relation.table for relation in program.relations if not (relation.hidden or relation.clock)]

    def work(attempt: str) -> Outcome:
        outcome = run_stages(quiet, before, {}, attempt)
        if not any(any(outcome.counts.get(table, ())) for table in seen):
            raise Unmoved
        return outcome

    try:
        manifest = run_and_commit(quiet, before, Batch(new_batch_id(root, before, "batch")), work)
    except Unmoved:
        return None
    return summary(program, root, manifest, started)


def follow_time(
    program: Program, executor: Executor, state: str, log: Log, options: dict[str, Any]
) -> dict[str, Any] | None:
    """Apply what the time has changed, and return the result, if that is anything."""
    names = ("engine", "max_rounds", "max_entries", "memory_limit")
    given = {name: options[name] for name in names if name in options}
    evaluated = Options(1, functions=supply(program, options.get("functions")), **given)
    cut = options.get("publish"), options.get("publish_by")
    return advance_time(request_of(program, executor, state, log, evaluated, *cut))


FURTHER.update({"advance": advance_time, "follow time": follow_time})
