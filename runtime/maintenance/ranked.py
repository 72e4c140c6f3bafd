"""Maintain recursive strata by rank and support: delete, return and insert tuples."""

from __future__ import annotations

from ..engines.engine import Engine
from ..model import Stratum
from ..sql import union
from .algebra import by_matrices
from .changes import all_derivations
from .deletions import begin_changes, lose_support, lost_and_gained, show_state, with_rank
from .insertions import insert_supported
from .run import METHODS, Bucket, Finding, Method, Run
from .supports import support_findings


def maintain_ranked(run: Run, stratum: Stratum, clock: int) -> int:
    """Delete unsupported tuples, then let dead ones return and new ones enter if supported; return the new clock."""
    begin_changes(run, stratum)
    found = by_matrices(run, stratum, clock)
    if found is None:
        lose_support(run, stratum)
        found = insert_supported(run, stratum, clock)
    lost_and_gained(run, stratum)
    return found


def recount_ranked(engine: Engine, stratum: Stratum, bucket: Bucket) -> list[Finding]:
    """Return queries for missing tuples, and for wrong supports by derivations of lower rank."""
    for relation in stratum.relations:
        engine.empty(f"{relation.table}__changed", with_rank(relation))
    show_state(engine, stratum, "SELECT {columns} FROM {table}")
    findings = []
    for relation in stratum.relations:
        derived = union(all_derivations(engine, stratum, relation, bucket, exits=False))
        supports = "COUNT(CASE WHEN d._rank < s._rank THEN 1 END)"
        findings += support_findings(engine, relation, derived, ["_rank"], supports)
    return findings


METHODS["ranked"] = Method(maintain_ranked, recount_ranked, 12)
