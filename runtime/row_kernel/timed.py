"""Maintain relations that select by a bound, which moves with the time: by what the bound leaves behind on its way."""

from __future__ import annotations

from collections.abc import Iterator

from .deltas import begin_row_changes, row_derivations
from .model import RowStratum
from .recount import RowFinding
from .tables import LAYOUTS, MID_ROWS, ROW_METHODS, ROW_PARTS, RowTables, listed, quoted_sql, same


def maintain_timed_rows(tables: RowTables, stratum: RowStratum) -> None:
    """Select from the changes of what the stratum's only relation selects from, and from what stays of that, the tuples
    for which the condition changes with the bound."""
    begin_row_changes(tables, stratum)
    table = tables.tables[stratum.relations[0].table]
    (rule,), crossing = stratum.rules, stratum.crossing
    assert crossing is not None
    source, bound = (tables.tables[one.table] for one in rule.sources)
    moved = bool(bound.gained)
    before, after = bound.work("lost") if bound.lost else bound.name, bound.work("gained") if moved else bound.name
    tables.move(source.relation.table, MID_ROWS)
    columns = listed(table.columns)

    def select(into: str, changed: int, one: str, other: str) -> int:
        """Put the tuples that one bound selects and the other does not, and those of the changes, into a work table."""
        found = [row_derivations(tables, rule, (0, source.work(into)), {1: (one, "")})] if changed else []
        if moved and bound.lost:
            found.append(row_derivations(tables, crossing, (0, one), {1: (other, "")}))
        queries = (derived.select(derived.values) for derived in found)
        return sum(tables.execute(f"INSERT INTO {table.work(into)} ({columns}) {query}").rowcount for query in queries)

    table.lost = select("lost", source.lost, before, after)
    table.gained = select("gained", source.gained, after, before)


def recount_timed_rows(tables: RowTables, stratum: RowStratum) -> Iterator[RowFinding]:
    """Yield queries for tuples that are missing, and for those that are not selected."""
    relation = stratum.relations[0]
    table = tables.tables[relation.table]
    found = row_derivations(tables, stratum.rules[0])
    values = [f"{value} AS {quoted_sql(c)}" for value, c in zip(found.values, table.columns, strict=True)]
    derived = f"({found.select(values)})"
    for problem, one, other in (("missing", derived, table.name), ("not derived", table.name, derived)):
        alike = same(table.columns, "o", "t")
        yield (
            relation.name,
            problem,
            f"SELECT {listed(table.columns)} FROM {one} AS t "
            f"WHERE NOT EXISTS (SELECT 1 FROM {other} AS o WHERE {alike})",
        )


ROW_METHODS["timed"] = maintain_timed_rows
LAYOUTS["timed"] = lambda stratum, relation, columns: (columns, ())
ROW_PARTS["recount timed"] = recount_timed_rows
