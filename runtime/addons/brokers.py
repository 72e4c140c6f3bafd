"""Ask the brokers of Kafka about topics, for channels between processes and for feeds."""

from __future__ import annotations

import time
from typing import Any

from ..kernel.errors import JobError

KAFKA_PATIENCE = 60.0
"""The seconds to wait for an answer of the brokers."""


def topic_offsets(consumer: Any, hosts: str, topic: str, partition: int = 0) -> tuple[int, int]:
    """Return the first and the next offset of a partition, as soon as the brokers agree on its leader. A consumer that
    reads committed messages only gets the offset up to which all transactions are decided."""
    from confluent_kafka import KafkaError, KafkaException, TopicPartition

    early = (
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
    )
    stop = time.monotonic() + KAFKA_PATIENCE
    while True:
        try:
            offsets = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=KAFKA_PATIENCE)
        except KafkaException as error:
            if error.args[0].code() not in early or time.monotonic() > stop:
                raise
            time.sleep(0.1)
            consumer.list_topics(topic, timeout=KAFKA_PATIENCE)
            continue
        if offsets is None:
            raise JobError(f"Kafka at {hosts} does not respond")
        return offsets[0], offsets[1]
