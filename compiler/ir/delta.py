"""Delta rules: for each rule and body literal, the derivations that follow a change of that literal.

For ``h :- b1, ..., bn`` the delta rule of position i is ``Δh :- b1^ν, ..., b(i-1)^ν, Δbi, b(i+1), ..., bn`` (Nigam et
al. 2012, section 3.2), the literals of earlier strata standing before those of the rule's own. The same delta rule
serves both phases of a batch: deletions lead from old to mid, insertions from mid to new.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from . import typed
from .strata import Program as StratifiedProgram
from .strata import Stratum


class Version(Enum):
    """Which tuples of a relation a literal ranges over, in a phase; the value is how it prints."""

    BEFORE = ""
    DELTA = "Δ"
    AFTER = "ν"


@dataclass(frozen=True)
class Versioned:
    """A body atom or negation in one version; prints as ``link^ν(S, Z)`` or ``Δlink(S, Z)``."""

    literal: typed.Atom | typed.Negation
    version: Version

    @property
    def atom(self) -> typed.Atom:
        """The atom, also of a negation."""
        return self.literal.atom if isinstance(self.literal, typed.Negation) else self.literal

    @property
    def negated(self) -> bool:
        """Whether the literal is a negation."""
        return isinstance(self.literal, typed.Negation)

    def __str__(self) -> str:
        terms = f"({', '.join(map(str, self.atom.terms))})" if self.atom.terms else ""
        mark = "!" if self.negated else ""
        if self.version is Version.DELTA:
            return f"Δ{mark}{self.atom.relation}{terms}"
        return f"{mark}{self.atom.relation}{'^ν' if self.version is Version.AFTER else ''}{terms}"


@dataclass(frozen=True)
class DeltaRule:
    """The delta rule of the literal at ``position`` of the ordered body."""

    position: int
    body: tuple[Versioned, ...]

    @property
    def changed(self) -> Versioned:
        """The literal whose changes it follows."""
        return self.body[self.position]


@dataclass(frozen=True)
class RuleDeltas:
    """The delta rules of a rule: ``arriving`` through earlier strata, ``following`` through its own.

    ``conditions`` are the literals that do not change: assignments and comparisons.
    """

    rule: typed.Rule
    arriving: tuple[DeltaRule, ...]
    following: tuple[DeltaRule, ...]
    conditions: tuple[typed.Assignment | typed.Comparison, ...]

    @property
    def all(self) -> tuple[DeltaRule, ...]:
        """All delta rules, in the order of the literals they follow."""
        return (*self.arriving, *self.following)

    def __str__(self) -> str:
        lines = [str(self.rule)]
        for name, deltas in (("arriving", self.arriving), ("following", self.following)):
            for delta in deltas:
                body = ", ".join(map(str, (*delta.body, *self.conditions)))
                lines.append(f"  {name}: Δ{self.rule.head} :- {body}.")
        return "\n".join(lines)


@dataclass(frozen=True)
class StratumDeltas:
    """A stratum with the delta rules of its rules, in the order of ``stratum.rules``."""

    stratum: Stratum
    rules: tuple[RuleDeltas, ...]

    def __str__(self) -> str:
        return "\n".join([f"stratum {self.stratum.name}: {self.stratum.kind}", *map(str, self.rules)])


@dataclass(frozen=True)
class Program:
    """The delta rules of a program, stratum by stratum."""

    stratified: StratifiedProgram
    strata: tuple[StratumDeltas, ...]

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.strata)) + "\n"
