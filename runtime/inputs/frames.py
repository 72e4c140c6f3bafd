"""Read DataFrames of pandas and Polars, and Arrow tables."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ..engines.arrow import ROWS_AT_ONCE, arrow_type
from ..kernel.model import Relation
from ..kernel.sql import plain_type
from .columns import arrow_kind
from .records import Problems, Warn, refused
from .tables import arrow_tables
from .values import InputShape


def arrow_table(rows: Any) -> Any:
    """Return a DataFrame or another object with Arrow data as an Arrow table; None if it is to be read row by row."""
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
        except Exception:
            return None  # Reading row by row finds the wrong value.
    try:
        if hasattr(rows, "to_arrow"):
            return rows.to_arrow()
        if hasattr(rows, "__arrow_c_stream__") or hasattr(rows, "__arrow_c_array__"):
            return pa.table(rows)
    except pa.ArrowException as error:
        raise refused(f"a {type(rows).__name__} cannot be read as Arrow data: {error}") from error
    return None


def is_pandas(rows: Any) -> bool:
    """Return whether an object is a DataFrame of pandas."""
    return type(rows).__module__.partition(".")[0] == "pandas" and type(rows).__name__ == "DataFrame"


def with_types(relation: Relation, table: Any) -> Any:
    """Return an Arrow table with the relation's types where those of the columns only say that values are missing: of
    columns that hold nothing else or empty lists only, and of ints that pandas keeps as floats beside missing values,
    unless it may have rounded them. So the missing values are refused, and not the types."""
    for column in relation.columns:
        if table.schema.names.count(column.name) != 1:
            continue
        values = table.column(column.name)
        whole = plain_type(column.type) == "int" and values.null_count and pa.types.is_floating(values.type)
        if whole and pc.any(pc.greater(pc.abs(values), 2.0**53)).as_py():
            continue
        if whole or arrow_kind(values.type).replace("list<", "").rstrip(">") == "null":
            with contextlib.suppress(pa.ArrowException):
                place = table.schema.get_field_index(column.name)
                table = table.set_column(place, column.name, values.cast(arrow_type(plain_type(column.type))))
    return table


def empty_schema(names: list[str], shape: InputShape) -> Any:
    """Return the Arrow schema of columns: those of the relation have its types, and those that are not read null."""
    others = {shape.operation: pa.string(), shape.order: pa.int64()}
    types = {column.name: arrow_type(plain_type(column.type)) for column in shape.relation.columns}
    return pa.schema([(name, types.get(name, others.get(name, pa.null()))) for name in names])


def tables_of_frame(table: Any, name: str, shape: InputShape, problems: Problems, warn: Warn) -> Iterator[Any]:
    """Yield the rows of an Arrow table that a caller gave, as Arrow tables of staged values. Messages call it by its
    ``name``."""
    table = with_types(shape.relation, table)
    # The types of columns without values say nothing.
    schema = table.schema if table.num_rows else empty_schema(table.schema.names, shape)

    def batches(columns: list[str]) -> Iterator[Any]:
        if columns:
            return iter(table.select(columns).to_batches(max_chunksize=ROWS_AT_ONCE))
        return iter([table] if table.num_rows else [])

    yield from arrow_tables(schema, batches, name, shape, problems, warn)
