"""Programs as git has them at a revision."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from .frontend import Load, is_below, outside
from .source import SourceFile


class NoRevision(Exception):
    """A program cannot be had from a revision; the message says why, in one sentence."""


def program_at(program: Path, rev: str, include_path: Sequence[Path] = ()) -> tuple[SourceFile, Load]:
    """The text of a program at a revision of the repository that it lies in, and what finds its includes there, below
    its folder and those of ``include_path``.

    Raises :class:`NoRevision` if there is no repository, no such revision, or no such file in it.
    """
    folder = program.parent
    if not folder.is_dir():
        raise NoRevision(f"cannot read {program}: there is no folder {folder}")
    if _git(folder, "rev-parse", "--is-inside-work-tree") is None:
        raise NoRevision(f"cannot read {program} at {rev}: {folder} is not in a git repository")
    commit = _git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{rev}^{{commit}}")
    if commit is None:
        raise NoRevision(f"cannot read {program} at {rev}: git knows no such revision")
    name = commit.decode().strip()

    def load(path: str) -> SourceFile | None:
        if not is_below(Path(os.path.realpath((folder / path).parent)), (folder, *include_path)):
            raise outside(path)
        found = _git(folder, "cat-file", "blob", f"{name}:{path if path.startswith('../') else f'./{path}'}")
        return None if found is None else SourceFile(path, _text(found))

    try:
        main = load(program.name)
    except UnicodeDecodeError:
        raise NoRevision(f"cannot read {program} at {rev}: it is not a text in UTF-8 there") from None
    if main is None:
        raise NoRevision(f"cannot read {program} at {rev}: it is not there")
    return main, load


def _text(content: bytes) -> str:
    """Text with line ends as files are read with."""
    return content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")


def _git(folder: Path, *arguments: str) -> bytes | None:
    """What git prints, None if it fails."""
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True)
    except FileNotFoundError:
        raise NoRevision("git is not installed, or not on the path") from None
    return done.stdout if done.returncode == 0 else None
