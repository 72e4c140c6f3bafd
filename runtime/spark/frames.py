"""Stored relations as DataFrames, and what Spark does with whole relations."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..engines.arrow import ROWS_AT_ONCE
from ..engines.options import Options
from ..kernel.model import Column, Relation
from ..kernel.sql import is_optional, names, sql_type
from ..store.data_files import check_files
from ..store.manifest import Manifest, StoredRelation
from ..store.published_names import published_file
from ..store.reading import load_computed
from ..store.run_tasks import duck_engine
from ..store.task_records import Task
from ..system.log import describe
from ..system.places import is_local
from .engine import columns_schema, ship_functions_by_value
from .inputs import quoted
from .places import spark_folder, spark_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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


def in_tasks(spark: SparkSession, count: int, work: Callable[[Iterator[Any]], Iterator[Any]], schema: str) -> DataFrame:
    """Return the rows that ``work`` yields in ``count`` tasks, as a frame with ``schema``; each task passes it Arrow
    batches whose first column has the number of the task."""
    ship_functions_by_value()
    places = spark.range(0, count, 1, count).selectExpr("CAST(id AS INT) AS bucket")
    return places.mapInArrow(work, schema)


def read_data(spark: SparkSession, root: Path, files: list[str], columns: Iterable[Column]) -> DataFrame:
    """Read data files of the state with the given columns; without files, return no rows."""
    schema = columns_schema(columns)
    if not files:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).parquet(*(spark_path(root / name) for name in files))


def frame_of(
    spark: SparkSession, root: Path, manifest: Manifest, wanted: Relation, at: tuple[Column, Any] | None, support: bool
) -> DataFrame:
    """Return a relation of a commit, or its tuples ``at`` a location, with the program's column names."""
    from pyspark.sql import functions

    frame = relation_frame(spark, root, manifest, wanted, support)
    if at:
        place, value = at
        # As a Python object, a timestamp would depend on the session's time zone, and Spark rejects early dates.
        moment = functions.lit(str(value) if isinstance(value, date) else value)
        frame = frame.where(functions.col(f"`{place.sql}`") == moment.cast(sql_type(place.type, "spark")))
    if not wanted.columns:
        frame = frame.drop("_unit")
    return plain_frame(frame, wanted.columns).withColumnsRenamed({column.sql: column.name for column in wanted.columns})


def renamed_frame(frame: DataFrame, names: Mapping[str, str]) -> DataFrame:
    """Return a frame with some columns of another, given by their new names."""
    from pyspark.sql import functions

    return frame.select(*(functions.col(quoted(origin)).alias(name) for name, origin in names.items()))


def write_renamed_on_spark(
    spark: SparkSession,
    files: Sequence[Path],
    names: Mapping[str, str],
    folder: Path,
    attempt: str,
    optional: frozenset[str],
) -> None:
    """Copy Parquet files into ``folder`` with other column names in Spark tasks, if they would hold up the driver, and
    null for what is missing in the ``optional`` columns."""
    from pyspark.sql import functions

    describe(spark, f"publish {folder.parent.parent.name}")
    frame = spark.read.parquet(*map(spark_path, files))
    values = {old: functions.col(f"`{old}`") for old in names}
    values |= {old: functions.try_element_at(values[old], functions.lit(1)) for old in optional}
    renamed = [values[old].alias(new) for old, new in names.items()]
    frame.select(*renamed).write.parquet(spark_folder(folder))
    for number, path in enumerate(sorted(folder.iterdir())):
        if path.suffix == ".parquet":
            path.rename(path.with_name(published_file(attempt, number)))
        else:
            path.unlink()
