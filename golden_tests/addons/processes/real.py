"""Processes as they run: started, killed and paused by the test."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from flintlog.compiler.ir.syntax import RECURSIONS
from flintlog.compiler.nodes import compile_nodes
from flintlog.compiler.processes import Processes, compile_processes
from flintlog.compiler.source import SourceFile
from flintlog.runtime.addons.processes.partition import Partition
from flintlog.runtime.kernel.values import hashable
from flintlog.targets import EmitOptions
from flintlog.targets.processes.emit import emit_nodes, emit_processes
from flintlog.targets.processes.nodes import nodes_of, topology_of

from golden_tests.harness import VERSION
from golden_tests.oracle.language import Row

#: Before a process runs: messages are told late, out of order and repeatedly.
UNRELIABLE = """
import random
RNG = random.Random()
TOLD, DONE = DirectoryChannels.waiting, DirectoryChannels.done


def waiting(self, channel):
    found = TOLD(self, channel)
    return RNG.sample(found, RNG.randint(0, len(found))) if len(found) > 1 or RNG.random() < 0.5 else found


def done(self, channel, message):
    if RNG.random() < 0.6:
        DONE(self, channel, message)


DirectoryChannels.waiting, DirectoryChannels.done = waiting, done
"""


def imported(path: Path) -> ModuleType:
    """A file as a module of its own."""
    name = f"{path.stem}_{uuid.uuid4().hex[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


class RealWorld:
    """The processes of a program, and the rows that they were fed."""

    def __init__(
        self,
        text: str,
        folder: Path,
        options: Sequence[str] = (),
        unreliable: bool = False,
        nodes: Partition | None = None,
        recursion: str = RECURSIONS[0],
    ) -> None:
        """Compile them, or the nodes of a located program; none runs yet."""
        self.folder = folder
        files = self.compile(text) if nodes is None else self.compile_nodes(text, nodes, recursion)
        self.jobs = folder / "jobs"
        self.jobs.mkdir(parents=True)
        for name, content in files.items():
            if unreliable and name not in ("run_local.py",):
                before, start, after = content.rpartition('\nif __name__ == "__main__":')
                content = f"{before}{UNRELIABLE}\n{start}{after}" if start else content
            (self.jobs / name).write_text(content, encoding="utf-8")
        self.run_local: Any = imported(self.jobs / "run_local.py")
        self.local: Any = self.run_local.Local(folder / "root", options=["--lease", "3", *options])
        self.homes: dict[str, Path] = {}
        self.inputs: dict[tuple[str, str], set[Row]] = {
            (feed.reader, feed.relation): set() for feed in self.topology.feeds
        }
        self.columns = {
            (feed.reader, feed.relation): [column.name for column in feed.columns] for feed in self.topology.feeds
        }
        self.files = 0

    def compile(self, text: str) -> Mapping[str, str]:
        """Compile processes; return the files."""
        self.compiled: Processes = compile_processes([SourceFile("test.dl", text)])
        self.topology = self.compiled.topology
        self.scripts = {process.name: process.name for process in self.topology.processes}
        plans = {name: compilation.plan for name, compilation in self.compiled.compilations.items()}
        return emit_processes(self.topology, plans, EmitOptions(VERSION, format=False))

    def compile_nodes(self, text: str, partition: Partition, recursion: str) -> Mapping[str, str]:
        """Compile the nodes of a located program; return the files."""
        plan = compile_nodes(SourceFile("test.dl", text), recursion=recursion).node.plan
        self.topology = topology_of(nodes_of(plan.program, partition), plan.program)
        self.scripts = {process.name: "test" for process in self.topology.processes}
        return emit_nodes(plan, partition, EmitOptions(VERSION, format=False))

    def start(self, *names: str) -> None:
        """Start processes with what they had."""
        for name in names:
            self.local.start(name, self.homes.get(name))

    def start_elsewhere(self, name: str) -> None:
        """Start a process in a new and empty folder."""
        self.homes[name] = self.folder / f"home-{name}-{uuid.uuid4().hex[:4]}"
        self.start(name)

    def kill(self, name: str) -> None:
        """End a process without a word."""
        self.local.end(name, signal.SIGKILL)

    def pause(self, name: str) -> None:
        """Cut a process off: it stands still, and nobody hears of it."""
        os.killpg(self.local.running[name].pid, signal.SIGSTOP)

    def go_on(self, name: str) -> None:
        """Let a process that was cut off go on."""
        os.killpg(self.local.running[name].pid, signal.SIGCONT)

    def sever(self, channel: str) -> None:
        """Cut a channel while its ends live."""
        messages = self.local.root / "channels" / channel / "messages"
        messages.rename(messages.with_name("elsewhere"))
        messages.touch()

    def mend(self, channel: str) -> None:
        """Let a channel that was cut carry messages again."""
        messages = self.local.root / "channels" / channel / "messages"
        messages.unlink()
        messages.with_name("elsewhere").rename(messages)

    def feed(self, process: str, relation: str, changes: Sequence[tuple[str, Row]]) -> None:
        """Give a process rows from outside."""
        known = self.inputs[process, relation]
        for op, row in changes:
            (known.add if op == "+" else known.discard)(row)
        self.files += 1
        lines = [",".join(("op", *self.columns[process, relation]))]
        lines += [",".join(map(str, (op, *row))) for op, row in changes]
        self.local.feed(process, relation, f"{self.files:04d}.csv", "\n".join(lines) + "\n")

    def wait(self, seconds: float = 180.0) -> None:
        """Wait until all is quiet."""
        self.local.wait_until_quiet(seconds)

    def relations(self) -> dict[str, set[Row]]:
        """What each process publishes, read by its own script, and together what all nodes do."""
        found: dict[str, set[Row]] = {}
        for process in self.topology.processes:
            job: Any = imported(self.jobs / f"{self.scripts[process.name]}.py")
            state = self.homes.get(process.name, self.folder / "root" / "homes" / process.name) / "state.db"
            served = job.PROCESS if hasattr(job, "PROCESS") else job.NODES
            with job.open_file_state(job.with_inbox(job.PROGRAM, served.received), str(state)) as database:
                for name in process.outputs:
                    rows = [hashable([*row]) for row in database.rows(database.program.relation(name))]
                    assert len(rows) == len(set(rows))
                    found.setdefault(name, set()).update(rows)
        return found

    def close(self) -> None:
        """End everything."""
        for name in list(self.local.running):
            with contextlib.suppress(ProcessLookupError):
                self.go_on(name)
            self.kill(name)
