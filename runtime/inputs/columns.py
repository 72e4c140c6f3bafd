"""Convert the columns of sources to the program's types.

A column is converted as a whole if the readers of :mod:`.values` would certainly accept every value with the same
result. Otherwise its values are read one by one, which finds what is wrong, or that nothing is.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from types import NoneType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ..engines.arrow import arrow_type, optional_array, place_array, string_array
from ..kernel.sql import decimal_size, element_type, is_list, is_optional, plain_type
from ..kernel.values import shown
from .typed_values import FLOATING, reader, unfit_moment
from .values import BLANKS, INTEGER, Absent, Digits, InputShape, Unfit, read_operation

FORMS = {
    "int": INTEGER,
    "float": FLOATING,
    "bool": "(?i)true|false",
    "date": r"[0-9]{4}-[0-9]{2}-[0-9]{2}",
    "timestamp": r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?",
    "order": "[+-]?[0-9]{1,38}",
}
"""Text that Arrow parses as the readers do; other accepted forms are left to them."""

STAGED_TYPES = {"operation": "string", "order": "decimal(38,0)"}
"""The types as which operations and orders are staged."""

WRITTEN_AS_TEXT = ("string", "operation", "date", "timestamp", "order")
"""The types, besides decimals, whose values are text in JSON, or may be."""

NUMBERS = ("int", "float", "order")
"""The types, besides decimals, whose values are numbers in JSON, or may be."""


def read_column(column: Any, kind: str, shape: InputShape, text: bool, count: int) -> tuple[Any, dict[int, str]]:
    """Return a column of ``count`` values, as SourceRows has it, as an Arrow array of staged values, with nulls for
    those that do not fit; and the reasons of these, by place."""
    try:
        return whole_column(column, kind, shape, text, count), {}
    except (ValueError, OverflowError, pa.ArrowException):
        read, values, reasons = reader(kind, shape, text), [], {}
    for place, value in enumerate(objects_of(column, text, shape.exact, count)):
        try:
            values.append(read(value))
        except ValueError as error:
            values.append(None)
            reasons[place] = str(error)
    return pa.array(values, arrow_type(STAGED_TYPES.get(kind, kind))), reasons


def whole_column(column: Any, kind: str, shape: InputShape, text: bool, count: int) -> Any:
    """Convert a column of ``count`` values, as SourceRows has it, as a whole; raise as :func:`staged_values`."""
    if not isinstance(column, list):
        if column is None:
            return pa.repeat(string_array(["+"])[0], count)
        return (text_values if text else staged_values)(column, kind, shape)
    types, plain = {*map(type, column)}, plain_type(kind)
    if types == {Absent} and kind == "operation":
        return pa.repeat(string_array(["+"])[0], count)
    types.discard(NoneType)
    if types <= {str} and (text or plain in WRITTEN_AS_TEXT or plain.startswith("decimal")):
        return text_values(string_array(column), kind, shape)
    # Numbers of JSON are read like those in text; of other sources, ints have to be exact, and decimals may have to.
    if types <= {int, Digits, Decimal} and not shape.exact and (plain in NUMBERS or plain.startswith("decimal")):
        return text_values(string_array(None if v is None else str(v) for v in column), kind, shape)
    if types <= {bool} and plain == "bool":
        return staged_values(pa.array(column, pa.bool_()), kind, shape)
    raise ValueError("objects of other types")


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
    arrow_name = arrow_kind(column.type)
    if kind == "operation":
        return operations(column, shape)
    if kind == "order" and arrow_name in ("date", "timestamp"):
        moments = staged_values(column, arrow_name, shape).cast(pa.timestamp("us"))
        return moments.cast(pa.int64()).cast(arrow_type("decimal(38,0)"))
    if kind == "float":
        if arrow_name == "decimal" and shape.exact:
            raise ValueError("it may be rounded")
        numbers = (column.cast(pa.string()) if arrow_name == "decimal" else column).cast(pa.float64(), safe=False)
        if arrow_name == "int":
            check_unrounded(numbers, column)
        return finite(numbers)
    if kind.startswith("decimal") and arrow_name == "int":
        column = column.cast(pa.decimal128(38, decimal_size(kind)[1]))
    exact = shape.exact or arrow_name != "timestamp" or column.type.unit != "ns"
    return representable(column.cast(arrow_type(STAGED_TYPES.get(kind, kind)), safe=exact), kind)


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
    return representable(text.cast(arrow_type(STAGED_TYPES.get(kind, kind))), kind)


def decimal_form(precision: int, scale: int) -> str:
    """Return a pattern for decimals that fit; Arrow does not notice an overflow of 128 bits."""
    return rf"[+-]?[0-9]{{1,{max(precision - scale, 1)}}}" + (rf"(?:\.[0-9]{{1,{scale}}})?" if scale else "")


def operations(names: Any, shape: InputShape) -> Any:
    """Return how a column of operation names is staged."""
    encoded = names.dictionary_encode()
    signs = [read_operation(shape, name) for name in encoded.dictionary.to_pylist()]
    return string_array(signs).take(encoded.indices)


def finite(numbers: Any) -> Any:
    """Return finite doubles, with -0.0 as 0.0; raise ValueError if there are others."""
    numbers = pc.add(numbers, 0.0)
    if not pc.all(pc.is_finite(numbers), min_count=0).as_py():
        raise ValueError("not finite")
    return numbers


def check_unrounded(numbers: Any, column: Any) -> None:
    """Raise an error unless doubles are the integers of an Arrow column."""
    least_beyond = 2.0 ** (column.type.bit_width - pa.types.is_signed_integer(column.type))
    below = pc.all(pc.less(numbers, least_beyond), min_count=0).as_py()
    if not below or not numbers.cast(column.type).equals(column):
        raise ValueError("rounded")


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


def objects_of(column: Any, text: bool, exact: bool, count: int) -> list[Any]:
    """Return a column of ``count`` values, as SourceRows has it, as Python objects; ``exact`` as in InputShape."""
    if column is None:
        return [Absent.ABSENT] * count
    if isinstance(column, list):
        return column
    return column.to_pylist() if text else arrow_values(column, exact)


def values_at(column: Any, places: Sequence[int]) -> Any:
    """Return the values of a column, as SourceRows has it, at some places."""
    if column is None or isinstance(column, list):
        return column and [column[place] for place in places]
    try:
        return column.take(place_array(places))
    except pa.ArrowNotImplementedError:  # views of strings, for one
        return pa.concat_arrays([column.slice(0, 0), *(column.slice(place, 1) for place in places)])


def null_places(column: Any, nulls: bool = True, absent: bool = False) -> set[int]:
    """Return the places of the ``nulls`` in a column, as SourceRows has it, and of values that are ``absent``."""
    if isinstance(column, list):
        marks = [mark for mark, wanted in ((None, nulls), (Absent.ABSENT, absent)) if wanted]
        return {place for mark in marks for place, value in enumerate(column) if value is mark}
    if column is None or not nulls or not column.null_count:
        return set()
    return {place for place, null in enumerate(column.is_null().to_pylist()) if null}


def arrow_values(column: Any, exact: bool = False) -> list[Any]:
    """Return an Arrow column as Python objects, Unfit for a value that has none; timestamps are cut to microseconds,
    unless values are to be ``exact``."""
    try:
        # A dictionary does not check the numbers of its entries unless it is decoded.
        plain = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        # Only nanoseconds may be truncated; coarser units that overflow microseconds must fail.
        kept = plain.cast(in_micros(plain.type), safe=exact or not in_nanoseconds(plain.type))
        values: list[Any] = kept.to_pylist()
        return values
    except (ValueError, OverflowError, IndexError, pa.ArrowException):
        if len(column) > 1:
            parts = (column.slice(place, 1) for place in range(len(column)))
            return [value for part in parts for value in arrow_values(part, exact)]
    if arrow_kind(column.type).startswith("list<"):
        return [arrow_values(column.flatten(), exact)]
    return [unfit(column)]


def unfit(column: Any) -> Any:
    """Return the only value of an Arrow column that ``to_pylist`` rejects; Unfit if Python has no object for it."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        try:
            column = column.dictionary_decode()
        except IndexError:
            number = str(column.indices[0])
            return Unfit(number, f"entry {number} of a dictionary with {len(column.dictionary)}")
        return unfit(column)
    if arrow_kind(kind) == "string":
        return text_of(column.cast(pa.large_string()).view(pa.large_binary())[0].as_py())
    number = column.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64())[0].as_py()
    if pa.types.is_date(kind):
        return day_of(number if pa.types.is_date32(kind) else number // 86_400_000)
    if kind.unit == "ns":
        moment = datetime(1970, 1, 1) + timedelta(microseconds=number // 1000)
        return unfit_moment(f"{moment.isoformat(' ', 'microseconds')}{number % 1000:03}", finer=True)
    days, rest = divmod(number * {"s": 10**6, "ms": 1000, "us": 1}[kind.unit], 86_400_000_000)
    day, clock = day_of(days), datetime(1970, 1, 1) + timedelta(microseconds=rest)
    return datetime.combine(day, clock.time()) if isinstance(day, date) else unfit_moment(f"{day} {clock.time()}")


def day_of(number: int) -> date | Unfit:
    """Return the date ``number`` days after 1970-01-01; Unfit outside the years 1 to 9999."""
    # The calendar repeats every 400 years.
    cycles, days = divmod(number, 146_097)
    day = date(1970, 1, 1) + timedelta(days)
    year = day.year + 400 * cycles
    return day.replace(year=year) if 1 <= year <= 9999 else unfit_moment(f"{year:0{4 + (year < 0)}}{day:-%m-%d}")


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
