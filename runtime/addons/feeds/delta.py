"""Delta tables: the feed ``delta:`` without a JVM, by the package deltalake."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from ...inputs.records import refused
from ...kernel.errors import JobError, reason
from ...system.transient_errors import momentary
from .delta_log import DeltaLog, columns_are_mapped, json_type
from .feed import (
    Delivery,
    FeedRequest,
    Look,
    Position,
    change_of_rows,
    check_delta_place,
    delta_options,
    needed_library,
    way_out,
)

MOST_VERSIONS_TRIED = 1000
"""At most this many versions are tried one by one, to say which of them are gone."""


class DeltaFeed:
    """A Delta table, read at one version. Its changes come from its change data feed or, where that was never switched
    on, from the files that each version added and removed: rows that are in both cancel each other. Of tables with
    deletion vectors or column mapping, and where the feed does not tell all changes, all rows are compared."""

    def __init__(self, request: FeedRequest) -> None:
        """Find the library."""
        self.request = request
        self.name = f"delta:{request.place}"
        check_delta_place(request.place)
        self.library = needed_library("deltalake", "deltalake", f"the feed {self.name}")
        self.opened: Any = None
        self.log = DeltaLog(request, self.name, self._content)

    def look(self) -> Look:
        """Return identity, version, columns and number of rows of the table."""
        try:
            table = self.opened = self.library.DeltaTable(self.request.place, storage_options=delta_options())
            fields = json.loads(table.schema().to_json())["fields"]
            columns = {item["name"]: json_type(item["type"]) for item in fields}
            version = int(table.version())
        except Exception as error:
            raise JobError(f"{self.name} cannot be opened: {reason(error)}") from error
        marks = self.log.marks(version)
        return Look(str(table.metadata().id), {"version": version}, columns, self._count(table), marks=marks)

    def _content(self, path: str) -> bytes | None:
        """Return the content of a file of the table, None if it is not there."""
        from deltalake.fs import DeltaStorageHandler

        try:
            store = DeltaStorageHandler(self.opened.table_uri, delta_options())
            with store.open_input_file(path) as file:
                return bytes(file.read())
        except FileNotFoundError:
            return None
        except Exception as error:
            raise JobError(f"{self.name}: {path} cannot be read: {reason(error)}") from error

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
        version = until.position["version"]
        return self._delivery(lambda: self.opened.scan(columns=self.request.wanted), f"version {version}", until)

    def changes(self, since: Position, until: Look) -> Delivery | None:
        """Return the changes of the versions after ``since``."""
        self.log.check_continued(since, until)
        first, last = int(since["version"]) + 1, int(until.position["version"])
        if last < first:
            return Delivery()
        metadata = self.opened.metadata()
        if columns_are_mapped(metadata.configuration) or self._had_vectors():
            # The library does not read the change data feed of the former, and loses changes in that of the latter.
            return None

        def delivered(wanted: list[str] | None) -> Delivery:
            # The library takes these for expressions of SQL.
            names = None if wanted is None else [*wanted, "_change_type"]
            quoted = names and ['"' + name.replace('"', '""') + '"' for name in names]

            def read() -> Any:
                return self.opened.load_cdf(starting_version=first, ending_version=last, columns=quoted)

            return self._delivery(read, f"versions {first}..{last}", until, (first, last))

        def complete() -> bool:
            return self._is_complete(delivered([]), until)

        if not self.log.tells_changes(since, until, metadata.partition_columns, complete):
            return None
        return delivered(self.request.wanted)

    def _is_complete(self, changes: Delivery, until: Look) -> bool:
        """Return whether the numbers of rows show that changes are all that happened. They cannot for copies of rows:
        one that is left out may make up for another one."""
        before = self.request.record.rows
        if self.request.relation.copy or before < 0 or until.rows is None:
            return False
        counts: Counter[str] = Counter()
        for batch in changes.batches:
            counts.update(batch.column(0).to_pylist())
        return before + change_of_rows(counts) == until.rows

    def _had_vectors(self) -> bool:
        """Return whether rows may have been deleted by deletion vectors, also before that feature was dropped."""
        protocol = self.opened.protocol()
        features = {*(protocol.reader_features or ()), *(protocol.writer_features or ())}
        return bool(features & {"deletionVectors", "checkpointProtection"})

    def _delivery(self, read: Any, what: str, until: Look, versions: tuple[int, int] | None = None) -> Delivery:
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
            self.log.check_unchanged(until)

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
        advice = f"; {way_out(self.request)}" if versions else ""
        return JobError(f"{self.name}, {what}, cannot be read: {reason(error)}{advice}")

    def _gone(self, first: int, last: int) -> list[int]:
        """Return the versions of a range whose changes cannot be read."""
        gone = []
        for number in range(first, min(last, first + MOST_VERSIONS_TRIED) + 1):
            try:
                for _ in self.opened.load_cdf(starting_version=number, ending_version=number):
                    pass
            except Exception as error:
                if momentary(error):
                    raise JobError(f"{self.name}, version {number}, cannot be read now: {reason(error)}") from error
                gone.append(number)
        return gone

    def label(self, position: Position) -> str:
        """Return the version."""
        return str(position["version"])


def ranges(numbers: list[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and last number of each run of consecutive numbers in an ascending list."""
    start = 0
    for place, number in enumerate(numbers):
        if place + 1 == len(numbers) or numbers[place + 1] != number + 1:
            yield numbers[start], number
            start = place + 1
