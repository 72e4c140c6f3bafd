"""Parse the commands of a DDlog command file one by one, reading no further than the end of each.

A command ends with ``;``, an update with ``;`` or ``,``. A comment begins with ``#``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from flintlog.compiler.diagnostics import CODES, CompileError, Diagnostic, Note, shortened
from flintlog.compiler.source import SourceFile, Span

from .syntax import Clear, Command, Commit, Control, Dump, Echo, Items, Name, Scalar, Setting, Struct, Update, Value

UPDATES = ("insert", "delete", "insert_or_update", "delete_key", "modify")
COMMANDS = (
    *("start", "commit", "rollback", "dump", "clear", "echo", "exit", "timestamp", "profile", "log_level", "mssleep"),
    *UPDATES,
)

_TOKEN = re.compile(
    r"""(?P<blank>[ \t\r\n]+|\#.*)
    | (?P<name>[^\W\d]\w*(?:(?:\.|::)[^\W\d]\w*)*)
    | (?P<number>[+-]?(?:0[xX][0-9a-fA-F_]+|[0-9][0-9_]*(?:\.[0-9][0-9_]*)?(?:[eE][+-]?[0-9]+)?)(?!\w))
    | (?P<string>"(?:[^"\\]|\\.)*")
    | (?P<open>"(?:[^"\\]|\\.)*\\?\Z)
    | (?P<mark><-|[()\[\]{},;=.])
    | (?P<other>[\w+-]+|.)""",
    re.VERBOSE | re.DOTALL,
)
_STRING_GOES_ON = re.compile(r'(?:[^"\\]|\\.)*\\?(")?', re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u\{([0-9a-fA-F]{1,6})\}|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_ESCAPES = {
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "0": "\0",
    "\\": "\\",
    '"': '"',
    "'": "'",
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "v": "\v",
    "?": "?",
}
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_DEEPEST = 100


@dataclass(frozen=True)
class Token:
    """A token; ``kind`` is name, number, string, mark, or end, which has no text."""

    kind: str
    text: str
    span: Span


class Reader:
    """Reads the commands of a file called ``name`` from its lines, which are in UTF-8."""

    def __init__(self, name: str, lines: Iterable[bytes]) -> None:
        """Start before the first line."""
        self.name = name
        self._lines = iter(lines)
        self._row = 0
        self._line = ""
        self._position = 0
        self._next: Token | None = None
        self._kept: dict[int, str] = {}

    def forget(self, but: int | None = None) -> None:
        """Forget the lines kept for messages, except the current line and line ``but``."""
        self._kept = {row: line for row, line in self._kept.items() if row in (but, self._row)}

    def skip_line(self) -> None:
        """Skip the rest of the current line."""
        self._next, self._position = None, len(self._line)

    def error(
        self, code: str, message: str, span: Span, help: str | None = None, notes: tuple[Note, ...] = ()
    ) -> CompileError:
        """Return the CompileError to raise about a place in the lines that are kept."""
        assert code in CODES, code
        last = max(self._kept, default=0)
        lines = [self._kept.get(row, "").rstrip("\r\n") for row in range(1, last + 1)]
        item = Diagnostic(code, shortened(message), span, help, notes)
        return CompileError([item], [SourceFile(self.name, "\n".join(lines))])

    # Tokens

    def _advance(self) -> bool:
        """Read the next line; return False at the end of the file."""
        line = next(self._lines, None)
        if line is None:
            return False
        text = line.decode(errors="replace").replace("\r\n", "\n")
        self._row, self._line, self._position = self._row + 1, text, 0
        if self._row == 1:
            self._line = text.removeprefix("\N{BYTE ORDER MARK}")
        self._kept[self._row] = self._line
        try:
            line.decode()
        except UnicodeDecodeError as error:
            column = len(line[: error.start].decode())
            raise self._syntax("this is not UTF-8", self._span(column, column + 1)) from error
        return True

    def _span(self, start: int, end: int) -> Span:
        end = min(end, len(self._line.rstrip("\r\n")))
        return Span(self.name, max(self._row, 1), start + 1, max(end - start, 1))

    def _read(self) -> Token:
        while True:
            if self._position >= len(self._line) and not self._advance():
                end = len(self._line.rstrip("\r\n"))
                return Token("end", "", self._span(end, end))
            match = _TOKEN.match(self._line, self._position)
            assert match is not None and match.lastgroup is not None
            start, self._position = self._position, match.end()
            if match.lastgroup == "blank":
                continue
            span = self._span(start, self._position)
            if match.lastgroup == "open":
                return Token("string", self._long_string(match[0], span), span)
            if match.lastgroup == "other":
                raise self._syntax(f"`{match[0]}` has no meaning here", span)
            return Token(match.lastgroup, match[0], span)

    def _long_string(self, text: str, span: Span) -> str:
        """Return a string literal that continues on further lines."""
        parts = [text]
        while self._advance():
            match = _STRING_GOES_ON.match(self._line)
            assert match is not None
            parts.append(match[0])
            self._position = match.end()
            if match[1]:
                return "".join(parts)
        raise self._syntax("this string is not closed", span)

    def _peek(self) -> Token:
        if self._next is None:
            self._next = self._read()
        return self._next

    def _take(self) -> Token:
        token = self._peek()
        self._next = None
        return token

    def _syntax(self, message: str, span: Span, help: str | None = None) -> CompileError:
        return self.error("E0901", message, span, help)

    def _mark(self, *marks: str) -> Token:
        """Take the next token, which must be one of ``marks``."""
        token = self._take()
        if token.kind != "mark" or token.text not in marks:
            expected = " or ".join(f"`{mark}`" for mark in marks)
            raise self._syntax(f"{expected} is missing before {_called(token)}", token.span)
        return token

    def _at(self, mark: str) -> bool:
        token = self._peek()
        return token.kind == "mark" and token.text == mark

    # Commands

    def command(self) -> Command | None:
        """Return the next command, or None at the end of the file; raise CompileError if it is malformed."""
        token = self._take()
        if token.kind == "end":
            return None
        word, span = token.text, token.span
        if token.kind != "name" or word not in COMMANDS:
            raise self._syntax(f"{_called(token)} is not a command", span, f"commands are {', '.join(COMMANDS)}")
        if word == "echo":
            return Echo(self._text(span), span)
        if word in UPDATES:
            return self._update(word, span)
        command: Command
        if word == "commit":
            shown = self._peek().text == "dump_changes"
            if shown:
                self._take()
            command = Commit(shown, span)
        elif word == "dump":
            command = Dump(None if self._at(";") else self._name(), span)
        elif word == "clear":
            command = Clear(self._name(), span)
        elif word == "profile":
            words = []
            while self._peek().kind == "name":
                words.append(self._take())
            if words and [w.text for w in words] not in ([k, s] for k in ("cpu", "timely") for s in ("on", "off")):
                raise self._syntax("a profile has `cpu` or `timely`, and `on` or `off`", words[0].span)
            command = Control(word, span)
        elif word in ("log_level", "mssleep"):
            command = Setting(word, self._whole(word), span)
        else:
            command = Control(word, span)
        self._mark(";")
        return command

    def _text(self, span: Span) -> str:
        """Return the raw text before the next ``;``."""
        self._position += len(self._line[self._position :]) - len(self._line[self._position :].lstrip(" \t"))
        parts = []
        while (end := self._line.find(";", self._position)) < 0:
            parts.append(self._line[self._position :])
            if not self._advance():
                raise self._syntax("`;` is missing after the text", span)
        parts.append(self._line[self._position : end])
        self._position = end + 1
        return "".join(parts)

    def _name(self) -> Name:
        token = self._take()
        if token.kind != "name":
            raise self._syntax(f"a relation is missing before {_called(token)}", token.span)
        return Name(token.text, token.span)

    def _whole(self, word: str) -> int:
        token = self._take()
        number = _number(token.text) if token.kind == "number" else None
        if not isinstance(number, int) or (word == "mssleep" and number < 0):
            raise self._syntax(f"{word} requires a whole number{', 0 or more' * (word == 'mssleep')}", token.span)
        return number

    def _update(self, word: str, span: Span) -> Update:
        relation = self._name()
        change = None
        if word in ("delete_key", "modify"):
            value = self._value()
            if word == "modify":
                self._mark("<-")
                change = self._value()
        elif self._at("["):
            self._take()
            value = self._value()
            self._mark("]")
        else:
            value = self._struct(relation.text, relation.span, self._mark("(", "["))
        return Update(word, relation, value, change, self._mark(";", ",").text == ";", span)

    # Values

    def _value(self, depth: int = 0) -> Value:
        token = self._take()
        if depth > _DEEPEST:
            raise self._syntax("this value is nested too deeply", token.span)
        if token.kind == "name":
            if token.text in ("true", "false"):
                return Scalar(token.text == "true", token.span)
            if self._at("{"):
                return self._struct(token.text, token.span, self._take(), depth)
            return Struct(token.text, (), (), token.span)
        if token.kind == "number":
            number = _number(token.text)
            if number is None:
                raise self._syntax(f"`{token.text}` is not a number", token.span)
            return Scalar(number, token.span)
        if token.kind == "string":
            return Scalar(self._string(token), token.span)
        if token.kind == "mark" and token.text in "([":
            items = []
            while not self._at(_CLOSING[token.text]):
                items.append(self._value(depth + 1))
                if self._mark(",", _CLOSING[token.text]).text != ",":
                    break
            else:
                self._take()
            return Items(tuple(items), token.text == "[", token.span)
        raise self._syntax(f"a value is missing before {_called(token)}", token.span)

    def _struct(self, name: str, span: Span, opening: Token, depth: int = 0) -> Struct:
        """Parse arguments up to the closing mark, either all positional or all named."""
        closing = _CLOSING[opening.text]
        arguments: list[Value] = []
        fields: list[str] = []
        while not self._at(closing):
            start = self._peek().span
            if self._at("."):
                self._take()
                fields.append(self._name().text)
                self._mark("=")
            arguments.append(self._value(depth + 1))
            if fields and len(fields) != len(arguments):
                raise self._syntax("either all arguments must have names or none", start)
            if self._mark(",", closing).text == closing:
                break
        else:
            self._take()
        return Struct(name, tuple(arguments), tuple(fields), span)

    def _string(self, token: Token) -> str:
        def unescaped(found: re.Match[str]) -> str:
            code = int(found[1] or found[2], 16) if found[1] or found[2] else None
            if code is None and found[3] in _ESCAPES:
                return _ESCAPES[found[3]]
            if code is None or code > 0x10FFFF or 0xD800 <= code < 0xE000:
                raise self._syntax(f"`{found[0]}` is not an escape", token.span)
            return chr(code)

        return _ESCAPE.sub(unescaped, token.text[1:-1])


def _number(text: str) -> int | Decimal | None:
    """Return the value of a number, or None if it has too many digits."""
    digits = text.replace("_", "")
    try:
        if "x" in digits.lower():
            return int(digits, 16)
        return int(digits) if digits.lstrip("+-").isdigit() else Decimal(digits)
    except (ValueError, ArithmeticError):
        return None


def _called(token: Token) -> str:
    return "the end of the file" if token.kind == "end" else f"`{token.text}`"
