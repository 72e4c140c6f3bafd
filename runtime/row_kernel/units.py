"""How decimals are stored: as units of the last digit."""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any

from ..kernel.sql import decimal_size
from .encodings import CODECS

WIDE = Context(prec=120)
"""Exact for all that two decimals give."""

SHORT = 18
"""The digits of a decimal that is stored as an integer."""


def stored_units(units: int, precision: int) -> int | str | None:
    """Return a decimal of so many units of its last digit as it is stored; None if it has too many digits."""
    if abs(units) >= 10**precision:
        return None
    if precision <= SHORT:
        return units
    return f"1{units:038d}" if units >= 0 else f"0{10**38 + units:038d}"


def units_of(value: Any) -> int:
    """Return the units of a stored decimal."""
    if isinstance(value, int):
        return value
    return int(value[1:]) if value[0] == "1" else int(value[1:]) - 10**38


def units_of_decimal(value: Any, kind: str) -> int | str | None:
    """Return a decimal as it is stored."""
    precision, scale = decimal_size(kind)
    return stored_units(int(Decimal(value).scaleb(scale, WIDE)), precision)


def as_decimal(value: Any, kind: str) -> Decimal:
    """Return a number as a decimal."""
    if kind[0] == "d":
        return Decimal(units_of(value)).scaleb(-decimal_size(kind)[1], WIDE)
    return WIDE.create_decimal(value)


CODECS["decimal"] = units_of_decimal, as_decimal
