"""Messages that Debezium writes about the rows of a table, as changes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ...inputs.values import json_decoder
from ...kernel.values import shown
from .semantic import Schema

SNAPSHOT_BEGINS = "first r"
"""The operation of the first row that a snapshot reads, unless it is an incremental one."""

INSERTIONS = ("c", "r", "u", SNAPSHOT_BEGINS)
"""The operations after which a row is there: created, read by a snapshot, updated."""

DELETED = "__deleted"
"""The member that ExtractNewRecordState adds to rows, with ``true`` for those that were deleted."""

OWN_NAMES = ("db", "schema", "table")
"""The members of ``source`` that name the table of a message."""

AVRO_MARK = b"\0"
"""The first byte of Avro messages of Confluent's converter."""


@dataclass(frozen=True)
class Structure:
    """The values of a row or a key by column, and their schemas, None if the message has none."""

    values: Mapping[str, Any]
    schemas: Mapping[str, Schema] | None

    def schema(self, name: str) -> Schema | None:
        """Return the schema of a value, None if there is none."""
        return None if self.schemas is None else self.schemas.get(name)


@dataclass(frozen=True)
class Envelope:
    """A message: an operation (``c``, ``r`` or SNAPSHOT_BEGINS, ``u``, ``d``, ``t``, ``tombstone``), the row
    before and after it, the key of the message, and the table; None for what it does not have."""

    operation: str
    key: Structure | None
    before: Structure | None = None
    after: Structure | None = None
    table: str = ""
    unwrapped: bool = False


Decode = Callable[[bytes], tuple[Any, Schema | None]]
"""Returns the value of a message and its schema, None if it has none."""


def json_message(content: bytes) -> tuple[Any, Schema | None]:
    """Return the value of a JSON message, and its schema, None if it has none; raise ValueError if it is not JSON."""
    try:
        value = json_decoder().decode(content.decode())
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at character {error.pos + 1}") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from error
    if isinstance(value, dict) and value.keys() == {"schema", "payload"}:
        return value["payload"], value["schema"]
    return value, None


def decoded(content: bytes | None, avro: Decode | None) -> tuple[Any, Schema | None]:
    """Return the value of a message, or of its key, and its schema; raise ValueError if it cannot be read."""
    if content is None:
        return None, None
    if not content.startswith(AVRO_MARK):
        return json_message(content)
    if avro is None:
        raise ValueError(
            "written by an Avro converter, whose schemas are in a registry: give a folder with them, as in "
            "?avro=DIR with a file ID.avsc for each schema, or use org.apache.kafka.connect.json.JsonConverter"
        )
    return avro(content)


def structure(value: Any, schema: Schema | None) -> Structure | None:
    """Return a row or a key; None for null. Raise ValueError if it is something else."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise ValueError(f"{shown(value)} is not a row")
    if schema is None:
        return Structure(value, None)
    return Structure(value, {str(field.get("field")): field for field in fields_of(schema)})


def member_schema(schema: Schema | None, name: str) -> Schema | None:
    """Return the schema of a member."""
    return next((field for field in fields_of(schema) if field.get("field") == name), None) if schema else None


def fields_of(schema: Schema) -> list[Schema]:
    """Return the schemas of the members of a structure; raise ValueError if it is none."""
    fields = schema.get("fields") if isinstance(schema, Mapping) else None
    if not isinstance(fields, list) or not all(isinstance(field, Mapping) for field in fields):
        raise ValueError(f"{shown(schema)} is not the schema of a structure")
    return fields


def read_envelope(key: bytes | None, value: bytes | None, avro: Decode | None) -> Envelope | None:
    """Return what a message says; None if it is not about a row: a heartbeat, the begin or end of a transaction, a
    change of a schema, or a message that an application wrote. Raise ValueError for what Debezium does not write."""
    content, schema = decoded(value, avro)
    if content is None:
        row_key = structure(*decoded(key, avro))
        if row_key is None:
            raise ValueError(
                "neither a key nor a value, which may stand for TRUNCATE if ExtractNewRecordState has removed the "
                "rest: leave out this transformation"
            )
        return Envelope("tombstone", row_key)
    if not isinstance(content, Mapping):
        raise ValueError(f"{shown(content)} is not a message of Debezium's")
    if DELETED in content:
        return unwrapped(structure(*decoded(key, avro)), content, schema)
    if "op" in content and "source" in content:
        operation, source = content["op"], content["source"] or {}
        if operation == "m":
            return None
        if operation not in (*INSERTIONS, "d", "t"):
            raise ValueError(f"unknown operation {shown(operation)}")
        before = structure(content.get("before"), member_schema(schema, "before"))
        after = structure(content.get("after"), member_schema(schema, "after"))
        table = ".".join(str(source[name]) for name in OWN_NAMES if source.get(name))
        begins = operation == "r" and str(source.get("snapshot", "")).startswith("first")
        return Envelope(SNAPSHOT_BEGINS if begins else operation, structure(*decoded(key, avro)), before, after, table)
    if (
        content.keys() == {"ts_ms"}
        or {"status", "id", "event_count"} <= content.keys()
        or ("ddl" in content and ("databaseName" in content or "tableChanges" in content))
    ):
        return None
    if "__op" in content:
        raise ValueError(
            f"a row without {DELETED}, so deletions might be missing: set delete.tombstone.handling.mode=rewrite for "
            "ExtractNewRecordState, or leave out this transformation"
        )
    raise ValueError(
        "not an envelope of Debezium's (op, before, after, source), nor a row of ExtractNewRecordState with "
        f"{DELETED}: its members are {shown(', '.join(map(str, content)))}"
    )


def unwrapped(key: Structure | None, content: Mapping[str, Any], schema: Schema | None) -> Envelope:
    """Return what a message of ExtractNewRecordState says."""
    operation = content.get("__op")
    if operation not in (None, *INSERTIONS, "d"):
        raise ValueError(f"the operation {shown(operation)} of ExtractNewRecordState is not supported: leave it out")
    row, deleted = structure(content, schema), str(content[DELETED]).lower()
    if deleted not in ("true", "false"):
        raise ValueError(f"{DELETED} is {shown(content[DELETED])}, and not true or false")
    table = str(content.get("__table") or content.get("__source_table") or "")
    if deleted == "true":
        return Envelope("d", key, row, None, table, unwrapped=True)
    # The row may be a new one or not: whatever row has its key is replaced.
    return Envelope(operation if operation in INSERTIONS else "c", key, None, row, table, unwrapped=True)
