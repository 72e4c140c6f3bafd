"""A job whose input ``link`` has a feed, and what a test does with it."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from flintlog.runtime.addons.feeds import kafka_client, kafka_debezium
from flintlog.runtime.addons.feeds.file_state_feeds import FED_FILE_COMMANDS, feeds_of
from flintlog.runtime.database.command_list import run_file_command
from flintlog.runtime.database.commands import verify_file
from flintlog.runtime.database.state import open_file_state
from flintlog.runtime.row_kernel import methods
from flintlog.runtime.system.log import Log
from flintlog.targets.database.lower import lower_rows

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

assert methods, "registered"

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
        assert self.differences() == []

    def copies(self, name: str) -> Counter[tuple[Any, ...]]:
        """Return the tuples of a relation, as often as they are there."""
        found = self.job.relation(None, str(self.state), name, support=True).to_pylist()
        return Counter(
            {tuple(v for c, v in row.items() if not c.startswith("_")): row.get("_support", 1) for row in found}
        )

    def differences(self) -> list[Any]:
        """Return what is wrong with the state."""
        found: list[Any] = self.job.verify(None, str(self.state), log=self.job.Log(quiet=True))["differences"]
        return found

    @property
    def manifest(self) -> Any:
        """The last commit."""
        return self.job.read_state(self.state)

    @property
    def built(self) -> bool:
        """Whether there is a state."""
        return (self.state / "manifest").exists() and bool(self.job.commit_numbers(self.state))


class FileWorld(FeedWorld):
    """The same with a state in one SQLite file, by ``flintlog job``. A state is built without rows before its feeds are
    connected, and ``init`` applies what these have."""

    def __init__(self, folder: Path, program: str = PROGRAM) -> None:
        """Compile the program."""
        self.folder, self.state = folder, folder / "state.db"
        self.program = lower_rows(compile_text(program, "net.dl")[0].plan)
        self.reader = kafka_debezium.TopicReader
        self.job = self

    TopicState, TopicMessage = kafka_client.TopicState, kafka_client.TopicMessage

    @property
    def TopicReader(self) -> Any:
        """What reads topics."""
        return kafka_debezium.TopicReader

    @TopicReader.setter
    def TopicReader(self, reader: Any) -> None:
        kafka_debezium.TopicReader = reader  # type: ignore[misc]

    def close(self) -> None:
        """Read topics again."""
        self.TopicReader = self.reader

    def run(self, command: str, *arguments: str) -> int:
        """Run a command of ``flintlog job`` in this process, and return its exit code."""
        if command == "connect" and not self.state.exists():
            assert self.run("build") == 0
        command = {"init": "apply", "build": "init"}.get(command, command)
        given = [command, "--state", str(self.state), "--quiet", *arguments]
        return run_file_command(self.program, given, FED_FILE_COMMANDS)

    def rows(self, name: str) -> set[tuple[Any, ...]]:
        """Return the tuples of a relation."""
        with open_file_state(self.program, str(self.state)) as database, database.reading():
            relation = self.program.relation(name)
            return {row[: len(relation.columns)] for row in database.rows(relation)}

    def copies(self, name: str) -> Counter[tuple[Any, ...]]:
        """Return the tuples of a relation, as often as they are there."""
        with open_file_state(self.program, str(self.state)) as database, database.reading():
            relation = self.program.relation(name)
            hidden = ["_support"] if "_support" in database.tables.tables[relation.table].hidden else []
            rows = database.rows(relation, hidden=hidden)
            return Counter({row[: len(relation.columns)]: row[-1] if hidden else 1 for row in rows})

    def differences(self) -> list[Any]:
        """Return what is wrong with the state."""
        found: list[Any] = verify_file(self.program, str(self.state), log=Log(True))["differences"]
        return found

    @property
    def manifest(self) -> Any:
        """The last commit and the feeds."""
        with open_file_state(self.program, str(self.state)) as database, database.reading():
            return SimpleNamespace(commit=database.commit.number, feeds=feeds_of(database))

    @property
    def built(self) -> bool:
        """Whether there is a state."""
        return self.state.exists()


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
    before = world.manifest if world.built else None
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
