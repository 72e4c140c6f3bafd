"""The part ``quarantine``: files with the rows that batches set aside, as they become visible with the commits.

The rows of a relation in a batch are in ``DIR/batch=ID/REL/ATTEMPT.jsonl``. The name begins with a dot until the batch
is committed: the file is on disk before the commit, and renamed after it, by the next command if this one is killed.
What an attempt that was killed before its commit has left goes with its data.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path
from typing import Any, TextIO

from ..kernel.errors import JobError
from ..kernel.model import Relation
from ..kernel.values import value_text
from ..store.extensions import FURTHER
from ..store.manifest import Manifest, SetAside, relative_folder
from ..store.set_aside import file_set_aside, hidden_file, note_hidden, remove_hidden
from ..system.places import given_place, is_local, make_folder, sync


class Quarantine:
    """Writes the rows that a batch sets aside to hidden files."""

    def __init__(self, place: str) -> None:
        """Note the folder; raise JobError if files cannot be renamed there."""
        self.place = quarantine_folder(place)
        self.root, self.folder, self.attempt = Path(), "", ""
        self.rows: dict[str, int] = {}
        self.folders: dict[str, Path] = {}
        self.files: dict[str, TextIO] = {}
        self.opened = ExitStack()

    def begin(self, root: Path, folder: str, attempt: str) -> None:
        """Begin an attempt at a batch, whose own folder is to be called ``folder``."""
        self.root, self.folder, self.attempt = root, folder, attempt
        self.rows, self.folders, self.files, self.opened = {}, {}, {}, ExitStack()

    def add(self, relation: Relation, file: str, row: int, found: Sequence[tuple[str, str]], values: Any) -> None:
        """Set a row aside, as a line of JSON."""
        name = relation.name
        if name not in self.files:
            self.folders[name] = self.place / self.folder / (relation.folder or name)
            note_hidden(self.root, self.attempt, len(self.files), self.folders[name])
            make_folder(self.folders[name])
            path = hidden_file(self.folders[name], self.attempt)
            self.files[name] = self.opened.enter_context(path.open("x", encoding="utf-8"))
            self.rows[name] = 0
        self.files[name].write(row_line(name, file, row, found, values))
        self.rows[name] += 1

    def seal(self) -> Mapping[str, SetAside]:
        """Force all files to disk, hidden, and return what is in them by relation."""
        for name, file in self.files.items():
            file.flush()
            os.fsync(file.fileno())
            file.close()
            sync(self.folders[name])
        return {
            name: SetAside(rows, relative_folder(self.root, str(self.folders[name])))
            for name, rows in self.rows.items()
        }

    def withdraw(self) -> None:
        """Remove the files of the attempt, and the folders that this leaves empty."""
        with contextlib.suppress(OSError):
            self.opened.close()
        for folder in self.folders.values():
            remove_hidden(hidden_file(folder, self.attempt))


def quarantine_folder(place: str) -> Path:
    """Return the folder in which rows are set aside; raise JobError if files cannot be renamed there."""
    folder = given_place(place)
    if not is_local(folder):
        raise JobError(
            f"{place} cannot take rows that are set aside, because their files are renamed when the batch is "
            "committed: give a folder on a local or mounted file system"
        )
    if folder.exists() and not folder.is_dir():
        raise JobError(f"{place} is not a folder; rows are set aside in a folder")
    return folder


def row_line(relation: str, file: str, row: int, found: Sequence[tuple[str, str]], values: Any) -> str:
    """Return a row that is set aside as a line of JSON, or with text where JSON has no such value."""
    problems = [{"column": column or None, "reason": reason} for column, reason in found]
    said = {"relation": relation, "file": file, "row": row or None, "problems": problems}
    try:
        line = json.dumps({**said, "values": values}, default=json_value, ensure_ascii=False, allow_nan=False)
        line.encode()
    except UnicodeEncodeError:
        # Half of a surrogate pair can be written as an escape only.
        line = json.dumps({**said, "values": values}, default=json_value)
    except (ValueError, RecursionError):
        named = values.items() if isinstance(values, Mapping) else [("", values)]
        line = json.dumps({**said, "values": {name: plain_text(value) for name, value in named}})
    return f"{line}\n"


def json_value(value: Any) -> Any:
    """Return a value that JSON does not have: a number if that is exact, otherwise text."""
    if not isinstance(value, Decimal):
        return value_text(value)
    number = float(value)
    # Digits are not written out: there may be a billion.
    return number if math.isfinite(number) and Decimal(repr(number)) == value else str(value)


def plain_text(value: Any) -> str:
    """Return a value as text, whatever it is."""
    try:
        return str(value)
    except (ValueError, RecursionError):
        return "(nested too deeply)"


def show_set_aside(root: Path, manifest: Manifest) -> None:
    """Make the rows visible that a commit has set aside. Idempotent, so that it can be repeated after a crash. What
    somebody has removed meanwhile is not missed; raise JobError if the folder of all batches is not there."""
    for name in manifest.set_aside:
        target = file_set_aside(root, manifest, name)
        try:
            hidden_file(target.parent, manifest.attempt).rename(target)
        except FileNotFoundError as error:
            place = target.parent.parent.parent
            if not place.exists():
                raise JobError(
                    f"{place} is missing, where batch {manifest.batch} has set rows of {name} aside: bring it back, or "
                    "make an empty folder there to go on without these rows"
                ) from error
        if target.parent.exists():
            sync(target.parent)


FURTHER.update(quarantine=Quarantine, show_set_aside=show_set_aside)
