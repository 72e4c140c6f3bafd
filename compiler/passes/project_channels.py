"""Leave out the columns of channels between processes that the rules of the reader do not need.

Before, abridged: of a process that reads ``S.host``, and of ``S``::

    input relation S.host(id: int, port: int)
    r: P.there(Id) :- S.host(Id, _).

    relation S.host(id: int, port: int)

After, abridged (the added relation is hidden)::

    input relation S.host(id: int)
    r: P.there(Id) :- S.host(Id).

    output relation S.host_id(id: int)
    S.host_id: S.host_id(id) :- S.host(id, port).

The sender derives what it sends, so a tuple is sent once, and deleted once its last derivation is gone. Which columns
are needed is known from all processes together (:mod:`flintlog.compiler.processes`).
"""

from __future__ import annotations

from dataclasses import replace

from ..ir import typed
from ..ir.narrowed import Narrowed
from ..naming import unused
from .project_sends import narrowed, with_columns


def project_channels(program: typed.TypedProgram) -> typed.TypedProgram:
    """Return a process with fewer columns in some of its inputs, and with the projections that it sends."""
    read = {narrowing.relation: narrowing.columns for narrowing in program.narrowed if not narrowing.sent}
    sent = [narrowing for narrowing in program.narrowed if narrowing.sent]
    labels = {rule.label for rule in program.rules}
    rules = [with_columns(rule, read) for rule in program.rules] if read else [*program.rules]
    relations = [narrowed(relation, read) for relation in program.relations]
    for narrowing in sent:
        projection, rule = _projection(program.relation(narrowing.relation), narrowing, unused(narrowing.sent, labels))
        labels.add(rule.label)
        relations.append(projection)
        rules.append(rule)
    return replace(program, relations=tuple(relations), rules=tuple(rules))


def _projection(
    relation: typed.TypedRelation, narrowing: Narrowed, label: str
) -> tuple[typed.TypedRelation, typed.TypedRule]:
    """Return the hidden relation that is sent in place of another, and its rule."""
    projection = typed.TypedRelation(
        narrowing.sent,
        tuple(relation.columns[place] for place in narrowing.columns),
        "derived",
        True,
        relation.span,
        declared=False,
        hidden=True,
        why=f"the columns of {relation.name} that others need",
    )
    variables = tuple(typed.Variable(f"x{n}", c.type, relation.span) for n, c in enumerate(relation.columns, 1))
    terms = tuple(
        v if place in narrowing.columns else typed.Wildcard(v.type, v.span) for place, v in enumerate(variables)
    )
    head = typed.Head(narrowing.sent, tuple(variables[place] for place in narrowing.columns), relation.span)
    body = (typed.Atom(relation.name, terms, relation.span),)
    text = f"columns of {relation.name}"
    return projection, typed.TypedRule(label, head, body, relation.span, text, "sent to processes that need no others")
