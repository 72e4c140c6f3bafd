"""Stored inputs of an earlier commit, and net changes between commits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ...engines.options import Options
from ...kernel.errors import JobError
from ...kernel.model import Program, Relation
from ...kernel.sql import names
from ...spark.differences import stage_differences_on_spark, stage_stored_on_spark
from ...store.data_files import check_stored, stored_engine, stored_files
from ...store.executors import Executor
from ...store.manifest import Manifest, StoredRelation
from ...store.publish import write_renamed
from ...store.task_records import Task
from ...store.versions import as_stored, columns_record, stored_input, takes_stored
from ...store.writing import keep_file, write_parts, write_staged
from ...system.log import Log
from ...system.places import place_of


def kept_inputs(program: Program, root: Path, before: Manifest, given: set[str], log: Log) -> list[Relation]:
    """Return the input relations that keep their stored rows: all but those ``given`` anew. Warn of inputs that are
    gone or new; raise JobError for one whose stored rows have other columns."""
    kept = []
    recorded = before.program.relations
    stored = {record.name for record in recorded.values() if record.kind == "input"}
    inputs = {relation.name for relation in program.relations if relation.kind == "input"}
    for relation in program.relations:
        if relation.kind != "input" or relation.name in given:
            continue
        table = stored_input(relation, before.program)
        if not table:
            log.warn(f"{relation.name} is new and starts empty: no --input {relation.name}=PATH was given")
        elif not takes_stored(relation, before.program):
            raise JobError(
                f"the columns of {relation.name} differ from those of its stored rows; pass rows with --input "
                f"{relation.name}=PATH"
            )
        else:
            check_stored(root, before, stored_files(before, [table]), whole=True)
            kept.append(relation)
    for name in sorted(stored - inputs):
        log.warn(f"{name} is no longer an input; its rows are dropped")
    return kept


def stage_stored(executor: Executor, root: Path, manifest: Manifest, relation: Relation, folder: Path) -> list[str]:
    """Stage the stored rows of an input relation as insertions, and return the files."""
    executor.describe(f"stored rows of {relation.name}")
    stored = as_stored(relation, manifest.program)
    pairs = zip(stored.columns, relation.columns, strict=True)
    never_null = {column.sql for column, now in pairs if column.type != now.type}
    if executor.local:
        selected = ", ".join(
            f"LIST_VALUE({column.sql}) AS {column.sql}" if column.sql in never_null else column.sql
            for column in stored.row_columns
        )
        with stored_engine(root, [manifest], stored, executor.cores()) as (engine, (rows,)):
            return write_staged(engine, f"SELECT {selected}, '+' AS _op FROM ({rows}) AS q", folder)
    return stage_stored_on_spark(executor.session("rebuild"), root, manifest, stored, folder, never_null)


def differences(
    executor: Executor, root: Path, before: Manifest, after: Manifest, relation: Relation, folder: Path
) -> tuple[tuple[str, ...], tuple[int, int]]:
    """Return the net changes of a relation between two commits: files, and how many tuples came and went."""
    executor.describe(f"differences of {relation.name}")
    # An earlier version of the program may have stored other columns with the tuples.
    relation = replace(relation, kind="input")
    before, after = apart(before, after, relation.table)
    if not any(commit.relations.get(relation.table, StoredRelation()).buckets for commit in (before, after)):
        return (), (0, 0)
    if executor.local:
        return local_differences(executor.cores(), root, (before, after), relation, folder)
    files, counts = stage_differences_on_spark(executor.session("rebuild"), root, before, after, relation, folder)
    if not any(counts):
        return (), counts
    return tuple(keep_file(root, root, place_of(file)).path for file in files), counts


def apart(before: Manifest, after: Manifest, table: str) -> tuple[Manifest, Manifest]:
    """Return two commits with only those buckets of a relation that do not consist of the same files in both."""
    commits = (before, after)
    if before.buckets == after.buckets:
        old, new = (commit.relations.get(table, StoredRelation()) for commit in commits)
        same = {number for number, bucket in old.buckets.items() if bucket == new.buckets.get(number)}
        before, after = (
            replace(
                commit,
                relations={
                    **commit.relations,
                    table: replace(stored, buckets={n: b for n, b in stored.buckets.items() if n not in same}),
                },
            )
            for commit, stored in zip(commits, (old, new), strict=True)
        )
    return before, after


def local_differences(
    threads: int, root: Path, commits: tuple[Manifest, Manifest], relation: Relation, folder: Path
) -> tuple[tuple[str, ...], tuple[int, int]]:
    """Return the net changes of a relation from one commit to another, like ``differences``."""
    columns = names(relation.tuple_columns)
    with stored_engine(root, commits, relation, threads) as (engine, stored):
        old, new = (f"SELECT {columns} FROM ({rows}) AS q" for rows in stored)
        come = engine.table("differences__come", f"({new}) EXCEPT ({old})")
        gone = engine.table("differences__gone", f"({old}) EXCEPT ({new})")
        if not come + gone:
            return (), (0, 0)
        parts = [f"SELECT {columns}, '{op}' AS _op FROM differences__{t}" for op, t in (("+", "come"), ("-", "gone"))]
        task = Task(Options(1), str(root), {})
        name = (folder / "changes" / relation.table / "net").relative_to(root).as_posix()
        written = write_parts(engine, task, name, " UNION ALL ".join(parts), "0")
    return tuple(file.path for file in written[0]), (come, gone)


def under_own_columns(program: Program, root: Path, manifest: Manifest, folder: Path, attempt: str) -> Manifest:
    """Return a commit whose stored relations have the column names of this program. Files that another compiler version
    wrote with other column names are copied below ``folder``."""
    relations = dict(manifest.relations)
    recorded = manifest.program.relations
    tables = {
        table: relation
        for relation in program.relations
        for table in (relation.table, stored_input(relation, manifest.program) if relation.kind == "input" else "")
        if table in relations
    }
    for table, relation in tables.items():
        own = recorded[table].kind == relation.kind == "input" and stored_input(relation, manifest.program)
        kept = as_stored(relation, manifest.program) if own else relation
        stored, own_names = relations[table], [column.sql for column in kept.term_columns]
        if recorded[table].columns != columns_record(kept):
            continue
        copies: dict[str, str] = {}
        for number, name in enumerate(stored_files(manifest, [table])):
            try:
                with (root / name).open("rb") as file:
                    names_in_file = pq.ParquetFile(file).schema_arrow.names
            except (OSError, pa.ArrowException):
                # A reader of its rows reports the damage.
                continue
            # The columns of a tuple come first in every file.
            if names_in_file[: len(own_names)] == own_names:
                continue
            columns = dict(zip(names_in_file, [*own_names, *names_in_file[len(own_names) :]], strict=True))
            place = folder / table / f"{number:05d}"
            copies[name] = keep_file(root, root, write_renamed([root / name], columns, place, attempt)).path
        buckets = {
            number: replace(
                bucket,
                base=tuple(copies.get(name, name) for name in bucket.base),
                changes=tuple(copies.get(name, name) for name in bucket.changes),
            )
            for number, bucket in stored.buckets.items()
        }
        relations[table] = replace(stored, buckets=buckets)
    return replace(manifest, relations=relations)
