"""Avro messages of Kafka Connect, by schemas in a folder."""

from __future__ import annotations

import io
import json
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest

from golden_tests.addons.feeds.envelopes import MemoryTopic
from golden_tests.addons.feeds.world import FeedWorld, refusal

PROGRAM = """
input relation orders(id: int, price: decimal(10,2), day: date, at: timestamp, tags: list<string>, note: string?)
primary key (id)
output relation priced(id: int, price: decimal(10,2))
priced(I, P) :- orders(I, P, _, _, _, _).
"""

SCALED = {"scale": "2", "connect.decimal.precision": "10"}

ROW = {
    "type": "record",
    "name": "Value",
    "fields": [
        {"name": "id", "type": "long"},
        {
            "name": "price",
            "type": {
                "type": "bytes",
                "logicalType": "decimal",
                "precision": 10,
                "scale": 2,
                "connect.parameters": SCALED,
                "connect.name": "org.apache.kafka.connect.data.Decimal",
            },
        },
        {"name": "day", "type": {"type": "int", "connect.name": "io.debezium.time.Date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "tags", "type": ["null", {"type": "array", "items": ["null", "string"]}], "default": None},
        {
            "name": "note",
            "type": ["null", {"type": "string", "connect.name": "io.debezium.data.Json"}],
            "default": None,
        },
    ],
    "connect.name": "shop.public.orders.Value",
}

ENVELOPE = {
    "type": "record",
    "name": "Envelope",
    "namespace": "shop.public.orders",
    "fields": [
        {"name": "before", "type": ["null", ROW], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {
            "name": "source",
            "type": {"type": "record", "name": "Source", "fields": [{"name": "table", "type": "string"}]},
        },
        {"name": "op", "type": "string"},
    ],
}

KEY = {"type": "record", "name": "Key", "namespace": "shop.public.orders", "fields": [{"name": "id", "type": "long"}]}

FIRST = {
    "id": 2**62 + 1,
    "price": (-1234).to_bytes(2, "big", signed=True),
    "day": 19_000,
    "at": 1_500_000,
    "tags": ["a", ""],
    "note": '{"a": 1}',
}


def written(number: int, schema: Any, value: Any) -> bytes:
    """Return a message as Confluent's converter writes it."""
    content = io.BytesIO()
    fastavro.schemaless_writer(content, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return b"\0" + number.to_bytes(4, "big") + content.getvalue()


def plain(schema: Any) -> Any:
    """Return a schema without logical types, so that values are written as they are."""
    text = (
        json.dumps(schema)
        .replace('"logicalType": "decimal"', '"x": 1')
        .replace('"logicalType": "timestamp-micros"', '"x": 1')
    )
    return json.loads(text)


def put(topic: MemoryTopic, operation: str, number: int, before: Any, after: Any) -> None:
    """Append a message about a row."""
    value = {"before": before, "after": after, "source": {"table": "orders"}, "op": operation}
    topic.write(written(1, KEY, {"id": number}), written(2, plain(ENVELOPE), value))


def test_avro(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Schemas are found by ID, as they are or as a registry answers; values are those of JSON."""
    world, topic = FeedWorld(tmp_path, PROGRAM), MemoryTopic()
    topic.install(world.job)
    folder = tmp_path / "schemas"
    folder.mkdir()
    (folder / "1.avsc").write_text(json.dumps(KEY))
    (folder / "2.avsc").write_text(json.dumps({"schema": json.dumps(ENVELOPE), "version": 3}))
    number = int(FIRST["id"])  # type: ignore[call-overload]
    put(topic, "r", number, None, FIRST)
    put(topic, "r", 5, None, {**FIRST, "id": 5, "note": None})
    assert world.run("connect", f"orders=kafka-debezium://broker/orders?avro={folder}") == world.run("init") == 0
    rest = (Decimal("-12.34"), date(2022, 1, 8), datetime(1970, 1, 1, 0, 0, 1, 500_000))
    found = world.job.relation(None, str(world.state), "orders").to_pylist()
    assert [tuple(row.values()) for row in sorted(found, key=lambda row: int(row["id"]))] == [
        (5, *rest, ["a", ""], None),
        (number, *rest, ["a", ""], '{"a": 1}'),
    ]
    put(topic, "d", 5, None, None)
    assert world.run("apply") == 0
    assert world.rows("priced") == {(number, Decimal("-12.34"))}
    topic.write(written(1, KEY, {"id": 6}), written(9, KEY, {"id": 6}))
    assert "9.avsc with its schema, which a registry answers" in refusal(world, capsys)
    (folder / "9.avsc").write_text('{"type": "nothing"}')
    assert "9.avsc is not an Avro schema" in refusal(world, capsys)
    topic.logs[0][-1] = (topic.ends[0] - 1, topic.logs[0][0][1], b"\0\0\0\0\2\1\2\3")
    assert "offset 3: not a message of the Avro schema 2" in refusal(world, capsys)
    topic.logs[0][-1] = (topic.ends[0] - 1, topic.logs[0][0][1], written(1, KEY, {"id": 6}) + b"x")
    assert "goes on behind the end" in refusal(world, capsys)
    world.close()
