"""Check and read the data files of a committed state."""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .batches import last_commit, lost_race
from .engines.duckdb import DuckEngine
from .errors import JobError
from .executors import in_tasks
from .files import FINGERPRINT, SMALL_FILES, check_file, damaged
from .inputs.tables import ROWS_AT_ONCE
from .manifest import Manifest, StoredRelation
from .model import Column, Relation
from .options import Options
from .places import files_under, is_local, spark_path
from .reading import bucket_files, load_computed, stored_rows
from .sql import columns_schema, is_optional, names
from .task import Task
from .tasks import duck_engine

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def check_stored(root: Path, manifest: Manifest, files: Sequence[str], whole: bool = False) -> None:
    """Check files that a commit builds on; if that fails because another job has committed, raise its error instead."""
    try:
        check_files(root, files, whole)
    except (JobError, OSError) as error:
        if last_commit(root) > manifest.commit:
            raise lost_race(root) from error
        raise


# Data files


def stored_files(manifest: Manifest, tables: Iterable[str] | None = None) -> list[str]:
    """Return the files that hold relations: all of them, or those of ``tables``."""
    relations = manifest.relations
    chosen = relations if tables is None else [table for table in tables if table in relations]
    return [file for table in chosen for bucket in relations[table].buckets.values() for file in bucket.files]


def check_files(root: Path, files: Sequence[str], whole: bool = False) -> None:
    """Raise JobError for state files that are missing or truncated; with ``whole``, or if they are small in total, also
    for changed bytes. The bytes of files in a store are checked when a task fetches them."""
    if not is_local(root):
        sizes = files_under(root / "data") if files else {}
        for name in files:
            size, known = sizes.get(name.removeprefix("data/")), FINGERPRINT.search(name)
            if size is None:
                raise damaged(str(root / name), "is missing")
            if known and size != int(known[2]):
                raise damaged(str(root / name), f"is damaged (it has {size} bytes of {known[2]})")
            if not known:
                check_file(root / name, whole=False)
        return
    for name in files:
        check_file(root / name, whole=False)
    if whole or sum((root / name).stat().st_size for name in files) <= SMALL_FILES:
        for name in files:
            check_file(root / name, whole=True)


@contextlib.contextmanager
def stored_engine(
    root: Path, manifests: Sequence[Manifest], relation: Relation, threads: int = 1
) -> Iterator[tuple[DuckEngine, list[str]]]:
    """Yield DuckDB, and a query for the stored rows of a relation in each of some commits."""
    queries = []
    with duck_engine(Task(Options(1), str(root), {}), threads) as engine:
        for manifest in manifests:
            entries = bucket_files(manifest.relations, relation, None)
            check_files(root, [name for entry in entries for name in entry.files])
            queries.append(stored_rows(engine, str(root), relation, entries))
        yield engine, queries


def relation_frame(
    spark: SparkSession, root: Path, manifest: Manifest, relation: Relation, hidden: bool = False
) -> DataFrame:
    """Return the tuples of a relation, with SQL column names: its base files with the change files applied.

    ``hidden`` adds the columns that are kept with the tuples.
    """
    columns = relation.state_columns if hidden else relation.tuple_columns
    stored = manifest.relations.get(relation.table, StoredRelation()).buckets.values()
    base = [name for bucket in stored for name in bucket.base]
    changes = [name for bucket in stored for name in bucket.changes]
    check_files(root, [*base, *changes])
    if not is_local(root) and importlib.util.find_spec("duckdb"):
        return frame_from_tasks(spark, root, manifest, relation, columns)
    from pyspark.sql import Window, functions

    kept = read_data(spark, root, base, columns)
    if not changes:
        return kept
    marks = (Column("_present", "bool", "_present"), Column("_commit", "int", "_commit"))
    changed = read_data(spark, root, changes, (*columns, *marks))
    names = [column.sql for column in relation.tuple_columns]
    if any(len(bucket.changes) > 1 for bucket in stored):
        latest = Window.partitionBy(*names).orderBy(functions.desc("_commit"))
        changed = changed.withColumn("_place", functions.row_number().over(latest))
        changed = changed.where("_place = 1").drop("_place")
    kept = kept.join(changed.select(names), names, "left_anti")
    entered = changed.where("_present").drop("_present", "_commit")
    return kept.select(entered.columns).unionByName(entered)


def plain_frame(frame: DataFrame, columns: Iterable[Column]) -> DataFrame:
    """Return a frame of stored rows with their values as users see them: null where there is none."""
    from pyspark.sql import functions

    for column in columns:
        if is_optional(column.type):
            frame = frame.withColumn(column.sql, functions.try_element_at(f"`{column.sql}`", functions.lit(1)))
    return frame


def frame_from_tasks(
    spark: SparkSession, root: Path, manifest: Manifest, relation: Relation, columns: Sequence[Column]
) -> DataFrame:
    """Return the rows of a relation in a store that Spark itself may be unable to open; each task reads a bucket."""
    task = Task(Options(manifest.buckets), str(root), manifest.relations, (relation,))
    selected = names(columns)

    def rows_of_buckets(batches: Iterator[Any]) -> Iterator[Any]:
        for number in itertools.chain.from_iterable(b.column(0).to_pylist() for b in batches):
            with duck_engine(task) as engine:
                load_computed(engine, task, relation, number)
                yield from engine.arrow(f"SELECT {selected} FROM {relation.table}", ROWS_AT_ONCE)

    return in_tasks(spark, task.buckets, rows_of_buckets, columns_schema(columns))


def read_data(spark: SparkSession, root: Path, files: list[str], columns: Iterable[Column]) -> DataFrame:
    """Read data files of the state with the given columns; without files, return no rows."""
    schema = columns_schema(columns)
    if not files:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).parquet(*(spark_path(root / name) for name in files))


def stored_bytes(root: Path, manifest: Manifest) -> int:
    """Return the total size of the files that hold relations."""
    if is_local(root):
        return sum((root / name).stat().st_size for name in stored_files(manifest))
    sizes = files_under(root / "data")
    return sum(sizes[name.removeprefix("data/")] for name in stored_files(manifest))
