"""Every option of every command with values that are not meant: a message and an exit code, never a traceback. The
options are those of the parsers, so that a new one is tried too."""

from __future__ import annotations

import argparse
import functools
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import flintlog
import pytest
from click.testing import CliRunner
from flintlog.compiler.cli import main
from flintlog.runtime.store.extensions import COMMANDS_OF_PARTS, PARTS

from golden_tests.harness import load_script
from golden_tests.nightly import by_day

PROGRAM = "input relation link(src: int, dst: int)\noutput reach.\nreach(X, Y) :- link(X, Y).\n"
LOCATED = "input relation link(@src: int, dst: int)\noutput back.\nback(@D, S) :- link(@S, D).\n"
VALUES = ("", "x" * 5000, "a\nb", "a\udcff", "-1", "nan", "a'b;--", "../x/../..")
JOB_COMMANDS = ("init", "apply", "follow", "status", "show", "verify")
JOB_COMMANDS += tuple(name for name in COMMANDS_OF_PARTS if name != "depends")
"""The commands of a job with all parts, without derivations."""


GIVEN = {
    ("export", "--to"): "archive",
    ("import", "--state"): "another",
    ("rollback", "--to"): "init",
    "--from": "1",
    "--to": "later",
    "--state": "state",
    "--batches": "batches",
    "relation": "reach",
    "asked": "reach(1, 2)",
    "reverted": "later",
    "archive": "archive",
    "sources": "link=files:files",
}
"""What else a command needs, by its name and that of the argument, or by the latter alone."""

EMPTY_MEANS_SOMETHING = {"--at", "--memory-limit"}
"""The options of jobs that may be empty."""


@functools.cache
def job() -> Any:
    """A job with all commands."""
    return load_script(flintlog.compile(PROGRAM, format=False, parts=tuple(PARTS)).files["program.py"])


@functools.cache
def parsers() -> dict[str, argparse.ArgumentParser]:
    """The parsers of its commands."""
    actions = job().command_line(job().PROGRAM, job().commands_of(job().PROGRAM))._actions
    found: dict[str, argparse.ArgumentParser]
    (found,) = (action.choices for action in actions if isinstance(action, argparse._SubParsersAction))
    return found


def name_of(action: argparse.Action) -> str:
    """The name of an argument of a job's command."""
    return action.option_strings[-1] if action.option_strings else action.dest


def arguments(command: str) -> Iterator[argparse.Action]:
    """The arguments of a job's command that take a value."""
    return (action for action in parsers()[command]._actions if action.nargs != 0)


def files(folder: Path) -> dict[Path, bytes]:
    """What is in the files below a folder."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a state that has two batches, an archive of it, and an empty folder for a feed and for batches."""
    folder = tmp_path_factory.mktemp("place")
    for name in ("init", "later"):
        (folder / f"{name}.csv").write_text(f"op,src,dst\n+,1,{len(name)}\n", encoding="utf-8")
    for command in (
        ["init", "--input", f"link={folder}/init.csv"],
        ["apply", "--changes", f"link={folder}/later.csv", "--batch", "later"],
        ["export", "--to", f"{folder}/archive"],
    ):
        assert job().main([*command, "--state", f"{folder}/state", "--quiet"]) == 0
    (folder / "files").mkdir()
    (folder / "batches").mkdir()
    return folder


def test_all_commands_are_there() -> None:
    """The job has the commands of all parts."""
    assert {*JOB_COMMANDS} == parsers().keys()


@by_day(6)
@pytest.mark.parametrize("command", JOB_COMMANDS)
def test_hostile_values(
    command: str, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the place of every value, beside a state that stays as it is unless the value means something."""
    here = tmp_path / "here"
    shutil.copytree(place, here)
    monkeypatch.chdir(here)
    before = files(here)
    for tried in arguments(command):
        option = name_of(tried)
        for value in VALUES:
            others = [a for a in arguments(command) if a is not tried and (a.required or name_of(a) == "--state")]
            known = {name_of(a): GIVEN.get((command, name_of(a))) or GIVEN[name_of(a)] for a in others}
            line = [*(f"{name}={text}" if name[0] == "-" else text for name, text in known.items()), "--quiet"]
            line += [f"{option}={value}"] if tried.option_strings else ["--", value]
            try:
                code = job().main([command, *line])
            except SystemExit as end:
                code = end.code
            said = "".join(capsys.readouterr())
            assert code in (0, 1, 2) and "Traceback" not in said, (option, value)
            assert code == 0 or said.strip(), (option, value)
            if code == 2:
                assert option in said or (not value and "an argument is empty" in said), (option, value, said)
            if not value and tried.option_strings and option not in EMPTY_MEANS_SOMETHING:
                assert code == 2 and f"{option} is empty; is a variable not set?" in said
            after = files(here)
            if code:
                # What a command notes in a file that the value names is no change.
                changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
                assert not {path for path in changed if path.name != value}, (option, value, said)
            if after != before:
                shutil.rmtree(here)
                shutil.copytree(place, here)
                monkeypatch.chdir(here)


NEEDED = {"programs": ["p.dl"], "program": ["p.dl"], "commands": ["p.dat"], "--nodes": ["--nodes", "2"]}
NEEDED |= {"command": ["status"], "script": ["p.py"]}
"""What they need."""

ALWAYS = {"compile": ["-o", "out"]}
"""What is given to a command apart from that."""


@by_day(4)
@pytest.mark.parametrize("name", main.commands)
def test_the_compiler(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its options are as careful, and so are the names of its files."""
    command: click.Command = main.commands[name]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.dl").write_text(LOCATED if name in ("simulate", "topology") else PROGRAM, encoding="utf-8")
    (tmp_path / "p.dat").write_text("", encoding="utf-8")
    (tmp_path / "p.test.toml").write_text('[[test]]\nname = "x"\nexpect.reach = []\n', encoding="utf-8")
    if name == "diff":
        for line in ("init -q .", "add .", "-c user.name=a -c user.email=a@example.org commit -qm a"):
            subprocess.run(["git", *line.split()], check=True)
    if name == "job":
        (tmp_path / "p.py").write_text(flintlog.compile(PROGRAM, format=False).files["program.py"], encoding="utf-8")
    before = files(tmp_path)
    for tried in command.params:
        if getattr(tried, "is_flag", False) or not isinstance(tried, click.Option | click.Argument):
            continue
        named = [] if isinstance(tried, click.Argument) else [max(tried.opts, key=len)]
        for value in VALUES:
            shown = value[:99].encode(errors="backslashreplace").decode()
            line = [name, *ALWAYS.get(name, [])]
            for other in command.params:
                if other is not tried and other.required:
                    line += NEEDED[other.name or "" if isinstance(other, click.Argument) else other.opts[-1]]
            line += [*named, value] if named else ["--", value]
            result = CliRunner().invoke(main, line)
            said = (line, result.output, result.exception)
            assert result.exception is None or isinstance(result.exception, SystemExit), said
            assert result.exit_code in (0, 1, 2), said
            assert result.exit_code == 0 or result.output.strip(), said
            after = files(tmp_path)
            if result.exit_code:
                assert after == before, said
                if result.exit_code == 2 and named:
                    assert named[0] in result.output or shown in result.output or named == ["-k"], said
            else:
                assert before.items() <= after.items(), said
                for path in after.keys() - before.keys():
                    path.unlink()
