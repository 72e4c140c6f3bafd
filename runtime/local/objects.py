"""Read rows that callers give as Python objects: DataFrames, Arrow tables, or iterables of tuples and dicts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..inputs.columns import arrow_kind
from ..inputs.frames import arrow_table, is_pandas, tables_of_frame
from ..inputs.records import Problems
from ..inputs.values import InputShape
from ..kernel.sql import is_list
from ..store.published_names import NO_OPERATION
from ..store.set_aside import LeftOut
from .facts import check_keys, one_table, rows_of_table
from .python_rows import python_record, unknown_columns


def given_rows(
    relation: Any,
    rows: Any,
    name: str,
    problems: Problems,
    sign: str = "+",
    left_out: LeftOut | None = None,
    initial: bool = True,
) -> Any:
    """Return rows for an input relation as an Arrow table of staged changes: insertions, or deletions if ``sign`` is
    ``-``. Messages call the rows ``name``. Rows with nulls where none are allowed are counted in ``left_out``; unless
    the rows are ``initial``, such an insertion removes the row with its key.

    DataFrames, Arrow tables and dicts have exactly the relation's columns, in any order; tuples have their values in
    order. Everything that is wrong is added to ``problems``. The relation is one of any methods.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    shape = InputShape(relation, NO_OPERATION, "", initial or sign == "-", "", True, left_out, exact=True)
    table = arrow_table(rows)
    if table is None or (is_pandas(rows) and has_objects(rows, table)):
        staged = one_table(listed_tables(rows, name, shape, problems), shape)
    else:
        staged = one_table(frame_tables(table, name, shape, problems), shape)
    if sign == "+":
        inserted = staged.filter(pc.equal(staged.column("_op"), "+"))
        check_keys(rows_of_table(inserted, relation), name, shape, problems)
        return staged
    return staged.set_column(staged.num_columns - 1, "_op", pa.repeat(sign, staged.num_rows))


# DataFrames


def frame_tables(table: Any, name: str, shape: InputShape, problems: Problems) -> Iterator[Any]:
    """Yield the rows of an Arrow table, which has no other columns than the relation, as tables of staged rows."""
    from ..inputs.tables import unheard

    unknown = unknown_columns(table.schema.names, shape)
    if unknown:
        problems.add(f"{name}: {unknown}")
    damaged = damaged_columns(table)
    if damaged:
        problems.add(*(f"{name}, column {column}: damaged Arrow data: {reason}" for column, reason in damaged))
        return
    yield from tables_of_frame(table, name, shape, problems, unheard)


def has_objects(frame: Any, table: Any) -> bool:
    """Return whether a DataFrame of pandas has Python objects that an Arrow ``table`` made of it may not have as they
    are: it has timestamps in microseconds, and lists for sets."""
    kinds = [arrow_kind(kind) for kind, own in zip(table.schema.types, frame.dtypes, strict=True) if own.kind == "O"]
    return any(kind == "timestamp" or is_list(kind) for kind in kinds)


def damaged_columns(table: Any) -> list[tuple[str, str]]:
    """Return the columns of an Arrow table that cannot be read, with the reasons, except for single values that are
    wrong: these are found when they are read."""
    import pyarrow as pa

    reasons = []
    for column, values in zip(table.schema.names, table.columns, strict=True):
        try:
            values.validate(full=True)
        except pa.ArrowInvalid as error:
            if not re.search("Invalid UTF8|Dictionary indices invalid", str(error)):
                reasons.append((column, str(error)))
    return reasons


# Rows one by one


def listed_tables(rows: Any, name: str, shape: InputShape, problems: Problems) -> Iterator[Any]:
    """Yield rows that are Python objects as tables of staged rows."""
    from ..inputs.checks import checked_tables, rows_of_records

    if is_pandas(rows):
        names = [str(column) for column in rows.columns]
        rows = (dict(zip(names, row, strict=True)) for row in rows.itertuples(index=False, name=None))
    if isinstance(rows, str | bytes | Mapping) or not isinstance(rows, Iterable):
        kind = type(rows).__name__
        problems.add(f"{name}: rows are a DataFrame, an Arrow table, or a list of tuples or dicts, and not {kind}")
        return
    records = (python_record(row, shape) for row in rows)
    for part in rows_of_records(records, False, shape):
        yield from checked_tables(part, name, shape, problems)
