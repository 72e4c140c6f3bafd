"""The types of lists, calls, arithmetic and aggregates, by those of their parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from .functions import FUNCTIONS, Match
from .ir import typed

_INT_DIGITS = 19  # digits of the largest 64-bit int
_MAX_DIGITS = 38  # maximum precision of a decimal in both engines


def is_literal(argument: typed.Expression | typed.Aggregate) -> bool:
    """Return whether an argument is a number literal, or an empty list or a list of number literals."""
    if isinstance(argument, typed.ListLiteral):
        return all(map(is_literal, argument.items))
    return isinstance(argument, typed.Constant) and argument.type.numeric


def element_type(items: Sequence[typed.Expression], types: Sequence[typed.Type]) -> typed.Type | None:
    """Return the element type of a list of items with these types, None if there is none."""
    common = typed.NOTHING
    for outcome in (typed.BROKEN, typed.UNKNOWN):
        if outcome in types:
            return outcome
    for type_ in types_beside(items, types):
        met = typed.joined(common, type_) or common_type(common, type_)
        if met is None:
            return None
        common = met
    return common


def types_beside(values: Sequence[typed.Expression], types: Sequence[typed.Type]) -> list[typed.Type]:
    """Return the types of values; beside a decimal, number literals are decimals of their own digits."""
    decimal = next((type_ for type_ in types if type_.name == "decimal"), typed.NOTHING)
    return [as_operand(value, type_, decimal) for value, type_ in zip(values, types, strict=True)]


def match_of(call: typed.Call, given: Sequence[typed.Type]) -> Match | None:
    """Return how arguments of these types match a signature of a built-in function, None if they do not."""
    function = FUNCTIONS[call.function]
    return function.match(given, common_type) or function.match(types_beside(call.arguments, given), common_type)


def is_retyped(literal: typed.ListLiteral, type_: typed.Type) -> bool:
    """Return whether the items of a list literal can be converted to the elements of a list type."""
    return type_.element is not None and all(
        is_retyped(item, type_.element)
        if isinstance(item, typed.ListLiteral) and item.type != type_.element
        else item.type == type_.element
        or typed.joined(item.type, type_.element) == type_.element
        or (isinstance(item, typed.Constant) and widens(item.type, type_.element))
        for item in literal.items
    )


@dataclass(frozen=True)
class Arithmetic:
    """The types that the operands are converted to, and the type of the result."""

    left: typed.Type
    right: typed.Type
    result: typed.Type


@dataclass(frozen=True)
class Mistake:
    """The reason why two operands are incompatible."""

    code: str
    message: str
    help: str | None = None


def result_of(op: str, left: typed.Type, right: typed.Type) -> Arithmetic | Mistake:
    """Return the types in which ``left op right`` is computed, or why it cannot be."""
    types = (left, right)
    if typed.BROKEN in types:
        return Arithmetic(left, right, typed.BROKEN)
    if op == "++":
        if left == right == typed.STRING:
            return Arithmetic(left, right, typed.STRING)
        result = typed.joined(left, right)
        if result is not None and result.element is not None:
            return Arithmetic(result, result, result)
        return Mistake("E0309", f"`++` joins strings or lists of one type, but these are {left} and {right}")
    if op == "+" and (left.element is not None or right.element is not None):
        return Mistake("E0308", f"`+` adds numbers, but these are {left} and {right}", "write `++` to join lists")
    if op == "+" and typed.STRING in types:
        return Mistake("E0308", f"`+` adds numbers, but these are {left} and {right}", "write `++` to join strings")
    if not (left.numeric and right.numeric):
        return Mistake("E0304", f"`{op}` requires numbers, but these are {left} and {right}")
    if typed.FLOAT in types or (op == "/" and left != right) or (op == "/" and left.name == "decimal"):
        return Arithmetic(typed.FLOAT, typed.FLOAT, typed.FLOAT)
    if left == right == typed.INT:
        return Arithmetic(left, right, typed.INT)
    left, right = as_decimal(left), as_decimal(right)
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    if op == "*":
        scale = left.scale + right.scale
        if scale > _MAX_DIGITS:
            message = f"the product of {left} and {right} has {scale} digits after the point, more than {_MAX_DIGITS}"
            return Mistake("E0311", message)
        result = typed.Type("decimal", min(_MAX_DIGITS, left.precision + right.precision + 1), scale)
        return Arithmetic(left, right, result)
    carry = 1 if op in ("+", "-") else 0
    result = typed.Type("decimal", min(_MAX_DIGITS, whole + scale + carry), scale)
    return Arithmetic(result, result, result)


def common_type(left: typed.Type, right: typed.Type) -> typed.Type | None:
    """Return the type in which values of two types are compared, None if they cannot be."""
    met = typed.joined(left, right)
    if met is not None or not (left.numeric and right.numeric):
        return met
    outcome = result_of("%", left, right)
    return outcome.result if isinstance(outcome, Arithmetic) else None


def as_decimal(type_: typed.Type) -> typed.Type:
    """Return a type as a decimal if it is int."""
    return typed.Type("decimal", _INT_DIGITS, 0) if type_ == typed.INT else type_


def as_operand(expression: typed.Expression, type_: typed.Type, other: typed.Type) -> typed.Type:
    """Return the type of an operand in arithmetic; beside a decimal, a literal is a decimal of its own digits."""
    if isinstance(expression, typed.Constant) and type_.numeric and other.name == "decimal":
        return digits_of(expression) or type_
    return type_


def digits_of(constant: typed.Constant) -> typed.Type | None:
    """Return the smallest decimal type that can hold a number literal, None if it has too many digits."""
    assert not isinstance(constant.value, str)
    _, digits, exponent = Decimal(constant.value).as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    precision = max(len(digits) + max(0, exponent), scale, 1)
    return typed.Type("decimal", precision, scale) if precision <= _MAX_DIGITS else None


def aggregate_type(function: str, argument: typed.Type) -> typed.Type:
    """Return the type of an aggregate over values of a type; ``broken`` if there is none."""
    if function in ("count", "first"):
        return typed.INT
    if argument in (typed.BROKEN, typed.UNKNOWN):
        return argument
    if function == "avg":
        return typed.FLOAT
    if function == "sum" and argument.name == "decimal":
        return typed.Type("decimal", _MAX_DIGITS, argument.scale)
    return argument


def widens(literal: typed.Type, column: typed.Type) -> bool:
    """Return whether a literal is accepted where a number of another type is expected."""
    return literal in (typed.INT, typed.FLOAT) and column.name in ("float", "decimal") and literal != column
