"""The log of a Delta table: whether it continues what was read, and whether the change data feed tells all changes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...inputs.records import refused
from ...kernel.errors import JobError, Passing
from .feed import FeedRequest, Look, Position, way_out

CHANGE_DATA_FEED = "delta.enableChangeDataFeed"

EXACT_WRITERS = ("Apache-Spark/", "Databricks-Runtime/")
"""The beginnings of the names of engines that record each changed row. deltalake leaves those out that a rewritten file
had before and has after, however often."""


@dataclass(frozen=True)
class DeltaLog:
    """The log of the table of a request, which messages call ``name``. ``read`` returns the content of a file, given by
    its path in the table, and None if it is not there."""

    request: FeedRequest
    name: str
    read: Callable[[str], bytes | None]

    def entry(self, version: int) -> bytes | None:
        """Return the entry of a version, None if it is gone."""
        return self.read(f"_delta_log/{version:020d}.json")

    def marks(self, version: int) -> dict[str, str]:
        """Return what tells a version of a table from any other one with its number: a hash of its entry. Raise Refused
        if that is gone, although it is the last version."""
        content = self.entry(version)
        if content is None:
            raise refused(
                f"{self.name} is at version {version}, whose entry is missing in _delta_log, so it cannot be told from "
                f"another version {version}: bring {version:020d}.json back, or write another version to the table"
            )
        return {"entry": hashlib.sha256(content).hexdigest()[:32]}

    def check_continued(self, since: Position, until: Look) -> None:
        """Raise an error unless the table at a look has the version that was read, or continues it."""
        version, last = int(since["version"]), int(until.position["version"])
        relation = self.request.relation.name
        if last < version:
            raise JobError(
                f"{self.name} is at version {last}, and {relation} was read up to version {version}: this is an "
                f"earlier copy of the table; {way_out(self.request)}"
            )
        if self.entry(version) is None:
            raise refused(
                f"{self.name} no longer has the entry of version {version} in _delta_log, up to which {relation} was "
                f"read, so whether version {last} continues it cannot be told",
                way_out(self.request),
            )
        if self.marks(version) != self.request.record.marks:
            raise refused(
                f"{self.name} has another version {version} than the one that {relation} was read up to: its history "
                "was written anew, as after a backup of the table was restored",
                way_out(self.request),
            )

    def check_unchanged(self, until: Look) -> None:
        """Raise Passing if the last version is another one than at a look."""
        version = int(until.position["version"])
        if self.marks(version) != until.marks:
            raise Passing(f"{self.name} has another version {version} than when it was opened: it was written anew")

    def tells_changes(
        self, since: Position, until: Look, partitions: Sequence[str], complete: Callable[[], bool]
    ) -> bool:
        """Return whether the change data feed tells all changes after a position as they are, where the table now has
        some ``partitions``. It does not across a change of types or partitions, or where columns were mapped or rows
        deleted by vectors. If an engine has recorded changes that may leave some out, ``complete`` tells whether that
        has happened. Entries that are gone are reported by whoever reads the changes."""
        inexact = False
        for number in range(int(since["version"]) + 1, int(until.position["version"]) + 1):
            try:
                actions = log_actions(self.entry(number) or b"")
                info: Mapping[str, Any] = next((action for kind, action in actions if kind == "commitInfo"), {})
                for kind, action in actions:
                    if kind == "metaData" and not (
                        is_recorded(action, info) and self._same_layout(action, until.columns, partitions)
                    ):
                        return False
                    if kind in ("add", "remove") and (
                        action.get("deletionVector") or (action.get("partitionValues") or {}).keys() != {*partitions}
                    ):
                        return False
                    inexact = inexact or (kind == "cdc" and not exact_writer(info))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise refused(
                    f"{self.name}: the entry of version {number} in _delta_log is damaged ({error})",
                    way_out(self.request),
                ) from error
        return not inexact or complete()

    def _same_layout(self, action: Mapping[str, Any], columns: Mapping[str, str], partitions: Sequence[str]) -> bool:
        """Return whether the table had the present layout after its metadata were written."""
        fields = json.loads(action["schemaString"])["fields"]
        types = {item["name"]: json_type(item["type"]) for item in fields}
        names = self.request.wanted
        # A filter may read any column. One that is new is null before.
        needed = types.keys() & columns.keys() if names is None else names
        return (
            list(action["partitionColumns"]) == list(partitions)
            and not columns_are_mapped(action.get("configuration") or {})
            and all(types.get(name) == columns[name] for name in (*needed, *self.request.columns))
        )


def log_actions(entry: bytes) -> list[tuple[str, Any]]:
    """Return the actions of an entry of the log, each with its kind."""
    return [item for line in entry.split(b"\n") if line.strip() for item in json.loads(line).items()]


def is_recorded(metadata: Mapping[str, Any], info: Mapping[str, Any]) -> bool:
    """Return whether changes are recorded after metadata were written. A feed that somebody has just switched off is
    reported by whoever reads it."""
    said = (metadata.get("configuration") or {}).get(CHANGE_DATA_FEED)
    return said == "true" or (said == "false" and info.get("operation") == "SET TBLPROPERTIES")


def exact_writer(info: Mapping[str, Any]) -> bool:
    """Return whether a commit was written by an engine that records each changed row."""
    return str(info.get("engineInfo", "")).startswith(EXACT_WRITERS)


def json_type(kind: Any) -> str:
    """Return a type of Delta's schema in JSON as text."""
    return kind if isinstance(kind, str) else json.dumps(kind, sort_keys=True)


def columns_are_mapped(properties: Mapping[str, str]) -> bool:
    """Return whether the columns of a table have other names in its files (column mapping)."""
    return properties.get("delta.columnMapping.mode", "none") != "none"
