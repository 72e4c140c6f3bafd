"""Random commands on a state whose output relations are Delta tables too, which others touch now and then."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from golden_tests.harness import Row, frozen_row, named
from golden_tests.job.turns import Commit, Turns
from golden_tests.oracle.programs import Scenario


class TableTurns(Turns):
    """A job and its state, its tables, and the model."""

    def __init__(
        self, job: Any, scenario: Scenario, folder: Path, rng: random.Random, buckets: int, keep: int, spark: Any = None
    ) -> None:
        """Build the state, and connect it with tables."""
        super().__init__(job, scenario, folder, rng, buckets, keep, spark)
        #: The rows of each table when it was last looked at, by identity and version.
        self.tables_seen: dict[str, tuple[str, int, Counter[Row]]] = {}
        #: Whether somebody else has changed rows since the last commit.
        self.touched = False
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
        given = place if place == "none" else f"delta:{self.folder / place}"
        done = self.job.connect(self.spark, str(self.root), publish=given, log=self.log)
        if done["applied"]:
            self.place = place
            self.committed(done["commit"], self.now)

    def path(self, name: str) -> str:
        """The table of a relation."""
        return str(self.folder / self.place / (named(self.job.PROGRAM, name).folder or name))

    def any_table(self) -> DeltaTable | None:
        """A table that exists."""
        names = [name for name in sorted(self.outputs) if DeltaTable.is_deltatable(self.path(name))]
        return DeltaTable(self.path(self.rng.choice(names))) if names and self.place != "none" else None

    def optimize(self) -> None:
        """Somebody merges the files of a table, which changes no row."""
        if table := self.any_table():
            table.optimize.compact()

    def lose_rows(self) -> None:
        """Somebody empties a table."""
        if table := self.any_table():
            table.delete()
            self.touched = True

    def gain_rows(self) -> None:
        """Somebody adds the rows of a table once more."""
        if table := self.any_table():
            write_deltalake(table, table.to_pyarrow_table(), mode="append")
            self.touched = True

    def remove(self) -> None:
        """Somebody removes a table."""
        if table := self.any_table():
            shutil.rmtree(table.table_uri.removeprefix("file://"))
            self.touched = True

    def check(self, said: str) -> None:
        """Besides: each table has the rows of its relation, and its change data feed tells just the differences."""
        super().check(said)
        if self.touched or self.place in ("", "none"):
            return
        for name, rows in self.visible_outputs(self.now.state).items():
            table = DeltaTable(self.path(name))
            columns = [field.name for field in table.schema().fields]
            found = rows_in(pa.table(table.scan()), columns)
            assert found == Counter(row or (True,) for row in rows), f"{said}: table of {name}"
            key = self.path(name)
            identity, version, former = self.tables_seen.get(key, ("", 0, Counter()))
            own = str(table.metadata().id)
            if identity == own and version < table.version():
                feed = pa.table(table.load_cdf(starting_version=version + 1))
                signs = [-1 if "delete" in kind or "pre" in kind else 1 for kind in feed["_change_type"].to_pylist()]
                net = Counter(former)
                for sign, row in zip(signs, feed.select(columns).to_pylist(), strict=True):
                    net[frozen_row(row.values())] += sign
                assert +net == found and not -net, f"{said}: feed of {name}"
            self.tables_seen[key] = (own, table.version(), found)


def rows_in(table: pa.Table, columns: list[str]) -> Counter[Row]:
    """The rows of an Arrow table."""
    return Counter(frozen_row(row.values()) for row in table.select(columns).to_pylist())
