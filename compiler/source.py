"""Source files: their text, hash and line table."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from dataclasses import dataclass, replace
from functools import cached_property


@dataclass(frozen=True)
class Span:
    """A stretch of source text on one line; ``str(span)`` prints ``reach.dl:7``.

    ``line`` and ``column`` count from 1, ``length`` counts characters and is at least 1. A construct that runs over
    several lines is represented by its part on the first line.
    """

    file: str
    line: int
    column: int
    length: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    def start(self, name: str) -> Span:
        """The part that ``name`` takes, which the text begins with."""
        return replace(self, length=min(self.length, len(name)))


@dataclass(frozen=True)
class SourceFile:
    """A program file: ``name`` as diagnostics and generated scripts show it, never an absolute path."""

    name: str
    text: str

    @cached_property
    def sha256(self) -> str:
        """Hex digest of the text in UTF-8."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """The lines without their ends."""
        return tuple(self.text.split("\n"))

    @cached_property
    def _starts(self) -> tuple[int, ...]:
        starts, position = [], 0
        for line in self.lines:
            starts.append(position)
            position += len(line) + 1
        return tuple(starts)

    def span(self, start: int, end: int) -> Span:
        """The span of the characters ``start`` to ``end`` (exclusive), cut at the end of the first line."""
        row = bisect_right(self._starts, start) - 1
        column = start - self._starts[row]
        rest = max(len(self.lines[row]) - column, 1)
        return Span(self.name, row + 1, column + 1, max(1, min(end - start, rest)))
