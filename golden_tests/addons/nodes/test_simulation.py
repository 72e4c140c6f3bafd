"""Random located programs on nodes whose messages are delayed, reordered and repeated, and that are killed and return:
in the end all is as if one process had computed it, and as the papers' rules derive it."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest
from flintlog.compiler.ir.syntax import RECURSIONS
from flintlog.compiler.nodes import compile_nodes
from flintlog.compiler.source import SourceFile
from flintlog.runtime.addons.processes.nodes import Nodes
from flintlog.runtime.addons.processes.partition import Partition
from flintlog.runtime.addons.processes.simulation import Network
from flintlog.runtime.addons.processes.transit import Transit
from flintlog.targets.processes.nodes import nodes_of
from flintlog.targets.pyspark.load import load_program

from golden_tests.addons.nodes.programs import INPUTS, located_program, witnessed_program
from golden_tests.nightly import AT_NIGHT, NIGHTLY, seeds
from golden_tests.oracle.evaluate import evaluate
from golden_tests.oracle.language import Aggregate, Program, Row, Rule, Variable, parse
from golden_tests.oracle.psn import TooLarge
from golden_tests.oracle.transitions import AGGREGATES, Transitions

#: So many steps of the papers' rules for a stratum and a burst.
MOST = 300


class Outcome(NamedTuple):
    """How often a program was compared, and whether a second oracle agreed each time."""

    compared: int
    confirmed: bool


class Expected:
    """What a program derives, by the fixpoint and, as long as these end, by the papers' rules in a random order."""

    def __init__(self, program: Program, addresses: list[Any], seed: int) -> None:
        """Start with empty inputs. The papers' rules know no witnesses."""
        self.program = program
        self.transitions: Transitions | None = None
        if all(map(is_papers, program.rules)):
            self.transitions = Transitions(program, addresses, random.Random(seed), MOST)

    def of(self, inputs: dict[str, set[Row]]) -> dict[str, set[Row]]:
        """Return the derived relations after another burst, on which both must agree."""
        expected = evaluate(self.program, inputs)
        if self.transitions:
            try:
                assert self.transitions.burst(inputs) == expected
            except TooLarge:
                self.transitions = None
        return expected


def is_papers(rule: Rule) -> bool:
    """Return whether the papers' rules know an aggregate: it is the last argument, behind variables of one group."""
    *groups, last = rule.head.arguments or (None,)
    grouped = all(isinstance(argument, Variable) for argument in groups)
    known = not isinstance(last, Aggregate) or (last.function in AGGREGATES and not last.distinct and grouped)
    return known and not any(isinstance(argument, Aggregate) for argument in groups)


def network_of(
    text: str, count: int, addresses: list[Any], rng: random.Random, recursion: str = RECURSIONS[0]
) -> Network:
    """Return the nodes of a program; some of the addresses are given to nodes, the others are hashed."""
    known = {str(address): rng.randrange(count) for address in addresses if rng.random() < 0.7}
    network = compiled(text, count, known, recursion)
    return Network(*network, Transit(rng.randrange(10**6), rng.choice([1, 2, 4])))


def compiled(text: str, count: int, known: Mapping[str, int], recursion: str = RECURSIONS[0]) -> tuple[Any, Nodes]:
    """Return a program and its nodes."""
    plan = compile_nodes(SourceFile("test.dl", text), recursion=recursion).node.plan
    return load_program(plan), nodes_of(plan.program, Partition(count, known))


def run(
    seed: int,
    program: Callable[[random.Random, str], str] = located_program,
    most: int = 3,
    recount: bool = True,
    prefix: str = "n",
) -> Outcome:
    """Take a random program through bursts of changes, with nodes that are killed, until all is quiet; again and again,
    up to ``most`` times. In the end the nodes may ``recount`` what they have. Addresses that are strings begin with a
    ``prefix``."""
    rng = random.Random(seed)
    address = rng.choice(["int", "string"])
    text = program(rng, address)
    values: list[Any] = list(range(rng.randint(2, 4)))
    addresses = [f"{prefix}{value}" for value in values] if address == "string" else values
    network = network_of(text, rng.choice([2, 2, 3, 4]), addresses, rng)
    oracle = Expected(parse(text), addresses, seed)
    inputs: dict[str, set[Row]] = {name: set() for name in INPUTS}
    saved: dict[int, Any] = {}
    compared = 0
    try:
        for _ in range(rng.randint(min(2, most), most)):
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
            expected = oracle.of(inputs)
            found = network.tables()
            assert {name: found[name] for name in expected} == expected, text
            compared += 1
        for node in network.running.values() if recount else ():
            assert node.session.differences() == [], text
    finally:
        network.close()
    return Outcome(compared, oracle.transitions is not None)


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


@pytest.mark.parametrize("seed", seeds(1, 12))
def test_any_program(seed: int) -> None:
    """Eight programs each, by day six, of which the papers' rules end for some; by day each comes to rest once."""
    most, size = (3, 8) if NIGHTLY else (1, 6)
    found = [run(size * seed + place, most=most, recount=NIGHTLY or place == 0) for place in range(size)]
    assert sum(outcome.compared for outcome in found) >= size * min(most, 2)
    # At night they may end for none.
    assert NIGHTLY or any(outcome.confirmed for outcome in found)


@AT_NIGHT
@pytest.mark.parametrize("seed", seeds(1, 5))
def test_witnesses(seed: int) -> None:
    """Shortest distances with all next nodes, last nodes or paths of their ways: three programs each."""
    assert sum(run(3 * seed + place, witnessed_program).compared for place in range(3)) >= 6


@pytest.mark.parametrize("seed", seeds(1, 5))
def test_oracles_agree(seed: int) -> None:
    """The fixpoint and the papers' rules find the same, which end for a fifth of the programs at least."""
    confirmed = 0
    for number in range(50 * seed, 50 * seed + 50):
        rng = random.Random(number)
        addresses = list(range(rng.randint(2, 4)))
        oracle = Expected(parse(located_program(rng)), addresses, number)
        inputs: dict[str, set[Row]] = {name: set() for name in INPUTS}
        for _ in range(4):
            random_burst(rng, inputs, addresses)
            oracle.of(inputs)
        confirmed += oracle.transitions is not None
    assert confirmed > 10
