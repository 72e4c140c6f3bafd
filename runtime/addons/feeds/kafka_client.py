"""The client of Kafka: what is in a topic, and its messages."""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from ...inputs.records import refused
from ...kernel.errors import JobError, Passing, reason
from ...kernel.values import shown
from ..brokers import KAFKA_PATIENCE, topic_offsets
from .debezium_events import TopicMessage
from .feed import needed_library

TOPIC_OPTIONS = ("key", "settings", "placeholder", "decimals", "tables", "partitioner", "delivery", "avro", "complete")

SETTINGS_VARIABLE = "FLINTLOG_KAFKA_SETTINGS"
"""The environment variable with the path of a file of settings for the client."""

MESSAGES_AT_ONCE = 10_000

SECONDS_AT_ONCE = 2.0
"""The seconds after which messages are passed on, so that progress can be reported."""

USUAL_DELETE_RETENTION = 86_400.0
"""The seconds for which brokers keep tombstones in compacted topics by default."""


@dataclass(frozen=True)
class TopicState:
    """A topic at one moment: its identity; the offsets of the first message and behind the last one, of each
    partition; its cleanup policy (``unknown`` to those who may not ask); and for how many seconds deletions are kept,
    None if messages are not removed by their keys."""

    identity: str
    bounds: Mapping[int, tuple[int, int]]
    policy: str
    kept_deletions: float | None


@dataclass(frozen=True)
class TopicAddress:
    """The brokers and the topic of a source, and its options."""

    hosts: str
    topic: str
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """How messages call the topic."""
        return f"kafka-debezium://{self.hosts}/{self.topic}"


def topic_address(place: str) -> TopicAddress:
    """Return the address in ``//HOST:PORT,HOST:PORT/TOPIC?OPTION=VALUE``; raise JobError for others."""
    parts = re.fullmatch(r"//([^/?\s]+)/([A-Za-z0-9._-]{1,249})(?:\?(\S*))?", place)
    if not parts:
        raise JobError(f"kafka-debezium:{place} is not of the form kafka-debezium://HOST:PORT,HOST:PORT/TOPIC")
    if "@" in parts[1]:
        raise JobError(
            "a source of Kafka has no user and password, which would be kept in the state: write them to a file as "
            f'{{"sasl.username": ..., "sasl.password": ...}}, named by ?settings=FILE or {SETTINGS_VARIABLE}'
        )
    options: dict[str, str] = {}
    for name, value in parse_qsl(parts[3] or "", keep_blank_values=True):
        if name not in TOPIC_OPTIONS or name in options or not value:
            raise JobError(
                f"{shown(f'?{name}={value}')} is not an option of kafka-debezium:, or given twice; "
                f"the options are {', '.join(TOPIC_OPTIONS)}"
            )
        options[name] = value
    for name, only in (
        ("decimals", "string"),
        ("tables", "several"),
        ("partitioner", "by-key"),
        ("delivery", "exactly-once"),
        ("complete", "true"),
    ):
        if options.get(name, only) != only:
            raise JobError(f"?{name}={options[name]}: the only value of {name} is {only}")
    return TopicAddress(parts[1], parts[2], options)


def settings_file(address: TopicAddress) -> str:
    """Return the path of the file with settings of the client, empty if there is none."""
    return address.options.get("settings") or os.environ.get(SETTINGS_VARIABLE, "")


def client_settings(address: TopicAddress) -> dict[str, Any]:
    """Return the settings of the client: those of a file, and those that the feed needs."""
    path = settings_file(address)
    settings: Any = {}
    if path:
        try:
            settings = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise JobError(f"the settings for Kafka in {path} cannot be read: {reason(error)}") from error
        if not isinstance(settings, dict):
            raise JobError(
                f'{path} must be a JSON object with settings of librdkafka, such as {{"sasl.username": "..."}}'
            )
    return {"log_level": 0, **settings, "bootstrap.servers": address.hosts}


class TopicReader:
    """Reads a topic. It is no member of a group, and commits no offsets."""

    def __init__(self, address: TopicAddress) -> None:
        """Find the client and its settings."""
        self.address = address
        self.client = needed_library("confluent_kafka", "confluent-kafka", f"the feed {address.name}")
        self.admin = needed_library("confluent_kafka.admin", "confluent-kafka", f"the feed {address.name}")
        self.settings = client_settings(address)
        self.faults: list[Any] = []

    def state(self) -> TopicState:
        """Return what is in the topic. Offsets are looked up once for each partition."""
        address = self.address
        with self._faults_explained(), self._consumer() as consumer:
            admin = self.admin.AdminClient({**self.settings, "error_cb": self.faults.append})
            descriptions = admin.describe_topics(
                self.client.TopicCollection([address.topic]), request_timeout=KAFKA_PATIENCE
            )
            partitions = sorted(part.id for part in descriptions[address.topic].result().partitions)
            topic_id = str(descriptions[address.topic].result().topic_id or "")
            cluster = consumer.list_topics(address.topic, timeout=KAFKA_PATIENCE).cluster_id
            policy, kept = self._policy(admin)
            bounds = {part: topic_offsets(consumer, address.hosts, address.topic, part) for part in partitions}
        return TopicState(f"{cluster}/{address.topic}/{topic_id}", bounds, policy, kept)

    def _policy(self, admin: Any) -> tuple[str, float | None]:
        """Return the cleanup policy, and for how many seconds deletions are kept if messages are removed by keys."""
        resource = self.admin.ConfigResource(self.admin.ResourceType.TOPIC, self.address.topic)
        try:
            configuration = admin.describe_configs([resource], request_timeout=KAFKA_PATIENCE)[resource].result()
        except self.client.KafkaException:
            # Not everybody may ask for it.
            return "unknown", USUAL_DELETE_RETENTION
        policy = str(configuration["cleanup.policy"].value)
        return policy, int(configuration["delete.retention.ms"].value) / 1000 if "compact" in policy else None

    def messages(self, ranges: Mapping[int, tuple[int, int]]) -> Iterator[list[TopicMessage]]:
        """Yield the messages of ranges of offsets, a list at a time; an empty list after some seconds. Raise Passing if
        the brokers do not answer."""
        topic, pending = self.address.topic, {p: r for p, r in ranges.items() if r[0] < r[1]}
        reached = {part: begin for part, (begin, _) in pending.items()}
        if not pending:
            return
        # Brokers send at least one message.
        single = all(end - begin == 1 for begin, end in pending.values())
        limits = {"fetch.message.max.bytes": 10_000} if single else {}
        with self._faults_explained(), self._consumer(limits) as consumer:
            consumer.assign([self.client.TopicPartition(topic, part, begin) for part, (begin, _) in pending.items()])
            heard = told = time.monotonic()
            while pending:
                messages, now = [], time.monotonic()
                for message in consumer.consume(MESSAGES_AT_ONCE, timeout=0.2):
                    part, offset = message.partition(), message.offset()
                    if message.error() is not None:
                        self._check_fault(message.error())
                        # The end of the partition, beyond the messages of transactions that were aborted.
                        if part not in pending or offset < pending[part][1]:
                            continue
                    elif part in pending and offset < pending[part][1]:
                        reached[part] = offset + 1
                        messages.append(
                            TopicMessage(part, offset, message.key(), message.value(), message.timestamp()[1])
                        )
                    if part in pending and offset >= pending[part][1] - 1:
                        del pending[part]
                        consumer.pause([self.client.TopicPartition(topic, part)])
                    heard = now
                if now - heard > KAFKA_PATIENCE:
                    raise Passing(
                        f"{self.address.name} sends nothing for {KAFKA_PATIENCE:g} seconds, at offset "
                        f"{reached[next(iter(pending))]} of partition {next(iter(pending))}{self._said()}"
                    )
                if messages:
                    yield messages
                if now - told > SECONDS_AT_ONCE:
                    told = now
                    yield []

    @contextlib.contextmanager
    def _consumer(self, limits: Mapping[str, int] | None = None) -> Iterator[Any]:
        """Open a consumer, which is no member of a group and commits no offsets."""
        consumer = self.client.Consumer(
            {
                **self.settings,
                **(limits or {}),
                "group.id": "flintlog",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "error",
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "allow.auto.create.topics": False,
                "error_cb": self.faults.append,
            }
        )
        try:
            yield consumer
        finally:
            consumer.close()

    @contextlib.contextmanager
    def _faults_explained(self) -> Iterator[None]:
        """Raise JobError for what the brokers refuse, and Passing if they cannot be reached."""
        try:
            yield
        except self.client.KafkaException as error:
            self._check_fault(error.args[0])
            raise Passing(f"{self.address.name}: {error.args[0].str()}{self._said()}") from error

    def _check_fault(self, error: Any) -> None:
        """Raise the error that the client reports: Passing if it may go away, JobError or Refused otherwise. The end of
        a partition is no error."""
        code, codes = error.code(), self.client.KafkaError
        name = self.address.name
        if code == codes._PARTITION_EOF:
            return
        if code in (codes.UNKNOWN_TOPIC_OR_PART, codes._UNKNOWN_TOPIC, codes._UNKNOWN_PARTITION):
            raise refused(f"there is no topic {self.address.topic} at {self.address.hosts}, or it has lost a partition")
        if code in (codes._AUTO_OFFSET_RESET, codes.OFFSET_OUT_OF_RANGE):
            # The next look finds that they are gone.
            raise Passing(f"{name}: messages were removed while they were read ({error.str()})")
        barred = (
            codes.TOPIC_AUTHORIZATION_FAILED,
            codes.CLUSTER_AUTHORIZATION_FAILED,
            codes.GROUP_AUTHORIZATION_FAILED,
            codes.SASL_AUTHENTICATION_FAILED,
            codes._AUTHENTICATION,
            codes._INVALID_ARG,
        )
        refusal = next((fault for fault in self.faults if fault.code() == codes._AUTHENTICATION), None)
        if code in barred or refusal is not None:
            raise JobError(
                f"{name} cannot be read: {(refusal or error).str()}; settings such as sasl.username are read from the "
                f"file that ?settings=FILE or {SETTINGS_VARIABLE} names"
            )
        raise Passing(f"{name}: {error.str()}{self._said()}")

    def _said(self) -> str:
        """Return what the client reported last, for messages."""
        return f" ({self.faults[-1].str()})" if self.faults else ""
