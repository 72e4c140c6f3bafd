"""Which identities of base facts are dead, which have died in a batch, and which are dead no more."""

from __future__ import annotations

import json

from ..kernel.model import LIFE
from .model import ProofStratum
from .tables import NEW_ROWS, RowTable, RowTables, listed, quoted_sql, stored


class Liveness:
    """What the guards of a stratum say: the lives that are there, and ranges of dead identities."""

    def __init__(self, tables: RowTables, stratum: ProofStratum) -> None:
        self.tables, self.overlaps = tables, dict(stratum.overlaps)
        self.lives, *self.dead = (tables.tables[name] for name in stratum.guards)
        self.life = quoted_sql(self.lives.columns[1])

    def show_new(self) -> None:
        """Bring the guards to their new version, which all conditions are for."""
        for table in (self.lives, *self.dead):
            self.tables.move(table.relation.table, NEW_ROWS)
        for name in self.overlaps.values():
            self.tables.move(name, NEW_ROWS)

    def is_dead(self, identity: str) -> str:
        """Return the condition that an identity is dead."""
        life = f"substr({identity}, 1, {LIFE})"
        parts = [f"NOT EXISTS (SELECT 1 FROM {self.lives.name} AS l WHERE l.{self.life} = {life})"]
        for guard in self.dead:
            first, last = (f"d.{quoted_sql(column)}" for column in guard.columns)
            overlaps = self.overlaps.get(guard.relation.table)
            if overlaps and self.tables.has_rows(stored(overlaps)):
                within = f"{first} BETWEEN {life} AND {identity} AND {last} >= {identity}"
                parts.append(f"EXISTS (SELECT 1 FROM {guard.name} AS d WHERE {within})")
            else:
                parts.append(f"{last_before(guard, identity)} >= {identity}")
        return f"({' OR '.join(parts)})"

    def died(self, table: str) -> list[str]:
        """Return FROM items and conditions for the rows ``i`` of a table with an identity that has died."""
        ways = []
        if self.lives.lost:
            there = f"SELECT 1 FROM {self.lives.name} AS l WHERE l.{self.life} = g.{self.life}"
            ways.append(f"{of_life(self.lives, 'lost', table)} AND NOT EXISTS ({there})")
        return ways + [in_range(guard, "gained", table) for guard in self.dead if guard.gained]

    def revived(self, table: str) -> list[str]:
        """Return the same for rows with an identity that is dead no more."""
        ways = [of_life(self.lives, "gained", table)] if self.lives.gained else []
        for guard in self.dead:
            if guard.lost:
                # Mostly a longer range has come in the place of one.
                first, last = (f"g.{quoted_sql(column)}" for column in guard.columns)
                ways.append(f"{in_range(guard, 'lost', table)} AND {last_before(guard, first)} < {last}")
        return [f"{way} AND NOT {self.is_dead('i._id')}" for way in ways]


def of_life(lives: RowTable, changed: str, table: str) -> str:
    """Return FROM items and conditions for the rows ``i`` of a table with an identity of a life ``g`` that changed."""
    life = f"g.{quoted_sql(lives.columns[1])}"
    # Behind the life there is a digit.
    return f"{lives.work(changed)} AS g CROSS JOIN {table} AS i WHERE i._id > {life} AND i._id < {life} || ':'"


def in_range(guard: RowTable, changed: str, table: str) -> str:
    """Return the same for identities in a dead range ``g`` that changed."""
    first, last = (f"g.{quoted_sql(column)}" for column in guard.columns)
    return f"{guard.work(changed)} AS g CROSS JOIN {table} AS i WHERE i._id BETWEEN {first} AND {last}"


def last_before(guard: RowTable, identity: str) -> str:
    """Return SQL for the end of the last dead range that begins before an identity or with it, empty if none does."""
    first, last = (f"d.{quoted_sql(column)}" for column in guard.columns)
    found = f"SELECT {last} FROM {guard.name} AS d WHERE {first} <= {identity} ORDER BY {first} DESC LIMIT 1"
    return f"coalesce(({found}), '')"


def index_proofs(tables: RowTables, table: RowTable, rows: str, into: str) -> int:
    """Add the identities in the proofs of rows to a table, each with the key of the row; return how many."""
    found = tables.execute(f"SELECT {listed((table.columns[-1], *table.key))} FROM {rows}")
    pairs = ((identity, *key) for proof, *key in found for identity in json.loads(proof))
    marks = ", ".join("?" * (len(table.key) + 1))
    return max(tables.connection.executemany(f"INSERT OR IGNORE INTO {into} VALUES ({marks})", pairs).rowcount, 0)
