"""Plan: join orders, pivot columns and stages; the last representation that is independent of targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from . import typed
from .delta import DeltaProgram, Versioned
from .strata import TypedStratum


@dataclass(frozen=True)
class Query:
    """A query for derivations of a rule; ``joins`` are its positive literals in join order. Prints as one line.

    ``purpose`` is ``full`` (all derivations), ``arriving`` or ``following`` (those of a delta rule),
    ``crossing`` (what a bound selects before it moves and not behind it, or the other way round), ``returning``
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
        return self.joins[0] if self.purpose in ("arriving", "following", "crossing") else None

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


FACTOR, WEIGHTED = "", " "
"""The pretended relations of the heads of factors' queries, with two columns, and with a weight as well."""


@dataclass(frozen=True)
class Factor:
    """A matrix in the product that a rule is, with rows and columns for the values of two ``types`` (no type: a single
    row). It has a 1 for each tuple of ``table``, whose columns ``places`` say row and column; or, at the pairs that
    ``query`` returns, how often each is derived from relations of earlier strata, which is once if ``distinct``. In a
    stratum with extrema entries are values instead: those of the extremum, and what is added to these, which is the
    third column of a ``weighted`` query, 0 without one."""

    types: tuple[typed.Type | None, typed.Type | None]
    table: str = ""
    places: tuple[int | None, int | None] = (0, 1)
    query: Query | None = None
    distinct: bool = False
    weighted: bool = False

    def __str__(self) -> str:
        literals = self.query.rule.body if self.query is not None else ()
        if self.weighted:
            weight = literals[-1]
            assert isinstance(weight, typed.Assignment)
            return f"{weight.value} of {_together(literals[:-1])}"
        return f"{self.table or _together(literals)}{'ᵀ' if self.places == (1, 0) else ''}"


def _together(literals: Sequence[typed.Literal]) -> str:
    """Return literals as a factor of an equation."""
    text = ", ".join(map(str, literals))
    return f"({text})" if len(literals) > 1 else text


@dataclass(frozen=True)
class MatrixRule:
    """A recursive rule as a product of matrices, whose diagonal is left out if values of the head are to be ``apart``.

    A relation with two columns is a matrix with a row for each value of the first and a column for each value of the
    second; one with a single column is a matrix with one row. ``p(X, Y) :- a(X, Z), p(Z, Y)`` is the product of the
    matrices of ``a`` and ``p``; over whole numbers, it has the number of derivations of each head. With an
    ``extremum``, ``min`` or ``max``, entries along a path are added, and the best one of all paths counts.
    """

    label: str
    factors: tuple[Factor, ...]
    apart: bool = False
    extremum: str = ""

    def __str__(self) -> str:
        text = (" + " if self.extremum else " × ").join(map(str, self.factors))
        return f"({text} off the diagonal)" if self.apart else text


@dataclass(frozen=True)
class Pivot:
    """How a relation is split into buckets: by ``column`` (an index), or not at all (None); ``reason`` is a clause."""

    relation: str
    column: int | None
    reason: str


@dataclass(frozen=True)
class StratumPlan:
    """A stratum with the pivots of its relations and the plans of its rules.

    ``written`` has the ``asked`` query of each source rule that earlier passes have split into others. ``matrices`` has
    the recursive rules as products of matrices, if all of them are such products.
    """

    stratum: TypedStratum
    pivots: tuple[Pivot, ...]
    rules: tuple[RulePlan, ...]
    written: tuple[Query, ...] = ()
    matrices: tuple[MatrixRule, ...] = ()

    @property
    def equations(self) -> list[str]:
        """Equations of matrices for its relations, such as ``path = link + link × path``; none without matrices."""
        products = {product.label: str(product) for product in self.matrices}
        terms_by_head: dict[str, list[str]] = {}
        for rule in self.rules if products else ():
            terms_by_head.setdefault(rule.rule.head.relation, []).append(products.get(rule.label) or _exit_text(rule))
        extrema = {product.label: product.extremum for product in self.matrices}
        functions = {rule.rule.head.relation: extrema[rule.label] for rule in self.rules if extrema.get(rule.label)}
        texts = {name: [*dict.fromkeys(terms)] for name, terms in terms_by_head.items()}
        return [
            f"{name} = {functions[name]}({', '.join(terms)})" if name in functions else f"{name} = {' + '.join(terms)}"
            for name, terms in texts.items()
        ]

    @property
    def joined_by(self) -> dict[str, int]:
        """The indexes of the columns that join relations in the rounds of a recursion, by relation name.

        Each relation has the first such column that is found, and none if no variable joins it.
        """
        columns: dict[str, int] = {}
        for query in (query for rule in self.rules for query in rule.following if len(query.joins) > 1):
            changed, other = (versioned.atom for versioned in query.joins[:2])
            named = [str(term) for term in other.terms]
            for index, term in enumerate(changed.terms):
                if isinstance(term, typed.Variable) and term.name in named:
                    columns.setdefault(changed.relation, index)
                    columns.setdefault(other.relation, named.index(term.name))
                    break
        return columns

    def __str__(self) -> str:
        lines = [f"stratum {self.stratum.name}: {self.stratum.kind}"]
        lines += [f"  {_pivot_text(pivot, self.stratum)}" for pivot in self.pivots]
        lines += [f"  as matrices: {equation}" for equation in self.equations]
        for rule in self.rules:
            lines += [f"  {written}" for written in rule.rules]
            lines += [f"    {query}{', own bucket only' if rule.filtered else ''}" for query in rule.queries]
        return "\n".join(lines)


def _exit_text(planned: RulePlan) -> str:
    """Return how equations name what a rule that is not recursive derives: as the relation that it copies, or by its
    label."""
    rule = planned.rule
    match [(atom.relation, [*map(str, atom.terms)]) for atom in rule.atoms]:
        case [(relation, terms)] if len(rule.body) == 1 and len({*terms} - {"_"}) == len(terms):
            ends = [*map(str, rule.head.arguments)]
            if ends in (terms, terms[::-1]):
                return f"{relation}{'ᵀ' if ends != terms else ''}"
    return planned.label


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
