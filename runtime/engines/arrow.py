"""Arrow types of the program's column types, and arrays of strings."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from ..kernel.sql import decimal_size, element_type, is_list, is_optional, plain_type, stored_type

ROWS_AT_ONCE = 100_000


def arrow_type(type_name: str) -> Any:
    """Return the Arrow type for values of a column type."""
    type_name = stored_type(type_name)
    if type_name.startswith("decimal"):
        return pa.decimal128(*decimal_size(type_name))
    if is_list(type_name):
        return pa.list_(arrow_type(element_type(type_name)))
    names = {"int": "int64", "float": "float64", "bool": "bool_", "date": "date32", "string": "string"}
    return pa.timestamp("us") if type_name == "timestamp" else getattr(pa, names[type_name])()


def plain_array(column: Any, kind: str) -> Any:
    """Return an Arrow column with stored values of type ``kind`` as users see them: with nulls if they may be null."""
    if not is_optional(kind):
        return column
    import pyarrow.compute as pc

    lists = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    sizes = pc.list_value_length(lists)
    places = pc.subtract(pc.cumulative_sum(sizes), 1)
    return lists.flatten().take(pc.if_else(pc.equal(sizes, 0), None, places))


def optional_array(values: Any, valid: Any) -> Any:
    """Return an Arrow array of stored values that may be null: ``values`` where ``valid`` is true, null elsewhere."""
    import pyarrow.compute as pc

    ends = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum_checked(valid.cast(pa.int32()))])
    return pa.ListArray.from_arrays(ends, values)


def string_array(values: Iterable[str | None]) -> Any:
    """Return an Arrow array of strings. Unlike ``pa.array``, this does not import pandas, which takes longer than
    reading a small batch."""
    builder = pa.lib.StringBuilder()
    for value in values:
        builder.append(value)
    return builder.finish()


def table_of_rows(types: Mapping[str, str], rows: Sequence[Sequence[Any]]) -> Any:
    """Return rows, None for null, as an Arrow table of columns with these names and types of the program."""
    columns = zip(*rows, strict=True) if rows else [()] * len(types)
    kinds = [arrow_type(plain_type(kind)) for kind in types.values()]
    arrays = [pa.array(list(column), kind) for column, kind in zip(columns, kinds, strict=True)]
    return pa.Table.from_arrays(arrays, names=list(types))


def place_array(places: Iterable[int]) -> Any:
    """Return an Arrow array of places; like ``string_array``, without pandas."""
    numbers = array("q", places)
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])
