"""Random commands on a state whose output relations are tables too, which others touch now and then."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa

from golden_tests.addons.tables.lakes import OutputLake, other_lake
from golden_tests.harness import Row, frozen_row, named
from golden_tests.job.turns import Commit, Turns
from golden_tests.oracle.random_programs import Scenario


class TableTurns(Turns):
    """A job and its state, its tables, and the model."""

    def __init__(
        self,
        kind: str,
        job: Any,
        scenario: Scenario,
        folder: Path,
        rng: random.Random,
        buckets: int,
        keep: int,
        spark: Any = None,
    ) -> None:
        """Build the state, and connect it with tables."""
        super().__init__(job, scenario, folder, rng, buckets, keep, spark)
        #: The rows of each table when it was last looked at, by identity and version.
        self.tables_seen: dict[tuple[str, str], tuple[str, Any, Counter[Row]]] = {}
        #: Whether somebody else has changed rows since the last commit.
        self.touched = False
        self.lakes = {name: other_lake(kind, folder, name) for name in ("tables", "others")}
        self.place = ""
        self.connect()
        self.check("connect")

    def step(self) -> str:
        """Do something with the state, or with its tables."""
        turn = self.rng.choice(["state"] * 4 + ["optimize", "lose_rows", "gain_rows", "remove", "connect"])
        if turn == "state":
            return super().step()
        before = self.last
        getattr(self, turn)()
        self.check(f"{turn} after commit {before}")
        return turn

    def committed(self, number: int, made: Commit) -> None:
        """A commit was made, and with it the tables are right."""
        super().committed(number, made)
        self.touched = False

    def connect(self) -> None:
        """Keep the tables somewhere else, or again where they were before, or nowhere."""
        places = ["tables", "others", "none"] if self.place else ["tables"]
        place = self.rng.choice(places)
        given = place if place == "none" else self.lakes[place].place
        done = self.job.connect(self.spark, str(self.root), publish=given, log=self.log)
        if done["applied"]:
            self.place = place
            self.committed(done["commit"], self.now)

    @property
    def lake(self) -> OutputLake:
        """The place of the tables."""
        return self.lakes[self.place]

    def table_name(self, relation: str) -> str:
        """The table of a relation."""
        return named(self.job.PROGRAM, relation).folder or relation

    def any_table(self) -> str | None:
        """A table that exists."""
        if self.place == "none":
            return None
        names = [name for name in map(self.table_name, sorted(self.outputs)) if self.lake.exists(name)]
        return self.rng.choice(names) if names else None

    def optimize(self) -> None:
        """Somebody merges the files of a table, which changes no row."""
        if table := self.any_table():
            self.lake.compact(table)

    def lose_rows(self) -> None:
        """Somebody empties a table."""
        if table := self.any_table():
            self.lake.empty(table)
            self.touched = True

    def gain_rows(self) -> None:
        """Somebody adds the rows of a table once more."""
        if table := self.any_table():
            self.lake.append(table, self.lake.rows(table))
            self.touched = True

    def remove(self) -> None:
        """Somebody removes a table."""
        if table := self.any_table():
            self.lake.remove(table)
            self.touched = True

    def check(self, said: str) -> None:
        """Besides: each table has the rows of its relation, and its change feed tells just the differences."""
        super().check(said)
        if self.touched or self.place in ("", "none"):
            return
        for name, rows in self.visible_outputs(self.now.state).items():
            table = self.table_name(name)
            found = rows_in(self.lake.rows(table))
            assert found == Counter(row or (True,) for row in rows), f"{said}: table of {name}"
            key = (self.place, table)
            identity, version, former = self.tables_seen.get(key, ("", None, Counter()))
            own, last = self.lake.identity(table), self.lake.versions(table)[-1]
            if identity == own and version != last:
                changes = self.lake.changes(table, version)
                signs = changes["sign"].to_pylist()
                net = Counter(former)
                for sign, row in zip(signs, changes.drop(["sign", "_commit_version"]).to_pylist(), strict=True):
                    net[frozen_row(row.values())] += sign
                assert +net == found and not -net, f"{said}: feed of {name}"
            self.tables_seen[key] = (own, last, found)


def rows_in(table: pa.Table) -> Counter[Row]:
    """The rows of an Arrow table."""
    return Counter(frozen_row(row.values()) for row in table.to_pylist())
