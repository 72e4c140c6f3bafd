"""Maintain recursive strata whose relations keep the least or greatest value of each group, in place.

As in the columns' method, better values first replace worse ones until none is bettered, which finds the best values
and is undone; then what was bettered leaves, with what was derived from it alone; then only best values enter.
"""

from __future__ import annotations

from ..kernel.errors import UNCHANGED, Refused
from .deltas import Derivations, absences, below, row_derivations, run_deltas
from .model import WHOLE_GROUP, RowRelation, RowRule, RowStratum
from .ranked import Ranks
from .tables import (
    LAYOUTS,
    MID_ROWS,
    NEW_ROWS,
    ROW_METHODS,
    RowTable,
    RowTables,
    better_value,
    listed,
    quoted_sql,
    same,
)


def extremal_layout(
    stratum: RowStratum, relation: RowRelation, columns: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return which columns are those of a group, and what is kept with a row."""
    kept = ("_support", "_rank")
    if not relation.best:
        return columns, kept
    key = tuple(column for column in columns if column != relation.best[1])
    return (key, kept) if key else ((WHOLE_GROUP,), (*kept, WHOLE_GROUP))


def maintain_extremal_rows(tables: RowTables, stratum: RowStratum) -> None:
    """Delete unsupported tuples, find the best values and replace worse ones with them."""
    ranks = Ranks(tables, stratum)
    ranks.delete()
    Improvement(ranks).find()
    ranks.insert()
    for table in ranks.own:
        check_rows_reached(tables, table)
    ranks.note()


def check_rows_reached(tables: RowTables, table: RowTable) -> None:
    """Raise Refused if a best value has not entered: then it follows only from values that follow from it."""
    left = f"SELECT 1 FROM {table.work('entered')} AS e WHERE {same(table.columns, 'b', 'e')}"
    if (
        table.relation.best
        and tables.execute(f"SELECT 1 FROM {table.work('best')} AS b WHERE NOT EXISTS ({left})").fetchone()
    ):
        raise Refused(f"values of {table.relation.name} only follow from each other", UNCHANGED)


class Improvement:
    """The search for the best values of a stratum."""

    def __init__(self, ranks: Ranks) -> None:
        self.ranks, self.tables, self.stratum = ranks, ranks.tables, ranks.stratum
        for table in ranks.own:
            for suffix, columns, extra in (
                ("candidates", table.columns, ""),
                ("better", table.columns, ", _rank INTEGER"),
                ("replaced", table.state, ""),
                ("added", table.key, ""),
            ):
                self.tables.work_table(table, suffix, columns, extra, table.key)
            self.tables.work_table(table, "best", table.columns)
            self.tables.work_table(table, "was", table.columns)

    def better(self, table: RowTable, one: str, other: str, equal: bool = False) -> str:
        """Return SQL for one value being better than another."""
        assert table.relation.best is not None
        value = quoted_sql(table.relation.best[1])
        return better_value(table.relation, f"{one}{value}", f"{other}{value}", equal)

    def candidates(self, rule: RowRule, found: Derivations, further: list[str] | None = None) -> None:
        """Note the best value of each group that derivations give."""
        table = self.ranks.table_of(rule)
        into = table.work("candidates")
        action = "NOTHING"
        if table.relation.best:
            value = quoted_sql(table.relation.best[1])
            action = f"UPDATE SET {value} = excluded.{value} WHERE {self.better(table, 'excluded.', '')}"
        defined = [f"({value}) IS NOT NULL" for value in (*found.values, *found.lacking)]
        self.tables.execute(
            f"INSERT INTO {into} ({listed(table.columns)}) "
            f"{found.select(found.values, [*(further or []), *defined])} ON CONFLICT DO {action}"
        )

    def find(self) -> None:
        """Fill r__best, and let leave what was bettered."""
        tables, ranks = self.tables, self.ranks
        run_deltas(tables, self.stratum, "insert", self.candidates)
        gone = ranks.has("gone")
        for rule in self.stratum.rules:
            if gone[rule.head]:
                table = ranks.table_of(rule)
                found = row_derivations(
                    tables, rule, absent=absences(tables, rule, NEW_ROWS), first=f"{table.work('gone')} AS _gone"
                )
                groups = [
                    f"_gone.{quoted_sql(c)} = {value}"
                    for c, value in zip(table.columns, found.values, strict=True)
                    if c in table.key
                ]
                self.candidates(rule, found, groups)
        done = 0
        while any((bettered := self.replace_worse()).values()):
            tables.check_round(self.stratum.name, done)
            done += 1
            for rule in self.stratum.rules:
                for place, source in enumerate(rule.sources):
                    if bettered.get(source.table):
                        changed = tables.tables[source.table].work("better")
                        self.candidates(
                            rule,
                            row_derivations(tables, rule, (place, changed), None, absences(tables, rule, NEW_ROWS)),
                        )
        self.let_leave(self.undo())

    def replace_worse(self) -> dict[str, int]:
        """Put candidates that are better than what is stored in its place; return how many by table."""
        tables, bettered = self.tables, {}
        for table in self.ranks.own:
            columns, key = listed(table.columns), same(table.key, "s", "c")
            better, candidates = table.work("better"), table.work("candidates")
            tables.execute(f"DELETE FROM {better}")
            as_good = f" AND {self.better(table, 's.', 'c.', equal=True)}" if table.relation.best else ""
            bettered[table.relation.table] = tables.execute(
                f"INSERT INTO {better} ({columns}, _rank) SELECT {columns}, 0 FROM {candidates} AS c WHERE NOT EXISTS "
                f"(SELECT 1 FROM {table.name} AS s WHERE {key}{as_good})"
            ).rowcount
            tables.execute(f"DELETE FROM {candidates}")
            table.entered += bettered[table.relation.table]
            if not bettered[table.relation.table]:
                continue
            found = same(table.key, "s", "b")
            tables.execute(
                f"INSERT INTO {table.work('added')} SELECT {listed(table.key)} FROM {better} AS b WHERE NOT EXISTS "
                f"(SELECT 1 FROM {table.name} AS s WHERE {found})"
            )
            state = listed(table.state)
            tables.execute(
                f"INSERT OR IGNORE INTO {table.work('replaced')} ({state}) SELECT {listed(table.state, 's')} "
                f"FROM {better} AS b CROSS JOIN {table.name} AS s WHERE {found} AND s._support > 0"
            )
            tables.execute(
                f"INSERT OR REPLACE INTO {table.name} ({columns}, _support, _rank) SELECT {columns}, 0, 0 FROM {better}"
            )
        return bettered

    def undo(self) -> dict[str, int]:
        """Note the best values in r__best and restore what was replaced, as dead; return how many rows are dead."""
        tables, dead = self.tables, {}
        for table in self.ranks.own:
            table.entered = 0
            columns = listed(table.columns)
            replaced, added = table.work("replaced"), table.work("added")
            for of in (replaced, added):
                tables.execute(
                    f"INSERT INTO {table.work('best')} SELECT {listed(table.columns, 's')} FROM {of} AS t CROSS JOIN "
                    f"{table.name} AS s WHERE {same(table.key, 's', 't')}"
                )
            tables.remove(table, added)
            tables.execute(
                f"INSERT OR REPLACE INTO {table.name} ({columns}, _support, _rank) SELECT {columns}, 0, _rank "
                f"FROM {replaced}"
            )
            tables.execute(f"DELETE FROM {table.work('dead')}")
            dead[table.relation.table] = tables.execute(
                f"INSERT INTO {table.work('dead')} ({columns}, _rank) SELECT {columns}, _rank FROM {replaced}"
            ).rowcount
        return dead

    def let_leave(self, dead: dict[str, int]) -> None:
        """Let what was bettered leave, and all that was derived from it alone; what leaves without having been bettered
        comes back with its value."""
        if not any(dead.values()):
            return
        tables = self.tables
        for name in below(self.stratum):
            tables.move(name, MID_ROWS)
        for table in self.ranks.own:
            tables.execute(f"INSERT INTO {table.work('was')} SELECT {listed(table.columns)} FROM {table.work('gone')}")
        self.ranks.subtract(dict.fromkeys(self.ranks.members, 0), dead)
        for table in self.ranks.own:
            was = f"SELECT 1 FROM {table.work('was')} AS w WHERE {same(table.columns, 'w', 'g')}"
            bettered = f"SELECT 1 FROM {table.work('replaced')} AS w WHERE {same(table.key, 'w', 'g')}"
            tables.execute(
                f"INSERT INTO {table.work('best')} SELECT {listed(table.columns)} FROM {table.work('gone')} AS g "
                f"WHERE NOT EXISTS ({was}) AND NOT EXISTS ({bettered})"
            )


ROW_METHODS["extremal"] = maintain_extremal_rows
LAYOUTS["extremal"] = extremal_layout
