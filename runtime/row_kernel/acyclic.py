"""Maintain recursions with sums, counts and averages, by computing groups in the order of their dependencies.

As in the columns' method, a group is affected if its derivations change, or if it depends on an affected one. Each is
computed once, when no group that it depends on is still to be computed.
"""

from __future__ import annotations

from dataclasses import replace

from ..kernel.errors import UNCHANGED, Refused
from .aggregate import compute_row_groups, group_layout
from .deltas import Derivations, absences, begin_row_changes, below, row_derivations, run_deltas
from .model import WHOLE_GROUP, RowGrouping, RowRule, RowStratum
from .tables import LAYOUTS, NEW_ROWS, ROW_METHODS, RowTable, RowTables, listed, quoted_sql, same


class Order:
    """A recursion that orders its groups, while a batch changes it. Groups are rows of the tables that have all groups
    that there may be, with the names of their columns."""

    def __init__(self, tables: RowTables, stratum: RowStratum) -> None:
        self.tables, self.stratum = tables, stratum
        self.groups = {g.table: tables.tables[g.of] for g in stratum.groupings}
        begin_row_changes(tables, stratum)
        for grouping in stratum.groupings:
            of, table = self.groups[grouping.table], tables.tables[grouping.table]
            for suffix in ("marked", "wave", "waiting", "ready", "soon"):
                tables.work_table(of, suffix, of.columns)
            for suffix in ("was", "computed"):
                tables.work_table(table, suffix, table.state, key=table.columns)
            tables.work_table(table, "marks", grouping.groups or (WHOLE_GROUP,))
            tables.work_table(table, "next", table.state, key=table.key)

    def edges(self, grouping: RowGrouping, of: RowTable) -> str:
        """Return the name of the table of what groups of a relation depend on, in SQL."""
        return self.tables.tables[grouping.table].work(f"on_{of.relation.table}")

    def ends(self, grouping: RowGrouping, of: RowTable) -> tuple[list[str], list[str]]:
        """Return the columns of both ends of a dependency."""
        return (
            [f"_to_{place}" for place, _ in enumerate(self.groups[grouping.table].columns)],
            [f"_from_{place}" for place, _ in enumerate(of.columns)],
        )

    def run(self) -> None:
        """Compute all affected groups."""
        tables = self.tables
        for grouping in self.stratum.groupings:
            marked = self.groups[grouping.table].work("marked")

            def mark(rule: RowRule, found: Derivations, marked: str = marked) -> None:
                tables.execute(f"INSERT INTO {marked} {found.select(found.values)} ON CONFLICT DO NOTHING")

            pretended = replace(self.stratum, kind="counted", relations=(), rules=grouping.marks)
            for phase in ("delete", "insert"):
                run_deltas(tables, pretended, phase, mark)
        for name in below(self.stratum):
            tables.move(name, NEW_ROWS)
        for grouping in self.stratum.groupings:
            self.drop_groups(grouping)
        self.find_dependencies()
        self.compute()
        self.note()

    def drop_groups(self, grouping: RowGrouping) -> None:
        """Remove the rows of marked groups that there cannot be any more."""
        of, table = self.groups[grouping.table], self.tables.tables[grouping.table]
        there = f"SELECT 1 FROM {of.name} AS s WHERE {same(of.columns, 's', 'm')}"
        marked = of.work("marked")
        self.tables.execute(f"INSERT INTO {of.work('ready')} SELECT * FROM {marked} AS m WHERE NOT EXISTS ({there})")
        if self.tables.has_rows(of.work("ready")):
            self.mark_rows(grouping)
            self.remove_rows(grouping, table)
            self.tables.execute(f"DELETE FROM {marked} AS m WHERE NOT EXISTS ({there})")

    def mark_rows(self, grouping: RowGrouping) -> None:
        """Fill r__marks with r__ready, whose columns have the names that the relation gives them."""
        table, of = self.tables.tables[grouping.table], self.groups[grouping.table]
        self.tables.execute(f"DELETE FROM {table.work('marks')}")
        self.tables.execute(f"INSERT INTO {table.work('marks')} SELECT {listed(of.columns)} FROM {of.work('ready')}")

    def remove_rows(self, grouping: RowGrouping, table: RowTable) -> None:
        """Remove the rows of the groups in r__marks, and note them in r__was."""
        state, marks, groups = listed(table.state), table.work("marks"), grouping.groups
        self.tables.execute(
            f"INSERT INTO {table.work('was')} ({state}) SELECT {listed(table.state, 's')} FROM {marks} AS m CROSS JOIN "
            f"{table.name} AS s WHERE {same(groups, 'm', 's')}"
        )
        among = (
            f"({listed(groups)}) IN (SELECT {listed(groups)} FROM {marks})"
            if groups
            else f"EXISTS (SELECT 1 FROM {marks})"
        )
        self.tables.execute(f"DELETE FROM {table.name} WHERE {among}")

    def find_dependencies(self) -> None:
        """Mark all groups that depend on a marked one, and note the dependencies of groups on marked ones."""
        tables = self.tables
        for grouping in self.stratum.groupings:
            of = self.groups[grouping.table]
            tables.execute(f"INSERT INTO {of.work('wave')} SELECT * FROM {of.work('marked')}")
            for other in self.groups.values():
                name = self.edges(grouping, other)
                to, start = self.ends(grouping, other)
                if name in tables.made:
                    tables.execute(f"DELETE FROM {name}")
                    continue
                tables.made.add(name)
                kinds = [of.types.get(c, "") for c in of.columns] + [other.types.get(c, "") for c in other.columns]
                columns = ", ".join(f"{c} {kind}" for c, kind in zip([*to, *start], kinds, strict=True))
                bare, key = name.removeprefix("temp."), ", ".join([*to, *start])
                tables.execute(f"CREATE TEMP TABLE {bare} ({columns}, PRIMARY KEY ({key})) WITHOUT ROWID")
                index = tables.tables[grouping.table].work(f"from_{other.relation.table}")
                tables.execute(f"CREATE INDEX {index} ON {bare} ({', '.join([*start, *to])})")
        done = 0
        while any(tables.has_rows(of.work("wave")) for of in self.groups.values()):
            tables.check_round(self.stratum.name, done)
            done += 1
            for grouping in self.stratum.groupings:
                for rule, place in grouping.leads:
                    other = tables.tables[rule.sources[place].table]
                    if tables.has_rows(other.work("wave")):
                        found = row_derivations(
                            tables, rule, (place, other.work("wave")), absent=absences(tables, rule, NEW_ROWS)
                        )
                        edges = self.edges(grouping, other)
                        tables.execute(f"INSERT INTO {edges} {found.select(found.values)} ON CONFLICT DO NOTHING")
            for grouping in self.stratum.groupings:
                of = self.groups[grouping.table]
                tables.execute(f"DELETE FROM {of.work('soon')}")
                for other in self.groups.values():
                    to, start = self.ends(grouping, other)
                    reached = " AND ".join(
                        f"w.{quoted_sql(c)} = e.{name}" for c, name in zip(other.columns, start, strict=True)
                    )
                    tables.execute(
                        f"INSERT OR IGNORE INTO {of.work('soon')} SELECT {', '.join(f'e.{c}' for c in to)} "
                        f"FROM {other.work('wave')} AS w CROSS JOIN {self.edges(grouping, other)} AS e WHERE {reached}"
                    )
            for of in self.groups.values():
                known = f"SELECT 1 FROM {of.work('marked')} AS m WHERE {same(of.columns, 'm', 's')}"
                tables.execute(f"DELETE FROM {of.work('wave')}")
                tables.execute(
                    f"INSERT INTO {of.work('wave')} SELECT * FROM {of.work('soon')} AS s WHERE NOT EXISTS ({known})"
                )
                tables.execute(f"INSERT INTO {of.work('marked')} SELECT * FROM {of.work('wave')}")

    def compute(self) -> None:
        """Compute marked groups, each after those that it depends on."""
        tables = self.tables
        for of in self.groups.values():
            tables.execute(f"INSERT INTO {of.work('waiting')} SELECT * FROM {of.work('marked')}")
            tables.execute(
                f"INSERT INTO {of.work('soon')} SELECT * FROM {of.work('marked')} WHERE TRUE ON CONFLICT DO NOTHING"
            )
        while True:
            for grouping in self.stratum.groupings:
                self.choose_ready(grouping)
            if not any(tables.has_rows(of.work("ready")) for of in self.groups.values()):
                break
            for grouping in self.stratum.groupings:
                self.compute_ready(grouping)
            for of in self.groups.values():
                columns = listed(of.columns)
                tables.execute(
                    f"DELETE FROM {of.work('waiting')} WHERE ({columns}) IN (SELECT {columns} FROM {of.work('ready')})"
                )
            for grouping in self.stratum.groupings:
                self.list_next(grouping)
        for grouping in self.stratum.groupings:
            if tables.has_rows(self.groups[grouping.table].work("waiting")):
                relation = tables.tables[grouping.table].relation
                raise Refused(
                    f"{relation.source}: a group of {relation.name} depends on itself, so its value has no order in "
                    "which it could be computed",
                    UNCHANGED,
                )

    def choose_ready(self, grouping: RowGrouping) -> None:
        """Fill r__ready with groups in r__soon that wait for none that waits."""
        of = self.groups[grouping.table]
        unmet = []
        for other in self.groups.values():
            to, start = self.ends(grouping, other)
            tests = [f"e.{name} = s.{quoted_sql(c)}" for c, name in zip(of.columns, to, strict=True)]
            tests += [f"w.{quoted_sql(c)} = e.{name}" for c, name in zip(other.columns, start, strict=True)]
            unmet.append(
                f"NOT EXISTS (SELECT 1 FROM {self.edges(grouping, other)} AS e CROSS JOIN {other.work('waiting')} AS w "
                f"WHERE {' AND '.join(tests)})"
            )
        self.tables.execute(f"DELETE FROM {of.work('ready')}")
        self.tables.execute(
            f"INSERT INTO {of.work('ready')} SELECT * FROM {of.work('soon')} AS s WHERE {' AND '.join(unmet)}"
        )

    def list_next(self, grouping: RowGrouping) -> None:
        """Fill r__soon with waiting groups that depend on one just computed."""
        of = self.groups[grouping.table]
        self.tables.execute(f"DELETE FROM {of.work('soon')}")
        for other in self.groups.values():
            to, start = self.ends(grouping, other)
            tests = [f"e.{name} = r.{quoted_sql(c)}" for c, name in zip(other.columns, start, strict=True)]
            self.tables.execute(
                f"INSERT OR IGNORE INTO {of.work('soon')} SELECT {', '.join(f'e.{c}' for c in to)} "
                f"FROM {other.work('ready')} AS r CROSS JOIN {self.edges(grouping, other)} AS e "
                f"WHERE {' AND '.join(tests)}"
            )

    def compute_ready(self, grouping: RowGrouping) -> None:
        """Compute r__ready, and put their rows in place of the old ones."""
        tables, table, of = self.tables, self.tables.tables[grouping.table], self.groups[grouping.table]
        marks, following = table.work("marks"), table.work("next")
        if not tables.has_rows(of.work("ready")):
            return
        self.mark_rows(grouping)
        tables.execute(f"DELETE FROM {following}")
        compute_row_groups(tables, self.stratum, table, marks, following, grouping.groups)
        self.remove_rows(grouping, table)
        state = listed(table.state)
        for into in (table.name, table.work("computed")):
            tables.execute(f"INSERT INTO {into} ({state}) SELECT {state} FROM {following}")

    def note(self) -> None:
        """Note what was lost and gained."""
        for relation in self.stratum.relations:
            table = self.tables.tables[relation.table]
            state = listed(table.state)
            for suffix, rows, others in (("lost", "was", "computed"), ("gained", "computed", "was")):
                among = f"SELECT 1 FROM {table.work(others)} AS o WHERE {same(table.columns, 'o', 'r')}"
                count = self.tables.execute(
                    f"INSERT INTO {table.work(suffix)} ({state}) SELECT {state} FROM {table.work(rows)} AS r "
                    f"WHERE NOT EXISTS ({among})"
                ).rowcount
                setattr(table, suffix, count)
            table.version = NEW_ROWS


def maintain_acyclic_rows(tables: RowTables, stratum: RowStratum) -> None:
    """Compute the affected groups again, each after those that it depends on."""
    Order(tables, stratum).run()


ROW_METHODS["acyclic"] = maintain_acyclic_rows
LAYOUTS["acyclic"] = group_layout
