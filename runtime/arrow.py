"""Arrow types of the program's column types, and arrays of strings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from .inputs.values import decimal_size
from .sql import element_type, is_list


def arrow_type(type_name: str) -> Any:
    """Return the Arrow type for values of a column type."""
    if type_name.startswith("decimal"):
        return pa.decimal128(*decimal_size(type_name))
    if is_list(type_name):
        return pa.list_(arrow_type(element_type(type_name)))
    known = {"int": "int64", "float": "float64", "bool": "bool_", "date": "date32", "string": "string"}
    return pa.timestamp("us") if type_name == "timestamp" else getattr(pa, known[type_name])()


def string_array(values: Iterable[str | None]) -> Any:
    """Return an Arrow array of strings. Unlike ``pa.array``, this does not import pandas, which takes longer than
    reading a small batch."""
    builder = pa.lib.StringBuilder()
    for value in values:
        builder.append(value)
    return builder.finish()
