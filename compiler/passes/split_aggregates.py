"""Split aggregates over distinct values and aggregates with witnesses into plain aggregates.

Before::

    r1: visitors(P, count<distinct U>, sum<S>) :- visit(P, U, S).
    r2: best(X, Y, min<C>, Z) :- link(X, Z, C1), cost(Z, Y, C2), C = C1 + C2.
    r3: nearest(X, min<C>, Y) :- link(X, Y, C).

After (the intermediate relations are hidden)::

    r1_x2_values: visitors_x2_values(P, U) :- visit(P, U, S).
    visitors_x2: visitors_x2(P, count<x2>) :- visitors_x2_values(P, x2).
    r1_rest: visitors_rest(P, sum<S>) :- visit(P, U, S).
    visitors: visitors(P, x2, x3) :- visitors_x2(P, x2), visitors_rest(P, x3).

    r2_all: best_all(X, Y, C, Z) :- link(X, Z, C1), cost(Z, Y, C2), C = C1 + C2.
    best_min: best_min(X, Y, min<C>) :- best_all(X, Y, C, _).
    best: best(X, Y, C, Z) :- best_min(X, Y, C), best_all(X, Y, C, Z).

    r3_min: nearest_min(X, min<C>) :- link(X, Y, C).
    r3: nearest(X, C, Y) :- nearest_min(X, C), link(X, Y, C).

A ``first`` stays as it is. Recursions across processes keep the witnesses of an extremum together with it (see
``annotate_proofs``), so these stay as they are.

The distinct values of a group and the competing tuples are sets with support counts, so that a deletion can tell when
the last derivation is gone. The witnesses are all tuples of a group that attain its extremum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..ir import typed
from ..ir.rule_origin import Making
from ..naming import unused
from ..source import Span
from .components import components, is_recursive


def split_aggregates(program: typed.TypedProgram, local: bool = True) -> typed.TypedProgram:
    """Return the program with plain aggregates only: over all derivations and, except in recursions across processes,
    without witnesses. Unless it is ``local``, it is to be divided among nodes, and any recursion may go across them."""
    splitting = _Splitting(program, _across(program, local) if program.recursion == "ranks" else frozenset())
    parts = {relation.name: splitting.split(relation) for relation in program.relations}
    rules: list[typed.TypedRule] = []
    for rule in program.rules:
        instead = parts[rule.head.relation]
        rules += [rule] if instead is None else instead
        if instead is not None:
            parts[rule.head.relation] = []  # The new rules replace the relation's first rule; drop its others.
    return replace(program, relations=tuple(splitting.relations), rules=tuple(rules))


def _across(program: typed.TypedProgram, local: bool) -> frozenset[str]:
    """Return the relations of recursions that go across processes, or may do so."""
    if local:
        return frozenset[str]().union(*(part.members for part in program.spanning))
    groups = [frozenset(members) for members in components(program)]
    read = {group: [rule for rule in program.rules if rule.head.relation in group] for group in groups}
    return frozenset[str]().union(*(group for group, rules in read.items() if is_recursive(rules, group)))


def witnesses(head: typed.Head) -> tuple[int, ...]:
    """Return the positions of a head's witnesses: plain arguments after ``min`` or ``max``."""
    extrema = [
        place
        for place, argument in enumerate(head.arguments)
        if isinstance(argument, typed.Aggregate) and argument.function in ("min", "max")
    ]
    first = extrema[0] if extrema else len(head.arguments)
    return tuple(
        place
        for place, argument in enumerate(head.arguments)
        if place > first and not isinstance(argument, typed.Aggregate)
    )


class _Splitting:
    """The relations of the new program, and the new rules for the relation being split."""

    def __init__(self, program: typed.TypedProgram, whole: frozenset[str]) -> None:
        self.program, self.whole = program, whole
        self.names = {relation.name for relation in program.relations}
        self.labels = {rule.label for rule in program.rules}
        self.relations: list[typed.TypedRelation] = []
        self.rules: list[typed.TypedRule] = []

    def split(self, relation: typed.TypedRelation) -> list[typed.TypedRule] | None:
        """Add a relation to the new program; return the rules that replace its own, None if these stay."""
        self.relations.append(relation)
        self.rules = []
        rules = self.program.rules_of(relation.name)
        aggregates = [a for a in rules[0].head.arguments if isinstance(a, typed.Aggregate)] if rules else []
        if aggregates and rules[0].head.ranked:
            self.relations[-1] = replace(relation, witnesses=rules[0].head.ranked)
        elif aggregates and witnesses(rules[0].head):
            self.relations[-1] = replace(relation, witnesses=witnesses(rules[0].head))
            if relation.name not in self.whole:
                self._split_witnesses(relation, rules)
        elif any(aggregate.distinct for aggregate in aggregates):
            self._split_distinct(relation, rules)
        if self.rules:
            place = next(i for i, other in enumerate(self.relations) if other.name == relation.name)
            self.relations[place] = replace(self.relations[place], written=tuple(rules))
        return self.rules or None

    # ---- distinct values -------------------------------------------------------------------------------------------

    def _split_distinct(self, relation: typed.TypedRelation, rules: Sequence[typed.TypedRule]) -> None:
        head = rules[0].head
        groups = [place for place, a in enumerate(head.arguments) if not isinstance(a, typed.Aggregate)]
        rest = [place for place, a in enumerate(head.arguments) if isinstance(a, typed.Aggregate) and not a.distinct]
        if len(groups) + 1 == len(head.arguments):
            (place,) = (place for place in range(len(head.arguments)) if place not in groups)
            self._distinct(relation, rules, groups, place, relation)
            return
        parts: list[tuple[typed.TypedRelation, list[int]]] = []
        for place, aggregate in enumerate(head.arguments):
            if isinstance(aggregate, typed.Aggregate) and aggregate.distinct:
                places = [*groups, place]
                part = self._relation(relation, relation.columns[place].name, places, f"`{aggregate}`")
                self._distinct(relation, rules, groups, place, part)
                parts.append((part, places))
        if rest:
            places = [*groups, *rest]
            part = self._relation(relation, "rest", places, "what is aggregated over all derivations")
            self._rules(part, rules, places)
            parts.append((part, places))
        self._joined(relation, head, parts)

    def _distinct(
        self,
        relation: typed.TypedRelation,
        rules: Sequence[typed.TypedRule],
        groups: list[int],
        place: int,
        made: typed.TypedRelation,
    ) -> None:
        """Add the rules that derive ``made``, the groups with one aggregate, from the set of distinct values."""
        aggregate = rules[0].head.arguments[place]
        assert isinstance(aggregate, typed.Aggregate) and aggregate.argument is not None
        places = [*groups, place]
        part = f"{relation.columns[place].name}_values"
        values = self._relation(relation, part, places, f"the values of `{aggregate}`")
        column = replace(values.columns[-1], type=_values_type(rules, place))
        values = self.relations[-1] = replace(values, columns=(*values.columns[:-1], column))
        for rule in rules:
            own = rule.head.arguments[place]
            assert isinstance(own, typed.Aggregate) and own.argument is not None
            value = own.argument
            if value.type != column.type and value.type.name == "decimal":
                value = typed.Convert(value, column.type, value.span)
            arguments = (*(rule.head.arguments[group] for group in groups), value)
            self._rule(rule, typed.Head(values.name, arguments, rule.head.span), values.name)
        variables = _variables(values, relation.span)
        counted = replace(aggregate, argument=variables[-1], distinct=False)
        by_place: dict[int, typed.Expression | typed.Aggregate] = dict(zip(groups, variables[:-1], strict=True))
        by_place[place] = counted
        ordered = sorted(places) if made is relation else places
        head = typed.Head(made.name, tuple(by_place[place] for place in ordered), relation.span)
        body = typed.Atom(values.name, variables, relation.span)
        self._made(made, head, (body,), f"`{aggregate}` of {relation.name}")

    # ---- witnesses -------------------------------------------------------------------------------------------------

    def _split_witnesses(self, relation: typed.TypedRelation, rules: Sequence[typed.TypedRule]) -> None:
        head = rules[0].head
        (place,) = (i for i, argument in enumerate(head.arguments) if isinstance(argument, typed.Aggregate))
        aggregate = head.arguments[place]
        assert isinstance(aggregate, typed.Aggregate)
        groups, every = list(range(place)), list(range(len(head.arguments)))
        if len(rules) == 1 and _reads_one(rules[0], place):
            self._choose(relation, rules[0], place)
            return
        competing = self._relation(relation, "all", every, f"the tuples among which `{aggregate}` chooses")
        for rule in rules:
            arguments = tuple(a.argument if isinstance(a, typed.Aggregate) else a for a in rule.head.arguments)
            assert all(argument is not None for argument in arguments)
            plain = tuple(argument for argument in arguments if argument is not None)
            self._rule(rule, typed.Head(competing.name, plain, rule.head.span), competing.name)
        best = self._relation(relation, aggregate.function, [*groups, place], f"`{aggregate}` of each group")
        variables = _variables(competing, relation.span)
        terms: tuple[typed.Term, ...] = tuple(
            variable if i <= place else typed.Wildcard(variable.type, relation.span)
            for i, variable in enumerate(variables)
        )
        chosen = replace(aggregate, argument=variables[place])
        best_head = typed.Head(best.name, (*variables[:place], chosen), relation.span)
        body = (typed.Atom(competing.name, terms, relation.span),)
        self._made(best, best_head, body, f"`{aggregate}` of {relation.name}", Making.EXTREMUM)
        self._joined(relation, head, [(best, [*groups, place]), (competing, every)])

    def _choose(self, relation: typed.TypedRelation, rule: typed.TypedRule, place: int) -> None:
        """Add the rules that select the witnesses directly from the only relation that a rule reads."""
        head = rule.head
        aggregate = head.arguments[place]
        assert isinstance(aggregate, typed.Aggregate)
        best = self._relation(relation, aggregate.function, range(place + 1), f"`{aggregate}` of each group")
        self._rules(best, [rule], range(place + 1))
        arguments = [a.argument if isinstance(a, typed.Aggregate) else a for a in head.arguments]
        terms = tuple(a for a in arguments[: place + 1] if isinstance(a, typed.Variable | typed.Constant))
        plain = typed.Head(relation.name, tuple(a for a in arguments if a is not None), head.span)
        body = (typed.Atom(best.name, terms, head.span), *rule.body)
        origin = f"with {best.name}"
        self.rules.append(replace(rule, head=plain, body=body, origin=origin, made=Making.CHOICE))

    # ---- relations and rules ---------------------------------------------------------------------------------------

    def _relation(
        self, relation: typed.TypedRelation, part: str, places: Sequence[int], why: str
    ) -> typed.TypedRelation:
        """Add and return a hidden relation with some columns of ``relation``."""
        name = unused(f"{relation.name}_{part}", self.names)
        self.names.add(name)
        hidden = typed.TypedRelation(
            name,
            tuple(relation.columns[place] for place in places),
            "derived",
            False,
            relation.span,
            location=places.index(relation.location) if relation.location in places else None,
            at=relation.at,
            declared=False,
            hidden=True,
            why=f"{why} in {relation.name}",
            part_of=relation.name,
        )
        self.relations.append(hidden)
        return hidden

    def _rules(self, made: typed.TypedRelation, rules: Sequence[typed.TypedRule], places: Sequence[int]) -> None:
        for rule in rules:
            arguments = tuple(rule.head.arguments[place] for place in places)
            self._rule(rule, typed.Head(made.name, arguments, rule.head.span), made.name)

    def _rule(self, rule: typed.TypedRule, head: typed.Head, name: str) -> None:
        """Add a rule of the program with another head."""
        label = self._label(f"{rule.label}_{name.removeprefix(f'{rule.head.relation}_')}")
        self.rules.append(replace(rule, label=label, head=head, origin=f"for {name}"))

    def _joined(
        self,
        relation: typed.TypedRelation,
        head: typed.Head,
        parts: Sequence[tuple[typed.TypedRelation, Sequence[int]]],
    ) -> None:
        """Add the rule that joins the parts of a head."""
        variables = _variables(relation, relation.span)
        body = tuple(
            typed.Atom(part.name, tuple(variables[place] for place in places), relation.span) for part, places in parts
        )
        self._made(
            relation,
            typed.Head(relation.name, variables, head.span),
            body,
            f"{relation.name} as a whole",
            Making.CHOICE,
        )

    def _made(
        self,
        relation: typed.TypedRelation,
        head: typed.Head,
        body: tuple[typed.Atom, ...],
        text: str,
        made: Making | None = None,
    ) -> None:
        label, origin = self._label(relation.name), "made for an aggregate"
        self.rules.append(typed.TypedRule(label, head, body, relation.span, text, origin, made))

    def _label(self, wish: str) -> str:
        label = unused(wish, self.labels)
        self.labels.add(label)
        return label


def _values_type(rules: Sequence[typed.TypedRule], place: int) -> typed.Type:
    """Return the type of the values that the aggregate at ``place`` ranges over: of decimals, one for those of all
    rules, which have the same digits after the point."""
    aggregates = [rule.head.arguments[place] for rule in rules]
    types = [a.argument.type for a in aggregates if isinstance(a, typed.Aggregate) and a.argument is not None]
    others = [type_ for type_ in types if type_ != types[0]]
    return typed.Type("decimal", 38, types[0].scale) if others and types[0].name == "decimal" else types[0]


def _reads_one(rule: typed.TypedRule, place: int) -> bool:
    """Return whether a rule has one atom, and variables or constants in its head up to the aggregate at ``place``."""
    arguments = (a.argument if isinstance(a, typed.Aggregate) else a for a in rule.head.arguments[: place + 1])
    return len(rule.atoms) == 1 and all(isinstance(a, typed.Variable | typed.Constant) for a in arguments)


def _variables(relation: typed.TypedRelation, span: Span) -> tuple[typed.Variable, ...]:
    return tuple(typed.Variable(column.name, column.type, span) for column in relation.columns)
