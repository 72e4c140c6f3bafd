"""Maintain recursions annotated with their derivations (Nigam et al. 2012, section 5), in place.

The changes of a round are a multiset with signs, and so are their consequences: see ``kernel/entries.py``. All that is
lost leaves before anything enters, so that only entries which are there together are joined.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..kernel.errors import Refused
from .deltas import Derivations, absences, begin_row_changes, row_derivations, run_deltas
from .model import RowRule, RowStratum
from .recount import RowFinding
from .tables import LAYOUTS, MID_ROWS, NEW_ROWS, ROW_METHODS, ROW_PARTS, RowTable, RowTables, listed, same


def maintain_entry_rows(tables: RowTables, stratum: RowStratum) -> None:
    """Propagate the changes below from entry to entry, those of lost tuples first."""
    begin_row_changes(tables, stratum)
    own = [tables.tables[relation.table] for relation in stratum.relations]
    for table in own:
        for suffix in ("changed", "entering", "summed"):
            tables.work_table(table, suffix, table.columns, ", _support INTEGER NOT NULL")
    held = sum(table.rows for table in own)
    for phase, sign, version in (("delete", "-1", MID_ROWS), ("insert", "1", NEW_ROWS)):

        def emit(rule: RowRule, found: Derivations, sign: str = sign) -> None:
            derive_entries(tables, tables.tables[rule.head].work("entering"), rule, found, sign)

        run_deltas(tables, stratum, phase, emit)
        held = entry_rounds(tables, stratum, own, version, held)
    for table in own:
        note_entries(tables, table)


def derive_entries(tables: RowTables, into: str, rule: RowRule, found: Derivations, sign: str = "1") -> None:
    """Add the entries that derivations give to a table, each with the sum of its copies."""
    supports = [rank.removesuffix("_rank") + "_support" for rank in found.ranks]
    copies = f"_int({' * '.join([sign, *supports])})" if supports else sign
    tables.execute(
        f"INSERT INTO {into} ({listed(tables.tables[rule.head].columns)}, _support) "
        f"{found.select([*found.values, copies])} "
        "ON CONFLICT DO UPDATE SET _support = _int(_support + excluded._support)"
    )


def entry_rounds(tables: RowTables, stratum: RowStratum, own: list[RowTable], version: str, held: int) -> int:
    """Add r__entering and all that follows from it, with the relations below in a version, to r and to r__summed;
    return how many entries are held, given how many were."""
    members, done = frozenset(table.relation.table for table in own), 0
    while True:
        changed = {table.relation.table: begin_entry_round(tables, table) for table in own}
        if not any(changed.values()):
            return held
        tables.check_round(stratum.name, done)
        done += 1
        # Those that the round would start from count, since it pairs them with each other before it can be refused.
        added = sum(added_entries(tables, table) for table in own)
        if held + added > tables.max_entries:
            raise Refused(
                f"{stratum.name}: more than {tables.max_entries} derivation sets; leave out --recursion "
                "derivation-sets, or raise --max-entries; nothing was changed"
            )
        held += added
        for rule in stratum.rules:
            places = [place for place, source in enumerate(rule.sources) if changed.get(source.table)]
            for place in places:
                # What is before the changed entry has changed, too; what is behind it has not.
                variants: list[Mapping[int, tuple[str, str]]] = [{}]
                for other in (other for other in places if other < place):
                    overlaid = tables.tables[rule.sources[other].table].work("changed"), ""
                    variants += [{**variant, other: overlaid} for variant in variants]
                start = place, tables.tables[rule.sources[place].table].work("changed")
                for sources in variants:
                    absent = absences(tables, rule, version)
                    found = row_derivations(tables, rule, start, sources, absent, members)
                    derive_entries(tables, tables.tables[rule.head].work("entering"), rule, found)
        for table in own:
            if changed[table.relation.table]:
                sum_entry_rows(tables, table)


def begin_entry_round(tables: RowTables, table: RowTable) -> int:
    """Make r__changed of r__entering, without entries whose copies cancel out; return how many there are."""
    changed, entering = table.work("changed"), table.work("entering")
    tables.execute(f"DELETE FROM {changed}")
    count = tables.execute(f"INSERT INTO {changed} SELECT * FROM {entering} WHERE _support <> 0").rowcount
    tables.execute(f"DELETE FROM {entering}")
    return count


def added_entries(tables: RowTables, table: RowTable) -> int:
    """Return how many more entries there are with r__changed."""
    of, same_entry = f"{table.work('changed')} AS c", same(table.columns, "s", "c")
    there = f"SELECT 1 FROM {table.name} AS s WHERE {same_entry}"
    new = tables.count(f"(SELECT 1 FROM {of} WHERE NOT EXISTS ({there}))")
    gone = f"SELECT 1 FROM {of} CROSS JOIN {table.name} AS s WHERE {same_entry} AND s._support + c._support = 0"
    return new - tables.count(f"({gone})")


def sum_entry_rows(tables: RowTables, table: RowTable) -> None:
    """Add r__changed to r and to r__summed."""
    columns, changed = listed(table.columns), table.work("changed")
    for into in (table.name, table.work("summed")):
        tables.execute(
            f"INSERT INTO {into} ({columns}, _support) SELECT {columns}, _support FROM {changed} WHERE TRUE "
            "ON CONFLICT DO UPDATE SET _support = _int(_support + excluded._support)"
        )
    tables.execute(f"DELETE FROM {table.name} WHERE ({columns}) IN (SELECT {columns} FROM {changed}) AND _support = 0")


def note_entries(tables: RowTables, table: RowTable) -> None:
    """Note the entries that r loses and gains by r__summed; of one that stays, only the copies have changed."""
    columns, summed = listed(table.columns), table.work("summed")
    there = f"SELECT 1 FROM {table.name} AS s WHERE {same(table.columns, 's', 'c')}"
    table.lost = tables.execute(
        f"INSERT INTO {table.work('lost')} ({columns}, _support) SELECT {columns}, - _support FROM {summed} AS c "
        f"WHERE _support < 0 AND NOT EXISTS ({there})"
    ).rowcount
    table.gained = tables.execute(
        f"INSERT INTO {table.work('gained')} ({columns}, _support) SELECT {columns}, _support FROM {summed} AS c "
        f"WHERE _support > 0 AND EXISTS ({there} AND s._support = c._support)"
    ).rowcount
    table.version = NEW_ROWS


def recount_entry_rows(tables: RowTables, stratum: RowStratum) -> Iterator[RowFinding]:
    """Yield queries for missing entries and wrong numbers of derivations."""
    members = frozenset(relation.table for relation in stratum.relations)
    for relation in stratum.relations:
        table = tables.tables[relation.table]
        derived = tables.work_table(table, "entering", table.columns, ", _support INTEGER NOT NULL")
        for rule in stratum.rules:
            if rule.head == relation.table:
                derive_entries(tables, derived, rule, row_derivations(tables, rule, members=members))
        for problem, one, other in (("missing", derived, table.name), ("wrong support", table.name, derived)):
            there = f"SELECT 1 FROM {other} AS s WHERE {same(table.columns, 's', 'c')}"
            alike = "" if problem == "missing" else " AND s._support = c._support"
            rows = f"SELECT {listed(table.columns)} FROM {one} AS c WHERE NOT EXISTS ({there}{alike})"
            yield relation.name, problem, rows


ROW_METHODS["entries"] = maintain_entry_rows
LAYOUTS["entries"] = lambda stratum, relation, columns: (columns, ("_support",))
ROW_PARTS["recount entries"] = recount_entry_rows
