"""Plan: join orders, pivot columns and stages; the last representation that is independent of targets."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from . import typed
from .delta import DeltaProgram, Versioned
from .strata import TypedStratum


@dataclass(frozen=True)
class Query:
    """A query for derivations of a rule; ``joins`` are its positive literals in join order. Prints as one line.

    ``purpose`` is ``full`` (all derivations), ``arriving`` or ``following`` (those of a delta rule), ``returning``
    (those of the heads, or for aggregates the groups, in a table that is joined first), or ``asked`` (those of one
    head, or how far the rule gets if there are none). A query for ``facts`` has these rules instead of literals; its
    ``rule`` has a variable for each column.
    """

    rule: typed.TypedRule
    purpose: str
    joins: tuple[Versioned, ...]
    negations: tuple[Versioned, ...]
    conditions: tuple[typed.Assignment | typed.Comparison, ...]
    facts: tuple[typed.TypedRule, ...] = ()

    @property
    def changed(self) -> Versioned | None:
        """The literal whose changes the delta rule propagates, None for other purposes."""
        return self.joins[0] if self.purpose in ("arriving", "following") else None

    def __str__(self) -> str:
        steps = " ⋈ ".join(map(str, self.joins)) or (f"{len(self.facts):,} facts" if self.facts else "one row")
        rest = "".join(f", {literal}" for literal in (*self.negations, *self.conditions))
        return f"{self.purpose}: {steps}{rest}"


@dataclass(frozen=True)
class RulePlan:
    """The queries of one rule, or of several facts together.

    A ``filtered`` rule reads more than its bucket and must drop heads of other buckets.
    """

    rule: typed.TypedRule
    full: Query
    arriving: tuple[Query, ...]
    following: tuple[Query, ...]
    returning: Query | None
    asked: Query
    filtered: bool

    @property
    def rules(self) -> tuple[typed.TypedRule, ...]:
        """The rules that the plan covers: the facts, or the one rule."""
        return self.full.facts or (self.rule,)

    @property
    def label(self) -> str:
        """The label of the rule, or the first and the last label of the facts."""
        first, last = self.rules[0].label, self.rules[-1].label
        return first if first == last else f"{first} to {last}"

    @property
    def queries(self) -> tuple[Query, ...]:
        """The queries for maintenance (all but ``asked``), in print order."""
        last = (self.returning,) if self.returning is not None else ()
        return (self.full, *self.arriving, *self.following, *last)


@dataclass(frozen=True)
class Pivot:
    """How a relation is split into buckets: by ``column`` (an index), or not at all (None); ``reason`` is a clause."""

    relation: str
    column: int | None
    reason: str


@dataclass(frozen=True)
class StratumPlan:
    """A stratum with the pivots of its relations and the plans of its rules.

    ``written`` has the ``asked`` query of each source rule that earlier passes have split into others.
    """

    stratum: TypedStratum
    pivots: tuple[Pivot, ...]
    rules: tuple[RulePlan, ...]
    written: tuple[Query, ...] = ()

    @property
    def joined_by(self) -> dict[str, int]:
        """The indexes of the columns that join relations in the rounds of a recursion, by relation name.

        Each relation has the first such column that is found, and none if no variable joins it.
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


def _pivot_text(pivot: Pivot, stratum: TypedStratum) -> str:
    relation = next(relation for relation in stratum.relations if relation.name == pivot.relation)
    where = "gathered" if pivot.column is None else f"in buckets of {relation.columns[pivot.column].name}"
    return f"{pivot.relation} {where}: {pivot.reason}"


@dataclass(frozen=True)
class StagePlan:
    """Consecutive strata that run together, bucket by bucket (``bucketed``) or gathered in one place."""

    strata: tuple[StratumPlan, ...]
    bucketed: bool

    @cached_property
    def relations(self) -> frozenset[str]:
        """The names of the relations that the stage computes."""
        return frozenset(name for plan in self.strata for name in plan.stratum.members)


@dataclass(frozen=True)
class ProgramPlan:
    """The stages of a program in the order of evaluation."""

    deltas: DeltaProgram
    stages: tuple[StagePlan, ...]

    @property
    def program(self) -> typed.TypedProgram:
        """The typed program."""
        return self.deltas.stratified.program

    def __str__(self) -> str:
        parts = []
        for number, stage in enumerate(self.stages, 1):
            parts.append(f"stage {number}: {'by bucket' if stage.bucketed else 'gathered'}")
            parts += map(str, stage.strata)
        return "\n\n".join(parts) + "\n"
