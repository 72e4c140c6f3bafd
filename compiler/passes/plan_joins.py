"""Put the positive literals of every query in the order of joining.

Before::

    Δreachable(S, D) :- link^ν(S, Z), Δreachable(Z, D).

After::

    following: Δreachable(Z, D) ⋈ link^ν(S, Z)

The change comes first, since it is small; then always the literal with the most columns bound. DuckDB orders joins by
its own statistics; Spark keeps the order it is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from heapq import heappop, heappush
from itertools import groupby

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


def gather_facts(rules: Iterable[RulePlan], kind: str) -> Iterator[RulePlan]:
    """The same rules of a stratum of a ``kind``, with facts of a relation that follow each other as one.

    A program that was made by a program has thousands of them.
    """
    for key, group in groupby(rules, lambda rule: _fact_key(rule, kind)):
        gathered = list(group)
        if key is None or len(gathered) == 1:
            yield from gathered
        else:
            yield _gathered(gathered)


def _fact_key(planned: RulePlan, kind: str) -> tuple[str, bool] | None:
    """What facts have in common that are evaluated together; None for a rule that is none of constants alone."""
    rule = planned.rule
    constant = rule.head.arguments and all(isinstance(value, typed.Constant) for value in rule.head.arguments)
    if rule.body or not constant or kind not in ("counted", "ranked"):
        return None
    return rule.head.relation, planned.filtered


def _gathered(facts: list[RulePlan]) -> RulePlan:
    first = facts[0].rule
    arguments = tuple(
        typed.Variable(f"V{place}", value.type, value.span)
        for place, value in enumerate(first.head.arguments, 1)
        if isinstance(value, typed.Constant)
    )
    rules = tuple(planned.rule for planned in facts)
    rule = replace(first, head=replace(first.head, arguments=arguments))
    full, returning, asked = (
        query and replace(query, rule=rule, facts=rules)
        for query in (facts[0].full, facts[0].returning, facts[0].asked)
    )
    assert full and asked
    return RulePlan(rule, full, (), (), returning, asked, facts[0].filtered)


def _query(deltas: RuleDeltas, purpose: str, body: list[Versioned], first: Versioned | None, bound: set[str]) -> Query:
    joins = [] if first is None else [first]
    if first is not None:
        bound = bound | {v.name for v in typed.variables_of(first.literal)}
    joins += _ordered([v for v in body if not v.negated and v is not first], bound)
    negations = tuple(v for v in body if v.negated and v is not first)
    return Query(deltas.rule, purpose, tuple(joins), negations, deltas.conditions)


def _ordered(literals: list[Versioned], bound: Iterable[str]) -> Iterator[Versioned]:
    """Always the literal with the most terms that are known when it is joined, the first of several."""
    known = [sum(isinstance(term, typed.Constant) for term in literal.atom.terms) for literal in literals]
    uses: dict[str, list[int]] = {}
    for place, literal in enumerate(literals):
        for variable in typed.variables_of(literal.literal):
            uses.setdefault(variable.name, []).append(place)
    # Each literal stands here once for every number of its known terms; the others are out of date.
    waiting: list[tuple[int, int]] = []

    def bind(names: Iterable[str]) -> None:
        for name in names:
            for place in uses.pop(name, ()):
                known[place] += 1
                heappush(waiting, (-known[place], place))

    for place, number in enumerate(known):
        heappush(waiting, (-number, place))
    bind(bound)
    joined: set[int] = set()
    while waiting:
        number, place = heappop(waiting)
        if place not in joined and -number == known[place]:
            joined.add(place)
            yield literals[place]
            bind(variable.name for variable in typed.variables_of(literals[place].literal))
