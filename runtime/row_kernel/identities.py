"""Number the base facts of a recursion across processes, in place: see ``kernel/identities.py``.

The last number is in a table of its own, since those of facts that are gone are not used again.
"""

from __future__ import annotations

from .deltas import Derivations, add_derivations, begin_row_changes, run_deltas
from .model import RowRule, RowStratum
from .tables import LAYOUTS, ROW_METHODS, RowTables, listed, quoted_sql, same

NUMBER_WIDTH = 12
"""The length of the number at the end of an identity."""


def maintain_identity_rows(tables: RowTables, stratum: RowStratum) -> None:
    """Drop the identities of facts that are gone, and number new ones."""
    begin_row_changes(tables, stratum)
    table, last = (tables.tables[relation.table] for relation in stratum.relations)
    *facts, identity = table.columns
    columns, name = listed(table.columns), quoted_sql(identity)
    found = {}
    for phase in ("delete", "insert"):
        derived = found[phase] = tables.work_table(table, phase, table.columns, ", _copies INTEGER")

        def emit(rule: RowRule, of: Derivations, derived: str = derived) -> None:
            add_derivations(tables, derived, columns, of.select([*of.values, "1"]))

        run_deltas(tables, stratum, phase, emit)
    # Behind the prefix there is a digit.
    at = f"{same(facts, 's', 'd')} AND s.{name} > d.{name} AND s.{name} < d.{name} || ':'"
    table.lost = tables.execute(
        f"INSERT INTO {table.work('lost')} ({columns}) SELECT {listed(table.columns, 's')} "
        f"FROM {found['delete']} AS d CROSS JOIN {table.name} AS s WHERE {at}"
    ).rowcount
    row = tables.execute(f"SELECT _number FROM {last.name}").fetchone()
    (number,) = row or (0,)
    numbered = f"printf('%0{NUMBER_WIDTH}d', {number} + ROW_NUMBER() OVER (ORDER BY {columns}))"
    table.gained = tables.execute(
        f"INSERT INTO {table.work('gained')} ({columns}) "
        f"SELECT {listed([*facts])}{', ' if facts else ''}{name} || {numbered} FROM {found['insert']}"
    ).rowcount
    if table.gained:
        last.lost, last.gained = len(row or ()), 1
        tables.execute(f"INSERT INTO {last.work('lost')} SELECT _number FROM {last.name}")
        tables.execute(f"INSERT INTO {last.work('gained')} VALUES (?)", (number + table.gained,))


ROW_METHODS["identities"] = maintain_identity_rows
LAYOUTS["identities"] = lambda stratum, relation, columns: (columns, ())
