"""Read programs at a git revision."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ..frontend import Load, is_below, outside
from ..source import SourceFile


class NoRevision(Exception):
    """Raised when a program cannot be read at a revision; the message says why, in one sentence."""


def program_at(program: Path, rev: str, include_path: Sequence[Path] = ()) -> tuple[SourceFile, Load]:
    """Return a program at revision ``rev`` of its git repository, and a loader for its includes at that revision.

    Includes must lie below the folder of the program or those of ``include_path``. Raise :class:`NoRevision` if git,
    the repository, the revision or the file in it is missing, or the file is not UTF-8.
    """
    folder = program.parent
    if not folder.is_dir():
        raise NoRevision(f"cannot read {program}: there is no folder {folder}")
    if _git(folder, "rev-parse", "--is-inside-work-tree") is None:
        raise NoRevision(f"cannot read {program} at {rev}: {folder} is not in a git repository")
    commit = _git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{rev}^{{commit}}")
    if commit is None:
        raise NoRevision(f"cannot read {program} at {rev}: git has no such revision")
    name = commit.decode().strip()

    def load(path: str) -> SourceFile | None:
        if not is_below(Path(os.path.realpath((folder / path).parent)), (folder, *include_path)):
            raise outside(path)
        found = _git(folder, "cat-file", "blob", f"{name}:{path if path.startswith('../') else f'./{path}'}")
        return (
            None if found is None else SourceFile(path, _text(found), f"{rev}:{Path(os.path.normpath(folder / path))}")
        )

    try:
        main = load(program.name)
    except UnicodeDecodeError:
        raise NoRevision(f"cannot read {program} at {rev}: it is not UTF-8 text there") from None
    if main is None:
        raise NoRevision(f"cannot read {program} at {rev}: it does not exist there")
    return main, load


def _text(content: bytes) -> str:
    """Decode a UTF-8 file, with line ends normalized as in files read from disk."""
    return content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")


def _git(folder: Path, *arguments: str) -> bytes | None:
    """Return the output of a git command run in ``folder``, or None if it fails; raise NoRevision if git is missing."""
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True)
    except FileNotFoundError:
        raise NoRevision("git is not installed, or not on the path") from None
    return done.stdout if done.returncode == 0 else None
