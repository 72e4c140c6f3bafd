"""Stored rows of earlier commits, and net changes between commits, by Spark."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import TYPE_CHECKING

from ..kernel.model import Relation
from ..store.manifest import Manifest
from .frames import plain_frame, relation_frame
from .places import write_parquet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def differences_frame(
    spark: SparkSession, root: Path, before: Manifest, after: Manifest, relation: Relation
) -> DataFrame:
    """Return the net changes of a relation between two commits: its tuples, each with ``_op``."""
    from pyspark.sql import functions

    old, new = (relation_frame(spark, root, commit, relation) for commit in (before, after))
    gone = old.exceptAll(new).withColumn("_op", functions.lit("-"))
    come = new.exceptAll(old).withColumn("_op", functions.lit("+"))
    return come.unionByName(gone)


def changes_frame(
    spark: SparkSession, root: Path, before: Manifest, after: Manifest, relation: Relation, names: Iterable[str]
) -> DataFrame:
    """Return the net changes of a relation between two commits as a DataFrame with column ``names``, in order."""
    columns = [column.sql for column in relation.columns]
    changes = differences_frame(spark, root, before, after, relation).select("_op", *columns).orderBy(*columns, "_op")
    return plain_frame(changes, relation.columns).toDF(*names)


def stage_stored_on_spark(
    spark: SparkSession, root: Path, manifest: Manifest, stored: Relation, folder: Path, now: AbstractSet[str]
) -> list[str]:
    """Stage the stored rows of an input relation as insertions, and return the files. The columns ``now`` may be
    null, unlike the stored ones."""
    from pyspark.sql import functions

    frame = relation_frame(spark, root, manifest, stored)
    frame = frame.select(*(column.sql for column in stored.row_columns)).withColumn("_op", functions.lit("+"))
    for name in now:
        frame = frame.withColumn(name, functions.array(f"`{name}`"))
    return write_parquet(frame, folder)


def stage_differences_on_spark(
    spark: SparkSession, root: Path, before: Manifest, after: Manifest, relation: Relation, folder: Path
) -> tuple[list[str], tuple[int, int]]:
    """Stage the net changes of a relation between two commits; return the files, and how many came and went."""
    from pyspark.sql import Observation, functions

    counted = Observation()
    signs = [functions.count_if(functions.col("_op") == sign).alias(sign) for sign in "+-"]
    frame = differences_frame(spark, root, before, after, relation).observe(counted, *signs)
    files = write_parquet(frame, folder / "changes" / relation.table)
    return files, (int(counted.get["+"]), int(counted.get["-"]))
