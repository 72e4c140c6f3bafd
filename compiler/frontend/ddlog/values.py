"""Values of DDlog as expressions of Flintlog: arithmetic of any width, and records of several expressions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...ir import syntax
from ...source import Span
from .types import IntType, RecordType, Type


@dataclass(frozen=True)
class Value:
    """A value of a type: an expression, or for a record the values of its fields."""

    type: Type
    expression: syntax.Expression | None = None
    parts: tuple[Value, ...] = ()

    def leaves(self) -> Iterator[syntax.Expression]:
        """Yield the expressions of the value, one per column."""
        if isinstance(self.type, RecordType):
            for part in self.parts:
                yield from part.leaves()
        else:
            assert self.expression is not None
            yield self.expression

    def field(self, name: str) -> Value | None:
        """Return the value of a field, None if the value has none of that name."""
        if not isinstance(self.type, RecordType):
            return None
        return next((v for (f, _), v in zip(self.type.fields, self.parts, strict=True) if f == name), None)


def number(value: int, span: Span) -> syntax.ConstantNode:
    """Return an int as an expression."""
    return syntax.ConstantNode(value, "int", span)


def call(name: str, *arguments: syntax.Expression, span: Span) -> syntax.CallNode:
    """Return a call."""
    return syntax.CallNode(name, arguments, span)


def binary(op: str, left: syntax.Expression, right: syntax.Expression, span: Span) -> syntax.BinaryNode:
    """Return an operation."""
    return syntax.BinaryNode(op, left, right, span)


def wrapped(value: syntax.Expression, type_: IntType, span: Span) -> syntax.Expression:
    """Return the value of ``type_`` with the same low bits as a value that is out of its range.

    An int of Flintlog has 64 bits, so integers of 63 bits or more do not wrap around: a value that does not fit has no
    value, also a negative one where there is no sign, and a batch that needs it is refused.
    """
    bits = type_.bits
    if bits is not None and bits < 63:
        size = number(2**bits, span)
        if not type_.signed:
            return call("pmod", value, size, span=span)
        half = number(2 ** (bits - 1), span)
        return binary("-", call("pmod", binary("+", value, half, span), size, span=span), half, span)
    if type_.signed or bits is None:
        return value
    # 0 / (1 + least(0, sign(x))): 0, or a division by zero if the value is negative.
    zero, one = number(0, span), number(1, span)
    checked = binary(
        "/", zero, binary("+", one, call("least", zero, call("sign", value, span=span), span=span), span), span
    )
    return binary("+", value, checked, span)


def arithmetic(
    op: str, left: syntax.Expression, right: syntax.Expression, type_: IntType, span: Span
) -> syntax.Expression:
    """Return ``left op right`` of integers, wrapped around."""
    exact = binary(op, left, right, span)
    bits = type_.bits
    constants = [side.value for side in (left, right) if isinstance(side, syntax.ConstantNode)]
    small = any(isinstance(value, int) and value.bit_length() + (bits or 64) < 63 for value in constants)
    if op == "*" and bits is not None and 31 < bits <= 41 and not type_.signed and not small:
        # The product of two such numbers exceeds 64 bits, so the higher part of one is multiplied first, and of that
        # product only the bits that count are kept.
        low = bits - (62 - bits)
        cut, rest = number(2**low, span), number(2 ** (bits - low), span)
        high = call("pmod", binary("*", left, binary("/", right, cut, span), span), rest, span=span)
        exact = binary("+", binary("*", high, cut, span), binary("*", left, binary("%", right, cut, span), span), span)
        return wrapped(exact, type_, span)
    if op == "%" or (op == "/" and not type_.signed):
        return exact
    if type_.bits is not None and type_.bits >= 63 and not type_.signed and op in ("+", "*"):
        return exact
    return wrapped(exact, type_, span)
