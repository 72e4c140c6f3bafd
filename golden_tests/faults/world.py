"""A state that runners work on and are killed at, and what it must hold whenever one looks."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import queue
import random
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil
import pyarrow.parquet as pq

from golden_tests.faults.runner import Kill, family, kill_family
from golden_tests.harness import Row, compile_text, load_script, stored_tuples
from golden_tests.oracle import batches, evaluate, language

PROGRAM = """
input relation link(@src: int, dst: int)
input relation closed(node: int)
output relation reachable(@src: int, dst: int)
output relation degree(src: int, nodes: int)
r1: reachable(@S, D) :- link(@S, D).
r2: reachable(@S, D) :- link(@S, Z), reachable(@Z, D).
r3: degree(S, count<D>) :- reachable(S, D), !closed(S).
"""
FORMER = PROGRAM.replace(", !closed(S)", "")
"""Another version of the program, whose state can be upgraded."""
NODES = 14
OUTPUTS = ("reachable", "degree")
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
"""Of a JVM that lives for seconds; with an archive of its classes it takes half the time to start."""


class Runner:
    """A process that waits for requests, whose tasks run ``here``, in itself, or in a session that is warm."""

    def __init__(self, script: Path, folder: Path, on: str = "here", java_options: str = "") -> None:
        """Start it; it is ready some seconds later, ``on`` Spark more than here."""
        folder.mkdir(parents=True)
        self.log = folder / "log"
        java = f"{JAVA_OPTIONS} {java_options}"
        options = f"--driver-java-options '{java}' --conf spark.ui.enabled=false pyspark-shell"
        environment = {
            **os.environ,
            "PYSPARK_SUBMIT_ARGS": f"--master local[2] --driver-memory 1g {options}",
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "PYSPARK_PYTHON": sys.executable,
        }
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "golden_tests.faults.runner", str(script), str(folder), on],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=folder,
                env=environment,
                text=True,
            )
        self.lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self.read, daemon=True).start()
        self.ready = False
        self.members: list[int] = []

    def read(self) -> None:
        """Collect what the process says; an empty line is its end."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put("")

    def wait_until_ready(self) -> None:
        """Wait until it takes requests."""
        if not self.ready:
            said = self.lines.get(timeout=300)
            assert said == "ready\n", self.log.read_text("utf-8")
            self.ready = True

    def ask(self, request: dict[str, Any], seconds: float | None = None, alone: bool = False) -> dict[str, Any] | None:
        """Send a request, and kill the process after some seconds (if ``alone``, not its descendants); the answer, or
        None if the process was killed before it gave one."""
        self.wait_until_ready()
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        try:
            said = self.lines.get(timeout=300 if seconds is None else seconds)
        except queue.Empty:
            assert seconds is not None, self.log.read_text("utf-8")
            self.kill(alone)
            return None
        if not said:
            self.process.wait()
            assert request.get("kill"), self.log.read_text("utf-8")
            return None
        answer: dict[str, Any] = json.loads(said)
        return answer

    def end(self) -> None:
        """Let it end by itself, with all its processes."""
        members = [psutil.Process(pid) for pid in family(self.process.pid)]
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(60)
        psutil.wait_procs(members, 60)

    def kill(self, alone: bool = False) -> None:
        """End the process with SIGKILL; if ``alone``, what descends from it is left to find out."""
        self.members = family(self.process.pid) or self.members
        if alone:
            self.process.kill()
        else:
            kill_family(self.process.pid)
        self.process.wait()

    def kill_orphans(self) -> None:
        """End what is left of its descendants."""
        for pid in self.members:
            kill_family(pid)


class World:
    """A script, its state, the batches for it, and runners, of which one more is always getting ready."""

    def __init__(
        self, folder: Path, seed: int = 0, archive: Path | None = None, program: str = PROGRAM, on: str = "here"
    ) -> None:
        """Compile the program and write the rows to start from; runners start when they are asked for, whose tasks run
        ``on`` this, with an ``archive`` of classes."""
        self.folder, self.state, self.on = folder, folder / "state", on
        self.java_options = f"-XX:SharedArchiveFile={archive}" if archive else ""
        self.rng = random.Random(seed)
        folder.mkdir(parents=True)
        self.script = folder / "job.py"
        text = compile_text(program, "world.dl")[1]
        self.script.write_text(text, "utf-8")
        self.module: ModuleType = load_script(text)
        self.language = language.parse(program)
        self.batches: dict[str, batches.Batch] = {}
        self.runners: list[Runner] = []
        rows = {"link": self.some_links(25), "closed": {(1,)}}
        self.first = {name: [("+", row) for row in sorted(found)] for name, found in rows.items()}
        self.write_batch("init", self.first)

    def some_links(self, count: int) -> set[Row]:
        """That many links, or fewer."""
        return {(self.rng.randrange(NODES), self.rng.randrange(NODES)) for _ in range(count)}

    def new_batch(self) -> str:
        """Write another batch; returns its ID."""
        name = f"b{len(self.batches):03d}"
        links = {row: self.rng.choice("+-") for row in self.some_links(12)}
        closed = {(self.rng.randrange(NODES),): self.rng.choice("+-") for _ in range(2)}
        self.batches[name] = {
            "link": [(op, row) for row, op in links.items()],
            "closed": [(op, row) for row, op in closed.items()],
        }
        self.write_batch(name, self.batches[name])
        return name

    def start_again(self) -> None:
        """Forget the state."""
        shutil.rmtree(self.state, ignore_errors=True)
        self.batches.clear()

    def write_batch(self, name: str, batch: batches.Batch) -> None:
        """A folder of CSV files."""
        for relation, header in (("link", "op,src,dst"), ("closed", "op,node")):
            lines = [header, *(",".join(map(str, (op, *row))) for op, row in batch.get(relation, []))]
            path = self.folder / "batches" / name / f"{relation}.csv"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join(lines) + "\n")

    def request(
        self, command: str, batch: str = "", kill: Kill | None = None, engine: str = "auto", **constants: Any
    ) -> dict[str, Any]:
        """A request for a runner; with constants of the script."""
        folder = str(self.folder / "batches" / (batch or "init"))
        arguments = {
            "init": ["--input", folder, "--buckets", "2"],
            "apply": ["--changes", folder, "--batch", batch],
        }.get(command, [])
        arguments = [command, *arguments, "--engine", engine]
        return {"arguments": arguments, "state": str(self.state), "kill": kill, "set": constants}

    def alive_runners(self, count: int) -> list[Runner]:
        """So many processes that are alive; one at least is ready."""
        alive = [runner for runner in self.runners if runner.process.poll() is None]
        while len(alive) < count:
            folder = self.folder / f"runner-{len(self.runners)}"
            alive.append(Runner(self.script, folder, self.on, self.java_options))
            self.runners.append(alive[-1])
        alive[0].wait_until_ready()
        return alive

    def runner(self) -> Runner:
        """A process that is ready, while another one starts."""
        return self.alive_runners(2)[0]

    def only_runner(self) -> Runner:
        """A process that is ready, while no other one starts."""
        return self.alive_runners(1)[0]

    def close(self) -> None:
        """End everything."""
        for runner in self.runners:
            runner.kill()
            runner.kill_orphans()

    # What must be true, whatever happened

    def manifest(self) -> Any:
        """The last commit."""
        found: Any = self.module.read_manifest(self.state)
        return found

    def stored(self, manifest: Any) -> dict[str, set[Row]]:
        """The relations in a commit, as they are read from its files."""
        relations = self.module.PROGRAM.relations
        return {r.name: stored_tuples(self.module, self.state, manifest, r) for r in relations}

    def published(self, relation: str, batch: str) -> list[tuple[str, Row]] | None:
        """The published changes of a batch; None if there are none."""
        folder = self.state / "published" / relation / "changes" / f"batch={batch}"
        if not folder.exists():
            return None
        found = [tuple(row.values()) for file in folder.iterdir() for row in pq.ParquetFile(file).read().to_pylist()]
        return [(op, row) for op, *values in found for row in [tuple(values)]]

    def check(self, finished: bool) -> int:
        """The state is what its batches make of the rows it began with, and for each of them exactly its net changes
        are published; of the last commit, unless it is ``finished``, perhaps nothing yet. Returns the commit."""
        manifest = self.manifest()
        names = [] if manifest is None else list(manifest.batches)
        mark = manifest and self.module.manifest_path(self.state, manifest.commit).with_suffix(".published")
        inputs: dict[str, set[Row]] = batches.apply({}, self.first, self.language)
        before = evaluate.evaluate(self.language, inputs)
        assert names[:1] in ([], ["init"])
        for number, name in enumerate(names[1:], 2):
            inputs = batches.apply(inputs, self.batches.get(name, {}), self.language)
            after = evaluate.evaluate(self.language, inputs)
            changes = batches.diff(before, after)
            done = number < len(names) or finished or bool(mark and mark.exists())
            for relation in OUTPUTS:
                found, expected = self.published(relation, name), changes.get(relation)
                if found is None and not done:
                    continue
                assert (sorted(found) if found is not None else None) == (sorted(expected) if expected else None), (
                    f"{relation} in {name}"
                )
            before = after
        if manifest is not None:
            assert manifest.commit == len(names)
            stored = self.stored(manifest)
            assert {**stored, **inputs} == stored, "inputs"
            assert {name: stored[name] for name in OUTPUTS} == {name: before[name] for name in OUTPUTS}
        for relation in OUTPUTS:
            folder = self.state / "published" / relation / "changes"
            there = {path.name for path in folder.glob("batch=*")}
            assert there <= {f"batch={name}" for name in names}, "published without a commit"
        return len(names)

    def check_tidy(self) -> None:
        """There is nothing but what the commits refer to that are kept."""
        last = self.manifest()
        assert last is not None
        numbers = range(self.module.oldest_kept(last), last.commit)
        manifests = [*(self.module.read_manifest(self.state, number) for number in numbers), last]
        referenced = {file for manifest in manifests for file in self.module.referenced_files(manifest)}
        files = {str(path.relative_to(self.state)) for path in (self.state / "data").rglob("*") if path.is_file()}
        assert files == referenced
        assert not list(self.state.rglob(".*"))


def class_archive(folder: Path, scratch: Path) -> Path:
    """An archive of the classes that a job's JVM loads, made if ``folder`` has none of this Java and this Spark."""
    versions = f"{os.environ.get('JAVA_HOME', '')} {importlib.metadata.version('pyspark')}"
    path = folder / f"{hashlib.sha256(versions.encode()).hexdigest()[:12]}.jsa"
    if not path.exists():
        world = World(scratch)
        # In the same folder, since the scratch folder may be on another file system.
        made = path.with_suffix(f".{os.getpid()}.part")
        runner = Runner(world.script, scratch / "runner", "spark", f"-XX:ArchiveClassesAtExit={made}")
        for request in (world.request("init"), world.request("apply", world.new_batch(), FEW_ROWS=0)):
            answer = runner.ask(request)
            assert answer is not None and answer["code"] == 0, answer
        runner.end()
        if made.exists():
            made.replace(path)
    return path
