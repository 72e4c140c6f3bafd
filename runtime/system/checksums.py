"""Check state files against the checksum and the size in their names."""

from __future__ import annotations

import re
import zlib
from pathlib import Path

from ..kernel.errors import JobError, reason

SMALL_FILES = 64 * 1024 * 1024
"""Files with at most this many bytes in all are checked as a whole where they are read."""

FINGERPRINT = re.compile(r"\.([0-9a-f]{8})\.([0-9]+)\.parquet$")
"""The end of a state file's name: the CRC-32 and the number of its bytes."""

READ_FILES = re.compile(r"'((?:[^']|'')*\.parquet)'")
"""A Parquet file that a SQL statement reads."""


def checksum(path: Path) -> str:
    """Return the CRC-32 of a file as in its name."""
    value = 0
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            value = zlib.crc32(chunk, value)
    return f"{value:08x}"


def check_file(path: Path, whole: bool, called: str = "") -> None:
    """Raise JobError if a state file is missing, truncated or, with ``whole``, changed. ``called`` names it in messages
    if ``path`` is a copy. If its name holds no checksum, only Parquet's closing mark is checked."""
    problem, fingerprint = "", FINGERPRINT.search(path.name)
    try:
        size = path.stat().st_size
        if fingerprint and size != int(fingerprint[2]):
            problem = f"is damaged (it has {size} bytes of {fingerprint[2]})"
        elif fingerprint and whole and checksum(path) != fingerprint[1]:
            problem = "is damaged (its bytes are not the ones that were written)"
        elif not fingerprint:
            with path.open("rb") as file:
                file.seek(max(0, size - 4))
                if file.read() != b"PAR1":
                    problem = "is damaged"
    except FileNotFoundError:
        problem = "is missing"
    except OSError as error:
        problem = f"cannot be read ({error.strerror or reason(error)})"
    if problem:
        raise damaged(called or str(path), problem)


def checked_file(path: str) -> str:
    """Return the path of a file that a statement reads. Check the whole file first if its name is that of a state file:
    DuckDB would read many a changed byte as a value."""
    if FINGERPRINT.search(path):
        check_file(Path(path), whole=True)
    return path


def damaged(name: str, problem: str) -> JobError:
    """Return the error for a damaged state file."""
    return JobError(
        f"{name} {problem}; `rebuild` recomputes derived relations; if the file has rows of an input, "
        "pass them again with `rebuild --input`"
    )
