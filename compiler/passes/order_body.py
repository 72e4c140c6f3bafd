"""Tells assignments from comparisons and puts the literals of a body where what they need stands before them.

Before::

    h(X, Z) :- Z = Y + 1, !q(Y), p(X), Y = X * 2, X = Z.

After::

    h(X, Z) :- p(X), Y = X * 2, Z = Y + 1, !q(Y), X = Z.

``X = expression`` assigns if neither a positive atom nor an assignment before it binds ``X``; either side may be the
variable. The order in which a body is written does not matter. Literals keep it as far as they can: atoms stay, and the
others stand behind the atoms and assignments that bind their variables. An assignment that nothing can ever compute
keeps its form and goes to the end, for ``check_safety`` to report.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..diagnostics import Diagnostics
from ..ir import typed


def order_body(body: Sequence[typed.Literal], diagnostics: Diagnostics) -> tuple[typed.Literal, ...]:
    """The literals of ``body`` in an order in which each finds its variables bound.

    In ``body``, assignments still are comparisons with ``=`` or ``:=``; what is wrong with a ``:=`` is reported.
    """
    return _place(_assign(body, diagnostics))


def _names(literal: typed.Literal) -> set[str]:
    """The variables that a literal binds if it is an atom, and those that it needs otherwise."""
    node = literal.value if isinstance(literal, typed.Assignment) else literal
    return {variable.name for variable in typed.variables_of(node)}


def _assign(body: Sequence[typed.Literal], diagnostics: Diagnostics) -> list[typed.Literal]:
    """The body with the comparisons that assign replaced by assignments."""
    literals = list(body)
    bound = {name for literal in body if isinstance(literal, typed.Atom) for name in _names(literal)}
    # `:=` goes first: `X = A, A := X * 2` compares with `=`, whichever stands first.
    pending = [place for op in (":=", "=") for place, literal in enumerate(body) if _has_operator(literal, op)]
    progress = True
    while progress:
        progress = False
        for place in pending:
            literal = literals[place]
            assert isinstance(literal, typed.Comparison)
            found = _assignment(literal, bound)
            if found is None and not _names(literal) <= bound:
                continue
            if found is not None:
                bound.add(found.variable.name)
                literals[place] = found
            elif literal.op == ":=":
                literals[place] = _refuse(literal, diagnostics)
            pending.remove(place)
            progress = True
            break
    for place in pending:
        literal = literals[place]
        assert isinstance(literal, typed.Comparison)
        if isinstance(literal.left, typed.Variable) and literal.left.name not in bound:
            literals[place] = typed.Assignment(literal.left, literal.right, literal.span)
        elif literal.op == ":=":
            literals[place] = _refuse(literal, diagnostics)
    return literals


def _has_operator(literal: typed.Literal, op: str) -> bool:
    return isinstance(literal, typed.Comparison) and literal.op == op


def _assignment(literal: typed.Comparison, bound: set[str]) -> typed.Assignment | None:
    """The assignment that ``literal`` is once the variables ``bound`` have values, or None."""
    sides = [(literal.left, literal.right)]
    if literal.op == "=":
        sides.append((literal.right, literal.left))
    for side, value in sides:
        needed = {variable.name for variable in typed.variables_of(value)}
        if isinstance(side, typed.Variable) and side.name not in bound and needed <= bound:
            return typed.Assignment(side, value, literal.span)
    return None


def _refuse(literal: typed.Comparison, diagnostics: Diagnostics) -> typed.Comparison:
    if isinstance(literal.left, typed.Variable):
        message = f"`:=` assigns `{literal.left}`, which is bound already"
        diagnostics.report("E0407", message, literal.left.span, help="write `=` to compare")
    else:
        message = "only a variable can stand in front of `:=`"
        diagnostics.report("E0408", message, literal.left.span, help="write `=` to compare")
    return typed.Comparison("=", literal.left, literal.right, literal.span)


def _place(literals: Sequence[typed.Literal]) -> tuple[typed.Literal, ...]:
    """The literals in source order, each of them moved back behind those that bind its variables."""
    bindable: set[str] = set()
    for literal in literals:
        if isinstance(literal, typed.Atom):
            bindable |= _names(literal)
        elif isinstance(literal, typed.Assignment):
            bindable.add(literal.variable.name)
    bound: set[str] = set()
    placed: list[typed.Literal] = []
    waiting: list[typed.Literal] = []
    for literal in literals:
        waiting.append(literal)
        ready = _first_ready(waiting, bound, bindable)
        while ready is not None:
            waiting.remove(ready)
            placed.append(ready)
            if isinstance(ready, typed.Atom):
                bound |= _names(ready)
            elif isinstance(ready, typed.Assignment):
                bound.add(ready.variable.name)
            ready = _first_ready(waiting, bound, bindable)
    return (*placed, *waiting)


def _first_ready(waiting: Sequence[typed.Literal], bound: set[str], bindable: set[str]) -> typed.Literal | None:
    for literal in waiting:
        if isinstance(literal, typed.Atom) or _names(literal) & bindable <= bound:
            return literal
    return None
