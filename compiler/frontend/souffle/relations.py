"""Rewrite declarations of relations of a Soufflé program, with the rules of equivalence relations and of sizes.

    .decl same(x: number, y: number) eqrel
    .printsize same

becomes

    relation same(x: int, y: int)
    relation same_pairs(x: int, y: int)
    same(x, y) :- ((same_pairs | ^same_pairs)+)(x, y).
    output relation same_size(size: int)
    same_count(count<*>) :- same(_, _).
    same_size(n) :- same_count(n).
    same_size(0) :- !same_count(_).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...ir import syntax
from ...source import Span
from . import tree
from .declarations import DeclaredProgram, RelationNames
from .scopes import plain_name


def relation_statements(
    given: tree.Declaration, program: DeclaredProgram, names: RelationNames
) -> Iterator[syntax.Statement]:
    """Yield a relation with the rules that its tags stand for; nothing for a second declaration of a relation."""
    if program.relations[given.name] is not given:
        return
    directed = program.directed[given.name]
    is_input, name = "input" in directed, names.name(given.name)
    yield syntax.RelationDeclaration(
        name=name,
        columns=_columns(given, program),
        is_input=is_input,
        is_output="output" in directed,
        is_derived=is_input and (given.name in program.derived or "eqrel" in given.tags),
        is_multiset=False,
        symmetric=False,
        key=(),
        at=None,
        name_span=given.span,
        span=given.span,
        text=given.text,
    )
    if "eqrel" in given.tags:
        yield from _equivalence(given, program, names)
    if "printsize" in given.tags:
        yield from size_statements(given.name, given.span, program, names)


def size_statements(
    full: str, span: Span, program: DeclaredProgram, names: RelationNames
) -> Iterator[syntax.Statement]:
    """Yield a relation with the number of tuples of another one, and its rules; nothing if that is not declared."""
    if full not in program.relations:
        return
    name, declared = names.name(full), program.relations[full]
    size, counted = names.helper(f"{name}_size"), names.helper(f"{name}_count")
    number, text = syntax.TypeName("int", (), None, span), f".printsize {full}"
    column = syntax.ColumnDeclaration("size", number, False, span)
    yield syntax.RelationDeclaration(size, (column,), False, True, False, False, False, (), None, span, span, text)
    wildcards = tuple(syntax.WildcardNode(span) for _ in declared.columns)
    every = syntax.AtomNode(name, wildcards, None, None, span)
    n = syntax.VariableNode("n", span)
    count = syntax.AtomNode(counted, (syntax.AggregateNode("count", None, False, span),), None, None, span)
    some = syntax.AtomNode(counted, (syntax.WildcardNode(span),), None, None, span)
    zero = syntax.ConstantNode(0, "int", span)
    yield syntax.RuleNode(None, count, (every,), span, text, f"the size of {full}")
    counted_atom = replace(some, arguments=(n,))
    yield syntax.RuleNode(None, syntax.AtomNode(size, (n,), None, None, span), (counted_atom,), span, text)
    none = (syntax.NegationNode(some, span),)
    yield syntax.RuleNode(None, syntax.AtomNode(size, (zero,), None, None, span), none, span, text)


def _equivalence(given: tree.Declaration, program: DeclaredProgram, names: RelationNames) -> Iterator[syntax.Statement]:
    """Yield the rule that makes a relation an equivalence relation on the values that it has."""
    if len(given.columns) != 2:
        program.diagnostics.report("E0768", "an `eqrel` has two columns", given.span)
        return
    span, name = given.span, names.name(given.name)
    pairs = names.pairs(given.name, program.is_input(given.name))
    if pairs != name:
        columns = _columns(given, program)
        yield syntax.RelationDeclaration(
            pairs, columns, False, False, False, False, False, (), None, span, span, given.text
        )
    step = syntax.PathStep(pairs, span)
    path = syntax.PathRepeat(syntax.PathChoice((step, syntax.PathInverse(step, span)), span), "+", span)
    left, right = syntax.VariableNode("x", span), syntax.VariableNode("y", span)
    head = syntax.AtomNode(name, (left, right), None, None, span)
    body = (syntax.PathLiteral(path, left, right, span),)
    yield syntax.RuleNode(None, head, body, span, given.text, "an equivalence relation")


def _columns(given: tree.Declaration, program: DeclaredProgram) -> tuple[syntax.ColumnDeclaration, ...]:
    """Return the columns of a relation."""
    return tuple(
        syntax.ColumnDeclaration(plain_name(c.name), program.types.type_name(c), False, c.span) for c in given.columns
    )
