"""The command ``apply``: apply a batch of changes to the inputs, and publish what it changes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..batches import check_batch, is_known_batch, new_batch_id
from ..commits import check_unfed, open_state, run_and_commit
from ..errors import JobError
from ..executors import Executor, executor_of
from ..functions import supply
from ..inputs.aside import quarantine_at
from ..inputs.files import Reading, Source, relation_sources
from ..inputs.late import reading_in_order, sequences_in
from ..inputs.nulls import left_out_counts
from ..inputs.origins import place_in_sources, telling_places
from ..inputs.staging import stage_inputs
from ..inputs.values import shown
from ..log import Log
from ..manifest import FeedRecord, Manifest
from ..model import MOST_ENTRIES, MOST_ROUNDS, FunctionSource, Program
from ..obstacles import obstacles_pass
from ..options import Options
from ..parts import FEEDS, further
from ..places import given_place
from ..publish import check_cut, published_where
from ..stages import run_stages
from ..stored import check_stored, stored_files
from .report import summary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@obstacles_pass()
def apply_batch(
    program: Program,
    spark: SparkSession | Executor | None,
    state: str,
    changes: str | Sequence[str] | Mapping[str, Source | Sequence[Source]] | None = None,
    batch: str | None = None,
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
    feeds: Iterable[str] | Mapping[str, str] = (),
    resync: Iterable[str] = (),
    nulls: str = "refuse",
    quarantine: str | None = None,
) -> dict[str, Any]:
    """Apply a batch of changes to the input relations, and publish the net changes of the output relations.
    Without ``changes``, apply everything that is new in the connected feeds.

    A batch whose ID was applied before changes nothing. ``strategy``: maintain strata incrementally (``incremental``),
    compute them from scratch (``recompute``), or do what is cheaper for each (``auto``). ``net``: ``insert`` if rows
    that an unordered batch both deletes and inserts are present afterwards; by default they are refused.
    ``all_inserts``: rows of sources without an operation column are insertions. ``publish_by``: ``location`` if the
    published changes of located relations are cut into a folder for each location. ``feeds``: sources that
    replace those of connected feeds for this batch, as ``REL=SOURCE`` or as a mapping. ``resync``: relations whose rows
    are compared with those of their feed as a whole, instead of reading changes. ``nulls``: ``skip`` if rows with nulls
    in columns that are never null are left out and counted; by default they are refused. ``quarantine``: a folder in
    which rows with other mistakes are set aside; by default they are refused.
    """
    started, log = time.monotonic(), log or Log()
    executor = executor_of(spark)
    by = check_cut(program, publish_by)
    reading = Reading(
        False,
        op_column,
        order_column or "",
        checked_net(net, order_column),
        all_inserts,
        left_out_counts(nulls),
        quarantine_at(quarantine),
    )
    supplied = supply(program, functions)
    if changes is None:
        if batch is not None:
            raise JobError("the ID of a batch from feeds follows from what it covers: leave out --batch")

        def options_of(buckets: int) -> Options:
            return Options(buckets, engine, max_rounds, max_entries, memory_limit, supplied, strategy)

        where = published_where(publish)
        again = [resync] if isinstance(resync, str) else list(resync)
        apply_feeds = further("apply_feeds", FEEDS, "applying what is new in feeds, without --changes,")
        result: dict[str, Any] = apply_feeds(
            program, executor, state, feeds, again, reading, where, by, options_of, log
        )
        return result
    if feeds or resync:
        raise JobError("--feed and --resync are for batches from feeds, without --changes and --batches")
    root = given_place(state)
    before = open_state(program, executor, root)
    generated = batch is None
    batch = batch if batch is not None else new_batch_id(root, before, "batch")
    check_batch(batch)
    if not generated and is_known_batch(root, before, batch):
        log.event("known", batch=batch)
        return {"program": program.name, "batch": batch, "commit": before.commit, "applied": False}
    sources = relation_sources(program, changes)
    check_unfed(before, sources)
    options = Options(before.buckets, engine, max_rounds, max_entries, memory_limit, supplied, strategy)
    where = published_where(publish)
    manifest = apply_sources(
        program, executor, root, before, batch, sources, reading, options, where, by, log, generated
    )
    return summary(program, root, manifest, started)


def checked_net(net: str | None, order_column: str | None) -> str:
    """Return what becomes of rows that an unordered batch deletes and inserts; raise JobError if that is unknown."""
    if net not in (None, "insert"):
        raise JobError(f"net must be insert, not {shown(net)}")
    if net and order_column:
        raise JobError("--net cannot be combined with --order-column, which decides by the last change")
    return net or ""


def apply_sources(
    program: Program,
    executor: Executor,
    root: Path,
    before: Manifest,
    batch: str,
    sources: Mapping[str, Sequence[Source]],
    reading: Reading,
    options: Options,
    where: str,
    by: str,
    log: Log,
    generated: bool,
    feeds: Mapping[str, FeedRecord] | None = None,
) -> Manifest:
    """Apply the changes in sources to the last commit of a state, as :func:`run_and_commit` does, and return the new
    commit."""
    if options.functions:
        options.functions.check(before.functions)
    check_stored(root, before, stored_files(before))
    reading = reading_in_order(reading, root, before, sources)

    def work(attempt: str) -> Any:
        into = root / "data" / attempt / "input"
        staged = stage_inputs(executor, program, sources, into, reading, log)
        also = sequences_in(reading, staged)
        with telling_places(program, lambda r, named: place_in_sources(r, named, sources, reading)):
            outcome = run_stages(executor, program, before, staged, str(root), attempt, options, log, False, also=also)
        return outcome, outcome.changes, outcome.counts

    return run_and_commit(
        program,
        executor,
        root,
        before,
        batch,
        where,
        options.functions,
        log,
        work,
        generated,
        by,
        feeds=feeds,
        left_out=reading.left_out,
        aside=reading.aside,
        sources=sources,
        sequences=reading.sequences.records if reading.sequences else None,
        late=reading.sequences.late if reading.sequences else None,
    )
