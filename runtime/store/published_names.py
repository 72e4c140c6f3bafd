"""Names in published changes: those of the operation column, and of the folders of batches and locations."""

from __future__ import annotations

import hashlib
import re
import urllib.parse
from collections.abc import Iterable

from ..kernel.errors import JobError
from ..kernel.model import Column
from ..kernel.values import shown, value_text

NO_OPERATION = "\0"
"""The name of the operation column where no column is one."""


LOCATION = "location"
"""The name of the partition column of publications that are cut by location, unless a column has it."""

EMPTY_LOCATION = "__HIVE_DEFAULT_PARTITION__"
"""Stands for the empty string in the name of a folder, as Hive, Spark and DuckDB write it."""

LONGEST_LOCATION = 160
"""The longest name of a location in bytes; a longer one is cut there, and ends in a hash."""

ESCAPED = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{\[\]^]")
"""The characters that Hive and Spark escape in the names of folders."""


def is_location(name: str) -> bool:
    """Return whether a name is that of the folder of a location."""
    return name.lstrip("_").startswith(f"{LOCATION}=")


def location_folder(columns: Iterable[str], location: object) -> str:
    """Return the name of the folder for the changes at a location, from which Hive, Spark and DuckDB read it as a
    partition column. The published ``columns`` do not have the name of that, in any case. Different locations have
    different names, which a file system may nevertheless take for the same."""
    key, used = LOCATION, {name.lower() for name in columns}
    while key in used:
        key = f"_{key}"
    text = ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", value_text(location))
    if len(text.encode()) > LONGEST_LOCATION:
        start = text.encode()[:LONGEST_LOCATION].decode(errors="ignore")
        # No shorter name has this character, which is escaped. The start must not end within an escape.
        text = f"{re.sub('%.?$', '', start)}^{hashlib.sha256(text.encode()).hexdigest()[:32]}"
    elif text == EMPTY_LOCATION:
        text = f"%5F{text[1:]}"
    return f"{key}={text or EMPTY_LOCATION}"


def published_file(attempt: str, number: int = 0) -> str:
    """Return the name of a published file of an attempt."""
    return f"{attempt}-{number:05d}.parquet"


def operation_column(columns: Iterable[Column], wanted: str = "op", none: bool = False) -> str:
    """Return the name of the operation column, distinct from the columns of a relation; NO_OPERATION if ``none``."""
    if none:
        return NO_OPERATION
    used = {column.name for column in columns}
    while wanted in used:
        wanted = "_" + wanted
    return wanted


def batch_folder(batch: str, commit: int = 0) -> str:
    """Return the name of the folder of a batch, from which Spark reads the ID back as a partition column. If the batch
    was rolled back before, the ``commit`` that applied it again is given, and follows the ID."""
    return f"batch={urllib.parse.quote(batch, safe=' ')}{f'@{commit}' if commit else ''}"


def check_batch(batch: str) -> None:
    """Raise JobError if an ID cannot name a folder."""
    if not batch or not batch.isprintable() or len(batch_folder(batch)) > 200:
        raise JobError(
            f"{shown(batch)} cannot be the ID of a batch; give at most 190 printable characters, "
            "fewer if some are not letters or digits"
        )
