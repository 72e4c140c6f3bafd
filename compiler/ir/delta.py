"""Delta rules: for each literal of a rule, the derivations that its changes add or remove.

For ``h :- b1, ..., bn`` the delta rule of position i is ``Δh :- b1^ν, ..., b(i-1)^ν, Δbi, b(i+1), ..., bn`` (Nigam et
al. 2012, section 3.2), where literals of earlier strata come before those of the rule's own stratum. The same delta
rule serves both phases of a batch: deletions lead from the old state to mid, insertions from mid to the new state.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from . import typed
from .strata import StratifiedProgram, TypedStratum


class Version(Enum):
    """The version of a relation that a literal reads in a phase of a batch; the value is the mark that it prints."""

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
        """The atom of the literal, negated or not."""
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
    """The delta rule for changes of the literal at ``position`` of ``body``."""

    position: int
    body: tuple[Versioned, ...]

    @property
    def changed(self) -> Versioned:
        """The literal whose changes this rule propagates."""
        return self.body[self.position]


MARK, LEAD = "affected group", "depending group"
"""The pretended relations of the heads of marks and of leads; no relation of a program has such a name."""


@dataclass(frozen=True)
class RuleDeltas:
    """The delta rules of a rule: ``arriving`` for changes of earlier strata, ``following`` for those of its own.

    ``conditions`` are the literals that do not change: assignments and comparisons. In a recursion that orders its
    groups, ``marks`` are the delta rules of the same rule over groups, which say in which of them derivations change,
    and ``leads`` its rules for what depends on the groups of a literal.
    """

    rule: typed.TypedRule
    arriving: tuple[DeltaRule, ...]
    following: tuple[DeltaRule, ...]
    conditions: tuple[typed.Assignment | typed.Comparison, ...]
    marks: RuleDeltas | None = None
    leads: tuple[RuleDeltas, ...] = ()

    @property
    def all(self) -> tuple[DeltaRule, ...]:
        """All delta rules, in the order of the literals in their bodies."""
        return (*self.arriving, *self.following)

    def __str__(self) -> str:
        lines = [str(self.rule)]
        groups = (("affecting", self.marks, self.marks.arriving),) if self.marks else ()
        leads = (("leading", lead, lead.arriving) for lead in self.leads)
        own = (("arriving", self, self.arriving), ("following", self, self.following))
        for name, of, deltas in (*groups, *leads) if self.marks else own:
            for delta in deltas:
                body = ", ".join(map(str, (*delta.body, *of.conditions)))
                lines.append(f"  {name}: Δ{of.rule.head} :- {body}.")
        return "\n".join(lines)


@dataclass(frozen=True)
class StratumDeltas:
    """A stratum with the delta rules of its rules, in the order of ``stratum.rules``."""

    stratum: TypedStratum
    rules: tuple[RuleDeltas, ...]

    def __str__(self) -> str:
        return "\n".join([f"stratum {self.stratum.name}: {self.stratum.kind}", *map(str, self.rules)])


@dataclass(frozen=True)
class DeltaProgram:
    """The delta rules of a program, stratum by stratum."""

    stratified: StratifiedProgram
    strata: tuple[StratumDeltas, ...]

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.strata)) + "\n"
