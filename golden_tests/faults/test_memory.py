"""A task that needs more memory than it may use: nothing changes, and the command that the message names works."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from golden_tests.harness import compile_text
from golden_tests.nightly import AT_NIGHT

PROGRAM = """
input relation e(x: int, y: int)
output relation p(x: int, y: int)
p(X, Y) :- e(X, Y).
p(X, Y) :- p(X, Z), e(Z, Y).
"""
LEAST = "1MB"
"""DuckDB allocates memory in larger pieces."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A job with a state of few rows, and a batch."""
    (tmp_path / "paths.py").write_text(compile_text(PROGRAM)[1], encoding="utf-8")
    (tmp_path / "e.csv").write_text("x,y\n" + "".join(f"{n},{n + 1}\n" for n in range(20)), encoding="utf-8")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "e.csv").write_text("op,x,y\n+,20,21\n", encoding="utf-8")
    assert job(tmp_path, "init", "--input", "e=e.csv") == (0, "")
    return tmp_path


def job(folder: Path, command: str, *options: str) -> tuple[int, str]:
    """The exit code of a command, and what it says on standard error."""
    line = [sys.executable, "paths.py", command, "--state", "state", "--quiet", *options]
    ran = subprocess.run(line, cwd=folder, capture_output=True, text=True)
    return ran.returncode, ran.stderr


def refusal(folder: Path) -> str:
    """What is said of a batch for which there is not enough memory."""
    code, said = job(folder, "apply", "--changes", "more", "--batch", "more", "--memory-limit", LEAST)
    assert code == 1
    return said


@AT_NIGHT
def test_nothing_changes(folder: Path) -> None:
    """The message says what to do instead, in one line each; with enough memory the batch can be applied."""
    before = sorted(folder.rglob("*.json"))
    cause, advice = refusal(folder).splitlines()
    assert re.fullmatch(r"apply: DuckDB ran out of memory in a task: Out of Memory Error: .* used\)", cause)
    command = f"spark-submit paths.py apply --state state --quiet --changes more --batch more --memory-limit {LEAST}"
    assert advice.startswith(f"run `{command} --engine spark`, ")
    assert sorted(folder.rglob("*.json")) == before
    assert job(folder, "apply", "--changes", "more", "--batch", "more") == (0, "")
    assert job(folder, "verify") == (0, "")


@AT_NIGHT
def test_the_command_works(folder: Path) -> None:
    """On the same machine, with the same limit."""
    found = re.search(r"run `(.*)`", refusal(folder))
    assert found is not None
    command = [str(Path(sys.executable).with_name("spark-submit")), *shlex.split(found[1])[1:]]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert ran.returncode == 0 and "p: 231 tuples  +21 -0" in ran.stdout, ran.stdout + ran.stderr
    assert job(folder, "verify") == (0, "")
