"""The query behind ``explain``, which follows a rule step by step for one head.

A step is a literal, an absence or a condition. Literals are left joins, so that the query also shows how far a rule
gets that does not derive the head. Column ``_i`` says whether step i holds. ``_i_j`` is term j of its literal, as
far as it is known there, or the value that the rule computes for a head column. For a recursive rule, ``_rank`` is
the rank of the derivation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from flintlog.compiler.ir import typed
from flintlog.compiler.ir.delta import Versioned
from flintlog.compiler.ir.plan import Query
from sqlglot import exp

from .expressions import all_of
from .names import Names
from .print_sql import Sql, print_sql
from .sql import COMPARISONS, FACT_PLACE, FACT_RULE, QueryBuilder, column_of, table, unlike


@dataclass(frozen=True)
class AskedStep:
    """A step in the program's own words. A literal also has its ``table``, ``negated`` if it must have no such tuple;
    the computation of a value of the head has its ``column``."""

    text: str
    table: str = ""
    negated: bool = False
    column: str = ""


def asked_sql(query: Query, names: Names, kind: str, members: frozenset[str]) -> tuple[Sql, tuple[AskedStep, ...]]:
    """Return the query for a rule of a stratum of ``kind`` with relations ``members``, and its steps in order."""
    builder = _AskedBuilder(query, names, kind, members)
    return builder.build(), tuple(builder.steps)


class _AskedBuilder(QueryBuilder):
    """Builds the tree of the query."""

    def __init__(self, query: Query, names: Names, kind: str, members: frozenset[str]) -> None:
        super().__init__(query, names, kind, members)
        if kind == "aggregate":
            self.listing = tuple(enumerate(self.head.arguments))
        self.list = "asked"
        self.listed = unlike(self.list, self.aliases)
        self.steps: list[AskedStep] = []
        self.selected: list[exp.Expr] = []

    def build(self) -> Sql:
        """Return the query: literals in the planned order, then conditions, computed head values and absences."""
        self.join_listed()
        for twice in self.tables[0][1]:
            self.step(AskedStep("what the head has twice is equal"), twice)
        self.tables[0][1].clear()
        if self.query.facts:
            self.find_fact()
        for versioned, alias in zip(self.query.joins, self.aliases, strict=True):
            terms = [
                self.tried(term) if self.is_known(term) else self.column(alias, versioned.atom.relation, index)
                for index, term in enumerate(versioned.atom.terms)
            ]
            self.join(versioned, alias)
            held = _there(self.first_column(versioned, alias))
            text = self.text_of(versioned.atom)
            self.step(AskedStep(text, self.names.tables[versioned.atom.relation]), held, terms)
        for condition in self.query.conditions:
            self.check(condition)
        for index, argument in enumerate(self.head.arguments):
            self.compare_head(index, argument)
        for number, versioned in enumerate(self.query.negations):
            self.join_absent(versioned, unlike(f"absent_{number}", (*self.aliases, self.listed)))
        if self.ranked:
            self.selected.append(exp.alias_(self.rank(), "_rank"))
        selected = self.selected or [exp.alias_(exp.true(), "_any")]
        joins = [
            exp.Join(this=of, side="LEFT", on=all_of(matches) if matches else exp.true())
            for of, matches in self.tables[1:]
        ]
        return print_sql(exp.Select(expressions=selected, from_=exp.From(this=self.tables[0][0]), joins=joins))

    def text_of(self, atom: typed.Atom) -> str:
        """Return a positive literal as users know it."""
        if atom.relation in self.names.copied:
            return str(replace(atom, relation=self.names.copied[atom.relation], terms=atom.terms[:-1]))
        return str(replace(atom, relation=self.names.shown.get(atom.relation, atom.relation)))

    def find_fact(self) -> None:
        """Join the facts on the head, and select the label and the place of the matching fact."""
        alias = self.join_facts()
        rule, place = (column_of(name, alias) for name in self.fact_columns)
        self.step(AskedStep("that this tuple is one of the facts"), _there(rule))
        self.selected += [exp.alias_(rule.copy(), FACT_RULE), exp.alias_(place, FACT_PLACE)]

    def step(self, step: AskedStep, held: exp.Expr, terms: Sequence[exp.Expr] = ()) -> None:
        """Add a step: whether it holds, and the terms of its literal or the value computed for the head."""
        self.steps.append(step)
        place = len(self.steps)
        self.selected.append(exp.alias_(exp.Coalesce(this=held, expressions=[exp.false()]), f"_{place}"))
        for index, term in enumerate(terms, 1):
            self.selected.append(exp.alias_(term.copy(), f"_{place}_{index}"))

    def is_known(self, term: typed.Term) -> bool:
        """Return whether a term has a value before its literal is joined."""
        return isinstance(term, typed.Constant) or (isinstance(term, typed.Variable) and term.name in self.values)

    def first_column(self, versioned: Versioned, alias: str) -> exp.Expr:
        """Return a column of a joined table; no column of a tuple is ever NULL."""
        return column_of(self.names.tuple_columns(versioned.atom.relation)[0], alias)

    def check(self, condition: typed.Assignment | typed.Comparison) -> None:
        """Add a comparison as a step. An assignment binds its variable, or is compared if that is bound already."""
        if isinstance(condition, typed.Assignment):
            name = condition.variable.name
            if name in self.values:
                self.step(AskedStep(str(condition)), self.equal(self.expression(condition.variable), condition.value))
                return
            self.add_condition(condition)
            return
        sides = self.tried(condition.left), self.tried(condition.right)
        self.step(AskedStep(str(condition)), COMPARISONS[condition.op](this=sides[0], expression=sides[1]))

    def compare_head(self, index: int, argument: typed.Expression | typed.Aggregate) -> None:
        """Add the comparison of a head value with what the rule computes, except for sums, counts and averages, and
        for an extremum beside other aggregates, to whose values all derivations contribute."""
        if isinstance(argument, typed.Aggregate):
            self.selected += [exp.alias_(self.tried(value), order) for order, value in self.ordered(argument)]
            several = sum(isinstance(other, typed.Aggregate) for other in self.head.arguments) > 1
            if argument.function not in ("min", "max") or argument.argument is None or several:
                return
            argument = argument.argument
        elif isinstance(argument, typed.Variable):
            return
        column = self.column(self.listed, self.head.relation, index)
        name = self.names.columns[self.head.relation][index]
        self.step(AskedStep(str(argument), column=name), self.equal(column, argument), [self.tried(argument)])

    def equal(self, value: exp.Expr, expression: typed.Expression) -> exp.Expr:
        """Return the condition that an expression equals a value."""
        return exp.EQ(this=value, expression=self.tried(expression))

    def join_absent(self, versioned: Versioned, alias: str) -> None:
        """Join a negated literal, and add the step that no tuple matches."""
        versioned = self.unprojected(versioned)
        atom = versioned.atom
        columns = [self.column(alias, atom.relation, index) for index, _ in enumerate(atom.terms)]
        wild = [isinstance(term, typed.Wildcard) for term in atom.terms]
        terms = [exp.null() if open_ else self.tried(term) for term, open_ in zip(atom.terms, wild, strict=True)]
        matches: list[exp.Expr] = [
            exp.EQ(this=column, expression=term.copy())
            for column, term, open_ in zip(columns, terms, wild, strict=True)
            if not open_
        ]
        self.tables.append((table(self.table_name(versioned), alias), matches))
        absent = exp.Is(this=self.first_column(versioned, alias), expression=exp.Null())
        self.step(AskedStep(f"!{atom}", self.names.tables[atom.relation], negated=True), absent, terms)

    def unprojected(self, versioned: Versioned) -> Versioned:
        """Return a negated literal over the relation that the program names, if it reads a projection of it."""
        relation, kept = self.names.projections.get(versioned.atom.relation, ("", ()))
        if not relation:
            return versioned
        negation = versioned.literal
        assert isinstance(negation, typed.Negation)
        kept_terms = dict(zip(kept, negation.atom.terms, strict=True))
        terms = tuple(
            kept_terms.get(index, typed.Wildcard(typed.UNKNOWN, negation.atom.span))
            for index, _ in enumerate(self.names.columns[relation])
        )
        return replace(
            versioned, literal=replace(negation, atom=replace(negation.atom, relation=relation, terms=terms))
        )


def _there(column: exp.Expr) -> exp.Expr:
    return exp.Is(this=column, expression=exp.Not(this=exp.Null()))
