"""Find the assignments of a body and order its literals so that variables are bound before use.

Before::

    h(X, Z) :- Z = Y + 1, !q(Y), p(X), Y = X * 2, X = Z.

After::

    h(X, Z) :- p(X), Y = X * 2, Z = Y + 1, !q(Y), X = Z.

``X = expression`` is an assignment if no positive atom and no earlier assignment binds ``X``; the variable may be on
either side. The order in which a body is written does not affect its meaning. Literals keep their source order where
possible: atoms stay, and the others move behind the atoms and assignments that bind their variables. An assignment that
can never be computed stays one and moves to the end, for ``check_safety`` to report.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..diagnostics import Diagnostics
from ..ir import typed


def order_body(body: Sequence[typed.Literal], diagnostics: Diagnostics) -> tuple[typed.Literal, ...]:
    """Return the literals of ``body`` in an order in which the variables that each one needs are bound before it.

    In ``body``, assignments are still comparisons with ``=`` or ``:=``. Report misuses of ``:=`` (E0407, E0408).
    """
    return _place(_assign(body, diagnostics))


def _names(literal: typed.Literal) -> set[str]:
    """Return the variables that an atom binds, or that any other literal needs."""
    node = literal.value if isinstance(literal, typed.Assignment) else literal
    return {variable.name for variable in typed.variables_of(node)}


def _assign(body: Sequence[typed.Literal], diagnostics: Diagnostics) -> list[typed.Literal]:
    """Return the body with comparisons that assign replaced by assignments."""
    literals = list(body)
    bound = {name for literal in body if isinstance(literal, typed.Atom) for name in _names(literal)}
    # `:=` takes precedence: `X = A, A := X * 2` compares with `=`, in either order.
    pending = [place for op in (":=", "=") for place, literal in enumerate(body) if _has_operator(literal, op)]
    progress = True
    while progress:
        progress = False
        for place in pending:
            literal = literals[place]
            assert isinstance(literal, typed.Comparison)
            assignment = _assignment(literal, bound)
            if assignment is None and not _names(literal) <= bound:
                continue
            if assignment is not None:
                bound.add(assignment.variable.name)
                literals[place] = assignment
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
    """Return ``literal`` as an assignment, if it is one given the ``bound`` variables, or None."""
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
        message = f"`:=` assigns `{literal.left}`, which is already bound"
        diagnostics.report("E0407", message, literal.left.span, help="write `=` to compare")
    else:
        message = "the left side of `:=` must be a variable"
        diagnostics.report("E0408", message, literal.left.span, help="write `=` to compare")
    return typed.Comparison("=", literal.left, literal.right, literal.span)


def _place(literals: Sequence[typed.Literal]) -> tuple[typed.Literal, ...]:
    """Return the literals in source order, each moved behind those that bind its variables."""
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
