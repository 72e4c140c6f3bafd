"""Workloads of path queries, drawn as random walks over a schema.

A query is kept if it connects some different nodes of a small graph, and if neither its answer nor a join that it needs
is too large. The kinds:

* ``rd``: chains, stars and cycles of one to four conjuncts, many of them starred;
* ``rec``: chains of one or two conjuncts of longer walks, nearly all starred;
* ``nav``: closures of single symbols, alone, nested and between other steps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Many
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import TypeVar

from numpy.random import RandomState

from .answers import Evaluator
from .generate import Graph, stream
from .paths import Choice, Conjunct, Path, Query, Repeat, Sequence, Symbol
from .schemas import Schema

T = TypeVar("T")

KINDS = {"rd": 10, "rec": 10, "nav": 5}
"""The kinds of workloads, and how many queries each has."""

SHAPES = ("chain", "chain", "chain", "star", "cycle", "star chain")
CANDIDATES = 20_000
"""How many queries are tried for a workload."""

SMALLEST = 10
"""How many pairs of different nodes a query has to connect, at least, in the first graph that it was tried on."""

LARGEST = 20
"""The largest answer of a query, in pairs for each node of the graph that it was tried on."""

MATCHES = 200
"""The largest number of ways in which a join in a query may hold, for each node: a job counts them."""


@dataclass(frozen=True)
class Step:
    """A symbol that leads from nodes of one type to nodes of another."""

    symbol: Symbol
    target: str


class Walks:
    """Random walks over the types of a schema."""

    def __init__(self, schema: Schema) -> None:
        """Prepare the steps from each type."""
        steps: defaultdict[str, dict[Step, None]] = defaultdict(dict)
        for edges in schema.edges:
            name = schema.symbol(edges.predicate)
            steps[edges.source][Step(Symbol(name), edges.target)] = None
            steps[edges.target][Step(Symbol(name, inverse=True), edges.source)] = None
        self.steps = {kind: tuple(known) for kind, known in steps.items()}
        self.kinds = tuple(self.steps)

    def walk(self, rng: RandomState, start: str, length: int, end: str | None = None) -> tuple[Path, str] | None:
        """Return a walk of some steps and the type where it ends, ``end`` if given; None if there is no such walk."""
        reaching: list[set[str]] = [set(self.kinds) if end is None else {end}]
        for _ in range(length):
            reaching.append({kind for kind in self.kinds if any(s.target in reaching[-1] for s in self.steps[kind])})
        taken: list[Path] = []
        for after in reversed(reaching[:-1]):
            possible = [step for step in self.steps[start] if step.target in after]
            if not possible:
                return None
            step = pick(rng, possible)
            taken.append(step.symbol)
            start = step.target
        return (taken[0] if length == 1 else Sequence(tuple(taken))), start

    def conjunct(
        self, rng: RandomState, kind: str, start: str, end: str | None, starred: bool
    ) -> tuple[Path, str] | None:
        """Return a choice of one to three walks and the type where they end; a starred one ends where it starts."""
        if starred:
            if end not in (None, start):
                return None
            end = start
        lengths = range(2, 5) if kind == "rec" else range(1, 4)
        walks: dict[Path, None] = {}
        for _ in range(1 + rng.randint(3)):
            walk = self.walk(rng, start, pick(rng, lengths), end)
            if walk is not None:
                walks[walk[0]] = None
                end = walk[1]
        if not walks or end is None:
            return None
        path = next(iter(walks)) if len(walks) == 1 else Choice(tuple(walks))
        return (Repeat(path, "*") if starred else path), end

    def query(self, rng: RandomState, kind: str, shape: str) -> Query | None:
        """Return a query of a kind and a shape; None if the walks that were drawn do not fit together."""
        count = 1 + rng.randint(2 if kind == "rec" else 4)
        types = {"x0": pick(rng, self.kinds)}
        conjuncts = []
        layout, last = ends(shape, count)
        for number, (source, target) in enumerate(layout):
            starred = bool(rng.random_sample() < (0.85 if kind == "rec" else 0.7)) or (kind == "rec" and number == 0)
            found = self.conjunct(rng, kind, types[source], types.get(target), starred)
            if found is None:
                return None
            conjuncts.append(Conjunct(found[0], source, target))
            types[target] = found[1]
        return Query("q", ("x0", last), tuple(conjuncts))


def ends(shape: str, count: int) -> tuple[list[tuple[str, str]], str]:
    """Return the variables of each conjunct, and the one that stands in the head beside ``x0``."""
    names = [f"x{number}" for number in range(count + 1)]
    chain = list(pairwise(names))
    if shape == "star":
        return [("x0", name) for name in names[1:]], "x1"
    if shape == "cycle" and count > 1:
        return [*chain[:-1], ("x0", names[-2])], names[-2]
    if shape == "star chain" and count > 2:
        return [*chain[:-2], ("x0", names[-2]), (names[-3], names[-1])], names[-3]
    return chain, names[-1]


def walked(schema: Schema, kind: str, rng: RandomState) -> Iterator[Query]:
    """Yield queries whose paths are random walks, one for each name in turn, without end."""
    walks = Walks(schema)
    while True:
        for number in range(KINDS[kind]):
            query = walks.query(rng, kind, SHAPES[number % len(SHAPES)] if kind == "rd" else "chain")
            if query is not None:
                yield Query(f"q{number}", query.head, query.conjuncts)


def navigation(schema: Schema, rng: RandomState) -> Iterator[Query]:
    """Yield queries around closures of symbols that lead from a type to itself, without end."""
    walks = Walks(schema)
    loops = [(kind, step.symbol) for kind in walks.kinds for step in walks.steps[kind] if step.target == kind]
    forward = [(kind, symbol) for kind, symbol in loops if not symbol.inverse]
    while True:
        kind, loop = pick(rng, forward)
        opposite = Symbol(loop.name, inverse=True)
        out = pick(rng, walks.steps[kind])
        back = Symbol(out.symbol.name, not out.symbol.inverse)
        into = pick(rng, [step.symbol for steps in walks.steps.values() for step in steps if step.target == kind])
        around = walks.walk(rng, kind, pick(rng, (2, 4)), kind)
        plain = Repeat(loop, "+")
        made: tuple[tuple[Conjunct, ...], ...] = (
            (Conjunct(plain, "x", "y"),),
            (Conjunct(Repeat(Choice((loop, opposite)), "+"), "x", "y"), *pair(out.symbol)),
            (Conjunct(Sequence((into, Repeat(loop, "*"))), "x", "y"),),
            (Conjunct(Repeat(Sequence((plain, out.symbol, back)), "+"), "x", "y"),),
            (Conjunct(around[0], "x", "y"), Conjunct(plain, "x", "y")) if around else (),
        )
        for number, conjuncts in enumerate(made):
            if conjuncts:
                yield Query(f"q{number}", ("x", "y"), conjuncts)


def pair(symbol: Symbol) -> tuple[Conjunct, Conjunct]:
    """Return the conjuncts for a step that leads from two variables to a common third one."""
    return Conjunct(symbol, "x", "z"), Conjunct(symbol, "y", "z")


def workload(kind: str, small: Many[Graph], seed: int) -> list[Query]:
    """Return the queries of a kind; each connects some nodes of the first small graph, and not too many of any.

    Raises ValueError if the seed does not give enough of them.
    """
    schema = small[0].schema
    rng = stream(seed, "workload", schema.workloads, kind)
    evaluators = [Evaluator(graph.last_node) for graph in small]
    candidates = navigation(schema, rng) if kind == "nav" else walked(schema, kind, rng)
    found: dict[str, Query] = {}
    for query in islice(candidates, CANDIDATES):
        known = any(query.conjuncts == other.conjuncts for other in found.values())
        if query.name not in found and not known and fits(query, small, evaluators):
            found[query.name] = query
        if len(found) == KINDS[kind]:
            return [found[name] for name in sorted(found)]
    raise ValueError(f"seed {seed} gives only {len(found)} of {KINDS[kind]} queries for {schema.workloads} {kind}")


def fits(query: Query, small: Many[Graph], evaluators: Many[Evaluator]) -> bool:
    """Return whether a query connects some nodes of the first graph, and not too many of any."""
    if not query.symbols <= small[0].edges.keys():
        return False
    for number, (graph, evaluator) in enumerate(zip(small, evaluators, strict=True)):
        pairs = evaluator.query(query, graph.edges)
        if sum(map(len, pairs.values())) > LARGEST * len(evaluator.nodes):
            return False
        if evaluator.matches(query, graph.edges) > MATCHES * len(evaluator.nodes):
            return False
        if number == 0 and sum(len(some - {one}) for one, some in pairs.items()) < SMALLEST:
            return False
    return True


def used(queries: Mapping[str, Many[Query]]) -> list[str]:
    """Return the symbols that workloads read, in order."""
    names = {name for known in queries.values() for query in known for name in query.symbols}
    return sorted(names, key=lambda name: int(name[1:]))


def pick(rng: RandomState, some: Many[T]) -> T:
    """Return one of some things."""
    return some[rng.randint(len(some))]
