"""Choose between orders of joins by how many rows their searches find.

A search finds, on average, as many rows as there are for each value of the columns that it is by. These numbers are
counted when a choice first needs them, and again when half as many rows have changed as there were then.
"""

from __future__ import annotations

import math

from .model import JoinChoice, RowRule
from .tables import ROW_PARTS, RowTables, listed

COUNTED_NOW = -1
"""The number of changes since what this batch has counted."""


def chosen_order(tables: RowTables, rule: RowRule, choice: JoinChoice) -> tuple[int, ...]:
    """Return the places of a rule's sources in the order whose joins find the fewest rows, the compiler's if others are
    not better."""
    order = min(choice.orders, key=lambda order: rows_found(tables, rule, order))
    return tuple(place for place, _ in order)


def rows_found(tables: RowTables, rule: RowRule, order: tuple[tuple[int, tuple[str, ...]], ...]) -> float:
    """Return about how many rows the joins in an order find for each row that they start with."""
    found = [fan_out(tables, rule.sources[place].table, columns) for place, columns in order]
    return sum(math.prod(found[: length + 1]) for length in range(len(found)))


def fan_out(tables: RowTables, name: str, columns: tuple[str, ...]) -> float:
    """Return how many rows of a table there are for each value of columns, on average."""
    table = tables.tables[name]
    rows = table.rows_now
    if not rows or {*table.key} <= {*columns}:
        return float(bool(rows))
    then, values, changes = tables.statistics.get((name, columns), (0, 0, 0))
    if 2 * changes > then or not then <= 2 * rows <= 4 * then:
        each = f"SELECT DISTINCT {listed(columns)} FROM {table.name}" if columns else "SELECT 1"
        then, values = rows, tables.count(f"({each})")
        tables.statistics[name, columns] = then, values, COUNTED_NOW
    return then / max(values, 1)


ROW_PARTS["join order"] = chosen_order
