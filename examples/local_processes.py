"""The processes of a compiled program on this machine, as demonstrations need them: fed, killed, and read."""

from __future__ import annotations

import csv
import functools
import importlib.util
import io
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from flintlog.runtime.kernel.values import hashable

Row = tuple[Any, ...]


class WrongTables(Exception):
    """Processes do not have the tables that the rules imply."""


@dataclass
class Processes:
    """What ``run_local.py`` in the folder ``scripts`` runs; ``root`` is the folder that the processes share, and
    ``options`` go to each."""

    scripts: Path
    root: Path
    options: Sequence[str] = ()
    homes: dict[str, Path] = field(default_factory=dict)
    """Where those processes are that have lost what they had."""

    files: int = 0

    def __post_init__(self) -> None:
        self.jobs = loaded(self.scripts / "run_local.py")
        self.local: Any = self.jobs.Local(self.root, options=self.options)
        self.described = {process["name"]: process for process in self.jobs.TOPOLOGY["processes"]}

    def start(self, name: str) -> None:
        """Start a process with what it had."""
        self.local.start(name, self.homes.get(name))

    def start_elsewhere(self, name: str) -> None:
        """Start a process with nothing."""
        self.homes[name] = self.root / f"elsewhere-{name}-{len(self.homes)}"
        self.start(name)

    def kill(self, name: str) -> None:
        """End a process at once, without a word."""
        self.local.end(name, signal.SIGKILL)

    def feed(self, name: str, relation: str, columns: Sequence[str], changes: Iterable[tuple[str, Row]]) -> None:
        """Give a process rows from outside, each with ``+`` or ``-``."""
        self.files += 1
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([("op", *columns), *((op, *row) for op, row in changes)])
        self.local.feed(name, relation, f"{self.files:04d}.csv", text.getvalue())

    def wait_until(self, condition: Callable[[], bool], otherwise: str, seconds: float = 60.0) -> None:
        """Wait until a condition holds; raise TimeoutError that says what is so ``otherwise``."""
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise TimeoutError(otherwise)
            time.sleep(0.02)

    def outputs(self, name: str) -> Sequence[str]:
        """Return the relations that a process has for others and outside."""
        found: Sequence[str] = self.described[name]["outputs"]
        return found

    def size(self, name: str, relation: str) -> int:
        """Return how many tuples of a relation a process has; 0 if it has no state yet."""
        if not self.state(name).exists():
            return 0
        with self.opened(name) as state:
            rows: int = state.commit.rows[state.program.relation(relation).table]
            return rows

    def rows(self, name: str, relation: str) -> set[Row]:
        """Return the rows of a relation of a process."""
        with self.opened(name) as state:
            return {tuple(map(hashable, row)) for row in state.rows(state.program.relation(relation))}

    def opened(self, name: str) -> Any:
        """Return the state of a process, opened by its script."""
        script: Any = loaded(self.scripts / self.described[name]["script"])
        served = script.PROCESS if hasattr(script, "PROCESS") else script.NODES
        return script.open_file_state(script.with_inbox(script.PROGRAM, served.received), str(self.state(name)))

    def state(self, name: str) -> Path:
        """Return the file of a process's state."""
        return self.homes.get(name, self.root / "homes" / name) / "state.db"


@functools.cache
def loaded(script: Path) -> ModuleType:
    """Return a generated script as a module."""
    spec = importlib.util.spec_from_file_location(script.stem, script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[script.stem] = module
    # Where a runtime may lie beside it.
    sys.path.insert(0, str(script.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(script.parent))
    return module
