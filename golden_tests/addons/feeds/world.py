"""A job whose input ``link`` has a feed, and what a test does with it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from golden_tests.harness import compile_text, load_script

PROGRAM = """
input relation link(src: int, dst: int)
input relation person(id: int, name: string) primary key (id)
output relation reachable(src: int, dst: int)
output relation named(src: int, name: string)
reachable(S, D) :- link(S, D).
reachable(S, D) :- link(S, Z), reachable(Z, D).
named(S, N) :- link(S, D), person(D, N).
"""

NULLS = """
input relation mail(id: int, email: string?)
output relation silent(id: int)
silent(I) :- mail(I, E), E = null.
"""

RECORDED = {"delta.enableChangeDataFeed": "true"}

#: Columns of all kinds, one of them called like the operation column.
VALUES = """
input relation reading(sourceId: int, op: string, price: decimal(12,2), day: date, at: timestamp, other: string)
output relation kept(sourceId: int, op: string, price: decimal(12,2), day: date, at: timestamp, other: string)
kept(S, O, P, D, A, X) :- reading(S, O, P, D, A, X).
"""


class FeedWorld:
    """A job and its state, in a folder of its own."""

    def __init__(self, folder: Path, program: str = PROGRAM) -> None:
        """Compile the program."""
        self.folder, self.state = folder, folder / "state"
        text = compile_text(program, "net.dl")[1]
        self.script = folder / "net.py"
        self.script.write_text(text, encoding="utf-8")
        self.job: Any = load_script(text)

    def close(self) -> None:
        """Forget the job."""
        del sys.modules[self.job.__name__]

    def run(self, command: str, *arguments: str) -> int:
        """Run a command of the job in this process, and return its exit code."""
        code: int = self.job.main([command, "--state", str(self.state), "--quiet", *arguments])
        return code

    def rows(self, name: str) -> set[tuple[Any, ...]]:
        """Return the tuples of a relation."""
        found = self.job.relation(None, str(self.state), name)
        return set(zip(*(column.to_pylist() for column in found.columns), strict=True))

    def check(self, links: Iterable[tuple[int, int]]) -> None:
        """The state has these links, and exactly what follows from them."""
        links = set(links)
        assert self.rows("link") == links
        pairs = set(links)
        while more := {(a, d) for a, b in pairs for c, d in links if b == c} - pairs:
            pairs |= more
        assert self.rows("reachable") == pairs
        assert self.job.verify(None, str(self.state), log=self.job.Log(quiet=True))["differences"] == []

    @property
    def manifest(self) -> Any:
        """The last commit."""
        return self.job.read_state(self.state)


def applied(world: FeedWorld, capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """Apply what is new, and return the result."""
    capsys.readouterr()
    code = world.run("apply", "--json", *arguments)
    said = capsys.readouterr()
    assert code == 0, said.err
    result: dict[str, Any] = json.loads(said.out.splitlines()[-1])
    return result


def refusal(world: FeedWorld, capsys: pytest.CaptureFixture[str], *arguments: str, command: str = "apply") -> str:
    """Return why a command is refused, which leaves the state as it was."""
    before = world.manifest if (world.state / "manifest").exists() and world.job.commit_numbers(world.state) else None
    capsys.readouterr()
    assert world.run(command, *arguments) == 1
    if before:
        assert world.manifest == before
    return " ".join(capsys.readouterr().err.split())


def links(*pairs: tuple[int, int], names: tuple[str, str] = ("src", "dst")) -> pa.Table:
    """Return a table of links."""
    return pa.table({name: pa.array([pair[place] for pair in pairs], pa.int64()) for place, name in enumerate(names)})


def make_table(path: Path, rows: pa.Table, recorded: bool = True, **options: Any) -> str:
    """Make a Delta table, with or without a change data feed, and return its path."""
    write_deltalake(str(path), rows, configuration=RECORDED if recorded else {}, **options)
    return str(path)


def append(path: str, *pairs: tuple[int, int]) -> None:
    """Add links to a Delta table as one version."""
    write_deltalake(path, links(*pairs), mode="append")


def delete(path: str, condition: str) -> None:
    """Delete rows of a Delta table as one version."""
    DeltaTable(path).delete(condition)
