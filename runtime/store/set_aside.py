"""Changes that a batch does not take, and goes on without: rows that it sets aside (``--quarantine``) or leaves out
(``--nulls skip``), and late changes."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from ..kernel.model import Relation
from ..system.places import recorded_place
from .extensions import further
from .manifest import Manifest, relative_folder

LeftOut = Counter[str]
"""How many rows were left out, by relation."""


NOTES = "set_aside"
"""The folder beside the data of an attempt that tells where its hidden files are."""


class Aside(Protocol):
    """Takes the bad rows of a batch, and keeps them with its commit."""

    def add(self, relation: Relation, file: str, row: int, found: Sequence[tuple[str, str]], values: Any) -> None:
        """Take a row: its number, 0 if it has none; by column, empty for the whole row, what is wrong; and the values
        by column, or what is there instead."""

    def begin(self, root: Path, folder: str, attempt: str) -> None:
        """Begin an attempt at a batch, whose own folder is to be called ``folder``."""

    def seal(self) -> Mapping[str, Any]:
        """Force all files to disk, hidden, and return what is in them by relation."""

    def withdraw(self) -> None:
        """Remove the files of the attempt."""


def quarantine_at(place: str | None) -> Aside | None:
    """Return what sets bad rows aside below a folder; None if they are refused, since no folder is given. Raise
    JobError if the script lacks the part, or if the folder cannot be used."""
    if place is None:
        return None
    aside: Aside = further("quarantine", "quarantine", "setting rows aside (--quarantine)")(place)
    return aside


def file_set_aside(root: Path, manifest: Manifest, name: str) -> Path:
    """Return the file with the rows that a commit has set aside of a relation."""
    return recorded_place(root, manifest.set_aside[name].folder) / f"{manifest.attempt}.jsonl"


# What killed attempts leave


def hidden_file(folder: Path, attempt: str) -> Path:
    """Return the path of the file of an attempt before its commit."""
    return folder / f".{attempt}.jsonl"


def remove_hidden(path: Path) -> None:
    """Remove a hidden file, and its folders if this leaves them empty."""
    for remove in (path.unlink, path.parent.rmdir, path.parent.parent.rmdir):
        with contextlib.suppress(OSError):
            remove()


def note_hidden(root: Path, attempt: str, number: int, folder: Path) -> None:
    """Note beside the data of an attempt that it is about to have a hidden file in a folder, its n-th."""
    notes = root / "data" / attempt / NOTES
    notes.mkdir(exist_ok=True)
    (notes / f"{number}.json").write_text(json.dumps(relative_folder(root, str(folder))), encoding="utf-8")


def has_notes(data: Path) -> bool:
    """Return whether an attempt has noted hidden files in its folder of data."""
    return (data / NOTES).exists()


def remove_noted(root: Path, data: Path) -> None:
    """Remove the hidden files that an attempt has noted in its folder of data."""
    for note in (data / NOTES).glob("*.json"):
        # If a note is not whole, its file was not begun.
        with contextlib.suppress(OSError, ValueError):
            folder = json.loads(note.read_text(encoding="utf-8"))
            remove_hidden(hidden_file(recorded_place(root, folder), data.name))
