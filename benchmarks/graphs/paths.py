"""Path queries: regular expressions over symbols, and conjunctions of them with two answer variables."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias


@dataclass(frozen=True)
class Symbol:
    """An edge of a symbol, walked from source to target, or the other way (``^p0``)."""

    name: str
    inverse: bool = False

    def __str__(self) -> str:
        return f"^{self.name}" if self.inverse else self.name


@dataclass(frozen=True)
class Sequence:
    """One path after the other: ``p0/p1``."""

    parts: tuple[Path, ...]

    def __str__(self) -> str:
        return "/".join(nested(part) if isinstance(part, Choice) else str(part) for part in self.parts)


@dataclass(frozen=True)
class Choice:
    """Any one of some paths: ``p0|p1``."""

    parts: tuple[Path, ...]

    def __str__(self) -> str:
        return "|".join(map(str, self.parts))


@dataclass(frozen=True)
class Repeat:
    """A path any number of times: from 0 on (``*``), or from 1 on (``+``)."""

    part: Path
    sign: str

    def __str__(self) -> str:
        plain = isinstance(self.part, Symbol) and not self.part.inverse
        return f"{self.part if plain else nested(self.part)}{self.sign}"


Path: TypeAlias = Symbol | Sequence | Choice | Repeat


def nested(path: Path) -> str:
    """Return a path in parentheses."""
    return f"({path})"


def parts(path: Path) -> tuple[Path, ...]:
    """Return the paths that a path is made of."""
    if isinstance(path, Repeat):
        return (path.part,)
    return () if isinstance(path, Symbol) else path.parts


def symbols(path: Path) -> frozenset[str]:
    """Return the names of the symbols in a path."""
    if isinstance(path, Symbol):
        return frozenset({path.name})
    return frozenset().union(*map(symbols, parts(path)))


def may_be_empty(path: Path) -> bool:
    """Return whether some part of a path is repeated from 0 on, so that it needs the set of all nodes."""
    return (isinstance(path, Repeat) and path.sign == "*") or any(map(may_be_empty, parts(path)))


@dataclass(frozen=True)
class Conjunct:
    """A path from one variable to another."""

    path: Path
    source: str
    target: str

    def __str__(self) -> str:
        text = str(self.path)
        if isinstance(self.path, (Sequence, Choice)):
            text = nested(self.path)
        return f"{text}({self.source}, {self.target})"


@dataclass(frozen=True)
class Query:
    """The pairs of values of two variables for which all conjuncts hold."""

    name: str
    head: tuple[str, str]
    conjuncts: tuple[Conjunct, ...]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(self.head)}) :- {', '.join(map(str, self.conjuncts))}."

    @cached_property
    def symbols(self) -> frozenset[str]:
        """The names of the symbols that it reads."""
        return frozenset().union(*(symbols(conjunct.path) for conjunct in self.conjuncts))

    def program(self, remark: str) -> str:
        """Return it as a program, with a remark on top."""
        names = sorted(self.symbols, key=lambda name: int(name[1:]))
        lines = [f"// {remark}", *(f"input relation {name}(src: int, dst: int)" for name in names)]
        if any(may_be_empty(conjunct.path) for conjunct in self.conjuncts):
            lines += ["input relation node(id: int)", "domain node(id)."]
        return "\n".join([*lines, f"output {self.name}.", "", str(self)]) + "\n"
