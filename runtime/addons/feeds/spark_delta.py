"""Delta tables: the feed ``delta:`` on Spark with the connector of Delta, where the package deltalake is missing."""

from __future__ import annotations

import importlib.util
from typing import Any

from ...inputs.records import refused
from ...kernel.errors import JobError, reason
from ...spark.places import as_pattern
from .delta import DeltaFeed
from .delta_log import CHANGE_DATA_FEED, DeltaLog, columns_are_mapped, json_type
from .feed import Delivery, FeedRequest, Look, OpenFeed, Position, way_out
from .kinds import FEED_KINDS


class SparkDeltaFeed:
    """A Delta table, read at one version by Spark. Its changes come from its change data feed; where that is off, or
    does not tell all changes, all rows are compared."""

    def __init__(self, request: FeedRequest) -> None:
        """Open the session."""
        self.request = request
        self.name = f"delta:{request.place}"
        self.session = request.executor.session(f"the feed {self.name}")
        self.detail: Any = None
        self.log = DeltaLog(request, self.name, self._content)

    def look(self) -> Look:
        """Return identity, version and columns of the table."""
        table = "delta.`" + self.request.place.replace("`", "``") + "`"
        try:
            version = self.session.sql(f"DESCRIBE HISTORY {table} LIMIT 1").collect()[0]["version"]
            self.detail = self.session.sql(f"DESCRIBE DETAIL {table}").collect()[0]
            schema = self._read(versionAsOf=version).schema
        except Exception as error:
            raise JobError(
                f"{self.name} cannot be opened: {reason(error)}. The package deltalake is not installed, so Spark has "
                "to read the table, with the connector of Delta: run `pip install deltalake`, or give spark-submit the "
                "connector"
            ) from error
        columns = {column.name: json_type(column.dataType.jsonValue()) for column in schema.fields}
        marks = self.log.marks(int(version))
        return Look(str(self.detail["id"]), {"version": int(version)}, columns, marks=marks)

    def _content(self, path: str) -> bytes | None:
        """Return the content of a file of the table, None if it is not there."""
        place = as_pattern(f"{self.request.place.rstrip('/')}/{path}")
        try:
            return bytes(self.session.read.format("binaryFile").load(place).select("content").collect()[0][0])
        except Exception as error:
            if "PATH_NOT_FOUND" in str(error):
                return None
            raise JobError(f"{self.name}: {path} cannot be read: {reason(error)}") from error

    def _read(self, **options: Any) -> Any:
        """Return the frame of a read with options."""
        return self.session.read.format("delta").options(**options).load(self.request.place)

    def rows(self, until: Look) -> Delivery:
        """Return the rows of the version that was looked at."""
        return Delivery(frame=self._read(versionAsOf=until.position["version"]))

    def changes(self, since: Position, until: Look) -> Delivery | None:
        """Return the changes of the versions after ``since``."""
        self.log.check_continued(since, until)
        first, last = int(since["version"]) + 1, int(until.position["version"])
        if last < first:
            return Delivery()
        properties = dict(self.detail["properties"])
        if properties.get(CHANGE_DATA_FEED) != "true" or columns_are_mapped(properties):
            return None
        # Spark does not tell how many rows a table had.
        if not self.log.tells_changes(since, until, list(self.detail["partitionColumns"]), lambda: False):
            return None

        def explained(error: BaseException) -> JobError:
            said = reason(error) if isinstance(error, Exception) else str(error)
            return refused(
                f"{self.name}: the changes of versions {first}..{last} cannot be read ({said}): its change data feed "
                "was off at one of them, or files of it are gone",
                way_out(self.request),
            )

        try:
            frame = self._read(readChangeFeed=True, startingVersion=first, endingVersion=last)
        except Exception as error:
            raise explained(error) from error
        return Delivery(frame=frame, operation="_change_type", explained=explained)

    def label(self, position: Position) -> str:
        """Return the version."""
        return str(position["version"])


def open_delta(request: FeedRequest) -> OpenFeed:
    """Open a Delta table with the package deltalake, on Spark as well, so that a job reads it everywhere alike. Without
    that package, Spark reads it."""
    if request.executor.local or importlib.util.find_spec("deltalake"):
        return DeltaFeed(request)
    return SparkDeltaFeed(request)


FEED_KINDS["delta"] = open_delta
