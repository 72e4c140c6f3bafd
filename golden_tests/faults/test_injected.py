"""Every system call by which a command changes its state fails (ENOSPC, EIO), or is the last one (SIGKILL).

The state before, the command, and what it makes of the state are the same each time; ``strace`` lets one call fail in
each run. Whatever it is: the state is the one before or the one after, as the message says; no publication is there in
part or without its commit; and the same command, run again, brings the state to the one after.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest

from golden_tests.faults import stepping
from golden_tests.faults.traced import FORCES, Answer, Fault, Traced, faults_at, missed
from golden_tests.faults.world import FORMER, OUTPUTS, PROGRAM, World
from golden_tests.harness import Row, row_of
from golden_tests.nightly import AT_NIGHT, START, by_day
from golden_tests.oracle import batches, evaluate, language

COMMANDS = ("init", "apply", "compact", "upgrade", "rebuild")
FAULTS = ("error=ENOSPC", "error=EIO", "signal=SIGKILL")
SEED = 7
UNCHANGED = "nothing was committed, the state is unchanged"
FAILED_IN_TASK = "a file of the state cannot be read or written"


class Found(NamedTuple):
    """What one finds in a state: the last commit, the relations, and what is published in each batch."""

    commit: int
    relations: dict[str, set[Row]]
    published: dict[tuple[str, str], list[tuple[Any, ...]]]


class Scene:
    """A state, and a command on it that makes a commit."""

    def __init__(self, folder: Path, command: str) -> None:
        """Build the state, keep a copy, and see what the command does if nothing goes wrong."""
        self.world = World(folder / "world")
        self.command = command
        self.traced = Traced(self.world.script, folder / "traced")
        self.copy, self.state = folder / "before", self.world.state
        inputs = batches.apply({}, self.world.first, self.world.language)
        given = str(self.world.folder / "batches" / "init")
        self.arguments: list[str] = {
            "init": ["--input", given, "--buckets", "1"],
            "apply": ["--batch", "b002", "--changes", str(self.world.folder / "batches" / "b002")],
            "rebuild": ["--input", str(folder / "link.csv")],
        }.get(command, [])
        if command != "init":
            former = Traced(World(folder / "former", program=FORMER).script, folder / "building")
            builder = former if command == "upgrade" else self.traced
            self.succeeds(builder, "init", "--input", given, "--buckets", "1")
            for name in (self.world.new_batch(), self.world.new_batch()):
                place = str(self.world.folder / "batches" / name)
                self.succeeds(builder, "apply", "--changes", place, "--batch", name)
                inputs = batches.apply(inputs, self.world.batches[name], self.world.language)
            former.close()
            shutil.copytree(self.state, self.copy)
        if command == "apply":
            inputs = batches.apply(inputs, self.world.batches[self.world.new_batch()], self.world.language)
        if command == "rebuild":
            inputs["link"] = {(1, 2), (2, 3), (3, 1), (7, 8)}
            lines = ["src,dst", *(f"{src},{dst}" for src, dst in sorted(inputs["link"]))]
            (folder / "link.csv").write_text("\n".join(lines) + "\n")
        self.before = self.found()
        self.calls = self.run(traced=True, seed=SEED).calls
        self.after = self.found()
        # What the command does is right; from here on it is compared with that.
        expected = {**inputs, **evaluate.evaluate(self.world.language, inputs)}
        assert self.after.relations == {name: expected[name] for name in self.after.relations}
        self.check_before(language.parse(FORMER if command == "upgrade" else PROGRAM))
        old, new = ({name: found.relations[name] for name in OUTPUTS} for found in (self.before, self.after))
        # What init makes is all there is, and no change.
        changes = {} if command == "init" else batches.diff(old, new)
        made = self.after.published.keys() - self.before.published.keys()
        assert {relation: self.after.published[relation, batch] for relation, batch in made} == {
            name: sorted((op, *row) for op, row in rows) for name, rows in changes.items()
        }
        assert self.after.commit == self.before.commit + 1

    def check_before(self, program: language.Program) -> None:
        """The state from which the command starts is right."""
        relations = self.before.relations
        outputs = {name: relations[name] for name in OUTPUTS}
        assert outputs == {**outputs, **evaluate.evaluate(program, {n: relations[n] for n in ("link", "closed")})}

    def succeeds(self, traced: Traced, *arguments: str) -> None:
        """Run a command that does."""
        answer = traced.command(*arguments, "--state", str(self.state))
        assert answer.code == 0, answer.err

    def run(self, traced: bool = False, fault: Fault | None = None, seed: int = 0) -> Answer:
        """Run the command."""
        arguments = [self.command, *self.arguments, "--state", str(self.state)]
        return self.traced.command(*arguments, traced=traced, fault=fault, seed=seed)

    def start_again(self) -> None:
        """Let the state be as it was."""
        shutil.rmtree(self.state, ignore_errors=True)
        if self.command != "init":
            shutil.copytree(self.copy, self.state)

    def found(self) -> Found:
        """What is in the state."""
        module, manifest = self.world.module, self.world.manifest()
        relations, engine = {}, module.DuckEngine(state=str(self.state))
        for relation in module.PROGRAM.relations:
            if not relation.hidden:
                entries = module.bucket_files(manifest.relations, relation, None) if manifest else []
                sql = module.stored_rows(engine, str(self.state), relation, entries)
                relations[relation.name] = {row_of(record, relation) for record in engine.first(sql, 2**40)}
        published: dict[tuple[str, str], list[tuple[Any, ...]]] = {}
        for folder in self.state.glob("published/*/changes/batch=*"):
            rows = [row for file in folder.iterdir() for row in pq.ParquetFile(file).read().to_pylist()]
            key = folder.parent.parent.name, folder.name.removeprefix("batch=")
            published[key] = sorted(tuple(row.values()) for row in rows)
        return Found(manifest.commit if manifest else 0, relations, published)

    def faults(self, what: str) -> list[Fault]:
        """Everything that can go wrong in one way."""
        return faults_at(self.calls, self.state, what)

    def fails(self, fault: Fault) -> bool:
        """Let a call fail, and check what is left, and what the command makes of that when it is run again; whether
        the call failed."""
        self.start_again()
        answer = self.run(fault=fault, seed=SEED)
        if not answer.injected:
            assert answer.code == 0, answer.err
            return False
        left = self.found()
        committed = left.commit > self.before.commit
        assert left[:2] == (self.after if committed else self.before)[:2]
        assert self.before.published.items() <= left.published.items() <= self.after.published.items()
        assert committed or left.published == self.before.published, "published without a commit"
        if fault.what == "signal=SIGKILL":
            assert answer.code == -9
        elif answer.code == 0:
            # What could not be removed.
            assert fault.name not in FORCES
            assert left == self.after
        else:
            assert answer.code == 1, answer.err
            said = [f"batch {self.batch()} is committed"] if committed else [UNCHANGED, FAILED_IN_TASK]
            assert any(words in answer.err for words in said), answer.err
        again = self.run()
        # There is a state already.
        assert again.code == (1 if self.command == "init" and committed else 0), again.err
        if again.code:
            assert "there is a state in" in again.err
        self.succeeds(self.traced, "status")
        last = self.found()
        assert last[1:] == self.after[1:]
        assert last.commit == self.after.commit + (self.command == "rebuild" and committed)
        return True

    def batch(self) -> str:
        """The ID of the batch that the command makes."""
        commit = f"{self.after.commit:06d}"
        return {"init": "init", "apply": "b002"}.get(self.command, f"{self.command}-{commit}")

    def close(self) -> None:
        """End."""
        self.traced.close()


@pytest.fixture
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    """The scene of a command."""
    made = Scene(tmp_path / "scene", request.param)
    yield made
    made.close()


def every(scene: Scene | Step, faults: list[Fault]) -> None:
    """Let one call after the other fail."""
    none = missed(faults, scene.fails)
    # Threads share the files of DuckDB now and then in another way.
    assert len(none) <= len(faults) // 5, none


@pytest.mark.parametrize("scene", ["apply"], indirect=True)
def test_some_calls_fail(scene: Scene) -> None:
    """By day: a few, where it matters most."""
    chosen = [
        ("error=EIO", "fsync", "/manifest"),
        ("error=ENOSPC", "link", ".json"),
        ("error=EIO", "fsync", "/changes"),
        ("signal=SIGKILL", "rename", "/.batch="),
    ]
    for what, name, words in chosen:
        fits = (f for f in scene.faults(what) if f.name.startswith(name) and words in f.place)
        assert scene.fails(next(fits)), (what, name, words)


@AT_NIGHT
@pytest.mark.parametrize("scene", ["apply"], indirect=True)
def test_a_full_disk_loses_no_publication(scene: Scene) -> None:
    """A batch was committed and not published; ``rebuild``, which goes on where files are damaged, waits for room."""
    scene.start_again()
    renamed = next(f for f in scene.faults("signal=SIGKILL") if f.name.startswith("rename") and "/.batch=" in f.place)
    assert scene.run(fault=renamed, seed=SEED).injected
    left, killed = scene.found(), scene.state.parent / "killed"
    assert left.commit == scene.after.commit and left.published != scene.after.published
    shutil.copytree(scene.state, killed)
    scene.command, scene.arguments = "rebuild", []
    calls = scene.run(traced=True, seed=SEED).calls
    shutil.rmtree(scene.state)
    killed.rename(scene.state)
    for what, name in (("error=ENOSPC", "write"), ("error=EIO", "fsync")):
        fault = next(f for f in faults_at(calls, scene.state / "published", what) if f.name == name)
        answer = scene.run(fault=fault, seed=SEED)
        assert answer.injected and answer.code == 1, answer.err
        assert "batch b002 is committed, and the next command publishes" in answer.err
        assert scene.found() == left
    assert scene.run().code == 0
    assert scene.found().published == scene.after.published


@AT_NIGHT
@pytest.mark.parametrize("what", FAULTS)
@pytest.mark.parametrize("scene", COMMANDS, indirect=True)
def test_every_call_fails(scene: Scene, what: str) -> None:
    """One after the other; in each night, every twelfth one."""
    every(scene, scene.faults(what)[START % 12 :: 12])


class Step:
    """A process, and its step."""

    def __init__(self, folder: Path) -> None:
        """Let it begin, keep a copy, and see what it does if nothing goes wrong."""
        folder.mkdir()
        script = stepping.write_script(folder)
        self.traced = Traced(script, folder / "traced")
        self.root, self.copy = folder / "root", folder / "before"
        self.root.mkdir()
        assert self.ask("build").code == 0
        shutil.copytree(self.root, self.copy)
        self.calls = self.ask("step", traced=True, seed=SEED).calls
        self.check_recovery()

    def ask(self, work: str, traced: bool = False, fault: Fault | None = None, seed: int = 0) -> Answer:
        """Let a fork do one of the things that processes do."""
        place = f"{stepping.__name__}:{work}"
        return self.traced.ask(place, traced, fault, seed, folder=str(self.root))

    def faults(self, what: str) -> list[Fault]:
        """Everything that can go wrong in one way."""
        return faults_at(self.calls, self.root, what)

    def fails(self, fault: Fault) -> bool:
        """Let a call of the step fail, and check what the next run makes of what is left; whether the call failed."""
        shutil.rmtree(self.root)
        shutil.copytree(self.copy, self.root)
        answer = self.ask("step", fault=fault, seed=SEED)
        if fault.what == "signal=SIGKILL":
            assert answer.code == (-9 if answer.injected else 0)
        else:
            assert answer.code in (0, 1), answer.err
        acknowledged = not any((self.root / "channels" / "A.link--B" / "messages").glob("*-changes-*"))
        if acknowledged:
            # What follows is in the state, and on its way; or the process says that the channel is cut.
            assert self.kept() == [stepping.REACH_BEFORE, stepping.REACH_AFTER]
            sent = (self.root / "channels" / "B.reach--C" / "messages").glob("*-changes-*")
            on_its_way = any(pq.ParquetFile(path).metadata.num_rows for path in sent)
            assert on_its_way or stepping.cut_off(self.root) == ["B.reach--C"]
        self.check_recovery()
        return answer.injected

    def check_recovery(self) -> None:
        """The process goes on from what it finds; it, its reader, and who follows its changes have the same."""
        answer = self.ask("recover")
        assert answer.code == 0, answer.err
        has, received = json.loads(answer.out)
        assert {*map(tuple, has)} == stepping.REACH_AFTER
        assert [row for row, _ in received] == has and {count for _, count in received} == {1}
        assert self.kept()[-1] == stepping.REACH_AFTER

    def kept(self) -> list[set[Row]]:
        """The relation after each step that has changed it, as its changes say; each of them must be one."""
        there: set[Row] = set()
        found: dict[int, set[Row]] = {}
        with contextlib.closing(sqlite3.connect(self.root / "home" / "state.db")) as connection:
            for commit, op, *values in connection.execute('SELECT * FROM "_changes_of_B_reach" ORDER BY _commit'):
                row = tuple(values)
                assert (row in there) == (op == "-"), (commit, op, row)
                there ^= {row}
                found[commit] = set(there)
        return [*found.values()]

    def close(self) -> None:
        """End."""
        self.traced.close()


@pytest.fixture
def step(tmp_path: Path) -> Iterator[Step]:
    """A process and its step."""
    made = Step(tmp_path / "step")
    yield made
    made.close()


@by_day(1)
def test_some_calls_of_a_step_fail(step: Step) -> None:
    """By day: where a step is noted, where a message leaves."""
    chosen = [
        ("error=EIO", "fdatasync", "/state.db-wal"),
        ("signal=SIGKILL", "rename", "/B.reach--C/messages/"),
        ("error=ENOSPC", "write", "/B.reach--C/messages/"),
    ]
    for what, name, words in chosen:
        fits = (f for f in step.faults(what) if f.name == name and words in f.place)
        assert step.fails(next(fits)), (what, name, words)


@AT_NIGHT
@pytest.mark.parametrize("what", FAULTS)
def test_every_call_of_a_step_fails(step: Step, what: str) -> None:
    """One after the other."""
    every(step, step.faults(what)[START % 12 :: 12])
