"""How values are stored in SQLite, so that it compares them as the language does (see ``targets/database``), and the
functions that the SQL of rules calls: definitions in Python.

Functions get and return values as they are stored. None is no value: SQL's NULL.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable, Sequence
from datetime import date, datetime
from typing import Any

from ..kernel.model import Column
from ..kernel.sql import element_type, is_list, is_optional, plain_type

LEAST_INT, MOST_INT = -(2**63), 2**63 - 1

NULL = b""
"""Null, where a column may be null."""


CODECS: dict[str, tuple[Callable[[Any, str], Any], Callable[[Any, str], Any]]] = {}
"""How decimals and lists are stored, and how they are read from there, given a value and its type, or that of items.
The modules for these register it."""


def whole_int(value: Any) -> int | None:
    """Return an integer; None for a real, which is what SQLite makes of one that overflows."""
    return value if isinstance(value, int) and LEAST_INT <= value <= MOST_INT else None


def finite_float(value: Any) -> float | None:
    """Return a float, never -0.0; None if it is infinite."""
    return value + 0.0 if value is not None and math.isfinite(value) else None


def encoded(value: Any, kind: str) -> Any:
    """Return a value, None for null, as it is stored."""
    if is_optional(kind):
        return NULL if value is None else encoded(value, plain_type(kind))
    if is_list(kind):
        return CODECS["list"][0](value, element_type(kind))
    if kind.startswith("decimal"):
        return CODECS["decimal"][0](value, kind)
    if kind == "timestamp":
        return value.isoformat(" ", "microseconds")
    if kind == "date":
        return value.isoformat()
    if kind == "float":
        return value + 0.0  # never -0.0
    return int(value) if kind == "bool" else value


def read_stored(value: Any, kind: str) -> Any:
    """Return a stored value, None for null."""
    if kind in ("int", "float", "string"):
        return value
    if is_optional(kind):
        return None if value == NULL else read_stored(value, plain_type(kind))
    if is_list(kind):
        return CODECS["list"][1](value, element_type(kind))
    if kind.startswith("decimal"):
        return CODECS["decimal"][1](value, kind)
    if kind == "timestamp":
        return datetime.fromisoformat(value)
    if kind == "date":
        return date.fromisoformat(value)
    return bool(value) if kind == "bool" else value


def encoded_row(columns: Sequence[Column], row: Sequence[Any]) -> tuple[Any, ...]:
    """Return values of columns as they are stored."""
    return tuple(encoded(value, column.type) for value, column in zip(row, columns, strict=True))


def encoded_tuple(columns: Sequence[Column], row: Sequence[Any]) -> tuple[Any, ...]:
    """Return a row as it is stored; one without columns has a constant."""
    return encoded_row(columns, row) or (1,)


def decoded_row(columns: Sequence[Column], row: Sequence[Any]) -> tuple[Any, ...]:
    """Return stored values of columns."""
    return tuple(read_stored(value, column.type) for value, column in zip(row, columns, strict=True))


SQL_FUNCTIONS: dict[str, tuple[int, Callable[..., Any]]] = {"_int": (1, whole_int), "_float": (1, finite_float)}
"""The functions with the numbers of their arguments, by name. Modules of further ones register them."""

SQL_AGGREGATES: dict[str, tuple[int, Callable[[], Any]]] = {}
"""The aggregates, likewise."""

SQL_COLLATIONS: dict[str, Callable[[Any, Any], int]] = {}
"""The orders of values, by name, likewise."""


def define_functions(connection: sqlite3.Connection) -> None:
    """Define the functions for a connection."""
    for name, (count, function) in SQL_FUNCTIONS.items():
        connection.create_function(name, count, function, deterministic=True)
    for name, (count, aggregate) in SQL_AGGREGATES.items():
        connection.create_aggregate(name, count, aggregate)
    for name, compare in SQL_COLLATIONS.items():
        connection.create_collation(name, compare)
