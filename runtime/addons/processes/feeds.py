"""The files that a process is fed: a folder for each relation, read in the order of the names in it."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from ...inputs.paths import INPUT_FORMATS, unknown_format
from ...kernel.errors import Refused
from ...system.log import Log
from .channels import UNREADABLE, path_text
from .snapshots import FeedFolder, Listing


def feed_folder(root: Path, process: str, relation: str) -> Path:
    """Return the folder for the files that a process is fed for a relation."""
    return root / "feeds" / process / relation


class Feeds:
    """The feeds of a process below the folder ``root``, one for each of its ``relations``. ``taken`` returns the names
    of the files that were taken in for a relation."""

    def __init__(
        self,
        root: Path,
        process: str,
        relations: Sequence[str],
        taken: Callable[[str], Collection[str]],
        log: Log,
    ) -> None:
        """Refuse nothing yet."""
        self.root, self.process, self.relations = root, process, relations
        self.taken, self.log = taken, log
        #: By relation, the file that was refused, the time of its last change then, and the reason.
        self.refused: dict[str, tuple[str, int, str]] = {}
        #: Relations whose next files were refused in one step with others, and are taken in one by one.
        self.alone: set[str] = set()
        #: By relation, the names in its folder that are no files of rows.
        self.aside: dict[str, list[str]] = {relation: [] for relation in relations}
        self.folders = {relation: FeedFolder(self.folder(relation)) for relation in relations}
        #: By relation, the snapshots that stand for files of which all were taken in.
        self.passed: dict[str, list[str]] = {}

    def folder(self, relation: str) -> Path:
        """Return the folder for the files fed to a relation."""
        return feed_folder(self.root, self.process, relation)

    def listing(self, relation: str) -> Listing:
        """Return the files of a relation. Raise OSError or Refused if they cannot be determined."""
        return self.folders[relation].listing()

    def next_files(self) -> dict[str, Path]:
        """Return the next file for each relation, or for only one relation if it must be taken in alone."""
        files = {}
        for relation in self.relations:
            next_one, problem = self.folder(relation), ""
            try:
                waiting = self.waiting(relation)
                if waiting:
                    next_one = waiting[0]
                    os.close(os.open(next_one, os.O_RDONLY | os.O_NONBLOCK))
            except FileNotFoundError:
                # It was removed in the meantime.
                continue
            except Refused as error:
                # A snapshot does not say which files it covers.
                waiting, problem = [], error.plain
            except OSError as error:
                if error.errno not in UNREADABLE:
                    raise
                problem = f"{path_text(next_one)} cannot be read ({error.strerror})"
            refusal = self.refused.get(relation)
            if problem:
                # An unreadable file may become readable without a change of its ctime.
                if refusal != (str(next_one), -1, problem):
                    self.refused[relation] = (str(next_one), -1, problem)
                    self.log.warn(f"{problem}; it is read as soon as possible")
            elif refusal is None or refusal[:2] != (str(next_one), changed_at(next_one)):
                self.refused.pop(relation, None)
                if waiting:
                    files[relation] = next_one
        alone = min(self.alone & files.keys(), default=None)
        return {alone: files[alone]} if alone else files

    def has_waiting(self, relation: str) -> bool:
        """Return whether files for a relation are pending, or might be because its folder cannot be read."""
        try:
            return bool(self.waiting(relation))
        except Refused:
            return True
        except OSError as error:
            if error.errno not in UNREADABLE:
                raise
            return True

    def waiting(self, relation: str) -> list[Path]:
        """Return the pending files of a relation in order; warn of anything that is no file of rows."""
        self.passed[relation] = []
        folder, listing, read = self.folder(relation), self.listing(relation), frozenset(self.taken(relation))
        passed = self.passed[relation] = listing.passed(read)
        waiting, aside = [], []
        for name in listing.waiting(read, passed):
            problem = not_food(folder / name)
            if problem:
                self.log.warn(f"{path_text(folder / name)} {problem}; it is ignored")
                aside.append(name)
            else:
                waiting.append(folder / name)
        self.aside[relation] = aside
        return waiting

    def refuse(self, relation: str, path: Path, message: str) -> None:
        """Record that a file was refused; it stays pending and is tried again once it has changed."""
        self.alone.discard(relation)
        self.refused[relation] = (str(path), changed_at(path), message)
        self.log.warn(f"{path}: {message}; it is read again once it has changed")


def not_food(path: Path) -> str:
    """Return why something in the folder of a feed is not a file of rows; empty if it is one."""
    try:
        path.name.encode()
    except UnicodeEncodeError:
        return "has a name that is not UTF-8"
    if path.suffix.lower() not in INPUT_FORMATS:
        return unknown_format()
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return "is a dangling link" if path.is_symlink() else "is gone"
    except OSError as error:
        if error.errno not in UNREADABLE:
            raise
        return f"cannot be read ({error.strerror})"
    return "" if stat.S_ISREG(mode) else "is not a regular file"


def changed_at(path: Path) -> int:
    """Return the time of the last change to a file or its metadata in nanoseconds; 0 if it cannot be read."""
    try:
        return path.stat().st_ctime_ns
    except OSError:
        return 0
