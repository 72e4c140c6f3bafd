"""Convert input values to the program's types, without rounding or guessing."""

from __future__ import annotations

import functools
import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from enum import Enum
from typing import Any, Protocol

from ..kernel.errors import JobError
from ..kernel.model import Column, Relation
from ..kernel.sql import decimal_size, is_list, is_optional, plain_type
from ..kernel.values import shown
from ..store.set_aside import Aside

OPERATIONS = {
    **dict.fromkeys(("+", "insert", "upsert", "update", "c", "r", "u", "update_postimage"), "+"),
    **dict.fromkeys(("-", "delete", "d", "update_preimage"), "-"),
}

NEED_KEY = ("update", "u")  # these do not say which row they replace

IMAGES = {"update_preimage": "<", "update_postimage": ">"}
"""How the two halves of an update are staged until contradictions have been checked."""

OPERATION_NAMES = re.compile(
    "action(type)?|cdc(op(eration)?|type)|change(kind|type|op(eration)?)?|delete|(is)?deleted|dml(op|type)?|"
    "op(s|code|type|eration(type)?)?|rowkind"
)
"""Usual names of operation columns, in lower case and without punctuation."""

REMOVE_KEY = "x"  # in staged changes of a relation with a primary key: remove any row with this key

Reader = Callable[[Any], Any]

BLANKS = " \t\r\n"

EXACT_DIGITS = 16
"""Every whole number with fewer digits is a float."""

INTEGER = r"[+-]?[0-9]+"


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
        unreadable = super().__new__(cls, message)
        unreadable.raw = raw
        return unreadable


class Digits(int):
    """A whole number as JSON has it, in digits that may be meant for a float: as such, it is the nearest one."""


@dataclass(frozen=True)
class RowShape:
    """The columns to read from a source: the relation's columns, the operation and, if changes are ordered, their
    order. Of the relation, which is one of any methods, only ``name``, ``columns`` and ``key`` are read.

    ``net`` is ``insert`` if a row that an unordered batch deletes and inserts is to stay; otherwise such a batch is
    refused. With ``all_inserts``, all rows of a source without operations are insertions, and no column of ``initial``
    rows is taken for their operation, whatever its name.

    Rows with a null in a column that is never null are refused, or counted in ``left_out``. If changes come with
    ``whole_rows``, before and after, both sides are left out alike. Timestamps are cut to microseconds, and decimals
    rounded to floats; if values are to be ``exact``, these do not fit.
    """

    relation: Any
    operation: str
    order: str
    initial: bool
    net: str = ""
    all_inserts: bool = False
    left_out: Counter[str] | None = None
    whole_rows: bool = False
    exact: bool = False

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

    @functools.cached_property
    def operations(self) -> dict[str, str]:
        """Return the accepted operations in lower case, with the signs by which they are staged."""
        signs = {k: v for k, v in OPERATIONS.items() if self.relation.key or k not in NEED_KEY}
        if self.initial:
            return {name: sign for name, sign in signs.items() if sign == "+"}
        return signs if self.order or self.net else {**signs, **IMAGES}

    @property
    def never_null(self) -> list[int]:
        """Return the places of the columns in which a null leaves a row out."""
        never = [place for place, column in enumerate(self.relation.columns) if not is_optional(column.type)]
        return [] if self.left_out is None else never

    @property
    def key_places(self) -> list[int]:
        """Return the places of the columns of the primary key."""
        return [place for place, column in enumerate(self.relation.columns) if column.sql in self.relation.key]

    @property
    def removes_keys(self) -> bool:
        """Return whether an insertion that is left out removes the row with its key, which is now one with a null."""
        return self.left_out is not None and bool(self.relation.key) and not self.initial and not self.whole_rows


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
class InputShape(RowShape):
    """The columns to read from a source whose rows are staged in files.

    With ``numbered``, a row that is left out is staged as nulls, so that the numbers of the others tell their places.
    Rows with other values that do not fit are refused, or set ``aside``. With ``sequences`` of the relation's keys, a
    deletion needs the key only.
    """

    relation: Relation
    numbered: bool = False
    aside: Aside | None = None
    sequences: Sequences | None = None

    @property
    def staged(self) -> list[Column]:
        """Return the columns of the staged file."""
        columns = [*self.relation.row_columns, Column("_op", "string", "_op")]
        return [*columns, Column("_order", "decimal(38,0)", "_order")] if self.order else columns


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
    if len(digits) < EXACT_DIGITS:
        return int(digits)
    return Digits(digits) if len(digits) < 100 else Decimal(digits)


def refuse_constant(name: str) -> None:
    """Raise ValueError for NaN and infinity, which JSON does not have but Python accepts."""
    raise ValueError(f"{name} is not a JSON value")


def distinct_members(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; raise ValueError if two members have the same name."""
    record = dict(members)
    if len(record) != len(members):
        raise ValueError("two members have the same name")
    return record


NULLS_CHOICES = ("refuse", "skip")
"""The ways to treat rows that have nulls where none are allowed. With ``skip``, a relation has the rows of its source
without such nulls, whatever happened to the others: so a deletion of such a row is left out, too."""


NOT_TAKEN = {
    "left_out": ("row", "with nulls left out"),
    "late": ("late change", "ignored"),
    "set_aside": ("row", "set aside"),
}
"""The members of manifests and results that tell of changes that a batch has not taken, each with a noun for these and
what became of them."""


def not_taken_text(member: str, number: int) -> str:
    """Return a number of changes that a batch has not taken as text."""
    noun, fate = NOT_TAKEN[member]
    return f"{number:,} {noun}{'' if number == 1 else 's'} {fate}"


def left_out_counts(nulls: str) -> Counter[str] | None:
    """Return where to count the rows that are left out; None if they are refused. Raise JobError for another choice."""
    if nulls not in NULLS_CHOICES:
        raise JobError(f"nulls must be {' or '.join(NULLS_CHOICES)}, not {shown(nulls)}")
    return Counter() if nulls == "skip" else None


def any_value(kind: str) -> Any:
    """Return a value of a type, for columns whose values do not matter."""
    if is_list(kind) or is_optional(kind):
        return []
    if kind.startswith("decimal"):
        return Decimal(0).scaleb(-decimal_size(kind)[1])
    examples: dict[str, Any] = {"int": 0, "float": 0.0, "bool": False, "string": "", "date": date(1970, 1, 1)}
    return datetime(1970, 1, 1) if kind == "timestamp" else examples[kind]


# Values


def value_reader(type_name: str, text: bool = False, exact: bool = False) -> Reader:
    """Return a function that converts the value of a column, or raises ValueError with the reason. ``text`` says that
    all values of the source are text, as in CSV; ``exact`` is as in InputShape."""
    if is_optional(type_name):
        return functools.partial(read_optional, value_reader(plain_type(type_name), text, exact))
    return READERS[re.split("[(<]", type_name)[0]](type_name, text, exact)


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
    if not whole and not (isinstance(value, Decimal) and value.is_finite() and value == value.to_integral_value()):
        raise wrong_type(value, "int")
    if not -(2**63) <= value < 2**63:
        raise ValueError(f"{shown(value)} does not fit 64 bits")
    return int(value)


def read_usual_int(from_text: bool, value: Any) -> int:
    """Read a 64-bit integer; those of nearly all rows in a fraction of the time."""
    if type(value) is int and -(2**63) <= value < 2**63:
        return value
    if from_text and type(value) is str and len(value) < 19 and value.isascii() and value.isdigit():
        return int(value)
    return int(read_value(read_int, from_text, value))


def read_optional(read: Reader, value: Any) -> list[Any]:
    """Read a value that may be null, as it is stored: a list with the value, or an empty one for null."""
    return [] if value is None else [read(value)]


def read_operation(shape: RowShape, value: Any) -> str:
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


READERS: dict[str, Callable[[str, bool, bool], Reader]] = {
    "string": lambda kind, text, exact: read_string_field if text else read_string,
    "int": lambda kind, text, exact: functools.partial(read_usual_int, text),
}
"""What makes the reader of a type, by its name. The module of types that not all programs have registers theirs."""
