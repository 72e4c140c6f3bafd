"""What other processes send with proofs: it counts while these are live.

A tuple whose proof is dead waits for one of its dead identities, since a life that is unknown may become known, and a
message about a range may be overtaken by others.
"""

from __future__ import annotations

import json

from .liveness import Liveness
from .model import KeptProofs
from .tables import RowTable, RowTables, listed, quoted_sql, same


class Received:
    """The tuples with proofs of a relation that are to be looked at in a batch, r__sent, and those that wait."""

    def __init__(self, tables: RowTables, table: RowTable, kept: KeptProofs, liveness: Liveness) -> None:
        self.tables, self.table, self.liveness = tables, table, liveness
        self.source = tables.tables[kept.received] if kept.received else None
        self.waiting = tables.tables[kept.waiting] if kept.waiting else None
        self.sent, self.ids, self.dead = (table.work(suffix) for suffix in ("sent", "sent_ids", "sent_dead"))
        columns = ", ".join(f"{quoted_sql(c)} {table.types.get(c, 'INTEGER')} NOT NULL" for c in table.state)
        tables.make(self.sent, f"{columns}, PRIMARY KEY ({listed(table.columns)})")
        tables.make(self.ids, "_id TEXT, _row INTEGER, PRIMARY KEY (_id, _row)", "WITHOUT ROWID")
        tables.make(self.dead, "_id TEXT PRIMARY KEY", "WITHOUT ROWID")
        if self.waiting:
            tables.work_table(self.waiting, "revived", self.waiting.columns)

    def take_back(self) -> None:
        """Let what was withdrawn wait no longer."""
        if self.source and self.waiting and self.source.lost:
            pairs = zip(self.table.columns, self.source.columns, strict=True)
            at = " AND ".join(f"w.{quoted_sql(one)} = g.{quoted_sql(other)}" for one, other in pairs)
            self.tables.execute(
                f"INSERT OR IGNORE INTO {self.waiting.work('lost')} SELECT {listed(self.waiting.columns, 'w')} "
                f"FROM {self.source.work('lost')} AS g CROSS JOIN {self.waiting.name} AS w WHERE {at}"
            )

    def revive(self) -> str:
        """Return the table of what waits for identities that are dead no more, empty if there is nothing of this."""
        if not self.waiting:
            return ""
        lost, revived = self.waiting.work("lost"), self.waiting.work("revived")
        there = f"SELECT 1 FROM {lost} AS o WHERE {same(self.waiting.columns, 'o', 'i')}"
        ways = self.liveness.revived(self.waiting.name)
        found = sum(
            self.tables.execute(
                f"INSERT OR IGNORE INTO {revived} SELECT {listed(self.waiting.columns, 'i')} FROM {way} "
                f"AND NOT EXISTS ({there})"
            ).rowcount
            for way in ways
        )
        if found:
            self.tables.execute(f"INSERT INTO {lost} SELECT * FROM {revived}")
        return revived if found else ""

    def leave_out_dead(self) -> None:
        """Let those of r__sent whose proofs are dead wait."""
        execute = self.tables.execute
        rows = execute(f"SELECT rowid, {quoted_sql(self.table.columns[-1])} FROM {self.sent}")
        pairs = ((identity, number) for number, text in rows for identity in json.loads(text))
        self.tables.connection.executemany(f"INSERT OR IGNORE INTO {self.ids} VALUES (?, ?)", pairs)
        distinct = f"(SELECT DISTINCT _id FROM {self.ids}) AS i"
        dead = f"INSERT INTO {self.dead} SELECT _id FROM {distinct} WHERE {self.liveness.is_dead('i._id')}"
        if not self.tables.has_rows(self.ids) or not execute(dead).rowcount:
            return
        if self.waiting:
            gained, lost, columns = (
                self.waiting.work("gained"),
                self.waiting.work("lost"),
                listed(self.table.columns, "s"),
            )
            first = f"SELECT MIN(i._id) AS _id, i._row FROM {self.dead} AS d CROSS JOIN {self.ids} AS i "
            first += "WHERE i._id = d._id GROUP BY i._row"
            execute(
                f"INSERT INTO {gained} SELECT f._id, {columns} FROM ({first}) AS f CROSS JOIN {self.sent} AS s "
                f"WHERE s.rowid = f._row AND NOT EXISTS (SELECT 1 FROM {self.waiting.name} AS o WHERE o._id = f._id "
                f"AND {same(self.table.columns, 'o', 's')} AND NOT EXISTS (SELECT 1 FROM {lost} AS l "
                f"WHERE l._id = f._id AND {same(self.table.columns, 'l', 's')}))"
            )
        ids = f"SELECT _row FROM {self.ids} WHERE _id IN (SELECT _id FROM {self.dead})"
        execute(f"DELETE FROM {self.sent} WHERE rowid IN ({ids})")

    def note(self) -> None:
        """Note how many tuples wait no longer, and how many now do."""
        if self.waiting:
            counts = (self.tables.count(self.waiting.work(suffix)) for suffix in ("lost", "gained"))
            self.waiting.lost, self.waiting.gained = counts
