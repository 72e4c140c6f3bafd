"""Run the C preprocessor over programs of Soufflé, and map its result back to the original files.

    #define LIMIT 3
    p(x) :- q(x), x < LIMIT.

becomes ``p(x) :- q(x), x < 3.``, where the ``3`` has the place of ``LIMIT`` in the second line.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from ...source import SourceFile, Span

_DIRECTIVE = re.compile(r"^[ \t]*#", re.MULTILINE)

_NEEDED = {
    "define": "a name",
    "undef": "a name",
    "ifdef": "a name",
    "ifndef": "a name",
    "if": "a condition",
    "elif": "a condition",
}
"""The operands that directives require."""

Include = Callable[[str, SourceFile, int], SourceFile | None]
"""Returns the file that an include names, given the including file and the place of the include; None after reporting
that there is none, or if it was read before."""

Report = Callable[[str, Span], None]
"""Reports a mistake with a message and its place."""


@dataclass(frozen=True)
class Piece:
    """A part of a text that begins at ``start``, and where it is from. An expansion of a macro is at one place, from
    ``place`` to ``end``; the characters of other pieces are one by one at those from ``place`` on."""

    start: int
    source: SourceFile
    place: int
    end: int | None = None


@dataclass
class MappedText:
    """A text, and where its characters are from."""

    text: str
    pieces: list[Piece]
    _starts: list[int] = field(default_factory=list)

    def origin(self, start: int, end: int) -> tuple[SourceFile, int, int]:
        """Return the file of the characters ``start`` to ``end`` (exclusive), and their range in it."""
        if not self._starts:
            self._starts = [piece.start for piece in self.pieces]
        first = self.pieces[max(bisect_right(self._starts, start) - 1, 0)]
        last = self.pieces[max(bisect_right(self._starts, max(start, end - 1)) - 1, 0)]
        begin = first.place if first.end is not None else first.place + start - first.start
        finish = last.end if last.end is not None else last.place + end - last.start
        if first.source is not last.source or finish <= begin:
            finish = begin + 1 if first.end is None else first.end
        return first.source, begin, finish

    def span(self, start: int, end: int) -> Span:
        """Return the span in the original file of the characters ``start`` to ``end`` (exclusive)."""
        source, begin, finish = self.origin(start, end)
        return source.span(begin, finish)

    def original(self, start: int, end: int) -> str:
        """Return the original text of the characters ``start`` to ``end`` (exclusive)."""
        source, begin, finish = self.origin(start, end)
        return source.text[begin:finish]


def preprocessed(source: SourceFile, include: Include, report: Report) -> MappedText:
    """Return the text of a file after preprocessing; that of the file itself if no line begins with ``#``.

    Mistakes are reported with a message and a place; ``include`` finds the files of ``#include``.
    """
    if not _DIRECTIVE.search(source.text):
        return MappedText(source.text, [Piece(0, source, 0)])
    running = _preprocessor(source, include, report)
    running.parse(source.text, source.name)
    return _mapped(running.all_tokens(), running.files, source)


def _mapped(tokens: Iterator[Any], files: dict[str, SourceFile], main: SourceFile) -> MappedText:
    """Return the text of tokens of the preprocessor."""
    parts: list[str] = []
    pieces: list[Piece] = []
    size = 0
    after: dict[str, int] = {}
    for token in tokens:
        text, source = str(token.value), files.get(token.source, main)
        macros = getattr(token, "expanded_from", None)
        if macros:
            # Tokens of a macro have the place of its definition, but the line of its use.
            place = _use(source, macros[-1], token.lineno, after.get(source.name, 0))
            pieces.append(Piece(size, source, place, place + len(macros[-1])))
        else:
            pieces.append(Piece(size, source, token.lexpos))
            after[source.name] = token.lexpos + len(text)
        parts.append(text)
        size += len(text)
    return MappedText("".join(parts), pieces or [Piece(0, main, 0)])


def _use(source: SourceFile, macro: str, line: int, after: int) -> int:
    """Return where a macro is used: behind what precedes it, or else in its line."""
    begin = sum(len(text) + 1 for text in source.lines[: line - 1])
    pattern = re.compile(rf"\b{re.escape(macro)}\b")
    use = pattern.search(source.text, max(begin, after)) or pattern.search(source.text, begin)
    return use.start() if use else begin


def _preprocessor(main: SourceFile, include: Include, report: Report) -> Any:
    """Return a preprocessor that finds files by ``include``."""
    # Imported here, since few programs need it. The package has no types.
    from pcpp import Preprocessor  # type: ignore[import-untyped]

    class Running(Preprocessor):  # type: ignore[misc]
        """Finds included files as other programs do, and reports instead of printing."""

        def __init__(self) -> None:
            super().__init__()
            self.files = {main.name: main}
            self.reading = main.name, 1
            self.rewrite_paths: list[Any] = []  # The names of files stay as they are.
            for clock in ("__DATE__", "__TIME__"):  # A program does not depend on when it is read.
                self.undef(clock)

        def all_tokens(self) -> Iterator[Any]:
            """Yield all tokens; where the preprocessor fails at a directive, report it and end."""
            try:
                yield from iter(self.token, None)
            except (AttributeError, IndexError, KeyError, TypeError, ValueError):
                # It takes for granted that directives are whole.
                self.on_error(*self.reading, "the preprocessor cannot read this line")

        def group_lines(self, input: str, abssource: str) -> Iterator[list[Any]]:
            """Yield the tokens of each line of a file. It is read as it is, since tokens have places in it: with blanks
            behind its lines, and with ``??!``, which once stood for ``|``."""
            lexer = self.lexer.clone()
            lexer.input(self.files.get(abssource, main).text)
            lexer.lineno = 1
            line: list[Any] = []
            for token in iter(lexer.token, None):
                token.source = abssource
                line.append(token)
                self.reading = abssource, line[0].lineno
                if token.type in self.t_WS and token.value == "\n":
                    yield line
                    line = []
            if line:
                end = copy(line[-1])
                end.type, end.value = self.t_NEWLINE, "\n"
                yield [*line, end]

        def include(self, tokens: list[Any], original_line: Any) -> Iterator[Any]:
            """Yield the tokens of an included file."""
            tokens = [token for token in tokens if token.value.strip()]
            if not tokens:
                return
            source = self.files.get(tokens[0].source, main)
            name = "".join(token.value for token in tokens)
            if len(name) <= 2 or (name[0], name[-1]) not in (('"', '"'), ("<", ">")):
                self.on_error(tokens[0].source, tokens[0].lineno, "`#include` needs a file in quotes or angle brackets")
                return
            included = include(name[1:-1], source, tokens[0].lexpos)
            if included is None:
                return
            self.files[included.name] = included
            yield from self.parsegen(included.text, included.name, included.name)

        def on_error(self, file: str, line: int, message: str) -> None:
            """Report a mistake in a directive."""
            if message.startswith("Could not evaluate expression"):
                message = "this condition cannot be evaluated"
            source = self.files.get(file, main)
            text = source.lines[line - 1] if 0 < line <= len(source.lines) else ""
            report(message[:1].lower() + message[1:].rstrip(), Span(source.name, line, 1, max(len(text), 1)))

        def on_directive_handle(self, directive: Any, arguments: Any, ifpassthru: bool, preceding: Any) -> Any:
            """Report a directive that lacks what it needs; go on as if that were the name of the directive."""
            if not arguments and directive.value in (*_NEEDED, "pragma"):
                if directive.value in _NEEDED:
                    message = f"`#{directive.value}` needs {_NEEDED[directive.value]}"
                    self.on_error(directive.source, directive.lineno, message)
                arguments.append(copy(directive))
            return super().on_directive_handle(directive, arguments, ifpassthru, preceding)

        def on_directive_unknown(self, directive: Any, arguments: Any, ifpassthru: bool, preceding: Any) -> bool:
            """Report ``#error`` and what is no directive; ignore ``#warning`` and ``#pragma``."""
            text = " ".join([f"#{directive.value}", *(t.value for t in arguments if t.value.strip())])
            if directive.value not in ("error", "warning", "pragma"):
                text = f"`#{directive.value}` is not a directive of the preprocessor"
            if directive.value not in ("warning", "pragma"):
                self.on_error(directive.source, directive.lineno, text)
            return True

    return Running()
