"""Changes of inputs whose rows are counted: multisets."""

from __future__ import annotations

from ..kernel.errors import UNCHANGED, Refused
from ..kernel.values import shown
from .encodings import read_stored
from .tables import ROW_PARTS, RowTable, RowTables, listed, same


def count_row_copies(tables: RowTables, table: RowTable, given: str) -> None:
    """Note the copies by which changes of a multiset, taken together, change it: the last ones go."""
    columns = tuple(column.sql for column in table.relation.columns)
    signed = "SUM(CASE WHEN _op IN ('+', '>') THEN 1 ELSE -1 END)"
    there = f"(SELECT COUNT(*) FROM {table.name} AS s WHERE {same(columns, 's', 'n')})"
    net = f"SELECT {listed(columns)}, {signed} AS _net FROM {given} GROUP BY {listed(columns)}"
    copy = table.relation.copy
    names = listed((*columns, copy))
    marks = ", ".join("?" * (len(columns) + 1))
    for *row, change, before in tables.execute(f"SELECT n.*, {there} FROM ({net}) AS n WHERE _net <> 0").fetchall():
        if before + change < 0:
            values = zip(table.relation.columns, row, strict=False)
            named = ", ".join(f"{column.name} = {shown(read_stored(value, column.type))}" for column, value in values)
            rest = f"more than it inserts, and there {'is' if before < 2 else 'are'} {copies_told(before)}"
            raise Refused(
                f"{table.relation.name}: the batch deletes {copies_told(-change)} of the row with {named} {rest}",
                UNCHANGED,
            )
        suffix, numbers = (
            ("gained", range(before + 1, before + change + 1))
            if change > 0
            else ("lost", range(before + change + 1, before + 1))
        )
        tables.connection.executemany(
            f"INSERT INTO {table.work(suffix)} ({names}) VALUES ({marks})", ((*row, number) for number in numbers)
        )


def copies_told(number: int) -> str:
    """Return a number of copies with its noun."""
    return "no copy" if not number else "1 copy" if number == 1 else f"{number:,} copies"


ROW_PARTS["copies"] = count_row_copies
