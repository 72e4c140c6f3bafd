"""Delta tables: the feed ``delta:`` without a JVM, by the package deltalake."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ..errors import JobError, reason
from ..inputs.records import refused
from ..obstacles import momentary
from .feed import Delivery, FeedRequest, Look, Position, delta_options, needed_library, way_out

MOST_VERSIONS_TRIED = 1000
"""How many versions are tried one by one to say which of them are gone."""


class DeltaFeed:
    """A Delta table, read at one version. Its changes come from its change data feed or, where that was never switched
    on, from the files that each version added and removed: rows that are in both cancel each other. Of tables with
    deletion vectors or column mapping, all rows are compared."""

    def __init__(self, request: FeedRequest) -> None:
        """Find the library."""
        self.request = request
        self.name = f"delta:{request.place}"
        self.library = needed_library("deltalake", "deltalake", f"the feed {self.name}")
        self.opened: Any = None

    def look(self) -> Look:
        """Return identity, version, columns and number of rows of the table."""
        try:
            table = self.opened = self.library.DeltaTable(self.request.place, storage_options=delta_options())
            fields = json.loads(table.schema().to_json())["fields"]
            columns = {item["name"]: json_type(item["type"]) for item in fields}
            version = int(table.version())
        except Exception as error:
            raise JobError(f"{self.name} cannot be opened: {reason(error)}") from error
        return Look(str(table.metadata().id), {"version": version}, columns, self._count(table))

    def _count(self, table: Any) -> int | None:
        """Return the number of rows of a version by its statistics; None where files have none, or deleted rows."""
        features = table.protocol().reader_features or ()
        if "deletionVectors" in features:
            return None
        import pyarrow as pa

        counts = pa.table(table.get_add_actions(flatten=True)).column("num_records").to_pylist()
        return None if None in counts else sum(counts)

    def rows(self, until: Look) -> Delivery:
        """Return the rows of the version that was looked at."""
        return self._delivery(
            lambda: self.opened.scan(columns=self.request.wanted), f"version {until.position['version']}"
        )

    def changes(self, since: Position, until: Look) -> Delivery | None:
        """Return the changes of the versions after ``since``."""
        first, last = int(since["version"]) + 1, int(until.position["version"])
        if last < first:
            raise earlier_copy(self.request, self.name, first - 1, last)
        if columns_are_mapped(self.opened.metadata().configuration) or self._had_vectors():
            # The library does not read the change data feed of the former, and loses changes in that of the latter.
            return None
        wanted = None if self.request.wanted is None else [*self.request.wanted, "_change_type"]

        def read() -> Any:
            return self.opened.load_cdf(starting_version=first, ending_version=last, columns=wanted)

        return self._delivery(read, f"versions {first}..{last}", (first, last))

    def _had_vectors(self) -> bool:
        """Return whether rows may have been deleted by deletion vectors, also before that feature was dropped."""
        protocol = self.opened.protocol()
        features = {*(protocol.reader_features or ()), *(protocol.writer_features or ())}
        return bool(features & {"deletionVectors", "checkpointProtection"})

    def _delivery(self, read: Any, what: str, versions: tuple[int, int] | None = None) -> Delivery:
        """Return what a call of the library reads, whose errors explain themselves."""
        import pyarrow as pa

        try:
            reader = pa.RecordBatchReader.from_stream(read())
        except Exception as error:
            raise self._explained(error, what, versions) from error

        def batches() -> Iterator[Any]:
            try:
                yield from reader
            except Exception as error:
                raise self._explained(error, what, versions) from error

        return Delivery(reader.schema, batches(), operation="_change_type" if versions else "")

    def _explained(self, error: Exception, what: str, versions: tuple[int, int] | None) -> JobError:
        """Return the error for something that cannot be read: which versions are gone, or were not recorded."""
        text = str(error)
        off = re.search(r"Change Data not enabled for version: (\d+)", text, re.IGNORECASE)
        if versions and off:
            return refused(
                f"{self.name}: the change data feed was switched off at version {off[1]}, so the changes of versions "
                f"{versions[0]}..{versions[1]} are not all recorded; {way_out(self.request)}"
            )
        if momentary(error):
            return JobError(f"{self.name}, {what}, cannot be read now: {reason(error)}")
        gone = self._gone(*versions) if versions and re.search("not found|No such file|does not exist", text) else []
        if gone:
            listed = ", ".join(f"{a}..{b}" if a < b else str(a) for a, b in ranges(gone))
            return refused(
                f"{self.name}: the files of version{'s' if len(gone) > 1 else ''} {listed} are gone, removed by VACUUM "
                f"or with old entries of the log, and {self.request.relation.name} was read up to version "
                f"{versions[0] - 1 if versions else ''}; {way_out(self.request)}"
            )
        return JobError(f"{self.name}, {what}, cannot be read: {reason(error)}")

    def _gone(self, first: int, last: int) -> list[int]:
        """Return the versions of a range whose changes cannot be read."""
        found = []
        for number in range(first, min(last, first + MOST_VERSIONS_TRIED) + 1):
            try:
                for _ in self.opened.load_cdf(starting_version=number, ending_version=number):
                    pass
            except Exception as error:
                if momentary(error):
                    raise JobError(f"{self.name}, version {number}, cannot be read now: {reason(error)}") from error
                found.append(number)
        return found

    def label(self, position: Position) -> str:
        """Return the version."""
        return str(position["version"])


def json_type(kind: Any) -> str:
    """Return a type of Delta's schema in JSON as text."""
    return kind if isinstance(kind, str) else json.dumps(kind, sort_keys=True)


def columns_are_mapped(properties: Mapping[str, str]) -> bool:
    """Return whether the columns of a table have other names in its files (column mapping)."""
    return properties.get("delta.columnMapping.mode", "none") != "none"


def earlier_copy(request: FeedRequest, name: str, known: int, found: int) -> JobError:
    """Return the error for a table at an earlier version than it was read up to."""
    return JobError(
        f"{name} is at version {found}, and {request.relation.name} was read up to version {known}: this is an earlier "
        f"copy of the table; {way_out(request)}"
    )


def ranges(numbers: list[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and last number of each run of consecutive numbers in an ascending list."""
    start = 0
    for place, number in enumerate(numbers):
        if place + 1 == len(numbers) or numbers[place + 1] != number + 1:
            yield numbers[start], number
            start = place + 1
