"""Channels between processes as Kafka topics with one partition each, instead of files in a folder.

One topic is the registry of processes, and each channel has a topic. The number of an incarnation or a session is
derived from the offset of a record that claims it, so no two runs get the same one. A second record announces the
number; like all other records that follow, it carries a mark. A reader starts at the end of a channel's topic,
since a new session ignores older messages.
"""

from __future__ import annotations

import contextlib
import re
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...kernel.errors import JobError, Passing, remember_keys
from ..brokers import KAFKA_PATIENCE, topic_offsets
from .channels import (
    NO_NUMBER,
    NUMBER_FILE,
    Channel,
    CutOff,
    Lease,
    Message,
    Number,
    Process,
    Pulse,
    Seal,
    UnsoundMessage,
    parsed_message,
    table_bytes,
)

if TYPE_CHECKING:
    import pyarrow as pa

RECORD_BYTES = 512 * 1024
"""The maximal size in bytes of a record; longer messages are split. Brokers accept 1 MB by default."""

LEASE_KEY = "lease"
"""The key of the leases of a channel in its topic."""


class Registry:
    """The registry of processes, as far as it was read: the latest number of each incarnation and session, by key, and
    the last lease of each process. Outdated records have no effect."""

    def __init__(self, seal: Seal) -> None:
        """Begin with nothing; records count only if their marks fit the ``seal``."""
        self.seal = seal
        self.numbers: dict[str, Number] = {}
        self.leases: dict[str, Lease] = {}

    def note(self, key: str, value: bytes) -> bool:
        """Take in a record, and return whether it is valid."""
        about, _, name = key.partition("/")
        if about == "claim":
            return True
        if about == "lease":
            lease = self.seal.read_lease(name, value)
            if lease is not None and (name not in self.leases or lease[:2] >= self.leases[name][:2]):
                self.leases[name] = lease
            return lease is not None
        number, _, said = value.decode().partition(" ")
        if not NUMBER_FILE.fullmatch(number.zfill(6)):
            return False
        claimed = self.seal.read_number(about, name, int(number), said)
        if claimed is None:
            return False
        self.take(key, claimed)
        return True

    def take(self, key: str, taken: Number) -> None:
        """Note a number, unless a higher one is known."""
        self.numbers[key] = max(taken, self.numbers.get(key, NO_NUMBER))

    def last_incarnation(self, process: str) -> Number:
        """Return the latest incarnation of a process."""
        return self.numbers.get(f"incarnation/{process}", NO_NUMBER)

    def session(self, channel: Channel) -> Number:
        """Return the latest session of the reader of a channel."""
        return self.numbers.get(f"session/{channel.name}", NO_NUMBER)


class KafkaChannels:
    """Channels as Kafka topics, with the interface of ``DirectoryChannels``."""

    def __init__(
        self,
        address: str,
        process: Process,
        settings: Mapping[str, Any],
        seal: Seal | None = None,
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Connect to ``kafka://HOST:PORT,HOST:PORT/NAME`` and create missing topics, whose names begin with
        ``NAME.``; ``settings`` are further ones for librdkafka. ``warn`` is called for each ignored record."""
        self.seal, self.warn = seal or Seal(), warn
        try:
            import confluent_kafka
        except ImportError:
            raise JobError("Kafka channels require its client: pip install confluent-kafka") from None
        remember_keys(address)
        self.hosts, self.prefix = kafka_address(address)
        common = {"bootstrap.servers": self.hosts, "log_level": 0, **settings}
        consuming = {"group.id": self.prefix, "enable.auto.commit": False, "auto.offset.reset": "error"}
        self.registry = f"{self.prefix}.processes"
        self.topics = {self.topic(channel): channel for channel in process.receives}
        #: What turns know of the registry, and the thread that renews leases while a turn lasts.
        self.known, self.seen = Registry(self.seal), Registry(self.seal)
        self.pulses: dict[str, Pulse] = {}
        #: Incomplete messages: per channel, message and file name, the contents of records by their position.
        self.parts: dict[str, dict[Message, dict[str, dict[int, bytes]]]]
        self.parts = {c.name: {} for c in process.receives}
        self.files: dict[str, dict[Message, dict[str, bytes]]] = {c.name: {} for c in process.receives}
        try:
            sent = [self.topic(channel) for channel in process.sends]
            make_topics(common, self.registry, [*self.topics, *sent])
            self.producer = confluent_kafka.Producer({**common, "enable.idempotence": True})
            self.consumer = confluent_kafka.Consumer({**common, **consuming})
            self.watcher = confluent_kafka.Consumer({**common, **consuming})
            self._begin(sent)
        except confluent_kafka.KafkaException as error:
            raise JobError(f"cannot use Kafka at {self.hosts}: {error.args[0].str()}") from None

    def _begin(self, sent: Sequence[str]) -> None:
        """Find the ends of the topics, and read the registry up to its end."""
        from confluent_kafka import TopicPartition

        begins, end = topic_offsets(self.consumer, self.hosts, self.registry)
        places = [TopicPartition(self.registry, 0, begins)]
        places += [TopicPartition(t, 0, topic_offsets(self.consumer, self.hosts, t)[1]) for t in self.topics]
        for topic in sent:
            topic_offsets(self.consumer, self.hosts, topic)
        self.consumer.assign(places)
        stop = time.monotonic() + KAFKA_PATIENCE
        while begins < end and self.consumer.position([TopicPartition(self.registry, 0)])[0].offset < end:
            self.look(0.1)
            if time.monotonic() > stop:
                raise JobError(f"Kafka at {self.hosts} does not respond")
        self.seen.numbers.update(self.known.numbers)
        self.watcher.assign([TopicPartition(self.registry, 0, end)])

    def look(self, patience: float = 0.0) -> None:
        """Take in all records that have arrived, waiting at most ``patience`` seconds for each batch of them."""
        while records := self.consumer.consume(500, timeout=patience):
            for record in records:
                problem, topic = record.error(), str(record.topic())
                key, value, offset = record.key(), record.value(), record.offset()
                if problem is not None:
                    raise JobError(f"Kafka at {self.hosts}: {topic}: {problem.str()}; start the process again")
                try:
                    name, content = bytes(key or b"").decode(), bytes(value or b"")
                    if topic == self.registry:
                        valid = self.known.note(name, content)
                    else:
                        valid = self._collect(self.topics[topic], name, content)
                except ValueError:
                    valid = False
                if not valid:
                    self.warn(
                        f"record {offset} of {topic} is not a message of this program with a valid mark; it is ignored"
                    )

    def glance(self) -> Registry:
        """Return the present registry, for the thread that renews leases: a turn may take long, and looks at nothing
        meanwhile. Records that are not valid are reported by turns."""
        while records := self.watcher.consume(500, timeout=0):
            for record in records:
                problem = record.error()
                if problem is not None:
                    raise JobError(f"Kafka at {self.hosts}: {self.registry}: {problem.str()}")
                with contextlib.suppress(ValueError):
                    self.seen.note(bytes(record.key() or b"").decode(), bytes(record.value() or b""))
        return self.seen

    def _collect(self, channel: Channel, key: str, value: bytes) -> bool:
        """Reassemble a message from its records, which may be duplicated; return whether this is a record of one."""
        if key == LEASE_KEY:
            pulse = self.seal.read_pulse(channel, value)
            if pulse is not None:
                self.pulses[channel.name] = max(pulse, self.pulses.get(channel.name, pulse))
            return pulse is not None
        record = re.fullmatch(r"([^/]+)/([0-9]{1,6})/([0-9]{1,6})", key)
        message = parsed_message(record[1]) if record else None
        if not record or message is None:
            return False
        name, count = record[1], int(record[3])
        parts = self.parts[channel.name].setdefault(message, {}).setdefault(name, {})
        parts[int(record[2])] = value
        if len(parts) >= count:
            content = b"".join(parts[place] for place in sorted(parts))
            self.files[channel.name].setdefault(message, {})[name] = content
            del self.parts[channel.name][message][name]
        return True

    def take_incarnation(self, process: str) -> Number:
        """Take an incarnation number that no other run of the process has, higher than all before it."""
        return self._take("incarnation", process)

    def last_incarnation(self, process: str) -> Number:
        """Return the latest incarnation that is known here."""
        return self.known.last_incarnation(process)

    def renew(self, process: str, lease: Lease) -> None:
        """Queue the lease of a process, which says that it runs or that it ends, without waiting for the brokers."""
        self._queued(self.registry, self.seal.lease_text(process, lease), f"lease/{process}")
        self.producer.poll(0)

    def lease(self, process: str) -> Lease | None:
        """Return the last lease of a process; None if there is none."""
        return self.known.leases.get(process)

    def renew_channel(self, channel: Channel, pulse: Pulse) -> None:
        """Queue the lease of a channel to its reader, without waiting for the brokers."""
        self._queued(self.topic(channel), self.seal.pulse_text(channel, pulse), LEASE_KEY)
        self.producer.poll(0)

    def pulse(self, channel: Channel) -> Pulse | None:
        """Return the last lease of a channel; None if there is none."""
        return self.pulses.get(channel.name)

    def open_session(self, channel: Channel) -> Number:
        """Start a new session as the reader of a channel: the sender answers with a snapshot; drop older messages."""
        session = self._take("session", channel.name)
        self.parts[channel.name] = {m: parts for m, parts in self.parts[channel.name].items() if m.session >= session}
        self.files[channel.name] = {m: files for m, files in self.files[channel.name].items() if m.session >= session}
        return session

    def session(self, channel: Channel) -> Number:
        """Return the reader's latest session that is known here."""
        return self.known.session(channel)

    def send(self, channel: Channel, message: Message, rows: pa.Table) -> None:
        """Send a message: rows with ``_op`` (1 or -1), then the columns of the relation."""
        content = table_bytes(rows)
        name = self.seal.message_file(channel, message, content)
        parts = [content[begin : begin + RECORD_BYTES] for begin in range(0, len(content), RECORD_BYTES)]
        keys = [f"{name}/{place}/{len(parts)}" for place in range(len(parts))]
        self._produce(self.topic(channel), dict(zip(keys, parts, strict=True)))

    def waiting(self, channel: Channel) -> list[Message]:
        """Return the messages that have arrived, in order."""
        return sorted(self.files[channel.name])

    def read(self, channel: Channel, message: Message) -> pa.Table:
        """Return the rows of a waiting message. Raise :class:`UnsoundMessage` if none of its copies can be used."""
        problem: UnsoundMessage | None = None
        for name, content in self.files[channel.name][message].items():
            try:
                return self.seal.read_message(channel, message, name, content)
            except UnsoundMessage as error:
                problem = error
        assert problem
        raise problem

    def done(self, channel: Channel, message: Message) -> None:
        """Forget a message that was processed, after everything that follows from it was sent."""
        self.files[channel.name].pop(message, None)

    def topic(self, channel: Channel) -> str:
        """Return the topic of a channel."""
        return f"{self.prefix}.{channel.name}"

    def close(self) -> None:
        """Flush queued records and close the connections."""
        self.producer.flush(10)
        self.consumer.close()
        self.watcher.close()

    def _queued(self, topic: str, value: bytes, key: str, written: Callable[[Any, Any], None] | None = None) -> bool:
        """Queue a record to be sent; return False if the queue is full. ``written`` is called with the outcome."""
        from confluent_kafka import KafkaException

        try:
            self.producer.produce(topic, value, key, partition=0, on_delivery=written)
        except BufferError:
            return False
        except KafkaException as error:
            raise JobError(
                f"Kafka at {self.hosts} does not accept messages to {topic}: {error.args[0].str()}"
            ) from None
        return True

    def _take(self, kind: str, name: str) -> Number:
        """Take and announce a number of an incarnation or a session."""
        key = f"{kind}/{name}"
        number = self._produce(self.registry, {f"claim/{key}": b"taken"}) + 1
        claimed = Number(number, uuid.uuid4().hex[:16])
        said = f"{number} {self.seal.number_text(kind, name, claimed)}"
        self._produce(self.registry, {key: said.encode()})
        self.known.take(key, claimed)
        return claimed

    def _produce(self, topic: str, records: Mapping[str, bytes]) -> int:
        """Write records by key and wait for Kafka to store them; return the last offset. Raise Passing on failure."""
        offsets: list[int] = []
        problems: list[str] = []

        def written(problem: Any, record: Any) -> None:
            if problem is None:
                offsets.append(record.offset())
            else:
                problems.append(problem.str())

        for key, value in records.items():
            while not self._queued(topic, value, key, written):
                # The client's queue is full.
                self.producer.poll(0.1)
            self.producer.poll(0)
        said = f"Kafka at {self.hosts} does not accept messages to {topic}"
        if self.producer.flush(KAFKA_PATIENCE):
            raise Passing(f"{said}: no answer for {KAFKA_PATIENCE:g} seconds")
        if problems:
            raise (Passing if topic == self.registry else CutOff)(f"{said}: {problems[0]}")
        return max(offsets)


def kafka_address(address: str) -> tuple[str, str]:
    """Return the brokers and the name in ``kafka://HOST:PORT,HOST:PORT/NAME``. Raise JobError for other addresses."""
    parts = re.fullmatch(r"kafka://([^/\s]+)/([A-Za-z0-9._-]{1,80})", address)
    if not parts:
        raise JobError(f"{address}: an address of channels is kafka://HOST:PORT/NAME, where topics begin with NAME")
    return parts[1], parts[2]


def make_topics(settings: Mapping[str, Any], registry: str, topics: Sequence[str]) -> None:
    """Create missing topics, with one partition and the brokers' default replication. Raise JobError if one has
    several partitions, which would not keep the order."""
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient(dict(settings))
    present = admin.list_topics(timeout=KAFKA_PATIENCE).topics
    for topic in (registry, *topics):
        if len(present[topic].partitions if topic in present else ()) > 1:
            raise JobError(f"the topic {topic} has several partitions, which would lose the order of messages")
    compacted = {"cleanup.policy": "compact", "segment.ms": "600000"}
    missing = [
        NewTopic(topic, num_partitions=1, replication_factor=-1, config=config)
        for topic, config in ((registry, compacted), *((topic, {}) for topic in topics))
        if topic not in present
    ]
    for creation in (admin.create_topics(missing) if missing else {}).values():
        try:
            creation.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
