"""``explain --root``: whole derivations across the states of nodes, whose steps are instances of rules."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flintlog.compiler.ir.syntax import RECURSIONS
from flintlog.runtime.addons.processes.serve import process_main
from flintlog.runtime.addons.processes.simulation import Network
from flintlog.runtime.addons.processes.spanning_derivations import OpenStates, explained_across
from flintlog.runtime.addons.processes.state import with_inbox
from flintlog.runtime.addons.processes.transit import Transit
from flintlog.runtime.kernel.errors import JobError
from flintlog.runtime.row_kernel.model import RowProgram

from golden_tests.addons.nodes.programs import INPUTS, aggregated_program, located_program, witnessed_program
from golden_tests.addons.nodes.states import rows_of, write_homes
from golden_tests.addons.nodes.test_depends import NAMES, REACH, quoted
from golden_tests.addons.nodes.test_simulation import compiled, network_of, random_burst
from golden_tests.nightly import AT_NIGHT, NIGHTLY, seeds
from golden_tests.oracle.evaluate import Store, evaluate, once
from golden_tests.oracle.language import Aggregate, Negation, Program, Row, parse

FEW = 3
"""So many derivations of an aggregated value are shown."""


def frozen(value: Any) -> Any:
    """A value of a result as the oracle has it."""
    return tuple(map(frozen, value)) if isinstance(value, list) else value


def explained(network: Network, rows: RowProgram, root: Path, text: str) -> dict[str, Any]:
    """What ``explain --root`` says of a tuple."""
    nodes = network.nodes
    processes = {nodes.name(number): nodes.process(number) for number in network.numbers.values()}
    program = with_inbox(rows, nodes.received)
    return explained_across(OpenStates(program, processes, root, {}, {}), program, text, 10**6)


def without_place(program: Program, name: str, row: Row) -> Row:
    """A tuple without its place in an order, which depends on the tuples before it: a derivation shows only those that
    put it there."""
    heads = [rule.head.arguments for rule in program.rules if rule.head.relation == name]
    places = {i for head in heads for i, a in enumerate(head) if isinstance(a, Aggregate) and a.function == "first"}
    return tuple(value for i, value in enumerate(row) if i not in places)


def only_negated(program: Program, name: str) -> set[str]:
    """The relations of which the rules of a relation read only that tuples are absent."""
    rules = program.rules_of(name)
    negated = {literal.atom.relation for rule in rules for literal in rule.body if isinstance(literal, Negation)}
    return negated - {atom.relation for rule in rules for atom in rule.positive}


def check(network: Network, program: Program, tables: dict[str, set[Row]], said: dict[str, Any]) -> None:
    """Each leaf is a row that its node was fed, and each step an instance of a rule over tuples that are there; nothing
    follows from itself."""
    tuples = {node["id"]: node for node in said["tuples"]}
    done: set[int] = set()

    def visit(number: int, above: tuple[int, ...]) -> None:
        assert number not in above, said
        node = tuples[number]
        if number in done:
            return
        row = frozen(node["values"])
        name = node["relation"]
        if node.get("given"):
            assert not node["because"]
            assert row in network.feeds[network.numbers[node["process"]]][name]
        else:
            assert "rule" in node, (node, said)
            assert row in tables[name] or number, said
            below = [tuples[one] for one in node["because"]]
            store = Store({one: tables[one] for one in only_negated(program, name)})
            for one in below:
                store.add(one["relation"], [frozen(one["values"])])
            if node.get("derivations", 0) <= FEW:
                made = {without_place(program, name, one) for one in once(program, name, store, strict=False)}
                assert without_place(program, name, row) in made, (node, below)
        located = network.program.relation(name)
        address = next(
            value for column, value in zip(located.columns, row, strict=True) if column.sql == located.location
        )
        assert node["process"] == network.nodes.name(network.nodes.partition.node_of(address))
        for one in node["because"]:
            visit(one, (*above, number))
        done.add(number)

    visit(0, ())


def run(seed: int, folder: Path, make: Callable[[random.Random, str], str], most: int, recursion: str) -> int:
    """Take a random program to rest, after some bursts of changes and restarts, and explain some of its tuples at all
    nodes; return how many."""
    rng = random.Random(seed)
    address = rng.choice(["int", "string"])
    text = make(rng, address)
    values: list[Any] = list(range(rng.randint(2, 4)))
    addresses = [f'n"{value}\\' for value in values] if address == "string" else values
    network = network_of(text, rng.choice([2, 3]), addresses, rng, recursion)
    program = parse(text)
    inputs: dict[str, set[Row]] = {name: set() for name in INPUTS}
    count = 0
    try:
        for _ in range(rng.randint(1, 3)):
            network.feed(random_burst(rng, inputs, addresses))
            for _ in range(rng.randint(0, 3)):
                network.tick()
            if rng.random() < 0.3:
                node = rng.choice(sorted(network.running))
                network.start(node, network.kill(node) if rng.random() < 0.5 else None)
        network.settle(2000)
        tables = network.tables()
        assert {name: tables[name] for name in evaluate(program, inputs)} == evaluate(program, inputs)
        rows = rows_of(text, recursion)
        write_homes(network, rows, folder)
        every = sorted((name, row) for name in evaluate(program, inputs) for row in tables[name])
        for name, row in rng.sample(every, min(most, len(every))):
            said = explained(network, rows, folder, f"{name}({constants(row)})")
            assert said["present"] and not said["missing"]
            try:
                check(network, program, tables, said)
            except AssertionError as error:
                raise AssertionError(f"{seed}: {text}\n{json.dumps(said, indent=1)}") from error
            count += 1
    finally:
        network.close()
    return count


def constants(row: Row) -> str:
    """A row as programs write it."""
    return ", ".join(json.dumps(value) for value in row)


@AT_NIGHT
@pytest.mark.parametrize("seed", seeds(1, 5))
def test_any_program(seed: int, tmp_path: Path) -> None:
    """Random programs, with restarts: of some tuples, every leaf is an input row and every step an instance."""
    make = {1: aggregated_program, 3: witnessed_program}.get(seed % 4, located_program)
    run(seed, tmp_path, make, 12 if NIGHTLY else 2, RECURSIONS[0])


def test_derivation_sets(tmp_path: Path) -> None:
    """They are refused, with what to do instead."""
    text = """
        input relation link(@S: string, D: string)
        output relation reach(@S: string, D: string)
        r1: reach(@S, D) :- link(@S, D).
        r2: reach(@S, D) :- link(@S, Z), reach(@Z, D).
    """
    network = network_of(text, 3, NAMES, random.Random(4), RECURSIONS[1])
    a, b, c = NAMES
    network.feed({"link": [("+", (a, b)), ("+", (b, c)), ("+", (c, a))]})
    network.settle()
    rows = rows_of(text, RECURSIONS[1])
    write_homes(network, rows, tmp_path)
    network.close()
    with pytest.raises(JobError, match="cannot follow derivation sets"):
        explained(network, rows, tmp_path, f"reach({constants((a, c))})")


@pytest.fixture
def chain(tmp_path: Path) -> tuple[Network, Path]:
    """A chain of three nodes with a detour, once it is quiet, and their states in files."""
    found = network_of(REACH, 3, NAMES, random.Random(4))
    a, b, c = NAMES
    found.feed({"link": [("+", (a, b, 1)), ("+", (b, c, 1)), ("+", (a, c, 9)), ("+", (c, c, 1))], "off": [("+", (c,))]})
    found.settle()
    write_homes(found, rows_of(REACH), tmp_path)
    found.close()
    return found, tmp_path


def printed(chain: tuple[Network, Path], capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    """What ``explain --root`` prints."""
    network, root = chain
    capsys.readouterr()
    assert process_main(rows_of(REACH), network.nodes, ["explain", *arguments, "--root", str(root)]) == code
    found = capsys.readouterr()
    return found.err if code else found.out


def test_printed(chain: tuple[Network, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """The tree with its nodes, a limit, JSON, tuples that are not there, and a node whose state is not here."""
    network, root = chain
    a, b, c = NAMES
    at = {name: f"node{network.nodes.partition.node_of(name)}" for name in NAMES}
    asked = f"best({quoted((a, c, 2))})"
    lines = printed(chain, capsys, asked).splitlines()
    assert lines[0].startswith(f"{asked} at {at[a]}  by best_2: ") and lines[0].endswith(f" at {at[b]}")
    assert lines[1] == f"├─ link({quoted((a, b, 1))}) at {at[a]}  given"
    assert lines[2].startswith(f"└─ best({quoted((b, c, 1))}) at {at[b]}  by best_1: ")
    assert lines[3:] == [f"   └─ link({quoted((b, c, 1))}) at {at[b]}  given"]
    said = json.loads(printed(chain, capsys, asked, "--json"))
    assert [(node["process"], node["because"]) for node in said["tuples"]] == [
        (at[a], [1, 2]),
        (at[a], []),
        (at[b], [3]),
        (at[b], []),
    ]
    assert said["tuples"][0]["computed"] == at[b]
    assert "(--limit shows more)" in printed(chain, capsys, asked, "--limit", "1")
    assert f"   no off({quoted((a,))})" in printed(chain, capsys, f"reach({quoted((a, c))})").splitlines()
    absent = printed(chain, capsys, f"best({quoted((a, c, 3))})").splitlines()
    assert absent[0] == f"best({quoted((a, c, 3))}) is not there, looked for at {at[a]}"
    assert "there is no relation besd" in printed(chain, capsys, "besd(1)", code=1)
    # The home of a node is elsewhere, which must be said; else it is missing.
    shutil.move(root / "homes" / at[b], root / "away")
    assert printed(chain, capsys, asked, "--home", f"{at[b]}={root / 'away'}").splitlines() == lines
    held = printed(chain, capsys, asked).splitlines()
    assert held[0] == f"{asked} at {at[a]}  held by {at[b]}, whose state is not here"
    assert held[1] == f"not looked at: {at[b]} has no state in {root / 'homes' / at[b]}"
    said = printed(chain, capsys, f"best({quoted((b, c, 1))})", code=1)
    assert f"would be at {at[b]}, whose state is not here" in said


@AT_NIGHT
def test_what_a_lost_node_sent(tmp_path: Path) -> None:
    """Of a derivation through a node whose state is lost, all steps at other nodes are there, and what it sent is said
    to be held by it."""
    rows = rows_of(REACH)
    network = Network(*compiled(REACH, 4, {"a": 0, "b": 1, "c": 2, "d": 3}), transit=Transit(1))
    network.feed({"link": [("+", ("a", "b", 1)), ("+", ("b", "c", 1)), ("+", ("c", "d", 1))]})
    network.settle()
    write_homes(network, rows, tmp_path)
    network.close()
    asked = 'best("a", "d", 3)'
    whole = explained(network, rows, tmp_path, asked)["tuples"]
    assert [node["tuple"] for node in whole if node.get("given")] == [
        'link("a", "b", 1)',
        'link("b", "c", 1)',
        'link("c", "d", 1)',
    ]
    shutil.rmtree(tmp_path / "homes" / "node2")
    said = explained(network, rows, tmp_path, asked)
    assert [*said["missing"]] == ["node2"]
    assert [(node["tuple"], node["process"], node.get("held")) for node in said["tuples"]] == [
        (asked, "node0", None),
        ('link("a", "b", 1)', "node0", None),
        ('best("b", "d", 2)', "node1", "held by node2, whose state is not here"),
    ]


@AT_NIGHT
def test_what_several_nodes_have(tmp_path: Path) -> None:
    """Distinct values and witnesses at other nodes than their group are explained by the rules of the program, from all
    that these need and from nothing that only competes."""
    text = """
        input relation visit(@person: string, page: string, seconds: int)
        input relation bot(@person: string, page: string)
        output relation visitors(n: int, @page: string, total: int)
        r1: visitors(count<distinct U>, @P, sum<S>) :- visit(@U, P, S).
        output relation times(@page: string, n: int)
        r2: times(@P, count<distinct S>) :- visit(@U, P, S), !bot(@U, P).
        r3: times(@P, count<distinct S>) :- bot(@U, P), visit(@U, _, S).
        output relation shortest(@page: string, seconds: int, person: string)
        r4: shortest(@P, min<T>, U) :- visit(@U, P, S), T = S + 1.
        output relation longest(@page: string, seconds: int, person: string)
        r5: longest(@P, max<S>, U) :- visit(@U, P, S), !bot(@U, P).
    """
    rows = rows_of(text)
    network = Network(*compiled(text, 3, {"a": 0, "b": 1, "c": 2, "d": 2, "p": 0}), transit=Transit(1))
    visits = [("a", "p", 1), ("b", "p", 1), ("b", "p", 7), ("c", "p", 9), ("d", "p", 7)]
    network.feed({"visit": [("+", row) for row in visits], "bot": [("+", ("c", "p"))]})
    network.settle()
    write_homes(network, rows, tmp_path)
    tables = network.tables()
    network.close()

    def because(asked: str, rule: str, *derivations: int) -> list[str]:
        said = explained(network, rows, tmp_path, asked)
        check(network, parse(text), tables, said)
        first, *others = said["tuples"]
        assert first["rule"] == rule
        assert [first[name] for name in ("derivations", "listed") if name in first] == [*derivations]
        return sorted(node["tuple"] for node in others)

    assert len(because('visitors(4, "p", 25)', "visitors", 5, 3)) >= 3
    assert because('times("p", 3)', "times", 3, 3) == [
        'bot("c", "p")',
        'visit("a", "p", 1)',
        'visit("b", "p", 7)',
        'visit("c", "p", 9)',
    ]
    assert because('shortest("p", 2, "b")', "r4") == ['visit("b", "p", 1)']
    assert because('longest("p", 7, "d")', "r5") == ['visit("d", "p", 7)']
