"""Values of Kafka Connect's types, and of Debezium's semantic types, as values of the program's types.

A schema is what the JSON converter of Kafka Connect writes: ``type``, and for a semantic type its ``name``. A value
without a schema is taken if its JSON tells it exactly; a number could be a day, a moment in any unit, or itself, so
without a schema it is never a date or a timestamp.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from ...inputs.values import Digits, value_reader, wrong_type
from ...kernel.sql import element_type, is_list, is_optional, plain_type
from ...kernel.values import shown

Schema = Mapping[str, Any]

INTEGERS = ("int8", "int16", "int32", "int64")

FLOATS = ("float", "float32", "float64", "double")

TEXTS = (
    "io.debezium.data.Enum",
    "io.debezium.data.EnumSet",
    "io.debezium.data.Json",
    "io.debezium.data.Ltree",
    "io.debezium.data.Uuid",
    "io.debezium.data.Xml",
    "io.debezium.time.Interval",
)
"""Semantic types whose values are text."""

MOMENTS = {
    "io.debezium.time.Timestamp": 1_000,
    "io.debezium.time.MicroTimestamp": 1_000_000,
    "io.debezium.time.NanoTimestamp": 1_000_000_000,
    "org.apache.kafka.connect.data.Timestamp": 1_000,
}
"""Semantic types of moments since 1970, with the number of their units in a second."""

TIMES_OF_DAY = {
    "io.debezium.time.Time": 1_000,
    "io.debezium.time.MicroTime": 1_000_000,
    "io.debezium.time.NanoTime": 1_000_000_000,
    "org.apache.kafka.connect.data.Time": 1_000,
}
"""Semantic types of times of day since midnight, with the number of their units in a second."""

DAYS = ("io.debezium.time.Date", "org.apache.kafka.connect.data.Date")

WRITTEN_MOMENTS = ("io.debezium.time.ZonedTimestamp", "io.debezium.time.IsoTimestamp")

WRITTEN_TIMES = ("io.debezium.time.ZonedTime", "io.debezium.time.IsoTime")

WRITTEN_DAY = "io.debezium.time.IsoDate"

CONNECT_DECIMAL = "org.apache.kafka.connect.data.Decimal"

VARIABLE_DECIMAL = "io.debezium.data.VariableScaleDecimal"

Convert = Callable[[Any], Any]


def schema_name(schema: Schema) -> str:
    """Return a schema as messages call it: its semantic type, or its type."""
    if schema.get("type") == "array":
        items = schema.get("items")
        return f"array of {schema_name(items) if isinstance(items, Mapping) else 'unknown'}"
    return str(schema.get("name") or schema.get("type") or "unknown")


def converter(kind: str, schema: Schema | None, texts_are_decimals: bool = False) -> Convert:
    """Return a function that converts values to those of a column of type ``kind``, as they are staged, or raises
    ValueError. Raise ValueError if no value of the schema fits the column. ``texts_are_decimals``: decimals without a
    schema are text."""
    if is_optional(kind):
        read = converter(plain_type(kind), schema, texts_are_decimals)
        return lambda value: [] if value is None else [read(value)]
    if is_list(kind):
        items = schema.get("items") if schema is not None else None
        if schema is not None and (schema.get("type") != "array" or not isinstance(items, Mapping)):
            raise misfit(kind, schema)
        return list_converter(kind, converter(element_type(kind), items, texts_are_decimals))
    change = unknown(kind, texts_are_decimals) if schema is None else known(kind, schema)
    read = value_reader(kind)
    return read if change is None else lambda value: read(value if value is None else change(value))


def list_converter(kind: str, read: Convert) -> Convert:
    """Return a function that converts lists, whose elements ``read`` converts."""

    def convert(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise ValueError("null") if value is None else wrong_type(value, kind)
        return [read(item) for item in value]

    return convert


class SchemaMisfit(ValueError):
    """Raised for a schema, which the message names, whose values a column does not take."""


def misfit(kind: str, schema: Schema) -> SchemaMisfit:
    """Return the error for a schema whose values a column does not take, with what to do about it."""
    name = schema_name(schema)
    advice = ""
    if schema.get("type") == "bytes" and not schema.get("name"):
        advice = "; binary.handling.mode=base64 or hex makes it text"
    elif name in FLOATS and kind.startswith("decimal"):
        advice = ", which is not exact; use decimal.handling.mode=precise or string"
    elif name in (CONNECT_DECIMAL, VARIABLE_DECIMAL):
        advice = "; declare the column as decimal(p,s)"
    elif kind == "bool" and name in INTEGERS:
        advice = "; io.debezium.connector.mysql.converters.TinyIntOneToBooleanConverter makes it a boolean"
    elif schema.get("type") == "map":
        advice = "; hstore.handling.mode=json makes it text"
    return SchemaMisfit(f"has the type {name} and should be {kind}{advice}")


def known(kind: str, schema: Schema) -> Convert | None:
    """Return a function from values of a schema to what the reader of ``kind`` takes; None if that takes them as they
    are. Raise ValueError if a column of this type takes no value of the schema."""
    type_name, name = schema.get("type"), schema.get("name")
    short = kind.partition("(")[0]
    if name == CONNECT_DECIMAL and type_name == "bytes" and short in ("decimal", "int", "float"):
        scale = int((schema.get("parameters") or {}).get("scale", 0))
        return lambda value: decimal_of(value, scale)
    if name == VARIABLE_DECIMAL and type_name == "struct" and short in ("decimal", "int", "float"):
        return variable_decimal
    if name in MOMENTS and kind == "timestamp":
        unit = MOMENTS[name]
        return lambda value: moment(value, unit)
    if name in TIMES_OF_DAY and kind == "string":
        unit = TIMES_OF_DAY[name]
        return lambda value: time_of_day(value, unit)
    if name in DAYS and kind == "date":
        return day
    if name in WRITTEN_MOMENTS and kind == "timestamp":
        return written_moment
    if name == WRITTEN_DAY and kind == "date":
        return written_day
    if name in (*WRITTEN_MOMENTS, *WRITTEN_TIMES, WRITTEN_DAY) and kind == "string":
        return None
    if name == "io.debezium.time.Year" and kind == "int":
        return None
    if name in TEXTS and type_name == "string" and kind == "string":
        return None
    if name:
        # Another semantic type: its plain values may mean anything.
        raise misfit(kind, schema)
    fits = {
        "int": type_name in INTEGERS,
        "float": type_name in (*INTEGERS, *FLOATS),
        "decimal": type_name in (*INTEGERS, "string"),
        "string": type_name == "string",
        "bool": type_name == "boolean",
    }
    if not fits.get(short, False):
        raise misfit(kind, schema)
    return typed_whole if short == "float" and type_name in INTEGERS else None


def typed_whole(value: Any) -> Any:
    """Return an integer whose type says that it is one, and not the digits of a float."""
    return int(value) if isinstance(value, Digits) else value


def unknown(kind: str, texts_are_decimals: bool) -> Convert | None:
    """Return a function from values without a schema to what the reader of ``kind`` takes."""

    def no_number(value: Any) -> Any:
        if not isinstance(value, str):
            raise ValueError(
                f"{shown(value)} has no schema, so it could be in any unit: set value.converter.schemas.enable=true, "
                "or time.precision.mode=isostring"
            )
        return written_day(value) if kind == "date" else written_moment(value)

    def no_text(value: Any) -> Any:
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if isinstance(value, str) and texts_are_decimals:
            return value
        raise ValueError(
            f"{shown(value)} has no schema, so it could be rounded or encoded: set value.converter.schemas.enable="
            "true, or decimal.handling.mode=string and ?decimals=string in the source"
        )

    if kind in ("date", "timestamp"):
        return no_number
    return no_text if kind.startswith("decimal") else None


# Values


def bytes_of(value: Any) -> bytes:
    """Return bytes that JSON has in base64."""
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise ValueError(f"{shown(value)} is not bytes in base64")
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"{shown(value)} is not bytes in base64") from error


def decimal_of(value: Any, scale: int) -> Decimal:
    """Return a decimal whose unscaled value is given as bytes in two's complement, the highest first."""
    sign, digits, _ = Decimal(int.from_bytes(bytes_of(value), "big", signed=True)).as_tuple()
    try:
        return Decimal((sign, digits, -scale))
    except InvalidOperation as error:
        raise ValueError(f"{shown(value)} is not a decimal with the scale {scale}") from error


def variable_decimal(value: Any) -> Decimal:
    """Return a decimal that comes with its scale."""
    if not isinstance(value, Mapping) or not isinstance(value.get("scale"), int):
        raise ValueError(f"{shown(value)} is not a decimal with a scale")
    return decimal_of(value.get("value"), value["scale"])


def whole(value: Any) -> int:
    """Return a whole number."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise wrong_type(value, "whole number")
    return value


def day(value: Any) -> date:
    """Return the date, given the number of days since 1970-01-01."""
    try:
        return date(1970, 1, 1) + timedelta(days=whole(value))
    except OverflowError as error:
        raise ValueError(f"day {value} is not in the years 1 to 9999") from error


def moment(value: Any, unit: int) -> datetime:
    """Return the timestamp, given the time since 1970 in units of which ``unit`` are a second. Nanoseconds are cut to
    microseconds."""
    try:
        return datetime(1970, 1, 1) + timedelta(microseconds=whole(value) * 1_000_000 // unit)
    except OverflowError as error:
        raise ValueError(f"{value} is not in the years 1 to 9999") from error


def time_of_day(value: Any, unit: int) -> str:
    """Return a time of day as text, such as 12:30:00 or 12:30:00.5."""
    seconds, part = divmod(whole(value), unit)
    if not 0 <= seconds <= 86_400:
        raise ValueError(f"{value} is not a time of day")
    digits = f"{part:0{len(str(unit)) - 1}d}".rstrip("0")
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{text}.{digits}" if digits else text


def written_moment(value: Any) -> Any:
    """Return the text of a moment with no more digits than microseconds, which is what the reader of timestamps
    takes."""
    return re.sub(r"(\.[0-9]{6})[0-9]{1,3}(?=Z|[+-]|$)", r"\1", value) if isinstance(value, str) else value


def written_day(value: Any) -> Any:
    """Return the text of a day without the zone that Debezium adds."""
    return value.removesuffix("Z") if isinstance(value, str) else value


# Placeholders


def placeholders(text: str) -> tuple[Any, ...]:
    """Return the values that stand for an unchanged value that the database did not send, where Debezium's placeholder
    is ``text``: as text, as bytes in base64, as arrays of text, bytes, numbers and UUIDs, and as a map."""
    content = text.encode()
    encoded = base64.b64encode(content).decode()
    digest = bytearray(hashlib.md5(content, usedforsecurity=False).digest())
    digest[6] = digest[6] & 0x0F | 0x30
    digest[8] = digest[8] & 0x3F | 0x80
    digits = digest.hex()
    uuid = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    return (text, encoded, content, [text], [encoded], [content], list(content), [uuid], {text: text})
