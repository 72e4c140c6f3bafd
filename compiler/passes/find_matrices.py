"""Find recursions whose rules are products of matrices.

Before::

    stratum reachable: ranked
      reachable_1: reachable(X, Y) :- link(X, Y).
      reachable_2: reachable(X, Y) :- link(X, Z), reachable(Z, Y).

After::

    stratum reachable: ranked
      as matrices: reachable = link + link × reachable

The relations have one or two columns, apart from the value of an extremum, ``min`` or ``max``; then each rule adds
whole numbers along the chain, as ``p(X, Y, min<C>) :- p(X, Z, A), road(Z, Y, B), C = A + B`` does. The literals of a
recursive rule form a chain from the first variable of its head to the second: literals over the relations of the
recursion, and between them groups of other literals, which share only the variables at their ends with the rest. Each
group is a query, so it may contain joins, negations, comparisons, constants and relations of any width. What has no
value for some rows, such as a division, is left to the rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..ir import typed
from ..ir.plan import FACTOR, WEIGHTED, Factor, MatrixRule, ProgramPlan, StratumPlan
from ..ir.typed import variables_of
from .plan_joins import plan_alone

_ROW = ""
"""The row of a relation with one column."""


def find_matrices(program: ProgramPlan) -> ProgramPlan:
    """Return the plan with the recursive rules as products of matrices, in strata where all of them are."""
    stages = []
    for stage in program.stages:
        strata = (replace(placed, matrices=_matrices(placed)) for placed in stage.strata)
        stages.append(replace(stage, strata=tuple(strata)))
    return replace(program, stages=tuple(stages))


def _matrices(placed: StratumPlan) -> tuple[MatrixRule, ...]:
    """Return the recursive rules of a stratum as products, none if one of them is no product."""
    stratum = placed.stratum
    values = _values(placed)
    if values is None or any(len(r.columns) - (r.name in values) not in (1, 2) for r in stratum.relations):
        return ()
    recursive = [p.rule for p in placed.rules if any(atom.relation in stratum.members for atom in p.rule.atoms)]
    products = [_product(rule, stratum.members, values) for rule in recursive]
    return tuple(product for product in products if product is not None) if None not in products else ()


def _values(placed: StratumPlan) -> Mapping[str, int] | None:
    """Return the columns with the values of extrema by relation, none in a stratum without extrema. Return None if the
    stratum is of another kind, or some of its relations have no extremum of whole numbers, or witnesses."""
    stratum = placed.stratum
    if stratum.kind == "ranked":
        return {}
    places: dict[str, int] = {}
    for rule in (p.rule for p in placed.rules) if stratum.kind == "extremal" else ():
        for place, argument in enumerate(rule.head.arguments):
            if isinstance(argument, typed.Aggregate) and argument.type == typed.INT:
                places[rule.head.relation] = place
    plain = all(relation.name in places and not relation.witnesses for relation in stratum.relations)
    return places if places and plain else None


@dataclass
class _ChainGroup:
    """Literals that share variables which nothing else has, and the ``ends`` that they share with the rest."""

    literals: list[typed.Literal]
    ends: set[str] = field(default_factory=set)
    weights: list[typed.Expression] = field(default_factory=list)

    @property
    def variables(self) -> set[str]:
        """The variables of its positive literals."""
        return {v.name for literal in self.literals if isinstance(literal, typed.Atom) for v in variables_of(literal)}

    @property
    def binds(self) -> bool:
        """Whether its positive literals have all of its variables."""
        return self.variables >= {v.name for literal in self.literals for v in variables_of(literal)}


@dataclass(frozen=True)
class _ChainEdge:
    """A literal of the recursion, or a group, that leads from one variable to another."""

    first: str
    last: str
    what: typed.Atom | _ChainGroup


def _product(rule: typed.TypedRule, members: frozenset[str], values: Mapping[str, int]) -> MatrixRule | None:
    """Return a recursive rule as a product, None if it is none; ``values`` are the columns of extrema."""
    ends = _ends(_without(rule.head.arguments, values.get(rule.head.relation)))
    own = [literal for literal in rule.body if isinstance(literal, typed.Atom) and literal.relation in members]
    edges = [
        _ChainEdge(*pair, atom) for atom in own if (pair := _ends(_without(atom.terms, values.get(atom.relation))))
    ]
    others = [literal for literal in rule.body if literal not in own]
    weights = list[typed.Expression]()
    if values:
        added = _added(rule, own, values)
        if added is None:
            return None
        weights, others = added
    if not ends or len(edges) < len(own) or not all(map(_has_value, others)):
        return None
    apart = [literal for literal in others if _is_apart(literal, ends)]
    ports = {*ends} | {end for edge in edges for end in (edge.first, edge.last)}
    groups = _groups([literal for literal in others if literal not in apart], ports)
    if groups is None:
        return None
    edges += [_ChainEdge(min(group.ends), max(group.ends), group) for group in groups if len(group.ends) == 2]
    filters = {end: group for group in groups if len(group.ends) == 1 for end in group.ends}
    path = _path(edges, *ends)
    if path is None:
        return None
    if not _weigh(weights, [*(edge.what for edge in path if isinstance(edge.what, _ChainGroup)), *filters.values()]):
        return None
    types = {variable.name: variable for variable in variables_of(rule)}
    factors = []
    for place, edge in enumerate(path):
        if edge.first in filters:
            factors.append(_query(rule, filters[edge.first], edge.first, edge.first, types))
        if isinstance(edge.what, _ChainGroup):
            factors.append(_query(rule, edge.what, edge.first, edge.last, types))
        else:
            factors.append(_table(edge.what, edge.first, edge.last, types, values.get(edge.what.relation)))
        if place + 1 == len(path) and edge.last in filters:
            factors.append(_query(rule, filters[edge.last], edge.last, edge.last, types))
    best = rule.head.arguments[values[rule.head.relation]] if values else None
    extremum = best.function if isinstance(best, typed.Aggregate) else ""
    return MatrixRule(rule.label, tuple(factors), bool(apart), extremum)


def _without(terms: Sequence[Any], place: int | None) -> Sequence[Any]:
    """Return terms without the one at a place, if there is one."""
    return terms if place is None else [*terms[:place], *terms[place + 1 :]]


def _added(
    rule: typed.TypedRule, own: Sequence[typed.Atom], values: Mapping[str, int]
) -> tuple[list[typed.Expression], list[typed.Literal]] | None:
    """Return what a rule adds to the values of the recursion, and its other literals; None if it does anything else
    with these values."""
    (place,) = {values[rule.head.relation]}
    best = rule.head.arguments[place]
    assert isinstance(best, typed.Aggregate)
    value = best.argument
    name = value.name if isinstance(value, typed.Variable) else ""
    assigned = [x for x in rule.body if isinstance(x, typed.Assignment) and x.variable.name == name]
    literals = [x for x in rule.body if x not in own and x not in assigned]
    total = assigned[0].value if assigned else value
    terms = _terms(total) if total is not None else []
    summands = [atom.terms[values[atom.relation]] for atom in own]
    names = {term.name for term in summands if isinstance(term, typed.Variable)}
    held = [term for term in terms if isinstance(term, typed.Variable) and term.name in names]
    weights = [term for term in terms if term not in held]
    elsewhere = [*literals, *weights, *(_without_atom(atom, values) for atom in own)]
    used = {variable.name for part in elsewhere for variable in variables_of(part)}
    if len(names) < len(own) or sorted(t.name for t in held) != sorted(names) or used & names:
        return None
    if assigned and name in used:
        return None
    return weights, literals


def _without_atom(atom: typed.Atom, values: Mapping[str, int]) -> typed.Atom:
    """Return an atom of the recursion without its value."""
    return replace(atom, terms=tuple(_without(atom.terms, values[atom.relation])))


def _terms(value: typed.Expression) -> list[typed.Expression]:
    """Return the terms of a sum."""
    if isinstance(value, typed.Binary) and value.op == "+":
        return [*_terms(value.left), *_terms(value.right)]
    return [value]


def _weigh(weights: Sequence[typed.Expression], groups: Sequence[_ChainGroup]) -> bool:
    """Give each term of a sum to the group that has its variables; return whether there is one for each."""
    for weight in weights:
        needed = {variable.name for variable in variables_of(weight)}
        host = next((group for group in groups if needed <= group.variables), None)
        if host is None:
            return False
        host.weights.append(weight)
    return True


def _ends(terms: Sequence[object]) -> tuple[str, str] | tuple[()]:
    """Return the two variables of a literal or a head, which differ; with one column, the first one is the row."""
    named = [term.name for term in terms if isinstance(term, typed.Variable)]
    if len(named) != len(terms) or len(set(named)) != len(named):
        return ()
    return (named[0], named[1]) if len(named) == 2 else (_ROW, named[0])


def _has_value(literal: typed.Literal) -> bool:
    """Whether a literal holds or not for all values: no expression in it may lack one."""
    if isinstance(literal, typed.Comparison):
        return all(isinstance(side, typed.Variable | typed.Constant) for side in (literal.left, literal.right))
    return isinstance(literal, typed.Atom | typed.Negation)


def _is_apart(literal: typed.Literal, ends: tuple[str, str]) -> bool:
    """Whether a literal says that the values of the head differ."""
    return (
        isinstance(literal, typed.Comparison)
        and literal.op == "!="
        and isinstance(literal.left, typed.Variable)
        and isinstance(literal.right, typed.Variable)
        and {literal.left.name, literal.right.name} == {*ends}
    )


def _groups(literals: Sequence[typed.Literal], ports: set[str]) -> list[_ChainGroup] | None:
    """Return the groups of the literals that are not of the recursion, at most one for each pair of ends and for each
    single end; None if some share more than two variables with the rest, or none that binds their variables."""
    groups: list[_ChainGroup] = []
    homes: dict[str, _ChainGroup] = {}
    for literal in literals:
        names = {variable.name for variable in variables_of(literal)}
        group = _ChainGroup([literal], names & ports)
        for other in {id(homes[name]): homes[name] for name in names - ports if name in homes}.values():
            groups.remove(other)
            group = _ChainGroup([*other.literals, *group.literals], group.ends | other.ends)
        groups.append(group)
        inner = {v.name for member in group.literals for v in variables_of(member)} - ports
        homes.update(dict.fromkeys(inner, group))
    # Those of two ends come first, then what binds its variables.
    merged: list[_ChainGroup] = []
    for group in sorted(groups, key=lambda g: (-len(g.ends), not g.binds)):
        host = next((other for other in merged if group.ends <= other.ends), None)
        if host is not None:
            host.literals += group.literals
        elif group.ends and len(group.ends) <= 2:
            merged.append(group)
        else:
            return None
    return merged if all(group.binds for group in merged) else None


def _path(edges: Sequence[_ChainEdge], first: str, last: str) -> list[_ChainEdge] | None:
    """Return the edges as a path between two variables that visits no variable twice, None if they form none."""
    remaining, place, path, seen = list(edges), first, list[_ChainEdge](), {first}
    while remaining:
        leading = [edge for edge in remaining if place in (edge.first, edge.last)]
        if len(leading) != 1:
            return None
        (edge,) = leading
        remaining.remove(edge)
        path.append(edge if edge.first == place else replace(edge, first=edge.last, last=edge.first))
        place = path[-1].last
        if place in seen:
            return None
        seen.add(place)
    return path if place == last else None


def _query(
    rule: typed.TypedRule, group: _ChainGroup, first: str, last: str, types: Mapping[str, typed.Variable]
) -> Factor:
    """Return the factor of a group between two variables."""
    body = tuple(literal for literal in rule.body if any(literal is member for member in group.literals))
    if group.weights:
        total = group.weights[0]
        for weight in group.weights[1:]:
            total = typed.Binary("+", total, weight, typed.INT, rule.head.span)
        # A name that no variable of a program has.
        weighed = typed.Variable("_weight", typed.INT, rule.head.span)
        arguments = (types[first], types[last], weighed)
        assigned = (*body, typed.Assignment(weighed, total, rule.head.span))
        head = typed.Head(WEIGHTED, arguments, rule.head.span)
        query = plan_alone(replace(rule, head=head, body=assigned))
        return Factor((types[first].type, types[last].type), query=query, weighted=True)
    only = body[0] if len(body) == 1 else None
    distinct = False
    if isinstance(only, typed.Atom) and not any(isinstance(term, typed.Wildcard) for term in only.terms):
        distinct = {variable.name for variable in variables_of(only)} == {first, last}
        if distinct and len(only.terms) == len({first, last}):
            return _table(only, first, last, types)
    head = typed.Head(FACTOR, (types[first], types[last]), rule.head.span)
    query = plan_alone(replace(rule, head=head, body=body))
    return Factor((types[first].type, types[last].type), query=query, distinct=distinct)


def _table(
    atom: typed.Atom, first: str, last: str, types: Mapping[str, typed.Variable], value: int | None = None
) -> Factor:
    """Return the factor of a literal between two variables, the first of which may be the row; ``value`` is the column
    of its extremum, if it has one."""
    names = [term.name if isinstance(term, typed.Variable) and n != value else "" for n, term in enumerate(atom.terms)]
    places = (names.index(first) if first != _ROW else None, names.index(last) if last != _ROW else None)
    kinds = (types[first].type if first != _ROW else None, types[last].type if last != _ROW else None)
    return Factor(kinds, atom.relation, places)
