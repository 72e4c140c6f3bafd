"""Pipelined semi-naive evaluation with derivation sets, transcribed from Nigam et al. 2012, sections 3.3 and 5.

A system is a multiset K of entries, the view, and a multiset U of updates. An entry is a fact p with its derivation set
S and its infinite-count set H; an update inserts or deletes one. A step takes any update of U that may be picked, and

* *picks* it (figure 2, pick1 and pick2): p joins H if it is in S. A deletion may be picked only while its entry is
  there;
* *fires* it: each delta rule ``h :- b1^ν, ..., b(i-1)^ν, Δbi, b(i+1), ..., bn`` that p takes part in gives updates of
  h, by all entries of the others; S of h holds the facts of the body and their sets S, H the union of their H. Nothing
  is sent for an h in that H;
* *commits* it: the view without ν gets what the one with ν has.

The programs are positive; function relations, such as comparisons and lists (Nigam et al. 2010, section 2.1), are
computed once all atoms of a body have matched. Facts are pairs of a relation and a tuple.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any, TypeAlias

from .evaluate import compute, holds
from .language import Atom, Comparison, Constant, Program, Row, Rule, Variable

Fact: TypeAlias = tuple[str, Row]
#: A fact with its derivation set and its infinite-count set.
Entry: TypeAlias = tuple[Fact, frozenset[Fact], frozenset[Fact]]
#: +1 or -1, and the entry that is inserted or deleted.
Update: TypeAlias = tuple[int, Entry]

NOTHING: frozenset[Fact] = frozenset()


class TooLarge(Exception):
    """There are more updates or steps than the caller wants to wait for."""


class Stuck(Exception):
    """No update may be picked: each deletes what is not there."""


@dataclass
class System:
    """A program's view and the updates that have not been processed; ``choose`` gives the order in which updates of a
    list are tried."""

    rules: tuple[Rule, ...]
    choose: Callable[[int], list[int]]
    most: int = 4_000

    def __post_init__(self) -> None:
        self.view: Counter[Entry] = Counter()
        self.updates: list[Update] = []

    def burst(self, changes: list[tuple[int, Fact]]) -> None:
        """Insert (+1) and delete (-1) base facts."""
        self.updates += [(sign, (fact, NOTHING, NOTHING)) for sign, fact in changes]

    def run(self) -> None:
        """Process updates until there are none; raises :class:`TooLarge` and :class:`Stuck`."""
        steps = 0
        while self.updates:
            steps += 1
            if steps > self.most or len(self.updates) > self.most:
                raise TooLarge
            self.step()

    def step(self) -> None:
        """Pick, fire and commit one update."""
        place = next((place for place in self.choose(len(self.updates)) if self.may_pick(place)), None)
        if place is None:
            raise Stuck
        self.process(place)

    def picked(self, place: int) -> Entry:
        """The entry of an update as it is picked."""
        fact, derived, infinite = self.updates[place][1]
        return fact, derived, infinite | {fact} if fact in derived else infinite

    def may_pick(self, place: int) -> bool:
        """Whether an update may be picked."""
        return self.updates[place][0] > 0 or self.view[self.picked(place)] > 0

    def process(self, place: int) -> None:
        """Pick, fire and commit the update at a place."""
        picked = self.picked(place)
        (fact, _, _), sign = picked, self.updates[place][0]
        del self.updates[place]
        after = self.view.copy()
        after[picked] += sign
        for rule in self.rules:
            for position, atom in enumerate(rule.positive):
                if atom.relation == fact[0]:
                    self.updates += [(sign, entry) for entry in self.fire(rule, position, picked, after)]
        self.view = +after

    def fire(self, rule: Rule, position: int, picked: Entry, after: Counter[Entry]) -> Iterator[Entry]:
        """The entries that a delta rule derives from the picked one, each as often as it is derived."""

        atoms = rule.positive

        def match(at: int, bound: dict[str, Any], used: list[Entry], copies: int) -> Iterator[Entry]:
            if at == len(atoms):
                values = completed(rule, bound)
                if values is None:
                    return
                head: Fact = (rule.head.relation, tuple(compute(a, values) for a in rule.head.arguments))
                infinite = NOTHING.union(*(entry[2] for entry in used))
                if head not in infinite:
                    derived = frozenset(entry[0] for entry in used).union(*(entry[1] for entry in used))
                    yield from [(head, derived, infinite)] * copies
                return
            atom = atoms[at]
            view = after if at < position else self.view
            candidates = [(picked, 1)] if at == position else [(e, n) for e, n in view.items() if n > 0]
            for entry, count in candidates:
                found = matched(atom, entry[0], bound)
                if found is not None:
                    yield from match(at + 1, found, [*used, entry], copies * count)

        yield from match(0, {}, [], 1)


def completed(rule: Rule, bound: Mapping[str, Any]) -> dict[str, Any] | None:
    """The bindings with what the function relations of a rule compute; None if one of them does not hold."""
    found = dict(bound)
    for literal in rule.body:
        if not isinstance(literal, Comparison):
            continue
        if literal.op == "=" and isinstance(literal.left, Variable) and literal.left.name not in found:
            found[literal.left.name] = compute(literal.right, found)
        elif holds(literal, found) is not True:
            return None
    return found


def matched(atom: Atom, fact: Fact, bound: dict[str, Any]) -> dict[str, Any] | None:
    """The bindings with those of an atom that a fact matches; None if it does not."""
    if atom.relation != fact[0]:
        return None
    found = dict(bound)
    for term, given in zip(atom.arguments, fact[1], strict=True):
        if isinstance(term, Constant):
            if term.value != given:
                return None
        elif isinstance(term, Variable) and found.setdefault(term.name, given) != given:
            return None
    return found


def all_ends(rules: tuple[Rule, ...], view: Counter[Entry], changes: list[tuple[int, Fact]]) -> list[Counter[Entry]]:
    """The views in which a burst of changes may end, in any order of its updates; raises :class:`Stuck`."""
    first = System(rules, lambda count: list(range(count)))
    first.view = +view
    first.burst(changes)
    waiting, known, ends = [first], set(), {}
    while waiting:
        system = waiting.pop()
        key = (frozenset(system.view.items()), frozenset(Counter(system.updates).items()))
        if key in known:
            continue
        known.add(key)
        if not system.updates:
            ends[key[0]] = system.view
            continue
        places = [place for place in range(len(system.updates)) if system.may_pick(place)]
        if not places:
            raise Stuck
        for place in places:
            other = System(rules, system.choose)
            other.view, other.updates = system.view.copy(), list(system.updates)
            other.process(place)
            waiting.append(other)
    return list(ends.values())


def changes_between(before: Mapping[str, Set[Row]], after: Mapping[str, Set[Row]]) -> list[tuple[int, Fact]]:
    """A burst of updates."""
    names, none = sorted(before.keys() | after.keys()), frozenset[Row]()
    gone = [(-1, (name, row)) for name in names for row in sorted(before.get(name, none) - after.get(name, none))]
    come = [(1, (name, row)) for name in names for row in sorted(after.get(name, none) - before.get(name, none))]
    return [*gone, *come]


def shuffled(rng: random.Random) -> Callable[[int], list[int]]:
    """Any order."""
    return lambda count: rng.sample(range(count), count)


def random_positive_program(rng: random.Random) -> str:
    """A program of recursive rules over inputs e, f and g: mutual, non-linear and repeated ones among them."""
    arity = {"e": 2, "f": 1, "g": 2, "p": 2, "q": 2, "r": 1}
    inputs, derived = ("e", "f", "g"), ("p", "q", "r")
    lines = [f"input relation {name}({', '.join(f'c{i}: int' for i in range(arity[name]))})" for name in inputs]
    lines += [f"output relation {name}({', '.join(f'c{i}: int' for i in range(arity[name]))})" for name in derived]
    for name in derived:
        for place in range(rng.randint(1, 2)):
            known = inputs if place == 0 else (*inputs, *derived)
            body = [rng.choice(known) for _ in range(rng.randint(1, 3 if place else 2))]
            variables = "XYZW"[: rng.randint(2, 4)]
            atoms = [(atom, [rng.choice(variables) for _ in range(arity[atom])]) for atom in body]
            bound = sorted({v for _, terms in atoms for v in terms})
            head = ", ".join(rng.choice(bound) for _ in range(arity[name]))
            text = ", ".join(f"{atom}({', '.join(terms)})" for atom, terms in atoms)
            lines.append(f"{name}({head}) :- {text}.")
    return "\n".join(lines) + "\n"


def facts_of(system: System, program: Program) -> dict[str, set[Row]]:
    """The derived relations of a view."""
    derived = {relation.name for relation in program.derived}
    found: dict[str, set[Row]] = {name: set() for name in derived}
    for (name, row), _, _ in +system.view:
        if name in derived:
            found[name].add(row)
    return found
