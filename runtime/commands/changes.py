"""The command ``changes``: the net changes of a relation between two commits."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..executors import Executor, available_cores
from ..former import apart
from ..inputs.records import operation_column
from ..inputs.tables import ROWS_AT_ONCE
from ..manifest import Manifest
from ..model import Program, Relation
from ..places import given_place
from ..printing import discard_output, shown_lines
from ..retention import from_commit, kept_commit
from ..sql import names, plain_column
from ..stored import plain_frame, relation_frame, stored_engine
from ..versions import check_program

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


def read_changes(
    program: Program, spark: SparkSession | None, state: str, name: str, since: int, until: int | None = None
) -> DataFrame | pa.Table:
    """Return by what rows a relation differs in commit ``until`` (default: the last) from commit ``since``: rows that
    are only in the former have the operation ``+``, the others ``-``. Without Spark the result is a PyArrow table. A
    DataFrame reads its rows when it is evaluated: cache it or write it as long as both commits are kept."""
    root = given_place(state)
    last = kept_commit(root, until).commit

    def read(manifest: Manifest) -> DataFrame | pa.Table:
        before, after, relation = two_commits(program, root, name, manifest, last)
        if spark is not None:
            return changes_frame(spark, root, before, after, relation)
        with stored_engine(root, [before, after], relation, available_cores()) as (engine, (old, new)):
            rows = engine.arrow_reader(changes_sql(relation, old, new), ROWS_AT_ONCE).read_all()
            return rows.rename_columns(changes_columns(relation))

    found: DataFrame | pa.Table = from_commit(root, since, read)
    return found


def two_commits(
    program: Program, root: Path, name: str, before: Manifest, until: int
) -> tuple[Manifest, Manifest, Relation]:
    """Return two commits with those buckets of a relation that may differ, and the relation."""
    after = kept_commit(root, until)
    for manifest in (before, after):
        check_program(program, manifest)
    relation = program.relation(name)
    return *apart(before, after, relation.table), relation


def changes_columns(relation: Relation) -> list[str]:
    """Return the names of the columns of a relation's changes."""
    return [operation_column(relation), *(column.name for column in relation.columns)]


def changes_sql(relation: Relation, old: str, new: str) -> str:
    """Return SQL for the net changes of a relation, given SQL for its rows before and after them."""
    own, columns = names(relation.tuple_columns), [column.sql for column in relation.columns]
    parts = (
        f"SELECT '{sign}' AS _op, * FROM (SELECT {own} FROM ({one}) AS a EXCEPT SELECT {own} FROM ({other}) AS b) AS d"
        for sign, one, other in (("-", old, new), ("+", new, old))
    )
    plain = (f"{plain_column(column, f'c.{column.sql}')} AS {column.sql}" for column in relation.columns)
    listed = ", ".join(["_op", *plain])
    return f"SELECT {listed} FROM ({' UNION ALL '.join(parts)}) AS c ORDER BY {', '.join([*columns, '_op'])}"


def changes_frame(spark: SparkSession, root: Path, before: Manifest, after: Manifest, relation: Relation) -> DataFrame:
    """Return the net changes of a relation between two commits as a DataFrame, in order."""
    from pyspark.sql import functions

    old, new = (relation_frame(spark, root, commit, relation) for commit in (before, after))
    columns = [column.sql for column in relation.columns]
    gone = old.exceptAll(new).select(functions.lit("-").alias("_op"), *columns)
    come = new.exceptAll(old).select(functions.lit("+").alias("_op"), *columns)
    found = plain_frame(gone.unionByName(come).orderBy(*columns, "_op"), relation.columns)
    return found.toDF(*changes_columns(relation))


def changed_tuples(
    executor: Executor, root: Path, before: Manifest, after: Manifest, relation: Relation
) -> Iterator[tuple[Any, ...]]:
    """Yield the net changes of a relation between two commits, in order, each with its operation first."""
    if not executor.local:
        frame = changes_frame(executor.session("changes"), root, before, after, relation)
        yield from frame.toLocalIterator(True)
        return
    with stored_engine(root, [before, after], relation, executor.cores()) as (engine, (old, new)):
        for batch in engine.arrow(changes_sql(relation, old, new), ROWS_AT_ONCE):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def print_changes(
    program: Program,
    executor: Executor,
    state: str,
    name: str,
    form: str,
    since: int,
    until: int | None = None,
    limit: int | None = None,
) -> None:
    """Print the net changes of a relation between two commits, in order."""
    root = given_place(state)
    last = kept_commit(root, until).commit

    def show(manifest: Manifest) -> None:
        before, after, relation = two_commits(program, root, name, manifest, last)
        rows = itertools.islice(changed_tuples(executor, root, before, after, relation), limit)
        for line in shown_lines(changes_columns(relation), rows, form):
            print(line)
        sys.stdout.flush()

    try:
        from_commit(root, since, show)
    except BrokenPipeError:
        # The reader has closed the pipe.
        discard_output()
