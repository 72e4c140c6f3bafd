"""Recognizes relations whose rules form a transitive closure."""

from __future__ import annotations

from collections.abc import Iterable

from . import typed


def closure_of(name: str, rules: Iterable[typed.TypedRule]) -> typed.Closure | None:
    """Return the closure that the ``rules`` of relation ``name`` compute, None if they do not form a closure.

    A closure has, for each step r, a rule ``p(X, Y) :- r(X, Y)`` and a recursive rule. The recursive rules all extend
    paths at the end, ``p(X, Y) :- p(X, Z), r(Z, Y)``, or all at the start, ``p(X, Y) :- r(X, Z), p(Z, Y)``. A rule with
    head ``p(X, X)`` and any body without p makes it reflexive. Atoms may be in any order, and steps may be inverse.
    """
    steps: dict[str, None] = {}
    going_on: set[tuple[str, str]] = set()
    reflexive = False
    for rule in rules:
        ends = tuple(map(str, rule.head.arguments))
        loops = len(ends) == 2 and ends[0] == ends[1] and isinstance(rule.head.arguments[0], typed.Variable)
        if loops and name not in {atom.relation for atom in rule.atoms}:
            reflexive = True
            continue
        terms = [*rule.head.arguments, *(term for atom in rule.atoms for term in atom.terms)]
        if len(rule.atoms) != len(rule.body) or not all(isinstance(term, typed.Variable) for term in terms):
            return None
        if len(ends) != 2:
            return None
        x, y = ends
        match [(atom.relation, *map(str, atom.terms)) for atom in rule.atoms]:
            case [(_, _, _) as atom] if x != y and (step := _step(atom, x, y)):
                steps[step] = None
            case [(_, _, _) as first, (_, _, _) as second] if x != y:
                if first[0] != name:
                    first, second = second, first
                if first[0] != name or second[0] == name:
                    return None
                _, begin, end = first
                if begin == x and end not in (x, y) and (step := _step(second, end, y)):
                    going_on.add(("end", step))
                elif end == y and begin not in (x, y) and (step := _step(second, x, begin)):
                    going_on.add(("start", step))
                else:
                    return None
            case _:
                return None
    sides = {side for side, _ in going_on}
    if len(sides) != 1 or {step for _, step in going_on} != set(steps):
        return None
    return typed.Closure(tuple(steps), reflexive, sides.pop())


def _step(atom: tuple[str, ...], begin: str, end: str) -> str:
    """Return the step of an atom from variable ``begin`` to ``end``, ``^r`` if inverse; empty if it is none."""
    relation, *terms = atom
    return {(begin, end): relation, (end, begin): f"^{relation}"}.get((terms[0], terms[1]), "")
