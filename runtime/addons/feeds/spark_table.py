"""Tables and views that Spark reads: the feed ``table:``."""

from __future__ import annotations

from ...kernel.errors import JobError, reason
from .feed import Delivery, FeedRequest, Look, Position
from .kinds import FEED_KINDS


class SparkTableFeed:
    """A table or view that Spark reads, of any format. It tells neither versions nor changes: each batch compares all
    its rows with those of the state."""

    def __init__(self, request: FeedRequest) -> None:
        """Note what to read; raise JobError if there is no Spark session."""
        self.request = request
        self.name = f"table:{request.place}"
        self.session = request.executor.session(f"the feed {self.name}")

    def look(self) -> Look:
        """Return the columns of the table. The position counts how often it was read."""
        try:
            # Spark keeps lists of files, and catalogs keep tables: they may be old.
            self.session.catalog.refreshTable(self.request.place)
            schema = self.session.table(self.request.place).schema
        except Exception as error:
            raise JobError(f"{self.name} cannot be opened: {reason(error)}") from error
        columns = {column.name: column.dataType.simpleString() for column in schema.fields}
        reads = int(self.request.record.position.get("reads", 0)) + 1
        return Look("", {"reads": reads}, columns, versioned=False)

    def rows(self, until: Look) -> Delivery:
        """Return the rows that the table has now."""
        return Delivery(frame=self.session.table(self.request.place))

    def changes(self, since: Position, until: Look) -> Delivery | None:
        """Return None: only a comparison of all rows tells changes."""
        return None

    def label(self, position: Position) -> str:
        """Return how often the table was read."""
        return str(position["reads"])


FEED_KINDS["table"] = SparkTableFeed
