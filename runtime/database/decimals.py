"""Decimals as people read them in views."""

from __future__ import annotations

from ..kernel.sql import decimal_size
from ..row_kernel.units import SHORT
from .schema import READABLE

EXACT_DIGITS_OF_REALS = 15
"""Decimals of so many digits are shown as numbers: each has a float of its own that prints as the decimal."""


def readable_decimal(name: str, kind: str) -> str:
    """Return SQL for a stored decimal: a number if that is exact, else text."""
    precision, scale = decimal_size(kind)
    if precision <= SHORT:
        if not scale:
            return name
        if precision <= EXACT_DIGITS_OF_REALS:
            return f"{name} / {float(10**scale)!r}"
        digits = f"printf('%0{scale + 1}d', abs({name}))"
        sign = f"CASE WHEN {name} < 0 THEN '-' ELSE '' END"
        return f"{sign} || substr({digits}, 1, length({digits}) - {scale}) || '.' || substr({digits}, -{scale})"
    # 38 digits behind a sign; of a negative number, what is missing from 10 to the power of 38.
    parts = [f"CAST(substr({name}, {place}, {size}) AS INTEGER)" for place, size in ((2, 2), (4, 18), (22, 18))]
    high, middle, low = parts
    low_left = f"(1000000000000000000 - {low}) % 1000000000000000000"
    borrowed = f"({low} > 0)"
    middle_left = f"(1000000000000000000 - {middle} - {borrowed}) % 1000000000000000000"
    high_left = f"100 - {high} - ({middle} + {borrowed} > 0)"
    digits = (
        f"CASE WHEN substr({name}, 1, 1) = '1' THEN substr({name}, 2) "
        f"ELSE printf('%02d%018d%018d', {high_left}, {middle_left}, {low_left}) END"
    )
    whole, fraction = f"ltrim(substr({digits}, 1, {38 - scale}), '0')", f"substr({digits}, {39 - scale})"
    sign = f"CASE WHEN substr({name}, 1, 1) = '0' THEN '-' ELSE '' END"
    point = f" || '.' || {fraction}" if scale else ""
    return f"{sign} || CASE {whole} WHEN '' THEN '0' ELSE {whole} END{point}"


READABLE["decimal"] = readable_decimal
