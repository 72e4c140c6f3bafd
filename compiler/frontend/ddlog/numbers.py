"""Constants of DDlog, and numbers whose type is up to their context: ``1`` has that of what it is used with."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal, InvalidOperation

from lark import Token

from ...ir import syntax
from ..statement_grammar import Node, trees
from .scope import RuleScope
from .tokens import integer, of_digits
from .types import BOOL, DOUBLE, MOST_BITS, OPEN, IntType, ListType, Type, is_open
from .values import Value, number, wrapped


def constant(scope: RuleScope, tree: Node, expected: Type | None) -> Value:
    """Return a truth value or a number; ``expected`` is the type of a number that does not say its own."""
    token, span = tree.children[0], scope.span(tree)
    assert isinstance(token, Token)
    match token.type:
        case "TRUE" | "FALSE":
            return Value(BOOL, syntax.ConstantNode(token.type == "TRUE", "bool", span))
        case "INT" if expected == DOUBLE:
            return Value(DOUBLE, syntax.ConstantNode(Decimal(integer(str(token))), "float", span))
        case "INT":
            type_ = expected if isinstance(expected, IntType) else OPEN
            return Value(type_, fitting(scope, integer(str(token)), type_, tree))
        case "SIZED":
            width, digits = token.split("'")
            signed = digits.startswith("s")
            digits = digits.lstrip("s")
            base = {"d": 10, "h": 16, "o": 8, "b": 2}[digits[0].lower()]
            type_ = expected if isinstance(expected, IntType) else OPEN
            if width:
                bits = of_digits(width, 10)
                if not 1 <= bits <= MOST_BITS:
                    raise scope.refuse("E0783", f"there are no integers of {width} bits", token)
                type_ = IntType(bits, signed)
            return Value(type_, fitting(scope, of_digits(digits[1:], base), type_, tree))
    try:
        decimal = Decimal(token.replace("_", ""))
        fits = abs(float(decimal)) < float("inf") and (float(decimal) == 0) == (decimal == 0)
    except (InvalidOperation, ValueError):
        fits = False
    if not fits:
        raise scope.refuse("E0307", "this number does not fit a double", tree)
    return Value(DOUBLE, syntax.ConstantNode(decimal, "float", span))


def negative_constant(scope: RuleScope, tree: Node, expected: Type | None) -> Value | None:
    """Return the value of an integer with a minus; None if ``tree`` is the negation of something else."""
    (inner,) = trees(tree)
    token = inner.children[0] if inner.data == "constant" else None
    if not isinstance(token, Token) or token.type != "INT" or expected == DOUBLE:
        return None
    type_ = expected if isinstance(expected, IntType) else OPEN
    return Value(type_, fitting(scope, -integer(str(token)), type_, tree))


def fitting(scope: RuleScope, value: int, type_: IntType, tree: Node) -> syntax.Expression:
    """Return an integer of a type; report E0307 if it does not fit."""
    if not type_.least <= value <= type_.most:
        limit = f", which Flintlog holds up to {type_.most}" if type_.bits is None or type_.bits > 62 else ""
        raise scope.refuse("E0307", f"this number does not fit {type_}{limit}", tree)
    return number(value, scope.span(tree))


def closed(scope: RuleScope, value: Value, type_: Type, tree: Node) -> Value:
    """Return a number whose type is open as one of ``type_``, if that is a type of integers, and a vector of such
    numbers as one of theirs. Those of a vector that is no literal cannot be wrapped; they become what holds them all,
    ``bigint`` or ``signed<64>``."""
    if isinstance(value.type, ListType):
        return _closed_vector(scope, value, type_, tree)
    if not (isinstance(value.type, IntType) and value.type.open and isinstance(type_, IntType)) or type_.open:
        return value
    expression = next(value.leaves())
    if isinstance(expression, syntax.ConstantNode) and isinstance(expression.value, int):
        return Value(type_, fitting(scope, expression.value, type_, tree))
    return Value(type_, wrapped(expression, type_, scope.span(tree)))


def _closed_vector(scope: RuleScope, value: Value, type_: Type, tree: Node) -> Value:
    if not isinstance(value.type, ListType) or not isinstance(type_, ListType) or not is_open(value.type):
        return value
    expression, element = next(value.leaves()), value.type.element
    if isinstance(expression, syntax.ListNode):
        items = [closed(scope, Value(element, item), type_.element, tree) for item in expression.items]
        if all(item.type == type_.element for item in items):
            leaves = tuple(leaf for item in items for leaf in item.leaves())
            return Value(type_, replace(expression, items=leaves))
    return Value(type_, expression) if _holds(type_, value.type) else value


def _holds(type_: Type, numbers: Type) -> bool:
    """Return whether a type can hold all vectors of numbers whose type is open."""
    if isinstance(type_, ListType) and isinstance(numbers, ListType):
        return _holds(type_.element, numbers.element)
    return numbers == OPEN and isinstance(type_, IntType) and type_.least <= OPEN.least and OPEN.most <= type_.most


def is_literal(tree: Node) -> bool:
    """Return whether the type of a value is up to its context."""
    if tree.data == "constant":
        token = tree.children[0]
        return isinstance(token, Token) and (token.type == "INT" or (token.type == "SIZED" and token.startswith("'")))
    if tree.data in ("negative", "tuple", "binary"):
        return bool(trees(tree)) and all(map(is_literal, trees(tree)))
    return tree.data == "vector"


def has_literal(tree: Node) -> bool:
    """Return whether the type of a part of a value is up to its context."""
    return is_literal(tree) or (tree.data == "tuple" and any(map(has_literal, trees(tree))))


def constant_int(tree: Node) -> int | None:
    """Return the value of a constant, None if a tree is none."""
    while tree.data == "tuple" and len(trees(tree)) == 1:
        tree = trees(tree)[0]
    token = tree.children[0] if tree.data == "constant" else None
    if isinstance(token, Token) and token.type == "INT":
        return integer(str(token))
    return None
