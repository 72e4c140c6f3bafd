"""Diagnoses statements that the grammar refuses, in terms of the language instead of tokens."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from lark import Token

from ..diagnostics import Diagnostic
from ..diagnostics.foreign import begins_statement, constant_advice, statement_advice, word_advice
from ..source import SourceFile, Span

NAMES = ("NAME", "QUALIFIED")
DECLARATION_WORDS = (
    "input",
    "output",
    "derived",
    "multiset",
    "relation",
    "typedef",
    "include",
    "domain",
    "process",
    "extern",
)

_BEHIND_WORDS = {
    "input": "`relation` and a name",
    "output": "the name of a relation",
    "derived": "`relation` and a name",
    "multiset": "`relation` and a name",
    "relation": "a name",
    "typedef": "a name, `=` and a type",
    "domain": "the name of a relation",
    "include": "the name of a file in double quotes",
    "process": "the name of the process",
    "extern": "`function` and a name",
}
"""The text that must follow the first word of a declaration, for messages."""

BY_POSITION = "arguments are given by position, without names"
_DOT_HELP = "put a space or a new line after the dot"
_OPERATORS = ("PLUS", "MINUS", "STAR", "SLASH", "PERCENT", "CONCAT", "BAR", "CARET", "MIDDLE_DOT", "AT")
_COMPARISONS = ("EQUAL", "ASSIGN", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")


def start_of(token: Token) -> int:
    """Return the offset of the first character of ``token``."""
    assert token.start_pos is not None
    return token.start_pos


def end_of(token: Token) -> int:
    """Return the offset after the last character of ``token``."""
    assert token.end_pos is not None
    return token.end_pos


class LeftOut(Exception):
    """Raised for a statement that is left out, after its errors are reported."""


@dataclass(frozen=True)
class Complaint:
    """A diagnostic; ``resume`` is the index of the token where the next statement begins, if that is known."""

    diagnostic: Diagnostic
    resume: int | None = None


@dataclass(frozen=True)
class BrokenStatement:
    """A statement that begins at index ``start`` of the tokens of a file and that the token at ``bad`` cannot continue.

    ``bad`` is ``len(tokens)`` if the file ends too early. ``accepted`` has the types of tokens allowed in its place.
    """

    source: SourceFile
    tokens: Sequence[Token]
    start: int
    bad: int
    accepted: frozenset[str]

    def complaint(self) -> Complaint:
        """Return the error to report: that of the first case that applies."""
        complaint = (
            self._foreign_statement()
            or self._second_if()
            or self._behind_declaration()
            or self._parentheses()
            or self._incomplete_declaration()
            or self._missing_dot()
            or self._unknown_statement()
            or self._extern()
            or self._type_in_clause()
            or self._second_head()
        )
        return complaint or Complaint(self._expected())

    # ---- places ----------------------------------------------------------------------------------------------------

    def kind(self, index: int) -> str:
        """Return the type of the token at ``index``, ``$END`` if there is none."""
        return self.tokens[index].type if 0 <= index < len(self.tokens) else "$END"

    def span(self, index: int) -> Span:
        """Return the span of the token at ``index``, or that after the last token."""
        if index >= len(self.tokens):
            return self.behind(index - 1)
        return self.source.span(start_of(self.tokens[index]), end_of(self.tokens[index]))

    def behind(self, index: int) -> Span:
        """Return the span of one character directly after the token at ``index``."""
        last = self.source.span(end_of(self.tokens[index]) - 1, end_of(self.tokens[index]))
        return Span(last.file, last.line, last.column + 1, 1)

    def first_on_line(self, index: int) -> bool:
        """Return whether the token at ``index`` is the first on its line."""
        if index == 0:
            return True
        return "\n" in self.source.text[end_of(self.tokens[index - 1]) : start_of(self.tokens[index])]

    def _next_line(self) -> int:
        """Return the index of the first token on a line after that of the statement's first token."""
        index = self.start + 1
        while index < len(self.tokens) and not self.first_on_line(index):
            index += 1
        return index

    def _unclosed(self) -> list[int]:
        """Return the indexes of the parentheses and brackets open at the bad token, outermost first."""
        open_: list[int] = []
        for index in range(self.start, self.bad):
            if self.kind(index) in ("LPAR", "LSQB"):
                open_.append(index)
            elif self.kind(index) in ("RPAR", "RSQB") and open_:
                open_.pop()
        return open_

    def _atom_start(self, last: int) -> int:
        """Return the index of the first token of the atom whose last token is at index ``last``."""
        index, depth = last, 0
        while index > self.start:
            depth += (self.kind(index) == "RPAR") - (self.kind(index) == "LPAR")
            if depth == 0 and self.kind(index) in NAMES and self.kind(index - 1) != "AT":
                break
            index -= 1
        return index

    @property
    def _declares(self) -> bool:
        return self.kind(self.start) in ("DECLARE", "TYPEDEF", "DOMAIN", "INCLUDE", "OUTPUT", "EXTERN")

    @property
    def _noun(self) -> str:
        return "rule" if "IF" in [token.type for token in self.tokens[self.start : self.bad]] else "fact"

    # ---- the cases -------------------------------------------------------------------------------------------------

    def _foreign_statement(self) -> Complaint | None:
        """Diagnose a statement of SQL; the next statement begins behind its semicolon, or at an empty line."""
        advice = statement_advice(str(self.tokens[self.start]))
        if advice is None or self.kind(self.start) != "NAME" or self.kind(self.start + 1) in ("LPAR", "IF", "AT"):
            return None
        end = max(self.bad, self.start + 1)
        while end < len(self.tokens) and self.kind(end - 1) not in ("END", "SEMICOLON"):
            between = self.source.text[end_of(self.tokens[end - 1]) : start_of(self.tokens[end])]
            word = str(self.tokens[end])
            opens = self.kind(end + 1) in NAMES and (word in DECLARATION_WORDS or begins_statement(word))
            if between.count("\n") > 1 or (self.first_on_line(end) and opens):
                break
            end += 1
        message = f"no statement begins with `{self.tokens[self.start]}`"
        return Complaint(Diagnostic("E0110", message, self.span(self.start), advice), end)

    def _second_if(self) -> Complaint | None:
        if self.kind(self.bad) != "IF" or self._noun != "rule":
            return None
        atom = self._atom_start(self.bad - 1)
        name = self.tokens[atom]
        if name.type == "QUALIFIED":
            dot = start_of(name) + str(name).rindex(".")
            message = f"`{name}` is one qualified name here, because a dot ends a clause only if white space follows it"
            return Complaint(Diagnostic("E0103", message, self.source.span(dot, dot + 1), _DOT_HELP))
        if self.kind(atom - 1) == "COMMA":
            message = "expected a dot at the end of the rule, found a comma"
            return Complaint(Diagnostic("E0102", message, self.span(atom - 1)), atom)
        return Complaint(Diagnostic("E0101", "a rule has only one `:-`", self.span(self.bad)))

    def _parentheses(self) -> Complaint | None:
        unclosed, kind = self._unclosed(), self.kind(self.bad)
        if not unclosed:
            if kind in ("RPAR", "RSQB"):
                bracket = "parenthesis" if kind == "RPAR" else "bracket"
                return Complaint(Diagnostic("E0104", f"this closing {bracket} is unmatched", self.span(self.bad)))
            return None
        next_clause = kind in NAMES and start_of(self.tokens[self.bad]) in self._line_starts()
        next_clause = next_clause or (kind == "IF" and self.first_on_line(self._atom_start(self.bad - 1)))
        if kind in ("END", "$END") or next_clause:
            bracket = "parenthesis" if self.kind(unclosed[-1]) == "LPAR" else "bracket"
            resume = None
            if next_clause:
                resume = self.bad if kind != "IF" else self._atom_start(self.bad - 1)
            return Complaint(Diagnostic("E0104", f"this {bracket} is never closed", self.span(unclosed[-1])), resume)
        return None

    def _line_starts(self) -> set[int]:
        return {0} | {offset + 1 for offset, character in enumerate(self.source.text) if character == "\n"}

    def _behind_declaration(self) -> Complaint | None:
        """Diagnose text after a declaration on the same line that is neither part of it nor a rule."""
        if self.first_on_line(self.start) or self.kind(self.start) not in ("NAME", "LABEL"):
            return None
        if "IF" in [token.type for token in self.tokens[self.start : self.bad + 1]]:
            return None
        if self.kind(self.start - 1) == "RPAR":
            expected = "`primary key`, `symmetric` or the end of the declaration"
        elif self.kind(self.start - 1) in NAMES and self.kind(self.start - 2) == "DECLARE":
            expected = "the columns in parentheses or the end of the declaration"
        else:
            return None
        actual = str(self.tokens[self.start])
        similar = difflib.get_close_matches(actual, ("primary key", "symmetric"), 1, 0.4)
        help = f"did you mean `{similar[0]}`?" if similar else None
        message = f"expected {expected}, found `{actual}`"
        return Complaint(Diagnostic("E0101", message, self.span(self.start), help), self._next_line())

    def _incomplete_declaration(self) -> Complaint | None:
        """Diagnose a declaration word followed by what neither a declaration nor a clause can have there."""
        word = str(self.tokens[self.start])
        following = self.kind(self.start + 1)
        if self.kind(self.start) != "NAME" or word not in _BEHIND_WORDS:
            return None
        if following in ("LPAR", "IF", "AT", "END", "COMMA"):
            return None
        message = f"expected {_BEHIND_WORDS[word]} after `{word}`"
        return Complaint(Diagnostic("E0110", message, self.span(self.start)), self._next_line())

    def _missing_dot(self) -> Complaint | None:
        ends = self.kind(self.bad) == "$END" or self.first_on_line(self.bad)
        if not ends or "END" not in self.accepted or self.bad == self.start:
            return None
        if self.kind(self.start) == "OUTPUT":
            message = "expected a dot at the end of the output directive"
        else:
            message = f"expected a dot at the end of the {self._noun}"
        return Complaint(Diagnostic("E0102", message, self.behind(self.bad - 1)), self.bad)

    def _unknown_statement(self) -> Complaint | None:
        first = self.tokens[self.start]
        if self.kind(self.start) == "OUTPUT" and self.kind(self.bad) in ("LPAR", "AT", "COMMA"):
            if self.tokens[self.bad - 1] == "relation":
                message = "expected a name after `output relation`"
                return Complaint(Diagnostic("E0110", message, self.span(self.bad - 1)))
            help = "write `output relation` before the name to declare it"
            if self.kind(self.bad) == "COMMA":
                help = "write a separate directive for each relation"
            message = "expected a dot after the name of the published relation"
            return Complaint(Diagnostic("E0101", message, self.span(self.bad), help))
        if self.bad != self.start + 1 or first.type != "NAME" or self.kind(self.bad) not in (*NAMES, "STRING"):
            return None
        end = self.bad
        while end < len(self.tokens) and self.kind(end) != "END":
            end += 1
        similar = difflib.get_close_matches(str(first), DECLARATION_WORDS, 1)
        if similar:
            help = f"did you mean `{similar[0]}`?"
            return Complaint(Diagnostic("E0110", f"no declaration begins with `{first}`", self.span(self.start), help))
        if "IF" in [token.type for token in self.tokens[self.bad : end]]:
            if self.kind(self.bad + 1) not in ("LPAR", "IF", "AT"):
                return None
            message = f"expected a colon after the label `{first}`"
            return Complaint(Diagnostic("E0101", message, self.behind(self.start), f"write `{first}:`"))
        help = "declarations begin with `input relation`, `output relation`, `relation`, `typedef` or `include`"
        return Complaint(Diagnostic("E0110", f"no declaration begins with `{first}`", self.span(self.start), help))

    def _extern(self) -> Complaint | None:
        """Diagnose a declaration of an external function without the word ``function`` or without a name."""
        if self.kind(self.start) != "EXTERN" or "FUNCTION" not in self.accepted:
            return None
        name = str(self.tokens[self.start + 1])
        if name == "function":
            return Complaint(Diagnostic("E0110", "expected a name after `extern function`", self.span(self.start + 1)))
        if self.kind(self.start + 2) == "NAME" and not self.first_on_line(self.start + 2):
            name = str(self.tokens[self.start + 2])  # ``extern func f``
        help = f"write `extern function {name}`"
        return Complaint(Diagnostic("E0110", "expected `function` after `extern`", self.span(self.start), help))

    def _type_in_clause(self) -> Complaint | None:
        if self.kind(self.bad) != "COLON" or self._declares or not self._unclosed():
            return None
        if str(self.tokens[self.start]) in _BEHIND_WORDS:
            message = f"expected a name after `{self.tokens[self.start]}`"
            return Complaint(Diagnostic("E0110", message, self.span(self.start)))
        if "IF" in [token.type for token in self.tokens[self.start : self.bad]]:
            message = "expected a comma or a closing parenthesis, found `:`"
            return Complaint(Diagnostic("E0101", message, self.span(self.bad), BY_POSITION))
        help = "declare a relation with `input relation`, `output relation` or `relation`"
        return Complaint(Diagnostic("E0101", "types are allowed only in declarations", self.span(self.bad), help))

    def _second_head(self) -> Complaint | None:
        if self.kind(self.bad) != "COMMA" or "IF" not in self.accepted or self._unclosed():
            return None
        help = "write a rule or a fact for each head"
        return Complaint(Diagnostic("E0115", "a rule has only one head", self.span(self.bad), help))

    def _expected(self) -> Diagnostic:
        if self.kind(self.start) == "PROCESS":
            return self._in_process()
        if self.kind(self.bad) == "DOT" and self.kind(self.bad + 1) == "INT":
            help = f"write `0.{self.tokens[self.bad + 1]}`"
            return Diagnostic("E0101", "a number must begin with a digit", self.span(self.bad), help)
        if self.kind(self.bad) == "DOT" and self.kind(self.bad - 1) == "INT":
            help = f"write `{self.tokens[self.bad - 1]}.0`"
            return Diagnostic("E0101", "a number must not end with a point", self.span(self.bad), help)
        if self.kind(self.bad) == "COLON" and self.kind(self.start) in ("INT", "NUMBER", "STRING", "QUALIFIED"):
            return Diagnostic("E0101", "a label is a name such as `r1`", self.span(self.start))
        what = self._in_declaration() or self._in_clause()
        return Diagnostic("E0101", f"expected {what}, found {self._found}", self.span(self.bad), self._advice())

    @property
    def _found(self) -> str:
        """Return a name for the bad token."""
        if self.bad >= len(self.tokens):
            return "the end of the program"
        if self.kind(self.bad) == "END":
            return "the dot that ends a clause"
        text = str(self.tokens[self.bad])
        return f"`{text}`" if "`" not in text and "\n" not in text else "this"

    def _in_process(self) -> Diagnostic:
        """Return what is wrong with the beginning of a process, or with an instance of a pattern."""
        name, previous = str(self.tokens[self.start + 1]), self.kind(self.bad - 1)
        help: str | None = f"write `process {name} {{`, or `process {name} = Pattern(1)` to make it from a pattern"
        instance = "EQUAL" in (self.kind(index) for index in range(self.start, self.bad))
        if self.bad == self.start + 1:
            what, help = "a name without dots after `process`", None
        elif {"OPEN", "EQUAL"} <= self.accepted:
            what = "parameters, `{` or `=` after the name of the process"
        elif "OPEN" in self.accepted:
            what = "`{` after the parameters"
        elif self.kind(self.bad) == "RPAR" and previous == "LPAR":
            what, help = "a parameter" if not instance else "a value", "omit the empty parentheses"
        elif instance and previous == "EQUAL":
            what = "the name of a pattern after `=`"
        elif instance and self._unclosed():
            what = "a comma or a closing parenthesis" if "COMMA" in self.accepted else "a constant"
            help = "the values of parameters are constants"
        elif instance:
            what = "the values of the parameters, or a dot"
        elif "COLON" in self.accepted:
            what, help = "a colon and a type after the parameter", f"write `{self.tokens[self.bad - 1]}: int`"
        elif {"COMMA", "RPAR"} & self.accepted:
            what, help = "a comma or a closing parenthesis", "parameters are written `n: int`"
        else:
            what, help = "a parameter", "parameters are written `n: int`"
        return Diagnostic("E0101", f"expected {what}, found {self._found}", self.span(self.bad), help)

    def _advice(self) -> str | None:
        """Return what to write instead of the bad token if it is likely syntax of another language."""
        actual = str(self.tokens[self.bad]) if self.bad < len(self.tokens) else ""
        if self._declares and actual.lower() in ("not", "null"):
            return "only columns whose type ends with `?` may be null, so this needs no constraint; omit it"
        if self.kind(self.bad - 1) == "GREATER" and self._follows_aggregate():
            return "write an aggregate alone as an argument of a head, and compute with its value in another rule"
        if self.kind(self.bad - 1) == "EQUAL" and actual == ":=":
            return "write `=`"
        before = str(self.tokens[self.bad - 1]) if self.bad else ""
        if actual == "|" and "COMMA" in self.accepted:
            return "write `;`"
        if actual in ("[", "{") and self.kind(self.bad - 1) in NAMES and not self._unclosed() and not self._declares:
            return f"write arguments in parentheses, as in `{before}(X, Y)`"
        if actual == "*" and before == "(" and str(self.tokens[self.bad - 2]).lower() == "count":
            return "write `count<*>`"
        if self.kind(self.bad) == "DOT" and before in ("(", ",") and self._unclosed():
            return BY_POSITION
        if before in ("date", "timestamp") and self.kind(self.bad) == "STRING":
            return f"write `{before}{actual}` without a space"
        if actual == "*" and before == "*":
            return "write `X * X`; there is no operator for powers"
        if actual == "^" and "COMMA" in self.accepted:
            return "write `X * X`; there is no operator for powers"
        if self.kind(self.bad) in ("NAME", "NOT") and (advice := self._word_advice(self.bad)):
            return advice
        # A word such as `NOT` was read as a name: what follows it is wrong.
        return self._word_advice(self.bad - 1) if self.kind(self.bad - 1) == "NAME" else None

    def _follows_aggregate(self) -> bool:
        """Return whether the bad token follows an aggregate such as ``sum<X>``, which is not one in its place."""
        index = self.bad - 2
        while index > self.start and self.kind(index) not in ("LESS", "GREATER", "COMMA", "IF"):
            index -= 1
        return self.kind(index) == "LESS" and self.kind(index - 1) == "NAME"

    def _word_advice(self, index: int) -> str | None:
        """Return what to write instead of the word at ``index`` if it is one of another language."""
        word = str(self.tokens[index])
        behind = [str(token) for token in self.tokens[index + 1 : index + 3]]
        compared = [text for text in behind if text.lower() != "not"][:1] if word.lower() == "is" else []
        return next(filter(None, map(constant_advice, compared)), None) or word_advice(word)

    def _in_declaration(self) -> str:
        if not self._declares:
            return ""
        previous = self.kind(self.bad - 1)
        if self.kind(self.start) == "EXTERN":
            if "LPAR" in self.accepted and previous == "NAME" and not self._unclosed():
                return "the parameters of the function in parentheses"
            if "COLON" in self.accepted:
                return (
                    "a colon and a type after the parameter"
                    if self._unclosed()
                    else "a colon and the type of the result"
                )
            if "RPAR" in self.accepted and previous == "LPAR":
                return "a parameter or a closing parenthesis"
        if "COLON" in self.accepted:
            return "a colon and a type after the column name"
        if "GREATER" in self.accepted and "EQUAL" not in self.accepted:
            return "`>` after the type of the elements"
        if "EQUAL" in self.accepted and self.kind(self.start) == "TYPEDEF":
            return "`=` and a type after the new name"
        if previous in ("COLON", "EQUAL", "LESS"):
            return "a type"
        if previous in NAMES and self.kind(self.bad - 2) in ("DECLARE", "DOMAIN"):
            name = self.tokens[self.bad - 1]
            return "a name after `relation`" if name == "relation" else "the columns in parentheses"
        if previous == "KEY":
            return "the key columns in parentheses"
        if {"COMMA", "RPAR"} & self.accepted and self._unclosed():
            return (
                "a comma or a closing parenthesis" if "COMMA" in self.accepted else "a column or a closing parenthesis"
            )
        if "INT" in self.accepted:
            return "a number" if self._unclosed() else "a constant location"
        if "NAME" in self.accepted:
            return "a name" if not self._unclosed() else "a column name"
        return "the end of the declaration"

    def _in_clause(self) -> str:
        previous, unclosed = self.kind(self.bad - 1), self._unclosed()
        before = f"`{self.tokens[self.bad - 1]}`" if self.bad else ""
        if self.bad == self.start:
            return "a rule, a fact or a declaration"
        if previous == "LABEL":
            return "a rule after the label"
        if "NAME" in self.accepted:
            if previous in _OPERATORS or previous in _COMPARISONS:
                return f"an expression after {before}"
            if previous in ("AGGREGATE_OPEN", "DISTINCT"):
                return "an expression inside the aggregate"
            opening = unclosed[-1] if unclosed else -1
            is_argument = self.kind(opening) == "LSQB" or (
                bool(unclosed) and self.kind(opening - 1) in (*NAMES, "RPAR")
            )
            return f"{'an argument' if is_argument else 'a literal'} after {before}"
        if unclosed:
            return "a comma or a closing parenthesis"
        if "IF" in self.accepted:
            return "`:-` or a dot after the head"
        if "END" in self.accepted:
            return "a comma or a dot after the literal"
        return "something else"
