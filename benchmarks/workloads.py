"""The workloads that are measured, their rows and their batches of changes: the same on every machine.

A workload is a program of ``programs/``, the rows of its input relations, and what it answers. The same name finds its
query in ``duckdb_answers.py``, its loop in ``hand_loops.py`` and its program in ``souffle/``, unless Soufflé lacks what
it needs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import generators
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from generators import Array, Rows

PROGRAMS = Path(__file__).parent / "programs"
SEED = 5

INPUTS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "closure": {"link": ("src", "dst")},
    "same_generation": {"parent": ("child", "parent")},
    "points_to": {
        "alloc": ("var", "object"),
        "assign": ("target", "source"),
        "load": ("target", "base", "field"),
        "store": ("base", "field", "source"),
    },
    "orders": {
        "purchase": ("id", "customer", "product"),
        "customer": ("id", "region"),
        "product": ("id", "category"),
        "blocked": ("customer",),
    },
    "shortest_paths": {"source": ("node",), "road": ("src", "dst", "length")},
    "bill_of_materials": {"contains": ("whole", "part", "quantity"), "price": ("part", "cents")},
}
ANSWERS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "closure": {"reachable": ("src", "dst")},
    "same_generation": {"same": ("a", "b")},
    "points_to": {"points": ("var", "object"), "holds": ("base", "field", "object")},
    "orders": {"sold": ("region", "category", "orders")},
    "shortest_paths": {"distance": ("source", "node", "length")},
    "bill_of_materials": {"cost": ("part", "cents")},
}
"""The columns of a program's input relations, in the order of the generators' arrays, and of what it answers."""

WITHOUT_SOUFFLE = ("bill_of_materials",)
"""Programs that Soufflé refuses, since a sum is part of the recursion."""

BATCHES = (("apply 0.01 %", 0.0001), ("apply 1 %", 0.01))
"""Names of the steps after ``init`` and the share of the rows that each changes, half insertions, half deletions."""

MORE_BATCHES = (BATCHES[0], ("apply 0.1 %", 0.001), BATCHES[1])


@dataclass(frozen=True)
class Workload:
    """A program on data. ``make`` draws the rows of every input relation, and as many more, in shares of these, as its
    argument says: what batches insert."""

    name: str
    title: str
    program: str
    make: Callable[[np.random.RandomState, float], Mapping[str, Rows]]

    @property
    def source(self) -> Path:
        """The file of the program."""
        return PROGRAMS / f"{self.program}.dl"

    @property
    def inputs(self) -> Mapping[str, tuple[str, ...]]:
        """The columns of the input relations."""
        return INPUTS[self.program]

    @property
    def answers(self) -> Mapping[str, tuple[str, ...]]:
        """The columns of the relations that are compared."""
        return ANSWERS[self.program]


def closure(name: str, title: str, graph: generators.Graph) -> Workload:
    """The transitive closure of a graph."""
    return Workload(name, title, "closure", lambda rng, spare: {"link": graph(rng, spare)})


def cyclic(edges: int, nodes: int) -> Workload:
    """The closure of a random graph with cycles: most nodes reach most others."""
    return closure("cyclic", f"closure of a cyclic graph, {edges:,} edges", generators.cyclic(edges, nodes))


def forward(edges: int, nodes: int, span: int) -> Workload:
    """The closure of a random graph without cycles and with long paths."""
    return closure("forward", f"closure of a forward graph, {edges:,} edges", generators.forward(edges, nodes, span))


def same_generation(nodes: int) -> Workload:
    """Pairs of nodes at the same depth of a random tree."""
    return Workload(
        "same generation",
        f"same generation on a tree of {nodes:,} nodes",
        "same_generation",
        lambda rng, spare: {"parent": generators.tree(rng, nodes, spare)},
    )


def points_to(facts: int, variables: int) -> Workload:
    """What variables and fields may refer to in a synthetic program."""
    return Workload(
        "points-to",
        f"points-to, {facts:,} program facts",
        "points_to",
        lambda rng, spare: generators.program_facts(rng, facts, variables, spare),
    )


def orders(rows: int) -> Workload:
    """A join of three relations with negation and a count."""
    return Workload(
        "orders",
        f"three-way join with negation and a count, {rows:,} rows",
        "orders",
        lambda rng, spare: generators.orders(rng, rows, spare),
    )


def shortest_paths(edges: int, nodes: int) -> Workload:
    """Distances from three sources."""
    return Workload(
        "shortest paths",
        f"shortest paths with min, {edges:,} edges",
        "shortest_paths",
        lambda rng, spare: generators.roads(rng, edges, nodes, spare),
    )


def bill_of_materials(links: int, depth: int, width: int) -> Workload:
    """What the parts of a bill of materials cost: ``width`` on each level, made of parts one level below."""
    return Workload(
        "bill of materials",
        f"bill of materials with sum, {links:,} links, depth {depth}",
        "bill_of_materials",
        lambda rng, spare: generators.assemblies(rng, links, depth, width, spare),
    )


WORKLOADS = (
    cyclic(20_000, 3_490),
    forward(100_000, 90_000, 9_500),
    same_generation(12_200),
    points_to(50_000, 28_000),
    orders(5_000_000),
    shortest_paths(1_000_000, 250_000),
    bill_of_materials(1_000_000, 20, 12_500),
)
QUICK = (
    cyclic(400, 150),
    forward(1_000, 900, 100),
    same_generation(400),
    points_to(1_000, 600),
    orders(5_000),
    shortest_paths(2_000, 500),
    bill_of_materials(2_000, 5, 100),
)
TINY = (
    cyclic(40, 25),
    forward(60, 50, 12),
    same_generation(40),
    points_to(150, 60),
    orders(400),
    shortest_paths(120, 40),
    bill_of_materials(120, 4, 10),
)


@dataclass(frozen=True)
class Step:
    """The input relations after a step, and the changes that led there; ``init`` has none."""

    name: str
    tables: Mapping[str, Array]
    deleted: Mapping[str, Array]
    inserted: Mapping[str, Array]

    @property
    def batch(self) -> str:
        """The name as the ID of a batch and as the name of a folder."""
        return self.name.replace(" %", "").replace(" ", "-")

    @property
    def changes(self) -> int:
        """How many rows come and go."""
        return sum(map(len, self.deleted.values())) + sum(map(len, self.inserted.values()))


def steps(workload: Workload, batches: Sequence[tuple[str, float]] = BATCHES, apart: bool = False) -> Iterator[Step]:
    """``init`` and then each batch on what the step before left, or, if ``apart``, on what ``init`` left.

    A batch of less than one takes that share of all rows that may change, of each relation its part; one from 1 on is
    the number of its rows.
    """
    rng = np.random.RandomState(SEED)
    shares = [share if share < 1 else 0.1 for _, share in batches]
    known = workload.make(rng, max(shares) if apart else sum(shares))
    first = Step("init", {name: rows.first for name, rows in known.items()}, {}, {})
    yield first
    used = dict.fromkeys(known, 0)
    before = first
    changing = [name for name, rows in known.items() if len(rows.spare)]
    total = sum(len(known[name].first) for name in changing)
    for name, share in batches:
        wanted = max(1, round((total * share if share < 1 else share) / 2))
        counts = parts(wanted, [len(known[relation].first) for relation in changing])
        tables, deleted, inserted = dict(before.tables), {}, {}
        for relation, count in zip(changing, counts, strict=True):
            if not count:
                continue
            place = 0 if apart else used[relation]
            inserted[relation] = known[relation].spare[place : place + count]
            used[relation] = place + count
            gone = rng.permutation(len(tables[relation]))[:count]
            deleted[relation] = tables[relation][gone]
            kept = np.delete(tables[relation], gone, axis=0)
            tables[relation] = np.concatenate([kept, inserted[relation]])
        step = Step(name, tables, deleted, inserted)
        yield step
        before = first if apart else step


def steps_apart(workload: Workload, percents: Sequence[float]) -> Iterator[Step]:
    """Yield ``init`` and then, on its state, batches of these percentages of the rows, without those that have as many
    changes as the one before."""
    changes = None
    for step in steps(workload, [(f"apply {percent:g} %", percent / 100) for percent in percents], apart=True):
        if step.changes != changes:
            yield step
        changes = step.changes


def parts(total: int, weights: Sequence[int]) -> list[int]:
    """``total`` in whole parts, as proportional to ``weights`` as can be."""
    exact = [total * weight / sum(weights) for weight in weights]
    made = [math.floor(part) for part in exact]
    losses = sorted(range(len(weights)), key=lambda place: made[place] - exact[place])
    for place in losses[: total - sum(made)]:
        made[place] += 1
    return made


def write_tables(workload: Workload, step: Step, folder: Path) -> None:
    """Write the input relations after a step, a Parquet file each; all columns are 64-bit integers."""
    for name, rows in step.tables.items():
        _write(folder / f"{name}.parquet", columns_of(workload, name, rows))


def write_changes(workload: Workload, step: Step, folder: Path) -> None:
    """Write the changes of a step, a Parquet file per relation that changes, with ``op`` as first column."""
    for name, inserted in step.inserted.items():
        deleted = step.deleted[name]
        marks = pa.array(["-"] * len(deleted) + ["+"] * len(inserted))
        rows = np.concatenate([deleted, inserted])
        _write(folder / f"{name}.parquet", {"op": marks, **columns_of(workload, name, rows)})


def columns_of(workload: Workload, relation: str, rows: Array) -> dict[str, object]:
    """The columns of some rows of an input relation by their names."""
    return {column: rows[:, place] for place, column in enumerate(workload.inputs[relation])}


def _write(path: Path, columns: Mapping[str, object]) -> None:
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
