"""Merge consecutive facts of a relation, so that one query returns them all.

Before::

    small_1: small(1).
      full: one row, own bucket only
    small_2: small(2).
      full: one row, own bucket only

After::

    small_1: small(1).
    small_2: small(2).
      full: 2 facts, own bucket only

Generated programs can have thousands of facts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby

from ..ir import typed
from ..ir.plan import ProgramPlan, RulePlan


def gather_facts(program: ProgramPlan) -> ProgramPlan:
    """Return the plan with consecutive facts of a relation merged into one rule."""
    stages = []
    for stage in program.stages:
        strata = (replace(s, rules=tuple(_with_facts_gathered(s.rules, s.stratum.kind))) for s in stage.strata)
        stages.append(replace(stage, strata=tuple(strata)))
    return replace(program, stages=tuple(stages))


def _with_facts_gathered(rules: Iterable[RulePlan], kind: str) -> Iterator[RulePlan]:
    """Yield the rules of a stratum of a ``kind``, with consecutive facts of a relation merged into one."""
    for key, group in groupby(rules, lambda rule: _fact_key(rule, kind)):
        gathered = list(group)
        if key is None or len(gathered) == 1:
            yield from gathered
        else:
            yield _gathered(gathered)


def _fact_key(planned: RulePlan, kind: str) -> tuple[str, bool] | None:
    """Return the key that facts evaluated together have in common, None for rules that are evaluated separately."""
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
