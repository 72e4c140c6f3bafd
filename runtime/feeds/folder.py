"""A folder of change files: the feed ``files:``."""

from __future__ import annotations

from ..errors import reason
from ..inputs.dialects import split_dialect
from ..inputs.files import InputFile
from ..inputs.paths import INPUT_FORMATS, files_at, format_of
from ..inputs.records import refused
from ..places import input_place
from .feed import Delivery, FeedRequest, Look, Position, short_hash
from .kinds import FEED_KINDS


class FolderFeed:
    """A folder of files with changes, applied in the order of their names. A file with a new name is new; one that was
    read must not change, and may be removed. Names that begin with ``.`` or ``_`` are passed over, so that a file can
    be written under such a name and renamed when it is complete."""

    def __init__(self, request: FeedRequest) -> None:
        """Note what to read."""
        self.request = request
        self.place, self.dialect = split_dialect(request.place)
        self.known = request.record.position.get("files", {})

    def look(self) -> Look:
        """Return the names and sizes of all files that were ever there, as far as the feed has seen them."""
        try:
            found = {name.rpartition("/")[2]: size for name, size, _ in files_at(input_place(self.place))}
        except (OSError, ValueError) as error:
            raise refused(f"files:{self.place} cannot be read: {reason(error)}") from error
        if not found and not input_place(self.place).is_dir():
            raise refused(f"files:{self.place} is not a folder")
        for name, size in found.items():
            if self.known.get(name, size) != size:
                raise refused(
                    f"{self.place}/{name} has {size} bytes and had {self.known[name]} when it was applied: add "
                    "changes as a file with a new name, and put this one back"
                )
        return Look("", {"files": {**self.known, **found}})

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
            kind = format_of(name, self.dialect)
            if not kind or not until.position["files"][name]:
                raise refused(
                    f"{self.place}/{name} is empty, or does not have the suffix of a known format "
                    f"({', '.join(INPUT_FORMATS)})"
                )
            place = f"{self.place.rstrip('/')}/{name}"
            files.append(InputFile(self.request.relation, place, kind, until.position["files"][name], self.dialect))
        return Delivery(files=files)

    def label(self, position: Position) -> str:
        """Return the number of files and, since they can have any names, a hash of these."""
        names = sorted(position["files"])
        return f"{len(names)}-{short_hash(names)}" if names else "0"


FEED_KINDS["files"] = FolderFeed
