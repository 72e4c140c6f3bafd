"""The graphs that are measured and their batches of changes: the same on every machine, for a seed decides."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

Edge = tuple[int, int]

#: Transitive closure in the language; `link` and `reachable` live at their first column.
PROGRAM = """\
input relation link(@src: int, dst: int)
output relation reachable(@src: int, dst: int)

r1: reachable(@S, D) :- link(@S, D).
r2: reachable(@S, D) :- link(@S, Z), reachable(@Z, D).
"""

SEED = 5


@dataclass(frozen=True)
class Graph:
    """A random graph: ``draw`` yields one edge at a time, ``edges`` of them, without repetition, are the graph."""

    name: str
    title: str
    edges: int
    draw: Callable[[random.Random], Edge | None]
    by_hand: bool
    """Whether the loop written by hand is measured on it too."""


@dataclass(frozen=True)
class Step:
    """The graph after a step, and the changes that led there; ``init`` has none."""

    name: str
    links: frozenset[Edge]
    deleted: tuple[Edge, ...] = ()
    inserted: tuple[Edge, ...] = ()


def cyclic(nodes: int) -> Callable[[random.Random], Edge | None]:
    """Any edge between two different nodes."""

    def draw(rng: random.Random) -> Edge | None:
        edge = int(rng.random() * nodes), int(rng.random() * nodes)
        return edge if edge[0] != edge[1] else None

    return draw


def forward(nodes: int, span: int) -> Callable[[random.Random], Edge | None]:
    """An edge from a node to one of the ``span`` next ones: no cycles, long paths."""

    def draw(rng: random.Random) -> Edge | None:
        source = int(rng.random() * nodes)
        target = source + 1 + int(rng.random() * span)
        return (source, target) if target < nodes else None

    return draw


GRAPHS = (
    Graph("cyclic", "random cyclic graph, 20,000 edges", 20_000, cyclic(3_490), by_hand=False),
    Graph("forward", "random forward graph, 100,000 edges", 100_000, forward(90_000, 9_500), by_hand=True),
)

QUICK_GRAPHS = (
    Graph("cyclic", "random cyclic graph, 400 edges", 400, cyclic(150), by_hand=False),
    Graph("forward", "random forward graph, 1,000 edges", 1_000, forward(900, 100), by_hand=True),
)

#: Names of the steps after ``init`` and the share of the edges that each changes, half insertions, half deletions.
BATCHES = (("apply 0.01 %", 0.0001), ("apply 1 %", 0.01))


def steps(graph: Graph) -> Iterator[Step]:
    """``init`` and then each batch of :data:`BATCHES` on what the step before left."""
    rng = random.Random(SEED)
    links: set[Edge] = set()
    while len(links) < graph.edges:
        links.update(_draw(graph, rng, links))
    yield Step("init", frozenset(links))
    for name, share in BATCHES:
        count = max(1, round(graph.edges * share / 2))
        deleted = rng.sample(sorted(links), count)
        inserted: set[Edge] = set()
        while len(inserted) < count:
            inserted.update(_draw(graph, rng, links | inserted))
        links = (links - set(deleted)) | inserted
        yield Step(name, frozenset(links), tuple(sorted(deleted)), tuple(sorted(inserted)))


def _draw(graph: Graph, rng: random.Random, taken: set[Edge]) -> set[Edge]:
    edge = graph.draw(rng)
    return set() if edge is None or edge in taken else {edge}


def write_links(path: Path, links: frozenset[Edge]) -> None:
    """Write edges as Parquet with columns ``src`` and ``dst``, both 64-bit."""
    _write(path, {"src": [edge[0] for edge in sorted(links)], "dst": [edge[1] for edge in sorted(links)]})


def write_changes(path: Path, step: Step) -> None:
    """Write the changes of a step as Parquet with columns ``op``, ``src`` and ``dst``."""
    rows = [("-", *edge) for edge in step.deleted] + [("+", *edge) for edge in step.inserted]
    _write(path, {"op": [row[0] for row in rows], "src": [row[1] for row in rows], "dst": [row[2] for row in rows]})


def _write(path: Path, columns: Mapping[str, Sequence[object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(dict(columns)), path)


def program_of_rules(count: int) -> str:
    """A program of ``count`` rules of all kinds: joins, recursion, negation, comparison, arithmetic and aggregates."""
    if count % 10:
        raise ValueError("the rules come in tens")
    lines = ["input relation edge(src: int, dst: int)", "input relation weight(src: int, cost: int)", ""]
    source = "edge"
    for group in range(count // 10):
        name = f"g{group}"
        lines += [
            f"{name}_hop(X, Z) :- {source}(X, Y), edge(Y, Z), X != Z.",
            f"{name}_reach(X, Y) :- {name}_hop(X, Y).",
            f"{name}_reach(X, Z) :- {name}_reach(X, Y), edge(Y, Z).",
            f"{name}_even(X, Y) :- edge(X, Z), {name}_odd(Z, Y).",
            f"{name}_odd(X, Y) :- {source}(X, Y).",
            f"{name}_odd(X, Y) :- edge(X, Z), {name}_even(Z, Y).",
            f"{name}_only(X, Y) :- {name}_reach(X, Y), !{name}_even(X, Y).",
            f"{name}_cost(X, Y, C) :- {name}_only(X, Y), weight(X, A), weight(Y, B), C = A + 2 * B.",
            f"{name}_cheapest(X, min<C>) :- {name}_cost(X, _, C).",
            f"{name}_next(X, Y) :- {name}_cost(X, Y, C), {name}_cheapest(X, C).",
            "",
        ]
        source = f"{name}_next"
    lines.append(f"output {source}.")
    return "\n".join(lines) + "\n"
