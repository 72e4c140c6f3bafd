"""Derive the delta rules of every rule.

Before::

    r2: reachable(S, D) :- link(S, Z), reachable(Z, D).

After::

    arriving: Δreachable(S, D) :- Δlink(S, Z), reachable(Z, D).
    following: Δreachable(S, D) :- link^ν(S, Z), Δreachable(Z, D).

This follows Nigam et al. 2012, section 3.2. Literals of earlier strata precede those of the rule's own stratum: the
former change once per phase, the latter once per round, when the former are already at the end of the phase.
"""

from __future__ import annotations

from ..ir import typed
from ..ir.delta import DeltaProgram, DeltaRule, RuleDeltas, StratumDeltas, Version, Versioned
from ..ir.strata import StratifiedProgram, TypedStratum


def derive_deltas(stratified: StratifiedProgram) -> DeltaProgram:
    """Return the delta rules of all strata."""
    return DeltaProgram(
        stratified,
        tuple(
            StratumDeltas(stratum, tuple(rule_deltas(rule, stratum) for rule in stratum.rules))
            for stratum in stratified.strata
        ),
    )


def rule_deltas(rule: typed.TypedRule, stratum: TypedStratum) -> RuleDeltas:
    """Return the delta rules of one rule of a stratum."""
    literals = [literal for literal in rule.body if isinstance(literal, typed.Atom | typed.Negation)]
    below = [x for x in literals if isinstance(x, typed.Negation) or x.relation not in stratum.members]
    within = [x for x in literals if isinstance(x, typed.Atom) and x.relation in stratum.members]
    ordered = [*below, *within]
    deltas = [_delta_rule(ordered, position) for position in range(len(ordered))]
    conditions = tuple(x for x in rule.body if isinstance(x, typed.Assignment | typed.Comparison))
    return RuleDeltas(rule, tuple(deltas[: len(below)]), tuple(deltas[len(below) :]), conditions)


def _delta_rule(ordered: list[typed.Atom | typed.Negation], position: int) -> DeltaRule:
    def version(index: int) -> Version:
        if index == position:
            return Version.DELTA
        return Version.AFTER if index < position else Version.BEFORE

    return DeltaRule(position, tuple(Versioned(literal, version(i)) for i, literal in enumerate(ordered)))
