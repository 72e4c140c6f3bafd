"""Give the input part of an input-and-derived relation a hidden relation of its own.

Before::

    input derived relation trusts(a: string, b: string)
    trusts(X, Z) :- trusts(X, Y), delegates(Y, Z).

After::

    hidden input relation trusts_in(a: string, b: string)
    relation trusts(a: string, b: string)
    trusts_input: trusts(a, b) :- trusts_in(a, b).
    trusts_1: trusts(X, Z) :- trusts(X, Y), delegates(Y, Z).

Changes are resolved against the hidden relation, so that deleting an input tuple that is also derived keeps it.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir import typed
from ..naming import unused


def split_inputs(program: typed.Program) -> typed.Program:
    """Return the program without relations that are input and derived at once."""
    names = {relation.name for relation in program.relations}
    labels = {rule.label for rule in program.rules}
    relations: list[typed.Relation] = []
    rules: list[typed.Rule] = []
    for relation in program.relations:
        if not relation.accepts_input:
            relations.append(relation)
            continue
        hidden = replace(
            relation,
            name=unused(f"{relation.name}_in", names),
            role="input",
            output=False,
            accepts_input=False,
            hidden=True,
            public=relation.name,
            why=f"the tuples of {relation.name} that come from outside",
        )
        names.add(hidden.name)
        relations += [hidden, replace(relation, accepts_input=False)]
        variables = tuple(typed.Variable(c.name, c.type, relation.span) for c in relation.columns)
        rules.append(
            typed.Rule(
                unused(f"{relation.name}_input", labels),
                typed.Head(relation.name, variables, relation.span),
                (typed.Atom(hidden.name, variables, relation.span),),
                relation.span,
                f"input {relation.name}",
                f"tuples of {relation.name} that come from outside",
            )
        )
        labels.add(rules[-1].label)
    return replace(program, relations=tuple(relations), rules=(*rules, *program.rules))
