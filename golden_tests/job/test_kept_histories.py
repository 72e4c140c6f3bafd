"""Random histories of two states: every command that writes is given to both, to one from a process that keeps tables
between its commands, to the other from processes that keep nothing. Both are the same after each command."""

from __future__ import annotations

import itertools
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from flintlog.compiler.pipeline import compile_program
from flintlog.compiler.source import SourceFile
from flintlog.runtime.addons import registration
from flintlog.runtime.job.job import Job
from flintlog.runtime.kernel import methods, strategy
from flintlog.runtime.kernel.errors import JobError
from flintlog.runtime.store import stages
from flintlog.runtime.store.executors import LocalExecutor
from flintlog.runtime.system.log import Log
from flintlog.targets.pyspark.load import load_program

from golden_tests.harness import Row
from golden_tests.nightly import NIGHTLY, by_day, one_in, seeds

assert methods and registration

INPUTS = """
input relation s(x: int, y: int)
input relation e(x: int, y: int)
input relation k(x: int, y: int) primary key (x)
"""

SHAPES = {
    "counted": (
        "output m. m(X, Y) :- s(X, Y). m(X, Y) :- e(X, Y). m(X, Y) :- k(X, Y).",
        "output m. m(X, Y) :- e(X, Y). m(X, Y) :- k(X, Y).",
        "output m. m(X, Z) :- e(X, Y), k(Y, Z), !s(X, Z). output two. two(X) :- m(X, _), s(_, X).",
    ),
    "closure": (
        "output m. m(X, Y) :- s(X, Y). m(X, Y) :- e(X, Y). m(X, Y) :- m(X, Z), e(Z, Y). output k2. k2(X) :- k(X, _).",
        "output m. m(X, Y) :- e(X, Y). m(X, Y) :- m(X, Z), e(Z, Y). output k2. k2(X) :- k(X, _).",
        "output m. m(X, Y) :- e(X, Y). m(X, Y) :- m(X, Z), s(Z, Y). output k2. k2(X) :- k(X, _), !m(X, X).",
    ),
    "strata in a row": (
        "output far. both(X, Y) :- s(X, Y). both(X, Y) :- e(X, Y). far(X, max<Y>) :- both(X, Y). "
        "output lone. lone(X) :- k(X, _), !both(X, _).",
        "output far. both(X, Y) :- e(X, Y). far(X, max<Y>) :- both(X, Y). "
        "output lone. lone(X) :- k(X, _), !both(X, _).",
        "output far. both(X, Y) :- e(X, Y). far(X, sum<Y>) :- both(X, Y), !s(X, Y). "
        "output lone. lone(Y) :- k(_, Y), !both(Y, _).",
    ),
    "distances": (
        "output d. d(X, Y, min<L>) :- e(X, Y), L = 1. d(X, Y, min<L>) :- d(X, Z, M), e(Z, Y), L = M + 1. "
        "d(X, Y, min<L>) :- s(X, Y), k(X, L).",
        "output d. d(X, Y, min<L>) :- e(X, Y), L = 1. d(X, Y, min<L>) :- d(X, Z, M), e(Z, Y), L = M + 1. "
        "output most. most(max<Y>) :- s(_, Y), k(_, Y).",
        "output d. d(X, Y, min<L>) :- e(X, Y), L = 2. d(X, Y, min<L>) :- d(X, Z, M), s(Z, Y), L = M + 1, M < 40. "
        "output most. most(max<Y>) :- k(_, Y).",
    ),
    "mutual recursion": (
        "output odd. output even. odd(X, Y) :- e(X, Y). odd(X, Y) :- s(X, Y). even(X, Y) :- odd(X, Z), e(Z, Y). "
        "odd(X, Y) :- even(X, Z), e(Z, Y). output n. n(count<X>) :- k(X, _).",
        "output odd. output even. odd(X, Y) :- e(X, Y). even(X, Y) :- odd(X, Z), e(Z, Y). "
        "odd(X, Y) :- even(X, Z), e(Z, Y). output n. n(count<X>) :- k(X, _), s(X, _).",
    ),
}
"""Versions of programs over the same inputs."""

ENGINES = ["duckdb", "matrices"]

COMMANDS = ("upgrade", "rebuild", "compact", "rollback", "revert", "vacuum", "recover", "archive", "init")


class Twins:
    """Two states that have the same history; the first is changed by a process that keeps tables."""

    def __init__(self, folder: Path, seed: int, shape: str, engine: str, kept: LocalExecutor) -> None:
        """Build both with the first version of a program."""
        self.folder, self.rng, self.engine, self.kept = folder, random.Random(seed), engine, kept
        texts = (INPUTS + text for text in SHAPES[shape])
        self.jobs = [Job(load_program(compile_program(SourceFile("twins.dl", text)).plan)) for text in texts]
        self.job, self.files = self.jobs[0], itertools.count()
        self.log = Log(quiet=True)
        self.log.warn = lambda message: None  # type: ignore[method-assign]
        self.init()

    def rows(self, most: int) -> dict[str, str]:
        """Files with rows of each input."""
        pairs = ((self.rng.randrange(9), self.rng.randrange(9)) for _ in range(3 * most))
        given = [sorted({*itertools.islice(pairs, self.rng.randint(most // 2, most))}) for _ in "se"]
        keyed = {self.rng.randrange(9): self.rng.randrange(9) for _ in range(most)}
        return self.written({"s": given[0], "e": given[1], "k": sorted(keyed.items())}, "x,y")

    def changes(self) -> dict[str, str]:
        """Files with changes of some of the inputs, a few or many."""
        most = self.rng.choice([2, 2, 12])
        given: dict[str, list[Row]] = {}
        for name in self.rng.sample("sek", self.rng.randint(1, 3)):
            pairs = {(self.rng.randrange(9), self.rng.randrange(9)): self.rng.choice("+-") for _ in range(most)}
            if name == "k":
                found = self.job.relation(None, str(self.state(0)), "k").to_pydict()
                held, new = dict(zip(found["x"], found["y"], strict=True)), dict(pairs)
                given[name] = [("-", x, held[x]) for x in new if x in held] + [("+", x, y) for x, y in new.items()]
            else:
                given[name] = [(op, *pair) for pair, op in pairs.items()]
        return self.written(given, "op,x,y")

    def written(self, given: dict[str, list[Row]], heading: str) -> dict[str, str]:
        """Rows as files."""
        found = {}
        for name, rows in given.items():
            path = self.folder / f"{name}-{next(self.files)}.csv"
            path.write_text("\n".join([heading, *(",".join(map(str, row)) for row in rows), ""]), encoding="utf-8")
            found[name] = str(path)
        return found

    def state(self, twin: int) -> Path:
        """The folder of a state."""
        return self.folder / "state" / str(twin)

    def both(self, command: Callable[[LocalExecutor | None, str], Any]) -> None:
        """Give both states a command; either both take it or both refuse it."""
        said = []
        for twin, executor in enumerate([self.kept, None]):
            try:
                done = command(executor, str(self.state(twin)))
                said.append({name: done[name] for name in ("commit", "changes", "rows") if name in done})
            except JobError as error:
                said.append(str(error).replace(str(self.state(twin)), "STATE"))
        assert said[0] == said[1]
        # A refused command leaves the version of the program, and a return to an earlier commit may bring another back.
        self.job = next(filter(self.reads, [self.job, *self.jobs]), self.job)

    def reads(self, job: Any) -> bool:
        """Whether a version of the program is that of the state."""
        try:
            job.relation(None, str(self.state(1)), "k")
        except JobError:
            return False
        return True

    def compare(self) -> None:
        """Compare all relations, and all published changes, of both states."""
        for relation in self.job.program.relations:
            if not relation.hidden:
                tables = [self.job.relation(None, str(self.state(twin)), relation.name).to_pylist() for twin in (0, 1)]
                rows, others = (sorted(tuple(row.values()) for row in table) for table in tables)
                assert rows == others, relation.name
        assert self.published(0) == self.published(1)

    def published(self, twin: int) -> dict[str, list[Row]]:
        """All published changes of a state, by folder."""
        found: dict[str, list[Row]] = {}
        root = self.state(twin) / "published"
        for path in sorted(root.glob("*/changes/**/*.parquet")):
            rows = pq.ParquetFile(path).read().to_pylist()
            found.setdefault(str(path.parent.relative_to(root)), []).extend(tuple(row.values()) for row in rows)
        return {folder: sorted(rows) for folder, rows in found.items()}

    def manifest(self) -> dict[str, Any]:
        """What the history of the state says of its last commit."""
        return dict(self.job.history(str(self.state(1)))["commits"][0])

    # Commands.

    def apply(self) -> None:
        """Apply a batch of changes."""
        given, strategy = self.changes(), self.rng.choice(["auto", "incremental", "recompute"])
        self.both(
            lambda executor, state: self.job.apply(
                executor, state, given, strategy=strategy, engine=self.engine, log=self.log
            )
        )

    def init(self) -> None:
        """Begin again, in the same place."""
        given, buckets = self.rows(30), self.rng.choice([1, 2])
        shutil.rmtree(self.folder / "state", ignore_errors=True)
        self.both(
            lambda executor, state: self.job.init(
                executor, state, given, buckets=buckets, engine=self.engine, log=self.log
            )
        )

    def upgrade(self) -> None:
        """Go on with another version of the program, perhaps with new rows of an input."""
        self.job = self.rng.choice(self.jobs)
        given = {"s": self.rows(20)["s"]} if self.rng.random() < 0.3 else {}
        self.both(lambda executor, state: self.job.upgrade(executor, state, given, engine=self.engine, log=self.log))

    def rebuild(self) -> None:
        """Compute everything again, perhaps with another version of the program, or other buckets."""
        if self.rng.random() < 0.5:
            self.job = self.rng.choice(self.jobs)
        buckets = self.rng.choice([None, 1, 2])
        self.both(
            lambda executor, state: self.job.rebuild(executor, state, buckets=buckets, engine=self.engine, log=self.log)
        )

    def compact(self) -> None:
        """Merge files."""
        self.both(lambda executor, state: self.job.compact(executor, state, log=self.log))

    def rollback(self) -> None:
        """Return to a commit, if this version of the program wrote it."""
        kept = [commit["commit"] for commit in self.job.history(str(self.state(1)))["commits"] if commit["kept"]]
        to = self.rng.choice(kept)
        self.both(lambda executor, state: self.job.rollback(executor, state, to, log=self.log))

    def revert(self) -> None:
        """Undo a batch."""
        batch = self.rng.choice(self.job.history(str(self.state(1)))["commits"])["batch"]
        self.both(lambda executor, state: self.job.revert(executor, state, batch, engine=self.engine, log=self.log))

    def vacuum(self) -> None:
        """Give commits up."""
        self.both(lambda executor, state: self.job.vacuum(state, keep="3", log=self.log))

    def recover(self) -> None:
        """Return to the last commit but one, since the last manifest is damaged."""
        for twin in (0, 1):
            last = max((self.state(twin) / "manifest").glob("*.json"))
            if self.manifest()["commit"] > 1:
                last.write_text("{", encoding="utf-8")
        self.both(lambda executor, state: self.job.recover(state, log=self.log))

    def archive(self) -> None:
        """Replace each state by what its archive has."""
        for twin in (0, 1):
            state, to = str(self.state(twin)), str(self.folder / f"{next(self.files)}.tar")
            self.job.export(state, to)
            shutil.rmtree(state)
            self.job.import_archive(state, to)


KINDS = [(shape, engine) for number, shape in enumerate(SHAPES) for engine in ENGINES[:: -1 if number % 2 else 1]]
"""Each shape with each engine; by day the first one, which is not the same for all."""


@by_day(1)
@pytest.mark.parametrize("few", one_in([300_000, 0], 2), ids=["one task", "a task for each stage"])
@pytest.mark.parametrize("kind", one_in(KINDS, 2), ids=" ".join)
@pytest.mark.parametrize("seed", seeds(1, 2))
def test_histories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, kind: tuple[str, str], few: int) -> None:
    """Batches, with each of the other commands between them; by day with a few."""
    monkeypatch.setattr(stages, "FEW_ROWS", few)
    monkeypatch.setattr(strategy, "FEW_TUPLES", 0)
    with LocalExecutor(2, keep=True) as kept:
        twins = Twins(tmp_path, seed, *kind, kept)
        twins.apply()
        for command in ("upgrade", *twins.rng.sample(COMMANDS, len(COMMANDS) if NIGHTLY else 2)):
            twins.apply()
            getattr(twins, command)()
            twins.apply()
            twins.compare()
        found = [twins.job.verify(None, str(twins.state(twin)), log=twins.log)["differences"] for twin in (0, 1)]
        assert found == [[], []]
