"""Graphs of a schema: nodes numbered by type, and edges whose degrees follow the schema's distributions."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .schemas import Distribution, Edges, Gaussian, Schema, Uniform

Pair = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Relation:
    """The edges of a predicate; relations are told apart by identity, so that answers over them can be kept."""

    pairs: frozenset[Pair]

    @cached_property
    def forward(self) -> dict[int, set[int]]:
        """The targets of each source."""
        found: defaultdict[int, set[int]] = defaultdict(set)
        for source, target in self.pairs:
            found[source].add(target)
        return dict(found)


NOTHING = Relation(frozenset())


@dataclass(frozen=True)
class Graph:
    """A graph: the nodes of each type, as ranges, and the edges of each symbol that has any."""

    schema: Schema
    nodes: dict[str, range]
    edges: dict[str, Relation]

    @property
    def last_node(self) -> int:
        """The highest number of a node; nodes are numbered from 0."""
        return max(span[-1] for span in self.nodes.values())

    def all_edges(self) -> Iterator[tuple[str, int, int]]:
        """Yield symbol, source and target of each edge, in order."""
        for symbol, relation in self.edges.items():
            for source, target in sorted(relation.pairs):
                yield symbol, source, target


def stream(seed: int, *purpose: str) -> np.random.RandomState:
    """Return random numbers for one purpose, which do not depend on what else is drawn.

    NumPy guarantees that ``RandomState`` gives the same numbers in every release.
    """
    digest = hashlib.sha256("\n".join([str(seed), *purpose]).encode()).digest()
    return np.random.RandomState(np.frombuffer(digest, dtype="<u4"))


def graph(schema: Schema, size: int, seed: int) -> Graph:
    """Return the graph of a schema, a size (the nodes that are not of types with fixed counts) and a seed."""
    nodes, first = {}, 0
    for kind in schema.types:
        nodes[kind.name] = range(first, first + kind.count(size))
        first = nodes[kind.name].stop
    found: defaultdict[str, set[Pair]] = defaultdict(set)
    for edges in schema.edges:
        rng = stream(seed, "graph", schema.name, str(size), edges.source, edges.predicate, edges.target)
        incoming = edges.incoming or schema.open_incoming
        found[schema.symbol(edges.predicate)].update(drawn(rng, edges, incoming, nodes))
    symbols = [f"p{number}" for number in range(len(schema.predicates))]
    return Graph(schema, nodes, {symbol: Relation(frozenset(found[symbol])) for symbol in symbols if found[symbol]})


def drawn(
    rng: np.random.RandomState, edges: Edges, incoming: Distribution | None, nodes: dict[str, range]
) -> Iterator[Pair]:
    """Yield the edges of one predicate between two types; an edge may come twice.

    Each source stands as often as its out-degree says in one list, each target by its in-degree in another. Both are
    shuffled and paired, as far as the shorter one goes.
    """
    sources = stubs(rng, edges.outgoing, nodes[edges.source], len(nodes[edges.target]))
    if incoming is None:
        span = nodes[edges.target]
        targets = span.start + below(rng, len(span), len(sources))
    else:
        targets = stubs(rng, incoming, nodes[edges.target], len(nodes[edges.source]))
    yield from zip(rng.permutation(sources).tolist(), rng.permutation(targets).tolist(), strict=False)


def stubs(rng: np.random.RandomState, distribution: Distribution, span: range, others: int) -> NDArray[np.int64]:
    """Return each node as often as its degree says; no degree exceeds the number of other ends."""
    return np.repeat(np.arange(span.start, span.stop), degrees(rng, distribution, len(span), others))


def degrees(rng: np.random.RandomState, distribution: Distribution, count: int, most: int) -> NDArray[np.int64]:
    """Draw the degrees of ``count`` nodes, none above ``most``."""
    if isinstance(distribution, Uniform):
        found = distribution.low + below(rng, distribution.high - distribution.low + 1, count)
    elif isinstance(distribution, Gaussian):
        found = np.rint(rng.normal(distribution.mean, distribution.deviation, count)).astype(np.int64)
    else:
        weights = np.arange(1, most + 1, dtype=np.float64) ** -distribution.exponent
        found = 1 + np.searchsorted(np.cumsum(weights) / weights.sum(), rng.random_sample(count))
    return np.clip(found, 0, most)


def below(rng: np.random.RandomState, bound: int, count: int) -> NDArray[np.int64]:
    """Draw ``count`` numbers from 0 on, less than ``bound``."""
    return (rng.random_sample(count) * bound).astype(np.int64)
