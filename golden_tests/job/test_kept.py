"""Tables that a process keeps between batches: read once, and never taken for those of another commit."""

from __future__ import annotations

import random
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from golden_tests.harness import Row, compile_text, load_script, stored_tuples
from golden_tests.nightly import AT_NIGHT, by_day, one_in, seeds

PROGRAM = """
input relation link(@src: int, dst: int)
input relation blocked(node: int)
relation open(src: int, dst: int)
output relation reach(src: int, dst: int)
output relation far(src: int, most: int)
output relation lonely(node: int)
open(S, D) :- link(@S, D), !blocked(D).
reach(S, D) :- open(S, D).
reach(S, D) :- reach(S, Z), open(Z, D).
far(S, max<D>) :- reach(S, D).
lonely(N) :- blocked(N), !reach(N, _).
"""

WIDTHS = {"link": 2, "blocked": 1}


class World:
    """A job with a state in two buckets, and the rows that its inputs should have."""

    def __init__(self, folder: Path, seed: int, few: int) -> None:
        """Build the state; a batch on at most ``few`` rows is the work of one task."""
        self.folder, self.state, self.rng = folder, folder / "state", random.Random(seed)
        self.job: Any = load_script(compile_text(PROGRAM, "kept.dl")[1])
        self.job.FEW_ROWS = few
        self.kept = self.job.LocalExecutor(2, keep=True)
        self.rows: dict[str, set[Row]] = {"link": set(), "blocked": set()}
        self.read: list[str] = []
        inputs = self.files({name: [("", row) for _, row in rows] for name, rows in self.changes(40).items()})
        self.job.init(None, str(self.state), inputs, buckets=2, log=self.job.Log(quiet=True))
        execute = self.job.DuckEngine._execute

        def watched(engine: Any, sql: str, run: Any = None) -> Any:
            if "read_parquet" in sql and "/input/" not in sql and "/net-" not in sql:
                self.read.append(sql)
            return execute(engine, sql, run)

        self.job.DuckEngine._execute = watched

    def changes(self, size: int) -> dict[str, list[tuple[str, Row]]]:
        """Random changes, which the rows of the world then have."""
        made = {}
        for name, rows in self.rows.items():
            gone = self.rng.sample(sorted(rows), min(len(rows), size // 3))
            count = size if name == "link" else size // 8 + 1
            new = {tuple(self.rng.randrange(20) for _ in range(WIDTHS[name])) for _ in range(count)} - rows
            made[name] = [*(("-", row) for row in gone), *(("+", row) for row in sorted(new))]
            self.rows[name] = (rows - set(gone)) | new
        return made

    def files(self, changes: Mapping[str, list[tuple[str, Row]]]) -> dict[str, str]:
        """The changes as files; without operations, rows."""
        found = {}
        for name, rows in changes.items():
            columns = ["src", "dst"] if name == "link" else ["node"]
            heading = columns if all(not op for op, _ in rows) else ["op", *columns]
            lines = [heading, *([op, *map(str, row)] if op else map(str, row) for op, row in rows)]
            path = self.folder / f"{name}-{self.rng.random()}.csv"
            path.write_text("".join(",".join(line) + "\n" for line in lines), encoding="utf-8")
            found[name] = str(path)
        return found

    def apply(self, executor: Any, **options: Any) -> list[str]:
        """Apply a batch, compare the state with recomputation, and return the statements that read the state."""
        self.read.clear()
        files = self.files(self.changes(6))
        self.job.apply(executor, str(self.state), files, log=self.job.Log(quiet=True), **options)
        read = [*self.read]
        self.check()
        return read

    def check(self) -> None:
        """Compare all relations with a fixpoint computed here."""
        blocked = {node for (node,) in self.rows["blocked"]}
        opened = {(start, end) for start, end in self.rows["link"] if end not in blocked}
        reach = set(opened)
        while more := {(start, end) for start, mid in reach for other, end in opened if mid == other} - reach:
            reach |= more
        starts = {start for start, _ in reach}
        expected = {
            **self.rows,
            "open": opened,
            "reach": reach,
            "far": {(start, max(end for other, end in reach if other == start)) for start in starts},
            "lonely": {(node,) for node in blocked - starts},
        }
        manifest = self.job.read_state(self.state)
        for name, rows in expected.items():
            relation = self.job.PROGRAM.relation(name)
            assert stored_tuples(self.job, self.state, manifest, relation) == rows, name

    def verify(self) -> None:
        """Recount all ranks and supports from the rules."""
        assert self.job.verify(None, str(self.state), log=self.job.Log(quiet=True))["differences"] == []


@by_day(1)
@pytest.mark.parametrize("few", one_in([300_000, 0], 2), ids=["one task", "a task for each stage"])
def test_read_once(tmp_path: Path, few: int) -> None:
    """The first batches read the state; later ones have what they need, although relations of earlier stages change."""
    world = World(tmp_path, 1, few)
    with world.kept:
        assert world.apply(world.kept)
        world.apply(world.kept)
        for _ in range(3):
            # Only writing reads files: those of changes that are merged with new ones.
            assert [sql for sql in world.apply(world.kept) if not sql.startswith("COPY")] == []
    assert world.apply(world.kept)
    world.verify()


@AT_NIGHT
@pytest.mark.parametrize("few", one_in([300_000, 0], 2), ids=["one task", "a task for each stage"])
@pytest.mark.parametrize("seed", seeds(1, 10))
def test_whatever_happens_in_between(tmp_path: Path, seed: int, few: int) -> None:
    """Others make commits, commits are undone, batches are refused or fail after their tasks, strata are computed from
    scratch, the state is replaced by another one in the same place: every batch starts from the last commit."""
    world = World(tmp_path, seed, few)
    job, rng = world.job, random.Random(seed)

    def other() -> None:
        world.apply(None)

    def compact() -> None:
        job.compact(None, str(world.state), log=job.Log(quiet=True))

    def refused() -> None:
        rows, read = {name: set(rows) for name, rows in world.rows.items()}, world.files(world.changes(9))
        world.rows = rows
        with pytest.raises(job.JobError, match="rounds"):
            job.apply(world.kept, str(world.state), read, max_rounds=1, strategy="incremental", log=job.Log(quiet=True))

    def failed() -> None:
        rows, read = {name: set(rows) for name, rows in world.rows.items()}, world.files(world.changes(9))
        world.rows = rows
        commit = job.commit_manifest

        def fail(root: Path, manifest: Any) -> None:
            raise OSError(28, "No space left on device")

        job.commit_manifest = fail
        try:
            with pytest.raises(job.Passing):
                job.apply(world.kept, str(world.state), read, log=job.Log(quiet=True))
        finally:
            job.commit_manifest = commit

    def replaced() -> None:
        saved, rows = tmp_path / "saved", {name: set(rows) for name, rows in world.rows.items()}
        shutil.copytree(world.state, saved)
        world.apply(world.kept)
        shutil.rmtree(world.state)
        saved.rename(world.state)
        world.rows = rows

    happenings = [other, compact, refused, failed, replaced]
    for happening in rng.sample(happenings, len(happenings)):
        world.apply(world.kept, strategy=rng.choice(["auto", "incremental", "recompute"]))
        happening()
        world.apply(world.kept)
    world.verify()


def test_little_memory(tmp_path: Path) -> None:
    """Nothing is kept that exceeds the share of memory, and what was used last is kept longest."""
    world = World(tmp_path, 1, 0)
    world.kept.kept.most_bytes = 0
    assert world.apply(world.kept) and world.apply(world.kept)
    kept = world.job.KeptEngines(10**9)
    engines = [world.job.DuckEngine() for _ in range(3)]
    for number, engine in enumerate(engines):
        engine.table("t", f"SELECT range AS a FROM range({1_000_000})")
        kept.give((number,), engine, {"t"})
    assert kept.take((0,)) is engines[0]
    kept.give((0,), engines[0], {"t"})
    kept.most_bytes = 2 * max(engine.memory() for engine in engines)
    kept.give((2,), kept.take((2,)), {"t"})
    assert kept.take((1,)) is None and kept.take((0,)) is engines[0] and kept.take((2,)) is engines[2]


def test_sorted_files_replace_scattered_rows(tmp_path: Path) -> None:
    """What a task has computed of a large recursion is read again from the files that it wrote, which are sorted such
    that the consequences of a change lie together; later batches find it in memory."""
    world = World(tmp_path, 1, 0)
    world.job.MANY_ROWS = 0
    relation = world.job.PROGRAM.relation("reach")
    assert world.job.base_order(relation)[-1] == relation.bucket_by
    with world.kept:
        world.apply(world.kept, strategy="recompute")
        world.job.MANY_ROWS = 500_000
        assert any("/reach/base" in sql for sql in world.apply(world.kept, strategy="incremental"))
        assert not any("/reach/base" in sql for sql in world.apply(world.kept, strategy="incremental"))
    world.verify()


def test_little_work_gets_one_thread(tmp_path: Path) -> None:
    """More threads would only wait for each other; where there is more to read or to change, they help."""
    world = World(tmp_path, 1, 300_000)
    opened: list[int] = []
    open_engine = world.job.open_engine

    def watched(task: Any, threads: int) -> Any:
        opened.append(threads)
        return open_engine(task, threads)

    world.job.open_engine = watched
    world.apply(world.job.LocalExecutor(2))
    rows = sum(stored.rows for stored in world.job.read_state(world.state).relations.values())
    world.job.ROWS_OF_THREAD = rows
    world.apply(world.job.LocalExecutor(2))
    assert opened == [1, 2]


def test_removed_rows() -> None:
    """A table that mostly consists of removed rows is read again; rows inserted after many removals are found."""
    job: Any = load_script(compile_text(PROGRAM, "kept.dl")[1])
    engine = job.DuckEngine()
    engine.table("t", "SELECT range AS a FROM range(500000)")
    for number in range(5):
        engine.clear({"t"})
        engine.keep("t", "files")
        assert engine.holds("t", "files") == (number < 4) and not engine.holds("t", "others")
        engine.table("gone", f"SELECT a FROM t ORDER BY a LIMIT 130000 OFFSET {1000 * number}")
        engine.remove("t", "gone", ["a"], 130000)
        engine.insert("t", f"SELECT 1000000 * {number + 1} + range AS a FROM range(50000)")
        new = engine.first(f"SELECT MIN(a) AS least, COUNT(*) AS count FROM {engine.since_read('t')}", 1)
        assert new == [{"least": 1_000_000 * (number + 1), "count": 50_000}]
    engine.close()
