"""The numbers of values, which are the rows and columns of matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...engines.duckdb import DuckEngine
from ...kernel.deletions import group_columns
from ...kernel.model import MatrixFactor, Relation
from ...kernel.sql import union
from ...kernel.table_names import TableName

MOST_GAPS = 8
"""Integers are numbered by their distance from the least one if their range is at most this many times as large as
their number; otherwise by a table."""


class End(NamedTuple):
    """The SQL column whose values are the rows, or the columns, of a matrix, and its type; an empty type stands for a
    single row."""

    type: str
    column: str


def ends_of(relation: Relation) -> tuple[End, End]:
    """Return the two ends of a recursive relation: its columns without the value of an extremum."""
    first, *others = (End(column.type, column.sql) for column in group_columns(relation))
    return (first, others[0]) if others else (End("", ""), first)


def ends_of_factor(factor: MatrixFactor) -> tuple[End, End]:
    """Return the two ends of a factor."""
    first, last = (End(kind, column) for kind, column in zip(factor.types, factor.columns, strict=True))
    return first, last


class Numbering(NamedTuple):
    """The numbers 0 to ``size`` - 1 of the values of a type, in their order. ``table`` lists them; without a table, the
    number of a value is its distance from the ``least``."""

    size: int
    least: int = 0
    table: str = ""


ONE_ROW = Numbering(1)


def number_values(
    engine: DuckEngine, prefix: str, places: Mapping[str, Sequence[tuple[str, str]]]
) -> dict[str, Numbering]:
    """Return a numbering for each type. ``places`` has, by type, the tables and columns with its values. The names of
    new tables begin with ``prefix``."""
    numberings = {"": ONE_ROW}
    for order, (kind, columns) in enumerate(places.items()):
        values = union(f"SELECT {column} AS _value FROM {table}" for table, column in columns)
        if kind == "int":
            wide = "CAST(MAX(_value) AS HUGEINT) - MIN(_value) + 1"
            counted = f"SELECT COUNT(*) AS _rows, MIN(_value) AS _least, {wide} AS _count FROM ({values}) AS q"
            ((rows, least, count),) = engine.run(counted)
            if not rows or count <= MOST_GAPS * rows:
                numberings[kind] = Numbering(int(count or 0), least or 0)
                continue
        table = TableName(prefix).beside(f"numbers_{order}")
        numbered = "_value, ROW_NUMBER() OVER (ORDER BY _value) - 1 AS _number"
        rows = engine.table(table, f"SELECT {numbered} FROM (SELECT DISTINCT _value FROM ({values}) AS q) AS v")
        numberings[kind] = Numbering(rows, 0, table)
    return numberings


def numbered(numbers: Mapping[str, Numbering], source: str, first: End, last: End, more: str = "") -> str:
    """Return a query for the numbers ``_i`` and ``_j`` of the values in two columns of a FROM item, and for ``more``
    columns."""
    selected, joined = [], f"{source} AS q"
    for alias, end, name in (("f", first, "_i"), ("l", last, "_j")):
        numbering = numbers[end.type]
        if numbering.table:
            joined += f" JOIN {numbering.table} AS {alias} ON q.{end.column} = {alias}._value"
            selected.append(f"{alias}._number AS {name}")
        else:
            # Subtracting could overflow only between values that are far apart.
            number = f"q.{end.column} - ({numbering.least})" if end.type else "0"
            selected.append(f"CAST({number} AS BIGINT) AS {name}")
    return f"SELECT {', '.join([*selected, more] if more else selected)} FROM {joined}"


def valued(numbers: Mapping[str, Numbering], source: str, first: End, last: End, more: str) -> str:
    """Return a query for the values whose numbers are ``_i`` and ``_j`` in a FROM item, under the names of their
    columns, and for ``more`` columns."""
    selected, joined = [], f"{source} AS q"
    for alias, end, name in (("f", first, "_i"), ("l", last, "_j")):
        numbering = numbers[end.type]
        if numbering.table:
            joined += f" JOIN {numbering.table} AS {alias} ON q.{name} = {alias}._number"
            selected.append(f"{alias}._value AS {end.column}")
        elif end.type:
            selected.append(f"q.{name} + ({numbering.least}) AS {end.column}")
    return f"SELECT {', '.join([*selected, more])} FROM {joined}"
