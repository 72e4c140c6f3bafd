"""Load stored relations and their changes as tables of an engine.

A relation is stored in buckets; a bucket is a base file and change files over it. A row of a change file replaces the
row with the same tuple in the base and in earlier change files, or removes it unless ``_present``; ``_commit`` is the
commit that wrote it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..engines.duckdb import DuckEngine
from ..kernel.changes import in_bucket
from ..kernel.engine import Engine
from ..kernel.method_interface import Bucket
from ..kernel.model import Column, Relation
from ..kernel.sql import names, no_rows, tuple_names
from .manifest import StoredBucket, StoredRelation
from .task_records import Task

COMPACT_SHARE = 0.25
"""Changes are written to change files until they exceed this share of the base rows; then the base is rewritten."""


def bucket_files(relations: Mapping[str, StoredRelation], relation: Relation, bucket: int | None) -> list[StoredBucket]:
    """Return one stored bucket of a relation, or all of them in order."""
    stored = relations.get(relation.table, StoredRelation()).buckets
    return [entry for number, entry in sorted(stored.items()) if bucket is None or number == bucket]


def source_of(
    relations: Mapping[str, StoredRelation], relation: Relation, bucket: int | None, columns: Sequence[Column]
) -> object:
    """Return what identifies the rows of columns of a relation that are stored in a bucket, or in all buckets."""
    return names(columns), bucket_files(relations, relation, bucket)


def stored_rows(engine: Engine, state: str, relation: Relation, entries: Sequence[StoredBucket]) -> str:
    """Return SQL for the stored rows of a relation."""
    columns = relation.state_columns
    return merged(relation, columns, *stored_parts(engine, state, relation, entries, columns))


def merged(relation: Relation, columns: Sequence[Column], base: str, changes: str) -> str:
    """Return SQL for base rows with the changes over them applied."""
    if not changes:
        return base
    key = names(relation.tuple_columns)
    return (
        f"SELECT * FROM ({base}) AS b ANTI JOIN (SELECT {key} FROM ({changes}) AS k) AS c USING ({key}) "
        f"UNION ALL SELECT {names(columns)} FROM ({changes}) AS n WHERE _present"
    )


def stored_parts(
    engine: Engine, state: str, relation: Relation, entries: Sequence[StoredBucket], columns: Sequence[Column]
) -> tuple[str, str]:
    """Return SQL for columns of a relation's base rows, and SQL for the latest change of each tuple with ``_present``,
    which is empty if there are no changes."""
    base = [f"{state}/{path}" for entry in entries for path in entry.base]
    changed = [f"{state}/{path}" for entry in entries for path in entry.changes]
    rows = no_rows(columns, engine.name)
    if base:
        rows = f"SELECT {names(columns)} FROM {engine.files(base)}"
    if not changed:
        return rows, ""
    several = any(len(entry.changes) > 1 for entry in entries)
    latest = latest_changes(engine, relation, changed, several)
    return rows, f"SELECT {names(columns)}, _present FROM {latest}"


def load_stored(
    engine: Engine,
    task: Task,
    relation: Relation,
    entries: Sequence[StoredBucket],
    columns: Sequence[Column],
    reducible: int = 0,
) -> None:
    """Make the table of a relation from its stored rows, which are read only if a query uses it; only those that are
    changed are needed, if at most ``reducible`` are."""
    rows = sum(entry.rows for entry in entries)
    if not rows:
        engine.empty(relation.table, columns)
        return
    base, changes = stored_parts(engine, task.state, relation, entries, columns)
    changed = sum(sum(entry.change_rows) for entry in entries)
    filed = (base, sum(entry.base_rows for entry in entries))
    if changes and engine.lay_over(relation.table, filed, (changes, changed), tuple_names(relation), rows):
        return

    def selected(condition: str) -> str:
        # Of a deleted tuple a change file has the columns, but not the hidden ones: a condition must do without.
        parts = (f"SELECT * FROM ({part}) AS stored WHERE {condition}" if part else "" for part in (base, changes))
        return merged(relation, columns, *parts)

    engine.later(relation.table, merged(relation, columns, base, changes), rows, selected, reducible)


def latest_changes(engine: Engine, relation: Relation, paths: Sequence[str], several: bool) -> str:
    """Return a FROM item for each tuple's latest change; with ``several``, a bucket may have several change files."""
    marks = (Column("_present", "bool", "_present"), Column("_commit", "int", "_commit"))
    files = engine.files(paths, (*relation.state_columns, *marks))
    if not several:
        return files
    key = names(relation.tuple_columns)
    latest = f"ROW_NUMBER() OVER (PARTITION BY {key} ORDER BY _commit DESC) AS _place"
    return f"(SELECT * FROM (SELECT *, {latest} FROM {files}) AS o WHERE _place = 1)"


def load_computed(engine: Engine, task: Task, relation: Relation, bucket: int | None) -> None:
    """Make the table of a relation that the task computes, with its old rows."""
    if engine.holds(relation.table, source_of(task.relations, relation, bucket, relation.state_columns)):
        return
    entries = [] if task.initial else bucket_files(task.relations, relation, bucket)
    load_stored(engine, task, relation, entries, relation.state_columns, reducible_rows(task, relation, entries))


def reducible_rows(task: Task, relation: Relation, entries: Sequence[StoredBucket]) -> int:
    """Return up to how many changed rows a task needs no others of a relation that it computes: no stratum reads them,
    no key is checked, and the base files stay as they are."""
    if relation.table in task.read_tables or (relation.key and relation.kind != "input"):
        return 0
    changed = sum(sum(entry.change_rows) for entry in entries)
    return int(COMPACT_SHARE * sum(entry.base_rows for entry in entries)) - changed


def load_former(engine: Engine, task: Task, relation: Relation, bucket: Bucket) -> None:
    """Make the table of a relation that is rebuilt, with its old tuples but without their hidden columns."""
    entries = bucket_files(task.relations, relation, None)
    if any(entry.rows for entry in entries):
        stored = stored_rows(engine, task.state, replace(relation, kind="input"), entries)
        engine.table(relation.table, in_bucket(engine, stored, relation, bucket))
    else:
        engine.empty(relation.table, relation.tuple_columns)


def load_external(engine: Engine, task: Task, relation: Relation) -> None:
    """Make the table of a relation that an earlier stage computed, in its new state, with r__lost and r__gained."""
    columns = names(relation.tuple_columns)
    source, before = (
        source_of(relations, relation, None, relation.tuple_columns) for relations in (task.relations, task.before)
    )
    held = engine.holds(relation.table, before)
    if not held and isinstance(engine, DuckEngine):
        engine.forget(relation.table)
    if not held and not engine.holds(relation.table, source):
        load_stored(engine, task, relation, bucket_files(task.relations, relation, None), relation.tuple_columns)
    paths = [] if task.initial else [f"{task.state}/{path}" for path in task.changes.get(relation.table, [])]
    lost, gained, _ = relation.change
    for table, sign in ((lost, "-"), (gained, "+")):
        net = f"SELECT {columns} FROM {engine.files(paths)} WHERE _op = '{sign}'" if paths else ""
        if net:
            engine.table(table, net)
        else:
            engine.empty(table, relation.tuple_columns)
    if held and source != before:
        engine.remove(relation.table, lost, tuple_names(relation), engine.rows(lost))
        if engine.rows(gained):
            engine.add(relation.table, gained)


def load_changes(engine: Engine, task: Task, relation: Relation, bucket: Bucket) -> None:
    """Make table r__changes of an input relation from the staged batch."""
    columns = names(relation.row_columns)
    paths = task.staged.get(relation.table, [])
    if paths:
        staged = f"SELECT {columns}, _op FROM {engine.files(paths)}"
        engine.table(relation.tables.changes, in_bucket(engine, staged, relation, bucket))
    else:
        engine.empty(relation.tables.changes, [*relation.row_columns, Column("_op", "string", "_op")])


def base_order(relation: Relation) -> tuple[str, ...]:
    """Return the sort order of a base file, such that lookups touch few row groups: the bucket column first. In a
    recursion it comes last, since what follows from a change has few values in other columns but any in this one,
    which stays the same from derivation to derivation."""
    last = relation.kind == "ranked"
    return tuple(sorted(tuple_names(relation), key=lambda name: (name == relation.bucket_by) == last))


def new_bucket(base: Sequence[str], rows: int) -> StoredBucket:
    """Return a stored bucket without changes."""
    return StoredBucket(tuple(base), (), (), rows, rows)
