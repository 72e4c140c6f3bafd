"""The command ``apply``: apply a batch of changes to the inputs, and publish what it changes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Any

from ..engines.options import Options
from ..inputs.files import Reading, Source, relation_sources
from ..inputs.origins import place_in_sources, telling_places
from ..inputs.staging import stage_inputs
from ..inputs.values import left_out_counts
from ..kernel.errors import JobError
from ..kernel.model import MOST_ENTRIES, MOST_ROUNDS, FunctionSource, Program
from ..kernel.values import shown
from ..store.batches import chosen_batch
from ..store.commits import check_unfed, open_state, run_and_commit
from ..store.data_files import check_stored, stored_files
from ..store.executors import Executor
from ..store.extensions import FEEDS, FURTHER, further, supply
from ..store.manifest import Manifest
from ..store.request import Batch, Request
from ..store.set_aside import quarantine_at
from ..store.stages import run_stages
from ..store.task_records import Outcome
from ..system.log import Log
from ..system.transient_errors import obstacles_pass
from .batch_folder import BatchFolder, batches_known
from .command_line import Command, Invocation, executor_for, request_of
from .report import known_summary, summary
from .shared_options import (
    Parser,
    add_as_of,
    add_cut,
    add_publish,
    add_reading,
    add_running,
    add_state,
    add_watching,
    option,
)

if TYPE_CHECKING:
    from ..spark.types import SparkSession


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
    as_of: str | date | None = None,
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
    which rows with other mistakes are set aside; by default they are refused. ``as_of``: the time of the batch, if the
    program reads it; by default that of the clock. Such a program can be given no changes, and no feeds.
    """
    started = time.monotonic()
    options = Options(1, engine, max_rounds, max_entries, memory_limit, supply(program, functions), strategy)
    request = replace(request_of(program, spark, state, log, options, publish, publish_by), as_of=as_of)
    if changes is None and program.clock is not None and not feeds:
        changes = None if open_state(program, request.executor, request.root).feeds else {}
    net = checked_net(net, order_column)
    left_out, aside = left_out_counts(nulls), quarantine_at(quarantine)
    reading = Reading(False, op_column, order_column or "", net, all_inserts, left_out, aside)
    if changes is None:
        if batch is not None:
            raise JobError("the ID of a batch from feeds follows from what it covers: leave out --batch")
        again = [resync] if isinstance(resync, str) else list(resync)
        apply_feeds = further("apply_feeds", FEEDS, "applying what is new in feeds, without --changes,")
        result: dict[str, Any] = apply_feeds(request, feeds, again, reading)
        if program.clock is not None and not result["applied"]:
            result = FURTHER["advance"](request) or result
        return result
    if feeds or resync:
        raise JobError("--feed and --resync are for batches from feeds, without --changes and --batches")
    root = request.root
    before = open_state(program, request.executor, root)
    batch, generated, applied = chosen_batch(root, before, batch, "batch")
    if applied:
        return known_summary(program, before, batch, request.log)
    sources = relation_sources(program, changes)
    check_unfed(before, sources)
    manifest = apply_sources(request, before, Batch(batch, generated=generated, sources=sources), reading)
    return summary(program, root, manifest, started)


def checked_net(net: str | None, order_column: str | None) -> str:
    """Return what becomes of rows that an unordered batch deletes and inserts; raise JobError if that is unknown."""
    if net not in (None, "insert"):
        raise JobError(f"net must be insert, not {shown(net)}")
    if net and order_column:
        raise JobError("--net cannot be combined with --order-column, which decides by the last change")
    return net or ""


def apply_sources(request: Request, before: Manifest, batch: Batch, reading: Reading) -> Manifest:
    """Apply the changes in the sources of a batch to the last commit of a state, as :func:`run_and_commit` does, and
    return the new commit."""
    program, root, sources = request.program, request.root, batch.sources or {}
    request = request.in_buckets(before.buckets)
    if request.options.functions:
        request.options.functions.check(before.functions)
    check_stored(root, before, stored_files(before))
    reading = reading.in_order(root, before, sources)

    def work(attempt: str) -> Outcome:
        into = root / "data" / attempt / "input"
        staged = stage_inputs(request.executor, program, sources, into, reading, request.log)
        also = reading.with_sequences(staged)
        with telling_places(program, lambda r, named: place_in_sources(r, named, sources, reading)):
            return run_stages(request, before, staged, attempt, also=also)

    return run_and_commit(request, before, replace(batch, **reading.told), work)


def apply_batches(
    program: Program, executor: Executor, state: str, batches: str, log: Log, **options: Any
) -> Iterator[dict[str, Any]]:
    """Apply the batches of a folder that the state does not have, in the order of their names, and yield the result of
    each. ``options`` are those of ``apply_batch``. Raise JobError for the first batch that is refused; those before it
    are applied, those after it are not."""
    folder = BatchFolder(batches, batches_known(program, state))
    for batch in folder.waiting():
        yield apply_one(program, executor, state, folder, batch, log, options)


def apply_one(
    program: Program,
    executor: Executor,
    state: str,
    folder: BatchFolder,
    batch: str,
    log: Log,
    options: dict[str, Any],
) -> dict[str, Any]:
    """Apply a batch of a folder and return its result; raise JobError, naming the batch, if that fails."""
    try:
        result = apply_batch(program, executor, state, folder.place(batch), batch, log=log, **options)
    except JobError as error:
        kind = type(error)
        raise kind(f"batch {batch}: {error}") from error
    folder.known.add(batch)
    return result


def check_batch_options(call: Invocation) -> None:
    """Remove the options that a folder of batches has no use for; raise JobError if one of them was given."""
    if call.options.pop("feeds", None) or call.options.pop("resync", None):
        raise JobError("--feed and --resync are for batches from feeds, without --changes and --batches")
    if call.options.pop("batch", None):
        raise JobError("--batch cannot be combined with --batches, whose folders name their batches")
    call.options.pop("changes", None)


def run_apply(call: Invocation) -> Mapping[str, Any] | None:
    """Apply a batch, or those of a folder."""
    batches = call.options.pop("batches")
    executor = executor_for(call, bool(batches))
    if not batches:
        return apply_batch(call.program, executor, log=call.log, **call.options)
    check_batch_options(call)
    for result in apply_batches(call.program, executor, batches=batches, log=call.log, **call.options):
        call.tell(result)
    return None


def add_changes(parser: Parser, program: Program) -> None:
    """Add the options that give changes."""
    given = parser.add_mutually_exclusive_group()
    given.add_argument(
        "--changes",
        action="append",
        metavar="DIR|FILE|REL=PATH",
        help="a file or folder named after its relation, a folder of these, or REL=PATH; can be repeated",
    )
    given.add_argument(
        "--batches",
        metavar="DIR",
        help="a folder of batches: apply each subfolder, in the order of their names; its name is the ID of the batch",
    )


APPLY = Command(
    "apply",
    "apply a batch of changes",
    "Apply a batch of changes and publish the resulting changes of output relations. Without --changes and "
    "--batches, apply everything that is new in the connected feeds. A change has the columns of "
    "its relation and an operation: + or -, insert or delete, Debezium's c, u, d and r, or Delta's _change_type.",
    (
        add_state,
        add_running,
        add_cut,
        add_publish,
        add_watching,
        add_changes,
        option(
            "--batch",
            metavar="ID",
            help="the ID of the batch; applying an ID again changes nothing (default: a new ID)",
        ),
        add_reading,
        add_as_of,
    ),
    run_apply,
)
