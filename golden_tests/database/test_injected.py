"""Every system call by which a command changes a state in one SQLite file fails (ENOSPC, EIO), or is the last one
(SIGKILL).

Whatever it is: the state is the one before or the one after, as the exit code says; it is exact; and the same command,
run again, brings it to the one after.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import flintlog
import pytest

from golden_tests.faults import traced
from golden_tests.faults.traced import FORCES, Answer, Fault, Traced, faults_at, missed
from golden_tests.nightly import AT_NIGHT, START, by_day

PROGRAM = """
input relation link(src: int, dst: int)
output relation reach(src: int, dst: int)
output relation many(src: int, n: int)
reach(S, D) :- link(S, D).
reach(S, D) :- link(S, Z), reach(Z, D).
many(S, count<D>) :- reach(S, D).
"""

COMMANDS = ("init", "apply", "revert", "backup")
FAULTS = ("error=ENOSPC", "error=EIO", "signal=SIGKILL")
QUERIES = (
    "SELECT max(number) FROM _commits",
    "SELECT * FROM reach",
    "SELECT * FROM many",
    "SELECT * FROM _changes_of_reach",
)

Found = tuple[list[Any], ...]
"""What one finds in a file: the last commit, the relations, and the net changes."""


def found(file: Path) -> Found:
    """Return what is in a file; nothing if there is no state."""
    if not file.exists():
        return ()
    with contextlib.closing(sqlite3.connect(file)) as connection:
        try:
            return tuple(sorted(connection.execute(query)) for query in QUERIES)
        except sqlite3.OperationalError as error:
            assert "no such table" in str(error)
            return ()


def run_command(module: Any, go: Any, given: list[str]) -> int:
    """Run a command of a script in a process that names its files always in the same way."""
    os.getpid = lambda: 1
    return traced.run_command(module, go, given)


class Scene(NamedTuple):
    """A command on a state: the process that runs it, its folder with a copy of what was there before, what it writes
    to, and what that has before and after."""

    command: tuple[str, ...]
    traced: Traced
    folder: Path
    written: Path
    before: Found
    after: Found

    def run(self, watched: bool = False, fault: Fault | None = None) -> Answer:
        """Run the command on the state as it was."""
        given = (*self.command, "--state", str(self.folder / "now" / "s.db"))
        return self.traced.ask(f"{__name__}:run_command", watched, fault, given=given)

    def start_again(self) -> None:
        """Let everything be as it was."""
        shutil.rmtree(self.folder / "now", ignore_errors=True)
        shutil.copytree(self.folder / "before", self.folder / "now")

    def faults(self, what: str) -> list[Fault]:
        """Everything that can go wrong in one way, a call each."""
        self.start_again()
        return faults_at(self.run(watched=True).calls, self.folder / "now", what)

    def fails(self, fault: Fault) -> bool:
        """Let a call fail, and check what is left, and what the command makes of that when it is run again; return
        whether the call failed."""
        self.start_again()
        answer = self.run(fault=fault)
        if not answer.injected:
            assert answer.code == 0, answer.err
            return False
        assert "Traceback" not in answer.err, answer.err
        assert answer.code in ((-9,) if fault.what == "signal=SIGKILL" else (0, 1)), answer.err
        left = found(self.written)
        assert left in (self.before, self.after)
        if answer.code == 0:
            # What is forced last, as the file is closed, is in the log already; of folders SQLite does not insist.
            closing = fault.place.endswith("/s.db") or (fault.place.endswith("/s.db-wal") and fault.number > 2)
            assert fault.name not in FORCES or closing or fault.place == str(self.folder / "now")
            assert left == self.after
        if answer.code == 1:
            assert left == self.before and str(self.folder / "now") in answer.err, answer.err
        again = self.run()
        done = left == self.after and self.command[0] in ("init", "backup")
        assert again.code == int(done), again.err
        assert not done or "already" in again.err, again.err
        assert found(self.written) == self.after
        verified = self.traced.command("verify", "--state", str(self.written))
        assert verified.code == 0, verified.out + verified.err
        return True


@pytest.fixture
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    """The scene of a command."""
    script = tmp_path / "job.py"
    script.write_text(flintlog.compile(PROGRAM, target="database").files["program.py"], encoding="utf-8")
    job, before = Traced(script, tmp_path / "traced"), tmp_path / "before"
    before.mkdir()
    rows, changes = tmp_path / "rows" / "link.csv", tmp_path / "changes" / "link.csv"
    for path, lines in (
        (rows, ["src,dst", *(f"{n},{n + 1}" for n in range(40))]),
        (changes, ["op,src,dst", "-,7,8", "+,40,3", "+,50,51"]),
    ):
        path.parent.mkdir()
        path.write_text("\n".join(lines) + "\n")
    apply = ("apply", "--changes", str(changes.parent), "--batch", "b")
    init = ("init", "--input", str(rows.parent))
    state, copy = str(before / "s.db"), tmp_path / "now" / "copy.db"
    command = {
        "init": init,
        "apply": apply,
        "revert": ("revert", "b", "--batch", "back"),
        "backup": ("backup", "--to", str(copy)),
    }
    for given in {"init": (), "apply": (init,), "revert": (init, apply), "backup": (init, apply)}[request.param]:
        assert job.command(*given, "--state", state).code == 0
    written = copy if request.param == "backup" else tmp_path / "now" / "s.db"
    made = Scene(command[request.param], job, tmp_path, written, (), ())
    made.start_again()
    was = found(written)
    answer = made.run()
    assert answer.code == 0, answer.err
    yield made._replace(before=was, after=found(written))
    job.close()


def every(scene: Scene, faults: list[Fault]) -> None:
    """Let one call after the other fail."""
    assert faults and missed(faults, scene.fails) == []


@by_day(1)
@pytest.mark.parametrize("scene", ["apply"], indirect=True)
@pytest.mark.parametrize("what", FAULTS)
def test_some_calls_fail(scene: Scene, what: str) -> None:
    """By day: a few."""
    faults = scene.faults(what)
    every(scene, faults[:: len(faults) // 3])


@AT_NIGHT
@pytest.mark.parametrize("scene", COMMANDS, indirect=True)
@pytest.mark.parametrize("what", FAULTS)
def test_every_call_fails(scene: Scene, what: str) -> None:
    """One after the other; in each night, every third one."""
    every(scene, scene.faults(what)[START % 3 :: 3])
