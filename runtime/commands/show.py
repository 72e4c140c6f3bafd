"""The command ``show``: print a relation, or return it as a table or a DataFrame."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..arrow import plain_array
from ..commits import from_chosen_commit
from ..errors import JobError
from ..executors import Executor, available_cores
from ..inputs.tables import ROWS_AT_ONCE
from ..inputs.values import InputShape, reader, shown
from ..manifest import Manifest
from ..model import Column, Program, Relation
from ..places import given_place
from ..printing import discard_output, shown_lines
from ..sql import names, sql_type
from ..stored import plain_frame, relation_frame, stored_engine
from ..tuples import sql_constant
from ..versions import check_program

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


SORTED_ROWS = 1_000_000

At = tuple[Column, Any] | None
"""The column of a location and the value that selects tuples; None for all tuples."""


def read_relation(
    program: Program,
    spark: SparkSession | None,
    state: str,
    name: str,
    at: str | None = None,
    support: bool = False,
    as_of: int | None = None,
) -> DataFrame | pa.Table:
    """Return a relation as of the last commit, or of commit ``as_of`` if that is kept: as a DataFrame, or as a PyArrow
    table if ``spark`` is None. ``at`` selects one location of a located relation, ``support`` adds the columns that are
    stored with its tuples.

    The rows of a DataFrame are read when it is evaluated. Its files are removed once the commit is not kept any more: a
    frame that is used longer must be cached or written before, or fails with Spark's error for a missing file.
    """
    root = given_place(state)

    def read(manifest: Manifest) -> DataFrame | pa.Table:
        wanted, place = wanted_relation(program, manifest, name, at)
        if spark is not None:
            return frame_of(spark, root, manifest, wanted, place, support)
        import pyarrow as pa

        columns = shown_columns(wanted, support)
        with stored_engine(root, [manifest], wanted, available_cores()) as (engine, (stored,)):
            rows = engine.arrow_reader(rows_sql(stored, wanted, place, support), ROWS_AT_ONCE).read_all()
            arrays = [plain_array(rows.column(c.sql), c.type) for c in columns]
            return pa.table(arrays, [c.name for c in columns]) if columns else rows.select([])

    found: DataFrame | pa.Table = from_chosen_commit(root, as_of, read)
    return found


def wanted_relation(program: Program, manifest: Manifest, name: str, at: str | None) -> tuple[Relation, At]:
    """Return a relation of a commit, and the column of its location with the value that is selected, if one is."""
    check_program(program, manifest)
    wanted = program.relation(name)
    if at is None or at == wanted.at:
        return wanted, None
    if wanted.at is not None:
        raise JobError(f"{name} is at {wanted.at} only, not at {shown(at)}")
    place = next((column for column in wanted.columns if column.sql == wanted.location), None)
    if place is None:
        raise JobError(f"{name} has no location")
    try:
        return wanted, (place, reader(place.type, InputShape(wanted, "", "", False), True)(at))
    except ValueError as error:
        raise JobError(f"{name} cannot be located at {shown(at)}: {error}") from error


def shown_columns(relation: Relation, support: bool) -> list[Column]:
    """Return the columns to show of a relation: none of its own if it has none."""
    columns = relation.state_columns if support else relation.tuple_columns
    return [column for column in columns if relation.columns or column not in relation.tuple_columns]


def rows_sql(stored: str, relation: Relation, at: At, support: bool) -> str:
    """Return SQL for the tuples of a relation ``at`` a location, given SQL for its stored rows."""
    columns = relation.state_columns if support else relation.tuple_columns
    where = f" WHERE {at[0].sql} = {sql_constant(at[1], at[0].type, 'duckdb')}" if at else ""
    return f"SELECT {names(columns)} FROM ({stored}) AS q{where}"


def frame_of(spark: SparkSession, root: Path, manifest: Manifest, wanted: Relation, at: At, support: bool) -> DataFrame:
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


def rows_of(
    executor: Executor, root: Path, manifest: Manifest, wanted: Relation, at: At, support: bool, limit: int | None
) -> Iterator[tuple[Any, ...]]:
    """Yield the tuples of a relation of a commit, with the columns to show, in order unless there are more than
    SORTED_ROWS."""
    order = [column.sql for column in shown_columns(wanted, support)]
    if manifest.relations[wanted.table].rows > SORTED_ROWS:
        order = []
    if executor.local:
        with stored_engine(root, [manifest], wanted, executor.cores()) as (engine, (stored,)):
            sql = rows_sql(stored, wanted, at, support)
            sql += f" ORDER BY {', '.join(order)}" if order else ""
            sql += f" LIMIT {limit}" if limit is not None else ""
            for batch in engine.arrow(sql, ROWS_AT_ONCE):
                arrays = [plain_array(batch.column(c.sql), c.type) for c in shown_columns(wanted, support)]
                columns = [array.to_pylist() for array in arrays]
                yield from zip(*columns, strict=True) if columns else itertools.repeat((), batch.num_rows)
        return
    frame = frame_of(executor.session("show"), root, manifest, wanted, at, support)
    if order:
        frame = frame.orderBy(*(f"`{column}`" for column in frame.columns))
    # One partition in memory at a time.
    yield from (frame if limit is None else frame.limit(limit)).toLocalIterator(True)


def print_relation(
    program: Program,
    executor: Executor,
    state: str,
    name: str,
    form: str,
    limit: int | None,
    at: str | None,
    support: bool,
    as_of: int | None = None,
) -> None:
    """Print a relation as of the last commit, or commit ``as_of``, in order unless it has more than SORTED_ROWS
    tuples."""
    root = given_place(state)
    printed = 0

    def show(manifest: Manifest) -> None:
        nonlocal printed
        wanted, place = wanted_relation(program, manifest, name, at)
        rows = rows_of(executor, root, manifest, wanted, place, support, limit)
        # Nothing is printed, and a retry is possible, until the first row arrives.
        first = [*itertools.islice(rows, 1)]
        columns = [column.name for column in shown_columns(wanted, support)]
        for line in shown_lines(columns, itertools.chain(first, rows), form):
            print(line)
            printed += 1
        sys.stdout.flush()

    try:
        from_chosen_commit(root, as_of, show, lambda: printed > 0)
    except BrokenPipeError:
        # The reader has closed the pipe.
        discard_output()
