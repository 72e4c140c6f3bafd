"""Number the base facts of a recursion across processes, in place: see ``kernel/identities.py``.

The last number is in a table of its own, since those of facts that are gone are not used again.
"""

from __future__ import annotations

from collections.abc import Iterator

from .deltas import Derivations, add_derivations, begin_row_changes, row_derivations, run_deltas
from .model import RowRule, RowStratum
from .recount import RowFinding
from .tables import LAYOUTS, ROW_METHODS, ROW_PARTS, RowTables, listed, quoted_sql, same

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
    numbered = f"printf('%0{NUMBER_WIDTH}d', ? + ROW_NUMBER() OVER (ORDER BY {columns}))"
    table.gained = tables.execute(
        f"INSERT INTO {table.work('gained')} ({columns}) "
        f"SELECT {listed([*facts])}{', ' if facts else ''}{name} || {numbered} FROM {found['insert']}",
        (number,),
    ).rowcount
    if table.gained:
        last.lost, last.gained = len(row or ()), 1
        tables.execute(f"INSERT INTO {last.work('lost')} SELECT _number FROM {last.name}")
        tables.execute(f"INSERT INTO {last.work('gained')} VALUES (?)", (number + table.gained,))


def recount_identity_rows(tables: RowTables, stratum: RowStratum) -> Iterator[RowFinding]:
    """Yield queries for facts without an identity, for identities of no fact, for those that two facts have, and for
    those that were not counted."""
    table, last = (tables.tables[relation.table] for relation in stratum.relations)
    *facts, identity = table.columns
    columns, name = listed(table.columns), quoted_sql(identity)
    derived = tables.work_table(table, "insert", table.columns)
    for rule in stratum.rules:
        found = row_derivations(tables, rule)
        tables.execute(f"INSERT OR IGNORE INTO {derived} ({columns}) {found.select(found.values)}")
    at = f"{same(facts, 's', 'd')} AND s.{name} > d.{name} AND s.{name} < d.{name} || ':'"
    relation, number = table.relation.name, f"CAST(substr({name}, -{NUMBER_WIDTH}) AS INTEGER)"
    for problem, one, other in (
        ("missing", f"{derived} AS d", f"{table.name} AS s"),
        ("left over", f"{table.name} AS s", f"{derived} AS d"),
    ):
        yield relation, problem, f"SELECT {columns} FROM {one} WHERE NOT EXISTS (SELECT 1 FROM {other} WHERE {at})"
    yield relation, "used twice", f"SELECT {name} FROM {table.name} GROUP BY {name} HAVING COUNT(*) > 1"
    most = f"(SELECT coalesce(max(_number), 0) FROM {last.name})"
    yield relation, "not counted", f"SELECT {columns} FROM {table.name} WHERE {number} > {most}"


ROW_METHODS["identities"] = maintain_identity_rows
ROW_PARTS["recount identities"] = recount_identity_rows
LAYOUTS["identities"] = lambda stratum, relation, columns: (columns, ())
