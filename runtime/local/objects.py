"""Read rows that callers give as Python objects: DataFrames, Arrow tables, or iterables of tuples and dicts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from typing import Any

from ..inputs.columns import arrow_kind
from ..inputs.frames import arrow_table, is_pandas, tables_of_frame
from ..inputs.records import Problems, Record
from ..inputs.typed_values import unfit_moment
from ..inputs.values import Absent, InputShape
from ..kernel.model import Relation
from ..kernel.sql import is_list
from ..kernel.values import shown
from ..store.published_names import NO_OPERATION
from ..store.set_aside import LeftOut
from .facts import check_keys, one_table

MISSING_VALUES = ("NAType", "NaTType")
"""The types of the markers by which pandas tells that a value is missing, besides None."""


def given_rows(
    relation: Relation,
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
    order. Everything that is wrong is added to ``problems``.
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
        check_keys(staged.filter(pc.equal(staged.column("_op"), "+")), name, shape, problems)
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


def unknown_columns(names: Iterable[Any], shape: InputShape) -> str:
    """Return a message about columns that a relation does not have; empty if there are none."""
    declared = [column.name for column in shape.relation.columns]
    unknown = [shown(name) for name in names if name not in declared]
    which = f"{shape.relation.name} has {', '.join(declared) or 'no columns'}"
    return f"there is no column {', '.join(unknown)}; {which}" if unknown else ""


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


def python_record(row: Any, shape: InputShape) -> Record:
    """Return a row as a record, or a message why it is none."""
    columns = [column.name for column in shape.relation.columns]
    if isinstance(row, Mapping):
        return unknown_columns(row, shape) or [
            *(plain(row[name]) if name in row else Absent.ABSENT for name in columns),
            Absent.ABSENT,
        ]
    values = row.tolist() if hasattr(row, "tolist") else row
    if not isinstance(values, tuple | list):
        return f"{shown(row)} is not a row, which is a tuple or a dict"
    if len(values) != len(columns):
        return f"{len(values)} values instead of {len(columns)}" + (f" ({', '.join(columns)})" if columns else "")
    return [*map(plain, values), Absent.ABSENT]


def plain(value: Any) -> Any:
    """Return a value as an object of Python's own types: without those of NumPy and pandas, and with lists for
    tuples."""
    kind = type(value)
    if kind.__module__ == "builtins" and kind not in (list, tuple):
        return value
    if isinstance(value, tuple | list) or (kind.__name__ == "ndarray" and value.ndim):
        return [plain(item) for item in value]
    if kind.__name__ in MISSING_VALUES:
        return None
    if kind.__name__ == "datetime64":
        return moment_of_numpy(value)
    if kind.__module__ == "numpy":
        return value.item()
    return moment_of_pandas(value) if kind.__name__ == "Timestamp" else value


def moment_of_numpy(value: Any) -> Any:
    """Return a ``datetime64``: None if it is missing, a date if its unit is days, and else a timestamp; Unfit if there
    is none."""
    if value != value:
        return None
    if "[D]" in str(value.dtype):
        moment = value.item()
    else:
        micros = value.astype("datetime64[us]")
        if micros.dtype < value.dtype and micros != value:
            return unfit_moment(str(value), finer=True)
        moment = micros.item() if micros.astype(value.dtype) == value else None
    return moment if isinstance(moment, date) else unfit_moment(str(value))


def moment_of_pandas(value: Any) -> Any:
    """Return a ``Timestamp`` of pandas as one of Python; Unfit if there is none."""
    if value.nanosecond:
        return unfit_moment(str(value), finer=True)
    try:
        return value.to_pydatetime(warn=False)
    except (ValueError, OverflowError):
        return unfit_moment(str(value))
