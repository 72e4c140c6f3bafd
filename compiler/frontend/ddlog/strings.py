"""String literals of DDlog: their texts, and the expressions in them.

    "the sum of ${x} and 1 is ${x + 1}"

consists of the texts ``the sum of `` and `` and 1 is ``, and the expressions ``x`` and ``x + 1``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from lark import Token

from ...ir import syntax
from ...source import SourceFile
from ..statement_grammar import Node, span_of, trees, unescaped
from ..syntax_errors import LeftOut
from .grammar import GRAMMAR
from .tokens import tokens
from .values import binary
from .world import World

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'", "0": "\0", "$": "$"}
_CONTINUED = re.compile(r"\\\s+\\")
"""A line of a string that goes on in the next one."""


@dataclass(frozen=True)
class EmbeddedExpression:
    """``${...}`` in a string. Spans in it are those of ``source``, the file without backslashes in the expression."""

    tree: Node
    source: SourceFile


def string_parts(token: Token, source: SourceFile, world: World) -> Iterator[syntax.ConstantNode | EmbeddedExpression]:
    """Yield the texts and expressions of a string literal, each before the next one is read."""
    assert token.start_pos is not None and token.end_pos is not None
    span = span_of(source, token)
    raw = token.startswith(("[|", "$[|"))
    opening = token.index("[|") + 2 if raw else token.index('"') + 1
    start, stop = token.start_pos + opening, token.end_pos - (2 if raw else 1)
    interpolated = not raw or token.startswith("$")
    first = True
    while True:
        place = source.text.find("${", start, stop) if interpolated else -1
        while not raw and place > 0 and _escaped(source.text[start:place]):
            place = source.text.find("${", place + 1, stop)
        text = source.text[start : stop if place < 0 else place]
        if text or (first and place < 0):
            yield syntax.ConstantNode(text if raw else _unescaped(text, start, source, world), "string", span)
        if place < 0:
            return
        first = False
        end = _closing(source.text, place + 2, stop)
        if end is None:
            raise world.refuse("E0101", "`${` in a string is not closed by `}`", source.span(place, place + 2))
        yield _embedded(source, world, place + 2, end)
        start = end + 1


def _embedded(source: SourceFile, world: World, start: int, end: int) -> EmbeddedExpression:
    """Return the expression between two places of a string."""
    # Quotes inside of a string are escaped; without the backslashes, everything keeps its place.
    pieces = source.text[start:end].split('\\"')
    text = "".join(piece + (' "', '" ', "")[n % 2 if n + 1 < len(pieces) else 2] for n, piece in enumerate(pieces))
    changed = replace(source, text=source.text[:start] + text + source.text[end:])
    inner = list(tokens(changed, world.diagnostics, start, end))
    mark = Token("EMBEDDED", "${", start, end_pos=start)
    tree = GRAMMAR.parse(changed, [mark, *inner], world.diagnostics)
    if isinstance(tree, int):
        raise LeftOut
    (expression,) = trees(tree)
    return EmbeddedExpression(expression, changed)


def _unescaped(text: str, start: int, source: SourceFile, world: World) -> str:
    """Return a text, which begins at ``start``, without escapes; report E0108 for one that there is not."""
    text = _CONTINUED.sub("", text)

    def unknown(place: int, escape: str) -> str:
        span = source.span(start + place, start + place + 2)
        raise world.refuse("E0108", "unknown escape in a string", span, "write `\\\\` for a backslash")

    return unescaped(text, _ESCAPES, unknown)


def joined(parts: Iterable[syntax.Expression]) -> syntax.Expression:
    """Return the parts of a string as one; texts side by side are one text."""
    whole: syntax.Expression | None = None
    for part in parts:
        if whole is None:
            whole = part
        elif isinstance(part, syntax.ConstantNode) and isinstance(whole, syntax.ConstantNode):
            whole = replace(whole, value=f"{whole.value}{part.value}")
        else:
            whole = binary("++", whole, part, part.span)
    assert whole is not None
    return whole


def _escaped(text: str) -> bool:
    """Return whether a text ends with an odd number of backslashes that do not belong to the break of a line."""
    text = _CONTINUED.sub("", text)
    return (len(text) - len(text.rstrip("\\"))) % 2 == 1


def _closing(text: str, place: int, stop: int) -> int | None:
    """Return the place of the brace that closes one before ``place``."""
    depth = 1
    for at in range(place, stop):
        depth += (text[at] == "{") - (text[at] == "}")
        if depth == 0:
            return at
    return None
