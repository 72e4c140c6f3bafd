"""Arithmetic of decimals, and remainders of floats."""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from ..kernel.sql import decimal_size
from .encodings import SQL_FUNCTIONS, finite_float
from .units import WIDE, as_decimal, stored_units


def stored_decimal(value: Decimal, kind: str) -> int | str | None:
    """Return a decimal rounded to the scale of its type; None if it has too many digits."""
    precision, scale = decimal_size(kind)
    number = int(value.scaleb(scale, WIDE).to_integral_value(ROUND_HALF_UP, WIDE))
    return stored_units(number, precision)


def decimal_operation(op: str, one: Any, other: Any, left: str, right: str, kind: str) -> Any:
    """Return the value of an operation of decimals."""
    if one is None or other is None:
        return None
    a, b = as_decimal(one, left), as_decimal(other, right)
    if op in "/%" and not b:
        return None
    if op == "/":
        return finite_float(float(a) / float(b))
    done = {"+": WIDE.add, "-": WIDE.subtract, "*": WIDE.multiply, "%": WIDE.remainder}[op](a, b)
    return stored_decimal(done, kind)


def converted(value: Any, given: str, kind: str) -> Any:
    """Return a number of another type."""
    if value is None:
        return None
    number = as_decimal(value, given)
    return finite_float(float(number)) if kind == "float" else stored_decimal(number, kind)


def remainder(one: Any, other: Any) -> float | None:
    """Return the remainder of floats, with the sign of the first."""
    return math.fmod(one, other) + 0.0 if one is not None and other and math.isfinite(one) else None


SQL_FUNCTIONS.update(_decimal=(6, decimal_operation), _converted=(3, converted), _remainder=(2, remainder))
