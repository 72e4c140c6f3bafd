"""Values of Kafka Connect's and Debezium's types."""

from __future__ import annotations

import base64
import hashlib
import re
import uuid
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest
from flintlog.runtime.addons.feeds.semantic import converter, placeholders

CONNECT = "org.apache.kafka.connect.data"


def typed(kind: str, name: str | None = None, **more: Any) -> dict[str, Any]:
    """Return a schema as the JSON converter writes it."""
    return {"type": kind, "optional": True, **({"name": name} if name else {}), **more}


def unscaled(number: int) -> str:
    """Return a whole number as Kafka Connect encodes that of a decimal."""
    size = (number.bit_length() // 8) + 1
    return base64.b64encode(number.to_bytes(size, "big", signed=True)).decode()


def decimals(scale: int) -> dict[str, Any]:
    """Return the schema of decimals."""
    return typed("bytes", f"{CONNECT}.Decimal", parameters={"scale": str(scale), "connect.decimal.precision": "20"})


VARIABLE = typed("struct", "io.debezium.data.VariableScaleDecimal")

LATE = 253_402_300_799_999_999
"""The last microsecond of the year 9999."""


@pytest.mark.parametrize(
    ("kind", "schema", "value", "wanted"),
    [
        ("int", typed("int64"), 2**53 + 1, 2**53 + 1),
        ("int", typed("int64"), -(2**63), -(2**63)),
        ("int", typed("int16"), 7, 7),
        ("int", typed("int32", "io.debezium.time.Year"), 1999, 1999),
        ("int", decimals(0), unscaled(2**62), 2**62),
        ("int?", typed("int64"), None, []),
        ("int?", typed("int64"), 5, [5]),
        ("int", None, 9_007_199_254_740_993, 9_007_199_254_740_993),
        ("float", typed("double"), Decimal("0.1"), 0.1),
        ("float", typed("float"), Decimal("1.5"), 1.5),
        ("float", typed("int32"), 3, 3.0),
        ("float", None, Decimal("2.5"), 2.5),
        ("decimal(20,4)", decimals(4), unscaled(-1_234_567), Decimal("-123.4567")),
        ("decimal(38,10)", decimals(2), unscaled(10**27 + 1), Decimal("10000000000000000000000000.01")),
        ("decimal(10,2)", decimals(-2), unscaled(3), Decimal("300.00")),
        ("decimal(10,2)", VARIABLE, {"scale": 1, "value": unscaled(15)}, Decimal("1.50")),
        ("decimal(10,2)", typed("string"), "12.30", Decimal("12.30")),
        ("decimal(10,2)", typed("int32"), 12, Decimal("12.00")),
        ("bool", typed("boolean"), False, False),
        ("string", typed("string"), "é\u0000\U0001f600", "é\u0000\U0001f600"),
        ("string", typed("string", "io.debezium.data.Json"), '{"a":1}', '{"a":1}'),
        ("string", typed("string", "io.debezium.data.Uuid"), "6b3c", "6b3c"),
        ("string", typed("string", "io.debezium.data.Enum", parameters={"allowed": "a,b"}), "a", "a"),
        ("string", typed("string", "io.debezium.time.ZonedTime"), "10:00:00Z", "10:00:00Z"),
        ("string", typed("int32", "io.debezium.time.Time"), 45_000_120, "12:30:00.12"),
        ("string", typed("int64", "io.debezium.time.MicroTime"), 1, "00:00:00.000001"),
        ("string", typed("int64", "io.debezium.time.NanoTime"), 86_400 * 10**9, "24:00:00"),
        ("string", typed("int32", f"{CONNECT}.Time"), 0, "00:00:00"),
        ("date", typed("int32", "io.debezium.time.Date"), 19_000, date(2022, 1, 8)),
        ("date", typed("int32", f"{CONNECT}.Date"), -1, date(1969, 12, 31)),
        ("date", typed("string", "io.debezium.time.IsoDate"), "2022-01-08Z", date(2022, 1, 8)),
        ("date", None, "2022-01-08", date(2022, 1, 8)),
        ("timestamp", typed("int64", "io.debezium.time.Timestamp"), 1_500, datetime(1970, 1, 1, 0, 0, 1, 500_000)),
        ("timestamp", typed("int64", f"{CONNECT}.Timestamp"), -1, datetime(1969, 12, 31, 23, 59, 59, 999_000)),
        ("timestamp", typed("int64", "io.debezium.time.MicroTimestamp"), LATE, datetime.max),
        ("timestamp", typed("int64", "io.debezium.time.NanoTimestamp"), 1_999, datetime(1970, 1, 1, 0, 0, 0, 1)),
        (
            "timestamp",
            typed("string", "io.debezium.time.ZonedTimestamp"),
            "2022-01-08T12:00:00.123456789+02:00",
            datetime(2022, 1, 8, 10, 0, 0, 123_456),
        ),
        (
            "timestamp",
            typed("string", "io.debezium.time.ZonedTimestamp"),
            "2022-01-08T12:00:00Z",
            datetime(2022, 1, 8, 12),
        ),
        ("timestamp", None, "2022-01-08T12:00:00Z", datetime(2022, 1, 8, 12)),
        ("list<string>", typed("array", items=typed("string")), ["a", ""], ["a", ""]),
        ("list<decimal(5,1)>", typed("array", items=decimals(1)), [unscaled(15)], [Decimal("1.5")]),
        ("list<int>", None, [1, 2**60], [1, 2**60]),
    ],
)
def test_values_that_fit(kind: str, schema: Any, value: Any, wanted: Any) -> None:
    """Each becomes the value of the column, exactly."""
    found = converter(kind, schema)(value)
    assert (found, type(found)) == (wanted, type(wanted))


@pytest.mark.parametrize(
    ("kind", "schema", "value", "said"),
    [
        (
            "int",
            typed("int64", "io.debezium.time.MicroTimestamp"),
            1,
            "has the type io.debezium.time.MicroTimestamp and",
        ),
        ("int", typed("string"), "1", "has the type string and should be int"),
        ("int", decimals(2), unscaled(150), "1.50 is not an int"),
        ("int", typed("int64"), None, "null"),
        ("int", None, "1", "is text in quotes"),
        ("int", None, 2**63, "does not fit 64 bits"),
        ("float", typed("string"), "NaN", "has the type string"),
        ("decimal(10,2)", typed("double"), Decimal("1.1"), "decimal.handling.mode=precise"),
        ("decimal(4,2)", decimals(3), unscaled(1_234), "too many digits for decimal(4,2)"),
        ("decimal(10,2)", None, "1234", "value.converter.schemas.enable"),
        ("decimal(10,2)", None, Decimal("1.5"), "value.converter.schemas.enable"),
        ("decimal(10,2)", decimals(2), "%%", "is not bytes in base64"),
        ("string", typed("bytes"), "aGFsbG8=", "binary.handling.mode=base64"),
        ("string", typed("map"), {"a": "b"}, "hstore.handling.mode=json"),
        ("string", decimals(2), unscaled(1), "declare the column as decimal"),
        ("string", typed("struct", "io.debezium.data.geometry.Point"), {}, "io.debezium.data.geometry.Point"),
        ("bool", typed("int16"), 1, "TinyIntOneToBooleanConverter"),
        ("date", typed("int64", "io.debezium.time.Timestamp"), 1, "io.debezium.time.Timestamp and should be date"),
        ("date", typed("int32"), 19_000, "has the type int32 and should be date"),
        ("date", None, 19_000, "time.precision.mode=isostring"),
        ("timestamp", None, 1_500, "so it could be in any unit"),
        ("timestamp", typed("int64", "io.debezium.time.MicroTimestamp"), 2**63 - 1, "not in the years 1 to 9999"),
        ("timestamp", typed("int64", "io.debezium.time.MicroTimestamp"), LATE + 1, "not in the years 1 to 9999"),
        ("string", typed("int64", "io.debezium.time.MicroDuration"), 1, "io.debezium.time.MicroDuration"),
        ("list<string>", typed("string"), "a", "has the type string and should be list<string>"),
        ("list<int>", typed("array", items=typed("string")), ["1"], "has the type string and should be int"),
        ("list<string>", typed("array", items=typed("string")), ["a", None], "null"),
        ("list<string>", typed("array"), ["a"], "array of unknown"),
    ],
)
def test_values_that_do_not_fit(kind: str, schema: Any, value: Any, said: str) -> None:
    """The message says the type that was found, and what helps."""
    with pytest.raises(ValueError, match=re.escape(said)):
        converter(kind, schema)(value)


def test_decimals_as_text_without_a_schema() -> None:
    """Only where the source says so: digits could also be bytes in base64."""
    assert converter("decimal(10,2)", None, texts_are_decimals=True)("1234") == 1234
    assert converter("decimal(10,2)?", None, texts_are_decimals=True)("0.5") == [Decimal("0.5")]


def test_placeholders() -> None:
    """Debezium derives those of bytes, arrays, UUIDs and maps from the text."""
    text = "__debezium_unavailable_value"
    found = placeholders(text)
    encoded = "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="
    named = uuid.UUID(bytes=hashlib.md5(text.encode(), usedforsecurity=False).digest(), version=3)
    for one in (text, encoded, [text], [encoded], list(text.encode()), [str(named)], {text: text}):
        assert one in found
