"""From source text to one parse tree per statement.

The text becomes tokens, the tokens are cut into statements, and each statement goes through the LALR parser by itself,
so that a broken one costs its neighbours nothing. Words such as ``input``, ``primary`` or ``count`` are keywords only
where a statement gives them a meaning; everywhere else they are names.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Protocol, cast

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedToken

from ..diagnostics import Diagnostics
from ..source import SourceFile, Span
from .syntax_errors import DECLARATION_WORDS, NAMES, BrokenStatement, end_of, start_of

_RELATION_WORDS = ("input", "output", "derived")
_COMMENT_HELP = "comments begin with `//`, or stand between `/*` and `*/`"
_HARD_WORDS = {"not": "NOT", "true": "TRUE", "false": "FALSE"}

#: The words that may have a meaning of their own; all but ``not``, ``true`` and ``false`` can be names as well.
KEYWORDS = (*DECLARATION_WORDS, "function", "primary", "key", "symmetric", "distinct", *_HARD_WORDS)

#: Operators of other languages and of typeset programs: the token and the text the language has for them.
_FOREIGN = {
    "==": ("EQUAL", "="),
    "=<": ("LESS_EQUAL", "<="),
    "=>": ("GREATER_EQUAL", ">="),
    "<>": ("NOT_EQUAL", "!="),
    "&&": ("COMMA", ","),
    "/\\": ("COMMA", ","),
    "||": ("SEMICOLON", ";"),
    "\\/": ("SEMICOLON", ";"),
    "←": ("IF", ":-"),
    "⟵": ("IF", ":-"),
    "¬": ("BANG", "!"),
    "≠": ("NOT_EQUAL", "!="),
    "≤": ("LESS_EQUAL", "<="),
    "≥": ("GREATER_EQUAL", ">="),
    "∧": ("COMMA", ","),
    "\u2228": ("SEMICOLON", ";"),
    "\u2212": ("MINUS", "-"),
    "\u00d7": ("STAR", "*"),
}


@cache
def _parser() -> Lark:
    return Lark.open(
        str(Path(__file__).with_name("flintlog.lark")),
        start=["statement", "junk"],
        parser="lalr",
        lexer="basic",
        propagate_positions=True,
        maybe_placeholders=False,
    )


class _StatementParser(Protocol):
    """The part of Lark's interactive parser that is used here, with types."""

    def feed_token(self, token: Token) -> object:
        """Go on by one token; UnexpectedToken if the grammar does not allow it."""

    def feed_eof(self) -> Tree[Token]:
        """End the statement; its tree."""

    def accepts(self) -> set[str]:
        """The kinds of tokens that may come next."""


def _statement_parser() -> _StatementParser:
    return cast(_StatementParser, _parser().parse_interactive("", start="statement"))


def parse_statements(source: SourceFile, diagnostics: Diagnostics) -> Iterator[Tree[Token]]:
    """The parse trees of the statements of ``source`` that can be read, in source order; the others are reported."""
    for tree, _ in statements_with_tokens(source, diagnostics):
        yield tree


def statements_with_tokens(
    source: SourceFile, diagnostics: Diagnostics
) -> Iterator[tuple[Tree[Token], tuple[Token, ...]]]:
    """The same, each with its tokens; comments and white space are what stands between these in the text.

    A ``LABEL`` goes up to the end of its colon, an ``AGGREGATE_OPEN`` to that of its ``<``; their texts are the names.
    """
    statements = _Statements(source, diagnostics)
    start = 0
    for tree in statements.trees():
        yield tree, tuple(statements.tokens[start : statements.next])
        start = statements.next


class _Statements:
    """The tokens of one file and the place where the next statement begins."""

    def __init__(self, source: SourceFile, diagnostics: Diagnostics) -> None:
        self.source = source
        self.diagnostics = diagnostics
        self.tokens: list[Token] = []
        self.next = 0
        self.open = 0
        for token in _parser().lex(source.text):
            self._add(token)

    # ---- tokens ----------------------------------------------------------------------------------------------------

    def _add(self, token: Token) -> None:
        """Take over a token, reporting the one that belongs to no statement and putting what was meant in its place."""
        text, kind = str(token), token.type
        if kind == "NAME":
            kind = _HARD_WORDS.get(text, kind)
        elif kind in ("FOREIGN", "UNKNOWN") and text in _FOREIGN:
            kind, meant = _FOREIGN[text]
            advice = f"write `{meant}`"
            if text == "||":
                advice = "write `;` between alternatives, `++` to join strings"
            self._report("E0107", f"`{text}` is not an operator of the language", token, help=advice)
        elif kind == "UNKNOWN" and text[0].isdigit():
            kind = "NAME"
            self._report(
                "E0107", f"the name `{text}` begins with a digit", token, help="begin names with a letter or `_`"
            )
        elif kind == "HASH_COMMENT":
            self._report("E0107", "`#` does not begin a comment", token, help=_COMMENT_HELP)
            return
        elif kind == "UNKNOWN":
            comment = _COMMENT_HELP if text == "#" else None
            shown = f"`{text}`" if text.isprintable() and text != "`" else f"U+{ord(text):04X}"
            self._report("E0107", f"the character {shown} has no meaning here", token, help=comment)
        elif kind == "APOSTROPHES":
            kind, text = "STRING", f'"{text[1:-1]}"'
            self._report("E0107", "strings stand in double quotes", token, help=f"write `{text}`")
        elif kind == "OPEN_STRING":
            self._report("E0105", "this string is not closed on its line", token, help='end it with `"`')
        elif kind == "OPEN_COMMENT":
            end = start_of(token) + 2
            span = self.source.span(start_of(token), end)
            self.diagnostics.report("E0106", "this comment is never closed", span, help="end it with `*/`")
            return
        self.tokens.append(Token.new_borrow_pos(kind, text, token))

    def _kind(self, index: int) -> str:
        return self.tokens[index].type if 0 <= index < len(self.tokens) else "$END"

    def _span(self, token: Token) -> Span:
        return self.source.span(start_of(token), end_of(token))

    def _report(self, code: str, message: str, token: Token, *, help: str | None = None) -> None:
        self.diagnostics.report(code, message, self._span(token), help=help)

    def _first_on_line(self, index: int) -> bool:
        if index == 0:
            return True
        return "\n" in self.source.text[end_of(self.tokens[index - 1]) : start_of(self.tokens[index])]

    def _retag(self, index: int, kind: str) -> None:
        self.tokens[index] = Token.new_borrow_pos(kind, str(self.tokens[index]), self.tokens[index])

    # ---- statements ------------------------------------------------------------------------------------------------

    def trees(self) -> Iterator[Tree[Token]]:
        """Parse statement by statement."""
        while self.next < len(self.tokens):
            start = self.next
            if self._tag_process(start):
                tree = self._parse_process(start)
            elif self._skip_refused():
                continue
            elif self._tag_declaration(start):
                tree = self._parse_declaration(start)
            else:
                self._tag_clause(start)
                tree = self._parse_clause(start)
            if tree is not None:
                yield tree

    def _skip_refused(self) -> bool:
        """Refuse, by name, a statement of a later version or of another language; whether there was one."""
        start = self.next
        token, word = self.tokens[start], str(self.tokens[start])
        if token.type == "END":  # A dot too many says nothing and hides nothing.
            self._report("E0101", "there is no clause before this dot", token)
            self.next += 1
            return True
        if token.type == "PERCENT" or (token.type == "MINUS" and self._kind(start + 1) == "MINUS"):
            mark = "%" if token.type == "PERCENT" else "--"
            span = self.source.span(start_of(token), start_of(token) + len(mark))
            self.diagnostics.report("E0107", f"`{mark}` does not begin a comment", span, help=_COMMENT_HELP)
            self._skip_line(start)
            return True
        if token.type == "BRACE":
            self._report("E0101", f"`{word}` opens or closes nothing here", token)
            self.next += 1
            return True
        if token.type == "DOT" and self._kind(start + 1) == "NAME":
            span = self.source.span(start_of(token), end_of(self.tokens[start + 1]))
            name = f".{self.tokens[start + 1]}"
            self.diagnostics.report(
                "E0714", f"`{name}` is a directive of Soufflé, which this version does not read", span
            )
            self._skip_line(start)
            return True
        return False

    def _skip_line(self, start: int) -> None:
        """Go on at the next line."""
        self.next = start + 1
        while self.next < len(self.tokens) and not self._first_on_line(self.next):
            self.next += 1

    def _tag_process(self, start: int) -> bool:
        """Mark the words and braces that begin or end a process; whether one does at ``start``."""
        if str(self.tokens[start]) == "}" and self.open:
            self.open -= 1
            self._retag(start, "CLOSE")
            return True
        if str(self.tokens[start]) != "process" or self._kind(start + 1) not in NAMES:
            return False
        self._retag(start, "PROCESS")
        return True

    def _parse_process(self, start: int) -> Tree[Token] | None:
        """Parse ``process NAME (...) {``, up to the brace, or ``process NAME = ...``, or a closing brace."""
        if self._kind(start) == "CLOSE":
            self.next = start + 1
            parser = _statement_parser()
            self._feed(parser, start)
            return parser.feed_eof()
        index, depth = start + 2, 0
        while index < len(self.tokens) and (depth or self._kind(index) == "LPAR"):
            depth += (self._kind(index) == "LPAR") - (self._kind(index) == "RPAR")
            index += 1
        if self._kind(index) == "EQUAL" and index == start + 2:
            return self._parse_declaration(start)
        if index < len(self.tokens) and str(self.tokens[index]) == "{":
            self._retag(index, "OPEN")
            self.open += 1
        parser = _statement_parser()
        for place in range(start, index + 1):
            if place == len(self.tokens) or not self._feed(parser, place):
                self._complain(start, place)
                if self._kind(index) == "OPEN":  # What stands inside is read, so that it is checked.
                    self.next = index + 1
                    return Tree("process", [])
                return None
        self.next = index + 1
        return parser.feed_eof()

    def _tag_declaration(self, start: int) -> bool:
        """Mark the words that open a declaration; whether one begins at ``start``.

        No clause begins with two names side by side, so a declaration word that a name follows is a keyword.
        """
        word, following = str(self.tokens[start]), self._kind(start + 1)
        if self._kind(start) != "NAME":
            return False
        if word == "include" and following == "STRING":
            self._retag(start, "INCLUDE")
            return True
        if following not in NAMES:
            return False
        if word in ("typedef", "domain"):
            self._retag(start, word.upper())
            return True
        if word == "extern":
            self._retag(start, "EXTERN")
            if str(self.tokens[start + 1]) == "function" and self._kind(start + 2) in NAMES:
                self._retag(start + 1, "FUNCTION")
            return True
        declares = str(self.tokens[start + 1]) in ("input", "derived", "relation") and self._kind(start + 2) in NAMES
        if word == "output" and not declares:
            self._retag(start, "OUTPUT")
            return True
        if word not in (*_RELATION_WORDS, "relation"):
            return False
        index = start
        while str(self.tokens[index]) in _RELATION_WORDS and self._kind(index + 1) in NAMES:
            self._retag(index, "DECLARE")
            index += 1
        if str(self.tokens[index]) == "relation" and self._kind(index + 1) in NAMES:
            self._retag(index, "DECLARE")
        return True

    def _opens_declaration(self, index: int) -> bool:
        return (
            self._kind(index) == "NAME"
            and str(self.tokens[index]) in DECLARATION_WORDS
            and self._kind(index + 1) in (*NAMES, "STRING")
        )

    def _closes(self, index: int) -> bool:
        """Whether a process ends at a token."""
        return self.open > 0 and str(self.tokens[index]) == "}"

    def _label_end(self, start: int) -> int:
        """The index behind the colon of a label such as ``r2-1:`` that begins at ``start``, or ``start``."""
        index = start
        if self._kind(index) != "NAME":
            return start
        index += 1
        while self._kind(index) == "MINUS" and self._kind(index + 1) in ("NAME", "INT"):
            index += 2
        return index + 1 if self._kind(index) == "COLON" else start

    def _tag_clause(self, start: int) -> None:
        """Make one token of a label and mark aggregates and the postfix operators of paths up to the clause's end."""
        end = self._label_end(start)
        if end > start:
            first, last = self.tokens[start], self.tokens[end - 1]
            text = self.source.text[start_of(first) : end_of(self.tokens[end - 2])]
            label = Token("LABEL", text, first.start_pos, first.line, first.column, end_pos=last.end_pos)
            self.tokens[start:end] = [label]
        self._mend_arrow(start + (end > start))
        index = start
        while index < len(self.tokens) and self._kind(index) != "END":
            if self._kind(index) == "NAME" and self._kind(index + 1) == "LESS":
                self._tag_aggregate(index)
            index += 1
        for place in reversed(range(start, index)):
            self._tag_repetition(place)

    def _tag_repetition(self, index: int) -> None:
        """Mark an operator that has nothing to its right: it repeats or turns round the path to its left."""
        kind, following = self._kind(index), self._kind(index + 1)
        nothing_right = following in ("RPAR", "SLASH", "BAR", "MIDDLE_DOT", "QUESTION", "POSTFIX")
        # `r* + s` and `r- + s`: no value begins with a plus.
        if (kind in ("PLUS", "STAR", "MINUS", "CONCAT") and nothing_right) or (
            kind in ("PLUS", "STAR", "MINUS") and following == "PLUS"
        ):
            self._retag(index, "POSTFIX")

    def _mend_arrow(self, head: int) -> None:
        """Take what other languages write between a head and a body for ``:-``, and say so."""
        if self._kind(head) not in NAMES:
            return
        index, depth = head + 1, 0
        while self._kind(index) == "LPAR" or depth:
            if self._kind(index) in ("$END", "END", "IF"):
                return
            depth += (self._kind(index) == "LPAR") - (self._kind(index) == "RPAR")
            index += 1
        two = (self._kind(index), self._kind(index + 1))
        if two in (("LESS", "MINUS"), ("MINUS", "COLON"), ("COLON", "MINUS")):
            end = index + 2
        elif index > head + 1 and (two[0] in ("COLON", "ASSIGN", "EQUAL") or self.tokens[index : index + 1] == ["if"]):
            end = index + 1
        else:
            return
        first, last = self.tokens[index], self.tokens[end - 1]
        text = self.source.text[start_of(first) : end_of(last)]
        arrow = Token("IF", text, first.start_pos, first.line, first.column, end_pos=last.end_pos)
        self._report("E0101", f"expected `:-` or a dot after the head, found `{text}`", arrow, help="write `:-`")
        self.tokens[index:end] = [arrow]

    def _tag_aggregate(self, name: int) -> None:
        """Mark ``name<argument>`` if an argument list could hold it: a comma or a parenthesis follows the ``>``."""
        depth, parentheses = 0, 0
        for index in range(name + 1, len(self.tokens)):
            kind = self._kind(index)
            if kind in ("LPAR", "LSQB"):
                parentheses += 1
            elif kind in ("RPAR", "RSQB"):
                parentheses -= 1
            elif kind in ("LESS", "AGGREGATE_OPEN") and not parentheses:
                depth += 1
            elif kind == "GREATER" and not parentheses:
                depth -= 1
            if parentheses < 0 or kind in ("END", "IF", "SEMICOLON") or (kind == "COMMA" and not parentheses):
                return
            if depth == 0 and not parentheses:
                if self._kind(index + 1) not in ("COMMA", "RPAR", "END", "AGGREGATE_CLOSE"):
                    return
                self._retag(index, "AGGREGATE_CLOSE")
                break
        else:
            return
        opening = self.tokens[name]
        self.tokens[name : name + 2] = [
            Token(
                "AGGREGATE_OPEN",
                str(opening),
                opening.start_pos,
                opening.line,
                opening.column,
                end_pos=self.tokens[name + 1].end_pos,
            )
        ]
        if self._kind(name + 1) == "STAR" and self._kind(name + 2) == "AGGREGATE_CLOSE":
            self._retag(name + 1, "AGGREGATE_STAR")
        if str(self.tokens[name + 1]) == "distinct" and self._kind(name + 2) != "AGGREGATE_CLOSE":
            self._retag(name + 1, "DISTINCT")

    # ---- parsing ---------------------------------------------------------------------------------------------------

    def _parse_clause(self, start: int) -> Tree[Token] | None:
        parser = _statement_parser()
        index = start
        while index < len(self.tokens):
            self._mend_dot(parser, index)
            if not self._feed(parser, index):
                self._complain(start, index)
                return None
            if self._kind(index) == "END":
                self.next = index + 1
                return parser.feed_eof()
            index += 1
        self._complain(start, index)
        return None

    def _parse_declaration(self, start: int) -> Tree[Token] | None:
        parser = _statement_parser()
        index, depth = start, 0
        while index < len(self.tokens):
            self._mend_dot(parser, index)
            kind = self._kind(index)
            depth += (kind == "LPAR") - (kind == "RPAR")
            if depth == 0 and kind == "NAME" and index > start + 1:
                self._tag_trailing_word(index)
            if (depth == 0 or self._first_on_line(index)) and kind != "END" and "$END" in parser.accepts():
                trailing = self._kind(index) in parser.accepts()
                if not trailing and (self._kind(index) in (*NAMES, "INCLUDE") or self._first_on_line(index)):
                    break
            if not self._feed(parser, index):
                self._complain(start, index)
                return None
            index += 1
            if kind == "END":
                break
        if "$END" not in parser.accepts():
            self._complain(start, index)
            return None
        self.next = index
        return parser.feed_eof()

    def _mend_dot(self, parser: _StatementParser, index: int) -> None:
        """Take a dot inside a line for the end of the clause, and say so, where the clause could end."""
        if self._kind(index) == "DOT" and "END" in parser.accepts():
            message = "a dot ends a clause only before white space"
            self._report("E0103", message, self.tokens[index], help="put a space or a new line after the dot")
            self._retag(index, "END")

    def _tag_trailing_word(self, index: int) -> None:
        """Mark ``primary key`` and ``symmetric`` behind a declaration, but not where they begin a clause or are the
        name that is declared."""
        if self._kind(index - 1) == "DECLARE":
            return
        word, following = str(self.tokens[index]), self._kind(index + 1)
        if word == "primary" and following == "NAME" and str(self.tokens[index + 1]) == "key":
            self._retag(index, "PRIMARY")
            self._retag(index + 1, "KEY")
        elif word == "symmetric" and following not in ("LPAR", "COLON", "IF", "AT"):
            self._retag(index, "SYMMETRIC")

    def _feed(self, parser: _StatementParser, index: int) -> bool:
        try:
            parser.feed_token(self.tokens[index])
        except UnexpectedToken:
            return False
        return True

    def _accepted(self, start: int, stop: int) -> frozenset[str]:
        """The kinds of tokens that may follow the tokens ``start`` to ``stop`` of a statement."""
        parser = _statement_parser()
        for index in range(start, stop):
            if not self._feed(parser, index):
                return frozenset()
        return frozenset(parser.accepts())

    # ---- syntax errors ---------------------------------------------------------------------------------------------

    def _complain(self, start: int, bad: int) -> None:
        """Report that the statement begun at ``start`` cannot go on with the token at ``bad``; find the next one."""
        resume = None
        if self._kind(bad) not in ("UNKNOWN", "OPEN_STRING"):  # Those were reported when they were read.
            broken = BrokenStatement(self.source, self.tokens, start, bad, self._accepted(start, bad))
            complaint = broken.complaint()
            found, resume = complaint.diagnostic, complaint.resume
            self.diagnostics.report(found.code, found.message, found.span, help=found.help)
        self.next = resume if resume is not None and resume > start else self._recover(start, bad)

    def _recover(self, start: int, bad: int) -> int:
        """The index where the next statement begins: behind a clause end, or at a line that opens a statement."""
        if self._kind(bad) == "OPEN_STRING":  # It swallowed the end of its line and probably the dot there.
            return bad + 1
        unknown = bad == start + 1 and self._kind(bad) in NAMES
        if unknown or self._kind(start) in ("DECLARE", "TYPEDEF", "DOMAIN", "INCLUDE", "OUTPUT", "EXTERN"):
            return self._recover_declaration(start, bad)
        for index in range(bad, len(self.tokens)):
            if self._kind(index) == "END":
                return index + 1
            if self._closes(index):
                return index
            opens = self._opens_declaration(index) or self._label_end(index) > index
            if index > start and opens and self._first_on_line(index):
                return index
        return len(self.tokens)

    def _recover_declaration(self, start: int, bad: int) -> int:
        """The same behind a declaration, which may have no dot: a clause on a new line ends it too."""
        for index in range(bad, len(self.tokens)):
            if self._kind(index) == "END":
                return index + 1
            if self._closes(index):
                return index
            opens = self._opens_declaration(index) or self._label_end(index) > index
            opens = opens or (self._kind(index) in NAMES and self._kind(index + 1) in ("LPAR", "IF", "AT", *NAMES))
            if index > start + 1 and opens and self._first_on_line(index):
                return index
        return len(self.tokens)
