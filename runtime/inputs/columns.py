"""Convert Arrow columns of input files to the program's types, a column at a time.

A conversion succeeds only if the readers of :mod:`.values` would certainly accept every value with the same result.
Otherwise the caller reads the rows one by one, which finds what is wrong, or that nothing is.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ..arrow import arrow_type, optional_array, string_array
from ..sql import element_type, is_list, is_optional, plain_type
from .values import (
    BLANKS,
    FLOATING,
    INTEGER,
    InputShape,
    Unfit,
    beyond_years,
    decimal_size,
    read_operation,
    shown,
)

#: Text that Arrow parses as the readers do; other accepted forms are left to them.
FORMS = {
    "int": INTEGER,
    "float": FLOATING,
    "bool": "(?i)true|false",
    "date": r"[0-9]{4}-[0-9]{2}-[0-9]{2}",
    "timestamp": r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?",
    "order": "[+-]?[0-9]{1,38}",
}


def staged_values(column: Any, kind: str, shape: InputShape) -> Any:
    """Convert an Arrow column of an accepted type to staged values of type ``kind``. Raise ValueError, OverflowError or
    ArrowException unless the row readers would certainly accept every value with the same result."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if is_optional(kind):
        plain = plain_type(kind)
        if pa.types.is_null(column.type):
            return optional_array(pa.nulls(0, arrow_type(plain)), pa.repeat(False, len(column)))
        return optional_array(staged_values(column.drop_null(), plain, shape), column.is_valid())
    if column.null_count:
        raise ValueError("null")
    if is_list(kind):
        sizes = pc.list_value_length(column).cast(pa.int32())
        ends = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum_checked(sizes)])
        items = staged_values(column.flatten(), element_type(kind), shape)
        return pa.ListArray.from_arrays(ends, items)
    found = arrow_kind(column.type)
    if kind == "operation":
        return operations(column, shape)
    if kind == "order" and found in ("date", "timestamp"):
        moments = staged_values(column, found, shape).cast(pa.timestamp("us"))
        return moments.cast(pa.int64()).cast(arrow_type("decimal(38,0)"))
    if kind == "float":
        return finite((column.cast(pa.string()) if found == "decimal" else column).cast(pa.float64(), safe=False))
    if kind.startswith("decimal") and found == "int":
        column = column.cast(pa.decimal128(38, decimal_size(kind)[1]))
    # Nanoseconds are truncated to microseconds.
    exact = found != "timestamp" or column.type.unit != "ns"
    wanted = arrow_type("decimal(38,0)" if kind == "order" else kind)
    return representable(column.cast(wanted, safe=exact), kind)


def text_values(column: Any, kind: str, shape: InputShape) -> Any:
    """Convert a column of text, with NULL for empty fields, to staged values of type ``kind``; raise as
    :func:`staged_values`."""
    if is_optional(kind):
        return optional_array(text_values(column.drop_null(), plain_type(kind), shape), column.is_valid())
    if column.null_count or is_list(kind):
        raise ValueError("null, or a list")
    if kind == "string":
        return column
    text = pc.utf8_trim(column, characters=BLANKS)
    if kind == "operation":
        return operations(text, shape)
    form = FORMS.get(kind) or decimal_form(*decimal_size(kind))
    if not pc.all(pc.match_substring_regex(text, f"^(?:{form})$"), min_count=0).as_py():
        raise ValueError("another form")
    if kind == "bool":
        return pc.equal(pc.utf8_lower(text), "true")
    if kind not in ("date", "timestamp"):
        text = pc.replace_substring_regex(text, r"^\+", "")
    if kind == "float":
        return finite(text.cast(pa.float64()))
    return representable(text.cast(arrow_type("decimal(38,0)" if kind == "order" else kind)), kind)


def decimal_form(precision: int, scale: int) -> str:
    """Return a pattern for decimals that fit; Arrow does not notice an overflow of 128 bits."""
    return rf"[+-]?[0-9]{{1,{max(precision - scale, 1)}}}" + (rf"(?:\.[0-9]{{1,{scale}}})?" if scale else "")


def operations(names: Any, shape: InputShape) -> Any:
    """Return how a column of operation names is staged."""
    known = names.dictionary_encode()
    signs = [read_operation(shape, name) for name in known.dictionary.to_pylist()]
    return string_array(signs).take(known.indices)


def finite(numbers: Any) -> Any:
    """Return finite doubles, with -0.0 as 0.0; raise ValueError if there are others."""
    numbers = pc.add(numbers, 0.0)
    if not pc.all(pc.is_finite(numbers), min_count=0).as_py():
        raise ValueError("not finite")
    return numbers


def representable(column: Any, kind: str) -> Any:
    """Return a column; raise an error if Python cannot represent all of its values."""
    if kind == "string":
        column.validate(full=True)
    elif kind in ("date", "timestamp"):
        pc.min_max(column).as_py()  # fails outside the years 1 to 9999
    return column


def arrow_kind(kind: Any) -> str:
    """Return the value kind of an Arrow type; a type that no column accepts keeps its own name."""
    if pa.types.is_dictionary(kind):
        return arrow_kind(kind.value_type)
    if any(test(kind) for test in (pa.types.is_list, pa.types.is_large_list, pa.types.is_list_view)):
        return f"list<{arrow_kind(kind.value_type)}>"
    tests = {
        "bool": pa.types.is_boolean,
        "int": pa.types.is_integer,
        "float": pa.types.is_floating,
        "decimal": pa.types.is_decimal,
        "date": pa.types.is_date,
        "timestamp": pa.types.is_timestamp,
    }
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "string"
    return next((name for name, test in tests.items() if test(kind)), str(kind))


# Values one by one


def arrow_values(column: Any) -> list[Any]:
    """Return an Arrow column as Python objects, Unfit for a value that has none; timestamps are cut to microseconds."""
    try:
        # Only nanoseconds may be truncated; coarser units that overflow microseconds must fail.
        kept = column.cast(in_micros(column.type), safe=not in_nanoseconds(column.type))
        values: list[Any] = kept.to_pylist()
        return values
    except (ValueError, OverflowError, pa.ArrowException):
        if len(column) > 1:
            parts = (column.slice(place, 1) for place in range(len(column)))
            return [value for part in parts for value in arrow_values(part)]
    if arrow_kind(column.type).startswith("list<"):
        return [arrow_values(column.flatten())]
    return [unfit(column)]


def unfit(column: Any) -> Any:
    """Return the only value of an Arrow column that ``to_pylist`` rejects; Unfit if Python has no object for it."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return unfit(column.dictionary_decode())
    if arrow_kind(kind) == "string":
        return text_of(column.cast(pa.large_string()).view(pa.large_binary())[0].as_py())
    number = column.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64())[0].as_py()
    if pa.types.is_date(kind):
        return day_of(number if pa.types.is_date32(kind) else number // 86_400_000)
    days, rest = divmod(number * {"s": 10**6, "ms": 1000, "us": 1}[kind.unit], 86_400_000_000)
    day, clock = day_of(days), datetime(1970, 1, 1) + timedelta(microseconds=rest)
    return datetime.combine(day, clock.time()) if isinstance(day, date) else unfit_text(f"{day} {clock.time()}")


def day_of(number: int) -> date | Unfit:
    """Return the date ``number`` days after 1970-01-01; Unfit outside the years 1 to 9999."""
    # The calendar repeats every 400 years.
    cycles, days = divmod(number, 146_097)
    found = date(1970, 1, 1) + timedelta(days)
    year = found.year + 400 * cycles
    return found.replace(year=year) if 1 <= year <= 9999 else unfit_text(f"{year:0{4 + (year < 0)}}{found:-%m-%d}")


def unfit_text(text: str) -> Unfit:
    """Return the Unfit value for a date or timestamp outside the years 1 to 9999."""
    return Unfit(text, str(beyond_years(Unfit(text, ""))))


def text_of(content: bytes) -> str | Unfit:
    """Decode a string; Unfit if it is not UTF-8."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return Unfit(repr(content), f"{shown(Unfit(repr(content), ''))} is not UTF-8")


def in_micros(kind: Any) -> Any:
    """Return an Arrow type with its timestamps, those in lists included, in microseconds of UTC."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us")
    if arrow_kind(kind).startswith("list<"):
        element = in_micros(kind.value_type)
        return kind if element == kind.value_type else pa.list_(element)
    return kind


def in_nanoseconds(kind: Any) -> bool:
    """Return whether an Arrow type, or its element type, is a timestamp in nanoseconds."""
    if arrow_kind(kind).startswith("list<"):
        return in_nanoseconds(kind.value_type)
    return bool(pa.types.is_timestamp(kind) and kind.unit == "ns")
