"""What depends on a base fact, and the proofs of tuples, over the states of all nodes."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from flintlog.compiler.pipeline import compile_program
from flintlog.compiler.source import SourceFile
from flintlog.runtime.addons.processes.channels import Process
from flintlog.runtime.addons.processes.serve import process_main
from flintlog.runtime.addons.processes.simulation import Network
from flintlog.targets.database.lower import lower_rows

from golden_tests.addons.nodes.states import rows_of, write_home, write_homes
from golden_tests.addons.nodes.test_simulation import network_of
from golden_tests.nightly import by_day

REACH = """input relation link(@a: string, b: string, c: int)
input relation off(@a: string)
output relation reach(@a: string, b: string)
output relation best(@a: string, b: string, c: int)
reach(@S, D) :- link(@S, D, _), !off(@S).
reach(@S, D) :- link(@S, Z, _), reach(@Z, D).
best(@S, D, min<C>) :- link(@S, D, C).
best(@S, D, min<C>) :- link(@S, Z, C1), best(@Z, D, C2), C = C1 + C2.
"""
NAMES = ['a"(1)', "b, c", "d\\"]


def quoted(row: Sequence[Any]) -> str:
    """Values as a program writes them."""
    return ", ".join(json.dumps(value) for value in row)


Chain = tuple[Network, Path]


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Chain:
    """A chain of three nodes with a detour, once it is quiet, and their states in files, beside one of another
    program."""
    found = network_of(REACH, 3, NAMES, random.Random(4))
    found.delay = 1
    a, b, c = NAMES
    found.feed({"link": [("+", (a, b, 1)), ("+", (b, c, 1)), ("+", (a, c, 9)), ("+", (c, c, 1))]})
    found.settle()
    homes = write_homes(found, rows_of(REACH), tmp_path_factory.mktemp("chain"))
    other = lower_rows(compile_program(SourceFile("other.dl", "input relation p(x: int)")).plan)
    write_home(other, Process("other", (), (), ("p",)), homes / "other", [])
    return found, homes


class Commands:
    """The command line of nodes, over the states of all of them."""

    def __init__(self, chain: Chain, capsys: pytest.CaptureFixture[str]) -> None:
        """Find what nodes send each other."""
        (network, self.homes), self.capsys = chain, capsys
        self.network, self.program = network, rows_of(REACH)

    def state(self, node: int) -> str:
        """The file of the state of a node."""
        return str(self.homes / f"node{node}" / "state.db")

    def node_of(self, address: str) -> int:
        """The node that holds an address."""
        return self.network.nodes.partition.node_of(address)

    def run(self, *arguments: str, code: int = 0) -> list[str]:
        """The lines that a command prints."""
        assert process_main(self.program, self.network.nodes, arguments) == code
        found = self.capsys.readouterr()
        return (found.err if code else found.out).splitlines()

    def depends(self, *arguments: str) -> Any:
        """What depends on a fact."""
        return json.loads(self.run("depends", *arguments, "--json")[-1])


@pytest.fixture
def commands(chain: Chain, capsys: pytest.CaptureFixture[str]) -> Commands:
    """The commands of the chain."""
    return Commands(chain, capsys)


@by_day(1)
@pytest.mark.parametrize("row", [(NAMES[1], NAMES[2], 1), (NAMES[0], NAMES[2], 9), (NAMES[2], NAMES[2], 1)])
def test_what_goes_was_listed(commands: Commands, row: tuple[Any, ...]) -> None:
    """All tuples that go with a link, at whatever node, depend on it; others that do have another proof."""
    network = commands.network
    said = commands.depends(f"link({quoted(row)})", "--state", str(commands.homes))
    listed = {(found["relation"], tuple(found["values"])) for found in said["tuples"]}
    before = {(name, one) for name, rows in network.tables().items() for one in rows if name != "link"}
    network.feed({"link": [("-", row)]})
    network.settle()
    after = {(name, one) for name, rows in network.tables().items() for one in rows if name != "link"}
    assert before - after <= listed <= before
    network.feed({"link": [("+", row)]})
    network.settle()


def test_listing(commands: Commands) -> None:
    """The tuples with their nodes; a limit; a single state; identities instead of the fact."""
    a, b, c = NAMES
    fact = f"link({quoted((b, c, 1))})"
    homes = ("--state", str(commands.homes))
    lines = commands.run("depends", fact, *homes)
    assert f"reach({quoted((b, c))})  at node{commands.node_of(b)}" in lines
    assert f"best({quoted((a, c, 2))})  at node{commands.node_of(a)}" in lines
    said = commands.depends(fact, *homes)
    assert lines[-1] == f"other runs another program; ask its script: depends {' and '.join(said['identities'])}"
    assert commands.run("depends", fact, *homes, "--limit", "1")[1].startswith("... and ")
    states = [part for node in range(3) for part in ("--state", commands.state(node))]
    assert commands.depends(fact, *states) == {**said, "elsewhere": []}
    by_id = [commands.depends(identity, *homes)["tuples"] for identity in said["identities"]]
    assert sorted(str(found) for one in by_id for found in one) == sorted(map(str, said["tuples"]))
    # From the states of one node, only what is there; facts of other nodes are not known.
    assert {found["process"] for found in commands.depends(fact, *states[2 * commands.node_of(b) :][:2])["tuples"]} <= {
        f"node{commands.node_of(b)}"
    }


def test_what_is_no_fact(commands: Commands) -> None:
    """Facts that are not there, that are not base facts, or nothing at all."""
    homes = ("--state", str(commands.homes))
    assert commands.run("depends", 'link("x", "y", 1)', *homes) == ['link("x", "y", 1) is not there']
    said = commands.run("depends", 'reach("x", "y")', *homes, code=1)
    assert said == ["depends: reach has no base facts of a recursion across processes; these have: link"]
    assert commands.run("depends", "link(", *homes, code=1)[0].startswith('depends: "link("')
    nothing = str(commands.homes.parent)
    assert "neither a state nor a folder with homes" in commands.run("depends", "off(1)", "--state", nothing, code=1)[0]


def test_entries(commands: Commands) -> None:
    """Tuples with the base facts of their proofs."""
    _, b, c = NAMES
    node = commands.node_of(b)
    lines = commands.run("show", "best", "--entries", "--state", commands.state(node), "--format", "json")
    rows = [json.loads(line) for line in lines]
    found = next(row for row in rows if row["a"] == b and row["b"] == c)
    assert found == {"a": b, "b": c, "c": 1, "proof": [f"link({quoted((b, c, 1))})"]}
    assert commands.run("show", "best", "--entries", "--state", commands.state(node), "--limit", "1")[0].endswith(
        "proof"
    )
    (said,) = commands.run("show", "link", "--entries", "--state", commands.state(node), code=1)
    assert said == "show: link has neither derivation sets nor live proofs; these have: best, reach"
    assert commands.run("show", "best", "--entries", "--support", "--state", commands.state(node), code=1)


def test_explain_across_nodes(commands: Commands) -> None:
    """A proof has the base facts of its node, and says how many others have."""
    a, _, c = NAMES
    node = commands.node_of(a)
    lines = commands.run("explain", f"best({quoted((a, c, 2))})", "--state", commands.state(node))
    _, b, _ = NAMES
    assert lines[1:] == [f"   and 2 base facts of node{commands.node_of(b)}"]
    assert lines[0] == f"best({quoted((a, c, 2))})  by a live proof"
