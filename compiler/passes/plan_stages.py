"""Choose the pivot columns of relations and divide the program into stages.

Before::

    stratum reachable: ranked
    r1: reachable(S, D) :- link(S, D).
    r2: reachable(S, D) :- link(S, Z), reachable(Z, D).

After::

    stage 1: by bucket

    stratum reachable: ranked
      reachable in buckets of D: r2 passes D on from reachable(Z, D)
      r1: reachable(S, D) :- link(S, D).
        full: link^ν(S, D), own bucket only

A relation can be divided into buckets by a pivot column if, in every rule, every literal over a relation of the same
stage has at its pivot the same variable or constant as the head has at its own. Each derivation then lies in one
bucket, and a stage runs without exchange between buckets. Relations of other stages are read as a whole.
Inputs have no pivot: ``bucket_column`` in ``targets/pyspark/lower.py`` chooses how they are divided.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from ..diagnostics import listed
from ..ir import typed
from ..ir.delta import DeltaProgram, StratumDeltas
from ..ir.plan import Pivot, ProgramPlan, StagePlan, StratumPlan
from ..ir.strata import TypedStratum
from .derive_deltas import rule_deltas
from .plan_joins import plan_asked, plan_rule
from .terms import equal_variables

MOST_TOLD = 3
"""The maximum number of rules or columns that a reason names."""


@dataclass
class _Open:
    """A stage that can still take strata, and the pivots of its relations."""

    bucketed: bool
    strata: list[StratumPlan] = field(default_factory=list)
    pivots: dict[str, int | None] = field(default_factory=dict)

    def add(self, placed: StratumPlan) -> None:
        """Add a planned stratum to the stage."""
        self.strata.append(placed)
        self.pivots.update({pivot.relation: pivot.column for pivot in placed.pivots})


def plan_stages(deltas: DeltaProgram) -> ProgramPlan:
    """Return the plan of a program."""
    stages: list[_Open] = []
    for stratum in deltas.strata:
        placed = _fuse(stages[-1], stratum) if stages else None
        if placed is None:
            alone = _assign(stratum.stratum, {})
            stages.append(_Open(alone is not None))
            placed = _gathered(stratum) if alone is None else _bucketed(stratum, alone, ())
        stages[-1].add(placed)
    return ProgramPlan(deltas, tuple(StagePlan(tuple(stage.strata), stage.bucketed) for stage in stages))


def _fuse(stage: _Open, stratum: StratumDeltas) -> StratumPlan | None:
    """Return the plan of the stratum as part of ``stage``, or None if it has to start its own stage."""
    if not stage.bucketed:
        reads_it = any(x.relation in stage.pivots for rule in stratum.stratum.rules for x in rule.read)
        if _assign(stratum.stratum, {}) is None or (not stratum.stratum.recursive and reads_it):
            return _gathered(stratum)
        return None
    columns = _assign(stratum.stratum, stage.pivots)
    if (
        columns is None
        or not _cuts_groups(stratum.stratum, columns, stage.pivots)
        or any(_hides_pivot(rule, columns, stage.pivots) for rule in stratum.stratum.rules)
    ):
        return None
    return _bucketed(stratum, columns, stage.pivots)


def _cuts_groups(stratum: TypedStratum, pivots: Mapping[str, int], stage: Mapping[str, int | None]) -> bool:
    """Return whether groups that the stage has computed are in the same buckets as their values."""
    return all(
        relation.grouped is None
        or relation.grouped[0] not in stage
        or pivots[relation.name] == relation.grouped[1][stage[relation.grouped[0]] or 0]
        for relation in stratum.relations
    )


def _hides_pivot(rule: typed.TypedRule, pivots: Mapping[str, int], stage: Collection[str]) -> bool:
    """Whether the bucket of a head would be unknown if a condition of the rule has no value, which its one column says
    then. It has to be known if the rule negates what is in buckets: what is absent in one may be there in another."""
    arguments = enumerate(rule.head.arguments)
    return (
        not any(atom.relation in pivots or atom.relation in stage for atom in rule.atoms)
        and any(isinstance(literal, typed.Negation) and literal.atom.relation in stage for literal in rule.body)
        and any(not isinstance(literal, typed.Atom | typed.Negation) for literal in rule.body)
        and all(n == pivots[rule.head.relation] or isinstance(a, typed.Aggregate) for n, a in arguments)
    )


def _bucketed(stratum: StratumDeltas, found: Mapping[str, int], stage: Collection[str]) -> StratumPlan:
    reasons = {name: _why(stratum.stratum, name, found) for name in found}
    return _stratum_plan(stratum, found, reasons, stage)


def _gathered(stratum: StratumDeltas) -> StratumPlan:
    gathering = _Gathering(stratum.stratum)
    reasons = {relation.name: gathering.why(relation) for relation in stratum.stratum.relations}
    return _stratum_plan(stratum, dict.fromkeys(reasons), reasons, ())


def _stratum_plan(
    deltas: StratumDeltas, pivots: Mapping[str, int | None], reasons: Mapping[str, str], stage: Collection[str]
) -> StratumPlan:
    members = deltas.stratum.members
    rules = []
    for rule in deltas.rules:
        cut = pivots[rule.rule.head.relation] is not None
        filtered = cut and not any(atom.relation in members or atom.relation in stage for atom in rule.rule.atoms)
        rules.append(plan_rule(rule, deltas.stratum.kind, filtered))
    chosen = tuple(Pivot(r.name, pivots[r.name], reasons[r.name]) for r in deltas.stratum.relations)
    written = (rule_deltas(rule, deltas.stratum) for relation in deltas.stratum.relations for rule in relation.written)
    return StratumPlan(deltas.stratum, chosen, tuple(rules), tuple(map(plan_asked, written)))


def candidates(stratum: TypedStratum, relation: typed.TypedRelation) -> list[int]:
    """Return the columns of ``relation`` that may be its pivot, best first.

    Excludes columns that an aggregate computes or ranks, and those outside a primary key, which is checked bucket by
    bucket.
    """
    rules = stratum.rules_of(relation.name)
    computed = {place for rule in rules for place in rule.head.ranked}
    for rule in rules:
        computed |= {place for place, arg in enumerate(rule.head.arguments) if isinstance(arg, typed.Aggregate)}
    columns = [
        index
        for index in range(len(relation.columns))
        if index not in computed
        and (not relation.key or index in relation.key)
        and (relation.grouped is None or index in relation.grouped[1])
    ]

    carried: Counter[int] = Counter()
    for rule in rules:
        arguments = [str(argument) for argument in rule.head.arguments]
        for atom in rule.atoms:
            terms = set(map(str, atom.terms))
            carried.update(index for index in columns if arguments[index] in terms)
    return sorted(columns, key=lambda index: (-carried[index], index != relation.location, index))


def _assign(stratum: TypedStratum, fixed: Mapping[str, int | None]) -> dict[str, int] | None:
    """Return a pivot for every relation of the stratum, consistent with those ``fixed`` for the stage, or None.

    This is the first consistent choice in the order of the relations and of their :func:`candidates`. Each choice is
    propagated at once to the relations that rules link to it, so backtracking is rare.
    """
    possible = {relation.name: candidates(stratum, relation) for relation in stratum.relations}
    links: dict[str, list[_Link]] = {name: [] for name in possible}
    for rule in stratum.rules:
        head = rule.head.relation
        same = equal_variables(rule)
        for atom in rule.read:
            if atom.relation not in possible and fixed.get(atom.relation) is None:
                continue
            onwards = _carried(rule, atom, same)
            if atom.relation not in possible:
                possible[head] = [column for column in possible[head] if fixed[atom.relation] in onwards[column]]
            elif atom.relation == head:
                possible[head] = [column for column in possible[head] if column in onwards[column]]
            else:
                links[head].append((atom.relation, onwards))
                links[atom.relation].append((head, _turned(onwards)))
    order = list(possible)
    chosen = _narrowed(possible, links, order)
    # The stack for backtracking: the columns left before each choice, its relation's number, and the untried columns.
    choices: list[tuple[dict[str, list[int]], int, list[int]]] = []
    number = 0
    while chosen is None or number < len(order):
        if chosen is None:
            while choices and not choices[-1][2]:
                choices.pop()
            if not choices:
                return None
            before, number, columns = choices[-1]
            chosen = _narrowed({**before, order[number]: [columns.pop(0)]}, links, [order[number]])
        elif len(chosen[order[number]]) > 1:
            choices.append((chosen, number, list(chosen[order[number]])))
            chosen = None
            continue
        number += 1
    return {name: chosen[name][0] for name in order}


_Link = tuple[str, Mapping[int, set[int]]]
"""A relation that a rule links to another, and for each column of the other its own columns with the same term."""


def _narrowed(
    left: dict[str, list[int]], links: Mapping[str, list[_Link]], changed: list[str]
) -> dict[str, list[int]] | None:
    """Return ``left`` without the columns that agree with no column of a linked relation, None if a relation loses all
    its columns. This modifies ``left``; ``changed`` names the relations whose links are to be checked first."""
    if not all(left.values()):
        return None
    waiting = list(changed)
    while waiting:
        name = waiting.pop()
        for other, agreeing in links[name]:
            allowed = set().union(*(agreeing.get(column, ()) for column in left[name]))
            kept = [column for column in left[other] if column in allowed]
            if not kept:
                return None
            if len(kept) < len(left[other]):
                left[other] = kept
                waiting.append(other)
    return left


def _carried(rule: typed.TypedRule, atom: typed.Atom, same: Mapping[str, str]) -> dict[int, set[int]]:
    """Return for each column of a rule's head the columns of a literal with the same term; ``same`` is the rule's
    :func:`.equal_variables`."""
    places: dict[str, set[int]] = {}
    for place, term in enumerate(atom.terms):
        if not isinstance(term, typed.Wildcard):
            places.setdefault(same.get(str(term), str(term)), set()).add(place)
    carried: dict[int, set[int]] = {}
    for column, argument in enumerate(rule.head.arguments):
        plain = isinstance(argument, typed.Variable | typed.Constant)
        carried[column] = places.get(same.get(str(argument), str(argument)), set()) if plain else set()
    return carried


def _turned(carried: Mapping[int, set[int]]) -> dict[int, set[int]]:
    """Return the inverse of ``carried``: for each column of the literal, those of the head."""
    turned: dict[int, set[int]] = {}
    for column, places in carried.items():
        for place in places:
            turned.setdefault(place, set()).add(column)
    return turned


def broken_literals(rule: typed.TypedRule, pivots: Mapping[str, int]) -> Iterator[typed.Atom]:
    """Yield the literals whose pivot differs from the head's pivot."""
    same = equal_variables(rule)
    for atom in rule.read:
        if atom.relation in pivots:
            carried = _carried(rule, atom, same)
            if pivots[atom.relation] not in carried[pivots[rule.head.relation]]:
                yield atom


def _why(stratum: TypedStratum, name: str, pivots: Mapping[str, int]) -> str:
    """Return the reason for a relation's pivot, as text for users."""
    rules = stratum.rules_of(name)
    column = next(r for r in stratum.relations if r.name == name).columns[pivots[name]].name
    passed = []
    for rule in rules:
        inside = [str(atom) for atom in rule.atoms if atom.relation in pivots]
        if inside:
            passed.append(f"{rule.label} passes {rule.head.arguments[pivots[name]]} on from {listed(inside)}")
    if passed:
        return "; ".join(passed[:MOST_TOLD]) + "; and so on" * (len(passed) > MOST_TOLD)
    if stratum.kind == "timed":
        return f"a tuple is selected in the bucket of its {column}"
    if stratum.kind == "aggregate":
        return f"all that a group aggregates is found from the bucket of its {column}"
    return f"the derivations of a tuple are counted in the bucket of its {column}"


class _Gathering:
    """The explanation why the relations of a stratum have no pivots."""

    def __init__(self, stratum: TypedStratum) -> None:
        self.stratum = stratum
        self.candidates = {relation.name: candidates(stratum, relation) for relation in stratum.relations}
        # The literals over the stratum's own relations, with their rules and the columns that they carry; and for each
        # relation, the indexes of the literals in whose rule it is the head or that read it.
        self.literals: list[tuple[typed.TypedRule, typed.Atom, dict[int, set[int]]]] = []
        self.of: dict[str, list[int]] = {}
        for rule in stratum.rules:
            same = equal_variables(rule)
            for atom in rule.read:
                if atom.relation in stratum.members:
                    for name in {rule.head.relation, atom.relation}:
                        self.of.setdefault(name, []).append(len(self.literals))
                    self.literals.append((rule, atom, _carried(rule, atom, same)))
        self.broken = next((place for place in range(len(self.literals)) if self.always_broken(place)), None)

    def why(self, relation: typed.TypedRelation) -> str:
        """Return the reason why a relation has no pivot, as text for users."""
        if not relation.columns:
            return "it has no columns"
        columns = self.candidates[relation.name]
        if not columns:
            return "its primary key is an aggregate" if relation.key else "it is one group"
        clauses = {column: self.clause(relation.name, column) for column in sorted(columns)}
        if all(clauses.values()):
            broken: dict[str, list[str]] = {}
            for column, clause in clauses.items():
                broken.setdefault(clause, []).append(relation.columns[column].name)
            told = [f"cut by {' or '.join(names)}, {clause}" for clause, names in broken.items()]
            return "; ".join(told[:MOST_TOLD]) + "; and so on" * (len(told) > MOST_TOLD)
        if len(self.stratum.relations) > 1:
            return "whichever columns the recursion is cut by, some rule needs tuples of other buckets"
        return "it reads relations that are gathered"

    def clause(self, name: str, column: int) -> str:
        """Return what breaks a rule if relation ``name`` is cut by ``column``, whatever the others are cut by; empty if
        nothing does."""
        if not all(self.candidates.values()):
            return ""
        broken = [place for place in self.of.get(name, ()) if self.always_broken(place, name, column)]
        broken += [] if self.broken is None else [self.broken]
        if not broken:
            return ""
        rule, atom, _ = self.literals[min(broken)]
        return f"{rule.label} would need {atom} of other buckets"

    def always_broken(self, place: int, name: str = "", column: int = 0) -> bool:
        """Return whether literal ``place`` never has its head's pivot, however relations except ``name`` are cut."""
        rule, atom, carried = self.literals[place]
        heads, atoms = ([column] if of == name else self.candidates[of] for of in (rule.head.relation, atom.relation))
        if rule.head.relation == atom.relation:
            return all(head not in carried[head] for head in heads)
        return all(carried[head].isdisjoint(atoms) for head in heads)
