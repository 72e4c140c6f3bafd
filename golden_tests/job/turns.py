"""A state on which batches, returns to earlier commits and other commands take random turns, beside a model of it.

The model is the oracle, which recomputes each commit from the rows that were put in, and lists of batches.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from golden_tests.checks import REFUSALS
from golden_tests.harness import Row, arrow_type, compile_text, frozen, frozen_row, load_script, named, tuples_in
from golden_tests.oracle import language
from golden_tests.oracle.batches import Batch, apply, diff
from golden_tests.oracle.evaluate import evaluate
from golden_tests.oracle.random_programs import Scenario
from golden_tests.random_search import scenario_of

Rows = dict[str, set[Row]]


class Commit:
    """What the model knows of a commit: the rows put in, all relations, and the batches of the state."""

    def __init__(self, inputs: Rows, state: Rows, batches: dict[str, int]) -> None:
        """``batches`` has the number of the commit that applied each of them."""
        self.inputs, self.state, self.batches = inputs, state, batches


class Turns:
    """A job, a state in files, and the model."""

    def __init__(
        self, job: Any, scenario: Scenario, folder: Path, rng: random.Random, buckets: int, keep: int, spark: Any = None
    ) -> None:
        """Build the state; raises an error of the oracle's if it does not take the inputs."""
        self.job, self.folder, self.rng, self.keep, self.spark = job, folder, rng, keep, spark
        self.root, self.log = folder / "state", job.Log(quiet=True)
        self.program = language.parse(scenario.text)
        self.scenario = scenario
        self.commits: dict[int, Commit] = {}
        self.first = self.last = 1
        #: Batches by ID, the changes that each of them was first given.
        self.given: dict[str, Batch] = {}
        self.outputs: dict[str, set[Row]] = {}
        self.seen: set[Path] = set()
        inputs = {name: set(rows) for name, rows in scenario.inputs.items()}
        state = evaluate(self.program, inputs)
        files = {
            name: self.file(f"rows-{place}", name, sorted(rows, key=repr))
            for place, (name, rows) in enumerate(inputs.items())
        }
        job.init(spark, str(self.root), files, buckets=buckets, keep=str(keep), log=self.log)
        self.commits[1] = Commit(inputs, state, {})
        self.outputs = self.visible_outputs(state)

    def file(self, stem: str, name: str, rows: list[Row], signs: list[str] | None = None) -> str:
        """A file with rows of an input, or with changes."""
        relation = next(r for r in self.job.PROGRAM.relations if r.name == name and r.kind == "input")
        columns = {
            column.name: pa.array([row[place] for row in rows], arrow_type(column.type.removesuffix("?")))
            for place, column in enumerate(relation.columns)
        }
        operation = self.job.operation_column(relation.columns)
        if signs is not None or not columns:
            columns[operation] = pa.array(signs or ["+"] * len(rows), pa.string())
        path = self.folder / f"{stem}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(columns), path)
        return str(path)

    def visible_outputs(self, state: Rows) -> Rows:
        """The relations that are published."""
        names = {r.name for r in self.job.PROGRAM.relations if r.output and not r.hidden}
        return {name: set(state.get(name, set())) for name in names}

    @property
    def now(self) -> Commit:
        """The last commit."""
        return self.commits[self.last]

    def step(self) -> str:
        """Do something; returns what, and checks the state and what was published."""
        turns = ["apply"] * 4 + ["rollback"] * 3 + ["revert"] * 2 + ["again", "again", "compact", "vacuum", "known"]
        turn = self.rng.choice(turns)
        before = self.last
        getattr(self, turn)()
        self.check(f"{turn} after commit {before}")
        return turn

    def committed(self, number: int, made: Commit) -> None:
        """A commit was made."""
        assert number == self.last + 1
        self.last, self.commits[number] = number, made
        self.first = min(number - 1, max(self.first, number - self.keep + 1))

    def run(self, batch: str, changes: Batch) -> None:
        """Apply a batch to both."""
        try:
            inputs = apply(self.now.inputs, changes, self.program)
            state = evaluate(self.program, inputs)
        except tuple(REFUSALS):
            return
        files = {
            name: self.file(f"batch-{self.last}-{place}", name, [row for _, row in rows], [op for op, _ in rows])
            for place, (name, rows) in enumerate(changes.items())
        }
        done = self.job.apply(self.spark, str(self.root), files, batch=batch, log=self.log)
        assert done["applied"]
        self.given[batch] = changes
        self.committed(done["commit"], Commit(inputs, state, {**self.now.batches, batch: self.last + 1}))

    def apply(self) -> None:
        """A new batch."""
        self.run(f"b{self.last}", self.rng.choice(self.scenario.batches or [{}]))

    def again(self) -> None:
        """A batch that was rolled back."""
        undone = sorted(self.given.keys() - self.now.batches.keys())
        if undone:
            batch = self.rng.choice(undone)
            self.run(batch, self.given[batch])

    def known(self) -> None:
        """A batch that was applied changes nothing."""
        own = sorted(self.given.keys() & self.now.batches.keys())
        if own:
            done = self.job.apply(self.spark, str(self.root), {}, batch=self.rng.choice(own), log=self.log)
            assert not done["applied"] and done["commit"] == self.last

    def rollback(self) -> None:
        """Return to any commit that is kept; to others is refused."""
        to = self.rng.randint(max(1, self.first - 1), self.last)
        if to < self.first:
            assert self.refused(lambda: self.job.rollback(self.spark, str(self.root), to, log=self.log), "is not kept")
            return
        done = self.job.rollback(self.spark, str(self.root), to, log=self.log)
        if done["applied"]:
            old = self.commits[to]
            self.committed(done["commit"], Commit(old.inputs, old.state, old.batches))
        else:
            assert self.commits[to].batches == self.now.batches and self.commits[to].inputs == self.now.inputs

    def revert(self) -> None:
        """Take back a batch, if its commit and the one before are kept."""
        if not self.now.batches:
            return
        batch, commit = self.rng.choice(sorted(self.now.batches.items()))

        def go() -> Any:
            return self.job.revert(self.spark, str(self.root), batch, log=self.log)

        if commit <= self.first:
            assert self.refused(go, "is not kept", "no commit that is recorded")
            return
        then, earlier = self.commits[commit], self.commits[commit - 1]
        inverse: Batch = {name: sorted(found, key=repr) for name, found in diff(then.inputs, earlier.inputs).items()}
        for name, found in inverse.items():
            key = self.program.relations[name].key
            since = diff(then.inputs, self.now.inputs).get(name, set())
            if key and {key_values(row, key) for _, row in since} & {key_values(row, key) for _, row in found}:
                assert self.refused(go, "later batches have changed rows")
                return
        try:
            inputs = apply(self.now.inputs, inverse, self.program)
            state = evaluate(self.program, inputs)
        except tuple(REFUSALS):
            assert self.refused(go, "")
            return
        done = go()
        self.committed(done["commit"], Commit(inputs, state, self.now.batches))

    def compact(self) -> None:
        """Merge files."""
        done = self.job.compact(self.spark, str(self.root), log=self.log)
        if done["applied"]:
            self.committed(done["commit"], self.now)

    def vacuum(self) -> None:
        """Remove what is not kept; now and then keep more, or less."""
        keep = self.rng.choice([None, self.keep, 2, 3, 5])
        done = self.job.vacuum(str(self.root), keep and str(keep), log=self.log)
        self.keep = keep or self.keep
        if done["applied"]:
            self.committed(done["commit"], self.now)
        manifests = [self.job.read_manifest(self.root, number) for number in range(self.first, self.last + 1)]
        referenced = {file for manifest in manifests for file in self.job.referenced_files(manifest)}
        assert {f"data/{name}" for name in self.job.files_under(self.root / "data")} == referenced
        for path in self.root.glob("published/*/changes/batch=*/*.parquet"):
            assert int(path.name[:12]) >= self.first, path

    def refused(self, go: Any, *said: str) -> bool:
        """Whether a command is refused with one of these words."""
        try:
            go()
        except self.job.JobError as error:
            assert any(words in str(error) for words in said), error
            return True
        return False

    def check(self, said: str) -> None:
        """The state is that of the model, and so are an earlier commit and all that was published."""
        assert self.job.read_manifest(self.root).kept_from == self.first, said
        for relation in self.job.PROGRAM.relations:
            if not relation.hidden:
                expected = self.rows_in(self.now, relation.name)
                found = tuples_in(self.job.relation(self.spark, str(self.root), relation.name))
                assert {frozen_row(row) for row in found} == expected, f"{said}: {relation.name}"
        for name in self.outputs:
            folder = named(self.job.PROGRAM, name)
            for path in (self.root / "published" / (folder.folder or name) / "changes").glob("batch=*/*.parquet"):
                if path not in self.seen:
                    self.seen.add(path)
                    for sign, *row in (r.values() for r in pq.ParquetFile(path).read().to_pylist()):
                        (self.outputs[name].remove if sign == "-" else self.add(name))(frozen_row(row))
        assert self.outputs == self.visible_outputs(self.now.state), said
        earlier = self.rng.randint(self.first, self.last)
        visible = [relation.name for relation in self.job.PROGRAM.relations if not relation.hidden]
        name = self.rng.choice(visible)
        old, new = (self.rows_in(self.commits[number], name) for number in (earlier, self.last))
        found = tuples_in(self.job.relation(self.spark, str(self.root), name, as_of=earlier))
        assert {frozen_row(row) for row in found} == old, (said, earlier, name)
        net = tuples_in(self.job.changes(self.spark, str(self.root), name, earlier))
        wanted = {*(("-", *row) for row in old - new), *(("+", *row) for row in new - old)}
        assert len(net) == len(wanted) and {tuple(map(frozen, row)) for row in net} == wanted, (said, earlier, name)

    def add(self, name: str) -> Any:
        """Add a row that is not there."""

        def go(row: Row) -> None:
            assert row not in self.outputs[name], (name, row)
            self.outputs[name].add(row)

        return go

    def rows_in(self, commit: Commit, name: str) -> set[Row]:
        """The rows of a relation in a commit."""
        return commit.state[name] if name in commit.state else commit.inputs.get(name, set())

    def end(self) -> None:
        """The job finds its state exact, and no file is there that nothing refers to."""
        said = self.job.verify(self.spark, str(self.root), log=self.log)
        assert said["differences"] == []


def take_turns(seed: int, folder: Path, steps: int, spark: Any = None, make: type[Turns] = Turns) -> None:
    """Run a random program that the oracle takes, and a number of commands on its state."""
    rng = random.Random(seed)
    scenario = scenario_of(seed, nasty=seed % 2 == 1, nulls=seed % 3 == 0)
    job: Any = load_script(compile_text(scenario.text)[1])
    try:
        try:
            evaluate(language.parse(scenario.text), {name: set(rows) for name, rows in scenario.inputs.items()})
        except tuple(REFUSALS):
            return
        turns = make(job, scenario, folder, rng, 1 + seed % 3, rng.choice([2, 3, 6, 20]), spark)
        for _ in range(steps):
            turns.step()
        turns.end()
    finally:
        del sys.modules[job.__name__]


def key_values(row: Row, key: Any) -> Row:
    """The values of a row in the columns of a key, given by place."""
    return tuple(row[place] for place in key)
