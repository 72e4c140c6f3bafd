"""A folder of change files: the feed ``files:``."""

from __future__ import annotations

import functools
import hashlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...inputs.dialects import dialect_of_file, split_dialect
from ...inputs.files import InputFile, found_files
from ...inputs.paths import INPUT_FORMATS, format_of
from ...inputs.records import refused
from ...inputs.tables import is_unicode
from ...kernel.errors import Refused, reason
from ...kernel.values import shown
from ...system.places import input_place, is_local
from .feed import Delivery, FeedRequest, Look, Position, short_hash
from .kinds import FEED_KINDS

SETTLED = 2.0
"""The seconds after a change from which on the next one has another time, whatever the file system."""

AT_ONCE = 1024 * 1024
"""The number of bytes of a file that are read at once."""


class FolderFeed:
    """A folder of files with changes, applied in the order of their names. A file with a new name is new; one that was
    read must not change, and may be removed. Names that begin with ``.`` or ``_`` are passed over, so that a file can
    be written under such a name and renamed when it is complete.

    The marks have, of each file, a hash of its contents, and one of its times and the like: as long as these stay, it
    is not read again."""

    def __init__(self, request: FeedRequest) -> None:
        """Note what to read."""
        self.request = request
        self.place, self.dialect = split_dialect(request.place)
        self.known: Mapping[str, int] = request.record.position.get("files", {})

    def look(self) -> Look:
        """Return the names and sizes of all files that were ever there, as far as the feed has seen them."""
        start, record = str(input_place(self.place)), self.request.record
        sizes = {name.removeprefix(start).lstrip("/"): size for name, size, _ in found_files(self.place)}
        if "" in sizes or (not sizes and not input_place(self.place).is_dir()):
            raise refused(f"files:{self.place} is not a folder")
        marks: dict[str, list[str]] = {}
        for name, size in sizes.items():
            if not is_unicode(name):
                raise refused(
                    f"files:{self.place}: the name of the file {shown(name)} is not UTF-8, so it cannot be recorded: "
                    "rename the file"
                )
            if self.known.get(name, size) != size:
                raise self._changed(name, f"has {size} bytes and had {self.known[name]}")
            marks[name] = self._mark(name)
            if name in record.marks and record.marks[name][0] != marks[name][0]:
                raise self._changed(name, f"has other contents in its {size} bytes than it had")
        if marks.keys() <= record.marks.keys():
            # Times that have changed are no news.
            return Look("", record.position or {"files": {}}, marks=record.marks)
        return Look("", {"files": {**self.known, **sizes}}, marks={**record.marks, **marks})

    def _mark(self, name: str) -> list[str]:
        """Return a hash of the contents of a file, and a stamp that stays the same as long as these do; it is empty if
        nothing is known that does."""
        place = input_place(self.place) / name
        mark = self.request.record.marks.get(name, ("", ""))
        try:
            stamp = stamp_of(place)
            if stamp and stamp == mark[1]:
                return list(mark)
            return [hash_of_file(str(place), stamp) if stamp else hash_of_file.__wrapped__(str(place), ""), stamp]
        except Exception as error:
            raise refused(f"{self.place}/{name} cannot be read: {reason(error)}") from error

    def _changed(self, name: str, how: str) -> Refused:
        """Return the error for a file that was changed after it was applied."""
        return refused(
            f"{self.place}/{name} {how} when it was applied: add changes as a file with a new name, and put this one "
            "back"
        )

    def rows(self, until: Look) -> Delivery:
        """Return the changes of all files that are still there; earlier ones belong to them, too."""
        gone = sorted(name for name in self.known if not (input_place(self.place) / name).exists())
        if gone:
            raise refused(
                f"files:{self.place}: {gone[0]} was applied and is no longer there, so the rows cannot be read "
                "again from the beginning"
            )
        return self._delivery(sorted(until.position["files"]), until)

    def changes(self, since: Position, until: Look) -> Delivery | None:
        """Return the changes of the files that are new."""
        return self._delivery(sorted(until.position["files"].keys() - since["files"].keys()), until)

    def _delivery(self, names: list[str], until: Look) -> Delivery:
        files = []
        for name in names:
            dialect = dialect_of_file(name, self.dialect, self.request.relation.file)
            kind = format_of(name, dialect)
            if not kind or not until.position["files"][name]:
                raise refused(
                    f"{self.place}/{name} is empty, or does not have the suffix of a known format "
                    f"({', '.join(INPUT_FORMATS)})"
                )
            place = f"{self.place.rstrip('/')}/{name}"
            files.append(InputFile(self.request.relation, place, kind, until.position["files"][name], dialect))
        return Delivery(files=files)

    def label(self, position: Position) -> str:
        """Return the number of files and, since they can have any names, a hash of these."""
        names = sorted(position["files"])
        return f"{len(names)}-{short_hash(names)}" if names else "0"


@functools.lru_cache(100_000)
def hash_of_file(path: str, stamp: str) -> str:
    """Return a hash of the contents of a file, which is read once for each ``stamp``."""
    digest = hashlib.sha256()
    with input_place(path).open("rb") as content:
        while part := content.read(AT_ONCE):
            digest.update(part)
    return digest.hexdigest()[:32]


def stamp_of(place: Path) -> str:
    """Return what changes with the contents of a file: its number and times or, in a store, its tag. It is empty if
    that is not known, or if the file was changed so recently that another change might have the same times."""
    said: Any = place.stat()
    if is_local(place):
        if time.time_ns() - said.st_ctime_ns < SETTLED * 1e9:
            return ""
        return short_hash([said.st_ino, said.st_mtime_ns, said.st_ctime_ns])
    info = said.as_info()
    tag = next((info[name] for name in ("ETag", "etag", "md5Hash", "generation") if info.get(name)), None)
    return short_hash(str(tag)) if tag else ""


FEED_KINDS["files"] = FolderFeed
