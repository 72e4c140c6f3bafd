"""What nodes send each other, as it is shown: by ``run_local.py`` and by ``flintlog topology --nodes``."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from flintlog.compiler import CompileOptions, compile_node_files
from flintlog.compiler.source import SourceFile
from flintlog.runtime.addons.processes.partition import Partition

from golden_tests.addons.processes.real import imported
from golden_tests.cli.test_commands import flintlog

PROGRAM = """
input relation link(@a: string, b: string)
input relation step(n: int)
output relation path(@a: string, b: string)
output relation ends(@a: string, n: int)
r1: path(@S, D) :- link(@S, D).
r2: path(@S, D) :- link(@S, Z), path(@Z, D), step(_).
ends(@D, count<S>) :- path(@S, D).
at@"it's" :- link(@"it's", _).
elsewhere@"o\\"3" :- link(@"it's", _).
"""
SENT = {"messages": 3, "snapshots": 1, "inserted": 1_500, "deleted": 7}


def written(folder: Path, nodes: int) -> Any:
    """Compile the program for nodes, and return its ``run_local.py``."""
    options = CompileOptions(format=False)
    for name, text in compile_node_files(SourceFile("net.dl", PROGRAM), Partition(nodes), options)[0].items():
        (folder / name).write_text(text, encoding="utf-8")
    return imported(folder / "run_local.py")


def say(root: Path, node: int, sends: dict[str, Any], receives: dict[str, Any] | None = None) -> None:
    """Write the status of a node."""
    (root / "status").mkdir(parents=True, exist_ok=True)
    said = {"pid": 1, "incarnation": 2, "busy": False, "in": 5, "out": 9, "steps": 4, "last": "now", "sends": sends}
    said["receives"] = receives or {}
    (root / "status" / f"node{node}.json").write_text(json.dumps(said), encoding="utf-8")


@pytest.mark.parametrize("nodes", [3, 13])
def test_run_local(nodes: int, tmp_path: Path) -> None:
    """By relation, and by pair of nodes if they are few; what waits is counted, and older statuses say nothing."""
    jobs = written(tmp_path, nodes)
    life = [[1, "a"], [1, "b"], 1]
    name, line = "node0.path--node2", {"life": life, "session": life[1], "state": "open", "messages": 1}
    older = {"life": life, "messages": 2}
    say(tmp_path, 0, {name: {"life": life, "messages": 3, "total": SENT}, "node0.path--node1": older})
    say(tmp_path, 2, {"node2.dead--node1": {"life": life, "messages": 1, "total": SENT}}, {name: line})
    lines = [line.split() for line in jobs.Local(tmp_path).table()]
    assert lines[0][:2] == ["process", "incarnation"] and lines[1][0] == "node0"
    relations = lines[lines.index([]) + 1 :]
    assert relations[0] == ["relation", "messages", "tuples", "waiting"]
    found = {row[0]: row[1:] for row in relations[1 : relations.index([])]}
    assert found.pop("path") == ["3", "1507", "2"]
    assert found.pop("dead") == ["3", "1507", "0"]
    assert found and all(counts == ["0", "0", "0"] for counts in found.values())
    heading, *pairs = relations[relations.index([]) + 1 :]
    assert [row[0] for row in pairs] == [f"node{number}" for number in range(nodes)]
    assert [row[1] for row in pairs[:3]] == ["3/1507", "0/0", "3/1507"]
    if nodes == 3:
        assert pairs[0][2:] == ["0/0", "0/0", "3/1507"] and pairs[2][2:] == ["0/0", "3/1507", "0/0"]
    else:
        assert len(heading) == 4 and all(len(row) == 2 for row in pairs)


def test_topology(tmp_path: Path) -> None:
    """Which rules need what is sent, where it goes, and on a page what a run has sent: as logs say, or statuses."""
    program, page, root = tmp_path / "net.dl", tmp_path / "page.html", tmp_path / "root"
    program.write_text(PROGRAM, encoding="utf-8")
    said = flintlog("topology", program, "--nodes", "3", "--html", page)
    assert said.exit_code == 0, said.stderr
    lines = said.stdout.splitlines()
    assert lines[0] == "3 nodes: path, ends"
    assert "outside -> the node of a: link(a: string, b: string)" in lines
    assert "outside -> each node: step(n: int)" in lines
    assert "node -> the node of Z: r2_to_Z(Z: string, S: string), by r2" in lines
    assert "node -> the node of address: ends_1_values(address: string, S: string), by ends_1" in lines
    assert "node -> the node of a: path(a: string, b: string, proof: list<string>), by r2" in lines
    assert "node -> all others: dead(first: string, last: string)" in lines
    assert r'node -> the node of "o\"3": elsewhere(), by elsewhere_1' in lines
    assert lines[-1] == "recursion across nodes: path"
    assert "<svg class" not in page.read_text(encoding="utf-8")
    (root / "logs").mkdir(parents=True)
    (root / "logs" / "node1.log").write_text(
        "event=sent seconds=1 channel=node1.path--node0 kind=snapshot incarnation=1 inserted=10 deleted=0\n"
        "event=sent seconds=2 channel=node1.path--node1 kind=snapshot incarnation=1 inserted=0 deleted=0\n"
        "event=sent seconds=3 channel=node1.path--node0 kind=changes incarnation=1 inserted=2 deleted=3\n",
        encoding="utf-8",
    )
    # The log knows more than the status.
    say(root, 1, {"node1.path--node0": {"total": {"messages": 1}}})
    say(root, 2, {"node2.path--node0": {"total": SENT}})
    (root / "status" / "other.json").write_text("[1]", encoding="utf-8")
    (root / "status" / "folder.json").mkdir()
    assert flintlog("topology", program, "--nodes", "3", "--html", page, "--root", root).exit_code == 0
    text = page.read_text(encoding="utf-8")
    assert "http" not in text
    assert text.count('<path class="channel"') == 2 and text.count('class="process"') == 3
    assert "<title>node1 to node0: 2 messages, 15 tuples</title>" in text
    row = re.search(r"<tr><td>path</td>.*", text)
    assert row and re.findall(r'number">([\d,]+)<', row[0]) == ["6", "3", "1,512", "10"]
    row = re.search(r"<tr><th>node1</th>.*", text)
    assert row and re.findall(r'number">([^<]*)<', row[0]) == ["3 / 15", "2 / 15", "1 / 0", ""]


def test_topology_of_many_nodes(tmp_path: Path) -> None:
    """There is neither a picture nor a table of pairs."""
    program, page = tmp_path / "net.dl", tmp_path / "page.html"
    program.write_text(PROGRAM, encoding="utf-8")
    say(tmp_path, 99, {"node99.path--node7": {"total": SENT}})
    said = flintlog("topology", program, "--nodes", "100", "--html", page, "--root", tmp_path)
    assert said.stdout.startswith("100 nodes: ") and len(said.stdout.splitlines()) < 12
    text = page.read_text(encoding="utf-8")
    assert "<svg class" not in text and "to node7" not in text and "3 / 1,507" in text


def test_wrong_options(tmp_path: Path) -> None:
    """The nodes are those of one program."""
    program = tmp_path / "net.dl"
    program.write_text(PROGRAM, encoding="utf-8")
    assert "from 1 to 1000 nodes" in flintlog("topology", program, "--nodes", "0").stderr
    assert "--nodes divides one program" in flintlog("topology", program, program, "--nodes", "2").stderr
    assert "--nodes divides one program" in flintlog("topology", program, "--nodes", "2", "--outside", "x").stderr


def test_simulation(tmp_path: Path) -> None:
    """What was sent is counted by relation, with the rules that it is for."""
    program, changes = tmp_path / "net.dl", tmp_path / "changes.dat"
    program.write_text(PROGRAM, encoding="utf-8")
    changes.write_text('start;\ninsert link("it\'s", "a"), insert link("a", "b"), insert step(1);\ncommit;\n')
    said = flintlog("simulate", program, "--nodes", "2", "--changes", changes)
    assert said.exit_code == 0, said.stderr
    assert "equal to the single evaluation" in said.stdout
    rows = [line.split() for line in said.stdout.splitlines()]
    found = {row[0]: row[1] for row in rows if len(row) == 5}
    assert {name: found[name] for name in ("path", "r2_to_Z", "ends_1_values")} == {
        "path": "r2",
        "r2_to_Z": "r2",
        "ends_1_values": "ends_1",
    }
