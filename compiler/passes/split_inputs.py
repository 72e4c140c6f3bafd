"""Split each input-and-derived relation into a hidden input relation and a derived relation.

Before::

    input derived relation trusts(a: string, b: string)
    trusts(X, Z) :- trusts(X, Y), delegates(Y, Z).

After::

    hidden input relation trusts_in(a: string, b: string)
    relation trusts(a: string, b: string)
    trusts_input: trusts(a, b) :- trusts_in(a, b).
    trusts_1: trusts(X, Z) :- trusts(X, Y), delegates(Y, Z).

Input changes are resolved against the hidden relation, so a tuple that is also derived survives its deletion as input.

A multiset is split, too. The hidden relation has a tuple for each copy of a row, with its number; the derived one is
the set that rules see. Rules that sum up, count or average read the copies instead, so that each gives derivations of
its own. Before::

    input multiset relation sale(item: string, price: int)
    output relation total(item: string, all: int)
    output relation sold(item: string)
    total_1: total(I, sum<P>) :- sale(I, P).
    sold_1: sold(I) :- sale(I, _).

After::

    hidden input multiset relation sale_in(item: string, price: int, copy: int)
    relation sale(item: string, price: int)
    sale_input: sale(item, price) :- sale_in(item, price, _).
    total_1: total(I, sum<P>) :- sale_in(I, P, _).
    sold_1: sold(I) :- sale(I, _).

If the program has facts of the multiset, each is a copy with a negative number, and the copies of both kinds are in
another hidden relation, ``sale_all``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..ir import typed
from ..naming import unused

COUNTING = ("sum", "count", "avg")
"""The aggregates whose values depend on the number of derivations, unless they are over distinct values."""


def split_inputs(program: typed.TypedProgram) -> typed.TypedProgram:
    """Return the program without relations that are both input and derived, and without multisets."""
    splitting = _InputSplitting(program)
    relations = [part for relation in program.relations for part in splitting.split(relation)]
    rules = [splitting.counted(rule) for rule in program.rules]
    return replace(program, relations=tuple(relations), rules=(*splitting.rules, *rules))


class _InputSplitting:
    """The rules that the split makes, and the relations with the copies of each multiset."""

    def __init__(self, program: typed.TypedProgram) -> None:
        self.program = program
        self.names = {relation.name for relation in program.relations}
        self.labels = {rule.label for rule in program.rules}
        self.rules: list[typed.TypedRule] = []
        self.copies: dict[str, typed.TypedRelation] = {}

    def split(self, relation: typed.TypedRelation) -> Sequence[typed.TypedRelation]:
        """Return the relations in the place of one; note the rules that derive them."""
        if not relation.accepts_input:
            return [relation]
        hidden = replace(
            relation,
            name=self._name(f"{relation.name}_in"),
            role="input",
            output=False,
            accepts_input=False,
            multiset=False,
            hidden=True,
            public=relation.name,
            why=f"the tuples of {relation.name} that come from outside",
        )
        parts = [hidden, replace(relation, accepts_input=False, multiset=False)]
        terms: tuple[typed.Term, ...] = variables_for(relation)
        if relation.multiset:
            parts[0] = hidden = _with_copies(hidden)
            terms = (*terms, typed.Wildcard(typed.INT, relation.span))
        self._rule(
            f"{relation.name}_input",
            typed.Head(relation.name, variables_for(relation), relation.span),
            (typed.Atom(hidden.name, terms, relation.span),),
            f"input {relation.name}",
            f"tuples of {relation.name} that come from outside",
        )
        if relation.multiset:
            facts = self.program.rules_of(relation.name)
            self.copies[relation.name] = hidden
            if facts:
                parts.append(self._all_copies(relation, hidden, facts))
        return parts

    def _all_copies(
        self, relation: typed.TypedRelation, hidden: typed.TypedRelation, facts: Sequence[typed.TypedRule]
    ) -> typed.TypedRelation:
        """Return the relation with the copies of rows and facts, and note its rules."""
        whole = replace(
            hidden,
            name=self._name(f"{relation.name}_all"),
            role="derived",
            copies=False,
            public="",
            why=f"the copies of the tuples of {relation.name}, from outside and in the program",
        )
        self.copies[relation.name] = whole
        variables = variables_for(whole)
        self._rule(
            whole.name,
            typed.Head(whole.name, variables, relation.span),
            (typed.Atom(hidden.name, variables, relation.span),),
            f"the copies of {relation.name}",
            "made for a multiset with facts",
        )
        for number, fact in enumerate(facts, 1):
            copy = typed.Constant(-number, typed.INT, fact.span)
            head = replace(fact.head, relation=whole.name, arguments=(*fact.head.arguments, copy))
            self.rules.append(replace(fact, label=self._label(f"{fact.label}_copy"), head=head, origin="as a copy"))
        return whole

    def counted(self, rule: typed.TypedRule) -> typed.TypedRule:
        """Return a rule that reads copies where these count."""
        if not any(a.function in COUNTING and not a.distinct for a in rule.aggregates):
            return rule
        body = tuple(counted_literal(literal, self.copies) for literal in rule.body)
        return rule if body == rule.body else replace(rule, body=body)

    def _rule(self, label: str, head: typed.Head, body: tuple[typed.Literal, ...], text: str, origin: str) -> None:
        self.rules.append(typed.TypedRule(self._label(label), head, body, head.span, text, origin))

    def _name(self, wish: str) -> str:
        name = unused(wish, self.names)
        self.names.add(name)
        return name

    def _label(self, wish: str) -> str:
        label = unused(wish, self.labels)
        self.labels.add(label)
        return label


def variables_for(relation: typed.TypedRelation) -> tuple[typed.Variable, ...]:
    """Return a variable for each column of a relation, called like it."""
    return tuple(typed.Variable(column.name, column.type, relation.span) for column in relation.columns)


def _with_copies(relation: typed.TypedRelation) -> typed.TypedRelation:
    """Return a relation with a column more, for the numbers of copies."""
    name = unused("copy", {column.name for column in relation.columns})
    columns = (*relation.columns, typed.TypedColumn(name, typed.INT))
    return replace(relation, columns=columns, copies=True, symmetric=False)


def counted_literal(literal: typed.Literal, copies: Mapping[str, typed.TypedRelation]) -> typed.Literal:
    """Return a literal that reads the copies of a multiset, if it is a positive one over it."""
    if not isinstance(literal, typed.Atom) or literal.relation not in copies:
        return literal
    terms = (*literal.terms, typed.Wildcard(typed.INT, literal.span))
    return replace(literal, relation=copies[literal.relation].name, terms=terms)
