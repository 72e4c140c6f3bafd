"""Source files, with hash and line table, and spans of their text."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from dataclasses import dataclass, field, replace
from functools import cached_property


@dataclass(frozen=True)
class Span:
    """A range of source text on one line; prints as ``reach.dl:7``.

    ``line`` and ``column`` count from 1; ``length`` is in characters and at least 1. The span of a construct on several
    lines is its part on the first line.
    """

    file: str
    line: int
    column: int
    length: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    def start(self, name: str) -> Span:
        """Return the span of ``name`` at the beginning of this span."""
        return replace(self, length=min(self.length, len(name)))


@dataclass(frozen=True)
class SourceFile:
    """A program file.

    ``name`` identifies the file in a program and is shown in generated scripts; it is relative to the folder of the
    program. ``path`` is the path that the file was read from, as the user gave it, and is shown in diagnostics; it is
    empty for text that was not read from a file.
    """

    name: str
    text: str
    path: str = field(default="", compare=False)

    @property
    def shown(self) -> str:
        """The path to show in diagnostics, or the name if there is none."""
        return self.path or self.name

    @cached_property
    def sha256(self) -> str:
        """The SHA-256 of the text in UTF-8, in hexadecimal digits."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """The lines without line ends."""
        return tuple(self.text.split("\n"))

    @cached_property
    def _starts(self) -> tuple[int, ...]:
        starts, position = [], 0
        for line in self.lines:
            starts.append(position)
            position += len(line) + 1
        return tuple(starts)

    def span(self, start: int, end: int) -> Span:
        """Return the span of the characters ``start`` to ``end`` (exclusive), cut at the end of the first line."""
        row = bisect_right(self._starts, start) - 1
        column = start - self._starts[row]
        rest = max(len(self.lines[row]) - column, 1)
        return Span(self.name, row + 1, column + 1, max(1, min(end - start, rest)))
