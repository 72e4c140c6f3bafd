"""Queries in conditions and values: EXISTS, IN, and aggregates of a query.

    SELECT name FROM part p WHERE NOT EXISTS (SELECT 1 FROM sale s WHERE s.part = p.id AND s.year = 2026)

reads a relation of what the query depends on, unless it can negate a table itself:

    v_exists(id) :- sale(_, id, 2026).
    v(name) :- part(id, name), !v_exists(id).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

from sqlglot import exp

from ...ir import syntax
from .expressions import FALSE, TRUE, UNKNOWN, SqlExpressions, compared, test
from .functions import AGGREGATES
from .program import is_set
from .scope import (
    Branch,
    Case,
    Literals,
    Row,
    Split,
    SqlValue,
    atoms,
    bound,
    certain,
    null,
    null_of,
    outside_queries,
    variables,
)
from .text import Unsupported, different_names

if TYPE_CHECKING:
    from .queries import Queries, Result

Bodies = Callable[[Row], list[Literals]]
"""Returns the bodies of a query in a row."""


def exists(queries: Queries, query: exp.Expr, row: Row, outcome: str, exact: bool) -> list[Literals]:
    """Return when a query has rows, or none."""
    return exist(
        queries,
        lambda row: [branch.literals for branch in queries.result(query, row, False).branches],
        row,
        outcome,
        exact,
        "exists",
    )


def among(
    queries: Queries, node: exp.Expr, query: exp.Expr, row: Row, outcome: str, exact: bool, op: str
) -> list[Literals]:
    """Return when a comparison with any row of a query (``IN``, if it is ``=``) is true, false or unknown."""
    if isinstance(node, exp.Tuple) and op != "=":
        raise Unsupported("E0792", "several values can be compared with those of a query by IN only", node)
    nodes = node.expressions if isinstance(node, exp.Tuple) else [node]
    expressions = SqlExpressions(queries, True)

    def where(*outcomes: str) -> Bodies:
        def bodies(row: Row) -> list[Literals]:
            found: list[Literals] = []
            result = queries.result(query, row, False)
            if len(result.names) != len(nodes):
                raise Unsupported("E0794", f"the query has {len(result.names)} columns", query)
            given = list(product(*(expressions.values(one, row) for one in nodes)))
            for branch, cases in product(result.branches, given):
                tests = tuple(literal for case in cases for literal in case[0])
                pairs = [
                    [more for one in outcomes for more in compared(op, case[1], value, one)]
                    for case, value in zip(cases, branch.values, strict=True)
                ]
                for chosen in product(*pairs):
                    found.append((*branch.literals, *tests, *(one for part in chosen for one in part)))
            return found

        return bodies

    if outcome == TRUE:
        return exist(queries, where(TRUE), row, TRUE, exact, "in")
    possible = where(TRUE, UNKNOWN)
    if outcome == FALSE:
        return exist(queries, possible, row, FALSE, exact, "in")
    if not exist(queries, where(UNKNOWN), row, TRUE, False, "in"):
        return []
    return [
        (*one, *other)
        for one in exist(queries, possible, row, TRUE, exact, "in")
        for other in exist(queries, where(TRUE), row, FALSE, exact, "in")
    ]


def scalar(queries: Queries, node: exp.Expr, row: Row, exact: bool) -> list[Case]:
    """Return the cases of a query as a value: null if it has no rows."""
    query = node.this if isinstance(node, exp.Subquery) else node
    try:
        result = queries.result(query, row, True)
        if len(result.names) != 1:
            raise Unsupported("E0794", f"the query has {len(result.names)} columns", query)
        found = [(branch.literals, branch.values[0]) for branch in result.branches]
        if isinstance(query, exp.Select) and query.args.get("group") is None and _is_aggregated(query):
            return found if query.args.get("having") is None else [*found, *_without(queries, query, row, result)]
    except Split as split:
        return [
            ((*tests, *literals), value)
            for tests, one in _told_apart(queries, split, row)
            for literals, value in scalar(queries, node, one, exact)
        ]
    if not one_at_most(queries, [branch.literals for branch in result.raw], row):
        help = "compare all columns of a key of its table with values, or write max(...)"
        raise Unsupported("E0792", "a query as a value must have one row at most", node, help)
    return [*found, *_without(queries, query, row, result)]


def one_at_most(queries: Queries, bodies: Sequence[Literals], row: Row) -> bool:
    """Return whether bodies that exclude each other hold once at most for a row."""
    around = tuple(map(queries.program.value_of, dict.fromkeys(variables_around(row))))
    return is_set(queries.program, [Branch(literals, around) for literals in bodies])


def _without(queries: Queries, query: exp.Expr, row: Row, result: Result) -> list[Case]:
    """Return null, and when a query has no rows; in this row, it has a result."""

    def bodies(one: Row) -> list[Literals]:
        return [branch.literals for branch in (result if one is row else queries.result(query, one, False)).branches]

    nothing = replace(null(queries.program.span(query)), type=result.types[0])
    return [(literals, nothing) for literals in exist(queries, bodies, row, FALSE, True, "exists")]


def _is_aggregated(query: exp.Select) -> bool:
    """Return whether a query without groups has aggregates."""
    parts = (part for item in query.expressions for part in outside_queries(item))
    return any(type(part) in AGGREGATES and not isinstance(part.parent, exp.Window) for part in parts)


def exist(queries: Queries, bodies_of: Bodies, row: Row, outcome: str, exact: bool, hint: str) -> list[Literals]:
    """Return when one of some bodies holds in a row, or none does. A relation of them is called after a ``hint``."""
    if outcome == UNKNOWN:
        return []
    program, around, sure = queries.program, frozenset(variables_around(row)), certain(all_literals(row))
    try:
        made = [program.simplified(Branch(literals, ()), around) for literals in bodies_of(row)]
        bodies = [branch.literals for branch in made if branch is not None]
        used = [name for name in dict.fromkeys(variables(tuple(bodies))) if name in around]
        check_nulls(queries, used, bodies, sure)
    except Split as split:
        return [
            (*tests, *more)
            for tests, one in _told_apart(queries, split, row)
            for more in exist(queries, bodies_of, one, outcome, exact, hint)
        ]
    if not bodies:
        return [()] if outcome == FALSE else []
    if any(not body for body in bodies):
        return [()] if outcome == TRUE else []
    if outcome == TRUE and (not exact or (len(bodies) == 1 and one_at_most(queries, bodies, row))):
        return bodies
    if outcome == FALSE and len(bodies) == 1 and len(bodies[0]) == 1:
        (literal,) = bodies[0]
        if isinstance(literal, syntax.AtomNode) and _can_be_negated(literal, around):
            return [(syntax.NegationNode(literal, literal.span),)]
    branches = []
    for body in bodies:
        whole = (*binding(row, {*used} - bound(body)), *body)
        branch = program.simplified(Branch(whole, tuple(map(program.value_of, used))), around)
        if branch is not None:
            branches.append(branch)
    if not branches:
        return [()] if outcome == FALSE else []
    names = different_names(program.hints[name] for name in used)
    table = program.relation(f"{queries.name}_{hint}", names, branches)
    arguments = tuple(syntax.VariableNode(name, program.where) for name in used)
    atom = syntax.AtomNode(table.name, arguments, None, None, program.where)
    return [(atom,) if outcome == TRUE else (syntax.NegationNode(atom, atom.span),)]


def bound_around(
    queries: Queries, branches: Sequence[Branch], outer: Row | None, more: Sequence[SqlValue]
) -> tuple[list[str], list[Branch | None]]:
    """Return which variables of queries around this one the literals of branches, or ``more`` values, have; and the
    branches, in which what is equal to such a variable is that, with literals that bind them, once for each of their
    values. None is in place of a branch without rows."""
    program, names = queries.program, frozenset(variables_around(outer))
    if not names:
        return [], list(branches)
    simple = [program.simplified(branch, names) for branch in branches]
    bodies = [branch.literals for branch in simple if branch is not None]
    used = [name for name in dict.fromkeys(variables((*bodies, *more))) if name in names]
    check_nulls(queries, used, bodies, certain(all_literals(outer)))

    def whole(branch: Branch) -> Branch:
        missing = [name for name in used if name not in bound(branch.literals)]
        if not missing:
            return branch
        values = tuple(program.value_of(name) for name in missing)
        table = program.relation(f"{queries.name}_around", missing, [Branch(binding(outer, {*missing}), values)])
        atom = syntax.AtomNode(table.name, tuple(value.expression for value in values), None, None, program.where)
        return replace(branch, literals=(atom, *branch.literals))

    return used, [branch and whole(branch) for branch in simple]


def check_nulls(queries: Queries, names: Sequence[str], bodies: Sequence[Literals], sure: set[str]) -> None:
    """Raise Split if bodies may hold for a null of a variable around: a null would not be found in a relation of them,
    since it equals nothing."""
    for name in names:
        loose = any(name not in certain(body) | bound(body) for body in bodies)
        if name in queries.program.nullable and name not in sure and loose:
            raise Split(name)


def _told_apart(queries: Queries, split: Split, row: Row) -> list[tuple[Literals, Row]]:
    """Return a row in which a variable is null, and one in which it is not, with the tests for that. Raise the split
    again if the variable is that of a query further around."""
    if split.name not in {*variables_around(row)}:
        raise split
    program = queries.program
    value = SqlValue(syntax.VariableNode(split.name, program.where), program.types[split.name], True)
    lacks, has = ((test(value, op),) for op in ("=", "!="))
    return [
        (lacks, row.with_value(split.name, null_of(value))),
        (has, row.with_value(split.name, replace(value, nullable=False)).where(has)),
    ]


def variables_around(row: Row | None) -> Iterator[str]:
    """Yield the variables that a query in a row can use."""
    while row is not None:
        yield from variables(row.literals)
        yield from variables((*row.values, *row.computed.values()))
        row = row.outer


def all_literals(row: Row | None) -> Literals:
    """Return what holds in a row, and in those around it."""
    return () if row is None else (*all_literals(row.outer), *row.literals)


def binding(row: Row | None, names: Collection[str]) -> Literals:
    """Return what binds variables in a row, or in those around it: one atom, with conditions of it alone, if that is
    enough, since it may hold for more rows than there are."""
    whole = all_literals(row)
    if not names:
        return ()
    for atom in atoms(whole):
        known = {*variables(atom)}
        if {*names} <= known:
            tests = (one for one in whole if isinstance(one, syntax.ComparisonNode) and {*variables(one)} <= known)
            return (atom, *tests)
    return whole


def _can_be_negated(atom: syntax.AtomNode, around: frozenset[str]) -> bool:
    """Return whether no variable of an atom that is not bound elsewhere occurs twice, and no argument is computed."""
    own = [a.name for a in atom.arguments if isinstance(a, syntax.VariableNode) and a.name not in around]
    plain = all(isinstance(a, syntax.VariableNode | syntax.ConstantNode | syntax.WildcardNode) for a in atom.arguments)
    return len(set(own)) == len(own) and plain
