"""Topics of Kafka with changes that Debezium writes: the feed ``kafka-debezium:``."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from ..errors import JobError
from ..inputs.records import Problems, refused
from .avro import avro_folder
from .events import EventReader, event_schema
from .feed import Delivery, FeedRequest, Look, Position, short_hash, way_out
from .kinds import FEED_KINDS
from .reader import TopicReader, TopicState, topic_address

EVENTS_AT_ONCE = 10_000

PLACEHOLDER = "__debezium_unavailable_value"
"""What Debezium writes for an unchanged value that the database did not send."""


class TopicFeed:
    """A topic whose messages are the changes of a table, in the order of their offsets within each partition. Messages
    of transactions that were aborted, or are not decided yet, are not read. No offsets are committed to the brokers."""

    def __init__(self, request: FeedRequest) -> None:
        """Find the client, and check the source."""
        self.request, relation = request, request.relation
        self.address = topic_address(request.place)
        if relation.copy and "delivery" not in self.address.options:
            raise refused(
                f"{relation.name} is a multiset, and Debezium may write a change again after a failure, which would "
                "count as another copy: omit `multiset` and declare a primary key, or let Kafka Connect write each "
                "change once (exactly.once.source.support=enabled, exactly.once.support=required), and add "
                "?delivery=exactly-once to the source"
            )
        self.reader = TopicReader(self.address)
        self.state: TopicState
        given = self.address.options.get("key")
        key = [name for one, name in zip(relation.columns, request.columns, strict=True) if one.sql in relation.key]
        if given is not None and sorted(given.split(",")) != sorted(key):
            raise JobError(
                f"?key={given}, but the primary key of {relation.name} is {', '.join(key) or 'not declared'}: write "
                f"`primary key ({', '.join(given.split(','))})` behind its columns"
            )

    def look(self) -> Look:
        """Return the identity of the topic, and the offsets behind its last messages."""
        self.state = state = self.reader.state()
        self._check_policy()
        offsets = {str(part): end for part, (_, end) in state.bounds.items()}
        record = self.request.record
        if offsets == record.position.get("offsets") and state.identity == record.table:
            return Look(state.identity, record.position)
        return Look(state.identity, {"offsets": offsets, "at": int(time.time())})

    def _check_policy(self) -> None:
        """Raise Refused for a topic that may forget deletions of rows without keys."""
        if "compact" in self.state.policy and not self.request.relation.key:
            raise refused(
                f"{self.address.name} is compacted, so it keeps the last message of each key, and "
                f"{self.request.relation.name} has no primary key: declare one, or set cleanup.policy=delete"
            )

    def rows(self, until: Look) -> Delivery:
        """Return all messages of the topic up to a look, if they tell all rows."""
        address = self.address
        lost = {part: low for part, (low, _) in self.state.bounds.items() if low > 0}
        asserted = "complete" in address.options
        if lost and not asserted:
            part, low = next(iter(lost.items()))
            raise refused(
                f"{address.name}: the messages before offset {low} of partition {part} are gone, so the topic does not "
                f"tell all rows of {self.request.relation.name}",
                "let the connector take a snapshot of the table again, as an incremental snapshot or into a new topic; "
                "when it is complete, add ?complete=true to the source (--feed of apply --resync takes another one)",
            )
        begin = {part: low for part, (low, _) in self.state.bounds.items()}
        return self._delivery(begin, until, None, complete=not asserted and self.state.policy == "delete")

    def changes(self, since: Position, until: Look) -> Delivery | None:
        """Return the messages after a position up to a look; raise Refused if some of them are gone."""
        name, relation = self.address.name, self.request.relation.name
        begin = {int(part): offset for part, offset in since["offsets"].items()}
        bounds = self.state.bounds
        for part, (low, end) in bounds.items():
            known = begin.get(part, 0)
            if end < known:
                raise refused(
                    f"{name}: partition {part} ends at offset {end}, and {relation} was read up to {known}: the topic "
                    "was made again, or has lost messages",
                    way_out(self.request),
                )
            if low > known:
                raise refused(
                    f"{name}: the messages of partition {part} from offset {known} up to {low} are gone, removed by "
                    f"retention (retention.ms, retention.bytes), before {relation} was read",
                    way_out(self.request),
                )
        if len(bounds) > len(begin) and "partitioner" in self.address.options:
            raise refused(
                f"{name} has {len(bounds)} partitions, and had {len(begin)} when {relation} was last read: the "
                "changes of a row may now be in two of them, whose order is unknown",
                f"let the connector write to a new topic, or, if no row is in two partitions: {way_out(self.request)}",
            )
        if begin.keys() - bounds.keys():
            raise refused(f"{name} has fewer partitions than before: it was made again", way_out(self.request))
        return self._delivery({part: begin.get(part, 0) for part in bounds}, until, since)

    def label(self, position: Position) -> str:
        """Return the offsets; of many partitions, their sum and a hash."""
        offsets = [offset for _, offset in sorted((int(part), end) for part, end in position["offsets"].items())]
        if len(offsets) <= 4:
            return "-".join(map(str, offsets))
        return f"{sum(offsets)}-{short_hash(offsets)}"

    def _delivery(
        self, begin: Mapping[int, int], until: Look, since: Position | None, complete: bool = False
    ) -> Delivery:
        options = self.address.options
        reader = EventReader(
            self.request.relation,
            self.request.record.columns,
            len(self.state.bounds),
            options.get("placeholder", PLACEHOLDER),
            "decimals" in options,
            "tables" in options,
            avro_folder(options["avro"]) if "avro" in options else None,
            partitioned=since is not None and "partitioner" not in options,
            left_out=self.request.left_out,
        )
        ends = {int(part): end for part, end in until.position["offsets"].items()}
        schema = event_schema(self.request.relation)
        events = self._events(reader, {p: (begin[p], ends[p]) for p in ends}, since, schema)
        return Delivery(schema, messages=events, complete=complete)

    def _events(
        self, reader: EventReader, ranges: Mapping[int, tuple[int, int]], since: Position | None, schema: Any
    ) -> Iterator[Any]:
        """Yield the events of ranges of offsets as Arrow tables; raise Refused for messages that are not sound."""
        problems, reached = Problems(), {part: begin for part, (begin, _) in ranges.items()}
        rows: list[list[Any]] = []
        for messages in self.reader.messages(ranges):
            for message in messages:
                self._check_hole(message.partition, reached[message.partition], message.offset, since)
                reached[message.partition] = message.offset + 1
                rows += reader.events(message, problems, self.address.name)
            if len(rows) >= EVENTS_AT_ONCE or not messages:
                yield event_table(rows, schema)
                rows = []
        for part, (_, end) in ranges.items():
            self._check_hole(part, reached[part], end, since)
        problems.refuse()
        yield event_table(rows, schema)

    def _check_hole(self, part: int, expected: int, found: int, since: Position | None) -> None:
        """Raise Refused if compaction may have removed deletions between two offsets, with the tombstones that stood
        for them. A single message without its neighbour is the mark of a transaction, or a deletion whose tombstone or
        row is still there."""
        kept = self.state.kept_deletions
        if since is None or kept is None or found - expected < 2:
            return
        age = time.time() - float(since.get("at", 0))
        if age > kept - 60:
            raise refused(
                f"{self.address.name}: messages of partition {part} from offset {expected} up to {found} were "
                f"compacted away, and {self.request.relation.name} was last read {age / 3600:,.1f} hours ago, longer "
                f"than tombstones are kept (delete.retention.ms, {kept / 3600:,.1f} hours): deletions "
                "may be lost",
                way_out(self.request),
            )


def event_table(rows: list[list[Any]], schema: Any) -> Any:
    """Return events as an Arrow table."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = [pa.array(values, kind.type) for values, kind in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


FEED_KINDS["kafka-debezium"] = TopicFeed
