"""Maintain recursive strata by rank and support, in place.

A tuple has the rank that it entered with, and its support: the number of its derivations that use only tuples of lower
rank. In deletions a row that is dead stays with support 0 until its round ends; in insertions a lower rank is before.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from .deltas import Derivations, absences, add_derivations, begin_row_changes, below, row_derivations, run_deltas
from .model import RowRule, RowStratum
from .tables import LAYOUTS, MID_ROWS, NEW_ROWS, ROW_METHODS, RowTable, RowTables, listed, quoted_sql, same

PLAIN_COLUMN = re.compile(r'"(?:[^"]|"")+"\."(?:[^"]|"")+"')
"""A column of a source, which has a value."""

COPIES_COLUMN = ", _copies INTEGER"


class Ranks:
    """A recursive stratum while a batch changes it."""

    def __init__(self, tables: RowTables, stratum: RowStratum) -> None:
        self.tables, self.stratum = tables, stratum
        self.own = [tables.tables[relation.table] for relation in stratum.relations]
        self.members = frozenset(relation.table for relation in stratum.relations)
        begin_row_changes(tables, stratum)
        for table in self.own:
            ranked = ", _rank INTEGER"
            for suffix, extra in (
                ("taken", COPIES_COLUMN),
                ("dead", ranked),
                ("gone", ""),
                ("risen", COPIES_COLUMN),
                ("fresh", COPIES_COLUMN + ranked),
                ("later", COPIES_COLUMN + ranked),
                ("entered", ""),
            ):
                tables.work_table(table, suffix, table.columns, extra)

    def table_of(self, rule: RowRule) -> RowTable:
        """Return the table of a rule's head."""
        return self.tables.tables[rule.head]

    def own_places(self, rule: RowRule) -> list[int]:
        """Return the places of a rule's literals of the stratum itself."""
        return [number for number, source in enumerate(rule.sources) if source.table in self.members]

    def has(self, suffix: str) -> dict[str, bool]:
        """Return which relations have rows in a work table."""
        return {table.relation.table: self.tables.has_rows(table.work(suffix)) for table in self.own}

    # ---- deletions -------------------------------------------------------------------------------------------------

    def delete(self) -> None:
        """Lead from the old state to mid: what loses its last support leaves."""
        lost = dict.fromkeys(self.members, 0)

        def emit(rule: RowRule, found: Derivations) -> None:
            lost[rule.head] += self.take(rule, found)

        run_deltas(self.tables, self.stratum, "delete", emit)
        self.subtract(lost)

    def take(self, rule: RowRule, found: Derivations) -> int:
        """Note the derivations that support a stored head; return how many heads have such."""
        table = self.table_of(rule)
        heads = self.stored_heads(rule, found, ["_head._support > 0"])
        return add_derivations(self.tables, table.work("taken"), listed(table.columns), heads)

    def stored_heads(self, rule: RowRule, found: Derivations, further: Sequence[str] = ()) -> str:
        """Return the query for the stored heads that derivations support, which meet further conditions."""
        table = self.table_of(rule)
        at = [f"_head.{quoted_sql(c)} = {value}" for c, value in zip(table.columns, found.values, strict=True)]
        conditions = [*at, *further, f"_head._rank > {found.rank}"]
        return found.select(
            [*(f"_head.{quoted_sql(c)}" for c in table.columns), "1"], conditions, [f"{table.name} AS _head"]
        )

    def subtract(self, lost: dict[str, int], dead: dict[str, int] | None = None) -> None:
        """Subtract derivations from supports until nothing dies any more; what was dead already dies first."""
        execute = self.tables.execute
        while dead or any(lost.values()):
            if not dead:
                dead = {}
                for table in self.own:
                    columns, taken = listed(table.columns), table.work("taken")
                    execute(f"DELETE FROM {table.work('dead')}")
                    dead[table.relation.table] = 0
                    if not lost[table.relation.table]:
                        continue
                    execute(
                        f"INSERT INTO {table.name} ({columns}, _support, _rank) SELECT {columns}, _copies, 0 "
                        f"FROM {taken} WHERE TRUE ON CONFLICT DO UPDATE SET _support = _support - excluded._support"
                    )
                    dead[table.relation.table] = execute(
                        f"INSERT INTO {table.work('dead')} ({columns}, _rank) "
                        f"SELECT {listed(table.columns, 's')}, s._rank "
                        f"FROM {taken} AS t CROSS JOIN {table.name} AS s WHERE {same(table.columns, 't', 's')} "
                        "AND s._support = 0"
                    ).rowcount
                    execute(f"DELETE FROM {taken}")
            lost = dict.fromkeys(self.members, 0)
            for rule in self.stratum.rules:
                own = self.own_places(rule)
                for place in own:
                    changed = self.tables.tables[rule.sources[place].table]
                    if not dead.get(changed.relation.table):
                        continue
                    before = {
                        j: (self.tables.tables[rule.sources[j].table].name, "{}._support > 0") for j in own if j < place
                    }
                    found = row_derivations(
                        self.tables,
                        rule,
                        (place, changed.work("dead")),
                        before,
                        absences(self.tables, rule, MID_ROWS),
                        self.members,
                    )
                    lost[rule.head] += self.take(rule, found)
            for table in self.own:
                if dead.get(table.relation.table):
                    self.tables.remove(table, table.work("dead"))
                    columns = listed(table.columns)
                    execute(f"INSERT INTO {table.work('gone')} SELECT {columns} FROM {table.work('dead')}")
            dead = None

    # ---- insertions ------------------------------------------------------------------------------------------------

    def insert(self) -> None:
        """Let what left return, and new tuples enter, if derivations support them."""
        tables = self.tables
        for name in below(self.stratum):
            tables.move(name, MID_ROWS)
        gone = self.has("gone")
        for rule in self.stratum.rules:
            if gone[rule.head]:
                table = self.table_of(rule)
                found = row_derivations(
                    tables,
                    rule,
                    absent=absences(tables, rule, MID_ROWS),
                    members=self.members,
                    first=f"{table.work('gone')} AS _gone",
                )
                at = [
                    f"_gone.{quoted_sql(c)} = {value}"
                    for c, value in zip(table.columns, found.values, strict=True)
                    if c in table.key
                ]
                self.enter("fresh", rule, found, at)

        def emit(rule: RowRule, found: Derivations) -> None:
            table = self.table_of(rule)
            add_derivations(tables, table.work("risen"), listed(table.columns), self.stored_heads(rule, found))
            self.enter("fresh", rule, found)

        run_deltas(tables, self.stratum, "insert", emit)
        for table in self.own:
            columns = listed(table.columns)
            tables.execute(
                f"INSERT INTO {table.name} ({columns}, _support, _rank) SELECT {columns}, _copies, 0 FROM "
                f"{table.work('risen')} WHERE TRUE ON CONFLICT DO UPDATE SET _support = _support + excluded._support"
            )
        self.rounds()

    def enter(self, into: str, rule: RowRule, found: Derivations, further: list[str] | None = None) -> None:
        """Note the derivations of heads that are not stored; with an extremum, only of the best values."""
        table = self.table_of(rule)
        values = list(zip(table.columns, found.values, strict=True))

        def at(alias: str) -> str:
            return " AND ".join(f"{alias}.{quoted_sql(c)} = {value}" for c, value in values)

        # A value that is none refuses the batch.
        lacks = [found.lacks] if found.lacking else []
        absent = f"NOT EXISTS (SELECT 1 FROM {table.name} AS _head WHERE {at('_head')})"
        conditions = [*(further or []), f"({' OR '.join([absent, *lacks])})"]
        if table.relation.best:
            doubtful = [f"({value}) IS NULL" for value in found.values if not PLAIN_COLUMN.fullmatch(value)] + lacks
            best = f"EXISTS (SELECT 1 FROM {table.work('best')} AS _best WHERE {at('_best')})"
            conditions.append(f"({' OR '.join([best, *doubtful])})")
        query = found.select([*found.values, "1"], conditions)
        add_derivations(self.tables, table.work(into), listed(table.columns), query)

    def rounds(self) -> None:
        """Let tuples enter in rounds, each with a rank of its own."""
        tables, new, old, done = self.tables, "fresh", "later", 0
        while True:
            tables.clock += 1
            entered: dict[str, int] = {}
            for table in self.own:
                columns = listed(table.columns)
                tables.execute(f"UPDATE {table.work(new)} SET _rank = ?", (tables.clock,))
                entered[table.relation.table] = tables.execute(
                    f"INSERT INTO {table.name} ({columns}, _support, _rank) SELECT {columns}, _copies, _rank FROM "
                    f"{table.work(new)}"
                ).rowcount
                table.entered += entered[table.relation.table]
                if entered[table.relation.table]:
                    tables.execute(f"INSERT INTO {table.work('entered')} SELECT {columns} FROM {table.work(new)}")
                tables.execute(f"DELETE FROM {table.work(old)}")
            if not any(entered.values()):
                return
            done += 1
            tables.check_round(self.stratum.name, done)
            for rule in self.stratum.rules:
                own = self.own_places(rule)
                for place in own:
                    changed = tables.tables[rule.sources[place].table]
                    if not entered[changed.relation.table]:
                        continue
                    before = {
                        j: (tables.tables[rule.sources[j].table].name, f"{{}}._rank < {tables.clock}")
                        for j in own
                        if j > place
                    }
                    found = row_derivations(
                        tables, rule, (place, changed.work(new)), before, absences(tables, rule, NEW_ROWS), self.members
                    )
                    self.enter(old, rule, found)
            new, old = old, new

    def note(self) -> None:
        """Note what was lost and gained: what left and did not return, and what entered and had not left."""
        for table in self.own:
            gone, entered = table.work("gone"), table.work("entered")
            columns = listed(table.columns)
            table.lost = self.tables.execute(
                f"INSERT INTO {table.work('lost')} ({columns}) SELECT {columns} FROM {gone} AS g WHERE NOT EXISTS "
                f"(SELECT 1 FROM {entered} AS e WHERE {same(table.columns, 'g', 'e')})"
            ).rowcount
            table.gained = self.tables.execute(
                f"INSERT INTO {table.work('gained')} ({listed(table.state)}) SELECT {listed(table.state, 's')} "
                f"FROM {entered} AS e CROSS JOIN {table.name} AS s WHERE {same(table.columns, 's', 'e')} "
                f"AND NOT EXISTS (SELECT 1 FROM {gone} AS g WHERE {same(table.columns, 'g', 'e')})"
            ).rowcount
            table.version, table.entered = NEW_ROWS, 0


def maintain_ranked_rows(tables: RowTables, stratum: RowStratum) -> None:
    """Delete unsupported tuples, then let dead ones return and new ones enter if supported."""
    ranks = Ranks(tables, stratum)
    ranks.delete()
    ranks.insert()
    ranks.note()


ROW_METHODS["ranked"] = maintain_ranked_rows
LAYOUTS["ranked"] = lambda stratum, relation, columns: (columns, ("_support", "_rank"))
