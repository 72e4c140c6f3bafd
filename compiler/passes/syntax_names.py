"""What passes ask of syntax: the names in it."""

from __future__ import annotations

from collections.abc import Iterable

from ..ir import syntax


def variable_names(expressions: Iterable[syntax.Expression | None]) -> Iterable[str]:
    """The variables of expressions, in order, repetitions kept."""
    for expression in expressions:
        match expression:
            case syntax.Variable():
                yield expression.name
            case syntax.Unary():
                yield from variable_names([expression.operand])
            case syntax.Binary():
                yield from variable_names([expression.left, expression.right])
            case syntax.Call():
                yield from variable_names(expression.arguments)
            case syntax.ListLiteral():
                yield from variable_names(expression.items)
            case syntax.Aggregate():
                yield from variable_names([expression.argument])


def literal_names(literal: syntax.Literal) -> Iterable[str]:
    """The variables of a literal, in order, repetitions kept."""
    match literal:
        case syntax.Atom():
            return variable_names(literal.arguments)
        case syntax.PathLiteral():
            return variable_names([literal.left, literal.right])
        case syntax.Negation():
            return literal_names(literal.atom)
        case syntax.Comparison():
            return variable_names([literal.left, literal.right])
        case syntax.Disjunction():
            return [
                name for alternative in literal.alternatives for part in alternative for name in literal_names(part)
            ]
