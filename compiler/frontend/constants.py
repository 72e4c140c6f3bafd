"""Reads the constants of parse trees, and reports what is wrong with nodes of these."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from lark import Token, Tree

from ..diagnostics import Diagnostics
from ..ir import syntax
from ..source import SourceFile, Span
from .syntax_errors import LeftOut, end_of, start_of

Node = Tree[Token]

TOO_LARGE_INT, TOO_LARGE_FLOAT = "this number does not fit a 64-bit int", "this number does not fit a float"

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)


@dataclass(frozen=True)
class ConstantReader:
    """Reads the constants of one file."""

    source: SourceFile
    diagnostics: Diagnostics

    def _bounds(self, node: Node | Token) -> tuple[int, int]:
        if isinstance(node, Token):
            return start_of(node), end_of(node)
        return node.meta.start_pos, node.meta.end_pos

    def _span(self, node: Node | Token) -> Span:
        return self.source.span(*self._bounds(node))

    def _text(self, node: Node | Token) -> str:
        start, end = self._bounds(node)
        return self.source.text[start:end]

    def _refuse(self, code: str, message: str, node: Node | Token, help: str | None = None) -> LeftOut:
        self.diagnostics.report(code, message, self._span(node), help=help)
        return LeftOut()

    def _constant(self, tree: Node, *, negative: bool, whole: Node) -> syntax.ConstantNode:
        token, span = token_of(tree), self._span(whole)
        sign = "-" if negative else ""
        match token.type:
            case "INT":
                value = whole_number(sign, token)
                if value is None:
                    raise self._refuse("E0307", TOO_LARGE_INT, whole, "write it with a decimal point")
                return syntax.ConstantNode(value, "int", span)
            case "NUMBER":
                number = float_number(sign + token)
                if number is None:
                    raise self._refuse("E0307", TOO_LARGE_FLOAT, whole)
                return syntax.ConstantNode(number, "float", span)
            case "STRING":
                return syntax.ConstantNode(self._string(token), "string", span)
            case "DATE":
                text = token[len('date"') : -1]
                if not is_date(text):
                    help = 'write dates as `date"2026-01-31"`'
                    raise self._refuse("E0109", f"`{text}` is not a valid date", token, help)
                return syntax.ConstantNode(text, "date", span)
            case "TIMESTAMP":
                moment = moment_text(token[len('timestamp"') : -1])
                if moment is None:
                    text = token[len('timestamp"') : -1]
                    help = 'write timestamps as `timestamp"2026-01-31 12:00:00"`, in UTC'
                    raise self._refuse("E0109", f"`{text}` is not a valid timestamp", token, help)
                return syntax.ConstantNode(moment, "timestamp", span)
            case _:
                return syntax.ConstantNode(token.type == "TRUE", "bool", span)

    def _string(self, token: Token) -> str:
        """Return the value of a string literal; report unknown escapes (E0108)."""
        body, wrong = token[1:-1], []

        def replace(match: re.Match[str]) -> str:
            escape = match[1]
            if escape in _ESCAPES:
                return _ESCAPES[escape]
            if len(escape) == 5 and not "d800" <= escape[1:].lower() <= "dfff":
                return chr(int(escape[1:], 16))
            start = start_of(token) + 1 + match.start()
            wrong.append(self.source.span(start, start + len(match[0])))
            return escape

        value = _ESCAPE.sub(replace, body)
        for span in wrong:
            help = 'write `\\\\` for a backslash; the other escapes are `\\n`, `\\t`, `\\r`, `\\"` and `\\u00e9`'
            self.diagnostics.report("E0108", "unknown escape in a string", span, help=help)
        if wrong:
            raise LeftOut
        return value


def token_of(tree: Node) -> Token:
    """Return the first child of a tree, which is a token."""
    token = tree.children[0]
    assert isinstance(token, Token)
    return token


def whole_number(sign: str, digits: str) -> int | None:
    """Return the int that digits with a sign say, None if it does not fit 64 bits."""
    value = int(sign + (digits.lstrip("0") or "0")[:20])  # Twenty digits exceed 64 bits; int() refuses very long texts.
    return value if -(2**63) <= value < 2**63 else None


def float_number(text: str) -> Decimal | None:
    """Return the number that a text says, None if it does not fit a float."""
    try:
        number = Decimal(text)
        fits = abs(float(number)) < float("inf") and (float(number) == 0) == (number == 0)
    except (InvalidOperation, ValueError):  # The exponent is too large for Decimal.
        return None
    return number if fits else None


def is_date(text: str) -> bool:
    """Return whether a text is a date as constants have it."""
    if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text) is None:
        return False
    try:
        datetime.date.fromisoformat(text)
    except ValueError:
        return False
    return True


def moment_text(text: str) -> str | None:
    """Return the text of a timestamp as proofs and outputs write it, or None if there is no such timestamp."""
    if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?", text) is None:
        return None
    seconds, _, fraction = text.partition(".")
    try:
        moment = datetime.datetime.strptime(seconds, "%Y-%m-%d %H:%M:%S")
    except ValueError:
        return None
    return moment.replace(microsecond=int(f"{fraction:0<6}")).isoformat(" ")
