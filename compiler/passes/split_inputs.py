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
"""

from __future__ import annotations

from dataclasses import replace

from ..ir import typed
from ..naming import unused


def split_inputs(program: typed.TypedProgram) -> typed.TypedProgram:
    """Return the program without relations that are both input and derived."""
    names = {relation.name for relation in program.relations}
    labels = {rule.label for rule in program.rules}
    relations: list[typed.TypedRelation] = []
    rules: list[typed.TypedRule] = []
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
            typed.TypedRule(
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
