"""Programs with strata by the papers' transition rules: a second oracle, which shares no fixpoint with the first.

The rules of Nigam et al. cover positive programs with function relations. Here each stratum is a system of its own,
kept from burst to burst. What it reads from strata below it is given to it as base facts, which come and go: their
tuples, and for a negated literal those tuples over the domain for which there is nothing. By ``min`` and ``max``, a
system derives all candidates; the best of each group is chosen once it is done. ``count`` counts candidates.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .evaluate import Stratum, rules_of, strata
from .language import Aggregate, Atom, Literal, Negation, Program, Row, Rule, Wildcard
from .psn import System, changes_between, shuffled

#: A count is right where each candidate has one derivation.
AGGREGATES: dict[str, Callable[[list[Any]], Any]] = {"min": min, "max": max, "count": len}


class Transitions:
    """The strata of a program, and their views; updates are picked in a random order."""

    def __init__(self, program: Program, domain: Iterable[Any], rng: random.Random, most: int) -> None:
        """Start with empty inputs. Negated literals have variables over ``domain``; no burst of a stratum may take more
        than ``most`` steps, or have more updates on their way."""
        self.layers = [Layer(program, stratum, list(domain), rng, most) for stratum in strata(program)]

    def burst(self, inputs: Mapping[str, set[Row]]) -> dict[str, set[Row]]:
        """Change the inputs to these, and return the derived relations; raises :class:`~.psn.TooLarge`, after which
        nothing else may be asked."""
        known = dict(inputs)
        for layer in self.layers:
            known |= layer.burst(known)
        return {name: rows for name, rows in known.items() if name not in inputs}


class Layer:
    """The relations of one stratum, as a positive program over base facts."""

    def __init__(self, program: Program, stratum: Stratum, domain: list[Any], rng: random.Random, most: int) -> None:
        """Start without base facts."""
        self.relations, self.domain = stratum.relations, domain
        self.rules = rules_of(program, stratum)
        #: By the name of its complement, each negated atom.
        self.negated = {complement(n.atom): n.atom for r in self.rules for n in r.body if isinstance(n, Negation)}
        self.system = System(tuple(map(positive, self.rules)), shuffled(rng), most)
        self.given: dict[str, set[Row]] = {}

    def burst(self, known: Mapping[str, set[Row]]) -> dict[str, set[Row]]:
        """Give the system what is known of the relations below, and return those of the stratum."""
        read = {atom.relation for rule in self.rules for atom in rule.positive} - {*self.relations}
        wanted = {name: set(known[name]) for name in read}
        wanted |= {name: self.absent(atom, known[atom.relation]) for name, atom in self.negated.items()}
        self.system.burst(changes_between(self.given, wanted))
        self.given = wanted
        self.system.run()
        found: dict[str, set[Row]] = {name: set() for name in self.relations}
        for (name, row), _, _ in +self.system.view:
            if name in found:
                found[name].add(row)
        return {name: chosen(self.rules, name, rows) for name, rows in found.items()}

    def absent(self, atom: Atom, rows: set[Row]) -> set[Row]:
        """Return the values of the columns of a negated atom for which there is no tuple."""
        kept = [place for place, term in enumerate(atom.arguments) if not isinstance(term, Wildcard)]
        there = {tuple(row[place] for place in kept) for row in rows}
        return {*itertools.product(self.domain, repeat=len(kept))} - there


def complement(atom: Atom) -> str:
    """Return the name of the relation with the tuples that a negated atom does not match."""
    return f"!{atom.relation}({','.join('_' if isinstance(term, Wildcard) else 'x' for term in atom.arguments)})"


def positive(rule: Rule) -> Rule:
    """Return a rule that reads complements instead of negations, and derives candidates instead of an aggregate."""

    def read(literal: Literal) -> Literal:
        if not isinstance(literal, Negation):
            return literal
        kept = tuple(term for term in literal.atom.arguments if not isinstance(term, Wildcard))
        return Atom(complement(literal.atom), kept)

    arguments = tuple(a.argument if isinstance(a, Aggregate) else a for a in rule.head.arguments)
    head = Atom(rule.head.relation, arguments)  # type: ignore[arg-type]
    return Rule(head, tuple(map(read, rule.body)), rule.label, rule.line)


def chosen(rules: list[Rule], relation: str, candidates: set[Row]) -> set[Row]:
    """Return the tuples of a relation: what its aggregate, if it has one, makes of the candidates of each group."""
    heads = [rule.head.arguments for rule in rules if rule.head.relation == relation]
    found = next(((p, a) for head in heads for p, a in enumerate(head) if isinstance(a, Aggregate)), None)
    if found is None:
        return candidates
    place, aggregate = found
    groups: dict[Row, list[Any]] = {}
    for row in candidates:
        groups.setdefault((*row[:place], *row[place + 1 :]), []).append(row[place])
    made = AGGREGATES[aggregate.function]
    return {(*group[:place], made(values), *group[place:]) for group, values in groups.items()}
