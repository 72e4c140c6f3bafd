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
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from ..ir import typed
from ..ir.localized import LocalizedProgram

_T = TypeVar("_T")


def project_sends(program: LocalizedProgram) -> LocalizedProgram:
    """Return the program without the columns of auxiliary relations that no rule needs."""
    kept = _with_aggregates(program)
    while True:
        parts = {part.label: part for rule in program.rules for part in rule.parts}.values()
        sent = (relation for relation in program.auxiliaries if relation.name not in kept)
        columns = ((relation, needed_columns(relation, parts, relation.location)) for relation in sent)
        needed = {relation.name: places for relation, places in columns if places != all_columns(relation)}
        if not needed:
            return program
        # A column that is not sent may have been the only use of another one that is.
        program = replace(
            program,
            rules=tuple(
                replace(rule, parts=tuple(with_columns(part, needed) for part in rule.parts)) for rule in program.rules
            ),
            auxiliaries=tuple(narrowed(relation, needed) for relation in program.auxiliaries),
        )


def _with_aggregates(program: LocalizedProgram) -> set[str]:
    """Return the relations with aggregates, and the auxiliary ones derived from them."""
    parts = [part for rule in program.rules for part in rule.parts]
    auxiliaries = {relation.name for relation in program.auxiliaries}
    aggregated = {part.head.relation for part in parts if part.aggregates}
    before = -1
    while before != len(aggregated):
        before = len(aggregated)
        aggregated |= {
            part.head.relation
            for part in parts
            if part.head.relation in auxiliaries and any(atom.relation in aggregated for atom in part.read)
        }
    return aggregated


def all_columns(relation: typed.TypedRelation) -> tuple[int, ...]:
    """Return the numbers of all columns of a relation."""
    return tuple(range(len(relation.columns)))


def needed_columns(
    relation: typed.TypedRelation, rules: Iterable[typed.TypedRule], always: int | None = None
) -> tuple[int, ...]:
    """Return the columns of a relation that a rule needs to read, and the one that is ``always`` needed, by their
    numbers."""
    unused = {*all_columns(relation)} - {always}
    for rule in rules:
        atoms = [atom for atom in rule.read if atom.relation == relation.name]
        if not atoms:
            continue
        if any(aggregate.function not in ("min", "max") for aggregate in rule.aggregates):
            return all_columns(relation)
        uses = Counter(variable.name for variable in typed.variables_of(rule))
        for atom in atoms:
            unused = {place for place in unused if _is_unused(atom.terms[place], uses)}
    return tuple(place for place in all_columns(relation) if place not in unused)


def _is_unused(term: typed.Term, uses: Mapping[str, int]) -> bool:
    """Return whether a rule, in which variables occur so often, does not use the value of a term."""
    return isinstance(term, typed.Wildcard) or (isinstance(term, typed.Variable) and uses[term.name] == 1)


def with_columns(rule: typed.TypedRule, kept: Mapping[str, tuple[int, ...]]) -> typed.TypedRule:
    """Return a rule that derives and reads only the columns that are ``kept`` of some relations."""

    def of(relation: str, items: tuple[_T, ...]) -> tuple[_T, ...]:
        return tuple(items[place] for place in kept[relation]) if relation in kept else items

    def atom(found: typed.Atom) -> typed.Atom:
        return replace(found, terms=of(found.relation, found.terms))

    body = tuple(
        atom(literal)
        if isinstance(literal, typed.Atom)
        else replace(literal, atom=atom(literal.atom))
        if isinstance(literal, typed.Negation)
        else literal
        for literal in rule.body
    )
    head = replace(rule.head, arguments=of(rule.head.relation, rule.head.arguments))
    return replace(rule, head=head, body=body)


def narrowed(relation: typed.TypedRelation, kept: Mapping[str, tuple[int, ...]]) -> typed.TypedRelation:
    """Return a relation with the columns that are ``kept`` of it, if it is one of those."""
    if relation.name not in kept:
        return relation
    places = kept[relation.name]
    location = places.index(relation.location) if relation.location in places else None
    return replace(relation, columns=tuple(relation.columns[place] for place in places), location=location)
