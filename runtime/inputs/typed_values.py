"""Convert input values of types that not all programs have: all but int and string."""

from __future__ import annotations

import contextlib
import math
import re
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, InvalidOperation
from functools import partial
from typing import Any

from ..kernel.sql import decimal_size, element_type
from ..kernel.values import shown
from .values import (
    INTEGER,
    READERS,
    Digits,
    InputShape,
    Reader,
    Unfit,
    check_present,
    json_decoder,
    read_operation,
    read_value,
    value_reader,
    wrong_type,
)

EXACT = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"

FLOATING = EXACT + r"(?:[eE][+-]?[0-9]+)?"

DAY = r"(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}"

MOMENT = DAY + r"[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?"

ZONE = r"(?:Z|[+-][0-9]{2}:[0-9]{2})"


def read_float(value: Any, exact: bool = False) -> float:
    """Read a finite double, with -0.0 as 0.0. An int has to be one. Of text and decimals it is the nearest one, which
    is printed as the decimal if that is to be ``exact``."""
    readable = isinstance(value, int | float | Decimal | str) and not isinstance(value, bool)
    if not readable or (isinstance(value, str) and not re.fullmatch(FLOATING, value)):
        raise wrong_type(value, "float")
    try:
        number = float(value)
    except (OverflowError, ValueError) as error:
        raise wrong_type(value, "float") from error
    if not math.isfinite(number):
        raise ValueError(f"{shown(value)} is not a finite float")
    whole = isinstance(value, int) and not isinstance(value, Digits) and number != value
    if whole or (exact and isinstance(value, Decimal) and Decimal(repr(number)) != value):
        raise ValueError(f"{shown(value)} is not a float; the nearest one is {number!r}")
    return number or 0.0


def read_decimal(precision: int, scale: int, value: Any) -> Decimal:
    """Read a decimal whose digits fit the precision and scale; nothing is rounded, and -0 is 0."""
    type_name = f"decimal({precision},{scale})"
    if isinstance(value, str) and re.fullmatch(EXACT, value):
        value = Decimal(value)
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise wrong_type(value, type_name)
    try:
        exact = Decimal(value).quantize(Decimal(1).scaleb(-scale), context=Context(prec=precision))
    except InvalidOperation as error:
        raise ValueError(f"{shown(value)} has too many digits for {type_name}") from error
    if exact != value:
        raise ValueError(f"{shown(value)} has too many digits for {type_name}")
    return exact or exact.copy_abs()


def read_list(read: Reader, text: bool, value: Any) -> list[Any]:
    """Read a list; in text, a JSON array."""
    check_present(value)
    if text:
        try:
            value = json_decoder().decode(value)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{shown(value)} is not a JSON array") from error
    if not isinstance(value, list):
        raise wrong_type(value, "list")
    items = []
    for number, item in enumerate(value, start=1):
        try:
            items.append(read(item))
        except ValueError as error:
            raise ValueError(f"element {number}: {error}") from error
    return items


def read_bool(value: Any) -> bool:
    """Read a boolean; in text, true or false."""
    truth = {"true": True, "false": False}.get(value.lower()) if isinstance(value, str) else value
    if not isinstance(truth, bool):
        raise wrong_type(value, "bool")
    return truth


def read_date(value: Any) -> date:
    """Read a date; in text, YYYY-MM-DD."""
    if isinstance(value, str) and re.fullmatch(DAY, value):
        with contextlib.suppress(ValueError):
            return date.fromisoformat(value)
    if not isinstance(value, date) or isinstance(value, datetime):
        raise wrong_type(value, "date")
    return value


def read_timestamp(value: Any) -> datetime:
    """Read a timestamp; in text, YYYY-MM-DD HH:MM:SS, in UTC unless it has a time zone."""
    moment = value
    if isinstance(value, str) and re.fullmatch(f"{MOMENT}{ZONE}?", value):
        with contextlib.suppress(ValueError):
            moment = datetime.fromisoformat(value)
    if not isinstance(moment, datetime):
        raise wrong_type(value, "timestamp")
    try:
        # A time zone that knows no offset does not make it another moment.
        aware = moment.utcoffset() is not None
        return moment.astimezone(UTC).replace(tzinfo=None) if aware else moment.replace(tzinfo=None)
    except OverflowError as error:
        raise beyond_years(value) from error


def unfit_moment(text: str, finer: bool = False) -> Unfit:
    """Return the Unfit value for a date or timestamp outside the years 1 to 9999, or ``finer`` than microseconds."""
    return Unfit(text, f"{text} is finer than microseconds" if finer else str(beyond_years(Unfit(text, ""))))


def beyond_years(value: object) -> ValueError:
    """Return the error for a date or timestamp outside the years 1 to 9999 in UTC."""
    return ValueError(f"{shown(value)} is not in the years 1 to 9999 in UTC")


def read_order(value: Any) -> int:
    """Read the order of a change: a whole number, or a timestamp as microseconds since 1970."""
    if isinstance(value, str) and re.fullmatch(INTEGER, value):
        value = Decimal(value)
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        if -(10**38) < value < 10**38 and value == int(value):
            return int(value)
        raise wrong_type(value, "whole number or timestamp")
    if isinstance(value, str) and re.fullmatch(DAY, value):
        value = f"{value} 00:00"
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, datetime.min.time())
    try:
        return (read_timestamp(value) - datetime(1970, 1, 1)) // timedelta(microseconds=1)
    except ValueError as error:
        beyond = isinstance(error.__cause__, OverflowError)
        raise error if beyond else wrong_type(value, "whole number or timestamp") from error


def reader(type_name: str, shape: InputShape, text: bool) -> Reader:
    """Return a function that converts a source value to the staged one, or raises ValueError with the reason; ``text``
    is as for :func:`value_reader`."""
    if type_name == "operation":
        return partial(read_operation, shape)
    if type_name == "order":
        return partial(read_value, read_order, True)
    return value_reader(type_name, text, shape.exact)


READERS.update(
    float=lambda kind, text, exact: partial(read_value, partial(read_float, exact=exact), text),
    decimal=lambda kind, text, exact: partial(read_value, partial(read_decimal, *decimal_size(kind)), True),
    list=lambda kind, text, exact: partial(read_list, value_reader(element_type(kind), exact=exact), text),
    bool=lambda kind, text, exact: partial(read_value, read_bool, text),
    date=lambda kind, text, exact: partial(read_value, read_date, True),
    timestamp=lambda kind, text, exact: partial(read_value, read_timestamp, True),
)
