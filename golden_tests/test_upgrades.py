"""What an upgrade to another program leaves of the rows that were put in, in real states, against the oracle."""

from __future__ import annotations

import itertools
import json
import random
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from golden_tests.harness import Row, arrow_type, compile_text, load_script, row_of
from golden_tests.nightly import AT_NIGHT, seeds
from golden_tests.oracle.batches import Batch, apply
from golden_tests.oracle.evaluate import evaluate
from golden_tests.oracle.language import Program, parse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATHS = "output relation p(a: int, b: int)\np(X, Y) :- e(X, Y).\np(X, Z) :- p(X, Y), e(Y, Z).\n"

#: One input in all the ways in which it can be declared; ``derived`` only is none.
VARIANTS = {
    "plain": "input relation e(a: int, b: int)\n",
    "facts": "input relation e(a: int, b: int)\ne(1, 2).\ne(7, 8).\n",
    "input derived": "input derived relation e(a: int, b: int)\ninput relation s(x: int)\ne(X, X) :- s(X).\n",
    "derived": "relation e(a: int, b: int)\ninput relation s(x: int)\ne(X, X) :- s(X).\n",
    "key": "input output relation e(a: int, b: int) primary key (a)\n",
    "key and facts": "input output relation e(a: int, b: int) primary key (a)\ne(7, 8).\n",
    "symmetric": "input relation e(a: int, b: int) symmetric\n",
}

PAIRS = list(itertools.permutations(VARIANTS, 2))


class World:
    """A state that programs follow each other on, and what was put into it."""

    def __init__(self, spark: SparkSession, folder: Path, text: str, inputs: dict[str, set[Row]]) -> None:
        """Build the state of a program."""
        self.spark, self.folder, self.state = spark, folder, str(folder / "state")
        self.take(text)
        self.inputs: dict[str, set[Row]] = {name: set() for name in self.names()}
        given = {name: [("+", row) for row in rows] for name, rows in inputs.items() if name in self.inputs}
        self.module.init(spark, self.state, self.files(given), buckets=2, log=self.log)
        self.inputs = apply(self.inputs, given, self.program)

    def take(self, text: str) -> None:
        """Go on with a program."""
        self.program: Program = parse(text)
        self.module: Any = quick(load_script(compile_text(text)[1]))
        self.log = self.module.Log(quiet=True)

    def names(self) -> list[str]:
        """The inputs of the program."""
        return [relation.name for relation in self.program.inputs]

    def apply(self, batch: Batch) -> None:
        """Apply a batch, as far as the program has its inputs."""
        batch = {name: changes for name, changes in batch.items() if name in self.inputs}
        self.module.apply(self.spark, self.state, self.files(batch), log=self.log)
        self.inputs = apply(self.inputs, batch, self.program)

    def upgrade(self, text: str, command: str) -> None:
        """Go on with another program, by ``upgrade`` or ``rebuild``; inputs of a name and columns keep their rows."""
        before = self.inputs
        del sys.modules[self.module.__name__]
        self.take(text)
        getattr(self.module, command)(self.spark, self.state, log=self.log)
        self.inputs = {name: before.get(name, set()) for name in self.names()}

    def files(self, batch: Batch) -> dict[str, str]:
        """A batch as files."""
        folder = self.folder / "given"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name, changes in batch.items():
            columns = self.program.relations[name].columns
            arrays = [
                pa.array([row[n] for _, row in changes], arrow_type(column.type)) for n, column in enumerate(columns)
            ]
            arrays.append(pa.array([op for op, _ in changes], pa.string()))
            names = [*(column.name for column in columns), "op"]
            pq.write_table(pa.table(arrays, names=names), folder / f"{name}.parquet")
        return {name: str(folder / f"{name}.parquet") for name in batch}

    def check(self) -> None:
        """Compare every relation with what the inputs come to, and what was published with the difference."""
        expected = {**self.inputs, **evaluate(self.program, self.inputs)}
        for relation in self.module.PROGRAM.relations:
            if not relation.hidden:
                assert self.rows(relation) == expected[relation.name], relation.name

    def rows(self, relation: Any) -> set[Row]:
        """The stored tuples of a relation."""
        module, engine = self.module, self.module.DuckEngine()
        manifest = module.read_manifest(Path(self.state))
        entries = module.bucket_files(manifest["relations"], relation, None)
        found = [
            row_of(row, relation)
            for row in engine.first(module.stored_rows(engine, self.state, relation, entries), 2**40)
        ]
        engine.connection.close()
        assert len(found) == len(set(found)) == manifest["relations"].get(relation.table, {"rows": 0})["rows"]
        return set(found)

    def shown(self, outputs: bool) -> dict[str, set[Row]]:
        """The tuples of the relations that users see, or of the output relations."""
        return {r.name: self.rows(r) for r in self.module.PROGRAM.relations if r.output or not (outputs or r.hidden)}

    def published(self) -> dict[str, set[tuple[str, Row]]]:
        """The changes that the last commit has published."""
        manifest = self.module.read_manifest(Path(self.state))
        found: dict[str, set[tuple[str, Row]]] = {}
        for item in manifest["publish"]:
            relation = next(
                r for r in self.module.PROGRAM.relations if r.output and not r.hidden and r.name == item["relation"]
            )
            names = [column.name for column in relation.columns]
            for path in sorted(Path(self.state, item["folder"]).glob("*.parquet")):
                for row in pq.ParquetFile(path).read().to_pylist():
                    values = tuple(row[name] for name in names)
                    found.setdefault(relation.name, set()).add((row[item["columns"]["_op"]], values))
        return found


def quick(module: ModuleType) -> ModuleType:
    """A job whose tasks run here."""
    changed: Any = module
    changed.on_buckets = lambda spark, numbers, work: [
        json.loads(json.dumps(work(number), default=str)) for number in numbers
    ]
    return module


def differences(before: dict[str, set[Row]], after: dict[str, set[Row]]) -> dict[str, set[tuple[str, Row]]]:
    """The net changes of relations that are on both sides."""
    changes = {
        name: {("+", row) for row in after[name] - before[name]} | {("-", row) for row in before[name] - after[name]}
        for name in before.keys() & after.keys()
    }
    return {name: found for name, found in changes.items() if found}


def chosen() -> Iterator[Any]:
    """Pairs of variants and how one becomes the other; by day some of them."""
    for number, (old, new) in enumerate(PAIRS):
        for command, every, first in (("upgrade", 6, 0), ("rebuild", 9, 4)):
            by_day = {old, new} == {"plain", "facts"} or number % every == first
            yield pytest.param(old, new, command, marks=() if by_day else AT_NIGHT)


@pytest.mark.parametrize(("old", "new", "command"), list(chosen()))
def test_ways_to_declare_an_input(old: str, new: str, command: str, tmp_path: Path, spark: SparkSession) -> None:
    """The rows that were put in stay, whatever else gives the relation tuples; what changes is published."""
    given = {"e": {(1, 2), (2, 3), (5, 1)}, "s": {(3,), (4,)}}
    world = World(spark, tmp_path, VARIANTS[old] + PATHS, given)
    world.apply({"e": [("-", (1, 2)), ("+", (4, 5))], "s": [("-", (3,))]})
    world.check()
    before = world.shown(outputs=False)
    world.upgrade(VARIANTS[new] + PATHS, command)
    world.check()
    assert world.published() == differences(before, world.shown(outputs=True))
    world.apply({"e": [("-", (7, 8)), ("-", (2, 3)), ("+", (8, 9))], "s": [("+", (3,))]})
    world.check()


@pytest.mark.parametrize("seed", seeds(2, 40))
def test_one_way_after_the_other(seed: int, tmp_path: Path, spark: SparkSession) -> None:
    """Several upgrades, with batches and compaction between them."""
    rng = random.Random(seed)
    numbers = [(a, b) for a in range(4) for b in range(9)]
    world = World(
        spark, tmp_path, VARIANTS["plain"] + PATHS, {"e": set(dict(rng.sample(numbers, 4)).items()), "s": {(1,)}}
    )
    for _ in range(5):
        if rng.random() < 0.3:
            world.module.compact(spark, world.state, log=world.log)
        world.upgrade(VARIANTS[rng.choice(list(VARIANTS))] + PATHS, rng.choice(["upgrade", "upgrade", "rebuild"]))
        world.check()
        gone = rng.sample(sorted(world.inputs.get("e", ())), min(1, len(world.inputs.get("e", ()))))
        # A key may be declared next, and a state with two rows of one is refused then.
        taken = {row[0] for row in world.inputs.get("e", ())}
        come = [(a, b) for a, b in dict(rng.sample(numbers, 2)).items() if a not in taken]
        world.apply({"e": [("-", row) for row in gone] + [("+", row) for row in come], "s": [("+", (2,))]})
        world.check()
