"""Read rows that callers give as Python objects: DataFrames, Arrow tables, or iterables of tuples and dicts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..inputs.frames import arrow_table, is_pandas, tables_of_frame
from ..inputs.nulls import LeftOut
from ..inputs.records import NO_OPERATION, Problems, Record, checked_rows
from ..inputs.values import Absent, InputShape, shown
from ..model import Relation
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


def frame_tables(table: Any, name: str, shape: InputShape, problems: Problems) -> Iterator[Any]:
    """Yield the rows of an Arrow table, which has no other columns than the relation, as tables of staged rows."""
    from ..inputs.tables import unheard

    unknown = unknown_columns(table.schema.names, shape)
    if unknown:
        problems.add(f"{name}: {unknown}")
    yield from tables_of_frame(table, name, shape, problems, unheard)


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
