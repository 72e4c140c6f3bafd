"""Write changed relations as base files or change files, and their net changes."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq

from ..engines.arrow import ROWS_AT_ONCE
from ..engines.duckdb import DuckEngine
from ..kernel.changes import net_changes_sql
from ..kernel.engine import Engine
from ..kernel.method_interface import Run
from ..kernel.model import Relation
from ..kernel.sql import bucket_number, names, tuple_names, union
from ..system.checksums import checksum
from ..system.places import is_local, place_of, rows_of_file, sync
from .manifest import StoredBucket
from .reading import COMPACT_SHARE, base_order, bucket_files, latest_changes, new_bucket
from .task_records import Task, WrittenRelation

MERGE_RATIO = 3
"""A change file is merged with the one written after it unless it has more than this many times its rows."""


class Write(NamedTuple):
    """The part of a relation to write: its ``base``, ``changes`` or ``nothing``, with the rows that ``sql`` returns.
    ``replaced`` is, for each bucket, the number of its last change files that are merged into them."""

    kind: str
    sql: str = ""
    replaced: tuple[int, ...] = ()


def files_to_replace(rows: Sequence[int], new: int) -> int:
    """Return how many of the last change files, of these ``rows``, to merge with ``new`` rows. Each remaining file has
    more than MERGE_RATIO times the rows of the next: files stay few, and rows are rewritten few times."""
    replaced = 0
    while replaced < len(rows) and rows[-1 - replaced] <= MERGE_RATIO * new:
        new += rows[-1 - replaced]
        replaced += 1
    return replaced


def to_write(run: Run, task: Task, relation: Relation, entries: Sequence[StoredBucket], number: str) -> Write:
    """Decide what to write for a relation whose buckets are ``entries``; ``number`` is SQL for the bucket of a row."""
    engine = run.engine
    columns, key = names(relation.state_columns), names(relation.tuple_columns)
    table, written, touched = relation.table, relation.tables.written, relation.change.touched
    whole = Write("base", f"SELECT {columns} FROM {table}")
    if task.initial or table in run.choice.rewritten:
        return whole
    if not engine.rows(touched):
        return Write("nothing")
    new = engine.table(written, f"SELECT DISTINCT {key} FROM {touched}")
    rows = new + sum(sum(entry.change_rows) for entry in entries)
    if rows > COMPACT_SHARE * sum(entry.base_rows for entry in entries):
        return whole
    added = rows_by_bucket(engine, task, [written], number)[0] if len(entries) > 1 else {0: new}
    replaced = tuple(files_to_replace(entry.change_rows, added.get(place, 0)) for place, entry in enumerate(entries))
    old = [
        f"{task.state}/{path}"
        for entry, count in zip(entries, replaced, strict=True)
        for path in entry.changes[len(entry.changes) - count :]
    ]
    commit = f"CAST({int(task.attempt.split('-')[0])} AS BIGINT) AS _commit"
    hidden = [c for c in relation.state_columns if c not in relation.tuple_columns]
    kept = "".join(f", s.{column.sql}" for column in hidden)
    same = " AND ".join(f"w.{name} = s.{name}" for name in tuple_names(relation))
    present = f"s.{tuple_names(relation)[0]} IS NOT NULL AS _present"
    queries = [
        f"SELECT {names(relation.tuple_columns, 'w.')}{kept}, {present}, {commit} "
        f"FROM {written} AS w LEFT JOIN {engine.since_read(table)} AS s ON {same}"
    ]
    if old:
        earlier = latest_changes(engine, relation, old, max(replaced) > 1)
        others = f"{earlier} AS e ANTI JOIN {written} USING ({key})"
        queries.append(f"SELECT {columns}, _present, _commit FROM {others}")
    return Write("changes", union(queries), replaced)


def rows_by_bucket(engine: Engine, task: Task, tables: Sequence[str], number: str) -> list[dict[int, int]]:
    """Return the number of rows in each nonempty bucket for each table; ``number`` is SQL for the bucket of a row."""
    if number.isdigit():
        return [{int(number): engine.rows(table)} for table in tables]
    counted: list[dict[int, int]] = [{} for _ in tables]
    numbered = [
        f"SELECT {number} AS _bucket, {place} AS _table FROM {table} AS q"
        for place, table in enumerate(tables)
        if engine.rows(table)
    ]
    if numbered:
        counts = f"SELECT _bucket, _table, COUNT(*) AS _count FROM ({union(numbered)}) AS u GROUP BY _bucket, _table"
        for row in engine.first(counts, task.buckets * len(tables)):
            counted[row["_table"]][row["_bucket"]] = row["_count"]
    return counted


def with_changes(
    bucket: StoredBucket, replaced: int, paths: Sequence[str], added: Sequence[int], rows: int
) -> StoredBucket:
    """Return a bucket with files ``paths`` of ``added`` rows in place of its last ``replaced`` change files."""
    stays = len(bucket.changes) - replaced
    changes, change_rows = (*bucket.changes[:stays], *paths), (*bucket.change_rows[:stays], *added)
    return replace(bucket, changes=changes, change_rows=change_rows, rows=rows)


class Written(NamedTuple):
    """A file that a task has written: its path relative to the state, and the number of its rows."""

    path: str
    rows: int


def write_parts(
    engine: Engine, task: Task, folder: str, sql: str, number: str, order: Sequence[str] = ()
) -> dict[int, list[Written]]:
    """Write the rows of a query to files of their own for each bucket, sorted by ``order``, and return the files of
    each bucket; ``number`` is SQL for the bucket of a row."""
    state = place_of(task.state)
    base, written = engine.write(sql, number, order, state, folder, task.buckets)
    return {bucket: [keep_file(state, base, path) for path in paths] for bucket, paths in written.items()}


def keep_file(state: Path, base: Path, path: Path) -> Written:
    """Move a file just written below ``base`` to its place in the state, under a name with its checksum and size. On a
    disk it is flushed with fsync; files that Spark has written to a store stay as they are."""
    rows = rows_of_file(path)
    if not is_local(path):
        return Written(path.relative_to(state).as_posix(), rows)
    name = f"{path.stem}.{checksum(path)}.{path.stat().st_size}.parquet"
    kept = path.relative_to(base).with_name(name).as_posix()
    if is_local(state):
        sync(path)
        path.rename(state / kept)
    else:
        target = state / kept
        target.fs.put_file(str(path), target.path)  # type: ignore[attr-defined]
        path.unlink()
    return Written(kept, rows)


def write_staged(engine: DuckEngine, sql: str, folder: Path) -> list[str]:
    """Write the rows of a query to a staged file in ``folder``; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path, rows = folder / "rows.parquet", engine.arrow_reader(sql, ROWS_AT_ONCE)
    with path.open("wb") as content, pq.ParquetWriter(content, rows.schema, use_dictionary=False) as writer:
        for batch in rows:
            writer.write_batch(batch)
    return [str(path)]


def write_computed(run: Run, task: Task, part: int | None) -> dict[str, WrittenRelation]:
    """Write what the task for bucket ``part`` (None: all) has changed, and return the written files of each table. The
    first task writes relations that every task changes as a whole."""
    written = {}
    for relation in task.computed:
        own = task.part_of(relation, part)
        if own == part or not part:
            written[relation.table] = write_relation(run, task, relation, own)
    return written


def write_relation(run: Run, task: Task, relation: Relation, part: int | None) -> WrittenRelation:
    """Write bucket ``part`` of a relation (None: all buckets), and its net changes if they are read or published."""
    engine = run.engine
    column = next((c for c in relation.tuple_columns if c.sql == relation.bucket_by), None)
    number, numbers = str(part or 0), [part or 0]
    if part is None and column and task.buckets > 1:
        number = bucket_number(f"q.{column.sql}", column.type, task.buckets, engine.name)
        numbers = list(range(task.buckets))
    stored = {} if task.initial else task.relations[relation.table].buckets
    entries = [] if task.initial else bucket_files(task.relations, relation, part)
    write = to_write(run, task, relation, entries, number)
    # A retried task must not overwrite the files of its failed attempt.
    unique = f"{'all' if part is None else f'{part:05d}'}-{uuid.uuid4().hex[:8]}"
    folder = f"data/{task.attempt}/{relation.table}"
    lost, gained = engine.rows(relation.change.lost), engine.rows(relation.change.gained)
    if write.kind == "nothing":
        # A relation without pivot may have its first bucket only.
        return WrittenRelation({bucket: stored[bucket] for bucket in numbers if bucket in stored}, (), 0, 0)
    name = f"{folder}/{write.kind}-{unique}"
    order = base_order(relation) if write.kind == "base" else ()
    if isinstance(engine, DuckEngine) and engine.tables[relation.table].order == tuple(order):
        order = ()
    written = write_parts(engine, task, name, write.sql, number, order)
    buckets = {}
    come: dict[int, int] = {}
    gone: dict[int, int] = {}
    if write.kind == "changes":
        both = [relation.change.gained, relation.change.lost]
        come, gone = rows_by_bucket(engine, task, both, number)
    for place, bucket in enumerate(numbers):
        files = [file.path for file in written.get(bucket, ())]
        rows = [file.rows for file in written.get(bucket, ())]
        if write.kind == "base":
            buckets[bucket] = new_bucket(files if sum(rows) else [], sum(rows))
        else:
            count = entries[place].rows + come.get(bucket, 0) - gone.get(bucket, 0)
            buckets[bucket] = with_changes(entries[place], write.replaced[place], files, rows, count)
    assert sum(b.rows for b in buckets.values()) == engine.rows(relation.table)
    net: tuple[str, ...] = ()
    if task.initial:
        gained = engine.rows(relation.table)
    elif lost + gained and (relation.output or not task.last):
        name = f"{folder}/net-{unique}"
        net = tuple(file.path for file in write_parts(engine, task, name, net_changes_sql(relation), "0")[0])
    return WrittenRelation(buckets, net, gained, lost)
