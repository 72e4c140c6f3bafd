"""Random located programs on nodes whose messages are delayed, reordered and repeated, and that are killed and return:
in the end all is as if one process had computed it."""

from __future__ import annotations

import random
from typing import Any

import pytest
from flintlog.compiler.nodes import compile_nodes
from flintlog.compiler.source import SourceFile
from flintlog.runtime.local.simulation import Network
from flintlog.runtime.processes.partition import Partition
from flintlog.targets.processes.nodes import nodes_of
from flintlog.targets.pyspark.load import load_program

from golden_tests.nightly import seeds
from golden_tests.nodes.programs import INPUTS, located_program
from golden_tests.oracle.evaluate import evaluate
from golden_tests.oracle.language import Row, parse


def network_of(text: str, count: int, addresses: list[Any], rng: random.Random) -> Network:
    """Return the nodes of a program; some of the addresses are given to nodes, the others are hashed."""
    found = compile_nodes(SourceFile("test.dl", text))
    known = {str(address): rng.randrange(count) for address in addresses if rng.random() < 0.7}
    nodes = nodes_of(found.node.plan.program, Partition(count, known))
    return Network(load_program(found.node.plan), nodes, rng.randrange(10**6), delay=rng.choice([1, 2, 4]))


def run(seed: int) -> int:
    """Take a random program through bursts of changes, with nodes that are killed; return how often it was compared."""
    rng = random.Random(seed)
    address = rng.choice(["int", "string"])
    text = located_program(rng, address)
    values: list[Any] = list(range(rng.randint(2, 4)))
    addresses = [f"n{value}" for value in values] if address == "string" else values
    network = network_of(text, rng.choice([2, 2, 3, 4]), addresses, rng)
    program = parse(text)
    inputs: dict[str, set[Row]] = {name: set() for name in INPUTS}
    saved: dict[int, Any] = {}
    compared = 0
    try:
        for _ in range(rng.randint(2, 3)):
            for _ in range(rng.randint(1, 4)):
                node = rng.choice(sorted(network.numbers.values()))
                match rng.choices(["feed", "kill", "save", "start", "notice"], (8, 2, 1, 3, 1))[0]:
                    case "feed":
                        network.feed(random_burst(rng, inputs, addresses))
                    case "kill" if node in network.running:
                        network.kill(node)
                        if rng.random() < 0.5:
                            saved.pop(node, None)
                    case "save" if node in network.running:
                        saved[node] = network.save(node)
                    case "start" if node not in network.running:
                        network.start(node, saved.pop(node, None))
                    case "notice" if node in network.running:
                        network.notice(node, rng.choice(sorted(network.numbers.values())))
                for _ in range(rng.randint(0, 4)):
                    network.tick()
            for node in network.numbers.values():
                if node not in network.running:
                    network.start(node, saved.pop(node, None))
            network.settle(2000)
            expected = evaluate(program, inputs)
            found = network.tables()
            assert {name: found[name] for name in expected} == expected, text
            compared += 1
        for node in network.running.values():
            assert node.session.differences() == [], text
    finally:
        network.close()
    return compared


def random_burst(
    rng: random.Random, inputs: dict[str, set[Row]], addresses: list[Any]
) -> dict[str, list[tuple[str, Row]]]:
    """Return some changes of inputs, and make them in ``inputs``."""
    changes: dict[str, list[tuple[str, Row]]] = {}
    for name, arity in INPUTS.items():
        gone = [row for row in sorted(inputs[name]) if rng.random() < 0.3]
        new = {
            tuple(rng.choice(addresses) if place < 2 else rng.randint(0, 3) for place in range(arity))
            for _ in range(rng.randint(0, 3))
        }
        come = sorted(new - inputs[name])
        inputs[name] = (inputs[name] - {*gone}) | {*come}
        changes[name] = [*(("-", row) for row in gone), *(("+", row) for row in come)]
    return changes


@pytest.mark.parametrize("seed", seeds(1, 250))
def test_any_program(seed: int) -> None:
    """Twenty programs each."""
    assert sum(run(20 * seed + place) for place in range(20)) >= 40
