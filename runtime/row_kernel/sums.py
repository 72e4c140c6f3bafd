"""Sums, averages, and extrema of lists and of what may be null."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from ..kernel.sql import decimal_size
from .encodings import LEAST_INT, MOST_INT, SQL_AGGREGATES, SQL_FUNCTIONS, finite_float
from .lists import compare_stored
from .units import SHORT, WIDE, stored_units, units_of

EXACT_FLOATS = 2**53
"""Up to here, floats hold all integers."""


def plus(one: Any, other: Any) -> Any:
    """Return an exact sum of integers, which are text beyond 64 bits."""
    if one is None or other is None:
        return None
    total = int(one) + int(other)
    return total if LEAST_INT <= total <= MOST_INT else str(total)


def units(sign: int, value: Any, kind: str) -> Any:
    """Return what a value adds to an exact sum, or takes from it."""
    return None if value is None else plus(0, sign * (units_of(value) if kind[0] == "d" else value))


def total(rows: int, value: Any, kind: str) -> Any:
    """Return an exact sum as a value of the language; None if it is out of range, 0 without rows."""
    number = int(value)
    if kind[0] == "d":
        return stored_units(number, 38)
    return number if LEAST_INT <= number <= MOST_INT else None


def average(rows: int, value: Any, kind: str) -> float | None:
    """Return an average. A sum of decimals that a float holds exactly in units of the last digit is divided so."""
    if not rows:
        return 0.0
    number, scale = int(value), decimal_size(kind)[1] if kind[0] == "d" else 0
    if 0 < scale <= SHORT and abs(number) <= EXACT_FLOATS:
        return float(number) / (float(rows) * float(10**scale))
    return float(Decimal(number).scaleb(-scale, WIDE)) / float(rows)


class Extremum:
    """The least or the greatest of lists or optional values."""

    sign = 1

    def __init__(self) -> None:
        self.best: Any = None

    def step(self, value: Any) -> None:
        """Take a value."""
        if self.best is None or (compare_stored(value, self.best) or 0) * self.sign > 0:
            self.best = value

    def finalize(self) -> Any:
        """Return the best value."""
        return self.best


class Least(Extremum):
    """The least of lists or optional values."""

    sign = -1


class FloatTotal:
    """The sum of floats in the order of their values, so that it depends on nothing else."""

    def __init__(self) -> None:
        self.values: list[float] = []

    def step(self, value: float, kind: str) -> None:
        """Take a value."""
        self.values.append(value)

    def finalize(self) -> float | None:
        """Return the sum."""
        result = 0.0
        for value in sorted(self.values):
            result += value
        return finite_float(result)


class FloatAverage(FloatTotal):
    """The average of floats."""

    def finalize(self) -> float | None:
        """Return the average."""
        result = super().finalize()
        return None if result is None else finite_float(result / len(self.values))


class ExactTotal:
    """The exact sum of ints or decimals."""

    def __init__(self) -> None:
        self.units, self.rows, self.kind = 0, 0, "int"

    def step(self, value: Any, kind: str) -> None:
        """Take a value."""
        self.units += units_of(value) if kind[0] == "d" else value
        self.rows, self.kind = self.rows + 1, kind

    def finalize(self) -> Any:
        """Return the sum."""
        return total(self.rows, self.units, self.kind)


class Units(ExactTotal):
    """The exact sum of ints or decimals in units, of any size."""

    def finalize(self) -> Any:
        """Return the sum."""
        return plus(0, self.units)


class ExactAverage(ExactTotal):
    """The average of ints or decimals."""

    def finalize(self) -> Any:
        """Return the average."""
        return average(self.rows, self.units, self.kind)


SQL_FUNCTIONS.update(_plus=(2, plus), _units=(3, units), _sum=(3, total), _avg=(3, average))
SQL_AGGREGATES.update(
    _maximum=(1, Extremum),
    _minimum=(1, Least),
    _float_sum=(2, FloatTotal),
    _float_avg=(2, FloatAverage),
    _exact_sum=(2, ExactTotal),
    _exact_avg=(2, ExactAverage),
    _units_sum=(2, Units),
)
