"""Rewrite a transitive rule to linear form where the relation's other rules do not use it.

Before::

    r1: tc(X, Y) :- edge(X, Y).
    r2: tc(X, Y) :- tc(X, Z), tc(Z, Y).

After::

    r1: tc(X, Y) :- edge(X, Y).
    r2: tc(X, Y) :- edge(X, Z), tc(Z, Y).

The doubled rule joins the whole relation with itself in every round and has no pivot; the linear one has. With more
than one exit rule, or one that is more than an atom, the exit tuples get a hidden relation of their own.
"""

from __future__ import annotations

from dataclasses import replace

from ..graphs import reached
from ..ir import typed
from ..naming import unused


def linearize(program: typed.Program) -> typed.Program:
    """Return the program with every transitive rule made linear that can be."""
    for rule in program.rules:
        if is_transitive(rule):
            program = _rewrite(program, rule)
    return program


def is_transitive(rule: typed.Rule) -> bool:
    """Whether the rule is ``p(X, Y) :- p(X, Z), p(Z, Y)``, the atoms in either order."""
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


def rules_that_need(program: typed.Program, rule: typed.Rule) -> list[typed.Rule]:
    """The other rules of the relation that ``rule`` derives, those that depend on it themselves."""
    name = rule.head.relation
    dependent = {name} | reached([name], ((atom.relation, r.head.relation) for r in program.rules for atom in r.read))
    return [
        other
        for other in program.rules_of(name)
        if other is not rule and any(atom.relation in dependent for atom in other.read)
    ]


def _rewrite(program: typed.Program, rule: typed.Rule) -> typed.Program:
    relation = program.relation(rule.head.relation)
    exits = [other for other in program.rules_of(relation.name) if other is not rule]
    if not exits or rules_that_need(program, rule):
        return program
    x = rule.head.arguments[0]
    first, second = rule.atoms
    before, after = (first, second) if str(first.terms[0]) == str(x) else (second, first)
    step = _single_atom(exits, before)
    relations, rules = list(program.relations), list(program.rules)
    if step is None:
        hidden = replace(
            relation,
            name=unused(f"{relation.name}_base", {r.name for r in relations}),
            output=False,
            hidden=True,
            key=(),
            public="",
            why=f"the tuples of {relation.name} that its rules without recursion give",
            shown_as=relation.name,
        )
        relations.insert(relations.index(relation), hidden)
        labels = {r.label for r in rules}
        for other in exits:
            head = replace(other.head, relation=hidden.name)
            rules[rules.index(other)] = replace(other, head=head, origin=f"given to {hidden.name}")
        variables = tuple(
            typed.Variable(name, column.type, rule.span) for name, column in zip("XY", relation.columns, strict=True)
        )
        rules.insert(
            rules.index(rule),
            typed.Rule(
                unused(hidden.name, labels),
                typed.Head(relation.name, variables, rule.span),
                (typed.Atom(hidden.name, variables, rule.span),),
                rule.span,
                rule.text,
                f"takes the tuples of {hidden.name}",
            ),
        )
        step = replace(before, relation=hidden.name)
    rules[rules.index(rule)] = replace(rule, body=(step, after), origin="made linear")
    return replace(program, relations=tuple(relations), rules=tuple(rules))


def _single_atom(exits: list[typed.Rule], before: typed.Atom) -> typed.Atom | None:
    """The one atom that gives the exit tuples, with the terms of ``before``, or None."""
    if len(exits) != 1 or len(exits[0].body) != 1 or len(exits[0].atoms) != 1:
        return None
    atom, head = exits[0].atoms[0], exits[0].head
    variables = [term.name for term in atom.terms if isinstance(term, typed.Variable)]
    given = [argument.name for argument in head.arguments if isinstance(argument, typed.Variable)]
    if len(variables) != len(atom.terms) or len(set(variables)) != 2 or sorted(variables) != sorted(given):
        return None
    terms = dict(zip(given, before.terms, strict=True))
    return replace(atom, terms=tuple(terms[name] for name in variables))
