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

from dataclasses import replace

from ..ir import typed
from ..ir.delta import LEAD, MARK, DeltaProgram, DeltaRule, RuleDeltas, StratumDeltas, Version, Versioned
from ..ir.strata import StratifiedProgram, TypedStratum
from .separate_groups import over_groups


def derive_deltas(stratified: StratifiedProgram) -> DeltaProgram:
    """Return the delta rules of all strata."""
    return DeltaProgram(
        stratified,
        tuple(
            StratumDeltas(stratum, tuple(_with_groups(rule_deltas(rule, stratum), stratum) for rule in stratum.rules))
            for stratum in stratified.strata
        ),
    )


def _with_groups(deltas: RuleDeltas, stratum: TypedStratum) -> RuleDeltas:
    """Return the delta rules of a rule, in a recursion that orders its groups with those over groups."""
    groups = {relation.name: relation.grouped for relation in stratum.relations if relation.grouped}
    if not groups:
        return deltas
    rule, body = deltas.rule, over_groups(deltas.rule, groups)
    keys = tuple(rule.head.arguments[place] for place in groups[rule.head.relation][1])
    marks = rule_deltas(replace(rule, head=replace(rule.head, relation=MARK, arguments=keys), body=body), stratum)
    own = {name for name, _ in groups.values()}
    leads = (
        _lead(replace(rule, body=body), keys, place)
        for place, literal in enumerate(body)
        if isinstance(literal, typed.Atom) and literal.relation in own
    )
    return replace(deltas, marks=marks, leads=tuple(leads))


def _lead(rule: typed.TypedRule, keys: tuple[typed.Expression | typed.Aggregate, ...], own: int) -> RuleDeltas:
    """Return the delta rule for the groups that depend on the changed ones of literal ``own``: its head has the group,
    the one that it depends on, and the terms of the other positive literals."""
    body = tuple(
        _named(literal, place) if isinstance(literal, typed.Atom) else literal
        for place, literal in enumerate(rule.body)
    )
    atoms = [literal for place, literal in enumerate(body) if isinstance(literal, typed.Atom) and place != own]
    changed = body[own]
    assert isinstance(changed, typed.Atom)
    terms = [term for atom in (changed, *atoms) for term in atom.terms if not isinstance(term, typed.Wildcard)]
    head = typed.Head(LEAD, (*keys, *terms), rule.head.span)
    read = [literal for literal in body if isinstance(literal, typed.Atom | typed.Negation)]
    versions = tuple(Versioned(x, Version.DELTA if x is changed else Version.AFTER) for x in read)
    conditions = tuple(x for x in body if isinstance(x, typed.Assignment | typed.Comparison))
    lead = DeltaRule(next(place for place, x in enumerate(read) if x is changed), versions)
    return RuleDeltas(replace(rule, head=head, body=body), (lead,), (), conditions)


def _named(atom: typed.Atom, number: int) -> typed.Atom:
    """Return an atom with variables instead of wildcards."""
    terms = (
        typed.Variable(f"_{number}_{place}", term.type, term.span) if isinstance(term, typed.Wildcard) else term
        for place, term in enumerate(atom.terms)
    )
    return replace(atom, terms=tuple(terms))


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
