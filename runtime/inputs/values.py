"""Convert input values to the program's types, without rounding or guessing."""

from __future__ import annotations

import contextlib
import functools
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, InvalidOperation
from enum import Enum
from typing import Any, Protocol

from ..model import Column, Relation
from ..sql import element_type, is_list, is_optional, plain_type

OPERATIONS = {
    "+": "+",
    "insert": "+",
    "upsert": "+",
    "update": "+",
    "c": "+",
    "r": "+",
    "u": "+",
    "update_postimage": "+",
    "-": "-",
    "delete": "-",
    "d": "-",
    "update_preimage": "-",
}

NEED_KEY = ("update", "u")  # these do not say which row they replace

IMAGES = {"update_preimage": "<", "update_postimage": ">"}
"""How the two halves of an update are staged until contradictions have been checked."""

OPERATION_NAMES = (
    "action",
    "actiontype",
    "cdcop",
    "cdcoperation",
    "cdctype",
    "change",
    "changekind",
    "changeop",
    "changeoperation",
    "changetype",
    "delete",
    "deleted",
    "dml",
    "dmlop",
    "dmltype",
    "isdeleted",
    "op",
    "opcode",
    "operation",
    "operationtype",
    "ops",
    "optype",
    "rowkind",
)
"""Usual names of operation columns, in lower case and without punctuation."""

REMOVE_KEY = "x"  # in staged changes of a relation with a primary key: remove any row with this key

Reader = Callable[[Any], Any]

BLANKS = " \t\r\n"

INTEGER = r"[+-]?[0-9]+"

EXACT = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"

FLOATING = EXACT + r"(?:[eE][+-]?[0-9]+)?"

DAY = r"(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}"

MOMENT = DAY + r"[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?"

ZONE = r"(?:Z|[+-][0-9]{2}:[0-9]{2})"


class Absent(Enum):
    """The marker for a value that a row does not have at all, as opposed to None for a null."""

    ABSENT = "absent"


@dataclass(frozen=True)
class Unfit:
    """A value of a typed source that Python has no object for: its text, and why it is refused."""

    text: str
    reason: str

    def __str__(self) -> str:
        """Return the text for messages."""
        return self.text


class Unreadable(str):
    """Why a record has no values, with its ``raw`` text or fields. The records after it are found."""

    raw: Any

    def __new__(cls, message: str, raw: Any) -> Unreadable:
        """Return the message with the record."""
        made = super().__new__(cls, message)
        made.raw = raw
        return made


class BadRows(Protocol):
    """Takes bad rows."""

    def add(self, relation: Relation, file: str, row: int, found: Sequence[tuple[str, str]], values: Any) -> None:
        """Take a row: its number, 0 if it has none; by column, empty for the whole row, what is wrong; and the values
        by column, or what is there instead."""


class Sequences(Protocol):
    """The sequences of keys, which changes are netted by. After that, it has what a batch makes of them, as in
    KeptSequences."""

    records: dict[str, Any]
    staged: dict[str, list[str]]
    relations: list[Relation]
    late: Counter[str]

    def net(self, files: Any, folder: Any, shape: InputShape, problems: Any) -> Any:
        """Net the changes staged in ``folder``, and return the folder with the result."""


@dataclass(frozen=True)
class InputShape:
    """The columns to read from a source: the relation's columns, the operation and, if changes are ordered, their
    order.

    ``net`` is ``insert`` if a row that an unordered batch deletes and inserts is to stay; otherwise such a batch is
    refused. With ``all_inserts``, all rows of a source without operations are insertions, and no column of ``initial``
    rows is taken for their operation, whatever its name.

    Rows with a null in a column that is never null are refused, or counted in ``left_out``. If changes come with
    ``whole_rows``, before and after, both sides are left out alike. With ``numbered``, a row that is left out is staged
    as nulls, so that the numbers of the others tell their places. Rows with other values that do not fit are
    refused, or set ``aside``. With ``sequences`` of the relation's keys, a deletion needs the key only.
    """

    relation: Relation
    operation: str
    order: str
    initial: bool
    net: str = ""
    all_inserts: bool = False
    left_out: Counter[str] | None = None
    whole_rows: bool = False
    numbered: bool = False
    aside: BadRows | None = None
    sequences: Sequences | None = None

    @property
    def names(self) -> list[str]:
        """Return the columns to look for; all but the operation are required."""
        columns = [column.name for column in self.relation.columns]
        return [*columns, self.operation, *([self.order] if self.order else [])]

    @property
    def types(self) -> list[str]:
        """Return the types of ``names``: those of the columns, ``operation`` and ``order``."""
        columns = [column.type for column in self.relation.columns]
        return [*columns, "operation", *(["order"] if self.order else [])]

    @property
    def staged(self) -> list[Column]:
        """Return the columns of the staged file."""
        columns = [*self.relation.row_columns, Column("_op", "string", "_op")]
        return [*columns, Column("_order", "decimal(38,0)", "_order")] if self.order else columns

    @property
    def operations(self) -> dict[str, str]:
        """Return the accepted operations in lower case, with the signs by which they are staged."""
        known = {k: v for k, v in OPERATIONS.items() if self.relation.key or k not in NEED_KEY}
        if self.initial:
            return {name: sign for name, sign in known.items() if sign == "+"}
        return known if self.order or self.net else {**known, **IMAGES}


@functools.cache
def json_decoder() -> json.JSONDecoder:
    """Return a JSON decoder that keeps numbers exact."""
    return json.JSONDecoder(
        parse_float=exact_number,
        parse_int=whole_number,
        parse_constant=refuse_constant,
        object_pairs_hook=distinct_members,
    )


def exact_number(digits: str) -> Decimal | float:
    """Parse a number with a point or an exponent; as a float if its exponent exceeds that of any Decimal."""
    try:
        return Decimal(digits)
    except InvalidOperation:
        return float(digits)


def whole_number(digits: str) -> int | Decimal:
    """Parse a number without a point; as a Decimal if it is long, since Python limits the digits of ``int()``."""
    return int(digits) if len(digits) < 100 else Decimal(digits)


def refuse_constant(name: str) -> None:
    """Raise ValueError for NaN and infinity, which JSON does not have but Python accepts."""
    raise ValueError(f"{name} is not a JSON value")


def distinct_members(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; raise ValueError if two members have the same name."""
    record = dict(members)
    if len(record) != len(members):
        raise ValueError("two members have the same name")
    return record


# Values


def reader(type_name: str, shape: InputShape, text: bool) -> Reader:
    """Return a function that converts a source value to the staged one, or raises ValueError with the reason.

    ``text`` says that all values of the source are text, as in CSV.
    """
    if type_name == "operation":
        return functools.partial(read_operation, shape)
    return value_reader(type_name, text)


def value_reader(type_name: str, text: bool = False) -> Reader:
    """Return a function that converts the value of a column, or an order, or raises ValueError with the reason."""
    if is_optional(type_name):
        return functools.partial(read_optional, value_reader(plain_type(type_name), text))
    if type_name == "string":
        return read_string_field if text else read_string
    if is_list(type_name):
        return functools.partial(read_list, value_reader(element_type(type_name)), text)
    convert = {
        "int": read_int,
        "float": read_float,
        "bool": read_bool,
        "date": read_date,
        "timestamp": read_timestamp,
        "order": read_order,
    }.get(type_name)
    if convert is None:
        convert = functools.partial(read_decimal, *decimal_size(type_name))
    from_text = text or type_name.startswith(("decimal", "date", "timestamp", "order"))
    return functools.partial(read_value, convert, from_text)


def decimal_size(type_name: str) -> tuple[int, int]:
    """Return precision and scale of ``decimal(p,s)``."""
    precision, scale = re.findall("[0-9]+", type_name)
    return int(precision), int(scale)


def read_value(convert: Reader, from_text: bool, value: Any) -> Any:
    """Convert a value that must be present; accept text only if the format has no native form for the type."""
    check_present(value)
    if isinstance(value, str):
        if not from_text:
            raise ValueError(f"{shown(value)} is text in quotes")
        value = value.strip(BLANKS)
    return convert(value)


def check_present(value: Any) -> None:
    """Raise ValueError if a value is absent, null or Unfit."""
    if value is Absent.ABSENT or value is None:
        raise ValueError("null" if value is None else "missing")
    if isinstance(value, Unfit):
        raise ValueError(value.reason)


def shown(value: object) -> str:
    """Return a value as text for messages, at most 60 characters of it."""
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def wrong_type(value: object, type_name: str) -> ValueError:
    """Return the error for a value of another type."""
    return ValueError(f"{shown(value)} is not {'an' if type_name == 'int' else 'a'} {type_name}")


def read_string_field(value: Any) -> str:
    """Read a string from a CSV field."""
    if value is None:
        raise ValueError('null (write "" for an empty string)')
    return read_string(value)


def read_string(value: Any) -> str:
    """Read a string; raise ValueError if it cannot be encoded as UTF-8."""
    check_present(value)
    if not isinstance(value, str):
        raise wrong_type(value, "string")
    try:
        value.isascii() or value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"half of a surrogate pair at character {error.start + 1}") from error
    return value


def read_int(value: Any) -> int:
    """Read a 64-bit integer."""
    if isinstance(value, str) and re.fullmatch(INTEGER, value):
        value = whole_number(value)
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole and not (isinstance(value, Decimal) and value == value.to_integral_value()):
        raise wrong_type(value, "int")
    if not -(2**63) <= value < 2**63:
        raise ValueError(f"{shown(value)} does not fit 64 bits")
    return int(value)


def read_float(value: Any) -> float:
    """Read a finite double, with -0.0 as 0.0."""
    if isinstance(value, bool) or (isinstance(value, str) and not re.fullmatch(FLOATING, value)):
        raise wrong_type(value, "float")
    try:
        number = float(value)
    except (TypeError, OverflowError, ValueError) as error:
        raise wrong_type(value, "float") from error
    if not math.isfinite(number):
        raise ValueError(f"{shown(value)} is not a finite float")
    return number or 0.0


def read_decimal(precision: int, scale: int, value: Any) -> Decimal:
    """Read a decimal whose digits fit the precision and scale; nothing is rounded."""
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
    return exact


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


def read_optional(read: Reader, value: Any) -> list[Any]:
    """Read a value that may be null, as it is stored: a list with the value, or an empty one for null."""
    return [] if value is None else [read(value)]


def plain_value(value: Any, kind: str) -> Any:
    """Return a stored value of type ``kind`` as users see it: None for null."""
    return (value[0] if value else None) if is_optional(kind) else value


def stored_value(value: Any, kind: str) -> Any:
    """Return a value of type ``kind``, None for null, as it is stored."""
    return ([] if value is None else [value]) if is_optional(kind) else value


def plain_row(columns: Sequence[Column], row: Sequence[Any]) -> tuple[Any, ...]:
    """Return stored values of columns as users see them."""
    return tuple(plain_value(value, column.type) for value, column in zip(row, columns, strict=True))


def stored_row(columns: Sequence[Column], row: Sequence[Any]) -> tuple[Any, ...]:
    """Return values of columns, None for null, as they are stored."""
    return tuple(stored_value(value, column.type) for value, column in zip(row, columns, strict=True))


def hashable(value: Any) -> Any:
    """Return a value with its lists as tuples."""
    return tuple(map(hashable, value)) if isinstance(value, list) else value


def read_bool(value: Any) -> bool:
    """Read a boolean; in text, true or false."""
    known = {"true": True, "false": False}.get(value.lower()) if isinstance(value, str) else value
    if not isinstance(known, bool):
        raise wrong_type(value, "bool")
    return known


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
        return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
    except OverflowError as error:
        raise beyond_years(value) from error


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


def read_operation(shape: InputShape, value: Any) -> str:
    """Return the sign by which an operation is staged; a row without an operation is an insertion."""
    if value is Absent.ABSENT:
        return "+"
    if not isinstance(value, str):
        raise ValueError("null" if value is None else f"unknown operation {shown(value)}")
    name = value.strip(BLANKS).lower()
    if name in shape.operations:
        return shape.operations[name]
    if OPERATIONS.get(name) == "-":
        raise ValueError(f"{shown(value)} in the initial rows, where there is nothing to delete")
    if name in OPERATIONS:
        raise ValueError(f"{shown(value)} of a relation without a primary key; delete the old row, insert the new one")
    raise ValueError(f"unknown operation {shown(value)}")
