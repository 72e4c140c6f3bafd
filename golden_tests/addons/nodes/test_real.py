"""Nodes as real processes: links that are cut and mended while all live, and kills; in the end, all is as if one
process had computed it."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Collection
from pathlib import Path

import pytest
from flintlog.compiler.ir.syntax import RECURSIONS
from flintlog.runtime.addons.processes.partition import Partition

from golden_tests.addons.nodes.test_papers import PROGRAMS, program_named, random_rows
from golden_tests.addons.processes.real import RealWorld
from golden_tests.addons.processes.test_real import until
from golden_tests.nightly import AT_NIGHT
from golden_tests.oracle.evaluate import evaluate
from golden_tests.oracle.language import Row

#: For each step of a mesh of eight nodes, on two cores.
SECONDS = 60.0


class Net:
    """A network of real nodes, one for each address, and the rows of their one input."""

    def __init__(
        self,
        name: str,
        size: int,
        folder: Path,
        worlds: list[RealWorld],
        unreliable: bool = False,
        recursion: str = RECURSIONS[0],
    ) -> None:
        """Compile a program of the papers; no node runs yet."""
        self.program, self.rows = program_named(name), set[Row]()
        partition = Partition(size, {str(node): node for node in range(size)})
        self.world = RealWorld(PROGRAMS[name], folder, (), unreliable, partition, recursion)
        worlds.append(self.world)
        self.nodes = [f"node{node}" for node in range(size)]

    def change(self, *changes: tuple[str, Row]) -> None:
        """Cut links or mend them, each at its own node."""
        (relation,) = self.program.inputs
        for node in sorted({row[0] for _, row in changes}):
            self.world.feed(f"node{node}", relation.name, [change for change in changes if change[1][0] == node])
        for op, row in changes:
            (self.rows.add if op == "+" else self.rows.discard)(row)

    def become(self, rows: Collection[Row]) -> None:
        """Change the rows to these."""
        new = set(rows)
        self.change(*(("-", row) for row in sorted(self.rows - new)), *(("+", row) for row in sorted(new - self.rows)))

    def check(self, seconds: float = 180.0) -> float:
        """Compare what all nodes together have with one evaluation; return how long it took them to be quiet."""
        (relation,), began = self.program.inputs, time.monotonic()
        self.world.wait(seconds)
        took = time.monotonic() - began
        assert self.world.relations() == evaluate(self.program, {relation.name: self.rows})
        return took


def test_best_costs(worlds: list[RealWorld], tmp_path: Path) -> None:
    """A triangle: a link fails and returns, one node is killed and returns elsewhere, another one at home."""
    net = Net("best_cost", 3, tmp_path, worlds)
    net.change(*(("+", (a, b, 1 + abs(a - b))) for a in range(3) for b in range(3) if a != b))
    net.world.start(*net.nodes)
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


@pytest.mark.parametrize("attempt", [pytest.param(attempt, marks=AT_NIGHT) for attempt in range(3)])
def test_router(attempt: int, worlds: list[RealWorld], tmp_path: Path) -> None:
    """Links are fed to a router, which is killed now and then, as nodes are; ``show`` gathers what all nodes have."""
    net, rng = Net("best_cost", 3, tmp_path, worlds), random.Random(attempt)
    (relation,) = net.program.inputs
    possible = [(a, b, cost) for a in range(3) for b in range(3) if a != b for cost in (1, 2)]
    net.world.start("router", *net.nodes)
    for number in range(12):
        new = {row[:2]: row for row in rng.sample(possible, 7)}
        changes = [("-", row) for row in sorted(net.rows - {*new.values()})]
        changes += [("+", row) for row in sorted({*new.values()} - net.rows)]
        net.rows = {*new.values()}
        lines = [",".join(map(str, row)) for row in [("op", *(c.name for c in relation.columns))]]
        lines += [",".join(map(str, (op, *row))) for op, row in changes]
        net.world.local.feed("router", relation.name, f"{number:03d}.csv", "".join(f"{line}\n" for line in lines))
        if number % 3:
            time.sleep(rng.uniform(0.0, 0.4))
            name = rng.choice(["router", "router", *net.nodes])
            net.world.kill(name)
            net.world.start(name)
        if number % 6 == 5:
            net.check()
    ((output, expected),) = evaluate(net.program, {relation.name: net.rows}).items()
    command = [sys.executable, str(net.world.jobs / "test.py"), "show", output, "--root", str(tmp_path / "root")]
    shown = subprocess.run([*command, "--nodes", "--format", "json"], capture_output=True, text=True, check=True)
    rows = [tuple(json.loads(line).values()) for line in shown.stdout.splitlines()]
    assert {row[:-1] for row in rows} == expected
    assert all(row[-1] == f"node{row[0]}" for row in rows)


@pytest.mark.parametrize("name", ["path_vector", "reachable"])
@pytest.mark.parametrize("attempt", [pytest.param(attempt, marks=AT_NIGHT) for attempt in range(3)])
def test_kills(name: str, attempt: int, worlds: list[RealWorld], tmp_path: Path) -> None:
    """Five nodes in a ring with a chord, of which one after the other is killed while links fail and return."""
    net = Net(name, 5, tmp_path, worlds)
    pairs = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (1, 3)]
    cost: tuple[int, ...] = (1,) if name == "path_vector" else ()
    rows = [(*pair, *cost) for a, b in pairs for pair in ((a, b), (b, a))]
    net.change(*(("+", row) for row in rows))
    net.world.start(*net.nodes)
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


@AT_NIGHT
@pytest.mark.parametrize("attempt", range(2))
@pytest.mark.parametrize(
    ("name", "recursion"), [*((name, RECURSIONS[0]) for name in PROGRAMS), ("reachable", "derivation-sets")]
)
def test_races(name: str, recursion: str, attempt: int, worlds: list[RealWorld], tmp_path: Path) -> None:
    """Links in any direction come and go at all nodes at once, while messages are late, out of order and repeated, and
    a node is killed and returns; without any of it, nothing is left."""
    rng = random.Random(f"{name} {attempt}")
    size = 3 if name == "path_vector" or recursion != RECURSIONS[0] else 4
    net = Net(name, size, tmp_path, worlds, unreliable=True, recursion=recursion)
    net.world.start(*net.nodes)
    for turn in range(6):
        net.become(random_rows(name, len(net.nodes), rng))
        time.sleep(rng.random())
        if turn in (2, 4):
            node = rng.choice(net.nodes)
            net.world.kill(node)
            time.sleep(rng.choice([0, 0.5, 4]))
            rng.choice([net.world.start, net.world.start_elsewhere])(node)
    net.check()
    net.become(())
    net.check()
    assert not any(net.world.relations().values())


@AT_NIGHT
def test_mesh(worlds: list[RealWorld], tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    """Eight nodes, all linked to all: each step, such as the failure of a link or a node, is over within a minute."""
    net = Net("reachable", 8, tmp_path, worlds)
    links = {(a, b) for a in range(8) for b in range(8) if a != b}

    def within_time(step: str) -> None:
        record_property(step, net.check(SECONDS))

    net.become(links)
    net.world.start(*net.nodes)
    within_time("build")
    net.become({link for link in links if {*link} != {2, 5}})
    within_time("link down")
    net.become(links)
    within_time("link up")
    for step, start in (("with its home", net.world.start), ("without", net.world.start_elsewhere)):
        net.world.kill("node3")
        net.become({link for link in links if 3 not in link})
        start("node3")
        within_time(f"a node killed and returned {step}")
        net.become(links)
        within_time(f"its links return {step}")


@pytest.mark.parametrize("name", ["path_vector", "reachable"])
@pytest.mark.parametrize("attempt", [pytest.param(attempt, marks=AT_NIGHT) for attempt in range(2)])
def test_channels_that_are_cut(name: str, attempt: int, worlds: list[RealWorld], tmp_path: Path) -> None:
    """Four nodes in a ring, all of which live, while one channel after the other between two of them is cut and mended,
    and links fail and return."""
    net = Net(name, 4, tmp_path, worlds)
    cost: tuple[int, ...] = (1,) if name == "path_vector" else ()
    rows = [(*pair, *cost) for a in range(4) for pair in ((a, (a + 1) % 4), ((a + 1) % 4, a))]
    net.change(*(("+", row) for row in rows))
    net.world.start(*net.nodes)
    net.check()
    sender, reader = f"node{attempt}", f"node{attempt + 1}"
    channels = sorted((net.world.local.root / "channels").glob(f"{sender}.*--{reader}"))
    assert any("dead" in path.name for path in channels) and len(channels) > 1
    for place, channel in enumerate(channels):
        net.world.sever(channel.name)
        cut = rows[2 * place : 2 * place + 2]
        net.change(*(("-", row) for row in cut))
        until("it is noticed", lambda at=channel.name: net.world.local.status(reader)["receives"][at]["state"] == "cut")
        net.change(*(("+", row) for row in cut[:1]))
        net.world.mend(channel.name)
        until("it is back", lambda at=channel.name: net.world.local.status(reader)["receives"][at]["state"] == "open")
        net.check()
        net.change(*(("+", row) for row in cut[1:]))
    net.check()
