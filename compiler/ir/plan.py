"""Plan: join orders, pivots and stages; the last stage that knows nothing of a target."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from . import typed
from .delta import Program as DeltaProgram
from .delta import Versioned
from .strata import Stratum


@dataclass(frozen=True)
class Query:
    """The derivations of a rule, for one purpose, its positive literals in the order of joining.

    ``purpose`` is ``full`` (all derivations), ``arriving`` or ``following`` (a delta rule), ``returning`` (those of
    the heads, or for an aggregate the groups, that a table lists; joined first), or ``asked`` (those of one head, and
    how far the rule comes if there is none). A query of ``facts`` has these rules instead of literals, and ``rule``
    has a variable for each of their columns. Prints as one line.
    """

    rule: typed.Rule
    purpose: str
    joins: tuple[Versioned, ...]
    negations: tuple[Versioned, ...]
    conditions: tuple[typed.Assignment | typed.Comparison, ...]
    facts: tuple[typed.Rule, ...] = ()

    @property
    def changed(self) -> Versioned | None:
        """The literal whose changes a delta rule follows."""
        return self.joins[0] if self.purpose in ("arriving", "following") else None

    def __str__(self) -> str:
        steps = " ⋈ ".join(map(str, self.joins)) or (f"{len(self.facts):,} facts" if self.facts else "one row")
        rest = "".join(f", {literal}" for literal in (*self.negations, *self.conditions))
        return f"{self.purpose}: {steps}{rest}"


@dataclass(frozen=True)
class RulePlan:
    """The queries of a rule, or of several facts together.

    ``filtered`` says that it sees more than its bucket and emits only heads of its own.
    """

    rule: typed.Rule
    full: Query
    arriving: tuple[Query, ...]
    following: tuple[Query, ...]
    returning: Query | None
    asked: Query
    filtered: bool

    @property
    def rules(self) -> tuple[typed.Rule, ...]:
        """The rules that this stands for: the facts, or the one rule."""
        return self.full.facts or (self.rule,)

    @property
    def label(self) -> str:
        """The label of the rule, or the first and the last of the facts."""
        first, last = self.rules[0].label, self.rules[-1].label
        return first if first == last else f"{first} to {last}"

    @property
    def queries(self) -> tuple[Query, ...]:
        """The queries that maintain, in the order of printing."""
        last = (self.returning,) if self.returning is not None else ()
        return (self.full, *self.arriving, *self.following, *last)


@dataclass(frozen=True)
class Pivot:
    """How a relation is cut into buckets: by ``column`` (an index), or not at all (None); ``reason`` is a clause."""

    relation: str
    column: int | None
    reason: str


@dataclass(frozen=True)
class StratumPlan:
    """A stratum with pivots for its relations and the queries of its rules.

    ``written`` has the query ``asked`` for each rule of the program that was taken apart into others.
    """

    stratum: Stratum
    pivots: tuple[Pivot, ...]
    rules: tuple[RulePlan, ...]
    written: tuple[Query, ...] = ()

    @property
    def joined_by(self) -> dict[str, int]:
        """The columns (indexes) by which relations are joined in the rounds of a recursion, by name.

        Of each relation it is the first that is found; one that is not joined by a variable has none.
        """
        found: dict[str, int] = {}
        for query in (query for rule in self.rules for query in rule.following if len(query.joins) > 1):
            changed, other = (versioned.atom for versioned in query.joins[:2])
            named = [str(term) for term in other.terms]
            for index, term in enumerate(changed.terms):
                if isinstance(term, typed.Variable) and term.name in named:
                    found.setdefault(changed.relation, index)
                    found.setdefault(other.relation, named.index(term.name))
                    break
        return found

    def __str__(self) -> str:
        lines = [f"stratum {self.stratum.name}: {self.stratum.kind}"]
        lines += [f"  {_pivot_text(pivot, self.stratum)}" for pivot in self.pivots]
        for rule in self.rules:
            lines += [f"  {written}" for written in rule.rules]
            lines += [f"    {query}{', own bucket only' if rule.filtered else ''}" for query in rule.queries]
        return "\n".join(lines)


def _pivot_text(pivot: Pivot, stratum: Stratum) -> str:
    relation = next(relation for relation in stratum.relations if relation.name == pivot.relation)
    where = "gathered" if pivot.column is None else f"in buckets of {relation.columns[pivot.column].name}"
    return f"{pivot.relation} {where}: {pivot.reason}"


@dataclass(frozen=True)
class Stage:
    """Consecutive strata that run together, bucket by bucket (``bucketed``) or gathered in one place."""

    strata: tuple[StratumPlan, ...]
    bucketed: bool

    @cached_property
    def relations(self) -> frozenset[str]:
        """The names of the relations computed here."""
        return frozenset(name for plan in self.strata for name in plan.stratum.members)


@dataclass(frozen=True)
class Program:
    """The stages of a program in the order of evaluation."""

    deltas: DeltaProgram
    stages: tuple[Stage, ...]

    @property
    def program(self) -> typed.Program:
        """The typed program."""
        return self.deltas.stratified.program

    def __str__(self) -> str:
        parts = []
        for number, stage in enumerate(self.stages, 1):
            parts.append(f"stage {number}: {'by bucket' if stage.bucketed else 'gathered'}")
            parts += map(str, stage.strata)
        return "\n\n".join(parts) + "\n"
