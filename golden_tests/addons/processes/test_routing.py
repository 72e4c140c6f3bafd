"""The routers of ``examples/routing``: after any accidents each has the routes that a search finds."""

from __future__ import annotations

import heapq
import random
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from golden_tests.addons.processes.model import World, evaluated
from golden_tests.documentation.pages import pieces
from golden_tests.nightly import AT_NIGHT, by_day, numbers
from golden_tests.oracle.language import Row

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples" / "routing"
ROUTING, FLOODING = ((EXAMPLES / f"{name}.dl").read_text(encoding="utf-8") for name in ("routing", "flooding"))
NAMES = ("R1", "R2", "R3")

Links = dict[tuple[str, str], int]
"""The cost of each link, by its ends in the order of their names."""


def test_the_page_shows_the_examples() -> None:
    """What readers copy is what is tested."""
    page = (ROOT / "docs" / "guides" / "routing_tables.md").read_text(encoding="utf-8")
    shown = {Path(piece.what).name: piece.text for piece in pieces(page) if piece.mark == "file"}
    assert shown["routing.dl"] == ROUTING
    assert shown["story.py"] == (EXAMPLES / "story.py").read_text(encoding="utf-8")
    (part,) = (piece.text for piece in pieces(page) if piece.text.startswith("  Router.map(me"))
    assert part in FLOODING


def reached(source: str, start: str, links: Links) -> dict[str, int]:
    """The least cost of each router from ``start``, without going through ``source``."""
    costs: dict[str, int] = {}
    waiting = [(0, start)]
    while waiting:
        cost, at = heapq.heappop(waiting)
        if at in costs:
            continue
        costs[at] = cost
        for (a, b), more in links.items():
            if at in (a, b) and source not in (a, b):
                heapq.heappush(waiting, (cost + more, b if at == a else a))
    return costs


def routes(me: str, links: Links, nets: dict[str, str]) -> set[Row]:
    """The routes of a router."""
    found: dict[str, set[tuple[int, str]]] = {}
    for (a, b), cost in links.items():
        if me in (a, b):
            neighbour = b if me == a else a
            for router, more in reached(me, neighbour, links).items():
                if nets[router] != nets[me]:
                    found.setdefault(nets[router], set()).add((cost + more, neighbour))
    return {(prefix, *way) for prefix, ways in found.items() for way in ways if way[0] == min(ways)[0]}


def tell(world: World, before: Links, now: Links) -> None:
    """Feed what has changed in the links, at both ends."""
    for name in NAMES:
        old, new = (
            {(b if name == a else a, cost) for (a, b), cost in links.items() if name in (a, b)}
            for links in (before, now)
        )
        changes = [*(("-", row) for row in sorted(old - new)), *(("+", row) for row in sorted(new - old))]
        if changes:
            world.feed(name, "link", ("neighbour", "cost"), changes)


@AT_NIGHT
@pytest.mark.parametrize("seed", [1, *numbers(0, 8, 2)])
def test_routes(seed: int, tmp_path: Path) -> None:
    """Links come and go, routers are killed and come back, with what they had or with nothing."""
    rng = random.Random(seed)
    world = World(ROUTING, tmp_path / "world", rng, rng.choice([0.0, 20.0]))
    nets = {name: rng.choice([f"10.{name[1]}.0.0/16", "10.9.0.0/16"]) for name in NAMES}
    links: Links = {}
    try:
        for name, prefix in nets.items():
            world.feed(name, "net", ("prefix",), [("+", (prefix,))])
        for _ in range(4):
            before = dict(links)
            for pair in (("R1", "R2"), ("R1", "R3"), ("R2", "R3")):
                if rng.random() < 0.7:
                    links[pair] = rng.randint(1, 3)
                else:
                    links.pop(pair, None)
            tell(world, before, links)
            world.stir()
            world.settle()
            found = world.relations()
            for name in NAMES:
                assert found[f"{name}.route"] == routes(name, links, nets)
    finally:
        world.close()


def with_routers(program: str, names: Iterable[str]) -> str:
    """The program that floods, with other routers."""
    rule = re.search(r'^  .*"R1", _\).*\n', program, re.MULTILINE)
    assert rule is not None
    text = re.sub(r'^(  .*"R\d", _\).*|process R\d = .*)\n', "", program, flags=re.MULTILINE)
    rules = "".join(rule[0].replace("R1", name) for name in names)
    routers = "".join(f'process {name} = Router("{name}")\n' for name in names)
    return text.replace("  edge(", f"{rules}  edge(", 1) + routers


@by_day(1)
@pytest.mark.parametrize(
    ("links", "proofs"),
    [
        pytest.param(["R1 R2", "R2 R3"], 4, marks=AT_NIGHT),
        (["R1 R2", "R2 R3", "R1 R3"], 6),
        pytest.param(["R1 R2", "R2 R3", "R3 R4", "R1 R4"], 8, marks=AT_NIGHT),
    ],
)
def test_flooding(links: list[str], proofs: int, tmp_path: Path) -> None:
    """What the page says about the proofs that routers keep of what they have heard."""
    names = sorted({name for link in links for name in link.split()})
    world = World(with_routers(FLOODING, names), tmp_path / "world", random.Random(1))
    inputs: dict[tuple[str, str], set[Row]] = {}
    try:
        for name in names:
            rows = {(other, 10) for link in links if name in link.split() for other in link.split() if other != name}
            inputs[name, "link"] = set(rows)
            world.feed(name, "link", ("neighbour", "cost"), [("+", row) for row in sorted(rows)])
        world.settle()
        assert world.relations() == evaluated(world.compiled, inputs)
        for name in names:
            assert len(world.states[name].tuples(f"{name}.map_proofs")) == proofs
        if names == list(NAMES):
            assert with_routers(FLOODING, names) == FLOODING
    finally:
        world.close()
