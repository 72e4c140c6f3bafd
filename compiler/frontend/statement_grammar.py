"""Parses statements of other dialects: feeds tokens to a grammar and says what it expected where it cannot go on."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol, cast

import lark
from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedToken

from ..diagnostics import Diagnostics, listed
from ..source import SourceFile, Span
from .syntax_errors import end_of, start_of

Node = Tree[Token]


class StatementParser(Protocol):
    """The part of Lark's interactive parser that this module uses, with types."""

    def feed_token(self, token: Token) -> object:
        """Consume one token; raise UnexpectedToken if the grammar does not allow it."""

    def feed_eof(self) -> Node:
        """End the statement and return its tree."""

    def accepts(self) -> set[str]:
        """Return the types of tokens that may come next."""


@dataclass(frozen=True)
class Refusal:
    """The error for a construct of a dialect that has no equivalent: its code, the message, and what to do instead;
    ``token`` is where it stands."""

    code: str
    message: str
    help: str
    token: Token


@cache
def parser_of(path: Path, *starts: str) -> Lark:
    """Return the parser of a grammar. Its tables, which take longer to make than most programs to compile, are kept in
    the user's folder for such files, behind their hash."""
    text = path.read_text(encoding="utf-8")
    version = hashlib.sha256(repr((text, starts, lark.__version__, sys.version)).encode()).hexdigest()[:16]
    # Without a home, where nothing can be written, or after a kill, they are made again.
    with contextlib.suppress(OSError, RuntimeError):
        with _kept(path.stem, version).open("rb") as file:
            content, owner = file.read(), os.fstat(file.fileno()).st_uid
        # Lark unpickles them: those of another user, whose home this one has, could execute anything.
        own = not hasattr(os, "geteuid") or owner == os.geteuid()
        if own and hashlib.sha256(content[32:]).digest() == content[:32]:
            return Lark.load(io.BytesIO(content[32:]))
    made = Lark(text, start=[*starts], parser="lalr", lexer="basic", propagate_positions=True, maybe_placeholders=False)
    with contextlib.suppress(OSError, RuntimeError):
        tables, kept = io.BytesIO(), _kept(path.stem, version)
        made.save(tables)
        kept.parent.mkdir(0o700, parents=True, exist_ok=True)
        temporary = kept.with_name(f".{kept.name}.{os.getpid()}")
        temporary.write_bytes(hashlib.sha256(tables.getvalue()).digest() + tables.getvalue())
        temporary.replace(kept)
    return made


def _kept(name: str, version: str) -> Path:
    """Return where tables are kept; raise RuntimeError without a home."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return folder / "flintlog" / f"{name}-{version}.tables"


@dataclass(frozen=True)
class Grammar:
    """A grammar of one statement, whose terminals are the types of tokens.

    ``words`` says how messages call the types that may be missing; the others are not mentioned.
    """

    path: Path
    words: Mapping[str, str]

    def parse(self, source: SourceFile, tokens: Sequence[Token], diagnostics: Diagnostics) -> Node | int:
        """Return the tree of a statement. If it does not follow the grammar, report it (E0101, E0102, E0104) and return
        the index of the token where another statement may begin. The tokens are not empty."""
        parser, read = self._parser(), 0
        try:
            for token in tokens:
                parser.feed_token(token)
                read += 1
            return parser.feed_eof()
        except UnexpectedToken:
            # What may come in this place is asked only now, since finding that out takes longer than parsing.
            before = self._parser()
            for token in tokens[:read]:
                before.feed_token(token)
            return self._complain(source, tokens, read, before.accepts(), diagnostics)

    def _parser(self) -> StatementParser:
        return cast(StatementParser, parser_of(self.path, "statement").parse_interactive("", start="statement"))

    def _complain(
        self, source: SourceFile, tokens: Sequence[Token], place: int, accepted: set[str], diagnostics: Diagnostics
    ) -> int:
        """Report that the token at ``place``, or the end of the statement, is not one of the ``accepted`` ones; return
        the index of the token where another statement may begin."""
        opened: list[int] = []
        for index, token in enumerate(tokens[:place]):
            if token.type in _PAIRS:
                opened.append(index)
            elif token.type in _PAIRS.values() and opened:
                opened.pop()
        expected = listed_words(self.words[kind] for kind in accepted if kind in self.words) or "something else"
        ends = place == len(tokens) or tokens[place].type == "DOT"
        if ends and opened:
            token = tokens[opened[-1]]
            message = f"this `{token}` is not closed"
            diagnostics.report("E0104", message, span_of(source, token), help="close it before the dot")
        elif "DOT" in accepted and (place == len(tokens) or _begins_line(source, tokens, place)):
            last = span_of(source, tokens[place - 1])
            span = Span(last.file, last.line, last.column + last.length, 1)
            diagnostics.report("E0102", "this statement has no dot at its end", span, help="end it with `.`")
            return place
        else:
            actual = "the end of the statement" if ends else f"`{tokens[place]}`"
            span = span_of(source, tokens[min(place, len(tokens) - 1)])
            diagnostics.report("E0101", f"expected {expected}, found {actual}", span)
        return len(tokens)


def _begins_line(source: SourceFile, tokens: Sequence[Token], place: int) -> bool:
    return place > 0 and "\n" in source.text[end_of(tokens[place - 1]) : start_of(tokens[place])]


_PAIRS = {"LPAR": "RPAR", "LSQB": "RSQB", "LBRACE": "RBRACE"}


def listed_words(words: Iterable[str]) -> str:
    """Return words as an alternative, each once: ``a, b or c``."""
    sorted_words = sorted(dict.fromkeys(words), key=lambda word: (word.startswith("`"), word))
    return listed(sorted_words).replace(" and ", " or ")


def span_of(source: SourceFile, token: Token) -> Span:
    """Return the span of a token."""
    return source.span(start_of(token), end_of(token))


def child(tree: Node, data: str) -> Node | None:
    """Return the first child of kind ``data``, None if there is none."""
    return next((part for part in tree.children if isinstance(part, Tree) and part.data == data), None)


def trees(tree: Node) -> list[Node]:
    """Return the children that are trees."""
    return [part for part in tree.children if isinstance(part, Tree)]


def tokens_in(tree: Node, *kinds: str) -> list[Token]:
    """Return the children that are tokens, of the given types if there are any."""
    return [part for part in tree.children if isinstance(part, Token) and (not kinds or part.type in kinds)]


def unescaped(body: str, escapes: Mapping[str, str], unknown: Callable[[int, str], str]) -> str:
    """Return the value of the text inside quotes; ``unknown`` gives that of an escape that is not in ``escapes``, from
    its offset in the text."""
    pieces, place = [], 0
    while place < len(body):
        if body[place] != "\\" or place + 1 == len(body):
            pieces.append(body[place])
            place += 1
            continue
        escape = body[place + 1]
        pieces.append(escapes[escape] if escape in escapes else unknown(place, escape))
        place += 2
    return "".join(pieces)
