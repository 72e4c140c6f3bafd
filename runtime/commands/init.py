"""The command ``init``: build a state from rows of the input relations."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..commits import run_and_commit
from ..errors import JobError
from ..executors import Executor, executor_of
from ..functions import supply
from ..inputs.aside import quarantine_at
from ..inputs.files import Reading, Source, relation_sources
from ..inputs.nulls import left_out_counts
from ..inputs.staging import stage_inputs
from ..log import Log
from ..manifest import PUBLISHED, commit_numbers, connected_files
from ..model import MOST_ENTRIES, MOST_ROUNDS, FunctionSource, Program
from ..obstacles import obstacles_pass
from ..options import Options
from ..parts import FEEDS, further
from ..places import given_place, is_local
from ..publish import tables_function
from ..retention import checked_keep
from ..stages import run_stages
from .report import summary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
    keep: str | None = None,
    log: Log | None = None,
    feeds: Iterable[str] | Mapping[str, str] = (),
    op_column: str = "op",
    publish: str | None = None,
    nulls: str = "refuse",
    quarantine: str | None = None,
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
    folder in which rows with other mistakes are set aside; by default they are refused."""
    started, log = time.monotonic(), log or Log()
    left_out, aside = left_out_counts(nulls), quarantine_at(quarantine)
    keep = checked_keep(keep)
    executor = executor_of(spark)
    supplied = supply(program, functions)
    root = given_place(state)
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
        fed = initial_rows(program, executor, root, sources, feeds, left_out, aside)
    connected = fed.connected if fed else {}
    for relation in program.relations:
        if relation.kind == "input" and relation.name not in {*sources, *connected}:
            log.warn(f"{relation.name} starts empty: no --input {relation.name}=PATH was given")
    tables = ""
    if publish:
        tables = tables_function("given_tables", publish)(publish)
        tables_function("check_tables", publish)(program, tables)
    options = Options(1 if buckets is None else buckets, engine, max_rounds, max_entries, memory_limit, supplied)

    def work(attempt: str) -> Any:
        into = root / "data" / attempt / "input"
        reading = Reading(initial=True, all_inserts=all_inserts, left_out=left_out, aside=aside)
        staged = stage_inputs(executor, program, sources, into, reading, log)
        changes = Reading(op_column=op_column, all_inserts=all_inserts, left_out=left_out, aside=aside)
        taken = fed.take(into, changes, log) if fed else []
        staged |= {one.table: one.files for one in taken}
        # A session is opened for rows that have been checked.
        chosen = replace(options, buckets=executor.slots()) if buckets is None else options
        outcome = run_stages(executor, program, None, staged, str(root), attempt, chosen, log, True)
        if fed:
            fed.check(taken, outcome)
        return outcome, outcome.changes, outcome.counts

    manifest = run_and_commit(
        program,
        executor,
        root,
        None,
        "init",
        PUBLISHED,
        supplied,
        log,
        work,
        command="init",
        keep=keep,
        feeds=fed.records if fed else {},
        tables=tables,
        left_out=left_out,
        aside=aside,
        sources=sources,
    )
    if fed:
        fed.forget()
    return summary(program, root, manifest, started)
