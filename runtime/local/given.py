"""Read rows that callers give as Python objects: DataFrames, Arrow tables, or iterables of tuples and dicts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..inputs.nulls import LeftOut
from ..inputs.records import NO_OPERATION, Problems, Record, checked_rows
from ..inputs.values import Absent, InputShape, shown
from ..model import Relation
from ..sql import plain_type
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

    shape = InputShape(relation, NO_OPERATION, "", initial or sign == "-", "", True, left_out)
    table = arrow_table(rows)
    if table is None:
        found = one_table(listed_tables(rows, name, shape, problems), shape)
    else:
        found = one_table(frame_tables(table, name, shape, problems), shape)
    if sign == "+":
        check_keys(found.filter(pc.equal(found.column("_op"), "+")), name, shape, problems)
        return found
    return found.set_column(found.num_columns - 1, "_op", pa.repeat(sign, found.num_rows))


# DataFrames


def arrow_table(rows: Any) -> Any:
    """Return a DataFrame or another object with Arrow data as an Arrow table; None if it is to be read row by row."""
    import pyarrow as pa

    if isinstance(rows, pa.Table):
        return rows
    if is_pandas(rows):
        names = [str(column) for column in rows.columns]
        if len(set(names)) < len(names):
            # Arrow refuses such a DataFrame; an empty table with its columns is refused with a message.
            return pa.Table.from_arrays([pa.nulls(0)] * len(names), names)
        try:
            if not names:
                return pa.table({"row": pa.nulls(len(rows))}).select([])
            return pa.Table.from_pandas(rows, preserve_index=False)
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            return None  # Reading row by row finds the wrong value.
    if hasattr(rows, "to_arrow"):
        return rows.to_arrow()
    if hasattr(rows, "__arrow_c_stream__") or hasattr(rows, "__arrow_c_array__"):
        return pa.table(rows)
    return None


def is_pandas(rows: Any) -> bool:
    """Return whether an object is a DataFrame of pandas."""
    return type(rows).__module__.partition(".")[0] == "pandas" and type(rows).__name__ == "DataFrame"


def with_types(relation: Relation, table: Any) -> Any:
    """Return an Arrow table with the relation's types where those of the columns only say that values are missing: of
    columns that hold nothing else or empty lists only, and of ints that pandas keeps as floats beside missing values.
    So the missing values are refused, and not the types."""
    import pyarrow as pa

    from ..arrow import arrow_type
    from ..inputs.columns import arrow_kind

    for column in relation.columns:
        if table.schema.names.count(column.name) != 1:
            continue
        found = table.column(column.name)
        whole = plain_type(column.type) == "int" and found.null_count and pa.types.is_floating(found.type)
        if whole or arrow_kind(found.type).replace("list<", "").rstrip(">") == "null":
            with contextlib.suppress(pa.ArrowException):
                place = table.schema.get_field_index(column.name)
                table = table.set_column(place, column.name, found.cast(arrow_type(plain_type(column.type))))
    return table


def frame_tables(table: Any, name: str, shape: InputShape, problems: Problems) -> Iterator[Any]:
    """Yield the rows of an Arrow table as tables of staged rows."""
    from ..inputs.tables import ROWS_AT_ONCE, arrow_tables, unheard

    table = with_types(shape.relation, table)
    unknown = unknown_columns(table.schema.names, shape)
    if unknown:
        problems.add(f"{name}: {unknown}")
    # The types of columns without values say nothing.
    schema = table.schema if table.num_rows else empty_schema(table.schema.names, shape)

    def batches(columns: list[str]) -> Iterator[Any]:
        if columns:
            return iter(table.select(columns).to_batches(max_chunksize=ROWS_AT_ONCE))
        return iter([table] if table.num_rows else [])

    yield from arrow_tables(schema, batches, name, shape, problems, unheard)


def empty_schema(names: list[str], shape: InputShape) -> Any:
    """Return the Arrow schema of columns with the types of the relation, null for columns that it does not have."""
    import pyarrow as pa

    from ..arrow import arrow_type

    types = {column.name: arrow_type(plain_type(column.type)) for column in shape.relation.columns}
    return pa.schema([(name, types.get(name, pa.null())) for name in names])


def unknown_columns(names: Iterable[Any], shape: InputShape) -> str:
    """Return a message about columns that a relation does not have; empty if there are none."""
    known = [column.name for column in shape.relation.columns]
    unknown = [shown(name) for name in names if name not in known]
    which = f"{shape.relation.name} has {', '.join(known) or 'no columns'}"
    return f"there is no column {', '.join(unknown)}; {which}" if unknown else ""


# Rows one by one


def listed_tables(rows: Any, name: str, shape: InputShape, problems: Problems) -> Iterator[Any]:
    """Yield rows that are Python objects as tables of staged rows."""
    from ..inputs.tables import row_tables, staged_schema

    if is_pandas(rows):
        names = [str(column) for column in rows.columns]
        rows = (dict(zip(names, row, strict=True)) for row in rows.itertuples(index=False, name=None))
    if isinstance(rows, str | bytes | Mapping) or not isinstance(rows, Iterable):
        kind = type(rows).__name__
        problems.add(f"{name}: rows are a DataFrame, an Arrow table, or a list of tuples or dicts, and not {kind}")
        return
    records = (python_record(row, shape) for row in rows)
    yield from row_tables(checked_rows(records, name, False, shape, problems), staged_schema(shape))


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
    if isinstance(value, tuple | list) or kind.__name__ == "ndarray":
        return [plain(item) for item in value]
    if kind.__name__ in MISSING_VALUES:
        return None
    if kind.__name__ == "datetime64":
        # Finer units have no object in Python, and days become dates.
        return (value.astype("datetime64[us]") if "[D]" not in str(value.dtype) else value).item()
    if kind.__module__ == "numpy":
        return value.item()
    return value.to_pydatetime(warn=False) if kind.__name__ == "Timestamp" else value
