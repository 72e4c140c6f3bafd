"""Recount what is stored from the rules: tuples, numbers of derivations, supports and ranks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from .deltas import row_derivations
from .model import WHOLE_GROUP, RowStratum
from .tables import RECOMPUTED, ROW_PARTS, RowTable, RowTables, listed, quoted_sql, same

RowFinding = tuple[str, str, str]
"""A relation, a problem of it, and the query for tuples that show it."""


def recount_rows(tables: RowTables, stratum: RowStratum) -> Iterator[RowFinding]:
    """Yield queries for missing tuples, tuples that are not derived, and wrong numbers; of tables that are new."""
    for relation in stratum.relations:
        table = tables.tables[relation.table]
        if stratum.kind in RECOMPUTED:
            RECOMPUTED[stratum.kind](tables, stratum, table)
            following = table.work("next")
            columns = table.columns if stratum.ranking is not None else table.state
            for problem, one, other in (("missing", following, table.name), ("not derived", table.name, following)):
                alike = same(columns, "o", "t").replace(" = ", " IS ")
                yield (
                    relation.name,
                    problem,
                    f"SELECT {listed(table.columns)} FROM {one} AS t WHERE NOT EXISTS "
                    f"(SELECT 1 FROM {other} AS o WHERE {alike})",
                )
            continue
        yield from row_support_findings(tables, stratum, table)


def row_support_findings(tables: RowTables, stratum: RowStratum, table: RowTable) -> Iterator[RowFinding]:
    """Yield queries for tuples whose support is wrong, and for missing ones."""
    members = frozenset(r.table for r in stratum.relations) if stratum.kind in ("ranked", "extremal") else frozenset()
    parts = []
    for rule in stratum.rules:
        if rule.head == table.relation.table:
            found = replace(row_derivations(tables, rule, members=members), lacking=())
            values = [f"{value} AS {quoted_sql(c)}" for value, c in zip(found.values, table.columns, strict=True)]
            parts.append(found.select([*values, f"{found.rank} AS _rank"]))
    none = f"SELECT {', '.join(f'NULL AS {quoted_sql(c)}' for c in table.columns)}, 0 AS _rank WHERE FALSE"
    tables.work_table(table, "derived", table.columns, ", _lower INTEGER")
    lower = "s._rank IS NULL OR d._rank < s._rank" if members else "TRUE"
    tables.execute(
        f"INSERT INTO {table.work('derived')} ({listed(table.columns)}, _lower) "
        f"SELECT {listed(table.columns, 'd')}, SUM({lower}) FROM ({' UNION ALL '.join(parts) or none}) AS d "
        f"LEFT JOIN {table.name} AS s ON {same(table.columns, 's', 'd')} GROUP BY {listed(table.columns, 'd')}"
    )
    alike = same(table.columns, "s", "d")
    yield (
        table.relation.name,
        "wrong support",
        f"SELECT {listed(table.columns, 's')} FROM {table.name} AS s LEFT JOIN {table.work('derived')} AS d ON {alike} "
        "WHERE s._support IS NOT d._lower OR s._support < 1",
    )
    if table.relation.best:
        # What is not the best of its group is not missing.
        function, value = table.relation.best[0], quoted_sql(table.relation.best[1])
        key = same([c for c in table.key if c != WHOLE_GROUP], "s", "d")
        alike = f"{key} AND s.{value} {'<' if function == 'MIN' else '>'}= d.{value}"
    yield (
        table.relation.name,
        "missing",
        f"SELECT {listed(table.columns)} FROM {table.work('derived')} AS d WHERE NOT EXISTS "
        f"(SELECT 1 FROM {table.name} AS s WHERE {alike})",
    )


def row_differences(tables: RowTables) -> list[dict[str, Any]]:
    """Return what is wrong with the tables, with the first tuples of each finding."""
    wrong = []
    for stratum in tables.program.strata:
        recount = ROW_PARTS.get(f"recount {stratum.kind}", recount_rows)
        for relation, problem, sql in recount(tables, stratum):
            rows = tables.execute(f"{sql} LIMIT 10").fetchall()
            if rows:
                wrong.append({"relation": relation, "problem": problem, "tuples": rows})
    return wrong
