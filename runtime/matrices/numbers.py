"""Numbers for values: the rows and columns of matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..engines.duckdb import DuckEngine
from ..maintenance.deletions import group_columns
from ..model import MatrixFactor, Relation
from ..sql import union

MOST_GAPS = 8
"""Whole numbers are their own numbers, apart from the least, if there are at most so many times as many in between."""


class End(NamedTuple):
    """A column whose values are rows or columns of a matrix, and its type; without a type there is one row."""

    type: str
    column: str


def ends_of(relation: Relation) -> tuple[End, End]:
    """Return the columns of a recursive relation, apart from the value of an extremum, as the rows and columns of its
    matrix."""
    first, *others = (End(column.type, column.sql) for column in group_columns(relation))
    return (first, others[0]) if others else (End("", ""), first)


def ends_of_factor(factor: MatrixFactor) -> tuple[End, End]:
    """Return the columns of a factor as the rows and columns of its matrix."""
    first, last = (End(kind, column) for kind, column in zip(factor.types, factor.columns, strict=True))
    return first, last


class Numbering(NamedTuple):
    """The numbers, from 0, of ``size`` values, in their order: those in ``table``, or, if that is empty, the values
    themselves without the ``least``."""

    size: int
    least: int = 0
    table: str = ""


ONE_ROW = Numbering(1)


def number_values(
    engine: DuckEngine, prefix: str, places: Mapping[str, Sequence[tuple[str, str]]]
) -> dict[str, Numbering]:
    """Return the numbering of each type, of all values in ``places``: tables and their columns. Tables that it makes
    begin with ``prefix``."""
    found = {"": ONE_ROW}
    for order, (kind, columns) in enumerate(places.items()):
        values = union(f"SELECT {column} AS _value FROM {table}" for table, column in columns)
        if kind == "int":
            wide = "CAST(MAX(_value) AS HUGEINT) - MIN(_value) + 1"
            counted = f"SELECT COUNT(*) AS _rows, MIN(_value) AS _least, {wide} AS _count FROM ({values}) AS q"
            ((rows, least, count),) = engine.run(counted)
            if not rows or count <= MOST_GAPS * rows:
                found[kind] = Numbering(int(count or 0), least or 0)
                continue
        table = f"{prefix}__numbers_{order}"
        numbered = "_value, ROW_NUMBER() OVER (ORDER BY _value) - 1 AS _number"
        rows = engine.table(table, f"SELECT {numbered} FROM (SELECT DISTINCT _value FROM ({values}) AS q) AS v")
        found[kind] = Numbering(rows, 0, table)
    return found


def numbered(numbers: Mapping[str, Numbering], source: str, first: End, last: End, more: str = "") -> str:
    """Return SQL for the numbers ``_i`` and ``_j`` of two columns of a FROM item, with ``more`` columns of it."""
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
    """Return SQL for the values of the numbers ``_i`` and ``_j`` of a FROM item, under the names of their columns."""
    selected, joined = [], f"{source} AS q"
    for alias, end, name in (("f", first, "_i"), ("l", last, "_j")):
        numbering = numbers[end.type]
        if numbering.table:
            joined += f" JOIN {numbering.table} AS {alias} ON q.{name} = {alias}._number"
            selected.append(f"{alias}._value AS {end.column}")
        elif end.type:
            selected.append(f"q.{name} + ({numbering.least}) AS {end.column}")
    return f"SELECT {', '.join([*selected, more])} FROM {joined}"
