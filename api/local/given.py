"""Read the rows that callers give to sessions by rows: as Python objects, and in files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from flintlog.runtime.database.reading import GivenChanges, RowsFile
from flintlog.runtime.inputs.dialects import Dialect, dialect_of_file
from flintlog.runtime.inputs.paths import format_of
from flintlog.runtime.inputs.records import Problems, Warn
from flintlog.runtime.inputs.values import RowShape, any_value
from flintlog.runtime.kernel.values import plain_row
from flintlog.runtime.local.facts import check_keys, files_of_place
from flintlog.runtime.local.python_rows import python_record
from flintlog.runtime.row_kernel.model import RowRelation
from flintlog.runtime.store.published_names import NO_OPERATION
from flintlog.runtime.store.set_aside import LeftOut

from .session import Row

FRAMES = ("to_arrow", "__arrow_c_stream__", "__arrow_c_array__", "itertuples")
"""What only DataFrames and other objects with Arrow data have."""

RowChanges = list[tuple[str, Row]]


def is_frame(rows: Any) -> bool:
    """Return whether rows are read as Arrow data."""
    return any(hasattr(rows, name) for name in FRAMES)


def given_changes(
    relation: RowRelation,
    rows: Any,
    name: str,
    problems: Problems,
    sign: str = "+",
    left_out: LeftOut | None = None,
    initial: bool = True,
) -> RowChanges:
    """Return rows for an input relation as changes, like :func:`flintlog.runtime.local.objects.given_rows`."""
    if is_frame(rows) or isinstance(rows, str | bytes | Mapping) or not isinstance(rows, Iterable):
        from flintlog.runtime.local.objects import given_rows

        staged = given_rows(relation, rows, name, problems, sign, left_out, initial)
        columns = [staged.column(column.sql).to_pylist() for column in relation.columns]
        found = zip(*columns, strict=True) if columns else [()] * staged.num_rows
        return [
            (op, plain_row(relation.columns, row))
            for op, row in zip(staged.column("_op").to_pylist(), found, strict=True)
        ]
    shape = RowShape(relation, NO_OPERATION, "", initial or sign == "-", "", True, left_out, exact=True)
    given = GivenChanges(relation, shape, problems)
    given.take((python_record(row, shape) for row in rows), name, False)
    if sign == "+":
        check_keys((change.row for change in given.changes if change.op == "+"), name, shape, problems)
    return [*changes_of(given, sign)]


def changes_of(given: GivenChanges, sign: str = "+") -> Iterator[tuple[str, Row]]:
    """Yield changes with their rows as users see them; deletions if ``sign`` is ``-``."""
    columns = given.relation.columns
    for change in given.changes:
        # Of what removes a key, the other columns have no value.
        row = [any_value(c.type) if v is None else v for v, c in zip(change.row, columns, strict=True)]
        yield change.op if sign == "+" else sign, plain_row(columns, row)


def rows_of_place(path: Path, shape: RowShape, problems: Problems, warn: Warn, dialect: Dialect) -> RowChanges:
    """Return the rows of a file, or of all files in a folder."""
    given = GivenChanges(shape.relation, shape, problems)
    for file, partition in files_of_place(path, shape, problems):
        written = dialect_of_file(str(file), dialect, shape.relation.file)
        if format_of(file.name, written) == "parquet":
            from flintlog.runtime.database import parquet

            assert parquet, "registered"
        one = GivenChanges(shape.relation, shape, problems)
        one.take_file(RowsFile(str(file), format_of(file.name, written), 0, written, partition), warn)
        check_keys((change.row for change in one.changes), str(file), shape, problems)
        given.changes += one.changes
    if not path.is_file():
        check_keys((change.row for change in given.changes), str(path), shape, problems)
    return [*changes_of(given)]
