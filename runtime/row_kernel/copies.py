"""Changes of inputs whose rows are counted: multisets."""

from __future__ import annotations

from ..kernel.errors import UNCHANGED, Refused
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
            named = ", ".join(map(str, row))
            raise Refused(
                f"{table.relation.name}: the batch deletes {-change:,} copies of the row ({named}) more than it "
                f"inserts, and there are {before:,} copies",
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


ROW_PARTS["copies"] = count_row_copies
