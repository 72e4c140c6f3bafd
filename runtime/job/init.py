"""The command ``init``: build a state from rows of the input relations."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Any

from ..engines.options import Options
from ..inputs.files import Reading, Source, relation_sources
from ..inputs.staging import stage_inputs
from ..inputs.values import left_out_counts
from ..kernel.errors import JobError
from ..kernel.model import MOST_ENTRIES, MOST_ROUNDS, FunctionSource, Program
from ..store.commits import run_and_commit
from ..store.executors import Executor
from ..store.extensions import FEEDS, further, supply
from ..store.manifest import commit_numbers, connected_files
from ..store.publish import tables_function
from ..store.request import Batch
from ..store.retention import checked_keep
from ..store.set_aside import quarantine_at
from ..store.stages import run_stages
from ..store.task_records import Outcome
from ..system.log import Log
from ..system.places import is_local
from ..system.transient_errors import obstacles_pass
from .command_line import Command, on_executor, request_of
from .report import summary
from .shared_options import add_as_of, add_buckets, add_keeping, add_rows, add_running, add_state, add_watching

if TYPE_CHECKING:
    from ..spark.types import SparkSession


@obstacles_pass()
def init_state(
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
    keep: str | int | None = None,
    log: Log | None = None,
    feeds: Iterable[str] | Mapping[str, str] = (),
    op_column: str = "op",
    publish: str | None = None,
    nulls: str = "refuse",
    quarantine: str | None = None,
    as_of: str | date | None = None,
) -> dict[str, Any]:
    """Build the state from rows of the input relations; raise JobError if there is one. A relation that was connected
    gets the rows of its feed, which is read from there on. ``inputs``: REL=PATH or a
    folder, or several of these, or a mapping from relations to paths or DataFrames. ``functions``: the file with the
    external functions, or a mapping from names to functions. ``all_inserts``: columns that look like operations are
    ordinary ones. ``keep``: how many commits the state will keep, or for how long (``7d``).
    ``feeds``: sources that replace those of connected feeds for this command, as ``REL=SOURCE`` or as a mapping.
    ``op_column``: the operation column of change files in a connected folder. ``publish``: keep output relations as
    tables at this place, such as ``delta:/lake/views`` or ``iceberg:lake.views``. ``nulls``: ``skip`` if rows with
    nulls in columns that are never null are left out and counted; by default they are refused. ``quarantine``: a
    folder in which rows with other mistakes are set aside; by default they are refused. ``as_of``: the time of the
    rows, if the program reads it; by default that of the clock."""
    started = time.monotonic()
    left_out, aside = left_out_counts(nulls), quarantine_at(quarantine)
    kept = checked_keep(keep)
    options = Options(1, engine, max_rounds, max_entries, memory_limit, supply(program, functions))
    request = replace(request_of(program, spark, state, log, options), as_of=as_of)
    executor, root, log = request.executor, request.root, request.log
    if is_local(root) and "\\" in str(root):
        raise JobError(f"{root}: DuckDB reads a backslash in a path as a slash; choose another folder")
    if commit_numbers(root):
        raise JobError(
            f"there is a state in {root} already; `apply` changes it, `rebuild` recomputes it from its inputs"
        )
    sources = relation_sources(program, inputs)
    fed = None
    if feeds or connected_files(root):
        initial_rows = further("initial_rows", FEEDS, "reading the feeds that are connected to this state")
        fed = initial_rows(request, sources, feeds, left_out, aside)
    connected = fed.connected if fed else {}
    for relation in program.relations:
        if relation.kind == "input" and not relation.clock and relation.name not in {*sources, *connected}:
            log.warn(f"{relation.name} starts empty: no --input {relation.name}=PATH was given")
    tables = ""
    if publish:
        tables = tables_function("given_tables", publish)(publish)
        tables_function("check_tables", publish)(program, tables)
    if buckets is not None:
        request = request.in_buckets(buckets)

    def work(attempt: str) -> Outcome:
        into = root / "data" / attempt / "input"
        reading = Reading(initial=True, all_inserts=all_inserts, left_out=left_out, aside=aside)
        staged = stage_inputs(executor, program, sources, into, reading, log)
        changes = Reading(op_column=op_column, all_inserts=all_inserts, left_out=left_out, aside=aside)
        deliveries = fed.take(into, changes, log) if fed else []
        staged |= {one.table: one.files for one in deliveries}
        # A session is opened for rows that have been checked.
        chosen = request.in_buckets(executor.slots()) if buckets is None else request
        outcome = run_stages(chosen, None, staged, attempt, initial=True)
        if fed:
            fed.check(deliveries, outcome)
        return outcome

    batch = Batch(
        "init", "init", True, sources, left_out, aside, None, fed.records if fed else {}, tables=tables, keep=kept
    )
    manifest = run_and_commit(request, None, batch, work)
    if fed:
        fed.forget()
    return summary(program, root, manifest, started)


INIT = Command(
    "init",
    "build the state",
    "Build the state from the rows of the input relations. An input relation that neither is given nor was connected "
    "starts empty.",
    (add_state, add_rows, add_as_of, add_buckets, add_running, add_keeping, add_watching),
    on_executor(init_state),
)
