"""The functions of the language as the oracle computes them: plain Python, by the words of the documentation.

A function takes values (lists are tuples) and returns one, or an :class:`Undefined` where it has none.
"""

from __future__ import annotations

import calendar
import hashlib
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal
from typing import Any


@dataclass(frozen=True)
class Undefined:
    """The value of an expression that has none, with the reason."""

    reason: str


INT = range(-(2**63), 2**63)
DAYS = range(date.min.toordinal(), date.max.toordinal() + 1)
LONGEST = 1_000_000
WIDE = Context(prec=500)


def none_of(reason: str) -> Undefined:
    """No value, for a reason."""
    return Undefined(reason)


def whole(value: int) -> Any:
    """An integer of 64 bits."""
    return value if value in INT else none_of("overflow")


# ---- lists ---------------------------------------------------------------------------------------------------------


def concat(one: Any, other: Any) -> Any:
    """Two lists, or an element and a list of such: the deeper list tells which."""
    if isinstance(one, tuple) and depth(one) >= depth(other):
        return one + other
    return (one, *other)


def depth(value: Any) -> int:
    """How deep lists are nested, as far as the elements tell."""
    return 1 + max(map(depth, value), default=0) if isinstance(value, tuple) else 0


def element_at(items: Any, place: int) -> Any:
    """The element at a place from 1, or from -1 backwards."""
    if place == 0 or abs(place) > len(items):
        return none_of("no such place")
    return items[place - 1 if place > 0 else place]


def slice_of(items: Any, place: int, number: int) -> Any:
    """So many elements from a place on."""
    if place == 0 or number < 0:
        return none_of("no such slice")
    if abs(place) > len(items):
        return items[:0]
    start = place - 1 if place > 0 else len(items) + place
    return items[start : start + number]


def position(items: Any, wanted: Any) -> int:
    """The place of an element, 0 if there is none."""
    return next((place for place, item in enumerate(items, 1) if item == wanted), 0)


# ---- strings -------------------------------------------------------------------------------------------------------


def substring(text: str, place: int, number: int = 2**70) -> str:
    """As SQL counts: characters before the beginning count, and are not there."""
    start = place - 1 if place > 0 else len(text) + place if place < 0 else 0
    return "".join(character for at, character in enumerate(text) if start <= at < start + number)


def ascii_case(text: str, first: str, change: int) -> str:
    """With 26 letters from ``first`` on moved."""
    return "".join(chr(ord(c) + change) if 0 <= ord(c) - ord(first) < 26 else c for c in text)


def translated(text: str, old: str, new: str) -> str:
    """With characters replaced, or left out."""
    return "".join(c if c not in old else new[old.index(c) : old.index(c) + 1] for c in text)


def padded(text: str, number: int, filling: str, left: bool) -> Any:
    """Cut or filled to a length."""
    if number > LONGEST:
        return none_of("too long")
    number = max(number, 0)
    missing = number - len(text)
    if missing <= 0:
        return text[:number]
    if not filling:
        return text
    added = (filling * (missing // len(filling) + 1))[:missing]
    return added + text if left else text + added


def part(text: str, separator: str, place: int) -> Any:
    """One part of a split."""
    if not separator or place == 0:
        return none_of("no such part")
    parts = text.split(separator)
    return element_at(parts, place) if abs(place) <= len(parts) else ""


# ---- numbers -------------------------------------------------------------------------------------------------------


def rounded(value: Any, way: str) -> Any:
    """A number as an int."""
    if isinstance(value, int):
        return int(value)
    return whole(int(WIDE.create_decimal(value).to_integral_value(rounding=way, context=WIDE)))


def nearest(value: float) -> float:
    """Halves away from 0."""
    return float(WIDE.create_decimal(value).to_integral_value(rounding=ROUND_HALF_UP, context=WIDE))


def pmod(value: int, divisor: int) -> Any:
    """The remainder that is not negative where the divisor is not."""
    if divisor == 0:
        return none_of("division by zero")
    remainder = int(math.copysign(1, value)) * (abs(value) % abs(divisor))
    return remainder + divisor if remainder < 0 < divisor else remainder


def as_int(value: Any) -> Any:
    """A whole number of a value."""
    if isinstance(value, str):
        return whole(int(value)) if re.fullmatch("[+-]?[0-9]+", value) else none_of("not an int")
    return rounded(value, ROUND_DOWN)


def as_float(value: Any) -> Any:
    """A float of a value."""
    if isinstance(value, str) and not re.fullmatch(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", value, re.ASCII):
        return none_of("not a float")
    found = float(value)
    return found if math.isfinite(found) else none_of("overflow")


def as_string(value: Any) -> str:
    """A value as text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


# ---- dates ---------------------------------------------------------------------------------------------------------


def moved(day: date, by: int) -> Any:
    """So many days later."""
    found = day.toordinal() + by
    return date.fromordinal(found) if found in DAYS else none_of("outside the calendar")


def seconds_later(moment: datetime, by: int) -> Any:
    """So many seconds later."""
    try:
        return moment + timedelta(seconds=by)
    except OverflowError:
        return none_of("outside the calendar")


def months_later(day: date, by: int) -> Any:
    """So many months later, at most the last day of the month."""
    year, month = divmod(day.year * 12 + day.month - 1 + by, 12)
    if not 1 <= year <= 9999:
        return none_of("outside the calendar")
    return date(year, month + 1, min(day.day, calendar.monthrange(year, month + 1)[1]))


def made(year: int, month: int, day: int) -> Any:
    """A date of its parts."""
    try:
        return date(year, month, day)
    except (ValueError, OverflowError):
        return none_of("no such day")


def as_date(value: Any) -> Any:
    """A date of text or of a moment."""
    if not isinstance(value, str):
        return value.date()
    found = re.fullmatch("([0-9]{4})-([0-9]{2})-([0-9]{2})", value)
    return made(*map(int, found.groups())) if found else none_of("no date")


def last_day(day: date) -> date:
    """The last day of the month."""
    return day.replace(day=calendar.monthrange(day.year, day.month)[1])


# ---- functions that users supply -----------------------------------------------------------------------------------


def external(function: Callable[..., Any]) -> Callable[..., Any]:
    """A user's function as the oracle calls functions: lists are tuples, and what fails has no value."""

    def call(*values: Any) -> Any:
        try:
            return returned(function(*map(listed, values)))
        except Exception as error:
            return none_of(repr(error))

    return call


def listed(value: Any) -> Any:
    """A value with lists for tuples."""
    return list(map(listed, value)) if isinstance(value, tuple) else value


def returned(value: Any) -> Any:
    """What a user's function has returned as a value of the language."""
    if isinstance(value, list | tuple):
        return tuple(map(returned, value))
    if value is None or (isinstance(value, int) and value not in INT):
        return none_of("it returned no value of the language")
    return value


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "f_init": lambda one, other: (one, other),
    "f_append": lambda one: (one,),
    "f_concat": concat,
    "f_concatPath": lambda one, items: (one, *items),
    "f_inPath": lambda items, one: one in items,
    "f_member": lambda items, one: int(one in items),
    "f_size": len,
    "f_first": lambda items: element_at(items, 1),
    "f_last": lambda items: element_at(items, -1),
    "size": len,
    "array_contains": lambda items, one: one in items,
    "array_position": position,
    "element_at": element_at,
    "slice": slice_of,
    "array_append": lambda items, one: (*items, one),
    "array_prepend": lambda items, one: (one, *items),
    "array_remove": lambda items, one: tuple(item for item in items if item != one),
    "array_distinct": lambda items: tuple(dict.fromkeys(items)),
    "array_sort": lambda items: tuple(sorted(items)),
    "array_min": lambda items: min(items) if items else none_of("empty list"),
    "array_max": lambda items: max(items) if items else none_of("empty list"),
    "arrays_overlap": lambda one, other: bool(set(one) & set(other)),
    "flatten": lambda items: tuple(one for item in items for one in item),
    "array_join": lambda items, between: between.join(items),
    "length": len,
    "upper": lambda text: ascii_case(text, "a", -32),
    "lower": lambda text: ascii_case(text, "A", 32),
    "trim": lambda text: text.strip(" "),
    "ltrim": lambda text: text.lstrip(" "),
    "rtrim": lambda text: text.rstrip(" "),
    "substring": substring,
    "left": lambda text, number: text[: max(number, 0)],
    "right": lambda text, number: text[max(len(text) - max(number, 0), 0) :],
    "concat": lambda *parts: "".join(parts) if isinstance(parts[0], str) else sum(parts, ()),
    "concat_ws": lambda between, *parts: between.join(parts),
    "replace": lambda text, old, new: text.replace(old, new) if old else text,
    "translate": translated,
    "reverse": lambda items: items[::-1],
    "repeat": lambda text, number: (
        text * max(number, 0) if len(text) * number <= LONGEST else none_of("too long") if text else ""
    ),
    "lpad": lambda text, number, filling: padded(text, number, filling, True),
    "rpad": lambda text, number, filling: padded(text, number, filling, False),
    "instr": lambda text, wanted: text.find(wanted) + 1,
    "startswith": lambda text, wanted: text.startswith(wanted),
    "endswith": lambda text, wanted: text.endswith(wanted),
    "contains": lambda text, wanted: wanted in text,
    "split": lambda text, separator: tuple(text.split(separator)) if separator else none_of("empty separator"),
    "split_part": part,
    "ascii": lambda text: ord(text[0]) if text else 0,
    "md5": lambda text: hashlib.md5(text.encode()).hexdigest(),
    "abs": lambda value: (
        whole(abs(value)) if isinstance(value, int) else value.copy_abs() if isinstance(value, Decimal) else abs(value)
    ),
    "sign": lambda value: (value > 0) - (value < 0),
    "floor": lambda value: rounded(value, ROUND_FLOOR),
    "ceil": lambda value: rounded(value, ROUND_CEILING),
    "round": nearest,
    "sqrt": lambda value: math.sqrt(value) if value >= 0 else none_of("root of a negative number"),
    "pmod": pmod,
    "greatest": lambda *values: max(values),
    "least": lambda *values: min(values),
    "bit_count": lambda value: (value % 2**64).bit_count(),
    "year": lambda day: day.year,
    "quarter": lambda day: (day.month + 2) // 3,
    "month": lambda day: day.month,
    "day": lambda day: day.day,
    "dayofyear": lambda day: day.timetuple().tm_yday,
    "dayofweek": lambda day: day.isoweekday() % 7 + 1,
    "weekday": lambda day: day.weekday(),
    "weekofyear": lambda day: day.isocalendar().week,
    "hour": lambda moment: moment.hour,
    "minute": lambda moment: moment.minute,
    "second": lambda moment: moment.second,
    "last_day": last_day,
    "date_add": moved,
    "date_sub": lambda day, by: moved(day, -by),
    "add_months": months_later,
    "add_seconds": seconds_later,
    "datediff": lambda one, other: (one - other) // timedelta(days=1),
    "unix_date": lambda day: (day - date(1970, 1, 1)) // timedelta(days=1),
    "make_date": made,
    "to_date": as_date,
    "int": as_int,
    "float": as_float,
    "string": as_string,
}
