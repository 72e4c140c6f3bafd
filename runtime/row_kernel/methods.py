"""All methods for rows, for programs that are compiled and run in one process."""

from __future__ import annotations

from . import (
    acyclic,
    aggregate,
    copies,
    counted,
    decimals,
    extremal,
    functions,
    join_orders,
    keys,
    lists,
    ranked,
    sums,
    units,
)

__all__ = [
    "acyclic",
    "aggregate",
    "copies",
    "counted",
    "decimals",
    "extremal",
    "functions",
    "join_orders",
    "keys",
    "lists",
    "ranked",
    "sums",
    "units",
]
