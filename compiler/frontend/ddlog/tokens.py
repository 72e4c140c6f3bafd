"""Splits DDlog text into tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from lark import Token

from ...diagnostics import Diagnostics
from ...source import SourceFile
from ..statement_grammar import span_of

_OPERATORS = {
    ":-": "IF",
    "::": "SCOPE",
    "==": "EQUALS",
    "=>": "IMPLIES",
    "!=": "NOT_EQUAL",
    "<=": "LESS_EQUAL",
    ">=": "GREATER_EQUAL",
    "<<": "SHIFT_LEFT",
    ">>": "SHIFT_RIGHT",
    "++": "CONCAT",
    "->": "ARROW",
    "#[": "ATTRIBUTE",
    "=": "EQUAL",
    "<": "LESS",
    ">": "GREATER",
    "+": "PLUS",
    "-": "MINUS",
    "*": "STAR",
    "/": "SLASH",
    "%": "PERCENT",
    "&": "BITAND",
    "|": "BAR",
    "^": "CARET",
    "~": "TILDE",
    "@": "AT",
    ":": "COLON",
    ",": "COMMA",
    ";": "SEMICOLON",
    "?": "TRY",
    ".": "DOT",
    "(": "LPAR",
    ")": "RPAR",
    "[": "LSQB",
    "]": "RSQB",
    "{": "LBRACE",
    "}": "RBRACE",
}
_WORDS = {
    "and": "AND",
    "as": "AS",
    "else": "ELSE",
    "false": "FALSE",
    "if": "QUESTION",
    "in": "IN",
    "not": "NOT",
    "or": "OR",
    "true": "TRUE",
    "var": "VAR",
}

_TOKEN = re.compile(
    r"""
    (?P<COMMENT>//[^\n]*)
  | (?P<OPEN>/\*)
  | (?P<SPACE>\s+)
  | (?P<RAW>\$?\[\|.*?\|\])
  | (?P<STRING>[is]?"(?:[^"\\]|\\.)*")
  | (?P<OPEN_STRING>"[^\n]*)
  | (?P<GENERIC>'[A-Z]\w*)
  | (?P<SIZED>(?:[0-9][0-9_]*)?'s?(?:[dD][0-9][0-9_]*|[hH][0-9A-Fa-f][0-9A-Fa-f_]*|[oO][0-7][0-7_]*|[bB][01][01_]*))
  | (?P<NUMBER>[0-9][0-9_]*(?:\.[0-9]+(?:[eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)(?![0-9A-Za-z_]))
  | (?P<INT>(?:0x[0-9A-Fa-f][0-9A-Fa-f_]*|0b[01][01_]*|0o[0-7][0-7_]*|[0-9][0-9_]*)(?![0-9A-Za-z_]))
  | (?P<WILDCARD>_(?![A-Za-z0-9_]))
  | (?P<UPPER>[A-Z][A-Za-z0-9_]*)
  | (?P<LOWER>[a-z_][A-Za-z0-9_]*)
  | (?P<OPERATOR>:-|::|==|=>|!=|<=|>=|<<|>>|\+\+|->|\#\[|[=<>+\-*/%&|^~@:,;?.()\[\]{}])
  | (?P<UNKNOWN>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_APPLIED = ("Vec", "Set", "Map", "Ref", "Option", "Intern", "IObj", "bit", "signed", "Group", "Result")
"""Types that take parameters: `>>` may end two of them."""


@dataclass
class _State:
    """Open type parameters, and the type of the last token."""

    open: int = 0
    last: str = ""


def tokens(source: SourceFile, diagnostics: Diagnostics, start: int = 0, end: int | None = None) -> Iterator[Token]:
    """Yield the tokens of a part of a text; report what is none. The prefix of a name, ``a::b::``, is a token, and a
    dot that white space follows is ``END``."""
    text = source.text
    stop = len(text) if end is None else end
    place, state = start, _State()
    while place < stop:
        match = _TOKEN.match(text, place, stop)
        assert match is not None
        kind, word = match.lastgroup or "", match[0]
        place = match.end()
        if kind in ("COMMENT", "SPACE"):
            continue
        token = Token(kind, word, match.start(), end_pos=place)
        if kind == "OPEN":
            end_of_comment = _end_of_comment(text, place, stop)
            if end_of_comment is None:
                span = span_of(source, token)
                diagnostics.report("E0106", "this comment is never closed", span, help="end it with `*/`")
                return
            place = end_of_comment
            continue
        if kind == "RAW":
            token = Token("STRING", word, match.start(), end_pos=place)
        elif kind in ("LOWER", "UPPER") and (
            prefix := re.compile(r"(?:\w+::)+(?=\w)").match(text, match.start(), stop)
        ):
            place = prefix.end()
            token = Token("SCOPED", prefix[0], match.start(), end_pos=place)
        elif kind == "LOWER":
            token = Token(_WORDS.get(word, kind), word, match.start(), end_pos=place)
        elif kind == "OPERATOR":
            kind = _OPERATORS[word]
            if word == "." and (place >= stop or text[place].isspace() or text.startswith(("//", "/*"), place)):
                kind = "END"
            token = Token(kind, word, match.start(), end_pos=place)
        elif kind == "OPEN_STRING":
            diagnostics.report("E0105", "this string is not closed", span_of(source, token), help='end it with `"`')
        elif kind == "UNKNOWN":
            shown = f"`{word}`" if word.isprintable() else f"the character U+{ord(word):04X}"
            diagnostics.report("E0107", f"{shown} has no meaning here", span_of(source, token))
        yield from _split(token, state)


def _split(token: Token, state: _State) -> Iterator[Token]:
    """Yield a token, or `>>` as two of them where it ends two types."""
    if token.type == "LESS" and state.last in _APPLIED:
        state.open += 1
    elif token.type == "GREATER" and state.open:
        state.open -= 1
    if token.type == "SHIFT_RIGHT" and state.open >= 2 and token.start_pos is not None:
        state.open -= 2
        for place in (token.start_pos, token.start_pos + 1):
            yield Token("GREATER", ">", place, end_pos=place + 1)
        return
    state.last = str(token)
    yield token


def _end_of_comment(text: str, place: int, stop: int) -> int | None:
    """Return the offset after a comment, inside of which others may be; None if it does not end."""
    depth = 1
    for match in re.compile(r"/\*|\*/").finditer(text, place, stop):
        depth += 1 if match[0] == "/*" else -1
        if depth == 0:
            return match.end()
    return None


def integer(text: str) -> int:
    """Return the value of an integer without a width."""
    base = {"0x": 16, "0b": 2, "0o": 8}.get(text[:2].lower(), 10)
    return of_digits(text if base == 10 else text[2:], base)


def of_digits(digits: str, base: int) -> int:
    """Return the value of digits; of very many, a number that is too large as well."""
    # 200 digits of any base are more than an integer of Flintlog has bits.
    return int(digits.replace("_", "").lstrip("0")[:200] or "0", base)
