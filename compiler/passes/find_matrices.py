"""Find recursions whose rules are products of matrices.

Before::

    stratum reachable: ranked
      reachable_1: reachable(X, Y) :- link(X, Y).
      reachable_2: reachable(X, Y) :- link(X, Z), reachable(Z, Y).

After::

    stratum reachable: ranked
      as matrices: reachable = link + link × reachable

The relations have one or two columns. The literals of a recursive rule form a chain from the first variable of its head
to the second: literals over the relations of the recursion, and between them groups of other literals, which share only
the variables at their ends with the rest. Each group is a query, so it may contain joins, negations, comparisons,
constants and relations of any width. What has no value for some rows, such as a division, is left to the rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..ir import typed
from ..ir.plan import FACTOR, Factor, MatrixRule, ProgramPlan, StratumPlan
from ..ir.typed import variables_of
from .plan_joins import plan_alone

#: The row of a relation with one column.
_ROW = ""


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
    if stratum.kind != "ranked" or any(len(relation.columns) not in (1, 2) for relation in stratum.relations):
        return ()
    recursive = [p.rule for p in placed.rules if any(atom.relation in stratum.members for atom in p.rule.atoms)]
    found = [_product(rule, stratum.members) for rule in recursive]
    return tuple(product for product in found if product is not None) if None not in found else ()


@dataclass
class _ChainGroup:
    """Literals that share variables which nothing else has, and the ``ends`` that they share with the rest."""

    literals: list[typed.Literal]
    ends: set[str] = field(default_factory=set)

    @property
    def binds(self) -> bool:
        """Whether its positive literals have all of its variables."""
        bound = {v.name for literal in self.literals if isinstance(literal, typed.Atom) for v in variables_of(literal)}
        return bound >= {v.name for literal in self.literals for v in variables_of(literal)}


@dataclass(frozen=True)
class _ChainEdge:
    """A literal of the recursion, or a group, that leads from one variable to another."""

    first: str
    last: str
    what: typed.Atom | _ChainGroup


def _product(rule: typed.TypedRule, members: frozenset[str]) -> MatrixRule | None:
    """Return a recursive rule as a product, None if it is none."""
    ends = _ends(rule.head.arguments)
    own = [literal for literal in rule.body if isinstance(literal, typed.Atom) and literal.relation in members]
    edges = [_ChainEdge(*pair, atom) for atom in own if (pair := _ends(atom.terms))]
    others = [literal for literal in rule.body if literal not in own]
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
    types = {variable.name: variable for variable in variables_of(rule)}
    factors = []
    for place, edge in enumerate(path):
        if edge.first in filters:
            factors.append(_query(rule, filters[edge.first], edge.first, edge.first, types))
        if isinstance(edge.what, _ChainGroup):
            factors.append(_query(rule, edge.what, edge.first, edge.last, types))
        else:
            factors.append(_table(edge.what, edge.first, edge.last, types))
        if place + 1 == len(path) and edge.last in filters:
            factors.append(_query(rule, filters[edge.last], edge.last, edge.last, types))
    return MatrixRule(rule.label, tuple(factors), bool(apart))


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
    made: list[_ChainGroup] = []
    for group in sorted(groups, key=lambda g: (-len(g.ends), not g.binds)):
        host = next((other for other in made if group.ends <= other.ends), None)
        if host is not None:
            host.literals += group.literals
        elif group.ends and len(group.ends) <= 2:
            made.append(group)
        else:
            return None
    return made if all(group.binds for group in made) else None


def _path(edges: Sequence[_ChainEdge], first: str, last: str) -> list[_ChainEdge] | None:
    """Return the edges as a path between two variables that visits no variable twice, None if they form none."""
    left, place, path, seen = list(edges), first, list[_ChainEdge](), {first}
    while left:
        leading = [edge for edge in left if place in (edge.first, edge.last)]
        if len(leading) != 1:
            return None
        (edge,) = leading
        left.remove(edge)
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
    only = body[0] if len(body) == 1 else None
    distinct = False
    if isinstance(only, typed.Atom) and not any(isinstance(term, typed.Wildcard) for term in only.terms):
        distinct = {variable.name for variable in variables_of(only)} == {first, last}
        if distinct and len(only.terms) == len({first, last}):
            return _table(only, first, last, types)
    head = typed.Head(FACTOR, (types[first], types[last]), rule.head.span)
    query = plan_alone(replace(rule, head=head, body=body))
    return Factor((types[first].type, types[last].type), query=query, distinct=distinct)


def _table(atom: typed.Atom, first: str, last: str, types: Mapping[str, typed.Variable]) -> Factor:
    """Return the factor of a literal between two variables, the first of which may be the row."""
    names = [term.name for term in atom.terms if isinstance(term, typed.Variable)]
    places = (names.index(first) if first != _ROW else None, names.index(last) if last != _ROW else None)
    kinds = (types[first].type if first != _ROW else None, types[last].type if last != _ROW else None)
    return Factor(kinds, atom.relation, places)
