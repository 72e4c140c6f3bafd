"""The function ``apply_micro_batch``: apply a micro-batch of a streaming query, exactly once."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..engines.options import Options
from ..inputs.files import Reading, Source, relation_sources
from ..inputs.records import input_relation
from ..inputs.values import left_out_counts
from ..job.apply import apply_sources, checked_net
from ..job.command_line import request_of
from ..job.report import known_summary, summary
from ..kernel.errors import JobError, Passing
from ..kernel.model import MOST_ENTRIES, MOST_ROUNDS, FunctionSource, Program
from ..store.batches import batch_lists, last_commit
from ..store.commits import open_state
from ..store.extensions import FURTHER, supply
from ..store.request import Batch
from ..store.set_aside import quarantine_at
from ..system.log import Log
from ..system.transient_errors import obstacles_pass
from .feeds.feed import LONGEST_BATCH_ID, short_hash
from .feeds.stream import checked_number, due_relations, query_of, stream_record

if TYPE_CHECKING:
    from ..spark.types import DataFrame

STATES_IN_TURN: dict[str, threading.Lock] = {}
"""A lock for each state that queries of this process change: one micro-batch is applied after the other."""

TURN_PAUSE = 0.5
"""The longest pause, in seconds, before a micro-batch is applied again because another process has committed."""


@obstacles_pass()
def apply_stream_batch(
    program: Program,
    frame: DataFrame,
    batch_id: int,
    state: str,
    relation: str | Mapping[str, Source | Sequence[Source]],
    checkpoint: str | None = None,
    publish: str | None = None,
    order_column: str | None = None,
    op_column: str = "op",
    engine: str = "auto",
    max_rounds: int = MOST_ROUNDS,
    max_entries: int = MOST_ENTRIES,
    memory_limit: str = "",
    functions: FunctionSource = None,
    strategy: str = "auto",
    net: str | None = None,
    all_inserts: bool = False,
    publish_by: str | None = None,
    log: Log | None = None,
    nulls: str = "refuse",
    quarantine: str | None = None,
) -> dict[str, Any]:
    """Apply a micro-batch of a streaming query to an input relation, from ``foreachBatch``, which passes the ``frame``
    and the ``batch_id``. The state keeps the ID of the query and the number of its last batch, in the commit of its
    changes: a batch that Spark runs again changes nothing, and another query is refused. For several relations, give a
    mapping from them to frames made of this one as ``relation``. ``checkpoint`` is the folder of the query's
    checkpoint, needed where Spark does not tell the ID of the query. If others commit meanwhile, the batch is applied
    after theirs. The other parameters are those of :func:`apply_batch`."""
    number, query = checked_number(batch_id), query_of(frame, checkpoint)
    sources_given = relation_sources(program, {relation: frame} if isinstance(relation, str) else relation)
    if not sources_given:
        raise JobError("give a relation, or a mapping from relations to frames")
    for name in sources_given:
        input_relation(program, name)
    left_out_counts(nulls)  # refuses other choices
    aside = quarantine_at(quarantine)
    reading = Reading(False, op_column, order_column or "", checked_net(net, order_column), all_inserts, aside=aside)
    options = Options(1, engine, max_rounds, max_entries, memory_limit, supply(program, functions), strategy)
    request = request_of(program, frame.sparkSession, state, log, options, publish, publish_by)
    root, log = request.root, request.log
    with STATES_IN_TURN.setdefault(str(root), threading.Lock()):
        while True:
            started = time.monotonic()
            before = open_state(program, request.executor, root)
            due = due_relations(before.feeds, sources_given, query, number)
            batch = micro_batch_id(due or [*sources_given], query, number)
            if not due or any(batch in listed.batches for listed in batch_lists(root, before)):
                return known_summary(program, before, batch, log)
            feeds = {**before.feeds, **{name: stream_record(query, number) for name in due}}
            sources = {name: sources_given[name] for name in due}
            try:
                counted = replace(reading, left_out=left_out_counts(nulls))
                manifest = apply_sources(request, before, Batch(batch, sources=sources, feeds=feeds), counted)
            except Passing as error:
                if last_commit(root) == before.commit:
                    raise
                pause = random.uniform(0, TURN_PAUSE)
                log.event("trouble", batch=batch, error=str(error), again_in=round(pause, 3))
                time.sleep(pause)
                continue
            return summary(program, root, manifest, started)


def micro_batch_id(names: Sequence[str], query: str, number: int) -> str:
    """Return the ID of the batch with the changes of relations in a micro-batch of a query."""
    batch = f"{'+'.join(sorted(names))}@{query}.{number}"
    return batch if len(batch) <= LONGEST_BATCH_ID else f"feeds@{short_hash(sorted(names))}@{query}.{number}"


FURTHER["apply_micro_batch"] = apply_stream_batch
