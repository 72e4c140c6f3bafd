"""Folders of batches: ``apply --batches`` and ``follow``."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from flintlog.compiler.cli.main import main

from golden_tests.checks import Checked
from golden_tests.harness import LocalJob, arrow_type, compile_text, load_script, stored_tuples
from golden_tests.nightly import AT_NIGHT, numbers, seeds
from golden_tests.random_search import scenario_of

PROGRAM = """
input relation link(@src: int, dst: int)
output relation reachable(@src: int, dst: int)
reachable(@S, D) :- link(@S, D).
reachable(@S, D) :- link(@S, Z), reachable(@Z, D).
"""


class World:
    """A job, its state with the links 1 -> 2 -> 3, and a folder of batches."""

    def __init__(self, folder: Path) -> None:
        """Build the state."""
        self.folder, self.state, self.batches = folder, folder / "state", folder / "batches"
        self.script = folder / "net.py"
        text = compile_text(PROGRAM, "net.dl")[1]
        self.script.write_text(text, encoding="utf-8")
        self.job: Any = load_script(text)
        self.batches.mkdir()
        rows = folder / "link.csv"
        rows.write_text("src,dst\n1,2\n2,3\n", encoding="utf-8")
        self.links = {(1, 2), (2, 3)}
        self.job.init(None, str(self.state), {"link": str(rows)}, buckets=2, log=self.job.Log(quiet=True))

    def put(self, name: str, *changes: str) -> None:
        """Let a batch with changes such as ``+3,4`` arrive at once."""
        made = self.batches / f".{name}"
        made.mkdir()
        lines = [f"{change[0]},{change[1:]}" for change in changes]
        (made / "link.csv").write_text("\n".join(["op,src,dst", *lines, ""]), encoding="utf-8")
        made.rename(self.batches / name)
        for change in changes:
            row = (int(change[1:].split(",")[0]), int(change[1:].split(",")[1]))
            self.links = self.links | {row} if change[0] == "+" else self.links - {row}

    def run(self, *arguments: str) -> int:
        """Run a command of the job in this process."""
        code: int = self.job.main([*arguments, "--state", str(self.state), "--on", "here", "--quiet"])
        return code

    def apply_all(self) -> list[Any]:
        """Apply the batches of the folder, and return the results."""
        executor, log = self.job.LocalExecutor(), self.job.Log(quiet=True)
        return list(self.job.apply_batches(self.job.PROGRAM, executor, str(self.state), str(self.batches), log))

    def start(self, *options: str) -> subprocess.Popen[str]:
        """Start ``follow`` in a process of its own."""
        command = [sys.executable, str(self.script), "follow", "--state", str(self.state), "--json", "--poll", "0.02"]
        return subprocess.Popen(
            [*command, "--batches", str(self.batches), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )

    def check(self) -> None:
        """The state has the links of all batches that arrived, and what follows from them."""
        pairs = set(self.links)
        while more := {(a, d) for a, b in pairs for c, d in self.links if b == c} - pairs:
            pairs |= more
        found = self.job.relation(None, str(self.state), "reachable")
        assert set(zip(*(column.to_pylist() for column in found.columns), strict=True)) == pairs
        links = self.job.relation(None, str(self.state), "link")
        assert set(zip(*(column.to_pylist() for column in links.columns), strict=True)) == self.links
        assert self.job.verify(None, str(self.state), log=self.job.Log(quiet=True))["differences"] == []

    @property
    def applied(self) -> list[str]:
        """The batches of the state, the first one left out."""
        return list(self.job.read_state(self.state).batches[1:])


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A job and its state."""
    made = World(tmp_path)
    yield made
    del sys.modules[made.job.__name__]


def test_batches_of_a_folder(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """They are applied in the order of their names, each once; what is not complete is passed over."""
    world.put("2026-01-02", "-1,2")
    world.put("2026-01-01", "+3,4")
    (world.batches / "_later").mkdir()
    (world.batches / ".hidden").write_text("x", encoding="utf-8")
    assert world.run("apply", "--batches", str(world.batches)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(", in")[0] for line in lines if line.startswith("batch")] == [
        "batch 2026-01-01 is commit 2",
        "batch 2026-01-02 is commit 3",
    ]
    world.put("2026-01-03", "+1,4")
    assert world.run("apply", "--batches", str(world.batches), "--json") == 0
    (said,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (said["batch"], said["commit"], said["applied"]) == ("2026-01-03", 4, True)
    assert world.run("apply", "--batches", str(world.batches), "--json") == 0
    assert capsys.readouterr().out == ""
    assert world.applied == ["2026-01-01", "2026-01-02", "2026-01-03"]
    world.check()


def test_a_refused_batch_stops_the_rest(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Those before it are applied; once it is mended, it and the later ones are."""
    world.put("a", "+3,4")
    world.put("b", "+4,5")
    world.put("c", "-3,4")
    (world.batches / "b" / "link.csv").write_text("op,src,dst\n+,four,5\n", encoding="utf-8")
    assert world.run("apply", "--batches", str(world.batches), "--json") == 1
    said = capsys.readouterr()
    assert "apply: batch b: refused, nothing has changed:" in said.err
    assert f"{world.batches}/b/link.csv, row 1" in said.err
    last = json.loads(said.out.splitlines()[-1])
    assert last["kind"] == "refused" and last["error"].startswith("apply: batch b: refused")
    assert world.applied == ["a"]
    (world.batches / "b" / "link.csv").write_text("op,src,dst\n+,4,5\n", encoding="utf-8")
    assert world.run("apply", "--batches", str(world.batches)) == 0
    assert world.applied == ["a", "b", "c"]
    world.check()


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lambda folder: (folder / "monday.csv").write_text("x"), "monday.csv is not a folder"),
        (lambda folder: (folder / "monday").mkdir(), "batch monday: .* is empty"),
        (lambda folder: folder.rmdir(), "is not a folder on this machine"),
        (lambda folder: (folder / ("x" * 200)).mkdir(), "cannot be the ID of a batch"),
        (lambda folder: (folder / "init").mkdir(), "init is an ID that this state generated for another batch"),
    ],
)
def test_what_is_no_batch(prepare: Any, message: str, world: World) -> None:
    """Nothing in the folder is left out in silence."""
    prepare(world.batches)
    with pytest.raises(world.job.JobError, match=message):
        list(
            world.job.apply_batches(world.job.PROGRAM, None, str(world.state), str(world.batches), world.job.Log(True))
        )
    assert world.applied == []


def test_a_name_for_one_batch(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """The folders name the batches."""
    assert world.run("apply", "--batches", str(world.batches), "--batch", "x") == 1
    assert "--batch cannot be combined with --batches" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        world.run("apply", "--batches", str(world.batches), "--changes", "x")


def test_follow(world: World) -> None:
    """It applies what is there and what arrives, prints a line for each, and ends at a signal with exit code 0."""
    world.put("1", "+3,4")
    following = world.start()
    assert following.stdout and following.stderr
    try:
        assert json.loads(following.stdout.readline())["batch"] == "1"
        world.put("2", "-2,3")
        assert json.loads(following.stdout.readline())["commit"] == 3
        world.put("3", "+2,4", "+4,1")
        assert json.loads(following.stdout.readline())["batch"] == "3"
        following.send_signal(signal.SIGTERM)
        out, err = following.communicate(timeout=60)
    finally:
        following.kill()
    assert (following.returncode, out) == (0, "")
    assert "event=follow" in err and 'on=here reason="started by python"' in err
    world.check()


def test_a_batch_that_is_still_written(world: World) -> None:
    """A batch is applied when it has stopped changing, and those after it wait."""
    folder: Any = world.job.BatchFolder(
        str(world.batches), world.job.batches_known(world.job.PROGRAM, str(world.state))
    )
    world.put("a", "+3,4")
    world.put("b", "+4,5")
    assert folder.waiting(complete=False) == []
    with (world.batches / "a" / "link.csv").open("a", encoding="utf-8") as file:
        file.write("+,9,9\n")
    assert folder.waiting(complete=False) == []
    (world.batches / "a" / "price.csv").write_text("x", encoding="utf-8")
    assert folder.waiting(complete=False) == []
    assert folder.waiting(complete=False) == ["a", "b"]
    assert folder.waiting() == ["a", "b"]
    folder.known.add("a")
    assert folder.waiting(complete=False) == ["b"]


def test_an_idle_folder_is_not_listed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as nothing arrives, a look costs one system call; what arrives is seen nevertheless."""
    folder: Any = world.job.BatchFolder(
        str(world.batches), world.job.batches_known(world.job.PROGRAM, str(world.state))
    )
    old = time.time() - 60
    os.utime(world.batches, (old, old))
    assert folder.waiting() == []
    listed: list[Path] = []
    real = Path.iterdir
    monkeypatch.setattr(Path, "iterdir", lambda path: listed.append(path) or real(path))
    assert folder.waiting() == []
    assert listed == []
    world.put("a", "+3,4")
    assert folder.waiting() == ["a"]
    assert listed == [world.batches]


def test_trouble_passes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that fails for a moment is tried again, and none after it is applied before."""
    real, calls = world.job.apply_batch, []

    def troubled(program: Any, executor: Any, state: str, changes: str, batch: str, **options: Any) -> Any:
        calls.append(batch)
        if len(calls) in (1, 2):
            raise world.job.Passing("the disk is full")
        return real(program, executor, state, changes, batch, **options)

    monkeypatch.setattr(world.job, "apply_batch", troubled)
    world.put("a", "+3,4")
    world.put("b", "-3,4")
    ended, told = threading.Event(), []

    def tell(result: dict[str, Any]) -> None:
        told.append(result["batch"])
        if len(told) == 2:
            ended.set()

    executor, log = world.job.LocalExecutor(), world.job.Log(quiet=True)
    following = (world.job.PROGRAM, executor, str(world.state), str(world.batches), 0.01, tell, log, ended)
    world.job.follow_batches(*following)
    assert (calls, told) == (["a", "a", "a", "b"], ["a", "b"])
    world.check()


@pytest.mark.parametrize("seed", numbers(1, 5))
def test_killed_again_and_again(seed: int, world: World) -> None:
    """Whenever it is killed, each batch is applied once, in order."""
    draw = random.Random(seed)
    for number in range(8):
        world.put(f"{number:02d}", f"+{number},{number + 1}", f"-{number + 1},{number + 2}", f"+{number},{number + 20}")
    for _ in range(4):
        following = world.start()
        time.sleep(draw.uniform(0.3, 1.6))
        following.kill()
        following.communicate()
        assert world.applied == [f"{number:02d}" for number in range(len(world.applied))]
    assert world.run("apply", "--batches", str(world.batches)) == 0
    assert world.applied == [f"{number:02d}" for number in range(8)]
    world.check()


@pytest.mark.parametrize(("device", "warning"), [("/dev/full", True), ("closed", False)])
def test_a_result_that_cannot_be_printed(device: str, warning: bool, world: World) -> None:
    """The batch is applied, and the exit code says so."""
    world.put("a", "+3,4")
    command = [sys.executable, str(world.script), "apply", "--state", str(world.state), "--batches", str(world.batches)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    read, write = os.pipe()
    os.close(read)
    with Path("/dev/full").open("wb") as full:
        out = full.fileno() if device == "/dev/full" else write
        done = subprocess.run(
            [*command, "--quiet"], stdout=out, stderr=subprocess.PIPE, text=True, env=environment, check=False
        )
    os.close(write)
    said = "warning: the result cannot be printed: No space left on device\n" if warning else ""
    assert (done.returncode, done.stderr) == (0, said)
    assert world.applied == ["a"]


def write_changes(folder: Path, program: Any, changes: Any) -> None:
    """Write changes as a batch of Parquet files."""
    folder.mkdir()
    for relation in program.relations:
        rows = changes.get(relation.name, [])
        if relation.kind == "input" and rows:
            columns = {
                column.name: pa.array([row[i] for _, row in rows], arrow_type(column.type))
                for i, column in enumerate(relation.columns)
            }
            pq.write_table(pa.table({"op": [op for op, _ in rows], **columns}), folder / f"{relation.name}.parquet")


@AT_NIGHT
@pytest.mark.parametrize("seed", seeds(1, 5))
def test_random_programs(seed: int, tmp_path: Path) -> None:
    """Batches of random programs, as folders: after each, the state is that of a job that the oracle agrees with."""
    scenario = scenario_of(40_000 + seed)
    compilation, text = compile_text(scenario.text)
    local = LocalJob(text, tmp_path / "local")
    checked = Checked(local, scenario.text, compilation)
    job: Any = load_script(text)
    state, batches, log = str(tmp_path / "state"), tmp_path / "batches", job.Log(quiet=True)
    batches.mkdir()
    first = {name: [("+", row) for row in rows] for name, rows in scenario.inputs.items()}
    write_changes(tmp_path / "first", job.PROGRAM, first)
    try:
        assert checked.build(scenario.inputs) == []
        given = {path.stem: str(path) for path in (tmp_path / "first").iterdir()}
        if checked.refused:
            with pytest.raises(job.JobError):
                job.init(None, state, given, buckets=2, log=log)
            return
        job.init(None, state, given, buckets=2, log=log)
        for number, batch in enumerate(scenario.batches):
            assert checked.apply(batch, recount=False) == []
            name = f"{number:03d}"
            write_changes(batches / name, job.PROGRAM, batch)
            if not any((batches / name).iterdir()):
                (batches / name).rmdir()
                continue
            try:
                results = list(job.apply_batches(job.PROGRAM, job.LocalExecutor(2), state, str(batches), log))
                assert [result["batch"] for result in results] == [name]
                assert not checked.refused
            except job.JobError as error:
                assert checked.refused, error
                shutil.rmtree(batches / name)
            manifest = job.read_state(Path(state))
            for relation, same in zip(job.PROGRAM.relations, local.program.relations, strict=True):
                assert stored_tuples(job, Path(state), manifest, relation) == local.tuples(same), relation.table
    finally:
        local.close()
        del sys.modules[job.__name__]


def test_names_that_begin_with_an_underscore(tmp_path: Path) -> None:
    """Files of such relations are read, others with such names passed over; by ``flintlog run``, too."""
    text = PROGRAM.replace("link", "_link")
    job: Any = load_script(compile_text(text, "net.dl")[1])
    log, state = job.Log(quiet=True), str(tmp_path / "state")
    for folder, rows in (("first", "src,dst\n1,2\n"), ("changes", "op,src,dst\n+,2,3\n")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "_link.csv").write_text(rows, encoding="utf-8")
        (tmp_path / folder / "_SUCCESS").write_text("", encoding="utf-8")
    job.init(None, state, str(tmp_path / "first"), buckets=1, log=log)
    assert job.apply(None, state, str(tmp_path / "changes"), log=log)["rows"] == {"_link": 2, "reachable": 3}
    (tmp_path / "net.dl").write_text(text, encoding="utf-8")
    given = ["run", str(tmp_path / "net.dl"), "--facts", str(tmp_path / "first"), "--format", "csv"]
    assert CliRunner().invoke(main, given).stdout == "src,dst\n1,2\n"
    del sys.modules[job.__name__]
