"""The functions of the language, and lists."""

from __future__ import annotations

import calendar
import functools
import hashlib
import json
import math
import re
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP
from typing import Any

from ..kernel.sql import decimal_size, is_list, is_optional
from .encodings import SQL_FUNCTIONS, finite_float, whole_int
from .lists import comparable, stored_list
from .units import WIDE, as_decimal, stored_units, units_of

LONGEST = 1_000_000
"""The most characters of a text that a function makes."""


def rounded(value: Any, kind: str, way: str) -> int | None:
    """Return a number as an int."""
    return whole_int(value if kind == "int" else int(as_decimal(value, kind).to_integral_value(way, WIDE)))


def element_at(items: Any, place: int) -> Any:
    """Return the item at a place from 1, or from -1 backwards."""
    return None if not 0 < abs(place) <= len(items) else items[place - 1 if place > 0 else place]


def slice_of(items: Any, place: int, number: int) -> Any:
    """Return so many items from a place on."""
    if place == 0 or number < 0:
        return None
    start = place - 1 if place > 0 else len(items) + place
    return items[start : start + number] if abs(place) <= len(items) else []


def substring(text: str, place: int, number: int = 2**63) -> str:
    """Return characters as SQL counts them: those before the beginning count, and are not there."""
    start = place - 1 if place > 0 else len(text) + place if place < 0 else 0
    return text[max(start, 0) : max(start + max(number, 0), 0)]


def moved_case(text: str, first: str, change: int) -> str:
    """Return a text with the 26 letters from ``first`` on moved."""
    return "".join(chr(ord(c) + change) if 0 <= ord(c) - ord(first) < 26 else c for c in text)


def translated(text: str, old: str, new: str) -> str:
    """Return a text with characters replaced, or left out."""
    return "".join(c if c not in old else new[old.index(c) : old.index(c) + 1] for c in text)


def padded_text(text: str, number: int, filling: str, left: bool) -> str | None:
    """Return a text cut or filled to a length."""
    if number > LONGEST:
        return None
    missing = max(number, 0) - len(text)
    if missing <= 0 or not filling:
        return text[: max(number, 0)]
    added = (filling * (missing // len(filling) + 1))[:missing]
    return added + text if left else text + added


def split_part(text: str, separator: str, place: int) -> str | None:
    """Return one of the parts of a text."""
    if not separator or place == 0:
        return None
    parts = text.split(separator)
    return str(element_at(parts, place)) if abs(place) <= len(parts) else ""


def repeated(text: str, number: int) -> str | None:
    """Return a text several times."""
    number = max(number, 0)
    return None if len(text) * min(number, LONGEST + 1) > LONGEST else text * (number if text else 0)


def text_int(text: str) -> int | None:
    """Return the int in a text."""
    return whole_int(int(text)) if re.fullmatch("[+-]?[0-9]{1,4000}", text) else None


def floating(text: str) -> float | None:
    """Return the float in a text."""
    form = r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?"
    return finite_float(float(text)) if re.fullmatch(form, text) else None


def stored_day(value: str) -> date:
    """Return the day of a stored date or timestamp."""
    return date.fromisoformat(value[:10])


def seconds_later(value: str, seconds: int) -> str | None:
    """Return the timestamp so many seconds later, None if that is not in the years 1 to 9999."""
    try:
        return (datetime.fromisoformat(value) + timedelta(seconds=seconds)).isoformat(" ", "microseconds")
    except OverflowError:
        return None


def days_later(value: str, days: int) -> str | None:
    """Return a date so many days later."""
    number = stored_day(value).toordinal() + days
    return date.fromordinal(number).isoformat() if 1 <= number <= date.max.toordinal() else None


def months_later(value: str, months: int) -> str | None:
    """Return a date so many months later, at most on the last day of the month."""
    day = stored_day(value)
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    return made_date(year, month + 1, min(day.day, month_days(year, month + 1))) if 1 <= year <= 9999 else None


def month_days(year: int, month: int) -> int:
    """Return how many days a month has."""
    return calendar.monthrange(year, month)[1]


def made_date(year: int, month: int, day: int) -> str | None:
    """Return a date of its parts, if there is such a day."""
    try:
        return date(year, month, day).isoformat()
    except (ValueError, OverflowError):
        return None


def text_date(text: str) -> str | None:
    """Return the date in a text."""
    found = re.fullmatch("([0-9]{4})-([0-9]{2})-([0-9]{2})", text)
    return made_date(*map(int, found.groups())) if found else None


def last_day(value: str) -> str:
    """Return the last day of a month."""
    day = stored_day(value)
    return day.replace(day=month_days(day.year, day.month)).isoformat()


UNTYPED_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "f_init": lambda one, other: [one, other],
    "f_append": lambda one: [one],
    "f_concatPath": lambda one, items: [one, *items],
    "f_inPath": lambda items, one: one in items,
    "f_member": lambda items, one: one in items,
    "f_size": len,
    "f_first": lambda items: element_at(items, 1),
    "f_last": lambda items: element_at(items, -1),
    "size": len,
    "array_contains": lambda items, one: one in items,
    "array_position": lambda items, one: items.index(one) + 1 if one in items else 0,
    "element_at": element_at,
    "slice": slice_of,
    "array_append": lambda items, one: [*items, one],
    "array_prepend": lambda items, one: [one, *items],
    "array_remove": lambda items, one: [item for item in items if item != one],
    "array_distinct": lambda items: [item for place, item in enumerate(items) if items.index(item) == place],
    "array_sort": sorted,
    "array_min": lambda items: min(items, default=None),
    "array_max": lambda items: max(items, default=None),
    "arrays_overlap": lambda one, other: any(item in other for item in one),
    "flatten": lambda items: [one for item in items for one in item],
    "array_join": lambda items, between: between.join(items),
    "length": len,
    "upper": lambda text: moved_case(text, "a", -32),
    "lower": lambda text: moved_case(text, "A", 32),
    "trim": lambda text: text.strip(" "),
    "ltrim": lambda text: text.lstrip(" "),
    "rtrim": lambda text: text.rstrip(" "),
    "substring": substring,
    "left": lambda text, number: text[: max(number, 0)],
    "right": lambda text, number: text[max(len(text) - max(number, 0), 0) :],
    "concat_ws": lambda between, *texts: between.join(texts),
    "replace": lambda text, old, new: text.replace(old, new) if old else text,
    "translate": translated,
    "reverse": lambda items: items[::-1],
    "repeat": repeated,
    "lpad": lambda text, number, filling: padded_text(text, number, filling, True),
    "rpad": lambda text, number, filling: padded_text(text, number, filling, False),
    "instr": lambda text, wanted: text.find(wanted) + 1,
    "startswith": lambda text, wanted: text.startswith(wanted),
    "endswith": lambda text, wanted: text.endswith(wanted),
    "contains": lambda text, wanted: wanted in text,
    "split": lambda text, separator: text.split(separator) if separator else None,
    "split_part": split_part,
    "ascii": lambda text: ord(text[0]) if text else 0,
    "md5": lambda text: hashlib.md5(text.encode(), usedforsecurity=False).hexdigest(),
    "bit_count": lambda value: (value % 2**64).bit_count(),
    "year": lambda value: stored_day(value).year,
    "quarter": lambda value: (stored_day(value).month + 2) // 3,
    "month": lambda value: stored_day(value).month,
    "day": lambda value: stored_day(value).day,
    "dayofyear": lambda value: stored_day(value).timetuple().tm_yday,
    "dayofweek": lambda value: stored_day(value).isoweekday() % 7 + 1,
    "weekday": lambda value: stored_day(value).weekday(),
    "weekofyear": lambda value: stored_day(value).isocalendar().week,
    "hour": lambda value: int(value[11:13]),
    "minute": lambda value: int(value[14:16]),
    "second": lambda value: int(value[17:19]),
    "last_day": last_day,
    "date_add": days_later,
    "date_sub": lambda value, days: days_later(value, -days),
    "add_months": months_later,
    "add_seconds": seconds_later,
    "datediff": lambda one, other: (stored_day(one) - stored_day(other)) // timedelta(days=1),
    "unix_date": lambda value: (stored_day(value) - date(1970, 1, 1)) // timedelta(days=1),
    "make_date": made_date,
    "or_null?": lambda value: value,
    "in_set": lambda items, one: one in items,
    "pick": lambda chosen, of, one: sorted([*chosen, one]) if one in of else chosen,
    "set_of": lambda items: sorted({*items}),
}
"""The functions whose values do not depend on types."""


def pmod(value: int, divisor: int) -> int | None:
    """Return the remainder that is not negative where the divisor is not."""
    if not divisor:
        return None
    left = abs(value) % abs(divisor) * (1 if value >= 0 else -1)
    return left + divisor if left < 0 < divisor else left


def typed_function(name: str, kinds: list[str]) -> Callable[..., Any]:
    """Return a function for arguments of types, the last of which is that of its value."""
    first, result = kinds[0], kinds[-1]
    match name:
        case "f_concat" if kinds[0] != kinds[1]:
            return lambda one, items: [one, *items]
        case "f_concat" | "concat" if is_list(result):
            return lambda *lists: [item for items in lists for item in items]
        case "concat":
            return lambda *texts: "".join(texts)
        case "greatest" | "least":
            return max if name == "greatest" else min
        case "abs":
            if first[0] == "d":
                return lambda value: stored_units(abs(units_of(value)), decimal_size(result)[0])
            return lambda value: whole_int(abs(value)) if first == "int" else abs(value)
        case "sign":
            return lambda value: (as_decimal(value, first) > 0) - (as_decimal(value, first) < 0)
        case "floor" | "ceil":
            way = ROUND_FLOOR if name == "floor" else ROUND_CEILING
            return lambda value: rounded(value, first, way)
        case "round":
            return lambda value: finite_float(float(as_decimal(value, first).to_integral_value(ROUND_HALF_UP, WIDE)))
        case "sqrt":
            return lambda value: math.sqrt(value) + 0.0 if value >= 0 else None
        case "pmod":
            return pmod
        case "int":
            if first == "string":
                return text_int
            return lambda value: int(value) if first == "bool" else rounded(value, first, ROUND_DOWN)
        case "float":
            return floating if first == "string" else lambda value: value
        case "string":
            if first == "bool":
                return lambda value: "true" if value else "false"
            return (lambda value: f"{as_decimal(value, first):f}") if first[0:2] == "de" else str
        case "to_date":
            return text_date if first == "string" else lambda value: value[:10]
    return UNTYPED_FUNCTIONS[name]


@functools.cache
def function_of(name: str, kinds: str) -> Callable[..., Any]:
    """Return a function of stored values, given the types of its arguments and of its value."""
    types = kinds.split("|")
    function = typed_function(name, types)
    lists = [is_list(kind) for kind in types[:-1]]
    makes_list, compares = is_list(types[-1]), name in ("greatest", "least")

    def call(*values: Any) -> Any:
        if None in values:
            return None
        if compares and (lists[0] or is_optional(types[0])):
            return function(values, key=comparable)
        taken = [json.loads(value) if listed else value for value, listed in zip(values, lists, strict=True)]
        result = function(*taken)
        return stored_list(result) if makes_list and result is not None else nested(result)

    return call


def nested(value: Any) -> Any:
    """Return an item of a list as it is stored."""
    return stored_list(value) if isinstance(value, list) else int(value) if isinstance(value, bool) else value


def call(name: str, kinds: str, *values: Any) -> Any:
    """Return the value of a function."""
    return function_of(name, kinds)(*values)


def list_of(kind: str, *items: Any) -> str | None:
    """Return a list of items."""
    if None in items:
        return None
    inner = kind.removeprefix("list<").removesuffix(">")
    return stored_list(json.loads(item) for item in items) if is_list(inner) else stored_list(items)


def joined_lists(one: str | None, other: str | None) -> str | None:
    """Return two lists as one."""
    return None if one is None or other is None else stored_list([*json.loads(one), *json.loads(other)])


SQL_FUNCTIONS.update(_call=(-1, call), _list=(-1, list_of), _joined=(2, joined_lists))
