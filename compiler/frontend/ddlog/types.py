"""Types of DDlog, and how their values are laid out in columns of Flintlog's types."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class IntType:
    """``bit<N>``, ``u8``, ``signed<N>``, ``s8``; ``bits`` is None for ``bigint``. A number whose type nothing
    says has an ``open`` one: it becomes that of what it is used with."""

    bits: int | None
    signed: bool
    open: bool = False

    def __str__(self) -> str:
        if self.bits is None:
            return "bigint"
        return f"signed<{self.bits}>" if self.signed else f"bit<{self.bits}>"

    @property
    def least(self) -> int:
        """The least value that an int of Flintlog can hold, too."""
        if self.bits is None or (self.signed and self.bits > 63):
            return -(2**63)
        return -(2 ** (self.bits - 1)) if self.signed else 0

    @property
    def most(self) -> int:
        """The greatest value that an int of Flintlog can hold, too."""
        bits = 63 if self.bits is None else min(63, self.bits - self.signed)
        return 2**bits - 1 if bits else 0


@dataclass(frozen=True)
class PlainType:
    """``string``, ``bool`` or ``double``, by its name in Flintlog."""

    name: str

    def __str__(self) -> str:
        return {"float": "double"}.get(self.name, self.name)


@dataclass(frozen=True)
class ListType:
    """``Vec<T>``, where T is no tuple or structure."""

    element: Type

    def __str__(self) -> str:
        return f"Vec<{self.element}>"


@dataclass(frozen=True)
class RecordType:
    """A tuple, whose fields are called 0, 1, ..., or a structure with the name of its ``constructor`` and its type."""

    constructor: str
    fields: tuple[tuple[str, Type], ...]
    name: str = ""

    def __str__(self) -> str:
        return self.name or f"({', '.join(str(type_) for _, type_ in self.fields)})"


@dataclass(frozen=True)
class EnumType:
    """A type whose constructors have no fields; its values are the names of these, as strings."""

    name: str
    constructors: tuple[str, ...]

    def __str__(self) -> str:
        return self.name


Type = IntType | PlainType | ListType | RecordType | EnumType

BOOL, STRING, DOUBLE = PlainType("bool"), PlainType("string"), PlainType("float")
MOST_BITS, MOST_COLUMNS = 65_535, 1000
"""The greatest width of an integer, and how many columns a value may have."""

BIGINT, OPEN = IntType(None, True), IntType(None, True, open=True)

NAMED: dict[str, Type] = {
    "bigint": BIGINT,
    "bool": BOOL,
    "string": STRING,
    "istring": STRING,
    "IString": STRING,
    "double": DOUBLE,
    "usize": IntType(64, False),
    "isize": IntType(64, True),
    **{f"u{bits}": IntType(bits, False) for bits in (8, 16, 32, 64, 128)},
    **{f"s{bits}": IntType(bits, True) for bits in (8, 16, 32, 64, 128)},
    **{f"i{bits}": IntType(bits, True) for bits in (8, 16, 32, 64, 128)},
}
"""Types by their names; ``usize`` has 64 bits, as on most machines."""


def is_open(type_: Type) -> bool:
    """Return whether nothing says which integers the values of a type are, or hold."""
    return is_open(type_.element) if isinstance(type_, ListType) else isinstance(type_, IntType) and type_.open


def leaves(type_: Type, name: str) -> Iterator[tuple[str, Type]]:
    """Yield the columns that hold a value called ``name``, with their types, none of which is a record."""
    if isinstance(type_, RecordType):
        for field, inner in type_.fields:
            yield from leaves(inner, f"{name}_{field}")
    else:
        yield name, type_


def width(type_: Type) -> int:
    """Return how many columns hold a value, and one for a record without any."""
    return max(1, sum(width(inner) for _, inner in type_.fields)) if isinstance(type_, RecordType) else 1
