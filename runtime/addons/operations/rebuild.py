"""The command ``rebuild``: recompute all derived relations from the stored inputs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...engines.options import Options
from ...inputs.files import Reading, Source, relation_sources
from ...inputs.sequences import kept_sequences, stage_sequences
from ...inputs.staging import stage_inputs
from ...inputs.values import left_out_counts
from ...job.command_line import COMMANDS, Command, on_executor, request_of
from ...job.report import summary
from ...job.shared_options import add_buckets, add_cut, add_rows, add_running, add_state, add_watching
from ...kernel.errors import DISK_FAILURES, JobError
from ...kernel.model import MOST_ENTRIES, MOST_ROUNDS, FunctionSource, Program
from ...store.batches import new_batch_id
from ...store.commits import known_feeds, run_and_commit
from ...store.data_files import check_files, stored_files
from ...store.executors import Executor
from ...store.extensions import FURTHER, supply
from ...store.manifest import read_state
from ...store.publish import finish_publication
from ...store.request import Batch
from ...store.set_aside import quarantine_at
from ...store.stages import run_stages
from ...store.task_records import Outcome
from ...store.versions import has_columns_of, under_own_tables
from ...system.log import Log
from ...system.transient_errors import obstacles_pass
from .differences import differences, kept_inputs, stage_stored, under_own_columns

if TYPE_CHECKING:
    from ...spark.types import SparkSession


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
    started = time.monotonic()
    left_out, aside = left_out_counts(nulls), quarantine_at(quarantine)
    options = Options(1, engine, max_rounds, max_entries, memory_limit, supply(program, functions))
    request = request_of(program, spark, state, log, options, None, publish_by)
    executor, root, log = request.executor, request.root, request.log
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
    request = request.in_buckets(before.buckets if buckets is None else buckets)
    batch = new_batch_id(root, before, "rebuild")

    def work(attempt: str) -> Outcome:
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
        outcome = run_stages(request, None, staged, attempt, initial=True, also=also)
        after = replace(former, relations=outcome.relations, buckets=request.options.buckets)
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
        return replace(outcome, changes=changes, counts=counts)

    feeds = known_feeds(program, before, sources)
    recorded = Batch(batch, "rebuild", True, sources, left_out, aside, feeds=feeds)
    manifest = run_and_commit(request, before, recorded, work)
    return summary(program, root, manifest, started)


COMMANDS["rebuild"] = Command(
    "rebuild",
    "recompute all relations from the stored inputs",
    "Recompute all derived relations from the stored inputs, even if another version of the program wrote the "
    "state. Rows that are given replace stored ones.",
    (add_state, add_rows, add_buckets, add_running, add_cut, add_watching),
    on_executor(rebuild_state),
)
FURTHER["rebuild"] = rebuild_state
