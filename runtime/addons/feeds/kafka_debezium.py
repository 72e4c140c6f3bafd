"""Topics of Kafka with changes that Debezium writes: the feed ``kafka-debezium:``."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from ...inputs.records import Problems, refused
from ...kernel.errors import JobError, Refused
from .avro import avro_folder
from .debezium_events import EventReader, MessageForm, TopicMessage, event_schema
from .feed import Delivery, FeedRequest, Look, Position, short_hash, way_out
from .kafka_client import TopicReader, TopicState, topic_address
from .kinds import FEED_KINDS

EVENTS_AT_ONCE = 10_000

PLACEHOLDER = "__debezium_unavailable_value"
"""The text that Debezium writes for an unchanged value that the database did not send."""


class TopicFeed:
    """A topic whose messages are the changes of a table, in the order of their offsets within each partition. Messages
    of transactions that were aborted, or are not decided yet, are not read. No offsets are committed to the brokers.

    A position has the ``offsets`` behind the last messages, the time ``at`` which they were looked up, and what was
    ``read`` up to there, which is complete once all messages are read: the ``table`` that they are of, and by partition
    the offset and the fingerprint of the ``last`` one."""

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
        self.read: dict[str, Any] = {}
        named = self.address.options.get("key")
        key = [name for one, name in zip(relation.columns, request.columns, strict=True) if one.sql in relation.key]
        if named is not None and sorted(named.split(",")) != sorted(key):
            raise JobError(
                f"?key={named}, but the primary key of {relation.name} is {', '.join(key) or 'not declared'}: write "
                f"`primary key ({', '.join(named.split(','))})` behind its columns"
            )

    def look(self) -> Look:
        """Return the identity of the topic, and the offsets behind its last messages."""
        self.state = state = self.reader.state()
        self._check_policy()
        offsets = {str(part): end for part, (_, end) in state.bounds.items()}
        record = self.request.record
        same = offsets == record.position.get("offsets") and state.identity == record.table
        if same and self._goes_on(record.position):
            return Look(state.identity, record.position)
        return Look(state.identity, {"offsets": offsets, "at": int(time.time()), "read": self.read})

    def _goes_on(self, since: Position) -> bool:
        """Return whether a topic that is as long as it was still ends with the messages that were read. If not, it has
        news, which are refused."""
        tails = self._tails(since)
        try:
            for messages in self.reader.messages({part: (offset, offset + 1) for part, (offset, _) in tails.items()}):
                for message in messages:
                    self._check_tail(tails, message)
            self._check_tails(tails)
        except Refused:
            return False
        return True

    def _tails(self, since: Position | None) -> dict[int, tuple[int, str]]:
        """Return the offset and the fingerprint of the last message that was read of each partition, as far as the
        topic still goes back to it."""
        last = since["read"]["last"] if since else {}
        tails = {int(part): (int(offset), str(mark)) for part, (offset, mark) in last.items()}
        bounds = self.state.bounds
        return {part: tail for part, tail in tails.items() if part in bounds and bounds[part][0] <= tail[0]}

    def _check_tail(self, tails: dict[int, tuple[int, str]], message: TopicMessage) -> None:
        """Raise Refused if a message is not the one that was the last to be read at its offset; take it from ``tails``
        otherwise."""
        offset, mark = tails.get(message.partition, (-1, ""))
        if message.offset == offset:
            if mark != message.fingerprint:
                raise self._other_history(message.partition, offset, "is another message now")
            del tails[message.partition]

    def _check_tails(self, tails: Mapping[int, tuple[int, str]]) -> None:
        """Raise Refused if messages are missing that were read, and were not compacted away."""
        for part, (offset, _) in tails.items():
            if self.state.policy == "delete":
                raise self._other_history(part, offset, "is gone")

    def _other_history(self, part: int, offset: int, what: str) -> JobError:
        """Return the error for a partition that does not begin with the messages that were read."""
        return refused(
            f"{self.address.name}: the message at offset {offset} of partition {part}, the last one that was read into "
            f"{self.request.relation.name}, {what}: the topic has lost its last messages and got others, or was made "
            "again",
            way_out(self.request),
        )

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
            past = begin.get(part, 0)
            if end < past:
                raise refused(
                    f"{name}: partition {part} ends at offset {end}, and {relation} was read up to {past}: the topic "
                    "was made again, or has lost messages",
                    way_out(self.request),
                )
            if low > past:
                raise refused(
                    f"{name}: the messages of partition {part} from offset {past} up to {low} are gone, removed by "
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
        form = MessageForm(
            options.get("placeholder", PLACEHOLDER),
            "decimals" in options,
            "tables" in options,
            avro_folder(options["avro"]) if "avro" in options else None,
            partitioned=since is not None and "partitioner" not in options,
        )
        relation, columns = self.request.relation, self.request.record.columns
        table = str(since["read"]["table"]) if since else ""
        reader = EventReader(relation, columns, len(self.state.bounds), form, self.request.left_out, table)
        ends = {int(part): end for part, end in until.position["offsets"].items()}
        schema = event_schema(self.request.relation)
        events = self._events(reader, {p: (begin[p], ends[p]) for p in ends}, since, schema)
        return Delivery(schema, messages=events, complete=complete)

    def _events(
        self, reader: EventReader, ranges: Mapping[int, tuple[int, int]], since: Position | None, schema: Any
    ) -> Iterator[Any]:
        """Yield the events of ranges of offsets as Arrow tables; raise Refused for messages that are not sound."""
        problems, reached = Problems(), {part: begin for part, (begin, _) in ranges.items()}
        tails, last = self._tails(since), dict[int, TopicMessage]()
        rows: list[list[Any]] = []
        read_ranges = {p: (min(begin, tails[p][0]) if p in tails else begin, end) for p, (begin, end) in ranges.items()}
        for messages in self.reader.messages(read_ranges):
            for message in messages:
                if message.offset < reached[message.partition]:
                    self._check_tail(tails, message)
                    continue
                self._check_hole(message.partition, reached[message.partition], message.offset, since)
                reached[message.partition] = message.offset + 1
                last[message.partition] = message
                rows += reader.events(message, problems, self.address.name)
            if len(rows) >= EVENTS_AT_ONCE or not messages:
                yield event_table(rows, schema)
                rows = []
        self._check_tails(tails)
        for part, (_, end) in ranges.items():
            self._check_hole(part, reached[part], end, since)
        problems.refuse()
        earlier = since["read"]["last"] if since else {}
        read = {str(part): [message.offset, message.fingerprint] for part, message in last.items()}
        self.read.update(table=reader.table, last={**earlier, **read})
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
