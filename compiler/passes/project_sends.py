"""Leave out the columns that are sent to other locations and that no rule needs there.

Before, localized::

    link_at_b: link_at_b(@Z, S, W1) :- link(@S, Z, W1).
    r2: reachable(@S, D) :- link_at_b(@Z, S, W1), reachable(@Z, D).

After::

    link_at_b: link_at_b(@Z, S) :- link(@S, Z, W1).
    r2: reachable(@S, D) :- link_at_b(@Z, S), reachable(@Z, D).

A rule needs a column if it names its value elsewhere, or if it aggregates all matches of its body; of the least and the
greatest value that makes no difference. The tuples that are sent are a set, so one stays as long as one derivation of
it does. Columns beside the least or the greatest value of a recursion stay, since these values are chosen for each
combination of the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from ..ir import typed
from ..ir.localized import LocalizedProgram, LocalizedRule

_T = TypeVar("_T")


def project_sends(program: LocalizedProgram) -> LocalizedProgram:
    """Return the program without the columns of auxiliary relations that no rule needs."""
    kept = _with_extrema(program)
    while True:
        parts = {part.label: part for rule in program.rules for part in rule.parts}.values()
        unneeded = {
            relation.name: places
            for relation in program.auxiliaries
            if relation.name not in kept and (places := unneeded_columns(relation, parts) - {relation.location})
        }
        if not unneeded:
            return program
        # A column that is not sent may have been the only use of another one that is.
        program = replace(
            program,
            rules=tuple(_without_columns(rule, unneeded) for rule in program.rules),
            auxiliaries=tuple(_narrowed(relation, unneeded) for relation in program.auxiliaries),
        )


def _with_extrema(program: LocalizedProgram) -> set[str]:
    """Return the relations with least or greatest values, and the auxiliary ones derived from them."""
    parts = [part for rule in program.rules for part in rule.parts]
    auxiliaries = {relation.name for relation in program.auxiliaries}
    found = {part.head.relation for part in parts if part.aggregates}
    before = -1
    while before != len(found):
        before = len(found)
        found |= {
            part.head.relation
            for part in parts
            if part.head.relation in auxiliaries and any(atom.relation in found for atom in part.read)
        }
    return found


def unneeded_columns(relation: typed.TypedRelation, rules: Iterable[typed.TypedRule]) -> set[int]:
    """Return the columns of a relation that no rule needs to read, by their numbers."""
    places = set(range(len(relation.columns)))
    for rule in rules:
        atoms = [atom for atom in rule.read if atom.relation == relation.name]
        if atoms and any(aggregate.function not in ("min", "max") for aggregate in rule.aggregates):
            return set()
        uses = Counter(variable.name for variable in typed.variables_of(rule))
        for atom in atoms:
            places = {place for place in places if _is_unused(atom.terms[place], uses)}
    return places


def _is_unused(term: typed.Term, uses: Mapping[str, int]) -> bool:
    """Return whether a rule, in which variables occur so often, does not use the value of a term."""
    return isinstance(term, typed.Wildcard) or (isinstance(term, typed.Variable) and uses[term.name] == 1)


def _without_columns(rule: LocalizedRule, unneeded: Mapping[str, Collection[int]]) -> LocalizedRule:
    """Return a localized rule whose parts derive and read auxiliary relations without some columns."""
    return replace(rule, parts=tuple(_without_terms(part, unneeded) for part in rule.parts))


def _without_terms(part: typed.TypedRule, unneeded: Mapping[str, Collection[int]]) -> typed.TypedRule:
    """Return a part of a rule with fewer terms."""
    head = part.head
    if head.relation in unneeded:
        head = replace(head, arguments=_others(head.arguments, unneeded[head.relation]))
    body = tuple(
        replace(literal, terms=_others(literal.terms, unneeded[literal.relation]))
        if isinstance(literal, typed.Atom) and literal.relation in unneeded
        else literal
        for literal in part.body
    )
    return replace(part, head=head, body=body)


def _narrowed(relation: typed.TypedRelation, unneeded: Mapping[str, Collection[int]]) -> typed.TypedRelation:
    """Return an auxiliary relation without some columns."""
    places = unneeded.get(relation.name, ())
    location = relation.location
    if location is not None:
        location -= sum(place < location for place in places)
    return replace(relation, columns=_others(relation.columns, places), location=location)


def _others(items: tuple[_T, ...], places: Collection[int]) -> tuple[_T, ...]:
    """Return the items at other places."""
    return tuple(item for place, item in enumerate(items) if place not in places)
