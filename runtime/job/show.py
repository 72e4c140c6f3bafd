"""The command ``show``: print a relation, or return it as a table or a DataFrame."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..engines.arrow import ROWS_AT_ONCE, plain_array
from ..inputs.typed_values import reader
from ..inputs.values import InputShape
from ..kernel.errors import JobError
from ..kernel.model import Column, Program, Relation
from ..kernel.sql import names
from ..kernel.values import shown, sql_constant
from ..spark.executor import executor_of
from ..spark.frames import frame_of
from ..store.commits import from_chosen_commit
from ..store.data_files import stored_engine
from ..store.executors import Executor
from ..store.extensions import further
from ..store.manifest import Manifest
from ..store.versions import check_program
from ..system.places import given_place
from ..system.printing import RowPrinter
from .command_line import Command, Invocation, executor_for
from .shared_options import add_entries_option, add_format, add_place, add_state, option, positive

if TYPE_CHECKING:
    import pyarrow as pa

    from ..spark.types import DataFrame, SparkSession


SORTED_ROWS = 1_000_000

At = tuple[Column, Any] | None
"""The column of a location and the value that selects tuples; None for all tuples."""


def read_relation(
    program: Program,
    spark: SparkSession | Executor | None,
    state: str,
    name: str,
    at: str | None = None,
    support: bool = False,
    as_of: int | None = None,
) -> DataFrame | pa.Table:
    """Return a relation as of the last commit, or of commit ``as_of`` if that is kept: as a DataFrame, or as a PyArrow
    table without Spark. ``at`` selects one location of a located relation, ``support`` adds the columns that are
    stored with its tuples.

    The rows of a DataFrame are read when it is evaluated. Its files are removed once the commit is not kept any more: a
    frame that is used longer must be cached or written before, or fails with Spark's error for a missing file.
    """
    root, executor = given_place(state), executor_of(spark)

    def read(manifest: Manifest) -> DataFrame | pa.Table:
        relation, place = wanted_relation(program, manifest, name, at)
        if not executor.local:
            return frame_of(executor.session("show"), root, manifest, relation, place, support)
        import pyarrow as pa

        columns = shown_columns(relation, support)
        with stored_engine(root, [manifest], relation, executor.cores()) as (engine, (stored,)):
            rows = engine.arrow_reader(rows_sql(stored, relation, place, support), ROWS_AT_ONCE).read_all()
            arrays = [plain_array(rows.column(c.sql), c.type) for c in columns]
            return pa.table(arrays, [c.name for c in columns]) if columns else rows.select([])

    found: DataFrame | pa.Table = from_chosen_commit(root, as_of, read)
    return found


def wanted_relation(program: Program, manifest: Manifest, name: str, at: str | None) -> tuple[Relation, At]:
    """Return a relation of a commit, and the column of its location with the value that is selected, if one is."""
    check_program(program, manifest)
    relation = program.relation(name)
    if at is None or at == relation.at:
        return relation, None
    if relation.at is not None:
        raise JobError(f"{name} is at {relation.at} only, not at {shown(at)}")
    place = next((column for column in relation.columns if column.sql == relation.location), None)
    if place is None:
        raise JobError(f"{name} has no location")
    try:
        return relation, (place, reader(place.type, InputShape(relation, "", "", False), True)(at))
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


def print_relation(call: Invocation) -> None:
    """Print a relation as of the last commit, or of an earlier one, in order unless it has more than SORTED_ROWS
    tuples."""
    executor, options = executor_for(call), call.options
    root, support = given_place(options["state"]), options["support"]
    printer = RowPrinter(call.form())

    def show(manifest: Manifest) -> None:
        relation, place = wanted_relation(call.program, manifest, options["relation"], options["at"])
        rows = rows_of(executor, root, manifest, relation, place, support, options["limit"])
        # Nothing is printed, and a retry is possible, until the first row arrives.
        first = [*itertools.islice(rows, 1)]
        columns = [column.name for column in shown_columns(relation, support)]
        printer.print(columns, itertools.chain(first, rows))

    from_chosen_commit(root, options["as_of"], show, lambda: printer.begun)


def run_show(call: Invocation) -> None:
    """Print a relation, or its entries."""
    if not call.options.pop("entries", False):
        print_relation(call)
        return
    options = {"name": call.options.pop("relation"), "form": call.form(), **call.options}
    if options.pop("support"):
        raise JobError("--entries cannot be combined with --support")
    del options["on"]
    further("entries", "explain", "printing derivations (--entries)")(call.program, **options)


SHOW = Command(
    "show",
    "print a relation",
    "Print the tuples of a relation.",
    (
        add_state,
        add_place,
        option("relation", metavar="REL", help="the relation"),
        option("--at", metavar="LOCATION", help="print only the tuples at this location"),
        option("--support", action="store_true", help="also print the support and rank stored with the tuples"),
        add_format("tuples"),
        option("--as-of", type=positive, metavar="COMMIT", help="print the relation as of an earlier commit"),
        add_entries_option,
    ),
    run_show,
)
