"""Maintain strata without recursion by counting derivations (Nigam et al. 2012, section 3), in place."""

from __future__ import annotations

from .deltas import Derivations, add_derivations, begin_row_changes, run_deltas
from .model import RowRule, RowStratum
from .tables import LAYOUTS, ROW_METHODS, RowTable, RowTables, listed, same


def maintain_counted_rows(tables: RowTables, stratum: RowStratum) -> None:
    """Add gained derivations of the stratum's only relation, subtract lost ones."""
    begin_row_changes(tables, stratum)
    table = tables.tables[stratum.relations[0].table]
    counts = tables.work_table(table, "counts", table.columns, ", _copies INTEGER")
    for phase, sign in (("delete", "-1"), ("insert", "1")):

        def emit(rule: RowRule, found: Derivations, sign: str = sign) -> None:
            add_derivations(tables, counts, listed(table.columns), found.select([*found.values, sign]))

        run_deltas(tables, stratum, phase, emit)
    apply_counts(tables, table, counts)


def apply_counts(tables: RowTables, table: RowTable, counts: str) -> None:
    """Add changes of the numbers of derivations to a table, and note what it loses and gains."""
    columns, matches = listed(table.columns), same(table.columns, "c", "s")
    stored = f"EXISTS (SELECT 1 FROM {table.name} AS s WHERE {matches})"
    table.gained = tables.execute(
        f"INSERT INTO {table.work('gained')} ({columns}, _support) SELECT {columns}, _copies FROM {counts} AS c "
        f"WHERE _copies <> 0 AND NOT {stored}"
    ).rowcount
    table.lost = tables.execute(
        f"INSERT INTO {table.work('lost')} ({columns}, _support) SELECT {listed(table.columns, 's')}, s._support "
        f"FROM {counts} AS c CROSS JOIN {table.name} AS s WHERE {matches} AND s._support + c._copies = 0"
    ).rowcount
    # What is lost stays, with its support, until the table moves.
    tables.execute(
        f"INSERT INTO {table.name} ({columns}, _support) SELECT {columns}, _copies FROM {counts} AS c "
        f"WHERE _copies <> 0 AND EXISTS "
        f"(SELECT 1 FROM {table.name} AS s WHERE {matches} AND s._support + c._copies <> 0) "
        "ON CONFLICT DO UPDATE SET _support = _support + excluded._support"
    )


ROW_METHODS["counted"] = maintain_counted_rows
LAYOUTS["counted"] = lambda stratum, relation, columns: (columns, ("_support",))
