"""Recount derivations from the full rules of the program instead of its delta rules.

What is compared with what is stored, the ``recount_*`` function of each method says. If supports count derivations from
lower ranks, this proves a relation exact: it holds every head of a derivation, so nothing is missing; and each tuple
has as many such derivations as its support says, at least one, so nothing lacks a proof.
"""

from __future__ import annotations

from .changes import show_versions
from .engine import Engine
from .method_interface import METHODS, Bucket, Finding
from .model import Stratum


def recount(engine: Engine, stratum: Stratum, bucket: Bucket) -> list[Finding]:
    """Return queries for everything that may be wrong with the relations of a stratum in the current state."""
    engine.begin(stratum)
    show_versions(engine, stratum, "insert")
    return METHODS[stratum.kind].recount(engine, stratum, bucket)
