"""The command ``show``: print a relation, or return it as a DataFrame."""

from __future__ import annotations

import itertools
import os
import sys
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions

from ..commits import from_last_commit, relation_rows
from ..errors import JobError
from ..inputs.values import InputShape, reader, shown
from ..manifest import Manifest
from ..model import Program
from ..places import given_place
from ..printing import shown_lines
from ..session import open_session
from ..sql import sql_type
from ..stored import relation_frame
from ..versions import check_program

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


SORTED_ROWS = 1_000_000


def read_relation(
    program: Program, spark: SparkSession, state: str, name: str, at: str | None = None, support: bool = False
) -> DataFrame:
    """Return a relation as of the last commit; ``at`` selects one location of a located relation, ``support`` adds the
    columns that are stored with its tuples.

    Rows are read when the frame is evaluated. The second commit after this one removes its files: a frame that is used
    longer must be cached or written before, or fails with Spark's error for a missing file.
    """
    root = given_place(state)
    frame: DataFrame = from_last_commit(
        root, lambda manifest: frame_of(program, spark, root, manifest, name, at, support)
    )
    return frame


def frame_of(
    program: Program, spark: SparkSession, root: Path, manifest: Manifest, name: str, at: str | None, support: bool
) -> DataFrame:
    """Return a relation of a commit, or its tuples ``at`` a location, with the program's column names."""
    check_program(program, manifest)
    wanted = program.relation(name)
    frame = relation_frame(spark, root, manifest, wanted, support)
    if at is not None:
        place = next((column for column in wanted.columns if column.sql == wanted.location), None)
        if place is None:
            raise JobError(f"{name} has no location")
        try:
            value = reader(place.type, InputShape(wanted, "", "", False), True)(at)
        except ValueError as error:
            raise JobError(f"{name} cannot be located at {shown(at)}: {error}") from error
        # As a Python object, a timestamp would depend on the session's time zone, and Spark rejects early dates.
        moment = functions.lit(str(value) if isinstance(value, date) else value)
        frame = frame.where(functions.col(f"`{place.sql}`") == moment.cast(sql_type(place.type, "spark")))
    if not wanted.columns:
        frame = frame.drop("_unit")
    return frame.withColumnsRenamed({column.sql: column.name for column in wanted.columns})


def print_relation(
    program: Program, state: str, name: str, form: str, limit: int | None, at: str | None, support: bool
) -> None:
    """Print a relation, in order unless it has more than SORTED_ROWS tuples."""
    spark, root = open_session(program.name), given_place(state)
    printed = 0

    def show(manifest: Manifest) -> None:
        nonlocal printed
        frame = frame_of(program, spark, root, manifest, name, at, support)
        if relation_rows(program, manifest)[name] <= SORTED_ROWS and frame.columns:
            frame = frame.orderBy(*(f"`{column}`" for column in frame.columns))
        limited = frame if limit is None else frame.limit(limit)
        # One partition in memory at a time. Nothing is printed, and a retry is possible, until the first row arrives.
        rows = iter(limited.toLocalIterator(True))
        first = [*itertools.islice(rows, 1)]
        for line in shown_lines(frame.columns, itertools.chain(first, rows), form):
            print(line)
            printed += 1
        sys.stdout.flush()

    try:
        from_last_commit(root, show, lambda: printed > 0)
    except BrokenPipeError:
        # The reader has closed the pipe: what is flushed at exit must not go there.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
