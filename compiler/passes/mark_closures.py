"""Let relations whose rules are those of a transitive closure know that they are one.

Path literals make closures of their own; these are the ones that users write as rules, and those that
:mod:`.linearize` makes of doubled rules::

    reachable(X, Y) :- link(X, Y).
    reachable(X, Y) :- link(X, Z), reachable(Z, Y).

Relations are all that changes, not rules.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir import typed
from ..ir.closures import closure_of


def mark_closures(program: typed.Program) -> typed.Program:
    """Return the program with the closures marked."""
    relations = tuple(
        replace(relation, closure=closure_of(relation.name, program.rules_of(relation.name)))
        if relation.closure is None and relation.role == "derived"
        else relation
        for relation in program.relations
    )
    return replace(program, relations=relations)
