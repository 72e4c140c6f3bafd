"""Plan the queries of every rule and order their positive literals for joining.

Before::

    Δreachable(S, D) :- link^ν(S, Z), Δreachable(Z, D).

After::

    following: Δreachable(Z, D) ⋈ link^ν(S, Z)

The changed literal comes first because it is small; the next is always the literal with the most bound columns. DuckDB
orders joins by its own statistics; Spark keeps the given order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush

from ..ir import typed
from ..ir.delta import RuleDeltas, Version, Versioned
from ..ir.plan import Query, RulePlan
from .bound_times import crossing


def plan_rule(deltas: RuleDeltas, kind: str, filtered: bool) -> RulePlan:
    """Return the queries of a rule, with a ``returning`` one if its stratum's ``kind`` needs it."""
    rule = deltas.rule
    literals = [versioned.literal for versioned in deltas.all[0].body] if deltas.all else []
    after = [Versioned(literal, Version.AFTER) for literal in literals]
    full = _query(deltas, "full", after, None, set())
    changes = [(deltas, delta) for delta in deltas.arriving]
    rounds = [(deltas, delta) for delta in deltas.following]
    if deltas.marks is not None:
        changes = [(deltas.marks, delta) for delta in deltas.marks.arriving]
        rounds = [(lead, delta) for lead in deltas.leads for delta in lead.arriving]
    arriving = tuple(_query(of, "arriving", list(d.body), d.changed, set()) for of, d in changes)
    following = tuple(_query(of, "following", list(d.body), d.changed, set()) for of, d in rounds)
    head_variables = {argument.name for argument in rule.head.arguments if isinstance(argument, typed.Variable)}
    if kind == "timed":
        arriving = (arriving[0], _crossing(rule))
    without = kind in ("counted", "timed", "entries", "identities", "epochs", "dead")
    returning = None if without else _query(deltas, "returning", after, None, head_variables)
    return RulePlan(rule, full, arriving, following, returning, plan_asked(deltas), filtered)


def _crossing(rule: typed.TypedRule) -> Query:
    """Return the query for what a bound leaves behind on its way."""
    crossed = crossing(rule)
    conditions = tuple(literal for literal in crossed.body if isinstance(literal, typed.Assignment | typed.Comparison))
    versions = (Version.BEFORE, Version.AFTER, Version.BEFORE)
    joins = tuple(Versioned(atom, version) for atom, version in zip(crossed.atoms, versions, strict=True))
    return Query(crossed, "crossing", joins, (), conditions)


def plan_alone(rule: typed.TypedRule) -> Query:
    """Return the query for all derivations of a rule over relations of earlier strata."""
    literals = [literal for literal in rule.body if isinstance(literal, typed.Atom | typed.Negation)]
    conditions = tuple(literal for literal in rule.body if isinstance(literal, typed.Assignment | typed.Comparison))
    after = [Versioned(literal, Version.AFTER) for literal in literals]
    return _query(RuleDeltas(rule, (), (), conditions), "full", after, None, set())


def plan_asked(deltas: RuleDeltas) -> Query:
    """Return the ``asked`` query of a rule, for the derivations of one given head."""
    literals = [versioned.literal for versioned in deltas.all[0].body] if deltas.all else []
    after = [Versioned(literal, Version.AFTER) for literal in literals]
    head_variables = {argument.name for argument in deltas.rule.head.arguments if isinstance(argument, typed.Variable)}
    return _query(deltas, "asked", after, None, head_variables)


def _query(deltas: RuleDeltas, purpose: str, body: list[Versioned], first: Versioned | None, bound: set[str]) -> Query:
    joins = [] if first is None else [first]
    if first is not None:
        bound = bound | {v.name for v in typed.variables_of(first.literal)}
    joins += _ordered([v for v in body if not v.negated and v is not first], bound)
    negations = tuple(v for v in body if v.negated and v is not first)
    return Query(deltas.rule, purpose, tuple(joins), negations, deltas.conditions)


def _ordered(literals: list[Versioned], bound: Iterable[str]) -> Iterator[Versioned]:
    """Yield the literals in join order: always the one with the most known terms, the first of several."""
    bound_terms = [sum(isinstance(term, typed.Constant) for term in literal.atom.terms) for literal in literals]
    uses: dict[str, list[int]] = {}
    for place, literal in enumerate(literals):
        for variable in typed.variables_of(literal.literal):
            uses.setdefault(variable.name, []).append(place)
    # A heap with an entry for each number of known terms that a literal has had; all but its last are stale.
    waiting: list[tuple[int, int]] = []

    def bind(names: Iterable[str]) -> None:
        for name in names:
            for place in uses.pop(name, ()):
                bound_terms[place] += 1
                heappush(waiting, (-bound_terms[place], place))

    for place, number in enumerate(bound_terms):
        heappush(waiting, (-number, place))
    bind(bound)
    joined: set[int] = set()
    while waiting:
        number, place = heappop(waiting)
        if place not in joined and -number == bound_terms[place]:
            joined.add(place)
            yield literals[place]
            bind(variable.name for variable in typed.variables_of(literals[place].literal))
