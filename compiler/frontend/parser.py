"""Parses source text into one parse tree per statement.

The text is tokenized, the tokens are split into statements, and the LALR parser parses each statement separately, so
that a syntax error does not affect other statements. Words such as ``input``, ``primary`` or ``count`` are keywords
only where a statement gives them a meaning; everywhere else they are names.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedToken

from ..diagnostics import Diagnostics
from ..diagnostics.foreign import directive_advice, word_advice
from ..source import SourceFile, Span
from .statement_grammar import StatementParser, parser_of
from .syntax_errors import DECLARATION_WORDS, NAMES, BrokenStatement, end_of, start_of
from .words import FOREIGN_SIGNS, FORWARD_ARROWS, HARD_WORDS, ORDER_WORDS

_RELATION_WORDS = ("input", "output", "derived", "multiset")
_AFTER_OUTPUT = ("input", "derived", "multiset", "relation")
_COMMENT_HELP = "comments begin with `//`, or are enclosed in `/*` and `*/`"
_VALUE_ENDS = frozenset({"NAME", "RPAR", "RSQB", "INT", "NUMBER", "STRING", "DATE", "TIMESTAMP", "TRUE", "FALSE"})
"""The tokens that may end a value, which a direction of an order can follow."""


def _parser() -> Lark:
    return parser_of(Path(__file__).with_name("flintlog.lark"), "statement", "junk")


def _statement_parser() -> StatementParser:
    return cast(StatementParser, _parser().parse_interactive("", start="statement"))


def parse_statements(source: SourceFile, diagnostics: Diagnostics) -> Iterator[Tree[Token]]:
    """Yield the parse trees of the statements of ``source`` in source order; report those that cannot be parsed."""
    for tree, _ in statements_with_tokens(source, diagnostics):
        yield tree


def statements_with_tokens(
    source: SourceFile, diagnostics: Diagnostics
) -> Iterator[tuple[Tree[Token], tuple[Token, ...]]]:
    """Yield the same as :func:`parse_statements`, each with its tokens; the text between tokens is comments and white
    space. A ``LABEL`` token includes the colon and an ``AGGREGATE_OPEN`` the ``<``, but their texts are the names.
    """
    statements = _Statements(source, diagnostics)
    start = 0
    for tree in statements.trees():
        yield tree, tuple(statements.tokens[start : statements.next])
        start = statements.next


class _Statements:
    """The tokens of one file, the index where the next statement begins, and the number of open processes."""

    def __init__(self, source: SourceFile, diagnostics: Diagnostics) -> None:
        self.source = source
        self.diagnostics = diagnostics
        self.tokens: list[Token] = []
        self.next = 0
        self.open = 0
        for token in _parser().lex(source.text):
            self._add(token)
        #: How many tokens are behind the last clause whose aggregates are marked.
        self.untagged = len(self.tokens)

    # ---- tokens ----------------------------------------------------------------------------------------------------

    def _add(self, token: Token) -> None:
        """Append a token of the lexer; report invalid ones, and replace them by what was meant where that is clear."""
        text, kind = str(token), token.type
        previous = self.tokens[-1].type if self.tokens else ""
        if kind == "NAME":
            kind = HARD_WORDS.get(text, kind)
        elif kind == "QUALIFIED":
            for word in (part for part in text.split(".") if part in HARD_WORDS):
                self._report("E0101", f"`{word}` is a reserved word and cannot be part of a name", token)
        elif kind in ("FOREIGN", "UNKNOWN") and text in FOREIGN_SIGNS:
            kind, equivalent = FOREIGN_SIGNS[text]
            advice = f"write `{equivalent}`"
            if text == "||":
                advice = "write `;` between alternatives, `++` to join strings"
            self._report("E0107", f"`{text}` is not an operator of the language", token, help=advice)
            if text == "||" and previous == "STRING":
                kind, text = "CONCAT", "++"
        elif text in FORWARD_ARROWS:  # Reported with the statement that it is part of.
            kind = "GREATER_EQUAL" if text == "=>" else "FOREIGN"
        elif kind == "UNKNOWN" and text[0].isdigit():
            kind = "NAME"
            self._report(
                "E0107", f"the name `{text}` begins with a digit", token, help="begin names with a letter or `_`"
            )
        elif kind == "HASH_COMMENT":
            self._report("E0107", "`#` does not begin a comment", token, help=_COMMENT_HELP)
            return
        elif text == "~" and previous in ("IF", "COMMA", "SEMICOLON", "LPAR"):
            kind = "BANG"
            self._report("E0107", "`~` is not an operator of the language", token, help="write `!`")
        elif text == "=~" or (text == "~" and previous in ("NAME", "STRING")):
            kind = "EQUAL"
            self._report("E0107", f"`{text}` is not an operator of the language", token, help=word_advice("like"))
        elif kind == "UNKNOWN":
            help = _COMMENT_HELP if text == "#" else None
            if text.isalpha():
                help = "names consist of the letters a to z and A to Z, digits and `_`"
            shown = f"`{text}`" if text.isprintable() and text != "`" else f"U+{ord(text):04X}"
            self._report("E0107", f"the character {shown} has no meaning here", token, help=help)
        elif kind == "APOSTROPHES":
            kind, text = "STRING", f'"{text[1:-1]}"'
            self._report("E0107", "strings are written in double quotes", token, help=f"write `{text}`")
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
        """Yield the trees of the statements, parsing them one by one."""
        while self.next < len(self.tokens):
            start = self.next
            if self._tag_process(start):
                tree = self._parse_process(start)
            elif self._skip_refused():
                continue
            elif self._tag_declaration(start):
                tree = self._parse_declaration(start)
            elif self._skip_reversed_rule(start):
                continue
            else:
                self._tag_clause(start)
                tree = self._parse_clause(start)
            if tree is not None:
                yield tree

    def _skip_refused(self) -> bool:
        """Report and skip a stray dot or brace, a foreign comment or a directive; return whether there was one."""
        start = self.next
        token, word = self.tokens[start], str(self.tokens[start])
        if token.type == "END":  # An extra dot can be skipped alone: it hides nothing of what follows.
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
            self._report("E0101", f"unexpected `{word}`", token)
            self.next += 1
            return True
        if token.type == "DOT" and self._kind(start + 1) == "NAME":
            span = self.source.span(start_of(token), end_of(self.tokens[start + 1]))
            name = str(self.tokens[start + 1])
            message = f"`.{name}` is a directive of Soufflé, which is another language"
            self.diagnostics.report("E0714", message, span, help=directive_advice(name))
            self._skip_line(start)
            return True
        return False

    def _skip_reversed_rule(self, start: int) -> bool:
        """Report and skip a rule with an arrow from body to head, ``p(X) => q(X).``; return whether there is one."""
        begin = index = self._label_end(start)
        if self._kind(begin) not in (*NAMES, "BANG", "NOT"):
            return False
        depth = 0
        while depth or str(self.tokens[index]) not in FORWARD_ARROWS:
            depth += (self._kind(index) == "LPAR") - (self._kind(index) == "RPAR")
            index += 1
            adjacent = self._kind(index) in NAMES and self._kind(index - 1) in (*NAMES, "RPAR")
            if adjacent or self._kind(index) in ("END", "IF", "$END"):
                return False
        atoms = self._kind(index - 1) == "RPAR" or index == begin + 1
        if not atoms or self._kind(index + 1) not in NAMES:
            return False  # It compares values.
        end = index + 1
        while self._kind(end) not in ("END", "IF", "$END") and str(self.tokens[end]) not in FORWARD_ARROWS:
            end += 1
        body, head = (
            self.source.text[start_of(self.tokens[first]) : end_of(self.tokens[last - 1])]
            for first, last in ((begin, index), (index + 1, end))
        )
        help = "write the head first, as in `q(X) :- p(X).`"
        if self._kind(end) == "END" and "\n" not in body + head:
            help = f"write the head first: `{head} :- {body}.`"
        arrow = self.tokens[index]
        self._report("E0101", f"expected `:-` or a dot after the head, found `{arrow}`", arrow, help=help)
        self.next = self._recover(start, end)
        return True

    def _skip_line(self, start: int) -> None:
        """Continue at the first token of the next line."""
        self.next = start + 1
        while self.next < len(self.tokens) and not self._first_on_line(self.next):
            self.next += 1

    def _tag_process(self, start: int) -> bool:
        """Mark the word or brace at ``start`` if it begins or ends a process; return whether it does."""
        if str(self.tokens[start]) == "}" and self.open:
            self.open -= 1
            self._retag(start, "CLOSE")
            return True
        if str(self.tokens[start]) != "process":
            return False
        if self._kind(start + 1) in NAMES:
            self._retag(start, "PROCESS")
            return True
        # Without a name, it begins a process all the same, whose statements are read.
        return "{" in map(str, self.tokens[start + 1 : start + (3 if self._kind(start + 1) == "STRING" else 2)])

    def _parse_process(self, start: int) -> Tree[Token] | None:
        """Parse ``process NAME (...) {`` up to the brace, ``process NAME = ...``, or a closing brace."""
        if self._kind(start) == "CLOSE":
            self.next = start + 1
            parser = _statement_parser()
            self._feed(parser, start)
            return parser.feed_eof()
        index, depth = start + (1 if self._kind(start + 1) == "BRACE" else 2), 0
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
                if self._kind(index) == "OPEN":  # Read the statements inside all the same, to report their errors.
                    self.next = index + 1
                    return Tree("process", [])
                return None
        self.next = index + 1
        return parser.feed_eof()

    def _tag_declaration(self, start: int) -> bool:
        """Mark the keywords at the start of a declaration; return whether one begins at ``start``.

        No clause begins with two adjacent names, so a declaration word before a name is a keyword.
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
        declares = str(self.tokens[start + 1]) in _AFTER_OUTPUT and self._kind(start + 2) in NAMES
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
        """Return whether the token at ``index`` closes a process."""
        return self.open > 0 and str(self.tokens[index]) == "}"

    def _label_end(self, start: int) -> int:
        """Return the index after the colon of a label such as ``r2-1:`` at ``start``, or ``start`` if there is none."""
        index = start
        if self._kind(index) != "NAME":
            return start
        index += 1
        while self._kind(index) == "MINUS" and self._kind(index + 1) in ("NAME", "INT"):
            index += 2
        return index + 1 if self._kind(index) == "COLON" else start

    def _tag_clause(self, start: int) -> None:
        """Merge the tokens of a label, and mark aggregates and postfix operators of paths up to the end of a clause."""
        end = self._label_end(start)
        if end > start:
            first, last = self.tokens[start], self.tokens[end - 1]
            text = self.source.text[start_of(first) : end_of(self.tokens[end - 2])]
            label = Token("LABEL", text, first.start_pos, first.line, first.column, end_pos=last.end_pos)
            self.tokens[start:end] = [label]
        self._mend_arrow(start + (end > start))
        if len(self.tokens) - start > self.untagged:
            return  # It is in a clause without an end, which is read from its beginning once.
        self._tag_aggregates(start)
        index = start
        while index < len(self.tokens) and self._kind(index) != "END":
            if str(self.tokens[index]) == "=>":
                self._report("E0107", "`=>` is not an operator of the language", self.tokens[index], help="write `>=`")
            index += 1
        for place in reversed(range(start, index)):
            self._tag_repetition(place)
        self.untagged = len(self.tokens) - index

    def _tag_repetition(self, index: int) -> None:
        """Mark an operator without a right operand as ``POSTFIX``: it repeats or inverts the path to its left."""
        kind, following = self._kind(index), self._kind(index + 1)
        nothing_right = following in ("RPAR", "SLASH", "BAR", "MIDDLE_DOT", "QUESTION", "POSTFIX")
        # In `r* + s` and `r- + s` the first operator is postfix, because no operand begins with a plus.
        if (kind in ("PLUS", "STAR", "MINUS", "CONCAT") and nothing_right) or (
            kind in ("PLUS", "STAR", "MINUS") and following == "PLUS"
        ):
            self._retag(index, "POSTFIX")

    def _mend_arrow(self, head: int) -> None:
        """Replace what other languages write for ``:-`` after the head that begins at index ``head``; report it."""
        if self._kind(head) not in NAMES:
            return
        index, depth = head + 1, 0
        while self._kind(index) == "LPAR" or depth:
            if self._kind(index) in ("$END", "END", "IF"):
                return
            depth += (self._kind(index) == "LPAR") - (self._kind(index) == "RPAR")
            index += 1
        two = (self._kind(index), self._kind(index + 1))
        if two in (("LESS", "MINUS"), ("MINUS", "COLON"), ("COLON", "MINUS"), ("LESS_EQUAL", "EQUAL")):
            end = index + 2
            while two == ("LESS", "MINUS") and self._kind(end) == "MINUS":
                end += 1
        elif index > head + 1 and (
            two[0] in ("COLON", "ASSIGN", "EQUAL", "LESS_EQUAL") or self.tokens[index : index + 1] == ["if"]
        ):
            end = index + 1
        else:
            return
        first, last = self.tokens[index], self.tokens[end - 1]
        text = self.source.text[start_of(first) : end_of(last)]
        arrow = Token("IF", text, first.start_pos, first.line, first.column, end_pos=last.end_pos)
        self._report("E0101", f"expected `:-` or a dot after the head, found `{text}`", arrow, help="write `:-`")
        self.tokens[index:end] = [arrow]

    def _tag_aggregates(self, start: int) -> None:
        """Mark each ``name<argument>`` of the clause at ``start`` as an aggregate if a comma, ``)``, the end of the
        clause or the ``>`` of another aggregate follows it."""
        closing = self._closing_signs(start)
        merged: list[Token] = []
        index = start
        while index < len(self.tokens) and self._kind(index) != "END":
            end = closing.get(index + 1)
            if (
                end is None
                or self._kind(index) != "NAME"
                or self._kind(end + 1) not in ("COMMA", "RPAR", "END", "AGGREGATE_CLOSE")
            ):
                merged.append(self.tokens[index])
                index += 1
                continue
            self._retag(end, "AGGREGATE_CLOSE")
            name, sign = self.tokens[index : index + 2]
            merged.append(
                Token("AGGREGATE_OPEN", str(name), name.start_pos, name.line, name.column, end_pos=sign.end_pos)
            )
            index += 2
            if self._kind(index) == "STAR" and index + 1 == end:
                self._retag(index, "AGGREGATE_STAR")
            if str(self.tokens[index]) == "distinct" and index + 1 != end:
                self._retag(index, "DISTINCT")
            if self._is_first(index - 2):
                self._tag_order(index, end)
        self.tokens[start:index] = merged

    def _is_first(self, index: int) -> bool:
        """Return whether ``first<3>`` or ``first<3 by ...`` begins at ``index``; what is written for the number may be
        a name."""
        name = str(self.tokens[index]).lower().removeprefix("a_")
        if name != "first" or self._kind(index + 1) != "LESS" or self._kind(index + 2) not in ("INT", "NAME"):
            return False
        number = self._kind(index + 2) == "INT" and self._kind(index + 3) in ("GREATER", "AGGREGATE_CLOSE")
        return number or (self._kind(index + 3) == "NAME" and str(self.tokens[index + 3]) == "by")

    def _tag_order(self, index: int, end: int) -> None:
        """Mark the number of a ``first`` whose argument is at ``index``, and the words of its order up to ``end``."""
        self._retag(index, "LIMIT")
        if index + 1 == end:
            return
        self._retag(index + 1, "BY")
        depth = 0
        for place in range(index + 2, end):
            kind, word = self._kind(place), str(self.tokens[place])
            depth += (kind in ("LPAR", "LSQB")) - (kind in ("RPAR", "RSQB"))
            last = place + 1 == end or (depth == 0 and self._kind(place + 1) == "COMMA")
            if word in ORDER_WORDS[1:] and last and self._kind(place - 1) in _VALUE_ENDS:
                self._retag(place, word.upper())

    def _closing_signs(self, start: int) -> dict[int, int]:
        """Return, for each ``<`` of the clause at ``start`` that a ``>`` may close, the index of that ``>``. Both are
        in the same parentheses, with no comma between them, except in the order of a ``first``."""
        closing: dict[int, int] = {}
        # The open parentheses and signs.
        opened: list[int] = []
        ordered: set[int] = set()
        for index in range(start, len(self.tokens)):
            kind = self._kind(index)
            if kind in ("LPAR", "LSQB", "LESS"):
                opened.append(index)
                if kind == "LESS" and index > start and self._is_first(index - 1):
                    ordered.add(index)
            elif kind == "GREATER" and opened and self._kind(opened[-1]) == "LESS":
                closing[opened.pop()] = index
            elif kind in ("COMMA", "RPAR", "RSQB"):
                while opened and self._kind(opened[-1]) == "LESS" and (kind != "COMMA" or opened[-1] not in ordered):
                    opened.pop()
                if kind != "COMMA" and opened:
                    opened.pop()
            elif kind in ("IF", "SEMICOLON"):
                opened.clear()
            elif kind == "END":
                break
        return closing

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
            if not (self._kind(index + 1) == "NAME" and self._first_on_line(index) and "$END" in parser.accepts()):
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

    def _mend_dot(self, parser: StatementParser, index: int) -> None:
        """Treat a dot without white space after it as the end of the clause, and report it, if the clause can end."""
        if self._kind(index) == "DOT" and "END" in parser.accepts():
            message = "a dot ends a clause only if white space follows it"
            self._report("E0103", message, self.tokens[index], help="put a space or a new line after the dot")
            self._retag(index, "END")

    def _tag_trailing_word(self, index: int) -> None:
        """Mark ``primary key`` and ``symmetric`` after a declaration, unless they begin a clause or are the declared
        name."""
        if self._kind(index - 1) == "DECLARE":
            return
        word, following = str(self.tokens[index]), self._kind(index + 1)
        if word == "primary" and following == "NAME" and str(self.tokens[index + 1]) == "key":
            self._retag(index, "PRIMARY")
            self._retag(index + 1, "KEY")
        elif word == "symmetric" and following not in ("LPAR", "COLON", "IF", "AT"):
            self._retag(index, "SYMMETRIC")

    def _feed(self, parser: StatementParser, index: int) -> bool:
        try:
            parser.feed_token(self.tokens[index])
        except UnexpectedToken:
            return False
        return True

    def _accepted(self, start: int, stop: int) -> frozenset[str]:
        """Return the types of tokens that may follow the tokens ``start`` to ``stop`` (exclusive) of a statement."""
        parser = _statement_parser()
        for index in range(start, stop):
            if not self._feed(parser, index):
                return frozenset()
        return frozenset(parser.accepts())

    # ---- syntax errors ---------------------------------------------------------------------------------------------

    def _complain(self, start: int, bad: int) -> None:
        """Report that the token at ``bad`` cannot continue the statement at ``start``; move to the next statement."""
        resume = None
        if self._kind(bad) not in ("UNKNOWN", "OPEN_STRING"):  # Already reported by _add.
            broken = BrokenStatement(self.source, self.tokens, start, bad, self._accepted(start, bad))
            complaint = broken.complaint()
            diagnostic, resume = complaint.diagnostic, complaint.resume
            self.diagnostics.report(diagnostic.code, diagnostic.message, diagnostic.span, help=diagnostic.help)
        self.next = resume if resume is not None and resume > start else self._recover(start, bad)

    def _recover(self, start: int, bad: int) -> int:
        """Return the index of the next statement: after the end of a clause, or at a line that begins a statement."""
        if self._kind(bad) == "OPEN_STRING":  # It includes the rest of its line, probably with the dot.
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
        """Do the same after a declaration, which needs no dot: a clause on a new line also ends it."""
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
