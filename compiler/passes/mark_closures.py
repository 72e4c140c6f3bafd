"""Mark relations whose rules form a transitive closure.

Before::

    relation reachable(X: int, Y: int)

    reachable_1: reachable(X, Y) :- link(X, Y).
    reachable_2: reachable(X, Y) :- link(X, Z), reachable(Z, Y).

After::

    relation reachable(X: int, Y: int) closure of link+

Closures made for path literals are already marked; this pass marks those that users write as rules, and those that
:mod:`.linearize` makes of nonlinear rules. Rules do not change.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir import typed
from ..ir.closures import closure_of


def mark_closures(program: typed.TypedProgram) -> typed.TypedProgram:
    """Return the program with the closures marked."""
    relations = tuple(
        replace(relation, closure=closure_of(relation.name, program.rules_of(relation.name)))
        if relation.closure is None and relation.role == "derived"
        else relation
        for relation in program.relations
    )
    return replace(program, relations=relations)
