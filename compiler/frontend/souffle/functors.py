"""Functors and tests of Soufflé in terms of the functions of the language."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from ...ir import syntax
from ...source import Span

_ARITHMETIC = ("+", "-", "*", "/", "%")
_RENAMED = {"strlen": "length", "max": "greatest", "min": "least", "to_string": "string"}
"""Functors that only have another name here."""

_CASTS = {
    **dict.fromkeys(("to_number", "to_unsigned", "ftoi"), "int"),
    **dict.fromkeys(("to_float", "itof", "utof"), "float"),
}
_NUMBERS = ("number", "unsigned", "float")
_LARGEST_POWER = 16
_EXTERN = "write the program in Flintlog, and declare an `extern function` for it"
_PLAIN = re.compile(r"[^.*+?()\[\]{}|^$\\]*")


class NoEquivalent(Exception):
    """Raised for what has no equivalent; has the parts of the diagnostic."""

    def __init__(self, code: str, message: str, span: Span, help: str | None = None) -> None:
        """Store the parts."""
        super().__init__(message)
        self.code, self.message, self.span, self.help = code, message, span, help


def called(function: str, values: Sequence[syntax.Expression], kinds: Sequence[str], span: Span) -> syntax.Expression:
    """Return the value of a functor; ``kinds`` are the primitive types of its arguments, empty if unknown."""
    if function == "-" and len(values) == 1:
        return syntax.Unary("-", values[0], span)
    if function in _ARITHMETIC and len(values) == 2:
        return syntax.BinaryNode(function, values[0], values[1], span)
    if function == "cat" and values:
        number = next(((value, kind) for value, kind in zip(values, kinds, strict=True) if kind in _NUMBERS), None)
        if number:
            message = f"`cat` joins symbols, but this is of type {number[1]}"
            raise NoEquivalent("E0309", message, number[0].span, "write `to_string(...)` around it")
        joined = values[0]
        for value in values[1:]:
            joined = syntax.BinaryNode("++", joined, value, span)
        return joined
    if function == "substr" and len(values) == 3:
        text, begin, size = values
        if isinstance(begin, syntax.ConstantNode) and isinstance(begin.value, int):
            first: syntax.Expression = replace(begin, value=begin.value + 1)
        else:
            first = syntax.BinaryNode("+", begin, syntax.ConstantNode(1, "int", span), span)
        return syntax.CallNode("substring", (text, first, size), span)
    if function == "^" and len(values) == 2:
        return _power(values[0], values[1], span)
    if function == "utoi" and len(values) == 1:
        return values[0]
    if function in _CASTS and len(values) == 1:
        return syntax.CallNode(_CASTS[function], tuple(values), span)
    if function in _RENAMED:
        return syntax.CallNode(_RENAMED[function], tuple(values), span)
    raise NoEquivalent("E0764", f"the functor `{function}` is not supported", span, _EXTERN)


def _power(base: syntax.Expression, exponent: syntax.Expression, span: Span) -> syntax.Expression:
    """Return a power with a small constant exponent as a product."""
    power = exponent.value if isinstance(exponent, syntax.ConstantNode) else None
    if not isinstance(power, int) or not 1 <= power <= _LARGEST_POWER:
        help = f"only constant exponents from 1 to {_LARGEST_POWER} are read; {_EXTERN}"
        raise NoEquivalent("E0764", "the functor `^` is not supported with this exponent", span, help)
    product = base
    for _ in range(power - 1):
        product = syntax.BinaryNode("*", product, base, span)
    return product


def text_test(
    op: str, left: syntax.Expression, right: syntax.Expression, span: Span
) -> syntax.AtomNode | syntax.ComparisonNode:
    """Return ``contains(part, text)`` or ``match(pattern, text)``. Patterns are constants that begin or end with ``.*``
    and are plain otherwise."""
    if op == "contains":
        return syntax.AtomNode("contains", (right, left), None, None, span)
    help = "a pattern is a constant without special characters, except for `.*` at its beginning and its end"
    if not isinstance(left, syntax.ConstantNode) or not isinstance(left.value, str):
        raise NoEquivalent("E0764", "`match` with a pattern that is not a constant is not supported", span, help)
    pattern = left.value
    begins, ends = pattern.startswith(".*"), pattern.endswith(".*") and len(pattern) > 2
    plain = pattern[2 * begins : len(pattern) - 2 * ends]
    if not _PLAIN.fullmatch(plain):
        raise NoEquivalent("E0764", f"`match` with the pattern `{pattern}` is not supported", span, help)
    word = replace(left, value=plain)
    if begins and ends:
        return syntax.AtomNode("contains", (right, word), None, None, span)
    if begins or ends:
        return syntax.AtomNode("endswith" if begins else "startswith", (right, word), None, None, span)
    return syntax.ComparisonNode("=", right, word, span)
