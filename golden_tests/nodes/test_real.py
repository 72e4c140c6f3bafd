"""Nodes as real processes: links that are cut and mended while all live, and kills; in the end, all is as if one
process had computed it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from flintlog.runtime.processes.partition import Partition

from golden_tests.nightly import AT_NIGHT
from golden_tests.nodes.test_papers import PROGRAMS
from golden_tests.oracle.evaluate import evaluate
from golden_tests.oracle.language import Row, parse
from golden_tests.processes.real import RealWorld


@pytest.fixture
def worlds() -> Iterator[list[RealWorld]]:
    """The worlds of a test, ended with it."""
    made: list[RealWorld] = []
    yield made
    for world in made:
        world.close()


class Links:
    """A network of real nodes, one for each address, and the links between them."""

    def __init__(self, name: str, size: int, folder: Path) -> None:
        """Compile the program; no node runs yet."""
        self.text, self.rows = PROGRAMS[name], set[Row]()
        self.world = RealWorld(self.text, folder, nodes=Partition(size, {str(node): node for node in range(size)}))

    def change(self, *changes: tuple[str, Row]) -> None:
        """Cut links or mend them, each at its own node."""
        for node in sorted({row[0] for _, row in changes}):
            self.world.feed(f"node{node}", "link", [change for change in changes if change[1][0] == node])
        for op, row in changes:
            (self.rows.add if op == "+" else self.rows.discard)(row)

    def check(self) -> None:
        """All nodes together have what one evaluation finds."""
        self.world.wait()
        assert self.world.relations() == evaluate(parse(self.text), {"link": self.rows})


def test_best_costs(worlds: list[RealWorld], tmp_path: Path) -> None:
    """A triangle: a link fails and returns, one node is killed and returns elsewhere, another one at home."""
    net = Links("best_cost", 3, tmp_path)
    worlds.append(net.world)
    net.change(*(("+", (a, b, 1 + abs(a - b))) for a in range(3) for b in range(3) if a != b))
    net.world.start("node0", "node1", "node2")
    net.check()
    net.change(("-", (0, 1, 2)), ("-", (1, 0, 2)))
    net.world.kill("node1")
    net.change(("+", (0, 1, 5)))
    net.world.start_elsewhere("node1")
    net.check()
    net.world.kill("node2")
    net.change(("-", (2, 0, 3)))
    net.world.start("node2")
    net.check()


@pytest.mark.parametrize("name", ["path_vector", "reachable"])
@pytest.mark.parametrize("attempt", [pytest.param(attempt, marks=AT_NIGHT) for attempt in range(3)])
def test_kills(name: str, attempt: int, worlds: list[RealWorld], tmp_path: Path) -> None:
    """Five nodes in a ring with a chord, of which one after the other is killed while links fail and return."""
    net = Links(name, 5, tmp_path)
    worlds.append(net.world)
    pairs = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (1, 3)]
    cost: tuple[int, ...] = (1,) if name == "path_vector" else ()
    rows = [(*pair, *cost) for a, b in pairs for pair in ((a, b), (b, a))]
    net.change(*(("+", row) for row in rows))
    net.world.start(*(f"node{node}" for node in range(5)))
    net.check()
    for node in range(5):
        cut = [row for row in rows if {*row[:2]} == {*pairs[(node + attempt) % 6]}]
        net.change(*(("-", row) for row in cut))
        net.world.kill(f"node{node}")
        net.change(*(("+", row) for row in cut[:1]))
        if (node + attempt) % 2:
            net.world.start(f"node{node}")
        else:
            net.world.start_elsewhere(f"node{node}")
        net.check()
        net.change(*(("+", row) for row in cut[1:]))
    net.check()
