"""Find the programs of folders, and write files atomically."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from .printing import warn


def is_folder(path: Path) -> bool:
    """Return whether a path is that of a folder, and not one that cannot be opened at all."""
    try:
        return path.is_dir()
    except OSError:
        return False


def programs_below(paths: Iterable[Path], suffixes: Collection[str] = (".dl",)) -> Iterator[Path]:
    """Yield programs as given and, for each folder, the programs below it that are not hidden, in order. Programs in
    folders are recognized by their ``suffixes``."""
    for path in paths:
        if not is_folder(path):
            yield path
            continue
        empty = True
        for file in sorted(path.rglob("*")):
            if file.suffix not in suffixes or any(part.startswith(".") for part in file.relative_to(path).parts):
                continue
            if file.is_file():
                empty = False
                yield file
            else:
                warn(f"{file} is not a file and is ignored")
        if empty:
            warn(f"there are no programs (.dl files) below {path}")


def write_file(path: Path, content: str | bytes) -> bool:
    """Write to ``path`` atomically; return False, without writing, if the file has this content already."""
    path = Path(os.path.realpath(path))
    content = content.encode() if isinstance(content, str) else content
    if path.is_file() and path.read_bytes() == content:
        return False
    with replacing(path) as temporary:
        temporary.write_bytes(content)
    return True


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path that replaces ``path`` atomically when the body ends, unless it raises. Create the parent
    folders, follow symbolic links, and keep the mode of an existing file."""
    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield temporary
        if path.exists():
            shutil.copymode(path, temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
