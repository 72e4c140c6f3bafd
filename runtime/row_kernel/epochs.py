"""Count how often each tuple of a relation has appeared, in place: see ``kernel/epochs.py``."""

from __future__ import annotations

from collections.abc import Iterator

from .batch import BEGINNING
from .deltas import begin_row_changes
from .identities import NUMBER_WIDTH
from .model import RowStratum
from .recount import RowFinding
from .tables import LAYOUTS, NEW_ROWS, ROW_METHODS, ROW_PARTS, RowTables, listed, quoted_sql


def maintain_epoch_rows(tables: RowTables, stratum: RowStratum) -> None:
    """Begin an epoch for each tuple that has appeared, in a new life only for those that are there."""
    begin_row_changes(tables, stratum)
    table, lives = tables.tables[stratum.relations[0].table], tables.tables[stratum.guards[0]]
    counted = tables.tables[stratum.rules[0].sources[0].table]
    tables.move(counted.relation.table, NEW_ROWS)
    *keys, epoch, last = table.columns
    columns, own = listed(table.columns), quoted_sql(lives.columns[2])
    other_life = tables.tables[BEGINNING].gained or any(
        tables.execute(f"SELECT 1 FROM {lives.work(suffix)} WHERE {own}").fetchone()
        for suffix, changed in (("lost", lives.lost), ("gained", lives.gained))
        if changed
    )
    present = [f"c.{quoted_sql(column)}" for column, _ in zip(counted.columns, keys, strict=False)]
    at = " AND ".join(f"s.{quoted_sql(key)} = {value}" for key, value in zip(keys, present, strict=True)) or "TRUE"
    first = f"{padded_number('1')}", f"{padded_number('0')}"
    if other_life:
        alike = f"{at} AND s.{quoted_sql(epoch)} = {first[0]} AND s.{quoted_sql(last)} = {first[1]}"
        lost = f"{table.name} AS s WHERE NOT EXISTS (SELECT 1 FROM {counted.name} AS c WHERE {alike})"
        there = f"EXISTS (SELECT 1 FROM {table.name} AS s WHERE {alike})"
        gained = f"SELECT {', '.join([*present, *first])} FROM {counted.name} AS c WHERE NOT {there}"
    elif counted.gained:
        appeared = f"{counted.work('gained')} AS c"
        lost = f"{appeared} CROSS JOIN {table.name} AS s WHERE {at}"
        times = f"coalesce(CAST(s.{quoted_sql(epoch)} AS INTEGER), 0)"
        values = ", ".join([*present, padded_number(f"{times} + 1"), padded_number(times)])
        gained = f"SELECT {values} FROM {appeared} LEFT JOIN {table.name} AS s ON {at}"
    else:
        return
    into = [f"INSERT INTO {table.work(suffix)} ({columns}) " for suffix in ("lost", "gained")]
    table.lost = tables.execute(f"{into[0]}SELECT {listed(table.columns, 's')} FROM {lost}").rowcount
    table.gained = tables.execute(f"{into[1]}{gained}").rowcount


def padded_number(number: str) -> str:
    """Return SQL for a number as identities end in it."""
    return f"printf('%0{NUMBER_WIDTH}d', {number})"


def recount_epoch_rows(tables: RowTables, stratum: RowStratum) -> Iterator[RowFinding]:
    """Yield a query for tuples that are there without an epoch."""
    table, counted = tables.tables[stratum.relations[0].table], tables.tables[stratum.rules[0].sources[0].table]
    pairs = zip(table.columns[:-2], counted.columns, strict=False)
    at = " AND ".join(f"s.{quoted_sql(key)} = c.{quoted_sql(column)}" for key, column in pairs) or "TRUE"
    there = f"SELECT 1 FROM {table.name} AS s WHERE {at}"
    rows = f"SELECT {listed(counted.columns)} FROM {counted.name} AS c WHERE NOT EXISTS ({there})"
    yield table.relation.name, "missing", rows


ROW_METHODS["epochs"] = maintain_epoch_rows
ROW_PARTS["recount epochs"] = recount_epoch_rows
LAYOUTS["epochs"] = lambda stratum, relation, columns: (columns, ())
