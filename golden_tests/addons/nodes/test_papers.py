"""The programs of the papers, as they print them, on nodes: built, changed, cut and mended."""

from __future__ import annotations

import random
from typing import Any

import pytest
from flintlog.compiler.ir.syntax import RECURSIONS
from flintlog.runtime.addons.processes.simulation import Network

from golden_tests.addons.nodes.test_simulation import network_of
from golden_tests.nightly import AT_NIGHT, by_day, numbers, one_in
from golden_tests.oracle.evaluate import evaluate
from golden_tests.oracle.language import Program, Row, parse

LINK = "input relation link(@a: int, b: int)\n"
COST = "input relation link(@a: int, b: int, c: int)\n"
PROGRAMS = {
    # Nigam et al. 2010, section 2.
    "reachable": f"""{LINK}output relation reachable(@a: int, b: int)
r1: reachable(@S, D) :- link(@S, D).
r2: reachable(@S, D) :- link(@S, Z), reachable(@Z, D).
""",
    # The same, rewritten there; it follows links backwards, which is right if each has its reverse.
    "rewritten": """input relation link(@a: int, b: int) symmetric
output relation reachable(@a: int, b: int)
r1: reachable(@S, D) :- link(@S, D).
r2: reachable(@S, D) :- link(@S, Z), reachable(@Z, D).
""",
    "hops": f"""{LINK}output relation hop(@a: int, b: int)
output relation tri_hop(@a: int, b: int)
hop(@X, Y) :- link(@X, Z), link(@Z, Y).
tri_hop(@X, Y) :- hop(@X, Z), link(@Z, Y).
""",
    # Section 5 there: a cycle of three nodes, fed by one fact.
    "cycle": """input relation a(@x: int)
output relation p(@x: int)
output relation q(@x: int)
p(@1) :- a(@0).
q(@2) :- p(@1).
p(@1) :- q(@2).
""",
    # Nigam et al. 2010, "An operational semantics for network Datalog", section 2.
    "path_vector": f"""{COST}output relation path(@s: int, d: int, p: list<int>, c: int)
r1: path(@S, D, P, C) :- link(@S, D, C), P = f_init(S, D), S != D.
r2: path(@S, D, P, C) :- link(@S, Z, C1), path(@Z, D, P2, C2), C = C1 + C2, P = f_concatPath(S, P2),
    f_inPath(P2, S) = false.
""",
    # What they announce as the next step.
    "best_cost": f"""{COST}output relation best(@s: int, d: int, c: int)
best(@S, D, min<C>) :- link(@S, D, C).
best(@S, D, min<C>) :- link(@S, Z, C1), best(@Z, D, C2), C = C1 + C2.
""",
}


@by_day(2)
@pytest.mark.parametrize("seed", numbers(1, 6, 1))
@pytest.mark.parametrize("name", one_in(PROGRAMS, 3))
def test_programs_of_papers(name: str, seed: int) -> None:
    """Links come and go at both ends at once, and nodes are killed and return with what they had or with nothing."""
    run(name, seed, 3 if name == "path_vector" else 4, RECURSIONS[0])


@AT_NIGHT
@pytest.mark.parametrize("seed", numbers(1, 6, 1))
@pytest.mark.parametrize("name", one_in(["rewritten", "reachable", "hops", "cycle"], 4))
def test_derivation_sets(name: str, seed: int) -> None:
    """The same with derivation sets, for programs that compute nothing."""
    run(name, seed, 3, "derivation-sets")


def run(name: str, seed: int, size: int, recursion: str) -> None:
    """Take a program on a number of nodes through bursts of changes and kills."""
    rng, text, program = random.Random(f"{name} {seed}"), PROGRAMS[name], program_named(name)
    network = network_of(text, size, list(range(size)), rng, recursion)
    inputs: dict[str, set[Row]] = {relation.name: set() for relation in program.inputs}
    try:
        for _ in range(3):
            burst: dict[str, list[tuple[str, Row]]] = {}
            for relation in program.inputs:
                old, new = inputs[relation.name], random_rows(name, size, rng)
                inputs[relation.name] = new
                burst[relation.name] = [*(("-", r) for r in sorted(old - new)), *(("+", r) for r in sorted(new - old))]
            network.feed(burst)
            accident(network, rng)
            network.settle(2000)
            found = network.tables()
            expected = evaluate(program, inputs)
            assert {known: found[known] for known in expected} == expected
        assert not any(node.session.differences() for node in network.running.values())
    finally:
        network.close()


def program_named(name: str) -> Program:
    """Return a program for the oracle, which does not need to know that links are symmetric."""
    return parse(PROGRAMS[name].replace(" symmetric", ""))


def random_rows(name: str, size: int, rng: random.Random) -> set[Row]:
    """Return about half of the rows that the one input of a program may have: at most one cost per link, and each link
    in both directions if they are symmetric."""
    (relation,) = program_named(name).inputs
    new = {row for row in possible(relation.columns, size) if rng.random() < 0.5}
    if name == "rewritten":
        new |= {(b, a) for a, b in new}
    if name in ("path_vector", "best_cost"):
        new = set({row[:2]: row for row in sorted(new)}.values())
    return new


def possible(columns: tuple[Any, ...], size: int) -> list[Row]:
    """Return all rows of an input over a number of addresses; costs are at most 2."""
    rows: list[Row] = [()]
    for column in columns:
        values = range(3) if column.name == "c" else range(size)
        rows = [(*row, value) for row in rows for value in values]
    return rows


def accident(network: Network, rng: random.Random) -> None:
    """Kill a node in the middle of what happens, and let it return later."""
    for _ in range(rng.randint(0, 3)):
        network.tick()
    node = rng.choice(sorted(network.running))
    saved = network.kill(node)
    for _ in range(rng.randint(0, 3)):
        network.tick()
    network.start(node, rng.choice([saved, None]))
