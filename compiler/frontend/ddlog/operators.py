"""Operators of DDlog on numbers, bits, strings and vectors, whose operands are translated already."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from lark import Token

from ...ir import syntax
from ...source import Span
from ..statement_grammar import Node
from .scope import RuleScope
from .types import DOUBLE, STRING, IntType, ListType, Type
from .values import Value, arithmetic, binary, call, number, wrapped


def negated(scope: RuleScope, value: Value, tree: Node) -> Value:
    """Return ``-value``."""
    span, operand = scope.span(tree), next(value.leaves())
    if value.type == DOUBLE:
        if isinstance(operand, syntax.ConstantNode) and isinstance(operand.value, Decimal):
            return Value(DOUBLE, replace(operand, value=-operand.value, span=span))
        return Value(DOUBLE, syntax.Unary("-", operand, span))
    if not isinstance(value.type, IntType):
        raise scope.refuse("E0304", f"`-` requires a number, but this is {value.type}", tree)
    return Value(value.type, wrapped(syntax.Unary("-", operand, span), value.type, span))


def combined(scope: RuleScope, op: str, left: Value, right: Value, tree: Node) -> Value:
    """Return ``left op right`` of two values of one type, for ``++`` and arithmetic."""
    span = scope.span(tree)
    type_, (one, other) = left.type, (next(left.leaves()), next(right.leaves()))
    if op == "++":
        if type_ != STRING and not isinstance(type_, ListType):
            raise scope.refuse("E0309", f"`++` joins strings and vectors, but these are {type_}", tree)
        return Value(type_, binary("++", one, other, span))
    if isinstance(type_, IntType):
        return Value(type_, arithmetic(op, one, other, type_, span))
    if type_ == DOUBLE and op != "%":
        return Value(type_, binary(op, one, other, span))
    raise scope.refuse("E0304", f"`{op}` requires numbers, but these are {type_}", tree)


def joined_bits(left: Value, right: Value, span: Span) -> Value | None:
    """Return two unsigned numbers as one with the bits of both; None if they are no such numbers."""
    one, other = left.type, right.type
    if not isinstance(one, IntType) or not isinstance(other, IntType) or one.signed or other.signed:
        return None
    bits = (one.bits or 0) + (other.bits or 0)
    if not one.bits or not other.bits or bits > 62:
        return None
    high = binary("*", next(left.leaves()), number(2**other.bits, span), span)
    return Value(IntType(bits, False), binary("+", high, next(right.leaves()), span))


def shifted(scope: RuleScope, value: Value, token: Token, distance: int | None, tree: Node) -> Value:
    """Return a shift by a constant, as a multiplication or a division; ``distance`` is None for another shift."""
    type_, span = value.type, scope.span(tree)
    if not isinstance(type_, IntType) or distance is None or not 0 <= distance < 62:
        help = "shift by a constant below 62, or multiply"
        raise scope.refuse("E0784", f"`{token}` by this is not supported", tree, help)
    power = number(2**distance, span)
    if token.type == "SHIFT_LEFT":
        return Value(type_, arithmetic("*", next(value.leaves()), power, type_, span))
    if type_.signed:
        raise scope.refuse("E0784", "`>>` of signed integers is not supported", tree, "divide by a power of 2")
    return Value(type_, binary("/", next(value.leaves()), power, span))


def masked(scope: RuleScope, value: Value, token: Token, mask: int | None, tree: Node) -> Value:
    """Return ``value & mask`` for a mask of low bits, as a remainder; ``mask`` is None if it is no constant."""
    type_, span = value.type, scope.span(tree)
    low = token.type == "BITAND" and mask is not None and mask & (mask + 1) == 0 and mask < 2**62
    if not low or not isinstance(type_, IntType) or type_.signed or mask is None:
        help = "compute with `/` and `%`; `&` takes a constant of low bits, such as `0xff`"
        raise scope.refuse("E0784", f"`{token}` of these bits is not supported", tree, help)
    return Value(type_, binary("%", next(value.leaves()), number(mask + 1, span), span))


def sliced(scope: RuleScope, value: Value, high: int, low: int, tree: Node) -> Value:
    """Return the bits from ``low`` to ``high`` of an unsigned number, as a number with that number of bits."""
    type_, span = value.type, scope.span(tree)
    if not isinstance(type_, IntType) or type_.signed or not low <= high < (type_.bits or 0) or high > 61:
        raise scope.refuse("E0784", "this slice of bits is not supported", tree, "give the bits of an unsigned number")
    expression = next(value.leaves())
    if low:
        expression = binary("/", expression, number(2**low, span), span)
    width = high - low + 1
    return Value(IntType(width, False), binary("%", expression, number(2**width, span), span))


def converted(scope: RuleScope, value: Value, type_: Type, tree: Node) -> Value:
    """Return a value as one of another type, as ``as`` does."""
    span, expression = scope.span(tree), next(value.leaves())
    if isinstance(value.type, IntType) and isinstance(type_, IntType):
        fits = type_.least <= value.type.least and value.type.most <= type_.most
        return Value(type_, expression if fits else wrapped(expression, type_, span))
    if isinstance(value.type, IntType) and type_ == DOUBLE:
        return Value(type_, call("float", expression, span=span))
    raise scope.refuse("E0302", f"a value of type {value.type} cannot become {type_}", tree)
