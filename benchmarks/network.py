"""Measure what live proofs cost in networks: tuples, messages and bytes; ``make bench-network`` runs this.

Programs of the papers run on networks with one node for each address: full meshes, rings, trees and a random graph.
Links go both ways unless it is said that they go one way. All nodes run in this process, as ``flintlog simulate`` runs
them: a message takes up to three ticks, and a node handles all that has arrived as one step. Everything is drawn from
fixed seeds, so the counts are the same in every run.

Each network is built; then a link fails and returns; then a node fails, and with it its links, at both ends. After
each step the tables of all nodes are compared with those of a single evaluation. What is counted:

* ``entries``: tuples with proofs that all nodes keep, or entries with derivation sets;
* ``messages``, and the ``tuples`` and ``bytes`` in them, deaths of base facts included; without the first messages of
  channels, which open them and are empty.

A measurement ends when a recursion at a node has more than ``--max-entries`` tuples or derivation sets. Networks that
are too large for derivation sets are measured without. Results replace those of the same network and program in
``build/bench-network/results.json``. ``--document`` writes to ``network.json`` instead, and the tables and the picture
into ``docs``.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import report
from flintlog.compiler.nodes import compile_nodes
from flintlog.compiler.source import SourceFile
from flintlog.local.simulated import SimulatedSession, total
from flintlog.runtime.addons.processes.partition import Partition
from flintlog.runtime.addons.processes.simulation import Network
from flintlog.runtime.addons.processes.transit import Transit
from flintlog.runtime.kernel.errors import JobError
from flintlog.targets.processes.nodes import nodes_of
from flintlog.targets.pyspark.load import load_program
from report import Grid, write_document
from rich.console import Console

HERE = Path(__file__).absolute().parent
RESULTS = HERE / "network.json"
DOCUMENT = HERE.parent / "docs" / "processes.md"
PICTURE = "processes-cost.svg"
METHODS = {"live proofs": "ranks", "derivation sets": "derivation-sets"}
LINK = "input relation link(@src: int, dst: int)\n"
COST = "input relation link(@src: int, dst: int, cost: int)\n"
PROGRAMS = {
    "reachable": f"""{LINK}output relation reachable(@src: int, dst: int)
reachable(@S, D) :- link(@S, D).
reachable(@S, D) :- link(@S, Z), reachable(@Z, D).
""",
    "shortest paths": f"""{COST}output relation best(@src: int, dst: int, cost: int)
best(@S, D, min<C>) :- link(@S, D, C).
best(@S, D, min<C>) :- link(@S, Z, C1), best(@Z, D, C2), C = C1 + C2.
""",
    "path-vector": f"""{COST}output relation path(@src: int, dst: int, nodes: list<int>, cost: int)
path(@S, D, P, C) :- link(@S, D, C), P = f_init(S, D), S != D.
path(@S, D, P, C) :- link(@S, Z, C1), path(@Z, D, P2, C2), f_inPath(P2, S) = false, C = C1 + C2,
    P = f_concatPath(S, P2).
""",
}
MOST_NODES_WITH_SETS = 15
"""Larger networks with derivation sets take hours, and only show that there are too many of them."""

STEPS = ("build", "link down", "link up", "node down")

console = Console() if sys.stdout.isatty() else Console(width=160)

Pair = tuple[int, int]
"""The numbers of two nodes."""


@dataclass(frozen=True)
class Case:
    """A program on a network: its shape, its number of nodes, and whether each link goes one way only."""

    program: str
    shape: str
    nodes: int
    one_way: bool = False

    @property
    def network(self) -> str:
        """What a table calls the network."""
        return f"{self.shape} of {self.nodes}{', one way' if self.one_way else ''}"

    def pairs(self) -> list[Pair]:
        """Return the pairs of nodes between which there is a link."""
        return SHAPES[self.shape](self.nodes, random.Random(self.nodes))

    def links(self) -> list[tuple[int, ...]]:
        """Return the rows of the links, with random costs from 1 to 9 if the program has costs."""
        rng = random.Random(self.nodes)
        found: list[tuple[int, ...]] = []
        for a, b in self.pairs():
            cost = () if self.program == "reachable" else (rng.randint(1, 9),)
            found += [(a, b, *cost)] if self.one_way else [(a, b, *cost), (b, a, *cost)]
        return found


@dataclass(frozen=True)
class Measurement:
    """A step of a case by one method: what the nodes keep after it, and what was sent. ``ended`` says why a measurement
    did not come to its end."""

    program: str
    network: str
    nodes: int
    method: str
    step: str
    result: int
    entries: int
    messages: int
    tuples: int
    bytes: int
    seconds: float
    ended: str = ""


def mesh(nodes: int, _: random.Random) -> list[Pair]:
    """Return all pairs."""
    return [(a, b) for b in range(nodes) for a in range(b)]


def ring(nodes: int, _: random.Random) -> list[Pair]:
    """Return the pairs of neighbours on a circle."""
    return [(node, (node + 1) % nodes) for node in range(nodes)]


def tree(nodes: int, _: random.Random) -> list[Pair]:
    """Return the pairs of parents and children in a binary tree."""
    return [((node - 1) // 2, node) for node in range(1, nodes)]


def random_graph(nodes: int, rng: random.Random) -> list[Pair]:
    """Return the pairs of a connected graph: a random tree, and half as many other pairs."""
    pairs = {(rng.randrange(node), node) for node in range(1, nodes)}
    while len(pairs) < 3 * nodes // 2:
        a, b = sorted(rng.sample(range(nodes), 2))
        pairs.add((a, b))
    return sorted(pairs)


SHAPES: dict[str, Callable[[int, random.Random], list[Pair]]] = {
    "mesh": mesh,
    "ring": ring,
    "tree": tree,
    "random graph": random_graph,
}
MESHES = (4, 5, 6, 8, 12, 16, 24)
EVERYWHERE = (("ring", 12), ("ring", 30), ("tree", 15), ("tree", 31), ("random graph", 100))
CASES = (
    *(Case("reachable", "mesh", nodes) for nodes in MESHES),
    *(Case("reachable", *network) for network in EVERYWHERE),
    Case("reachable", "ring", 12, True),
    Case("reachable", "mesh", 8, True),
    *(Case("shortest paths", "mesh", nodes) for nodes in MESHES),
    *(Case("shortest paths", *network) for network in EVERYWHERE),
    Case("shortest paths", "ring", 12, True),
    Case("shortest paths", "mesh", 8, True),
    *(Case("path-vector", "mesh", nodes) for nodes in (3, 4, 5, 6)),
)
QUICK = (
    Case("reachable", "mesh", 4),
    Case("reachable", "ring", 4, True),
    Case("shortest paths", "tree", 5),
    Case("path-vector", "mesh", 3),
)


class WrongTables(Exception):
    """The tables of the nodes are not those of a single evaluation."""


class Run:
    """A case that is run by one method."""

    def __init__(self, case: Case, method: str, max_entries: int) -> None:
        """Start the nodes, and let them open their channels."""
        self.case, self.method, self.max_entries = case, method, max_entries
        source = SourceFile("network.dl", PROGRAMS[case.program])
        found = compile_nodes(source, recursion=METHODS[method])
        partition = Partition(case.nodes, {str(node): node for node in range(case.nodes)})
        nodes = nodes_of(found.node.plan.program, partition)
        self.network = Network(load_program(found.node.plan), nodes, Transit(1), max_entries=max_entries)
        self.session = SimulatedSession(
            load_program(compile_nodes(source).whole.plan), self.network, 0, lambda _: None, {}
        )
        self.network.settle()

    def steps(self) -> Iterator[tuple[str, list[tuple[str, tuple[int, ...]]]]]:
        """Yield the changes of the links in each step."""
        rows, rng = self.case.links(), random.Random(self.case.nodes)
        one = {*rng.choice(rows)[:2]}
        node = rng.randrange(self.case.nodes)
        link = [row for row in rows if {*row[:2]} == one]
        yield "build", [("+", row) for row in rows]
        yield "link down", [("-", row) for row in link]
        yield "link up", [("+", row) for row in link]
        yield "node down", [("-", row) for row in rows if node in row[:2]]

    def measure(self) -> Iterator[Measurement]:
        """Yield a measurement for each step; the last one says so if the others were not reached."""
        for step, changes in self.steps():
            before, began = total(self.network), time.monotonic()
            ended = ""
            try:
                self.session.apply({"link": changes})
            except JobError as error:
                if f"more than {self.max_entries} " not in str(error):
                    raise
                ended = f"over {self.max_entries:,} entries"
            after, seconds = total(self.network), time.monotonic() - began
            if not ended and self.session.wrong:
                raise WrongTables(f"{self.case}, {self.method}, {step}")
            yield Measurement(
                self.case.program,
                self.case.network,
                self.case.nodes,
                self.method,
                step,
                sum(len(rows) for name, rows in self.network.tables().items() if name != "link"),
                sum(map(self.session.kept, self.network.running)),
                after.messages - before.messages,
                after.rows - before.rows,
                after.bytes - before.bytes,
                round(seconds, 2),
                ended,
            )
            if ended:
                return

    def close(self) -> None:
        """Close all databases."""
        self.network.close()
        self.session.engine.close()


# Tables and pictures


def cost_grid(measured: Sequence[Measurement]) -> Grid:
    """Return what live proofs cost: for each network the tuples derived, the entries, and what each step sent."""
    headings = ("program", "network", "tuples", "entries", "build", "link down", "node down")
    rows = []
    shown = ""
    for steps in by_case(measured, "live proofs"):
        first = next(iter(steps.values()))
        cells = [sent(steps.get(step)) for step in ("build", "link down", "node down")]
        label = first.program if first.program != shown else ""
        shown = first.program
        rows.append((label, first.network, f"{first.result:,}", f"{first.entries:,}", *cells))
    return Grid("network", "Entries, messages and kilobytes with live proofs", headings, rows)


def sets_grid(measured: Sequence[Measurement]) -> Grid:
    """Return both methods side by side: entries once a network is built, and the tuples sent by each step."""
    headings = ("network", "entries", "with sets", "build", "with sets", "link down", "with sets")
    rows = []
    proofs = {next(iter(steps.values())).network: steps for steps in by_case(measured, "live proofs", "reachable")}
    for steps in by_case(measured, "derivation sets", "reachable"):
        network = next(iter(steps.values())).network
        pairs = [(proofs.get(network, {}).get(step), steps.get(step)) for step in ("build", "link down")]
        cells = [kept(one) for one in pairs[0]] + [tuples(one) for pair in pairs for one in pair]
        rows.append((network, *cells))
    return Grid("network sets", "Live proofs and derivation sets", headings, rows)


def by_case(measured: Sequence[Measurement], method: str, program: str = "") -> Iterator[dict[str, Measurement]]:
    """Yield, for each case of a method and, if named, a program, its measurements by step."""
    known = [one for one in measured if one.method == method and one.program in (program or one.program,)]
    for case in dict.fromkeys((one.program, one.network) for one in known):
        yield {one.step: one for one in known if (one.program, one.network) == case}


def sent(one: Measurement | None) -> str:
    """Return the messages of a step, and their kilobytes."""
    if one is None or one.ended:
        return one.ended if one else ""
    return f"{one.messages:,} ({one.bytes / 1000:,.0f} kB)"


def kept(one: Measurement | None) -> str:
    """Return the entries after a step."""
    return "" if one is None else one.ended or f"{one.entries:,}"


def tuples(one: Measurement | None) -> str:
    """Return the tuples that a step sent."""
    return "" if one is None or one.ended else f"{one.tuples:,}"


def draw(measured: Sequence[Measurement], path: Path) -> Path | None:
    """Draw entries and messages over the nodes of full meshes; return None if Matplotlib is not installed."""
    if not report.ready_to_draw():
        return None
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
    for program in PROGRAMS:
        for method, style in (("live proofs", "o-"), ("derivation sets", "x--")):
            built = [one for one in meshes(measured, program, method) if one.step == "build" and not one.ended]
            if built:
                label = f"{program}, {method}"
                left.plot([one.nodes for one in built], [one.entries for one in built], style, label=label)
    for step in ("build", "link down", "node down"):
        steps = [one for one in meshes(measured, "reachable", "live proofs") if one.step == step and not one.ended]
        right.plot([one.nodes for one in steps], [one.messages for one in steps], "o-", label=step)
    left.set(yscale="log", xlabel="nodes of a full mesh", ylabel="entries")
    right.set(yscale="log", xlabel="nodes of a full mesh", ylabel="messages, reachable")
    left.legend()
    right.legend()
    return report.save(figure, path)


def meshes(measured: Sequence[Measurement], program: str, method: str) -> list[Measurement]:
    """Return the measurements of a program on full meshes."""
    wanted = (program, method)
    return [one for one in measured if (one.program, one.method) == wanted and one.network == f"mesh of {one.nodes}"]


# Results


def load(path: Path) -> list[Measurement]:
    """Return the measurements in a file, none if there is no file."""
    return [Measurement(**one) for one in json.loads(path.read_text(encoding="utf-8"))] if path.exists() else []


def merged(before: Sequence[Measurement], now: Sequence[Measurement]) -> list[Measurement]:
    """Return all measurements in the order of the cases, those of now in place of earlier ones of the same case."""
    new = {(one.program, one.network, one.method) for one in now}
    kept = [one for one in before if (one.program, one.network, one.method) not in new]
    order = [(case.program, case.network) for case in (*CASES, *QUICK)]
    known = {pair: place for place, pair in reversed([*enumerate(order)])}
    return sorted([*kept, *now], key=lambda one: known.get((one.program, one.network), len(order)))


def as_json(measured: Sequence[Measurement]) -> str:
    """Return measurements as JSON, one per line."""
    return "[\n" + ",\n".join(json.dumps(asdict(one)) for one in measured) + "\n]\n"


def chosen(options: argparse.Namespace) -> Iterator[tuple[Case, str]]:
    """Yield what is to be measured; derivation sets cover only programs that compute nothing, and small networks."""
    for case in QUICK if options.quick else CASES:
        if options.program in (None, case.program) and (options.network or "") in case.network:
            for method in METHODS:
                if options.method in (None, method) and is_measured(case, method):
                    yield case, method


def is_measured(case: Case, method: str) -> bool:
    """Return whether a case is measured by a method."""
    return method == "live proofs" or (case.program == "reachable" and case.nodes <= MOST_NODES_WITH_SETS)


def main() -> int:
    """Measure, print tables and write the results; 1 if tables of nodes were wrong."""
    parser = argparse.ArgumentParser(description="Measure entries, messages and bytes of programs on networks.")
    parser.add_argument("--program", choices=PROGRAMS, help="only this one")
    parser.add_argument("--network", help="only networks whose names contain this, such as 'mesh' or 'mesh of 8'")
    parser.add_argument("--method", choices=METHODS, help="only this one")
    parser.add_argument("--quick", action="store_true", help="small networks, to see that everything runs")
    parser.add_argument("--max-entries", type=int, default=5_000, help="of a node (default: %(default)s)")
    parser.add_argument("--document", action="store_true", help="put results in network.json and docs/processes.md")
    parser.add_argument("--report", action="store_true", help="measure nothing, write tables and the picture anew")
    parser.add_argument(
        "--folder", type=Path, default=Path("build/bench-network"), help="where results go (default: %(default)s)"
    )
    options = parser.parse_args()
    place = RESULTS if options.document else options.folder.absolute() / "results.json"
    place.parent.mkdir(parents=True, exist_ok=True)
    measured = load(place)
    for case, method in () if options.report else chosen(options):
        run = Run(case, method, options.max_entries)
        try:
            now = list(run.measure())
        except WrongTables as error:
            console.print(f"error: {error}", style="red", markup=False)
            return 1
        finally:
            run.close()
        console.print(f"{case.program}, {case.network}, {method}: {sum(one.seconds for one in now):.1f} s")
        measured = merged(measured, now)
        place.write_text(as_json(measured), encoding="utf-8")
    grids = [grid for grid in (cost_grid(measured), sets_grid(measured)) if grid.rows]
    for grid in grids:
        console.print()
        console.print(grid.rich())
    if options.document:
        write_document(DOCUMENT, grids)
        draw(measured, DOCUMENT.parent / PICTURE)
    console.print(f"written: {place}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
