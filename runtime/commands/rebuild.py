"""The command ``rebuild``: recompute all derived relations from the stored inputs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..batches import new_batch_id
from ..commits import known_feeds, run_and_commit
from ..errors import DISK_FAILURES, JobError
from ..executors import Executor, executor_of
from ..former import differences, kept_inputs, stage_sequences, stage_stored, under_own_columns
from ..functions import supply
from ..inputs.aside import quarantine_at
from ..inputs.files import Reading, Source, relation_sources
from ..inputs.late import kept_sequences
from ..inputs.nulls import left_out_counts
from ..inputs.staging import stage_inputs
from ..log import Log
from ..manifest import PUBLISHED, read_state
from ..model import MOST_ENTRIES, MOST_ROUNDS, FunctionSource, Program
from ..obstacles import obstacles_pass
from ..options import Options
from ..places import given_place
from ..publish import check_cut, finish_publication
from ..stages import run_stages
from ..stored import check_files, stored_files
from ..versions import has_columns_of, under_own_tables
from .report import summary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@obstacles_pass()
def rebuild_state(
    program: Program,
    spark: SparkSession | Executor | None,
    state: str,
    inputs: str | Sequence[str] | Mapping[str, Source | Sequence[Source]] = (),
    buckets: int | None = None,
    engine: str = "auto",
    max_rounds: int = MOST_ROUNDS,
    max_entries: int = MOST_ENTRIES,
    memory_limit: str = "",
    functions: FunctionSource = None,
    all_inserts: bool = False,
    publish_by: str | None = None,
    log: Log | None = None,
    nulls: str = "refuse",
    quarantine: str | None = None,
) -> dict[str, Any]:
    """Recompute every derived relation from the stored inputs, even if another version of the program wrote them.

    ``inputs`` replaces stored inputs, in the forms that :func:`init_state` takes, and its ``nulls`` and
    ``quarantine``. Changes to output relations are published as a batch, cut by ``publish_by`` as in
    :func:`apply_batch`.
    """
    started, log = time.monotonic(), log or Log()
    left_out, aside = left_out_counts(nulls), quarantine_at(quarantine)
    by = check_cut(program, publish_by)
    executor = executor_of(spark)
    supplied = supply(program, functions)
    root = given_place(state)
    before = under_own_tables(program, read_state(root))
    try:
        finish_publication(program, executor, root, before)
    except JobError as error:
        if isinstance(error.__cause__, OSError) and error.__cause__.errno in DISK_FAILURES:
            # The disk may recover, and after another commit these changes would never be published.
            raise
        log.warn(f"the changes of batch {before.batch} cannot be published: {error}")
    sources = relation_sources(program, inputs)
    kept = kept_inputs(program, root, before, set(sources), log)
    ordered_keys = kept_sequences(program, before, sources, log)
    options = Options(
        before.buckets if buckets is None else buckets, engine, max_rounds, max_entries, memory_limit, supplied
    )
    batch = new_batch_id(root, before, "rebuild")

    def work(attempt: str) -> Any:
        folder = root / "data" / attempt
        former = under_own_columns(program, root, before, folder / "former", attempt)
        reading = Reading(initial=True, all_inserts=all_inserts, left_out=left_out, aside=aside)
        staged = stage_inputs(executor, program, sources, folder / "input", reading, log)
        for item in kept:
            staged[item.table] = stage_stored(executor, root, former, item, folder / "input" / item.table)
        for sequences in ordered_keys.values():
            place = folder / "input" / sequences.table
            staged[sequences.table] = stage_sequences(root, before, sequences, place)
        also = tuple(ordered_keys.values())
        outcome = run_stages(executor, program, None, staged, str(root), attempt, options, log, True, also=also)
        after = replace(former, relations=outcome.relations, buckets=options.buckets)
        changes: dict[str, tuple[str, ...]] = {}
        counts: dict[str, tuple[int, int]] = {}
        for item in program.relations:
            if not item.output or not has_columns_of(item, before.program):
                continue
            try:
                check_files(root, stored_files(before, [item.table]))
            except JobError as error:
                log.warn(f"the changes of {item.name} cannot be published: {error}")
                continue
            changes[item.table], counts[item.table] = differences(executor, root, former, after, item, folder)
        return outcome, changes, counts

    feeds = known_feeds(program, before, sources)
    manifest = run_and_commit(
        program,
        executor,
        root,
        before,
        batch,
        PUBLISHED,
        supplied,
        log,
        work,
        by=by,
        feeds=feeds,
        command="rebuild",
        left_out=left_out,
        aside=aside,
        sources=sources,
    )
    return summary(program, root, manifest, started)
