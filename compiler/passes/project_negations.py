"""Make negated literals with wildcards read projections of their relations.

Before::

    r1: lonely(X) :- person(X), !knows(X, _).

After::

    knows_by_a: knows_by_a(a) :- knows(a, _).
    r1: lonely(X) :- person(X), !knows_by_a(X).

The projection is an ordinary relation, so its changes are net: it does not change if knows(1, 3) replaces knows(1, 2).
"""

from __future__ import annotations

from dataclasses import replace

from ..ir import typed
from ..naming import unused


def project_negations(program: typed.TypedProgram) -> typed.TypedProgram:
    """Return the program without wildcards in negated literals."""
    names = {relation.name for relation in program.relations}
    labels = {rule.label for rule in program.rules}
    projections: dict[tuple[str, tuple[int, ...]], typed.TypedRelation] = {}
    added: list[typed.TypedRule] = []

    def projected(negation: typed.Negation) -> typed.Negation:
        atom = negation.atom
        kept = tuple(i for i, term in enumerate(atom.terms) if not isinstance(term, typed.Wildcard))
        if len(kept) == len(atom.terms):
            return negation
        key = (atom.relation, kept)
        if key not in projections:
            projections[key] = _projection(program.relation(atom.relation), kept, names)
            names.add(projections[key].name)
            added.append(_rule(program.relation(atom.relation), projections[key], kept, labels))
            labels.add(added[-1].label)
        terms = tuple(atom.terms[i] for i in kept)
        return replace(negation, atom=replace(atom, relation=projections[key].name, terms=terms))

    rules = []
    for rule in program.rules:
        body = tuple(projected(x) if isinstance(x, typed.Negation) else x for x in rule.body)
        rules.append(replace(rule, body=body))
    projections_of: dict[str, list[typed.TypedRelation]] = {}
    for (name, _), projection in projections.items():
        projections_of.setdefault(name, []).append(projection)
    relations = [one for relation in program.relations for one in (relation, *projections_of.get(relation.name, ()))]
    return replace(program, relations=tuple(relations), rules=(*added, *rules))


def _projection(relation: typed.TypedRelation, kept: tuple[int, ...], names: set[str]) -> typed.TypedRelation:
    columns = tuple(relation.columns[i] for i in kept)
    by = "_".join(column.name for column in columns)
    return typed.TypedRelation(
        unused(f"{relation.name}_by_{by}" if by else f"{relation.name}_any", names),
        columns,
        "derived",
        False,
        relation.span,
        location=kept.index(relation.location) if relation.location in kept else None,
        at=relation.at,
        declared=False,
        hidden=True,
        why=f"{relation.name} without the columns that a negation leaves open",
        projects=(relation.name, kept),
    )


def _rule(
    relation: typed.TypedRelation, made: typed.TypedRelation, kept: tuple[int, ...], labels: set[str]
) -> typed.TypedRule:
    variables = {i: typed.Variable(relation.columns[i].name, relation.columns[i].type, relation.span) for i in kept}
    terms: tuple[typed.Term, ...] = tuple(
        variables.get(i, typed.Wildcard(column.type, relation.span)) for i, column in enumerate(relation.columns)
    )
    return typed.TypedRule(
        unused(made.name, labels),
        typed.Head(made.name, tuple(variables.values()), relation.span),
        (typed.Atom(relation.name, terms, relation.span),),
        relation.span,
        f"{relation.name}, without the columns that a negation leaves open",
        "made for a negation with wildcards",
    )
