"""Turn messages of Debezium's into events of a relation, as they are staged: rows with a sign and an order."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ...engines.arrow import arrow_type
from ...inputs.records import Problems
from ...inputs.values import any_value
from ...kernel.model import Relation
from ...kernel.sql import is_optional
from ...store.set_aside import LeftOut
from .debezium_messages import INSERTIONS, Decode, Envelope, Structure, read_envelope
from .semantic import Convert, Schema, SchemaMisfit, converter, placeholders, schema_name

TRUNCATED = "t"
"""The sign of an event that removes all rows."""


@dataclass(frozen=True)
class TopicMessage:
    """A message of a topic, with its time in milliseconds."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    time: int = 0

    @property
    def fingerprint(self) -> str:
        """A hash of the message, which tells it from another one that a topic has at its offset later."""
        parts = (str(self.time).encode(), self.key, self.value)
        framed = b"".join(b"-" if part is None else b"%d:%b" % (len(part), part) for part in parts)
        return hashlib.sha256(framed).hexdigest()[:16]


def event_schema(relation: Relation) -> Any:
    """Return the Arrow schema of staged events: the relation's columns; ``_op`` (``+``, ``-``, or ``t``, after which no
    row is left), ``_order`` (the offset), ``its partition``, ``its unchanged`` (the columns whose values stay as they
    are) and ``its operation``."""
    # Spaces tell names from those of columns.
    columns = [(column.sql, arrow_type(column.type)) for column in relation.row_columns]
    own = [("_op", pa.string()), ("_order", pa.int64()), ("its partition", pa.int32())]
    return pa.schema([*columns, *own, ("its unchanged", pa.list_(pa.string())), ("its operation", pa.string())])


class ColumnFault(ValueError):
    """Raised for the value of a column, which the message names."""


@dataclass(frozen=True)
class MessageForm:
    """How a connector writes messages: the ``placeholder`` for values that it leaves out, whether texts may be
    decimals, whether a topic has messages of several tables, and the decoder of Avro. A message of a keyed relation
    must be in the partition that Kafka's default partitioner chooses, if it is ``partitioned`` so."""

    placeholder: str
    texts_are_decimals: bool = False
    several_tables: bool = False
    avro: Decode | None = None
    partitioned: bool = False


class EventReader:
    """Reads the messages of a topic as events of a relation. A keyed relation (one with a primary key) gets rows by
    key, and needs no more than the key of a row that is gone; any other needs each row as it was before."""

    def __init__(
        self,
        relation: Relation,
        columns: Mapping[str, str],
        partitions: int,
        form: MessageForm,
        left_out: LeftOut | None = None,
        table: str = "",
    ) -> None:
        """Note what to read: ``columns`` are names of the relation's columns in the table where they differ. Rows with
        nulls where none are allowed are counted in ``left_out``, and refused without one. All messages must be of one
        ``table``, that of the first one unless it is known."""
        self.relation, self.partitions, self.avro = relation, partitions, form.avro
        self.names = [columns.get(column.name, column.name) for column in relation.columns]
        self.kinds = [column.type for column in relation.columns]
        self.key = {
            name for column, name in zip(relation.columns, self.names, strict=True) if column.sql in relation.key
        }
        self.place_of = {name: place for place, name in enumerate(self.names)}
        self.texts_are_decimals, self.several_tables = form.texts_are_decimals, form.several_tables
        self.partitioned = form.partitioned and partitions > 1 and bool(relation.key)
        self.placeholders = placeholders(form.placeholder)
        self.left_out = left_out
        self.never_null = {name for name, kind in zip(self.names, self.kinds, strict=True) if not is_optional(kind)}
        self.nothing = [any_value(kind) for kind in self.kinds]
        self.converters: dict[Any, Convert] = {}
        self.table = table
        self.last_deleted: dict[int, bytes | None] = {}
        """By partition, the key of a message about a deletion whose tombstone may follow."""

    def events(self, message: TopicMessage, problems: Problems, source: str) -> list[list[Any]]:
        """Return the events of a message, each the values of :func:`event_schema`. Add what is wrong with it to
        ``problems``."""
        try:
            envelope = read_envelope(message.key, message.value, self.avro)
            if envelope is None:
                return []
            if self.partitioned and message.key is not None:
                self._check_partition(message.key, message.partition)
            return self._events(envelope, message)
        except ValueError as error:
            where = f"{source}, partition {message.partition}, offset {message.offset}"
            problems.add(f"{where}{', ' if isinstance(error, ColumnFault) else ': '}{error}")
            return []

    def _events(self, envelope: Envelope, message: TopicMessage) -> list[list[Any]]:
        follows = self.last_deleted.pop(message.partition, b"") == message.key
        operation = envelope.operation
        if operation == "tombstone":
            return [] if follows or not self.relation.key else [self._gone(envelope, message)]
        if operation == "t":
            if self.partitions > 1:
                raise ValueError(
                    f"TRUNCATE in one of {self.partitions} partitions, whose order among the changes in the others is "
                    "unknown: use a topic with one partition, or skipped.operations=t and DELETE"
                )
            return [self._event(self.nothing, TRUNCATED, message, envelope)]
        self._check_table(envelope)
        if operation == "d":
            self.last_deleted[message.partition] = message.key
        return self._by_key(envelope, message) if self.relation.key else self._by_row(envelope, message)

    def _event(
        self, values: list[Any], sign: str, message: TopicMessage, envelope: Envelope, kept: tuple[str, ...] = ()
    ) -> list[Any]:
        return [*values, sign, message.offset, message.partition, list(kept), envelope.operation]

    def _check_table(self, envelope: Envelope) -> None:
        """Raise ValueError if messages of several tables are in the topic: a row of one would replace that of another
        with the same key."""
        if not envelope.table or self.several_tables:
            return
        self.table = self.table or envelope.table
        if self.table != envelope.table:
            raise ValueError(
                f"a change of {envelope.table}, in a topic with changes of {self.table}: give each table a topic of "
                "its own, or say ?tables=several if no two of them have a row with the same key"
            )

    def _check_partition(self, key: bytes, partition: int) -> None:
        """Raise ValueError unless a key belongs to a partition: only then are all changes of its row there."""
        usual = (murmur2(key) & 0x7FFF_FFFF) % self.partitions
        if usual != partition:
            raise ValueError(
                f"its key belongs to partition {usual} of {self.partitions}. If partitions were added, changes of one "
                "row may be in two of them, whose order is unknown: let the connector write to a new topic. If it has "
                "a partitioner of its own that goes by keys, add ?partitioner=by-key to the source"
            )

    # Relations with a primary key

    def _by_key(self, envelope: Envelope, message: TopicMessage) -> list[list[Any]]:
        self._check_key(envelope)
        if envelope.operation == "d":
            return [self._gone(envelope, message)]
        after = self._after(envelope)
        kept = tuple(name for name in self.place_of if self._is_placeholder(after, name))
        if self.key & {*kept}:
            raise ValueError(f"the key column {min(self.key & {*kept})} has the placeholder of an unchanged value")
        left_out = self._is_left_out(after)
        if left_out and any(after.values.get(name) is None for name in self.key):
            return []
        # The row with this key is now one that is left out.
        values = self._values(after, {*self.names} - self.key if left_out else {*kept})
        unchanged = tuple(c.sql for c, name in zip(self.relation.columns, self.names, strict=True) if name in kept)
        events = [
            self._event(values, "-", message, envelope)
            if left_out
            else self._event(values, "+", message, envelope, unchanged)
        ]
        if envelope.operation == "u" and envelope.before is not None:
            before = self._key_values(envelope.before, required=envelope.key is None)
            if before is not None and any(before[p] != values[p] for p in map(self.place_of.__getitem__, self.key)):
                if kept and not left_out:
                    raise ValueError(
                        f"the key was changed, and {kept[0]} has the placeholder of an unchanged value: set REPLICA "
                        "IDENTITY FULL for the table"
                    )
                events.insert(0, self._event(before, "-", message, envelope))
        if envelope.key is not None:
            said = self._key_values(envelope.key, required=True)
            assert said is not None
            for name in sorted(self.key):
                if said[self.place_of[name]] != values[self.place_of[name]]:
                    raise ValueError(f"the key of the message has another {name} than the row")
        return events

    def _check_key(self, envelope: Envelope) -> None:
        """Raise ValueError unless the key of the message is the primary key, by which rows are told apart and
        partitions are chosen."""
        key, operation = envelope.key, envelope.operation
        if key is not None:
            if key.values.keys() != self.key:
                raise ValueError(
                    f"the key of the message is {', '.join(sorted(key.values)) or 'empty'}, and the primary key of "
                    f"{self.relation.name} is {', '.join(sorted(self.key))}: declare the primary key of the table"
                )
            return
        if self.partitions > 1:
            raise ValueError(
                f"no key, in a topic of {self.partitions} partitions, so changes of a row have no order: set "
                "message.key.columns, or use a topic with one partition"
            )
        if operation == "u" and envelope.before is None:
            raise ValueError(
                "an update with neither a key nor the row before it, so the row that it replaces is unknown: set "
                "message.key.columns, or REPLICA IDENTITY FULL for the table"
            )

    def _gone(self, envelope: Envelope, message: TopicMessage) -> list[Any]:
        """Return the event that a row is deleted, told by its key."""
        if envelope.operation == "tombstone":
            self._check_key(envelope)
        values = None if envelope.key is None else self._key_values(envelope.key, required=True)
        if values is None and envelope.before is not None:
            values = self._key_values(envelope.before, required=True)
        if values is None:
            raise ValueError("a deletion with neither a key nor the row before it")
        return self._event(values, "-", message, envelope)

    def _key_values(self, row: Structure, required: bool) -> list[Any] | None:
        """Return the values of the key columns of a row, and any values for others; None if it does not have them."""
        if not required and any(row.values.get(name) is None for name in self.key):
            return None
        values = list(self.nothing)
        for name in self.key:
            values[self.place_of[name]] = self._value(row, name)
        return values

    # Other relations

    def _by_row(self, envelope: Envelope, message: TopicMessage) -> list[list[Any]]:
        if envelope.unwrapped:
            raise ValueError(
                f"a row of ExtractNewRecordState does not tell the row before it, and {self.relation.name} has no "
                "primary key: declare one, or leave out this transformation"
            )
        missing = sorted(envelope.key.values.keys() - {*self.names}) if envelope.key is not None else ()
        if missing:
            raise ValueError(
                f"the table has the key {', '.join(sorted(envelope.key.values)) if envelope.key else ''}, and "
                f"{self.relation.name} has no column for {missing[0]}, so its rows cannot be told apart: add it"
            )
        events, before = [], envelope.before
        if envelope.operation in ("u", "d"):
            if before is None or any(self._is_placeholder(before, name) for name in self.names):
                raise ValueError(
                    f"{'an update' if envelope.operation == 'u' else 'a deletion'} without the row before it, and "
                    f"{self.relation.name} has no primary key: declare one, or set REPLICA IDENTITY FULL for the table"
                )
            if not self._is_left_out(before):
                events.append(self._event(self._values(before, set()), "-", message, envelope))
        if envelope.operation in INSERTIONS:
            after = self._after(envelope)
            kept = {name for name in self.names if self._is_placeholder(after, name)}
            if kept and before is None:
                raise ValueError(f"column {min(kept)} has the placeholder of an unchanged value")
            if self._is_left_out(after):
                return events
            values = self._values(after, kept)
            for name in kept:
                assert before is not None
                values[self.place_of[name]] = self._value(before, name)
            events.append(self._event(values, "+", message, envelope))
        return events

    # Values

    def _after(self, envelope: Envelope) -> Structure:
        if envelope.after is None:
            raise ValueError(f"operation {envelope.operation} without the row after it")
        return envelope.after

    def _is_left_out(self, row: Structure) -> bool:
        """Return whether a row is left out, and count it: it has a null in a column that is never null."""
        if self.left_out is None or not any(row.values.get(name, "") is None for name in self.never_null):
            return False
        self.left_out[self.relation.name] += 1
        return True

    def _is_placeholder(self, row: Structure, name: str) -> bool:
        value = row.values.get(name)
        if value is None or isinstance(value, int | float):
            return False
        return any(type(value) is type(one) and value == one for one in self.placeholders)

    def _values(self, row: Structure, without: set[str]) -> list[Any]:
        """Return the staged values of a row, any values for the columns in ``without``."""
        return [
            self.nothing[place] if name in without else self._value(row, name) for place, name in enumerate(self.names)
        ]

    def _value(self, row: Structure, name: str) -> Any:
        """Return the staged value of a column; raise ValueError, naming it, if there is none or it does not fit."""
        if name not in row.values:
            similar = [other for other in row.values if other.lower() == name.lower()]
            hint = f"; there is {similar[0]}, but names are matched exactly" if similar else ""
            raise ColumnFault(f"column {name}: missing{hint}")
        schema = row.schema(name)
        try:
            return self._converter(name, schema)(row.values[name])
        except ValueError as error:
            text = f" ({schema_name(schema)})" if schema is not None and not isinstance(error, SchemaMisfit) else ""
            raise ColumnFault(f"column {name}{text}: {error}") from error

    def _converter(self, name: str, schema: Schema | None) -> Convert:
        entry = (name, None if schema is None else schema_key(schema))
        if entry not in self.converters:
            kind = self.kinds[self.place_of[name]]
            self.converters[entry] = converter(kind, schema, self.texts_are_decimals)
        return self.converters[entry]


def schema_key(schema: Schema) -> Any:
    """Return what tells schemas apart whose values are converted in another way."""
    items = schema.get("items")
    scale = (schema.get("parameters") or {}).get("scale")
    return schema.get("type"), schema.get("name"), scale, schema_key(items) if isinstance(items, Mapping) else None


def murmur2(content: bytes) -> int:
    """Return the hash by which Kafka's Java client chooses the partition of a key: MurmurHash2 in 32 bits."""
    mask, factor = 0xFFFF_FFFF, 0x5BD1_E995
    digest = 0x9747_B28C ^ len(content)
    whole_words = len(content) & ~3
    for place in range(0, whole_words, 4):
        word = int.from_bytes(content[place : place + 4], "little") * factor & mask
        word = (word ^ word >> 24) * factor & mask
        digest = digest * factor & mask ^ word
    rest = content[whole_words:]
    if rest:
        digest = (digest ^ int.from_bytes(rest, "little")) * factor & mask
    digest = (digest ^ digest >> 13) * factor & mask
    return digest ^ digest >> 15
