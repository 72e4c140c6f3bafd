"""Kills ``apply`` of a feed (with SIGKILL) at its steps on the file system, and checks that each range is applied once.

Run as a script in an empty directory, with a number: 1 to kill at each step, 2 at every other one, and so on, at
night from another one on each time, and with the kind of feed, ``lake``, ``iceberg`` or ``topic``; prints at how many
steps it killed. With ``delta`` or ``iceberg`` behind it, output relations are tables of that kind, too, and steps in
these count as well. The libraries of tables are used in children only: they do not work after a fork. The catalog of
Iceberg is that of ``lake.settings``. A topic in memory is known to all children.
"""

from __future__ import annotations

import shutil
import signal
import sys
from pathlib import Path
from typing import Any, Protocol

import pyarrow.dataset  # noqa: F401  (PyArrow imports it when it first reads: not again in every child)
import pyarrow.parquet as pq
import pyiceberg.catalog.sql
import pyiceberg.io.pyarrow  # noqa: F401
from pyiceberg.catalog import load_catalog

from golden_tests.addons.feeds.envelopes import MemoryTopic, envelope
from golden_tests.addons.feeds.lake import iceberg_links, snapshot_of
from golden_tests.addons.feeds.world import FeedWorld, append, delete, links, make_table
from golden_tests.addons.tables.lakes import OutputLake, other_lake
from golden_tests.job.kill import STEPS, in_child, kill_at
from golden_tests.nightly import START

WANTED = {(2, 3), (3, 4), (4, 5)}


class Source(Protocol):
    """What the feed of ``link`` reads: its name, the batch that is killed, and the position behind it."""

    name: str

    @property
    def batch(self) -> str:
        """The ID of the batch."""

    @property
    def position(self) -> dict[str, Any]:
        """The position."""

    def grow(self, stage: int) -> None:
        """Do what happens to it first, then, and at last."""


class Lake:
    """A Delta table."""

    name, batch, position = "delta:lake", "link@1..3", {"version": 3}

    def grow(self, stage: int) -> None:
        """Make the table, and append and delete rows."""
        if stage == 0:
            make_table(Path("lake"), links((1, 2)))
        elif stage == 1:
            append("lake", (2, 3))
        else:
            append("lake", (3, 4), (4, 5))
            delete("lake", "src = 1")


class IcebergLake:
    """An Iceberg table, whose snapshots have other numbers each time."""

    name = "iceberg:lake/db.link"

    @property
    def batch(self) -> str:
        """The range of snapshots."""
        return f"link@{Path('since').read_text()}..{self.position['snapshot']}"

    @property
    def position(self) -> dict[str, Any]:
        """The present snapshot."""
        return {"snapshot": snapshot_of(load_catalog("lake").load_table("db.link"))}

    def grow(self, stage: int) -> None:
        """Make the table, and append and delete rows."""
        catalog = load_catalog("lake")
        if stage == 0:
            catalog.create_namespace("db")
            iceberg_links(catalog, (1, 2))
        elif stage == 1:
            catalog.load_table("db.link").append(links((2, 3)))
            Path("since").write_text(str(self.position["snapshot"]))
        else:
            catalog.load_table("db.link").append(links((3, 4), (4, 5)))
            catalog.load_table("db.link").delete("src == 1")


class Topic:
    """A topic in memory."""

    name, batch, position = "kafka-debezium://broker/link", "link@2..5", {"0": 5}

    def __init__(self, job: Any) -> None:
        """Begin empty."""
        self.topic = MemoryTopic()
        self.topic.install(job)

    def grow(self, stage: int) -> None:
        """Append messages."""
        for pair in (((1, 2),), ((2, 3),), ((3, 4), (4, 5)))[stage]:
            self.topic.write(None, envelope("c", None, dict(zip(("src", "dst"), pair, strict=True))))
        if stage == 2:
            self.topic.write(None, envelope("d", {"src": 1, "dst": 2}))


TABLES = ("views", "warehouse", "catalog.db")
"""What is beside the state that has output tables, or the feed."""


def build(world: FeedWorld, source: Source, views: OutputLake | None) -> None:
    """A state that lacks the last changes of its first feed, and a second feed with nothing new."""
    Path("incoming").mkdir()
    Path("incoming/1.csv").write_text("op,id,name\n+,2,b\n")
    source.grow(0)
    assert world.run("connect", f"link={source.name}", "person=files:incoming") == 0
    assert world.run("init", *(["--publish", views.place] if views else [])) == 0
    source.grow(1)
    assert world.run("apply") == 0
    source.grow(2)


def check_views(world: FeedWorld, views: OutputLake) -> None:
    """The tables have the rows of their relations, and each of the three commits changed one once."""
    for name in ("reachable", "named"):
        assert {tuple(row.values()) for row in views.rows(name).to_pylist()} == world.rows(name), name
        assert views.rows(name).num_rows == len(world.rows(name))
    assert len(views.versions("reachable")) == 3, views.versions("reachable")


def check(world: FeedWorld, source: Source, views: OutputLake | None) -> None:
    """The range is applied, if need be now, published once, and never applied again."""
    before = world.job.status(str(world.state))["commit"]
    result = world.job.apply(None, str(world.state), log=world.job.Log(quiet=True))
    assert result["applied"] is (before == 2), result
    assert world.manifest.commit == 3
    assert world.manifest.batch == source.batch
    position = world.manifest.feeds["link"].position
    assert position.get("offsets", position) == source.position
    world.check(WANTED)
    folder = world.state / "published" / "reachable" / "changes" / f"batch={source.batch.replace('@', '%40')}"
    rows: list[Any] = [row for file in folder.iterdir() for row in pq.ParquetFile(file).read().to_pylist()]
    gained = {(row["src"], row["dst"]) for row in rows if row["op"] == "+"}
    lost = {(row["src"], row["dst"]) for row in rows if row["op"] == "-"}
    assert (gained, lost) == ({(2, 4), (2, 5), (3, 4), (3, 5), (4, 5)}, {(1, 2), (1, 3)}), rows
    assert len(rows) == 7
    assert not world.job.apply(None, str(world.state), log=world.job.Log(quiet=True))["applied"]
    if views:
        check_views(world, views)


def copy(source: Path, target: Path) -> None:
    """Copy a file or a folder in place of another."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_file():
        shutil.copy2(source, target)
        return
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)


def main() -> None:
    """Kills at one step after the other, until there are no more."""
    world = FeedWorld(Path.cwd())
    tables: dict[str, Source] = {"lake": Lake(), "iceberg": IcebergLake()}
    source = tables.get(sys.argv[2]) or Topic(world.job)
    views = other_lake(sys.argv[3], Path.cwd(), "views") if sys.argv[3:] else None
    assert in_child(lambda: build(world, source, views)) == 0
    if isinstance(source, Topic):
        for stage in range(3):
            source.grow(stage)
    copy(world.state, Path("built"))
    beside = [Path(name) for name in TABLES if views and Path(name).exists()]
    for place in beside:
        copy(place, Path("before") / place)
    root, apart = str(world.state), int(sys.argv[1])
    watched = [root, *(str(place) for place in beside)]
    for number, step in enumerate(range(1 + START % apart, 10_000, apart)):
        copy(Path("built"), world.state)
        for place in beside:
            copy(Path("before") / place, place)

        def killed(step: int = step) -> None:
            kill_at(
                step,
                lambda event, arguments: event in STEPS and any(name in str(arguments[0]) for name in watched),
            )
            world.job.apply(None, root, log=world.job.Log(quiet=True))

        ended = in_child(killed)
        assert ended in (0, signal.SIGKILL), ended
        assert in_child(lambda: check(world, source, views)) == 0, f"killed at step {step}"
        if ended == 0:
            print(number)
            return


if __name__ == "__main__":
    main()
