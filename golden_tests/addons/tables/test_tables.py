"""Output relations as Delta tables and as Iceberg tables."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from golden_tests.addons.feeds.lake import settings
from golden_tests.addons.feeds.world import FeedWorld, refusal
from golden_tests.addons.tables.kill_operations import COMMANDS
from golden_tests.addons.tables.lakes import LAKES, DeltaLake, OutputLake, lake_of
from golden_tests.addons.tables.turns import TableTurns
from golden_tests.job.turns import take_turns
from golden_tests.nightly import AT_NIGHT, by_day, one_in, seeds

PROGRAM = """
input relation link(src: int, dst: int, cost: decimal(6,2)?)
output relation reachable(src: int, dst: int)
output relation cheap(src: int, cost: decimal(6,2)?)
output some.
reachable(S, D) :- link(S, D, _).
reachable(S, D) :- link(S, Z, _), reachable(Z, D).
cheap(S, C) :- link(S, _, C).
some() :- link(_, _, _).
"""


class OutputWorld(FeedWorld):
    """A job whose output relations are tables of a lake."""

    def __init__(self, folder: Path, lake: OutputLake) -> None:
        """Compile the program."""
        super().__init__(folder, PROGRAM)
        self.lake = lake
        self.batches = 0

    def init(self) -> int:
        """Build the state."""
        return self.run(
            "init", "--input", f"link={self.file('src,dst,cost', '1,2,1.50')}", "--publish", self.lake.place
        )

    def file(self, *lines: str) -> Path:
        """A file of rows or changes."""
        path = self.folder / "rows.csv"
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return path

    def apply(self, *changes: str) -> int:
        """Apply changes."""
        self.batches += 1
        file = self.file("op,src,dst,cost", *changes)
        return self.run("apply", "--batch", f"b{self.batches}", "--changes", f"link={file}")

    def has(self, name: str) -> set[tuple[Any, ...]]:
        """The rows of a table, each of which is there once."""
        found = [tuple(row.values()) for row in self.lake.rows(name).to_pylist()]
        assert len(found) == len(set(found))
        return set(found)

    def same(self) -> None:
        """The tables have the tuples of their relations."""
        for name in ("reachable", "cheap"):
            assert self.has(name) == self.rows(name), name
        assert self.has("some") == {(True,)}


@pytest.fixture(params=LAKES)
def outputs(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OutputWorld]:
    """A job without a state."""
    with lake_of(request.param, tmp_path) as lake:
        made = OutputWorld(tmp_path, lake)
        yield made
        made.close()


def test_a_version_for_each_commit_that_changes_rows(outputs: OutputWorld, capsys: pytest.CaptureFixture[str]) -> None:
    """With the changes in its feed, and none where nothing changes."""
    assert outputs.init() == 0
    assert outputs.apply("+,2,3,", "-,1,2,1.50", "+,1,2,2.5") == 0
    outputs.same()
    assert outputs.has("cheap") == {(1, Decimal("2.50")), (2, None)}
    assert [len(outputs.lake.versions(name)) for name in ("reachable", "cheap", "some")] == [2, 2, 1]
    feed = outputs.lake.changes("reachable", outputs.lake.versions("reachable")[0]).to_pylist()
    net = Counter[tuple[int, int]]()
    for row in feed:
        net[row["src"], row["dst"]] += row["sign"]
    assert {row: count for row, count in net.items() if count} == {(2, 3): 1, (1, 3): 1}
    assert outputs.run("compact") == outputs.run("status") == 0
    assert f"reachable is kept as {outputs.lake.feed('reachable')}" in capsys.readouterr().out
    assert len(outputs.lake.versions("reachable")) == 2
    assert outputs.run("rollback", "--to", "1") == 0
    outputs.same()
    assert outputs.has("reachable") == {(1, 2)}


def test_what_others_do_to_a_table(outputs: OutputWorld) -> None:
    """The next commit makes it right again; a table that was removed is made again."""
    assert outputs.init() == 0
    outputs.lake.empty("reachable")
    outputs.lake.append("cheap", outputs.lake.rows("cheap"))
    outputs.lake.compact("some")
    seen = outputs.lake.versions("some")
    assert outputs.apply("+,2,3,") == 0
    outputs.same()
    assert outputs.lake.versions("some") == seen
    outputs.lake.remove("reachable")
    assert outputs.apply("+,3,4,") == 0
    outputs.same()


def test_tables_that_are_not_its_own(outputs: OutputWorld, capsys: pytest.CaptureFixture[str]) -> None:
    """A table of somebody else is refused before anything is built, one of another state once it was this state's."""
    outputs.lake.make("reachable", pa.table({"a": [1]}))
    assert outputs.init() == 1
    assert "no job of Flintlog wrote it" in capsys.readouterr().err
    assert not outputs.state.exists()
    outputs.lake.remove("reachable")
    assert outputs.init() == 0
    # The same state is built again: its tables are taken over, and get the difference.
    shutil.move(outputs.state, outputs.folder / "former")
    assert outputs.init() == 0
    outputs.same()
    assert outputs.apply("+,2,3,") == 0
    former, outputs.state = outputs.state, outputs.folder / "former"
    assert outputs.apply("+,5,6,") == 1
    said = capsys.readouterr().err
    assert "was written by the job of another state since" in said and "`connect --publish none`" in said
    assert "; batch b2 is committed, and the next command publishes the rest of it" in " ".join(said.split())
    outputs.state = former
    assert outputs.apply("+,7,8,") == 0
    outputs.same()
    # What the message advises.
    outputs.state = outputs.folder / "former"
    assert outputs.run("status") == 1
    assert outputs.run("connect", "--publish", "none") == outputs.run("status") == 0
    assert outputs.run("connect", "--publish", outputs.lake.place) == 0
    outputs.same()
    assert (5, 6) in outputs.has("reachable")


def copied(outputs: OutputWorld, way: str) -> Path:
    """Copy the state in some way, and return the copy."""
    copy = outputs.folder / "copies" / "state"
    if way == "copied":
        shutil.copytree(outputs.state, copy)
        return copy
    archive = outputs.folder / "state.tar"
    assert outputs.run("export", "--to", str(archive)) == 0
    assert outputs.job.main(["import", "--state", str(copy), str(archive), "--quiet"]) == 0
    return copy


@by_day(2)
@pytest.mark.parametrize("way", ["copied", "imported"])
def test_a_copy_of_the_state(way: str, outputs: OutputWorld, capsys: pytest.CaptureFixture[str]) -> None:
    """Only one of them changes the tables: the other one is refused before it commits anything, until it is told to
    take them over; then the first one is."""
    assert outputs.init() == 0
    assert outputs.apply("+,2,3,") == 0
    original, copy = outputs.state, copied(outputs, way)
    said = capsys.readouterr().out
    assert way == "copied" or f"reachable is kept as {outputs.lake.feed('reachable')}" in said
    outputs.state = copy
    commits, seen = len(list((copy / "manifest").glob("0*.json"))), outputs.lake.versions("reachable")
    changes = ("--changes", f"link={outputs.file('op,src,dst,cost', '+,9,9,')}")
    for command, arguments in (("apply", changes), ("rebuild", ())):
        said = refusal(outputs, capsys, *arguments, command=command)
        assert f"belong to the state in {original}, and this one, in {copy}, is a copy of it" in said
        assert f"run `connect --publish {outputs.lake.place}`" in said
    assert len(list((copy / "manifest").glob("0*.json"))) == commits
    assert outputs.lake.versions("reachable") == seen
    assert outputs.run("status") == 0
    # The original goes on, and the copy without tables.
    outputs.state = original
    assert outputs.apply("+,4,5,") == 0
    outputs.same()
    outputs.state = copy
    assert outputs.run("connect", "--publish", "none") == 0
    assert outputs.apply("+,9,9,") == 0
    assert (9, 9) not in outputs.has("reachable")
    # The copy takes the place of the original.
    assert outputs.run("connect", "--publish", outputs.lake.place) == 0
    outputs.same()
    outputs.state = original
    assert outputs.apply("+,6,7,") == 1
    assert "was written by the job of another state since" in capsys.readouterr().err
    outputs.state = copy
    outputs.same()


@by_day(1)
def test_a_copy_takes_over_in_one_step(outputs: OutputWorld, capsys: pytest.CaptureFixture[str]) -> None:
    """As after a backup that was restored elsewhere; a state that was moved on its disk needs nothing."""
    assert outputs.init() == 0
    copy = copied(outputs, "copied")
    moved = outputs.folder / "moved"
    outputs.state.rename(moved)
    outputs.state = moved
    assert outputs.apply("+,2,3,") == 0
    outputs.same()
    outputs.state = copy
    assert outputs.run("connect", "--publish", outputs.lake.place) == 0
    outputs.same()
    assert outputs.has("reachable") == {(1, 2)}
    assert outputs.apply("+,3,4,") == 0
    outputs.same()
    outputs.state = moved
    assert outputs.apply("+,6,7,") == 1


@by_day(1)
@pytest.mark.parametrize("touched", [False, True])
def test_a_copy_that_pretends_to_be_the_original(
    touched: bool, outputs: OutputWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    """At the same path, as on another machine, it is told by the last commit that the table has."""
    assert outputs.init() == 0
    copy, aside = copied(outputs, "copied"), outputs.folder / "aside"
    assert outputs.apply("+,2,3,") == 0
    if touched:
        outputs.lake.empty("reachable")
    outputs.state.rename(aside)
    copy.rename(outputs.state)
    assert outputs.apply("+,4,5,") == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "was written by a copy of this state" in said and "`connect --publish none`" in said
    assert outputs.run("connect", "--publish", "none") == 0
    assert outputs.run("connect", "--publish", outputs.lake.place) == 0
    outputs.same()
    assert outputs.apply("+,5,6,") == 0
    outputs.same()
    assert outputs.run("rollback", "--to", "2") == 0
    outputs.same()


def test_connecting_later_and_elsewhere(outputs: OutputWorld, capsys: pytest.CaptureFixture[str]) -> None:
    """`connect` makes the tables of the last commit; `none` leaves them as they are."""
    file = outputs.file("src,dst,cost", "1,2,1")
    assert outputs.run("connect", "--publish", outputs.lake.place) == 1
    assert "give --publish to `init`" in capsys.readouterr().err
    assert outputs.run("init", "--input", f"link={file}") == 0
    assert outputs.run("apply", "--changes", f"link={file}", "--publish", outputs.lake.place) == 1
    assert f"run `connect --publish {outputs.lake.place}` once" in capsys.readouterr().err
    assert outputs.run("connect", "--publish", outputs.lake.place) == 0
    outputs.same()
    assert outputs.run("connect", "--publish", "none") == 0
    assert outputs.apply("+,2,3,") == 0
    assert outputs.has("reachable") == {(1, 2)}
    assert outputs.run("connect", "--publish", outputs.lake.place) == 0
    outputs.same()


def test_the_library_is_missing(
    outputs: OutputWorld, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is noticed before anything is built; after a commit, the next command brings the tables up to it."""
    library, install = ("deltalake", "pip install deltalake")
    if not isinstance(outputs.lake, DeltaLake):
        library, install = "pyiceberg.catalog", "pip install 'pyiceberg[pyarrow]'"
    with monkeypatch.context() as without:
        without.setitem(sys.modules, library, None)
        assert outputs.init() == 1
        assert install in capsys.readouterr().err and not outputs.state.exists()
    assert outputs.init() == 0
    with monkeypatch.context() as without:
        without.setitem(sys.modules, library, None)
        assert outputs.apply("+,2,3,") == 1
        said = capsys.readouterr().err
        assert install in said and "batch b1 is committed, and the next command publishes" in said
    assert outputs.manifest.commit == 2
    assert outputs.run("status") == 0
    outputs.same()


def test_files_that_are_gone(outputs: OutputWorld, capsys: pytest.CaptureFixture[str]) -> None:
    """Of the newest version, as after a power failure: what the message advises."""
    assert outputs.init() == outputs.apply("+,2,3,") == 0
    outputs.job.mark_path(outputs.state, outputs.manifest).unlink()
    outputs.lake.lose_files("reachable")
    assert outputs.run("status") == 1
    said = capsys.readouterr().err
    assert f"lacks files of its newest {outputs.lake.word}" in said and "remove it" in said
    outputs.lake.remove("reachable")
    assert outputs.run("status") == 0
    outputs.same()


def test_what_lies_in_the_way(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Files of a table that was never finished do no harm; a file in the place of the table is refused."""
    folder = tmp_path / "lake"
    outputs = OutputWorld(tmp_path, DeltaLake(folder))
    (folder / "reachable" / "_delta_log").mkdir(parents=True)
    (folder / "reachable" / "part-00000.parquet").write_bytes(b"half")
    (folder / "cheap").write_text("not a table")
    assert outputs.init() == 1
    assert f"{outputs.lake.place}/cheap" in capsys.readouterr().err
    assert not outputs.state.exists()
    (folder / "cheap").unlink()
    assert outputs.init() == 0
    outputs.same()
    outputs.close()


def test_columns_that_differ_in_case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Tables would not tell them apart."""
    world = FeedWorld(tmp_path, "input relation e(a: int)\noutput relation p(a: int, A: int)\np(X, X) :- e(X).\n")
    assert world.run("init", "--publish", f"delta:{tmp_path / 'lake'}") == 1
    assert "the columns a and A of p differ only in case" in capsys.readouterr().err
    world.close()


@pytest.mark.parametrize(
    "place", ["iceberg:lake", "iceberg:lake.", "iceberg:/lake/db", "iceberg:.db", "iceberg:a.b:c", "x:y"]
)
def test_places_that_are_none(place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They are refused before anything is built."""
    world = FeedWorld(tmp_path)
    assert world.run("init", "--publish", place) == 1
    assert f"{place} is no place for tables: give " in capsys.readouterr().err
    world.close()


def test_names_with_dots(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They are those of tables in no namespace of their own, and must differ."""
    rules = "p.q(X) :- e(X).\n"
    with lake_of("iceberg", tmp_path) as lake:
        world = FeedWorld(tmp_path, f"input relation e(a: int)\noutput relation p.q(a: int)\n{rules}")
        assert world.run("init", "--publish", lake.place) == 0
        assert lake.rows("p.q").num_rows == 0
        assert world.run("status") == 0
        assert "p.q is kept as iceberg:lake/lake.p__q" in capsys.readouterr().out
        world.close()


def test_other_columns(tmp_path: Path) -> None:
    """After an upgrade, a table has the new columns, and those that stay are the same to its readers."""
    first = "input relation e(a: int, b: string?)\noutput relation p(a: int, b: string?)\np(X, Y) :- e(X, Y).\n"
    then = "input relation e(a: int, b: string?)\noutput relation p(a: string, b: string?, c: list<int>)\n"
    then += "p(string(X), Y, [X, 2]) :- e(X, Y).\n"
    with lake_of("iceberg", tmp_path) as lake:
        world = FeedWorld(tmp_path, first)
        rows = tmp_path / "e.csv"
        rows.write_text("a,b\n1,x\n2,\n")
        assert world.run("init", "--input", f"e={rows}", "--publish", lake.place) == 0
        before = {field.name: field.field_id for field in lake.table("p").schema().fields}  # type: ignore[attr-defined]
        world.close()
        world = FeedWorld(tmp_path, then)
        assert world.run("upgrade") == 0
        assert lake.rows("p").sort_by("a").to_pylist() == [
            {"a": "1", "b": "x", "c": [1, 2]},
            {"a": "2", "b": None, "c": [2, 2]},
        ]
        after = {field.name: field.field_id for field in lake.table("p").schema().fields}  # type: ignore[attr-defined]
        assert after["b"] == before["b"] and after["a"] not in before.values()
        rows.write_text("op,a,b\n-,2,\n+,3,y\n")
        assert world.run("apply", "--changes", f"e={rows}") == 0
        assert [row["c"] for row in lake.rows("p").sort_by("a").to_pylist()] == [[1, 2], [3, 2]]
        world.close()


def test_partitions_of_others(tmp_path: Path) -> None:
    """A table that somebody has partitioned, and one whose snapshots have expired, are kept on."""
    with lake_of("iceberg", tmp_path) as lake:
        world = OutputWorld(tmp_path, lake)
        assert world.init() == 0
        with lake.table("reachable").update_spec() as update:  # type: ignore[attr-defined]
            update.add_identity("src")
        assert world.apply("+,2,3,", "+,4,5,1") == world.apply("-,1,2,1.50", "+,5,6,") == 0
        world.same()
        lake.append("cheap", lake.rows("cheap"))
        table = lake.table("cheap")  # type: ignore[attr-defined]
        old = [item.snapshot_id for item in table.snapshots() if item != table.current_snapshot()]
        table.maintenance.expire_snapshots().by_ids(old).commit()
        assert world.apply("+,7,8,") == 0
        world.same()
        world.close()


@by_day(1)
@pytest.mark.parametrize("kind", LAKES)
@pytest.mark.parametrize("seed", seeds(1, 10))
def test_turns(seed: int, kind: str, tmp_path: Path) -> None:
    """Random commands on random programs, and others who touch the tables."""
    with lake_of(kind, tmp_path):
        try:
            take_turns(seed, tmp_path, 12, make=partial(TableTurns, kind))
        except Exception as error:
            # A program may have columns that tables do not tell apart.
            if type(error).__name__ != "JobError" or "differ only in case" not in str(error):
                raise


@AT_NIGHT
@pytest.mark.parametrize("kind", one_in(LAKES, 2))
@pytest.mark.parametrize(("seed", "times"), [(0, 4), *(pytest.param(seed, 8, marks=AT_NIGHT) for seed in range(1, 6))])
def test_a_chain_that_is_killed(seed: int, times: int, kind: str, tmp_path: Path) -> None:
    """Two jobs, one of which reads the tables of the other, are killed at any moment, and stay exact."""
    command = [sys.executable, "-m", "golden_tests.addons.tables.kill", str(seed), str(times), kind]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, **settings(tmp_path), "PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.splitlines()[-1]) >= times // 4


@AT_NIGHT
@pytest.mark.parametrize(
    ("apart", "kind", "commands"),
    [
        (130, "delta", ("rollback",)),
        *(pytest.param(24, kind, (command,), marks=AT_NIGHT) for kind in LAKES for command in COMMANDS),
    ],
)
def test_killed_operations(apart: int, kind: str, commands: tuple[str, ...], tmp_path: Path) -> None:
    """Commands for operators are killed at their steps, on a state with a feed: afterwards each is done once, in the
    state, in what it publishes, in the tables and with the feed."""
    done = subprocess.run(
        [sys.executable, "-m", "golden_tests.addons.tables.kill_operations", str(apart), kind, *commands],
        cwd=tmp_path,
        env={**os.environ, **settings(tmp_path), "PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.splitlines()[-1]) >= len(commands)
