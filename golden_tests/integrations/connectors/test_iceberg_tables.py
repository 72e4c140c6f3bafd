"""Iceberg tables that Spark writes, with position deletes and deletion vectors: the feed ``iceberg:`` reads them
exactly."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from golden_tests.addons.feeds.world import FeedWorld, applied, refusal
from golden_tests.integrations.connectors.lane import ConnectorLane, usual_changes
from golden_tests.integrations.environments import WANTED
from golden_tests.nightly import seeds

pytestmark = WANTED

Said = pytest.CaptureFixture[str]

ON_READ = {f"write.{what}.mode": "merge-on-read" for what in ("delete", "update", "merge")}
KINDS = {
    "copies": {"format-version": "2"},
    "positions": {"format-version": "2", **ON_READ, "write.delete.granularity": "partition"},
    "positions_by_file": {"format-version": "2", **ON_READ, "write.delete.granularity": "file"},
    "vectors": {"format-version": "3", **ON_READ},
}


@pytest.fixture(scope="module")
def lane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectorLane]:
    """Spark with the connector of Iceberg."""
    made = ConnectorLane("iceberg", tmp_path_factory.mktemp("iceberg"))
    yield made
    made.close()


class Lake:
    """An Iceberg table of links that Spark writes, and a job with a feed of it."""

    def __init__(self, lane: ConnectorLane, folder: Path, properties: dict[str, str]) -> None:
        """Make the table, with several files in each of two partitions."""
        self.lane, self.world, self.name = lane, FeedWorld(folder), f"db.{folder.name}"
        self.table = f"lake.{self.name}"
        self.path = lane.warehouse / "db" / folder.name
        listed = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
        lane.sql(
            f"CREATE TABLE {self.table} (src BIGINT, dst BIGINT, kind STRING) USING iceberg PARTITIONED BY (kind) "
            f"TBLPROPERTIES ({listed})"
        )
        for start in range(0, 24, 6):
            lane.sql(f"INSERT INTO {self.table} SELECT id, id + 1, 'k' || id % 2 FROM range({start}, {start + 6})")

    def check(self) -> None:
        """The state has what Spark reads."""
        self.world.check({(row["src"], row["dst"]) for row in self.lane.sql(f"SELECT src, dst FROM {self.table}")})

    def snapshots(self) -> list[int]:
        """Return the snapshots of the table, the last one at the end."""
        rows = self.lane.sql(f"SELECT * FROM {self.table}.snapshots ORDER BY committed_at")
        return [row["snapshot_id"] for row in rows]

    def change(self, random: random.Random, number: int) -> str:
        """Change the table in some way, and return how."""
        statement = random.choice(
            [
                *usual_changes(self.table, random, number),
                f"CALL lake.system.rewrite_data_files(table => '{self.name}', options => map('rewrite-all', 'true'))",
                f"CALL lake.system.rewrite_position_delete_files(table => '{self.name}', options => map('rewrite-all', "
                "'true'))",
                f"CALL lake.system.rewrite_manifests('{self.name}')",
                f"INSERT OVERWRITE {self.table} SELECT src, dst + {number % 2}, kind FROM {self.table} WHERE src < 250",
                f"CALL lake.system.set_current_snapshot('{self.name}', {random.choice(self.snapshots())})",
                f"ALTER TABLE {self.table} ADD PARTITION FIELD bucket({number + 2}, src)",
            ]
        )
        self.lane.sql(statement)
        return statement


@pytest.mark.parametrize("kind", [*KINDS])
@pytest.mark.parametrize("seed", seeds(1, 10))
def test_random_changes(lane: ConnectorLane, tmp_path: Path, capsys: Said, kind: str, seed: int) -> None:
    """Whatever Spark does, each batch ends with the rows of the table."""
    lake = Lake(lane, tmp_path, KINDS[kind])
    chosen, world = random.Random(seed), lake.world
    assert world.run("connect", f"link=iceberg:{lake.path}") == world.run("init") == 0
    lake.check()
    history = []
    for number in range(10):
        for part in range(chosen.randrange(1, 4)):
            history.append(lake.change(chosen, 10 * number + part))
        try:
            applied(world, capsys)
            lake.check()
        except AssertionError as error:
            raise AssertionError("\n".join([*history, f"{error}"])) from error
    world.close()


def test_columns_and_snapshots(lane: ConnectorLane, tmp_path: Path, capsys: Said) -> None:
    """Renamed columns, transformed partitions, and snapshots that Spark expires."""
    lake = Lake(lane, tmp_path, KINDS["vectors"])
    world = lake.world
    assert world.run("connect", f"link=iceberg:{lake.path}") == world.run("init") == 0
    lane.sql(
        f"ALTER TABLE {lake.table} RENAME COLUMN dst TO other",
        f"ALTER TABLE {lake.table} ADD COLUMN new STRING",
        f"ALTER TABLE {lake.table} ADD PARTITION FIELD truncate(3, src)",
    )
    assert "no longer has the column dst" in refusal(world, capsys)
    lane.sql(f"ALTER TABLE {lake.table} RENAME COLUMN other TO dst", f"DELETE FROM {lake.table} WHERE src = 3")
    assert applied(world, capsys)["changes"]["link"] == {"inserted": 0, "deleted": 1}
    first = lake.snapshots()[-1]
    lane.sql(
        f"INSERT INTO {lake.table} VALUES (50, 51, 'k0', 'a')", f"INSERT INTO {lake.table} VALUES (60, 61, 'k7', 'b')"
    )
    expire = f"CALL lake.system.expire_snapshots(table => '{lake.name}', older_than => now(), retain_last => 2)"
    lane.sql(expire)
    assert first not in lake.snapshots()
    assert applied(world, capsys)["changes"]["link"] == {"inserted": 2, "deleted": 0}
    last = lake.snapshots()[-1]
    lane.sql(f"DELETE FROM {lake.table} WHERE src = 50", f"DELETE FROM {lake.table} WHERE src = 60", expire)
    assert f"snapshot {last}, up to which link was read, has expired" in refusal(world, capsys)
    assert applied(world, capsys, "--resync", "link")["changes"]["link"] == {"inserted": 0, "deleted": 2}
    lake.check()
    world.close()


def test_equality_deletes_are_refused(lane: ConnectorLane, tmp_path: Path, capsys: Said) -> None:
    """With what to do: the library does not read them."""
    world, table = FeedWorld(tmp_path), f"lake.db.{tmp_path.name}"
    lane.sql(f"CREATE TABLE {table} (src BIGINT, dst BIGINT) USING iceberg", f"INSERT INTO {table} VALUES (1, 2)")
    assert world.run("connect", f"link=iceberg:{lane.warehouse / 'db' / tmp_path.name}") == world.run("init") == 0
    lane.equality_deletes(table)
    said = refusal(world, capsys)
    assert "(equality deletes), which pyiceberg does not read: rewrite the data files" in said, said
    assert "(equality deletes)" in refusal(world, capsys, "--resync", "link")
    world.close()


def test_the_same_table_by_spark(lane: ConnectorLane, tmp_path: Path) -> None:
    """The feed table: reads what the session of the job reads, also if another session changes it."""
    lake = Lake(lane, tmp_path, KINDS["positions"])
    world = lake.world

    def job(command: str, *arguments: str) -> tuple[int, str]:
        return lane.job(world.script, command, "--state", str(world.state), *arguments)

    assert job("connect", f"link=table:{lake.table}")[0] == job("init")[0] == 0
    lane.sql(f"DELETE FROM {lake.table} WHERE src IN (1, 2)")
    code, said = job("apply")
    assert code == 0 and "link: 22 tuples +0 -2" in said, said
    assert "nothing new" in job("apply")[1]
    lake.check()
    world.close()
