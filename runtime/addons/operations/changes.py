"""The command ``changes``: the net changes of a relation between two commits."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...engines.arrow import ROWS_AT_ONCE
from ...job.command_line import COMMANDS, Command, Invocation, executor_for
from ...job.shared_options import add_format, add_place, add_state, option, positive
from ...kernel.model import Program, Relation
from ...kernel.sql import names, plain_column
from ...spark.differences import changes_frame
from ...spark.executor import executor_of
from ...store.data_files import stored_engine
from ...store.executors import Executor
from ...store.extensions import FURTHER
from ...store.manifest import Manifest
from ...store.published_names import operation_column
from ...store.retention import from_commit, kept_commit
from ...store.versions import check_program
from ...system.places import given_place
from ...system.printing import RowPrinter
from .differences import apart

if TYPE_CHECKING:
    import pyarrow as pa

    from ...spark.types import DataFrame, SparkSession


def read_changes(
    program: Program, spark: SparkSession | Executor | None, state: str, name: str, since: int, until: int | None = None
) -> DataFrame | pa.Table:
    """Return by what rows a relation differs in commit ``until`` (default: the last) from commit ``since``: rows that
    are only in the former have the operation ``+``, the others ``-``. Without Spark the result is a PyArrow table. A
    DataFrame reads its rows when it is evaluated: cache it or write it as long as both commits are kept."""
    root, executor = given_place(state), executor_of(spark)
    last = kept_commit(root, until).commit

    def read(manifest: Manifest) -> DataFrame | pa.Table:
        before, after, relation = two_commits(program, root, name, manifest, last)
        if not executor.local:
            return changes_frame(executor.session("changes"), root, before, after, relation, changes_columns(relation))
        with stored_engine(root, [before, after], relation, executor.cores()) as (engine, (old, new)):
            rows = engine.arrow_reader(changes_sql(relation, old, new), ROWS_AT_ONCE).read_all()
            return rows.rename_columns(changes_columns(relation))

    changes: DataFrame | pa.Table = from_commit(root, since, read)
    return changes


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
    return [operation_column(relation.columns), *(column.name for column in relation.columns)]


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


def changed_tuples(
    executor: Executor, root: Path, before: Manifest, after: Manifest, relation: Relation
) -> Iterator[tuple[Any, ...]]:
    """Yield the net changes of a relation between two commits, in order, each with its operation first."""
    if not executor.local:
        frame = changes_frame(executor.session("changes"), root, before, after, relation, changes_columns(relation))
        yield from frame.toLocalIterator(True)
        return
    with stored_engine(root, [before, after], relation, executor.cores()) as (engine, (old, new)):
        for batch in engine.arrow(changes_sql(relation, old, new), ROWS_AT_ONCE):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def run_changes(call: Invocation) -> None:
    """Print the net changes of a relation between two commits, in order."""
    executor, options = executor_for(call), call.options
    root, form = given_place(options["state"]), call.form()
    last = kept_commit(root, options["until"]).commit

    def show(manifest: Manifest) -> None:
        before, after, relation = two_commits(call.program, root, options["relation"], manifest, last)
        rows = itertools.islice(changed_tuples(executor, root, before, after, relation), options["limit"])
        RowPrinter(form).print(changes_columns(relation), rows)

    from_commit(root, options["since"], show)


COMMANDS["changes"] = Command(
    "changes",
    "print how a relation has changed",
    "Print the net changes of a relation between two commits that are kept.",
    (
        add_state,
        add_place,
        option("relation", metavar="REL", help="the relation"),
        option(
            "--from", dest="since", type=positive, required=True, metavar="COMMIT", help="the commit before the changes"
        ),
        option(
            "--to",
            dest="until",
            type=positive,
            metavar="COMMIT",
            help="the commit after the changes (default: the last)",
        ),
        add_format("rows"),
    ),
    run_changes,
)
FURTHER["changes"] = read_changes
