"""Choose pivots and cut the program into stages.

Before::

    stratum reachable: ranked
      r1: reachable(S, D) :- link(S, D).
      r2: reachable(S, D) :- link(S, Z), reachable(Z, D).

After::

    stage 1: by bucket
      reachable in buckets of D: every rule keeps it
      r1: own bucket only

A relation can be cut into buckets of a pivot column if, in every rule, every literal over a relation of the same stage
has at its pivot the same variable or constant as the head has at its own. Then each derivation lies in one bucket, and
a stage runs without exchange between buckets. Relations of other stages are read whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from math import prod

from ..diagnostics import listed
from ..ir import typed
from ..ir.delta import Program as DeltaProgram
from ..ir.delta import StratumDeltas
from ..ir.plan import Pivot, Program, Stage, StratumPlan
from ..ir.strata import Stratum
from .derive_deltas import rule_deltas
from .plan_joins import plan_asked, plan_rule
from .terms import equal_variables

#: How many rules or columns a reason names.
MOST_TOLD = 3
#: How many combinations of pivots are tried to find a reason.
MOST_TRIED = 256


def plan_stages(deltas: DeltaProgram) -> Program:
    """Return the plan of a program."""
    stages: list[Stage] = []
    for stratum in deltas.strata:
        current = stages[-1] if stages else None
        placed = _fuse(current, stratum) if current else None
        if placed is not None and current is not None:
            stages[-1] = Stage((*current.strata, placed), current.bucketed)
            continue
        alone = _assign(stratum.stratum, {})
        if alone is not None:
            reasons = {name: _why(stratum.stratum, name, alone) for name in alone}
            stages.append(Stage((_stratum_plan(stratum, alone, reasons, frozenset()),), True))
        else:
            stages.append(Stage((_gathered(stratum),), False))
    return Program(deltas, tuple(stages))


def _fuse(stage: Stage, stratum: StratumDeltas) -> StratumPlan | None:
    """The stratum as a further one of ``stage``, or None if it has to start its own."""
    pivots = {pivot.relation: pivot.column for plan in stage.strata for pivot in plan.pivots}
    if not stage.bucketed:
        reads_it = any(x.relation in stage.relations for rule in stratum.stratum.rules for x in rule.read)
        if _assign(stratum.stratum, {}) is None or (not stratum.stratum.recursive and reads_it):
            return _gathered(stratum)
        return None
    found = _assign(stratum.stratum, {name: column for name, column in pivots.items() if column is not None})
    if found is None:
        return None
    reasons = {name: _why(stratum.stratum, name, found) for name in found}
    return _stratum_plan(stratum, found, reasons, stage.relations)


def _gathered(stratum: StratumDeltas) -> StratumPlan:
    reasons = {relation.name: why_gathered(stratum.stratum, relation) for relation in stratum.stratum.relations}
    return _stratum_plan(stratum, dict.fromkeys(reasons), reasons, frozenset())


def _stratum_plan(
    deltas: StratumDeltas, pivots: Mapping[str, int | None], reasons: Mapping[str, str], stage: frozenset[str]
) -> StratumPlan:
    inside = stage | deltas.stratum.members
    rules = []
    for rule in deltas.rules:
        cut = pivots[rule.rule.head.relation] is not None
        filtered = cut and not any(atom.relation in inside for atom in rule.rule.atoms)
        rules.append(plan_rule(rule, deltas.stratum.kind, filtered))
    chosen = tuple(Pivot(r.name, pivots[r.name], reasons[r.name]) for r in deltas.stratum.relations)
    written = (rule_deltas(rule, deltas.stratum) for relation in deltas.stratum.relations for rule in relation.written)
    return StratumPlan(deltas.stratum, chosen, tuple(rules), tuple(map(plan_asked, written)))


def candidates(stratum: Stratum, relation: typed.Relation) -> list[int]:
    """The columns of ``relation`` that may be its pivot, the best first.

    Not a column that an aggregate computes, nor one outside the primary key, which is checked bucket by bucket.
    """
    rules = [rule for rule in stratum.rules if rule.head.relation == relation.name]
    columns = [
        index
        for index in range(len(relation.columns))
        if not any(isinstance(rule.head.arguments[index], typed.Aggregate) for rule in rules)
        and (not relation.key or index in relation.key)
    ]

    def carried(index: int) -> int:
        return sum(str(rule.head.arguments[index]) in map(str, atom.terms) for rule in rules for atom in rule.atoms)

    return sorted(columns, key=lambda index: (-carried(index), index != relation.location, index))


def _assign(stratum: Stratum, fixed: Mapping[str, int]) -> dict[str, int] | None:
    """A pivot for every relation of the stratum that agrees with those ``fixed`` for the stage, or None."""
    relations = stratum.relations

    def search(chosen: dict[str, int], rest: tuple[typed.Relation, ...]) -> dict[str, int] | None:
        if not rest:
            return chosen
        for column in candidates(stratum, rest[0]):
            trial = {**chosen, rest[0].name: column}
            if all(rule_keeps(rule, {**fixed, **trial}) for rule in stratum.rules):
                found = search(trial, rest[1:])
                if found is not None:
                    return found
        return None

    return search({}, relations)


def rule_keeps(rule: typed.Rule, pivots: Mapping[str, int]) -> bool:
    """Whether the literals over relations with a pivot have there what the head has at its own; a head without a
    pivot yet is left for later."""
    if rule.head.relation not in pivots:
        return True
    return next(broken_literals(rule, pivots), None) is None


def broken_literals(rule: typed.Rule, pivots: Mapping[str, int]) -> Iterator[typed.Atom]:
    """The literals that do not carry the head's pivot."""
    same = equal_variables(rule)
    argument = rule.head.arguments[pivots[rule.head.relation]]
    plain = isinstance(argument, typed.Variable | typed.Constant)
    wanted = same.get(str(argument), str(argument)) if plain else None
    for atom in rule.read:
        if atom.relation in pivots:
            term = atom.terms[pivots[atom.relation]]
            given = None if isinstance(term, typed.Wildcard) else same.get(str(term), str(term))
            if given is None or given != wanted:
                yield atom


def _why(stratum: Stratum, name: str, pivots: Mapping[str, int]) -> str:
    """Why a relation is cut by its pivot, for people."""
    column = next(r for r in stratum.relations if r.name == name).columns[pivots[name]].name
    passed = []
    for rule in stratum.rules:
        inside = [str(atom) for atom in rule.atoms if atom.relation in pivots]
        if rule.head.relation == name and inside:
            passed.append(f"{rule.label} passes {rule.head.arguments[pivots[name]]} on from {listed(inside)}")
    if passed:
        return "; ".join(passed[:MOST_TOLD]) + "; and so on" * (len(passed) > MOST_TOLD)
    if stratum.kind == "aggregate":
        return f"all that a group aggregates is found from the bucket of its {column}"
    return f"the derivations of a tuple are counted in the bucket of its {column}"


def why_gathered(stratum: Stratum, relation: typed.Relation) -> str:
    """Why a relation has no pivot, for people."""
    if not relation.columns:
        return "it has no columns"
    columns = candidates(stratum, relation)
    if not columns:
        return "its primary key is an aggregate" if relation.key else "it is one group"
    found = {column: _always_broken(stratum, relation, column) for column in sorted(columns)}
    if all(found.values()):
        broken: dict[str, list[str]] = {}
        for column, clause in found.items():
            broken.setdefault(clause, []).append(relation.columns[column].name)
        told = [f"cut by {' or '.join(names)}, {clause}" for clause, names in broken.items()]
        return "; ".join(told[:MOST_TOLD]) + "; and so on" * (len(told) > MOST_TOLD)
    if len(stratum.relations) > 1:
        return "whichever columns the recursion is cut by, some rule needs tuples of other buckets"
    return "it reads relations that are gathered"


def _always_broken(stratum: Stratum, relation: typed.Relation, column: int) -> str:
    """What breaks a rule when ``relation`` is cut by ``column``, whatever the others are cut by; empty if nothing."""
    others = [r for r in stratum.relations if r is not relation]
    choices = [[(r.name, c) for c in candidates(stratum, r)] for r in others]
    if not all(choices) or prod(map(len, choices)) > MOST_TRIED:
        return ""
    broken: list[tuple[typed.Rule, typed.Atom]] | None = None
    for chosen in product(*choices):
        pivots = {relation.name: column, **dict(chosen)}
        now = [(rule, atom) for rule in stratum.rules for atom in broken_literals(rule, pivots)]
        broken = now if broken is None else [x for x in broken if x in now]
    return f"{broken[0][0].label} would need {broken[0][1]} of other buckets" if broken else ""
