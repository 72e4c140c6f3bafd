"""The command ``revert``: undo what one batch has done to the inputs, as a batch of its own."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from ...engines.options import Options
from ...inputs.sequences import sequence_relations
from ...job.command_line import COMMANDS, Command, on_executor, request_of
from ...job.report import known_summary, report_commit, summary
from ...job.shared_options import add_cut, add_publish, add_running, add_state, add_strategy, add_watching, option
from ...kernel.errors import JobError, Refused
from ...kernel.model import MOST_ENTRIES, MOST_ROUNDS, FunctionSource, Program, Relation
from ...kernel.values import hashable, shown
from ...store.batches import chosen_batch
from ...store.commits import check_unfed, open_state, run_and_commit
from ...store.data_files import check_stored, stored_files
from ...store.executors import Executor
from ...store.extensions import FURTHER, supply
from ...store.manifest import Manifest
from ...store.request import Batch
from ...store.retention import kept_commit, oldest_kept, recorded_commits
from ...store.stages import run_stages
from ...store.task_records import Outcome
from ...store.versions import check_program
from ...system.log import Log
from ...system.places import place_of
from ...system.transient_errors import obstacles_pass
from .differences import differences
from .history import is_listed
from .rollback import add_own_batch

if TYPE_CHECKING:
    from ...spark.types import SparkSession

KEYS_LISTED = 3


@obstacles_pass()
def revert_batch(
    program: Program,
    spark: SparkSession | Executor | None,
    state: str,
    reverted: str,
    batch: str | None = None,
    publish: str | None = None,
    engine: str = "auto",
    max_rounds: int = MOST_ROUNDS,
    max_entries: int = MOST_ENTRIES,
    memory_limit: str = "",
    functions: FunctionSource = None,
    strategy: str = "auto",
    publish_by: str | None = None,
    log: Log | None = None,
) -> dict[str, Any]:
    """Apply, as a batch of its own, the inverse of what the batch ``reverted`` has changed in the inputs: rows that it
    inserted are deleted, and rows that it deleted are inserted. Its commit and the one before it must be kept. Raise
    Refused if a later batch has changed a row with a primary key that it changed. The other parameters are those of
    :func:`apply_batch`."""
    started = time.monotonic()
    options = Options(1, engine, max_rounds, max_entries, memory_limit, supply(program, functions), strategy)
    request = request_of(program, spark, state, log, options, publish, publish_by)
    executor, root = request.executor, request.root
    before = open_state(program, executor, root)
    request = request.in_buckets(before.buckets)
    batch, generated, applied = chosen_batch(root, before, batch, "revert")
    if applied:
        return known_summary(program, before, batch, request.log)
    if request.options.functions:
        request.options.functions.check(before.functions)
    then = commit_of_batch(root, before, reverted)
    earlier = kept_commit(root, then.commit - 1)
    for manifest in (then, earlier):
        check_program(program, manifest)
    inputs = [relation for relation in program.relations if relation.kind == "input" and not relation.clock]
    sequences = sequence_relations(before)
    tables = [relation.table for relation in inputs]
    check_stored(root, before, [*stored_files(before), *stored_files(then, tables), *stored_files(earlier, tables)])

    def work(attempt: str) -> Outcome:
        folder = root / "data" / attempt / "input"
        staged = {}
        for relation in (*inputs, *sequences.values()):
            files, _ = differences(executor, root, then, earlier, relation, folder)
            if files:
                check_unfed(before, [relation.name])
            if files and relation.key and then.commit < before.commit:
                since, _ = differences(executor, root, then, before, relation, folder / "since")
                check_reverted(root, relation, files, since, reverted)
            staged[relation.table] = [str(root / name) for name in files]
        also = tuple(kept for kept in sequences.values() if staged[kept.table])
        return run_stages(request, before, staged, attempt, also=also)

    manifest = run_and_commit(request, before, Batch(batch, "revert", generated), work)
    return {**summary(program, root, manifest, started), "reverts": reverted}


def commit_of_batch(root: Path, last: Manifest, batch: str) -> Manifest:
    """Return the commit of a batch. Raise JobError if the state does not have it, or if that commit or the one before
    it is not kept."""
    first = oldest_kept(last)
    for manifest in recorded_commits(root):
        if manifest.batch == batch and is_listed(root, last, batch, manifest.attempt):
            if manifest.commit > first:
                return manifest
            raise JobError(
                f"batch {shown(batch)} is commit {manifest.commit}, and the state before it is not kept: {root} has "
                f"the states of commits {first} to {last.commit}"
            )
    raise JobError(f"no commit that is recorded in {root} has batch {shown(batch)}; `history` lists them")


def check_reverted(root: Path, relation: Relation, files: Sequence[str], since: Sequence[str], batch: str) -> None:
    """Raise Refused if rows to restore have keys whose rows a later batch has changed."""
    restored = {*key_values(root, relation, files)}
    changed = dict.fromkeys(key for key in key_values(root, relation, since) if key in restored)
    if not changed:
        return
    column_names = {column.sql: column.name for column in relation.columns}
    listed = "; ".join(
        ", ".join(f"{column_names[name]} = {shown(value)}" for name, value in zip(relation.key, key, strict=True))
        for key in [*changed][:KEYS_LISTED]
    )
    raise Refused(
        f"{relation.name}: later batches have changed rows that batch {batch} changed, with the primary key "
        f"{listed}{'; ...' if len(changed) > KEYS_LISTED else ''}: revert those first, or apply a batch that says what "
        "these rows are to be"
    )


def key_values(root: Path, relation: Relation, files: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Yield the primary keys of the rows in files of net changes."""
    for name in files:
        with place_of(str(root / name)).open("rb") as content:
            for rows in pq.ParquetFile(content).iter_batches(columns=list(relation.key)):
                columns = [rows.column(column).to_pylist() for column in relation.key]
                yield from (tuple(map(hashable, key)) for key in zip(*columns, strict=True))


def report_revert(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines that report a batch that undoes another one."""
    yield from report_commit(result)
    if result["applied"]:
        yield f"it reverts batch {result['reverts']}"


COMMANDS["revert"] = Command(
    "revert",
    "undo one batch",
    "Apply the inverse of what a batch has changed in the input relations, as a batch of its own.",
    (
        add_state,
        add_running,
        add_cut,
        add_publish,
        add_watching,
        option("reverted", metavar="BATCH", help="the ID of the batch"),
        add_own_batch,
        add_strategy,
    ),
    on_executor(revert_batch),
    report_revert,
)
FURTHER["revert"] = revert_batch
