"""Maintain recursive strata by rank and support: delete, return and insert tuples."""

from __future__ import annotations

from .algebra import by_matrices
from .deletions import begin_changes, lose_support, lost_and_gained, recount_supports
from .engine import Engine
from .insertions import insert_supported
from .method_interface import METHODS, Bucket, Finding, Method, Run
from .model import Stratum


def maintain_ranked(run: Run, stratum: Stratum, clock: int) -> int:
    """Delete unsupported tuples, then let dead ones return and new ones enter if supported; return the new clock."""
    begin_changes(run, stratum)
    new_clock = by_matrices(run, stratum, clock)
    if new_clock is None:
        lose_support(run, stratum)
        new_clock = insert_supported(run, stratum, clock)
    lost_and_gained(run, stratum)
    return new_clock


def recount_ranked(engine: Engine, stratum: Stratum, bucket: Bucket) -> list[Finding]:
    """Return queries for missing tuples, and for wrong supports by derivations of lower rank."""
    return [finding for findings in recount_supports(engine, stratum, bucket) for finding in findings]


METHODS["ranked"] = Method(maintain_ranked, recount_ranked, 12)
