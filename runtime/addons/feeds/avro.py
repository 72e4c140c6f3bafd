"""Avro messages of Kafka Connect, by schemas in a folder instead of a registry."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...kernel.errors import reason
from .debezium_messages import AVRO_MARK, Decode
from .feed import needed_library
from .semantic import CONNECT_DECIMAL, Schema

AVRO_HEADER = 5
"""A message begins with a zero byte and the ID of its schema, in four bytes."""

AVRO_TYPES = {"int": "int32", "long": "int64", "enum": "string", "fixed": "bytes", "record": "struct"}
"""Avro's names of types that Kafka Connect calls otherwise."""

AVRO_MEANINGS = {
    "decimal": CONNECT_DECIMAL,
    "date": "org.apache.kafka.connect.data.Date",
    "time-millis": "org.apache.kafka.connect.data.Time",
    "time-micros": "io.debezium.time.MicroTime",
    "timestamp-millis": "org.apache.kafka.connect.data.Timestamp",
    "timestamp-micros": "io.debezium.time.MicroTimestamp",
    "uuid": "io.debezium.data.Uuid",
}
"""The semantic types of Kafka Connect that Avro's logical types stand for."""

MEANING = "flintlog.meaning"
"""The attribute to which a logical type is moved, so that the library leaves the values as they were written."""


def avro_folder(folder: str) -> Decode:
    """Return a function that decodes messages by the schemas in a folder, with a file ID.avsc for each: the schema
    itself, or what a registry answers to GET /schemas/ids/ID."""
    library = needed_library("fastavro", "fastavro", "reading Avro messages")
    schemas: dict[int, tuple[Any, Schema | None]] = {}

    def decode(content: bytes) -> tuple[Any, Schema | None]:
        if len(content) < AVRO_HEADER:
            raise ValueError("an Avro message without the ID of its schema")
        number = int.from_bytes(content[len(AVRO_MARK) : AVRO_HEADER], "big")
        if number not in schemas:
            schemas[number] = read_schema(library, Path(folder) / f"{number}.avsc")
        rest = io.BytesIO(content[AVRO_HEADER:])
        try:
            value = library.schemaless_reader(rest, schemas[number][0], None)
        except Exception as error:
            raise ValueError(f"not a message of the Avro schema {number}: {reason(error)}") from error
        if rest.read(1):
            raise ValueError(f"not a message of the Avro schema {number}: it goes on behind the end")
        return value, schemas[number][1]

    return decode


def read_schema(library: Any, path: Path) -> tuple[Any, Schema | None]:
    """Return the schema in a file, as the library and as Kafka Connect has it; raise ValueError if there is none."""
    try:
        schema = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(schema, dict) and isinstance(schema.get("schema"), str):
            schema = json.loads(schema["schema"])
        parsed = library.parse_schema(with_plain_values(schema))
        return parsed, connect_schema(parsed, {})
    except FileNotFoundError as error:
        raise ValueError(
            f"there is no {path} with its schema, which a registry answers to GET /schemas/ids/ID"
        ) from error
    except Exception as error:
        raise ValueError(f"{path} is not an Avro schema: {reason(error)}") from error


def with_plain_values(schema: Any) -> Any:
    """Return an Avro schema without logical types, which the library would convert."""
    if isinstance(schema, list):
        return [with_plain_values(one) for one in schema]
    if isinstance(schema, dict):
        return {
            MEANING if name == "logicalType" else name: value if name == "default" else with_plain_values(value)
            for name, value in schema.items()
        }
    return schema


def connect_schema(schema: Any, named: dict[str, Schema]) -> Schema:
    """Return an Avro schema as the JSON converter of Kafka Connect writes it; ``named`` are the types so far."""
    if isinstance(schema, list):
        parts = [one for one in schema if one != "null"]
        return connect_schema(parts[0], named) if len(parts) == 1 else {"type": "union"}
    if isinstance(schema, str):
        return named.get(schema) or {"type": AVRO_TYPES.get(schema, schema)}
    kind = schema["type"]
    if isinstance(kind, dict | list):
        return connect_schema(kind, named)
    converted_schema: dict[str, Any] = {"type": AVRO_TYPES.get(kind, kind)}
    meaning = schema.get(MEANING)
    name = schema.get("connect.name") or (AVRO_MEANINGS.get(meaning, meaning) if meaning else None)
    if name:
        converted_schema["name"] = name
    parameters = schema.get("connect.parameters")
    converted_schema["parameters"] = (
        parameters if isinstance(parameters, Mapping) else {"scale": schema.get("scale", 0)}
    )
    if kind == "record":
        named[schema["name"]] = converted_schema
        fields = [{**connect_schema(one["type"], named), "field": one["name"]} for one in schema["fields"]]
        converted_schema["fields"] = fields
    elif kind == "array":
        converted_schema["items"] = connect_schema(schema["items"], named)
    elif kind in ("enum", "fixed"):
        named[schema["name"]] = converted_schema
    return converted_schema
