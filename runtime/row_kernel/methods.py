"""All methods for rows, for programs that are compiled and run in one process."""

from __future__ import annotations

from . import (
    acyclic,
    aggregate,
    copies,
    counted,
    dead,
    decimals,
    entries,
    epochs,
    extremal,
    functions,
    identities,
    join_orders,
    keys,
    lists,
    overlaps,
    proofs,
    ranked,
    sums,
    unions,
    units,
)

__all__ = [
    "acyclic",
    "aggregate",
    "copies",
    "counted",
    "dead",
    "decimals",
    "entries",
    "epochs",
    "extremal",
    "functions",
    "identities",
    "join_orders",
    "keys",
    "lists",
    "overlaps",
    "proofs",
    "ranked",
    "sums",
    "unions",
    "units",
]
