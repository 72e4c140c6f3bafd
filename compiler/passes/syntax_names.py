"""Collect the names of the variables in syntax nodes."""

from __future__ import annotations

from collections.abc import Iterable

from ..ir import syntax


def variable_names(expressions: Iterable[syntax.Expression | None]) -> Iterable[str]:
    """Yield the variables of expressions, in order and with repetitions."""
    for expression in expressions:
        match expression:
            case syntax.VariableNode():
                yield expression.name
            case syntax.Unary():
                yield from variable_names([expression.operand])
            case syntax.BinaryNode():
                yield from variable_names([expression.left, expression.right])
            case syntax.CallNode():
                yield from variable_names(expression.arguments)
            case syntax.ListNode():
                yield from variable_names(expression.items)
            case syntax.AggregateNode():
                yield from variable_names([expression.argument, *(part.value for part in expression.order)])


def literal_names(literal: syntax.Literal) -> Iterable[str]:
    """Return the variables of a literal, in order and with repetitions."""
    match literal:
        case syntax.AtomNode():
            return variable_names(literal.arguments)
        case syntax.PathLiteral():
            return variable_names([literal.left, literal.right])
        case syntax.NegationNode():
            return literal_names(literal.atom)
        case syntax.ComparisonNode():
            return variable_names([literal.left, literal.right])
        case syntax.Disjunction():
            return [
                name for alternative in literal.alternatives for part in alternative for name in literal_names(part)
            ]
