"""Permissions of the files that a command makes."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from .places import without_scheme


@contextlib.contextmanager
def private_files(place: str) -> Iterator[None]:
    """Let this process make files that only its user may use, and its group as far as it may use the folder in which a
    place is, or would be made. The umask may forbid more."""
    umask = os.umask(0o077)
    os.umask(umask | 0o007 | (0o070 & ~group_bits(place)))
    try:
        yield
    finally:
        os.umask(umask)


def group_bits(place: str) -> int:
    """Return the rights of the group of the folder in which a place is; nothing if every user may write there."""
    path = without_scheme(place)
    if not path or "\0" in path:
        return 0
    with contextlib.suppress(OSError):
        for folder in Path(path).absolute().parents:
            if folder.is_dir():
                mode = folder.stat().st_mode
                return 0 if mode & stat.S_IWOTH else mode & 0o070
    return 0


def share_like_parent(folder: Path) -> None:
    """Let users do in a folder that DuckDB has made, and in those in it, what they may do in its parent: DuckDB lets no
    group change them, whatever the umask."""
    with contextlib.suppress(OSError):
        mode = stat.S_IMODE(folder.parent.stat().st_mode)
        for new_folder in (folder, *folder.glob("*/")):
            if stat.S_IMODE(new_folder.stat().st_mode) != mode:
                new_folder.chmod(mode)


def open_to_all(place: str) -> str:
    """Return a warning if every user of the machine may change a folder; empty if not, or if it is not there."""
    path = without_scheme(place)
    with contextlib.suppress(OSError, ValueError):
        if path and Path(path).stat().st_mode & stat.S_IWOTH:
            return f"every user of this machine can change {place}: run `chmod -R o-w` on it"
    return ""
