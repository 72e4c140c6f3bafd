"""Recount derivations from the full rules of the program instead of its delta rules.

The invariants prove a relation exact: it holds every head of a derivation, so nothing is missing; and each tuple has
as many derivations from lower ranks as its support says, at least one, so nothing lacks a proof.
"""

from __future__ import annotations

from .changes import show_versions
from .engine import Engine
from .model import Stratum
from .run import METHODS, Bucket, Finding


def recount(engine: Engine, stratum: Stratum, bucket: Bucket) -> list[Finding]:
    """Return queries for everything that may be wrong with the relations of a stratum in the current state."""
    engine.begin(stratum)
    show_versions(engine, stratum, "insert")
    return METHODS[stratum.kind].recount(engine, stratum, bucket)
