"""The feed ``table:``, and how it is refused without Spark."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from golden_tests.addons.feeds.world import NULLS, FeedWorld, applied, refusal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Said = pytest.CaptureFixture[str]


def test_it_needs_spark(world: FeedWorld, capsys: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has the command to run instead."""
    monkeypatch.setattr(sys, "argv", ["net.py", "connect", "--state", "s", "link=table:lake.db.link"])
    said = refusal(world, capsys, "link=table:lake.db.link", command="connect")
    assert "the feed table:lake.db.link needs Spark" in said
    assert "run `spark-submit net.py connect --state s link=table:lake.db.link`" in said


def test_tables_of_spark(world: FeedWorld, capsys: Said, spark: SparkSession) -> None:
    """Each batch compares all rows; without a difference nothing is committed; a table made anew is compared, too."""
    files = world.folder / "files"
    spark.range(4).selectExpr("id AS src", "id + 1 AS dst", "id > 0 AS active").write.parquet(str(files))
    spark.sql(f"CREATE TABLE feeds_link USING parquet LOCATION '{files}'")
    try:
        feeds = world.folder / "feeds.toml"
        feeds.write_text('[link]\nfrom = "table:feeds_link"\nwhere = "active"')
        assert world.run("connect", "--feeds", str(feeds)) == world.run("init") == 0
        world.check({(1, 2), (2, 3), (3, 4)})
        assert not applied(world, capsys)["applied"]
        assert world.manifest.commit == 1
        # Written by another session: this one would not notice.
        spark.sql("SELECT 7L AS src, 8L AS dst, true AS active").coalesce(1).write.mode("append").parquet(str(files))
        result = applied(world, capsys)
        assert (result["batch"], result["changes"]["link"]) == ("link@1..2", {"inserted": 1, "deleted": 0})
        spark.sql("DROP TABLE feeds_link")
        assert "cannot be opened" in refusal(world, capsys)
        spark.sql("CREATE OR REPLACE TEMPORARY VIEW feeds_link AS SELECT 2L AS src, 3L AS dst, true AS active")
        assert applied(world, capsys)["changes"]["link"] == {"inserted": 0, "deleted": 3}
        assert not applied(world, capsys, "--resync", "link")["applied"]
        world.check({(2, 3)})
        view = "CREATE OR REPLACE TEMPORARY VIEW feeds_link AS "
        spark.sql(view + "SELECT 2L AS src, id AS dst, true AS active FROM VALUES (3L), (3L), (4L) AS v(id)")
        assert "src = 2, dst = 3 more than once" in refusal(world, capsys)
        spark.sql(view + "SELECT '2' AS src, 3L AS dst, true AS active")
        assert "have another type" in refusal(world, capsys)
    finally:
        spark.sql("DROP TABLE IF EXISTS feeds_link")
        spark.catalog.dropTempView("feeds_link")


def test_nulls(tmp_path: Path, capsys: Said, spark: SparkSession) -> None:
    """As parts of rows, two nulls are one."""
    world = FeedWorld(tmp_path, NULLS)
    view = "CREATE OR REPLACE TEMPORARY VIEW feeds_mail AS SELECT * FROM VALUES "
    spark.sql(view + "(1L, 'a'), (2L, NULL), (3L, NULL) AS v(id, email)")
    try:
        assert world.run("connect", "mail=table:feeds_mail") == world.run("init") == 0
        assert world.rows("silent") == {(2,), (3,)}
        spark.sql(view + "(1L, CAST(NULL AS STRING)), (3L, NULL) AS v(id, email)")
        assert applied(world, capsys)["changes"]["mail"] == {"inserted": 1, "deleted": 2}
        assert world.rows("silent") == {(1,), (3,)}
        assert not applied(world, capsys)["applied"]
    finally:
        spark.catalog.dropTempView("feeds_mail")
        world.close()
