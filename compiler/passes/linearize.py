"""Rewrite transitive rules to linear form if the other rules of their relation are not recursive.

Before::

    r1: tc(X, Y) :- edge(X, Y).
    r2: tc(X, Y) :- tc(X, Z), tc(Z, Y).

After::

    r1: tc(X, Y) :- edge(X, Y).
    r2: tc(X, Y) :- edge(X, Z), tc(Z, Y).

The nonlinear rule joins the whole relation with itself in every round and has no pivot; the linear rule has one. If
there are several exit rules, or one whose body is more than an atom, a hidden relation holds the exit tuples.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..ir import typed
from ..ir.rule_origin import Making
from ..naming import unused
from .components import components


def linearize(program: typed.TypedProgram) -> typed.TypedProgram:
    """Return the program with transitive rules made linear where possible, unless it maintains derivation sets."""
    if program.recursion != "ranks":
        return program
    transitive = [rule for rule in program.rules if is_transitive(rule)]
    if not transitive:
        return program
    rewriting = _Rewriting(program)
    for rule in transitive:
        rewriting.rewrite(rule)
    return rewriting.program()


def is_transitive(rule: typed.TypedRule) -> bool:
    """Return whether a rule is ``p(X, Y) :- p(X, Z), p(Z, Y)``, with the atoms in either order."""
    if len(rule.body) != 2 or len(rule.atoms) != 2 or len(rule.head.arguments) != 2:
        return False
    first, second = rule.atoms
    names = [
        tuple(term.name if isinstance(term, typed.Variable) else None for term in terms)
        for terms in (rule.head.arguments, first.terms, second.terms)
    ]
    if not first.relation == second.relation == rule.head.relation or any(None in terms for terms in names):
        return False
    (x, y), left, right = names
    if left[0] != x:
        left, right = right, left
    return len({x, y, left[1]}) == 3 and left[0] == x and right == (left[1], y)


def rules_that_need(program: typed.TypedProgram, rule: typed.TypedRule) -> list[typed.TypedRule]:
    """Return the other recursive rules of the relation that ``rule`` derives."""
    return _rules_that_need(program, rule, recursions(program))


def recursions(program: typed.TypedProgram) -> dict[str, frozenset[str]]:
    """Return for each derived relation its component: itself and the relations mutually dependent with it."""
    return {name: members for members in map(frozenset, components(program)) for name in members}


def _rules_that_need(
    program: typed.TypedProgram, rule: typed.TypedRule, mates: Mapping[str, frozenset[str]]
) -> list[typed.TypedRule]:
    return [
        other
        for other in program.rules_of(rule.head.relation)
        if other is not rule and any(atom.relation in mates[rule.head.relation] for atom in other.read)
    ]


class _Rewriting:
    """A rewrite of one program: its hidden relations and replaced rules, at most one transitive rule per relation."""

    def __init__(self, program: typed.TypedProgram) -> None:
        self.before = program
        self.mates = recursions(program)
        self.names = {relation.name for relation in program.relations}
        self.labels = {rule.label for rule in program.rules}
        self.hidden: dict[str, typed.TypedRelation] = {}  # keyed by the relation that each is inserted before
        self.instead: dict[str, tuple[typed.TypedRule, ...]] = {}  # keyed by the label of the replaced rule

    def program(self) -> typed.TypedProgram:
        """Return the rewritten program."""
        relations: list[typed.TypedRelation] = []
        for relation in self.before.relations:
            relations += [self.hidden[relation.name]] if relation.name in self.hidden else []
            relations.append(relation)
        rules = (one for rule in self.before.rules for one in self.instead.get(rule.label, (rule,)))
        return replace(self.before, relations=tuple(relations), rules=tuple(rules))

    def rewrite(self, rule: typed.TypedRule) -> None:
        """Make a rule linear if its relation has exit rules and no other recursive rules."""
        relation = self.before.relation(rule.head.relation)
        exits = [other for other in self.before.rules_of(relation.name) if other is not rule]
        if not exits or _rules_that_need(self.before, rule, self.mates):
            return
        x = rule.head.arguments[0]
        first, second = rule.atoms
        before, after = (first, second) if str(first.terms[0]) == str(x) else (second, first)
        step = _single_atom(exits, before)
        taking: tuple[typed.TypedRule, ...] = ()
        if step is None:
            hidden = replace(
                relation,
                name=unused(f"{relation.name}_base", self.names),
                output=False,
                hidden=True,
                key=(),
                symmetric=False,
                public="",
                why=f"the tuples of {relation.name} that its rules without recursion give",
                shown_as=relation.name,
            )
            self.names.add(hidden.name)
            self.hidden[relation.name] = hidden
            for other in exits:
                head = replace(other.head, relation=hidden.name)
                self.instead[other.label] = (replace(other, head=head, origin=f"given to {hidden.name}"),)
            taking = (self.taking(hidden, relation, rule),)
            step = replace(before, relation=hidden.name)
        self.instead[rule.label] = (
            *taking,
            replace(rule, body=(step, after), origin="made linear", made=Making.LINEAR),
        )

    def taking(
        self, hidden: typed.TypedRelation, relation: typed.TypedRelation, rule: typed.TypedRule
    ) -> typed.TypedRule:
        """Return the rule that derives ``relation`` from ``hidden``, with the span and text of ``rule``."""
        variables = tuple(
            typed.Variable(name, column.type, rule.span) for name, column in zip("XY", relation.columns, strict=True)
        )
        label = unused(hidden.name, self.labels)
        self.labels.add(label)
        return typed.TypedRule(
            label,
            typed.Head(relation.name, variables, rule.span),
            (typed.Atom(hidden.name, variables, rule.span),),
            rule.span,
            rule.text,
            f"takes the tuples of {hidden.name}",
        )


def _single_atom(exits: list[typed.TypedRule], before: typed.Atom) -> typed.Atom | None:
    """Return the only atom that derives exit tuples, with the terms of ``before``; None if there is no such atom."""
    if len(exits) != 1 or len(exits[0].body) != 1 or len(exits[0].atoms) != 1:
        return None
    atom, head = exits[0].atoms[0], exits[0].head
    variables = [term.name for term in atom.terms if isinstance(term, typed.Variable)]
    head_names = [argument.name for argument in head.arguments if isinstance(argument, typed.Variable)]
    if len(variables) != len(atom.terms) or len(set(variables)) != 2 or sorted(variables) != sorted(head_names):
        return None
    terms = dict(zip(head_names, before.terms, strict=True))
    return replace(atom, terms=tuple(terms[name] for name in variables))
