"""SQL fragments for both engines: column lists, types, bucket numbers and unions."""

from __future__ import annotations

import re
from collections.abc import Iterable

from .model import Column, Relation


def names(columns: Iterable[Column], prefix: str = "") -> str:
    """Return the SQL names of columns, each with ``prefix``, separated by commas."""
    return ", ".join(prefix + column.sql for column in columns)


def tuple_names(relation: Relation) -> list[str]:
    """Return the SQL names of the columns that identify a tuple."""
    return [column.sql for column in relation.tuple_columns]


def bucket_number(value: str, kind: str, count: int, engine: str) -> str:
    """Return SQL for the bucket, below ``count``, of a value of type ``kind``: the same in both engines, and evenly
    spread even if all values are multiples of one number."""
    return f"MOD(MOD({folded(value, kind, engine)} * 1103515245 + 12345, 2147483647), {count})"


def folded(value: str, kind: str, engine: str) -> str:
    """Return SQL that maps a value of type ``kind`` to a number from 0 to 2147483646, the same in both engines."""
    if kind == "int":
        return f"ABS(MOD({value}, 2147483647))"
    if kind == "float":
        # The text of floats differs between the engines, and for 0.0 and -0.0; these steps are exact in both.
        shifted = f"MOD(ABS({value}), 2147483647.0E0) * 4294967296.0E0"
        return f"CAST(MOD(FLOOR({shifted}), 2147483647.0E0) AS BIGINT)"
    kind, string = stored_type(kind), sql_type("string", engine)
    text = f"CAST({value} AS {string})"
    if kind.startswith("decimal"):
        text = f"REPLACE({text}, '0.', '.')"  # DuckDB omits the 0 if the type has no digits before the point.
    elif is_list(kind):
        item = f"_item{kind.count('<')}"
        number = f"CAST({folded(item, element_type(kind), engine)} AS {string})"
        text = (
            f"ARRAY_TO_STRING(LIST_TRANSFORM({value}, LAMBDA {item} : {number}), ',')"
            if engine == "duckdb"
            else f"ARRAY_JOIN(TRANSFORM({value}, {item} -> {number}), ',')"
        )
    digits = f"SUBSTRING(MD5({text}), 1, 7)"
    return f"CAST(('0x' || {digits}) AS BIGINT)" if engine == "duckdb" else f"CAST(CONV({digits}, 16, 10) AS BIGINT)"


def is_list(kind: str) -> bool:
    """Return whether a column type is ``list<T>``."""
    return kind.startswith("list<") and not is_optional(kind)


def is_optional(kind: str) -> bool:
    """Return whether a column type is ``T?``, whose values may be null."""
    return kind.endswith("?")


def plain_type(kind: str) -> str:
    """Return T for ``T?``, and any other type unchanged."""
    return kind.removesuffix("?")


def stored_type(kind: str) -> str:
    """Return the type in which the values of a column are stored. Those of ``T?`` are lists, of one T or, for null, of
    none, so that two nulls are equal in SQL."""
    return f"list<{plain_type(kind)}>" if is_optional(kind) else kind


def element_type(kind: str) -> str:
    """Return T for ``list<T>``."""
    return kind.removeprefix("list<").removesuffix(">")


def sql_type(kind: str, engine: str) -> str:
    """Return the SQL type of a column type."""
    kind = stored_type(kind)
    if is_list(kind):
        element = sql_type(element_type(kind), engine)
        return f"{element}[]" if engine == "duckdb" else f"ARRAY<{element}>"
    types = {"int": "BIGINT", "float": "DOUBLE", "bool": "BOOLEAN", "date": "DATE", "hugeint": "DECIMAL(38, 0)"}
    types["string"] = "VARCHAR" if engine == "duckdb" else "STRING"
    types["timestamp"] = "TIMESTAMP" if engine == "duckdb" else "TIMESTAMP_NTZ"
    return types.get(kind, kind.upper())


def plain_column(column: Column, value: str) -> str:
    """Return DuckDB SQL for the value of a stored column as users see it: NULL for null."""
    return f"LIST_EXTRACT({value}, 1)" if is_optional(column.type) else value


def no_rows(columns: Iterable[Column], engine: str) -> str:
    """Return a query with the given columns and no rows."""
    typed = ", ".join(f"CAST(NULL AS {sql_type(c.type, engine)}) AS {c.sql}" for c in columns)
    return f"SELECT * FROM (SELECT {typed}) AS q WHERE FALSE"


def union(queries: Iterable[str]) -> str:
    """Return a query for the rows of several queries with the same columns, keeping duplicates."""
    return "\nUNION ALL\n".join(f"({query.strip()})" for query in queries)


def decimal_size(type_name: str) -> tuple[int, int]:
    """Return precision and scale of ``decimal(p,s)``."""
    precision, scale = re.findall("[0-9]+", type_name)
    return int(precision), int(scale)
