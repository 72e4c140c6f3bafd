"""Splits NDlog text into tokens, and obeys the lines of the C preprocessor: macros, includes and conditions.

    #define LIMIT 3
    r1 near(@X, Y) :- link(@X, Y, C), C < LIMIT.

gives the tokens of ``r1 near(@X, Y) :- link(@X, Y, C), C < 3.``. A token from a macro has the place of the macro's use,
so that messages point at what the file says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lark import Token

from ...diagnostics import Diagnostics
from ...source import SourceFile
from ..statement_grammar import span_of
from ..syntax_errors import LeftOut

MOST_TOKENS = 100_000
"""The maximum number of tokens of a file that macros may lead to."""

_OPERATORS = {
    ":-": "IF",
    ":=": "ASSIGN",
    "==": "EQUAL",
    "=": "EQUAL",
    "!=": "NOT_EQUAL",
    "<>": "NOT_EQUAL",
    "<=": "LESS_EQUAL",
    ">=": "GREATER_EQUAL",
    "<<": "SHIFT",
    ">>": "SHIFT",
    "&&": "AND",
    "||": "OR",
    "<": "LESS",
    ">": "GREATER",
    "!": "BANG",
    "+": "PLUS",
    "-": "MINUS",
    "*": "STAR",
    "/": "SLASH",
    "%": "PERCENT",
    "&": "BITS",
    "|": "BITS",
    "^": "BITS",
    "~": "BITS",
    "@": "AT",
    ":": "COLON",
    ",": "COMMA",
    ".": "DOT",
    "(": "LPAR",
    ")": "RPAR",
    "[": "LSQB",
    "]": "RSQB",
    "{": "BRACE",
    "}": "BRACE",
}

_TOKEN = re.compile(
    r"""
    (?P<COMMENT>//[^\n]*|/\*[\s\S]*?\*/|%%[^\n]*)
  | (?P<SPACE>\s+)
  | (?P<OPEN_COMMENT>/\*)
  | (?P<DIRECTIVE>\#(?:\\\n|[^\n])*)
  | (?P<STRING>"(?:[^"\\\n]|\\.)*")
  | (?P<OPEN_STRING>"[^\n]*)
  | (?P<ADDRESS>[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+(?![0-9A-Za-z_]))
  | (?P<ID>0[xX][0-9A-Fa-f]+I\b)
  | (?P<NUMBER>[0-9]+(?:\.[0-9]+(?:[eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)(?![0-9A-Za-z_]))
  | (?P<INT>(?:0[xX][0-9A-Fa-f]+|[0-9]+)U?(?![0-9A-Za-z_]))
  | (?P<VARIABLE>[A-Z][A-Za-z0-9_]*)
  | (?P<AGGREGATE>a_[A-Za-z0-9]+(?=\s*<))
  | (?P<NAME>[a-z][A-Za-z0-9_]*)
  | (?P<WILDCARD>_(?![A-Za-z0-9_]))
  | (?P<OPERATOR>:-|:=|==|!=|<>|<=|>=|<<|>>|&&|\|\||[=<>!+\-*/%&|^~@:,.()\[\]{}])
  | (?P<UNKNOWN>[0-9_][A-Za-z0-9_]*|.)
    """,
    re.VERBOSE,
)
_PARTS_OF_LABELS = ("NAME", "VARIABLE", "INT")
"""The tokens that may follow a hyphen in a label."""

_WORDS = {"true": "TRUE", "false": "FALSE"}
_DIRECTIVE = re.compile(r"#\s*([A-Za-z]*)\s*((?:\\\n|[^\n])*)")
_DEFINE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\(([^)]*)\))?\s*((?:\\\n|[^\n])*)")


@dataclass(frozen=True)
class Macro:
    """``#define NAME body``, or ``#define NAME(a, b) body`` with ``parameters``."""

    name: str
    parameters: tuple[str, ...] | None
    body: tuple[Token, ...]


@dataclass(frozen=True)
class Inclusion:
    """``#include "file"``: the path, and the directive as a token."""

    path: str
    token: Token


@dataclass
class Preprocessor:
    """The macros of a program, which includes share with the files that include them."""

    diagnostics: Diagnostics
    macros: dict[str, Macro] = field(default_factory=dict)

    def tokens(self, source: SourceFile) -> Iterator[Token | Inclusion]:
        """Yield the tokens of a file with macros expanded, and the includes between them."""
        self.made = 0
        waiting: list[Token] = []
        skipped: list[bool] = []  # Of each open condition, whether its lines are left out.
        for token in _tokens(source, self.diagnostics):
            if token.type != "DIRECTIVE":
                if not any(skipped):
                    waiting.append(token)
                continue
            yield from self._expanded(waiting, source, frozenset())
            waiting = []
            included = self._directive(token, source, skipped)
            if included is not None:
                yield included
        yield from self._expanded(waiting, source, frozenset())

    # ---- directives ------------------------------------------------------------------------------------------------

    def _directive(self, token: Token, source: SourceFile, skipped: list[bool]) -> Inclusion | None:
        """Obey a line that begins with ``#``; return the file to include if it is an include."""
        match = _DIRECTIVE.match(token)
        assert match is not None
        word, rest = match[1], re.sub(r"\s*(//.*|/\*.*?\*/)\s*$", "", match[2].replace("\\\n", " ")).strip()
        if word in ("ifdef", "ifndef"):
            skipped.append((rest in self.macros) != (word == "ifdef"))
        elif word in ("else", "endif") and skipped:
            last = skipped.pop()
            if word == "else":
                skipped.append(not last)
        elif any(skipped) or not word:
            pass
        elif word == "define":
            self._define(rest, token, source)
        elif word == "undef":
            self.macros.pop(rest, None)
        elif word == "include" and re.fullmatch(r'"[^"]*"', rest):
            return Inclusion(rest[1:-1], token)
        else:
            help = 'there are `#define`, `#undef`, `#ifdef`, `#ifndef`, `#else`, `#endif` and `#include "FILE"`'
            self.diagnostics.report("E0758", f"`#{word}` is not supported", span_of(source, token), help=help)
        return None

    def _define(self, rest: str, token: Token, source: SourceFile) -> None:
        match = _DEFINE.fullmatch(rest)
        if match is None:
            help = "write a name and what it stands for, as in `#define LIMIT 16`"
            self.diagnostics.report("E0759", "this macro is not well formed", span_of(source, token), help=help)
            return
        # Messages about the tokens of a macro concern its definition only if they cannot be tokens at all.
        body = _tokens(SourceFile(source.name, match[4]), Diagnostics())
        parameters = None
        if match[2] is not None:
            parameters = tuple(part.strip() for part in match[3].split(",") if part.strip())
        self.macros[match[1]] = Macro(match[1], parameters, tuple(body))

    # ---- macros ----------------------------------------------------------------------------------------------------

    def _expanded(self, tokens: Sequence[Token], source: SourceFile, active: frozenset[str]) -> Iterator[Token]:
        """Yield tokens with the macros among them expanded, except those that are ``active`` already."""
        index = 0
        while index < len(tokens):
            token = tokens[index]
            index += 1
            macro = self.macros.get(str(token)) if token.type in ("NAME", "VARIABLE") else None
            follows = index < len(tokens) and tokens[index].type == "LPAR"
            if macro is None or macro.name in active or (macro.parameters is not None and not follows):
                self._count(token, source)
                yield token
                continue
            arguments: Mapping[str, Sequence[Token]] = {}
            last = token
            if macro.parameters is not None:
                texts, index = self._arguments(tokens, index, source, token)
                last = tokens[index - 1]
                if len(texts) != len(macro.parameters):
                    message = f"the macro `{macro.name}` takes {len(macro.parameters)} arguments, not {len(texts)}"
                    self.diagnostics.report("E0759", message, span_of(source, token))
                    raise LeftOut
                arguments = dict(zip(macro.parameters, texts, strict=True))
            body: list[Token] = []
            for part in macro.body:
                body += arguments.get(str(part), [_at(part, token, last)])
                self._count(token, source)
            yield from self._expanded(body, source, active | {macro.name})

    def _arguments(
        self, tokens: Sequence[Token], start: int, source: SourceFile, name: Token
    ) -> tuple[list[list[Token]], int]:
        """Return the arguments of a macro whose parenthesis is at ``start``, and the index after the closing one."""
        arguments: list[list[Token]] = [[]]
        depth = 0
        for index in range(start, len(tokens)):
            token = tokens[index]
            depth += (token.type in ("LPAR", "LSQB")) - (token.type in ("RPAR", "RSQB"))
            if depth == 0:
                return ([] if arguments == [[]] else arguments), index + 1
            if depth == 1 and token.type == "COMMA":
                arguments.append([])
            elif index > start:
                arguments[-1].append(token)
        message = f"the arguments of the macro `{name}` are not closed"
        self.diagnostics.report("E0759", message, span_of(source, name))
        raise LeftOut

    def _count(self, token: Token, source: SourceFile) -> None:
        """Report E0759 if macros make a file far longer than it is."""
        self.made += 1
        if self.made == MOST_TOKENS + len(source.text):
            message = f"the macros of this file stand for more than {MOST_TOKENS:,} words"
            self.diagnostics.report("E0759", message, span_of(source, token))
            raise LeftOut


def label_length(tokens: Sequence[Token]) -> int:
    """Return how many tokens the label of a statement has, such as ``r2`` or ``r2-1``; 0 if there is none."""
    if tokens[0].type not in ("NAME", "VARIABLE"):
        return 0
    length = 1
    while length + 1 < len(tokens) and tokens[length].type == "MINUS" and tokens[length + 1].type in _PARTS_OF_LABELS:
        length += 2
    return length if length < len(tokens) and tokens[length].type in ("NAME", "COLON", "NUMBER", "INT") else 0


def _at(token: Token, first: Token, last: Token) -> Token:
    """Return ``token`` with the place of a macro's use, from token ``first`` to ``last``."""
    return Token(token.type, str(token), first.start_pos, first.line, first.column, end_pos=last.end_pos)


def _tokens(source: SourceFile, diagnostics: Diagnostics) -> Iterator[Token]:
    """Yield the tokens of a text, without comments and with directives; report what is none."""
    text = source.text
    for match in _TOKEN.finditer(text):
        kind, word = match.lastgroup or "", match[0]
        start, end = match.span()
        if kind in ("COMMENT", "SPACE"):
            continue
        if kind == "OPERATOR":
            kind = _OPERATORS[word]
        elif kind == "NAME":
            kind = _WORDS.get(word, kind)
        token = Token(kind, word, start, end_pos=end)
        if kind == "OPEN_COMMENT":
            diagnostics.report("E0106", "this comment is never closed", span_of(source, token), help="end it with `*/`")
            return
        if kind == "DIRECTIVE" and text[text.rfind("\n", 0, start) + 1 : start].strip():
            kind = "UNKNOWN"
        if kind == "OPEN_STRING":
            message = "this string is not closed on its line"
            diagnostics.report("E0105", message, span_of(source, token), help='end it with `"`')
        elif kind == "UNKNOWN" and word.isprintable():
            diagnostics.report("E0107", f"`{word}` has no meaning here", span_of(source, token))
        elif kind == "UNKNOWN":
            message = f"the character U+{ord(word[0]):04X} has no meaning here"
            diagnostics.report("E0107", message, span_of(source, token))
        yield token
