"""Put the positive literals of every query in the order of joining.

Before::

    Δreachable(S, D) :- link^ν(S, Z), Δreachable(Z, D).

After::

    following: Δreachable(Z, D) ⋈ link^ν(S, Z)

The change comes first, since it is small; then always the literal with the most columns bound. DuckDB orders joins by
its own statistics; Spark keeps the order it is given.
"""

from __future__ import annotations

from ..ir import typed
from ..ir.delta import RuleDeltas, Version, Versioned
from ..ir.plan import Query, RulePlan


def plan_rule(deltas: RuleDeltas, kind: str, filtered: bool) -> RulePlan:
    """The queries of a rule, with one for what returns where its stratum's ``kind`` needs one."""
    rule = deltas.rule
    literals = [versioned.literal for versioned in deltas.all[0].body] if deltas.all else []
    after = [Versioned(literal, Version.AFTER) for literal in literals]
    full = _query(deltas, "full", after, None, set())
    arriving = tuple(_query(deltas, "arriving", list(d.body), d.changed, set()) for d in deltas.arriving)
    following = tuple(_query(deltas, "following", list(d.body), d.changed, set()) for d in deltas.following)
    given = {argument.name for argument in rule.head.arguments if isinstance(argument, typed.Variable)}
    returning = None if kind in ("counted", "entries") else _query(deltas, "returning", after, None, given)
    return RulePlan(rule, full, arriving, following, returning, plan_asked(deltas), filtered)


def plan_asked(deltas: RuleDeltas) -> Query:
    """The query of a rule for one head."""
    literals = [versioned.literal for versioned in deltas.all[0].body] if deltas.all else []
    after = [Versioned(literal, Version.AFTER) for literal in literals]
    given = {argument.name for argument in deltas.rule.head.arguments if isinstance(argument, typed.Variable)}
    return _query(deltas, "asked", after, None, given)


def _query(deltas: RuleDeltas, purpose: str, body: list[Versioned], first: Versioned | None, bound: set[str]) -> Query:
    joins: list[Versioned] = []
    waiting = [v for v in body if not v.negated and v is not first]
    if first is not None:
        joins.append(first)
        bound = bound | {v.name for v in typed.variables_of(first.literal)}
    while waiting:
        best = max(waiting, key=lambda v: (_bound_terms(v, bound), -waiting.index(v)))
        waiting.remove(best)
        joins.append(best)
        bound = bound | {v.name for v in typed.variables_of(best.literal)}
    negations = tuple(v for v in body if v.negated and v is not first)
    return Query(deltas.rule, purpose, tuple(joins), negations, deltas.conditions)


def _bound_terms(versioned: Versioned, bound: set[str]) -> int:
    """How many terms of a literal are known before it is joined."""
    return sum(
        isinstance(term, typed.Constant) or (isinstance(term, typed.Variable) and term.name in bound)
        for term in versioned.atom.terms
    )
