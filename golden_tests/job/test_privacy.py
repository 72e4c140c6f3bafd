"""Who may use the files that commands make, whatever the umask."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import flintlog
import pytest

from golden_tests.nightly import by_day

PROGRAM = "input relation link(src: int, dst: int)\noutput reach.\nreach(X, Y) :- link(X, Y).\n"


def modes(folder: Path) -> set[int]:
    """The permissions of all files and folders in a folder."""
    return {stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*")}


@by_day(1)
@pytest.mark.parametrize(
    ("parent", "umask", "expected"),
    [
        (0o700, 0o000, {0o700, 0o600}),
        (0o755, 0o000, {0o750, 0o640}),
        (0o770, 0o002, {0o770, 0o660}),
        (0o777, 0o000, {0o700, 0o600}),
        (0o770, 0o077, {0o700, 0o600}),
    ],
)
def test_files_that_commands_make(parent: int, umask: int, expected: set[int], tmp_path: Path) -> None:
    """The state, published changes inside and elsewhere, an archive, a log, figures, and rows that are set aside."""
    parts = ("operations", "quarantine")
    files = flintlog.compile(PROGRAM, runtime="installed", format=False, parts=parts).files
    for name, text in {**files, "link.csv": "src,dst\n1,2\n", "changes.csv": "src,dst,op\n3,4,+\nx,4,+\n"}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    made = tmp_path / "made"
    made.mkdir()
    made.chmod(parent)

    def run(*command: str) -> str:
        done = subprocess.run(
            [sys.executable, tmp_path / "program.py", *command, "--state", "made/state"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            umask=umask,
        )
        assert done.returncode == 0, done.stderr
        return done.stderr

    run("init", "--input", "link=link.csv", "--log", "made/log", "--metrics", "made/metrics")
    changes = ("apply", "--changes", "link=changes.csv", "--quarantine", "made/bad")
    assert "can change" not in run(*changes, "--publish", "made/published")
    run("export", "--to", "made/state.tar")
    assert {"state", "log", "metrics", "bad", "published", "state.tar"} == {path.name for path in made.iterdir()}
    assert modes(made) == expected
    (made / "state").chmod(0o777)
    assert "warning: every user of this machine can change made/state: run `chmod -R o-w` on it" in run("status")


def test_the_umask_of_a_caller(tmp_path: Path) -> None:
    """A command that runs in a process of somebody else leaves it as it was."""
    from flintlog.runtime.system.permissions import private_files

    given = os.umask(0o027)
    try:
        with private_files(str(tmp_path / "state")):
            (tmp_path / "file").touch()
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(given)
