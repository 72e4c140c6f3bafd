"""Updates of a graph: a base, and batches of insertions and deletions.

* ``sym-R`` inserts all edges of a share R of the symbols, drawn at random, into the rest of the graph: the symbol-based
  sampling of Bonifati et al.; ``symq-R`` draws only among the symbols that the workloads read, and ``symdel-R`` deletes
  the edges of such symbols;
* ``edge-P`` has three batches, each of which changes a share P of the edges: half of the changes insert an edge that
  was withheld from the base, or deleted before, half delete one; ``edgeq-P`` draws only among the edges that the
  workloads read.

Insertions are absent before, deletions present, and no edge is both inserted and deleted in a batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from numpy.random import RandomState

from .answers import State
from .generate import NOTHING, Graph, Relation, stream

T = TypeVar("T")

Row = tuple[str, int, int]
"""A symbol, a source and a target."""

SUPPORTS = ("0.05", "0.10", "0.15", "0.20", "0.25")
RATES = {"0.01pct": 0.0001, "0.1pct": 0.001, "1pct": 0.01}
BATCHES = 3
AGAIN = 0.2
"""The share of a batch's insertions that bring back deleted edges, from the second batch on."""


@dataclass(frozen=True)
class Batch:
    """Edges that are inserted and deleted, in order."""

    inserted: tuple[Row, ...]
    deleted: tuple[Row, ...]


@dataclass(frozen=True)
class Scenario:
    """A base graph, which is the whole graph without ``withheld``, and batches; ``symbols`` if whole symbols change."""

    name: str
    base: State
    batches: tuple[Batch, ...]
    withheld: tuple[Row, ...] = ()
    symbols: tuple[str, ...] = ()
    about: dict[str, object] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """The first part of the name."""
        return self.name.split("-")[0]

    def states(self) -> Iterator[State]:
        """Yield the base, and the graph after each batch."""
        state = self.base
        yield state
        for batch in self.batches:
            state = applied(state, batch)
            yield state


def scenarios(graph: Graph, used: Iterable[str], seed: int) -> Iterator[Scenario]:
    """Yield all scenarios of a graph; ``used`` are the symbols that the workloads read."""
    everything, read = list(graph.edges), [name for name in used if name in graph.edges]
    for kind, symbols in (("sym", everything), ("symq", read), ("symdel", read)):
        for support in SUPPORTS:
            name = f"{kind}-{support}"
            count = min(len(symbols) - 1, max(1, round(float(support) * len(graph.schema.predicates))))
            rng = stream(seed, "scenario", graph.schema.name, str(graph.last_node), name)
            yield symbol_scenario(graph, name, sorted_symbols(take(rng, symbols, count)))
    for kind, symbols in (("edge", everything), ("edgeq", read)):
        rows = [row for row in graph.all_edges() if row[0] in symbols]
        for rate in RATES:
            name = f"{kind}-{rate}"
            rng = stream(seed, "scenario", graph.schema.name, str(graph.last_node), name)
            yield edge_scenario(graph, name, rows, max(1, round(RATES[rate] * len(rows) / 2)), rng)


def symbol_scenario(graph: Graph, name: str, symbols: list[str]) -> Scenario:
    """Return the scenario that inserts all edges of some symbols, or deletes them."""
    changed = tuple(row for row in graph.all_edges() if row[0] in symbols)
    rest = {symbol: edges for symbol, edges in graph.edges.items() if symbol not in symbols}
    size = sum(len(edges.pairs) for edges in rest.values())
    about: dict[str, object] = {
        "delta_edges": len(changed),
        "rest_edges": size,
        "rho_percent": round(100 * len(changed) / size, 2),
    }
    if name.startswith("symdel"):
        return Scenario(name, graph.edges, (Batch((), changed),), (), tuple(symbols), about)
    return Scenario(name, rest, (Batch(changed, ()),), changed, tuple(symbols), about)


def edge_scenario(graph: Graph, name: str, rows: list[Row], count: int, rng: RandomState) -> Scenario:
    """Return the scenario whose batches insert and delete ``count`` of the rows each."""
    order = take(rng, rows, len(rows))
    withheld, present = order[: BATCHES * count], order[BATCHES * count :]
    if len(present) < BATCHES * count:
        raise ValueError(f"{name}: a graph of {len(rows)} edges is too small")
    base = applied(graph.edges, Batch((), tuple(withheld)))
    waiting, gone = list(withheld), list[Row]()
    batches, returned = [], []
    for _ in range(BATCHES):
        back = take(rng, gone, min(len(gone), int(AGAIN * count)))
        new = [*waiting[: count - len(back)], *back]
        # Rows of this batch's insertions are not deleted by it.
        old, present = present[:count], [*present[count:], *new]
        waiting = waiting[count - len(back) :]
        gone = [*(row for row in gone if row not in back), *old]
        batches.append(Batch(ordered(new), ordered(old)))
        returned.append(len(back))
    about: dict[str, object] = {
        "base_edges": len(rows) - len(withheld),
        "withheld": len(withheld),
        "returned": returned,
    }
    return Scenario(name, base, tuple(batches), ordered(withheld), (), about)


def applied(state: State, batch: Batch) -> State:
    """Return a graph after a batch; symbols without changes keep their relations."""
    found = dict(state)
    for symbol in {row[0] for row in (*batch.inserted, *batch.deleted)}:
        added = {(source, target) for name, source, target in batch.inserted if name == symbol}
        removed = {(source, target) for name, source, target in batch.deleted if name == symbol}
        found[symbol] = Relation(found.get(symbol, NOTHING).pairs - removed | added)
    return found


def take(rng: RandomState, some: list[T], count: int) -> list[T]:
    """Return some of the members of a list, in random order."""
    return [some[place] for place in rng.permutation(len(some))[:count].tolist()]


def sorted_symbols(names: Iterable[str]) -> list[str]:
    """Return symbols in the order of their numbers."""
    return sorted(names, key=lambda name: int(name[1:]))


def ordered(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Return rows in the order of their symbols' numbers."""
    return tuple(sorted(rows, key=lambda row: (int(row[0][1:]), row[1:])))
