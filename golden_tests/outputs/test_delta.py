"""Output relations as Delta tables."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from golden_tests.feeds.world import FeedWorld
from golden_tests.job.turns import take_turns
from golden_tests.nightly import AT_NIGHT, seeds
from golden_tests.outputs.turns import TableTurns

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
    """A job whose output relations are tables in a folder ``lake``."""

    def __init__(self, folder: Path) -> None:
        """Build the state of one link."""
        super().__init__(folder, PROGRAM)
        self.lake = folder / "lake"
        self.batches = 0

    def init(self) -> int:
        """Build the state."""
        return self.run("init", "--input", f"link={self.file('src,dst,cost', '1,2,1.50')}", "--publish", self.place)

    @property
    def place(self) -> str:
        """Where the tables are."""
        return f"delta:{self.lake}"

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

    def table(self, name: str) -> DeltaTable:
        """The table of a relation."""
        return DeltaTable(str(self.lake / name))

    def has(self, name: str) -> set[tuple[Any, ...]]:
        """The rows of a table, each of which is there once."""
        found = [tuple(row.values()) for row in pa.table(self.table(name).scan()).to_pylist()]
        assert len(found) == len(set(found))
        return set(found)

    def same(self) -> None:
        """The tables have the tuples of their relations."""
        for name in ("reachable", "cheap"):
            assert self.has(name) == self.rows(name), name
        assert self.has("some") == {(True,)}


@pytest.fixture
def outputs(tmp_path: Path) -> Any:
    """A job without a state."""
    made = OutputWorld(tmp_path)
    yield made
    made.close()


def test_a_version_for_each_commit_that_changes_rows(outputs: OutputWorld, capsys: pytest.CaptureFixture[str]) -> None:
    """With the changes in its feed, and none where nothing changes."""
    assert outputs.init() == 0
    assert outputs.apply("+,2,3,", "-,1,2,1.50", "+,1,2,2.5") == 0
    outputs.same()
    assert outputs.has("cheap") == {(1, Decimal("2.50")), (2, None)}
    assert [outputs.table(name).version() for name in ("reachable", "cheap", "some")] == [1, 1, 0]
    feed = pa.table(outputs.table("reachable").load_cdf(starting_version=1)).to_pylist()
    assert {(row["src"], row["dst"], row["_change_type"]) for row in feed} == {(2, 3, "insert"), (1, 3, "insert")}
    assert outputs.run("compact") == outputs.run("status") == 0
    assert f"reachable is kept as {outputs.place}/reachable" in capsys.readouterr().out
    assert outputs.table("reachable").version() == 1
    assert outputs.run("rollback", "--to", "1") == 0
    outputs.same()
    assert outputs.has("reachable") == {(1, 2)}


def test_what_others_do_to_a_table(outputs: OutputWorld) -> None:
    """The next commit makes it right again; a table that was removed is made again."""
    assert outputs.init() == 0
    outputs.table("reachable").delete()
    write_deltalake(str(outputs.lake / "cheap"), pa.table(outputs.table("cheap").scan()), mode="append")
    outputs.table("some").optimize.compact()
    assert outputs.apply("+,2,3,") == 0
    outputs.same()
    shutil.rmtree(outputs.lake / "reachable")
    assert outputs.apply("+,3,4,") == 0
    outputs.same()


def test_tables_that_are_not_its_own(outputs: OutputWorld, capsys: pytest.CaptureFixture[str]) -> None:
    """A table of somebody else is refused before anything is built, one of another state once it was this state's."""
    write_deltalake(str(outputs.lake / "reachable"), pa.table({"a": [1]}))
    assert outputs.init() == 1
    assert "no job of Flintlog wrote it" in capsys.readouterr().err
    assert not outputs.state.exists()
    shutil.rmtree(outputs.lake)
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
    assert outputs.run("connect", "--publish", outputs.place) == 0
    outputs.same()
    assert (5, 6) in outputs.has("reachable")


def test_connecting_later_and_elsewhere(outputs: OutputWorld, capsys: pytest.CaptureFixture[str]) -> None:
    """`connect` makes the tables of the last commit; `none` leaves them as they are."""
    file = outputs.file("src,dst,cost", "1,2,1")
    assert outputs.run("connect", "--publish", outputs.place) == 1
    assert "give --publish to `init`" in capsys.readouterr().err
    assert outputs.run("init", "--input", f"link={file}") == 0
    assert outputs.run("apply", "--changes", f"link={file}", "--publish", outputs.place) == 1
    assert f"run `connect --publish {outputs.place}` once" in capsys.readouterr().err
    assert outputs.run("connect", "--publish", outputs.place) == 0
    outputs.same()
    assert outputs.run("connect", "--publish", "none") == 0
    assert outputs.apply("+,2,3,") == 0
    assert outputs.has("reachable") == {(1, 2)}
    assert outputs.run("connect", "--publish", outputs.place) == 0
    outputs.same()


def test_the_library_is_missing(
    outputs: OutputWorld, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is noticed before anything is built; after a commit, the next command brings the tables up to it."""
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "deltalake", None)
        assert outputs.init() == 1
        assert "pip install deltalake" in capsys.readouterr().err and not outputs.state.exists()
    assert outputs.init() == 0
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "deltalake", None)
        assert outputs.apply("+,2,3,") == 1
        said = capsys.readouterr().err
        assert "pip install deltalake" in said and "batch b1 is committed, and the next command publishes" in said
    assert outputs.manifest.commit == 2
    assert outputs.run("status") == 0
    outputs.same()


def test_what_lies_in_the_way(outputs: OutputWorld, capsys: pytest.CaptureFixture[str]) -> None:
    """Files of a table that was never finished do no harm; a file in the place of the table is refused."""
    (outputs.lake / "reachable" / "_delta_log").mkdir(parents=True)
    (outputs.lake / "reachable" / "part-00000.parquet").write_bytes(b"half")
    (outputs.lake / "cheap").write_text("not a table")
    assert outputs.init() == 1
    assert f"{outputs.place}/cheap" in capsys.readouterr().err
    assert not outputs.state.exists()
    (outputs.lake / "cheap").unlink()
    assert outputs.init() == 0
    outputs.same()
    # A file of the newest version that is gone, as after a power failure: what the message advises.
    assert outputs.apply("+,2,3,") == 0
    mark = outputs.job.mark_path(outputs.state, outputs.manifest)
    mark.unlink()
    for file in (outputs.lake / "reachable").glob("*.parquet"):
        file.unlink()
    assert outputs.run("status") == 1
    said = capsys.readouterr().err
    assert "lacks files of its newest version" in said and "remove it" in said
    shutil.rmtree(outputs.lake / "reachable")
    assert outputs.run("status") == 0
    outputs.same()


def test_columns_that_differ_in_case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Tables would not tell them apart."""
    world = FeedWorld(tmp_path, "input relation e(a: int)\noutput relation p(a: int, A: int)\np(X, X) :- e(X).\n")
    assert world.run("init", "--publish", f"delta:{tmp_path / 'lake'}") == 1
    assert "the columns a and A of p differ only in case" in capsys.readouterr().err
    world.close()


@pytest.mark.parametrize("seed", seeds(2, 200))
def test_turns(seed: int, tmp_path: Path) -> None:
    """Random commands on random programs, and others who touch the tables."""
    try:
        take_turns(seed, tmp_path, 12, make=TableTurns)
    except Exception as error:
        # A program may have columns that tables do not tell apart.
        if type(error).__name__ != "JobError" or "differ only in case" not in str(error):
            raise


@pytest.mark.parametrize(("seed", "times"), [(0, 4), *(pytest.param(seed, 40, marks=AT_NIGHT) for seed in range(1, 6))])
def test_a_chain_that_is_killed(seed: int, times: int, tmp_path: Path) -> None:
    """Two jobs, one of which reads the tables of the other, are killed at any moment, and stay exact."""
    command = [sys.executable, "-m", "golden_tests.outputs.kill", str(seed), str(times)]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.splitlines()[-1]) >= times // 4
