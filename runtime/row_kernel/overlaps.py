"""Find the ranges of dead identities of other processes that begin before the range before them has ended.

A process keeps its ranges apart, so that the last one which begins before an identity tells whether that is dead. While
messages about ranges are under way, those that have come may overlap; then more of them have to be looked at.
"""

from __future__ import annotations

from collections.abc import Iterator

from .deltas import begin_row_changes
from .model import RowStratum
from .recount import RowFinding
from .tables import LAYOUTS, NEW_ROWS, ROW_METHODS, ROW_PARTS, RowTable, RowTables, listed, quoted_sql, same


def maintain_overlap_rows(tables: RowTables, stratum: RowStratum) -> None:
    """Look again at ranges that have come, and at those behind them and behind ranges that are gone."""
    begin_row_changes(tables, stratum)
    table, ranges = tables.tables[stratum.relations[0].table], tables.tables[stratum.guards[0]]
    tables.move(ranges.relation.table, NEW_ROWS)
    now: dict[tuple[str, str], bool] = {}
    for suffix in ("lost", "gained"):
        for row in tables.execute(f"SELECT {listed(ranges.columns)} FROM {ranges.work(suffix)}").fetchall():
            now[row] = suffix == "gained" and is_overlapping(tables, ranges, row)
            now |= {other: is_overlapping(tables, ranges, other) for other in next_range(tables, ranges, row, ">", "")}
    there = f"SELECT 1 FROM {table.name} WHERE ({listed(table.columns)}) = (?, ?)"
    was = {row for row in now if tables.execute(there, row).fetchone()}
    overlapping = {row for row, overlaps in now.items() if overlaps}
    for suffix, rows in (("lost", was - overlapping), ("gained", overlapping - was)):
        into = f"INSERT INTO {table.work(suffix)} ({listed(table.columns)}) VALUES (?, ?)"
        tables.connection.executemany(into, sorted(rows))
    table.lost, table.gained = len(was - overlapping), len(overlapping - was)


def next_range(tables: RowTables, ranges: RowTable, row: tuple[str, str], op: str, order: str) -> list[tuple[str, str]]:
    """Return the range before or behind one, if there is one."""
    first, last = map(quoted_sql, ranges.columns)
    return tables.execute(
        f"SELECT {first}, {last} FROM {ranges.name} WHERE ({first}, {last}) {op} (?, ?) "
        f"ORDER BY {first} {order}, {last} {order} LIMIT 1",
        row,
    ).fetchall()


def is_overlapping(tables: RowTables, ranges: RowTable, row: tuple[str, str]) -> bool:
    """Return whether a range begins before the one before it has ended."""
    return any(last >= row[0] for _, last in next_range(tables, ranges, row, "<", "DESC"))


def recount_overlaps(tables: RowTables, stratum: RowStratum) -> Iterator[RowFinding]:
    """Yield queries for overlaps that are missing or left over."""
    table, ranges = tables.tables[stratum.relations[0].table], tables.tables[stratum.guards[0]]
    first, last = map(quoted_sql, ranges.columns)
    before = f"lag({last}) OVER (ORDER BY {first}, {last})"
    found = f"(SELECT {first}, {last} FROM (SELECT *, {before} AS _last FROM {ranges.name}) WHERE _last >= {first})"
    for problem, one, other in (("missing", found, table.name), ("left over", table.name, found)):
        there = f"SELECT 1 FROM {other} AS o WHERE {same(table.columns, 'o', 't')}"
        yield table.relation.name, problem, f"SELECT {listed(table.columns)} FROM {one} AS t WHERE NOT EXISTS ({there})"


ROW_METHODS["overlaps"] = maintain_overlap_rows
LAYOUTS["overlaps"] = lambda stratum, relation, columns: (columns, ())
ROW_PARTS["recount overlaps"] = recount_overlaps
