"""The text of a program in SQL: its statements, and where their parts stand."""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count, dropwhile
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.tokenizer_core import Token, TokenType

from ...diagnostics import Diagnostics
from ...source import SourceFile, Span

MOST_NESTED = 100
"""How deeply queries, conditions and expressions may be nested."""

MOST_SHOWN = 40
"""How many characters of a part of a statement a message has."""

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

STATEMENTS = "a program has CREATE TABLE for inputs, CREATE VIEW and CREATE MATERIALIZED VIEW; rows come from files"
"""What messages say of statements."""

KEYWORDS = (
    *(
        "SELECT",
        "FROM",
        "WHERE",
        "GROUP",
        "HAVING",
        "ORDER",
        "LIMIT",
        "OFFSET",
        "UNION",
        "EXCEPT",
        "INTERSECT",
        "QUALIFY",
    ),
    *(
        "JOIN",
        "LEFT",
        "RIGHT",
        "FULL",
        "INNER",
        "CROSS",
        "USING",
        "DISTINCT",
        "BETWEEN",
        "EXISTS",
        "RECURSIVE",
        "VALUES",
    ),
)
"""Words within queries."""

_WORDS = ("CREATE", "TABLE", "VIEW", "MATERIALIZED", "SELECT", "WITH", "INSERT", "UPDATE", "DELETE", "DROP", "ALTER")
"""Words that statements begin with, and what is created."""

_CREATED = (
    *(
        "TABLE",
        "VIEW",
        "INDEX",
        "UNIQUE",
        "FUNCTION",
        "PROCEDURE",
        "MACRO",
        "SCHEMA",
        "DATABASE",
        "TYPE",
        "SEQUENCE",
        "DOMAIN",
    ),
    *("TRIGGER", "ROLE", "USER", "EXTENSION", "POLICY", "EXTERNAL", "UNLOGGED", "AGGREGATE", "ASSERTION", "RECURSIVE"),
)
"""What databases create."""

_OTHERS = (
    "REFRESH",
    "VACUUM",
    "START",
    "LOCK",
    "CLUSTER",
    "REINDEX",
    "CHECKPOINT",
    "INSTALL",
    "LOAD",
    "PREPARE",
    "CALL",
)
"""Words that statements begin with of which the parser makes nothing."""

WORDS = frozenset(("distinct", "by", "asc", "desc"))
"""Names that variables in aggregates cannot have where programs are printed."""

RESERVED = frozenset(("not", "true", "false", "null", "_"))
"""Names that variables, relations and columns cannot have."""


class Unsupported(Exception):
    """Raised for a part of a statement that has no equal; the statement is left out."""

    def __init__(self, code: str, message: str, node: exp.Expr | None, help: str | None = None) -> None:
        """Store the parts of the diagnostic; the span is that of the node."""
        super().__init__(message)
        self.code, self.message, self.node, self.help = code, message, node, help


@contextmanager
def placed(node: exp.Expr) -> Iterator[None]:
    """Let what is refused in the ``with`` block be about a node, if nothing says where it is."""
    try:
        yield
    except Unsupported as refusal:
        refusal.node = node if refusal.node is None else refusal.node
        raise


@dataclass(frozen=True)
class SqlText:
    """A source file in a dialect of sqlglot."""

    source: SourceFile
    dialect: str

    def statements(self, diagnostics: Diagnostics) -> Iterator[tuple[exp.Expr, Span, str]]:
        """Yield the statements with their spans and texts. Report those that are no SQL."""
        dialect = Dialect.get_or_raise(self.dialect or None)
        try:
            tokens = dialect.tokenize(self.source.text)
        except sqlglot.errors.TokenError:
            place = max(self.source.text.rfind(mark) for mark in ("'", '"', "/*", "$$"))
            message = "this is not SQL: a text, a name or a comment is not closed"
            diagnostics.report("E0790", message, self.source.span(max(place, 0), place + 1))
            return
        for chunk in _chunks(tokens):
            start, end = chunk[0].start, chunk[-1].end + 1
            if _depth(chunk) > MOST_NESTED:
                diagnostics.report(
                    "E0711",
                    f"parentheses are nested more than {MOST_NESTED} deep",
                    self.source.span(start, end),
                    help="give inner queries names with WITH, or as views",
                )
                continue
            if (misspelled := _misspelled(chunk)) is not None:
                self._report_word(misspelled, diagnostics)
                continue
            logger = logging.getLogger("sqlglot")
            logger.disabled = True
            try:
                (parsed,) = self._parsed(dialect, chunk) if chunk[0].text.upper() not in _OTHERS else (exp.Command(),)
                query = list(dropwhile(lambda token: token.token_type != TokenType.ALIAS, chunk))[1:]
                if isinstance(parsed, exp.Command) and _statement_name(chunk).endswith("VIEW") and query:
                    # The parser knows the whole statement not at all if it does not know the query.
                    if query[0].token_type == TokenType.VAR:
                        self._report_word(query[0], diagnostics)
                        continue
                    self._parsed(dialect, query)
            except sqlglot.errors.ParseError as error:
                message, help = _told(error, chunk)
                diagnostics.report("E0790", f"this is not SQL: {message}", self._mistake(error, start, end), help=help)
            except RecursionError:
                diagnostics.report("E0711", "the statement is nested too deeply", self.source.span(start, end))
            else:
                if isinstance(parsed, exp.Command):
                    name = _statement_name(chunk)
                    message = f"{name} is not supported{', or not written so' * name.endswith(('VIEW', 'TABLE'))}"
                    diagnostics.report("E0791", message, self.source.span(start, end), help=STATEMENTS)
                elif parsed is not None:
                    yield parsed, self.source.span(start, end), self.source.text[start:end]
            finally:
                logger.disabled = False

    def _report_word(self, word: Token, diagnostics: Diagnostics) -> None:
        """Report a word that no statement, or no query, begins with."""
        span, help = self.source.span(word.start, word.end + 1), similar(word.text, _WORDS) or STATEMENTS
        diagnostics.report("E0790", f"this is not SQL: `{word.text}` is not a word to write here", span, help=help)

    def _parsed(self, dialect: Dialect, tokens: list[Token]) -> list[exp.Expr | None]:
        """Return the statements of tokens; raise ParseError."""
        return dialect.parser(error_level=sqlglot.ErrorLevel.RAISE).parse(tokens, self.source.text)

    def _mistake(self, error: sqlglot.errors.ParseError, start: int, end: int) -> Span:
        """Return where the parser found a mistake."""
        found = error.errors[0] if error.errors else {}
        line, column, marked = found.get("line"), found.get("col"), found.get("highlight") or " "
        if not line or column is None:
            return self.source.span(start, end)
        length = len(marked.split("\n")[-1]) or 1
        return Span(self.source.name, line, max(column - length + 1, 1), length)

    def span(self, node: exp.Expr | None, otherwise: Span) -> Span:
        """Return the span of a node, from its first name or literal to its last; of a node without, that of the one
        around it."""
        placed: list[dict[str, Any]] = []
        while node is not None and not placed:
            placed = [found.meta for found in node.walk() if "start" in found.meta]
            node = node.parent
        if not placed:
            return otherwise
        return self.source.span(min(m["start"] for m in placed), max(m["end"] for m in placed) + 1)


def _chunks(tokens: list[Token]) -> Iterator[list[Token]]:
    """Yield the tokens of each statement, without semicolons."""
    chunk: list[Token] = []
    for token in tokens:
        if token.token_type != TokenType.SEMICOLON:
            chunk.append(token)
        elif chunk:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _misspelled(tokens: list[Token]) -> Token | None:
    """Return the first token if it is no word that statements begin with, or the one behind CREATE that should say what
    is created; None if they are well."""
    first, *rest = tokens
    if first.token_type == TokenType.VAR and first.text.upper() not in _OTHERS:
        return first
    if first.token_type == TokenType.CREATE:
        words = [token for token in rest if token.text.upper() not in ("OR", "REPLACE", "TEMP", "TEMPORARY")]
        materialized = bool(words) and words[0].text.upper() == "MATERIALIZED"
        kind = next(iter(words[materialized:]), first)
        if kind.text.upper() not in (("VIEW",) if materialized else _CREATED):
            return kind
    return None


def _statement_name(tokens: list[Token]) -> str:
    """Return what a statement is called: CREATE, and what it creates, or its first word."""
    words = [token.text.upper() for token in tokens[:5] if token.text.upper() not in ("OR", "REPLACE")]
    kept = 3 if words[1:2] == ["MATERIALIZED"] else 2
    return " ".join(words[: kept if words[0] == "CREATE" else 1])


def similar(name: str, known: Iterable[str]) -> str | None:
    """Return a help that suggests the word that is most like a name, None if none is."""
    found = difflib.get_close_matches(name.upper(), sorted(known), 1, 0.7)
    return f"did you mean `{found[0]}`?" if found and found[0] != name.upper() else None


def _depth(tokens: list[Token]) -> int:
    """Return how deeply parentheses, and the words CASE and NOT, are nested."""
    depth = deepest = row = 0
    for token in tokens:
        kind = token.token_type
        depth += (kind in (TokenType.L_PAREN, TokenType.CASE)) - (kind in (TokenType.R_PAREN, TokenType.END))
        row = row + 1 if kind in (TokenType.NOT, TokenType.DASH) else 0
        deepest = max(deepest, depth + row)
    return deepest


def _told(error: sqlglot.errors.ParseError, tokens: list[Token]) -> tuple[str, str | None]:
    """Return what the parser says, in words of SQL, and a help if a word before looks like another one."""
    found = error.errors[0] if error.errors else {}
    said, marked = str(found.get("description") or error), str(found.get("highlight") or "").strip()
    after = str(found.get("start_context") or "").split()
    words = [
        token.text for token in tokens if token.token_type == TokenType.VAR and token.text in (marked, *after[-3:])
    ]
    help = next(filter(None, (similar(word, KEYWORDS) for word in words)), None)
    if said.startswith("Expecting "):
        return f"`{said.removeprefix('Expecting ')}` is missing here", help
    if said.startswith("Required keyword"):
        return f"something is missing behind `{marked}`" if marked else "something is missing here", help
    return f"`{marked}` is not expected here" if marked else "it is not complete", help


def shown_name(identifier: exp.Expr) -> str:
    """Return a name: in lower case unless it is quoted. Raise Unsupported for one that programs cannot have."""
    text = str(identifier.this)
    name = text if identifier.args.get("quoted") else text.lower()
    if not NAME.fullmatch(name) or name in RESERVED:
        raise Unsupported(
            "E0793",
            f"`{name}` cannot be a name here",
            identifier,
            "names consist of ASCII letters, digits and `_`, and are not null, true, false or not",
        )
    return name


def free_name(hint: str, taken: Container[str]) -> str:
    """Return a name that is not taken: the hint, perhaps with a number."""
    names = (hint if number == 1 else f"{hint}_{number}" for number in count(1))
    return next(name for name in names if name not in taken)


def different_names(names: Iterable[str]) -> list[str]:
    """Return names that differ: a second one has a number."""
    made: list[str] = []
    for name in names:
        made.append(free_name(name, made))
    return made


def count_of(node: exp.Expr) -> int | None:
    """Return the whole number that a literal is; None if it is another one, or has more than ten digits."""
    digits = str(node.this) if isinstance(node, exp.Literal) and not node.is_string else ""
    return int(digits) if re.fullmatch(r"[0-9]{1,10}", digits) else None


def only(node: Any, *allowed: str) -> None:
    """Raise Unsupported if a node has parts besides the ``allowed`` ones: nothing is left out in silence."""
    for name, value in node.args.items():
        if value and name not in allowed and value is not True:
            part = value[0] if isinstance(value, list) else value
            raise Unsupported("E0792", f"{_clause(name)} is not supported here", part if _placed(part) else node)
        if value is True and name not in allowed and name not in HARMLESS:
            raise Unsupported("E0792", f"{_clause(name)} is not supported here", node)


def _clause(name: str) -> str:
    """Return how SQL calls a part of a node."""
    plain = name.rstrip("_").replace("_", " ").upper()
    return _CLAUSES.get(plain, plain)


_CLAUSES = {
    "DIRECTION": "FETCH",
    "LATERALS": "LATERAL",
    "LOCKS": "FOR UPDATE",
    "PIVOTS": "PIVOT",
    "SAMPLE": "TABLESAMPLE",
    "WINDOWS": "WINDOW",
    "CATALOG": "a name with three parts",
    "DB": "a name with two parts",
    "ALIAS": "a name for this",
    "EXPRESSIONS": "a list",
    "FIELD": "a name with a dot",
    "SPEC": "a frame of rows",
}
"""How SQL calls parts of nodes that the parser calls otherwise."""


def shown(node: exp.Expr) -> str:
    """Return a part of a statement as it is shown in messages: in SQL, cut if it is long."""
    text = " ".join(node.sql().split())
    return f"`{text if len(text) <= MOST_SHOWN else text[: MOST_SHOWN - 3] + '...'}`"


HARMLESS = frozenset(("big_int", "replace", "exists", "typed", "safe", "requires_string", "copy", "quoted"))
"""Flags of nodes that change nothing here, or that are looked at where they do."""


def _placed(part: object) -> bool:
    return isinstance(part, exp.Expr) and any("start" in found.meta for found in part.walk())
