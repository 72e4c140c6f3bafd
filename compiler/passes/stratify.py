"""Divide the program into strata: strongly connected components in topological order.

Before::

    r1: reachable(S, D) :- link(S, D).
    r2: reachable(S, D) :- link(S, Z), reachable(Z, D).
    r3: cut_off(S, D) :- node(S), node(D), !reachable(S, D).

After::

    stratum reachable: ranked
      r1: reachable(S, D) :- link(S, D).
      r2: reachable(S, D) :- link(S, Z), reachable(Z, D).

    stratum cut_off: counted
      r3: cut_off(S, D) :- node(S), node(D), !reachable(S, D).

Negation within a component has no stratified semantics and is reported with the cycle. Recursions with ``min`` and
``max`` are checked by ``check_monotone``, those with other aggregates have been by ``separate_groups``.
"""

from __future__ import annotations

from ..diagnostics import Diagnostics, Note
from ..ir import typed
from ..ir.localized import LocalizedProgram
from ..ir.strata import StratifiedProgram, TypedStratum
from .components import components, is_recursive


def stratify(localized: LocalizedProgram, diagnostics: Diagnostics) -> StratifiedProgram:
    """Return the strata; report recursions with negation (E0501)."""
    program = localized.program
    strata = []
    places = {id(rule): place for place, rule in enumerate(program.rules)}
    order = {relation.name: place for place, relation in enumerate(program.relations)}
    for members in components(program):
        inside = set(members)
        rules = tuple(
            sorted((rule for name in members for rule in program.rules_of(name)), key=lambda r: places[id(r)])
        )
        recursive = is_recursive(rules, inside)
        aggregate = any(rule.aggregates for rule in rules)
        if recursive:
            _check_cycles(program, rules, inside, diagnostics)
        relations = tuple(program.relation(name) for name in sorted(members, key=order.__getitem__))
        kind = "ranked" if recursive else "counted"
        timed = [relation for relation in relations if relation.timed]
        if timed:
            kind = "timed"
            if recursive:
                _refuse_timed(program, timed[0], relations, diagnostics)
        elif any(relation.keeps for relation in relations):
            kind = relations[0].keeps
        elif aggregate:
            kind = "extremal" if recursive else "aggregate"
            if any(relation.grouped for relation in relations):
                kind = "acyclic"
        elif any(relation.annotates for relation in relations):
            kind = "entries"
        strata.append(TypedStratum("+".join(r.name for r in relations), relations, rules, kind))
    return StratifiedProgram(localized, tuple(strata))


def _refuse_timed(
    program: typed.TypedProgram,
    timed: typed.TypedRelation,
    members: tuple[typed.TypedRelation, ...],
    diagnostics: Diagnostics,
) -> None:
    """Report a condition on the time that decides about tuples of the recursion that it is in."""
    reader = next(rule for rule in program.rules if any(atom.relation == timed.name for atom in rule.read))
    name = timed.shown_as
    diagnostics.report(
        "E0506",
        f"`{name}` depends on itself through a condition on the time",
        reader.span,
        help=f"select what the recursion begins with, or what it returns: give `{name}` with the condition a relation "
        "that it does not depend on",
    )


def _literals(rule: typed.TypedRule) -> list[typed.Atom | typed.Negation]:
    return [*rule.atoms, *rule.negations]


def _check_cycles(
    program: typed.TypedProgram, rules: tuple[typed.TypedRule, ...], inside: set[str], diagnostics: Diagnostics
) -> None:
    """Report negations on a cycle; report a cycle through several negations once."""
    reported: set[frozenset[str]] = set()
    for rule in rules:
        for negation in rule.negations:
            if negation.atom.relation in inside:
                steps, through = _cycle(program, rules, rule, negation)
                cycle = frozenset(other.label for other in (rule, *through))
                if cycle in reported:
                    continue
                reported.add(cycle)
                diagnostics.report(
                    "E0501",
                    f"`{rule.head.relation}` depends on its own negation: {' -> '.join(steps)}",
                    negation.span,
                    help="no order of evaluation is possible; negate a relation that does not depend on "
                    f"`{rule.head.relation}`",
                    notes=_notes(through),
                )


def _notes(rules: list[typed.TypedRule]) -> tuple[Note, ...]:
    return tuple(Note(f"{rule.label} is on the cycle", rule.span) for rule in rules)


def _atom(literal: typed.Atom | typed.Negation) -> typed.Atom:
    return literal.atom if isinstance(literal, typed.Negation) else literal


def _cycle(
    program: typed.TypedProgram,
    rules: tuple[typed.TypedRule, ...],
    rule: typed.TypedRule,
    literal: typed.Atom | typed.Negation,
) -> tuple[list[str], list[typed.TypedRule]]:
    """Return a shortest cycle that begins with ``literal`` of ``rule``: its steps (``p``, ``!q``, ``r``, ``p``) and its
    other rules. Hidden relations are left out; their negation is shown at the next visible relation."""
    start, end = _atom(literal).relation, rule.head.relation
    ways: dict[str, list[tuple[typed.TypedRule, typed.Atom | typed.Negation]]] = {start: []}
    queue = [start]
    while end not in ways:
        node = queue.pop(0)
        for other in rules:
            if other.head.relation == node:
                for step in _literals(other):
                    if _atom(step).relation not in ways:
                        ways[_atom(step).relation] = [*ways[node], (other, step)]
                        queue.append(_atom(step).relation)
    steps, negated = [rule.head.relation], False
    for step in [literal, *(step for _, step in ways[end])]:
        negated = negated or isinstance(step, typed.Negation)
        if not program.relation(_atom(step).relation).hidden:
            steps.append(f"{'!' * negated}{_atom(step).relation}")
            negated = False
    return steps, [other for other, _ in ways[end] if not program.relation(other.head.relation).hidden]
