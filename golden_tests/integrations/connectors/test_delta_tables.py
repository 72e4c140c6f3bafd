"""Delta tables that Spark writes, with deletion vectors and column mapping: the feed ``delta:`` reads them exactly, by
the package deltalake as well as on Spark without it."""

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

VECTORS = "'delta.enableDeletionVectors' = 'true'"
MAPPING = "'delta.columnMapping.mode' = 'name'"
RECORDED = "'delta.enableChangeDataFeed' = 'true'"
KINDS = {
    "vectors": (VECTORS,),
    "vectors_recorded": (VECTORS, RECORDED),
    "mapping": (MAPPING,),
    "mapping_recorded": (MAPPING, RECORDED),
    "all": (VECTORS, MAPPING, RECORDED),
}


@pytest.fixture(scope="module")
def lane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectorLane]:
    """Spark with the connector of Delta."""
    made = ConnectorLane("delta", tmp_path_factory.mktemp("delta"))
    yield made
    made.close()


class Lake:
    """A Delta table of links that Spark writes, and a job with a feed of it."""

    def __init__(self, lane: ConnectorLane, folder: Path, properties: tuple[str, ...]) -> None:
        """Make the table, with two files in each of two partitions."""
        self.lane, self.path, self.world = lane, folder / "lake", FeedWorld(folder)
        self.table = f"delta.`{self.path}`"
        self.features = set(properties)
        listed = ", ".join(properties) or "'a' = 'b'"
        lane.sql(
            f"CREATE TABLE {self.table} (src BIGINT, dst BIGINT, kind STRING) USING delta PARTITIONED BY (kind) "
            f"TBLPROPERTIES ({listed})",
            f"INSERT INTO {self.table} SELECT id, id + 1, 'k' || id % 2 FROM range(12)",
            f"INSERT INTO {self.table} SELECT id, id + 1, 'k' || id % 2 FROM range(12, 24)",
        )

    def check(self) -> None:
        """The state has what Spark reads."""
        self.world.check({(row["src"], row["dst"]) for row in self.lane.sql(f"SELECT src, dst FROM {self.table}")})

    def change(self, random: random.Random, number: int) -> str:
        """Change the table in some way, and return how."""
        statement = random.choice(
            [
                *usual_changes(self.table, random, number),
                f"OPTIMIZE {self.table}",
                f"REORG TABLE {self.table} APPLY (PURGE)",
                f"INSERT OVERWRITE {self.table} SELECT DISTINCT src, dst + {number % 2}, kind FROM {self.table}",
                f"RESTORE TABLE {self.table} TO VERSION AS OF {random.randrange(1, 4)}",
                f"ALTER TABLE {self.table} SET TBLPROPERTIES ({VECTORS})",
            ]
        )
        self.lane.sql(statement)
        return statement


@pytest.fixture(params=[*KINDS])
def lake(request: pytest.FixtureRequest, lane: ConnectorLane, tmp_path: Path) -> Iterator[Lake]:
    """A table with some features."""
    made = Lake(lane, tmp_path, KINDS[request.param])
    yield made
    made.world.close()


@pytest.mark.parametrize("seed", seeds(1, 10))
def test_random_changes(lake: Lake, capsys: Said, seed: int) -> None:
    """Whatever Spark does, each batch ends with the rows of the table; other batches are applied on Spark."""
    chosen, world = random.Random(seed), lake.world
    assert world.run("connect", f"link=delta:{lake.path}") == world.run("init") == 0
    lake.check()
    history = []
    for number in range(6):
        for part in range(chosen.randrange(1, 4)):
            history.append(lake.change(chosen, 10 * number + part))
        try:
            if number % 2:
                applied(world, capsys)
            else:
                code, said = lake.lane.job(world.script, "apply", "--state", str(world.state))
                assert code == 0, said
            lake.check()
        except AssertionError as error:
            raise AssertionError("\n".join([*history, f"{error}"])) from error


def test_columns_that_are_dropped_and_added(lane: ConnectorLane, tmp_path: Path, capsys: Said) -> None:
    """With column mapping that rewrites no file: the rows are compared as a whole."""
    lake = Lake(lane, tmp_path, (MAPPING, RECORDED))
    world = lake.world
    assert world.run("connect", f"link=delta:{lake.path}") == world.run("init") == 0
    lane.sql(f"ALTER TABLE {lake.table} RENAME COLUMN dst TO other")
    assert "no longer has the column dst" in refusal(world, capsys)
    lane.sql(f"ALTER TABLE {lake.table} RENAME COLUMN other TO dst", f"DELETE FROM {lake.table} WHERE src = 3")
    assert applied(world, capsys)["changes"]["link"] == {"inserted": 0, "deleted": 1}
    lane.sql(f"ALTER TABLE {lake.table} DROP COLUMN dst", f"ALTER TABLE {lake.table} ADD COLUMN dst BIGINT")
    assert "column dst: null" in refusal(world, capsys)
    lane.sql(f"UPDATE {lake.table} SET dst = src + 5")
    assert applied(world, capsys)["changes"]["link"] == {"inserted": 23, "deleted": 23}
    lake.check()
    world.close()


def test_mapping_switched_on_inside_the_range(lane: ConnectorLane, tmp_path: Path, capsys: Said) -> None:
    """And deletion vectors, in a table with a change data feed."""
    lake = Lake(lane, tmp_path, (RECORDED,))
    world = lake.world
    assert world.run("connect", f"link=delta:{lake.path}") == world.run("init") == 0
    for properties in (VECTORS, MAPPING):
        for where in ("src = 2", "src = 5"):
            lane.sql(f"DELETE FROM {lake.table} WHERE {where}")
            if where == "src = 2":
                lane.sql(f"ALTER TABLE {lake.table} SET TBLPROPERTIES ({properties})")
        lane.sql(f"INSERT INTO {lake.table} VALUES (2, 50, 'k1'), (5, 51, 'k9')")
        applied(world, capsys)
        lake.check()
    world.close()


def test_gaps_on_spark_without_deltalake(lane: ConnectorLane, tmp_path: Path) -> None:
    """Versions that are gone, or were not recorded, are refused with the way out."""
    lake = Lake(lane, tmp_path, (RECORDED,))
    world = lake.world

    def job(command: str, *arguments: str) -> tuple[int, str]:
        return lane.job(world.script, command, "--state", str(world.state), *arguments)

    code, said = job("connect", f"link=delta:{tmp_path / 'nothing'}")
    assert code == 1 and "cannot be opened" in said and "pip install deltalake" in said
    assert job("connect", f"link=delta:{lake.path}")[0] == job("init")[0] == 0
    lake.check()
    off = f"ALTER TABLE {lake.table} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'false')"
    on = f"ALTER TABLE {lake.table} SET TBLPROPERTIES ({RECORDED})"
    lane.sql(off, f"DELETE FROM {lake.table} WHERE src = 1", on)
    code, said = job("apply")
    assert code == 1 and "`apply --resync link`" in said, said
    assert job("apply", "--resync", "link")[0] == 0
    lake.check()
    lane.sql(
        f"UPDATE {lake.table} SET dst = 99 WHERE src = 2",
        f"DELETE FROM {lake.table} WHERE src = 3",
        f"VACUUM {lake.table} RETAIN 0 HOURS",
    )
    code, said = job("apply")
    assert code == 1 and "`apply --resync link`" in said, said
    assert job("apply", "--resync", "link")[0] == 0
    lake.check()
    code, said = job("apply")
    assert code == 0 and "nothing new" in said
    world.close()
