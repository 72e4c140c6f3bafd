"""Random rows for the workloads. All come from NumPy's ``RandomState``, whose numbers no release changes.

A generator draws the rows that a relation holds at first, and ``spare`` times as many, all others, for insertions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.int64]
"""Rows of a relation, a column of 64-bit integers each."""

Random: TypeAlias = np.random.RandomState


@dataclass(frozen=True)
class Rows:
    """What a relation holds at first, and what may be inserted: nothing, if it never changes."""

    first: Array
    spare: Array


Graph: TypeAlias = Callable[[Random, float], Rows]


def cyclic(edges: int, nodes: int) -> Graph:
    """Edges between any two different nodes."""

    def draw(rng: Random, count: int) -> Array:
        source, target = below(rng, nodes, count), below(rng, nodes, count)
        return table(source[source != target], target[source != target])

    return lambda rng, spare: drawn(rng, edges, spare, draw)


def forward(edges: int, nodes: int, span: int) -> Graph:
    """Edges from a node to one of the ``span`` next ones: no cycles, long paths."""

    def draw(rng: Random, count: int) -> Array:
        source = below(rng, nodes, count)
        target = source + 1 + below(rng, span, count)
        return table(source[target < nodes], target[target < nodes])

    return lambda rng, spare: drawn(rng, edges, spare, draw)


def tree(rng: Random, nodes: int, spare: float) -> Rows:
    """``(child, parent)``, every parent being drawn among the nodes before its child; node 0 is the root.

    Its n nodes lie at about 2.7 ln n depths, and about n * n / 11 pairs at the same one.
    """
    children = np.arange(1, nodes + more(nodes, spare), dtype=np.int64)
    rows = table(children, (rng.random_sample(len(children)) * children).astype(np.int64))
    return Rows(rows[: nodes - 1], rows[nodes - 1 :])


def roads(rng: Random, edges: int, nodes: int, spare: float) -> dict[str, Rows]:
    """``(src, dst, length)`` between any two nodes, 1 to 100 long, and three sources that stay."""

    def draw(rng: Random, count: int) -> Array:
        return table(below(rng, nodes, count), below(rng, nodes, count), 1 + below(rng, 100, count))

    sources = table(np.arange(3, dtype=np.int64))
    return {"source": Rows(sources, sources[:0]), "road": drawn(rng, edges, spare, draw)}


def assemblies(rng: Random, links: int, depth: int, width: int, spare: float) -> dict[str, Rows]:
    """``(whole, part, quantity)`` from each of ``depth`` levels to the next one, and ``(part, cents)`` for parts of all
    levels, of which each has ``width``. One quantity in ten is 2, and the others are 1; a part may have several prices,
    which add up, or none."""

    def link(rng: Random, count: int) -> Array:
        whole = below(rng, depth * width, count)
        part = (whole // width + 1) * width + below(rng, width, count)
        return table(whole, part, 1 + (below(rng, 10, count) == 0).astype(np.int64))

    def price(rng: Random, count: int) -> Array:
        return table(below(rng, (depth + 1) * width, count), 1 + below(rng, 1_000, count))

    return {"contains": drawn(rng, links, spare, link), "price": drawn(rng, (depth + 1) * width, spare, price)}


def orders(rng: Random, rows: int, spare: float) -> dict[str, Rows]:
    """Of 100 rows 84 purchases, 12 customers, 3 products and one blocked customer; 40 regions, 250 categories."""
    purchases, customers, products = rows * 84 // 100, rows * 12 // 100, rows * 3 // 100
    buyers, goods = customers + more(customers, spare), products + more(products, spare)

    def numbered(count: int, *columns: int) -> Rows:
        total = count + more(count, spare)
        made = table(rng.permutation(total).astype(np.int64), *(below(rng, bound, total) for bound in columns))
        return Rows(made[:count], made[count:])

    return {
        "purchase": numbered(purchases, buyers, goods),
        "customer": numbered(customers, 40),
        "product": numbered(products, 250),
        "blocked": drawn(rng, rows // 100, spare, lambda rng, count: table(below(rng, buyers, count))),
    }


def program_facts(rng: Random, facts: int, variables: int, spare: float) -> dict[str, Rows]:
    """Facts of a synthetic program: of 100, 18 allocations, 72 assignments, 8 loads and 2 stores.

    Variables are numbered in the order of the text. A thousand after one another are a module, and assignments, loads
    and stores stay in one; each leads to a variable at most 100 behind the one it takes from. There are 20 fields. The
    number of variables decides how far objects get: with more per fact there are fewer tuples, and soon far fewer.
    """
    span, module, fields = 100, 1_000, 20

    def moved(rng: Random, count: int) -> tuple[Array, Array]:
        source = below(rng, variables, count)
        target = source + 1 + below(rng, span, count)
        inside = (target < variables) & (target // module == source // module)
        return source[inside], target[inside]

    def assign(rng: Random, count: int) -> Array:
        source, target = moved(rng, count)
        return table(target, source)

    def load(rng: Random, count: int) -> Array:
        base, target = moved(rng, count)
        return table(target, base, below(rng, fields, len(base)))

    def store(rng: Random, count: int) -> Array:
        source, base = moved(rng, count)
        return table(base, below(rng, fields, len(base)), source)

    objects = facts * 18 // 100
    total = objects + more(objects, spare)
    allocations = table(below(rng, variables, total), np.arange(total, dtype=np.int64))
    return {
        "alloc": Rows(allocations[:objects], allocations[objects:]),
        "assign": drawn(rng, facts * 72 // 100, spare, assign),
        "load": drawn(rng, facts * 8 // 100, spare, load),
        "store": drawn(rng, facts * 2 // 100, spare, store),
    }


def below(rng: Random, bound: int, count: int) -> Array:
    """``count`` numbers from 0 on, less than ``bound``."""
    return (rng.random_sample(count) * bound).astype(np.int64)


def table(*columns: Array) -> Array:
    """Rows of some columns."""
    return np.stack(columns, axis=1)


def more(count: int, spare: float) -> int:
    """How many rows a relation of ``count`` has to spare: half of what changes is inserted; rounding takes a few."""
    return round(count * spare / 2) + 10


def drawn(rng: Random, count: int, spare: float, draw: Callable[[Random, int], Array]) -> Rows:
    """``count`` rows and those to spare, all different, from a function that draws about as many as it is asked for."""
    total = count + more(count, spare)
    rows = distinct(draw(rng, total))
    while len(rows) < total:
        rows = distinct(np.concatenate([rows, draw(rng, total)]))
    return Rows(rows[:count], rows[count:total])


def distinct(rows: Array) -> Array:
    """Rows without repetition, each at its first place."""
    _, first = np.unique(rows, axis=0, return_index=True)
    return rows[np.sort(first)]
