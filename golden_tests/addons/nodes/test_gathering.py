"""``show`` and ``changes`` of all nodes together, with the node beside what it has."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from flintlog.runtime.addons.processes.network import nodes_main
from flintlog.runtime.addons.processes.snapshots import changes_in
from flintlog.runtime.addons.processes.state import ProcessState

from golden_tests.addons.nodes.test_router import compiled

TEXT = """
input output relation link(@src: string, node: string)
input output relation known(Name: string)
input relation on()
output relation total(@Node: string, batch: int)
output alarm.
total(@S, count<D>) :- link(@S, D).
alarm@"a" :- on@"a".
"""

PROGRAM, NODES = compiled(TEXT, 2, {"a": 0, "b": 1, "é'": 1, "": 0})

ROWS = {
    "node0": [
        ("link.csv", 'op,src,node\n+,a,x\n+,"",y\n'),
        ("known.csv", "op,Name\n+,both\n+,only 0\n"),
        ("on.csv", "op\n+\n"),
    ],
    "node1": [("link.csv", 'op,src,node\n+,b,x\n+,é\',"1,2"\n'), ("known.csv", "op,Name\n+,both\n")],
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the states of two nodes, of which one has two batches; the home of the other is elsewhere."""
    root = tmp_path_factory.mktemp("net")
    for number, (node, files) in enumerate(ROWS.items()):
        home = root / "homes" / node if node == "node0" else root / "elsewhere"
        apply(home, number, "step-1", *files)
    apply(root / "homes" / "node0", 0, "step-0", ("link.csv", "op,src,node\n-,a,x\n"))
    status = root / "status" / "node1.json"
    status.parent.mkdir()
    status.write_text(json.dumps({"home": str(root / "elsewhere")}))
    return root


def apply(home: Path, number: int, batch: str, *files: tuple[str, str]) -> None:
    """Apply a batch to the state of a node."""
    state = ProcessState(PROGRAM, NODES.process(number), home)
    changes = {}
    for name, text in files:
        path = home / name
        path.write_text(text, encoding="utf-8")
        relation = PROGRAM.inputs[path.stem]
        changes[relation.table] = changes_in(PROGRAM, relation.name, path)
    with state.database.transaction():
        state.apply(changes, batch)
    state.close()


def printed(capsys: pytest.CaptureFixture[str], root: Path, *arguments: str) -> list[str]:
    """The lines that a command prints."""
    capsys.readouterr()
    command, *others = arguments
    assert nodes_main(PROGRAM, NODES, [command, "--root", str(root), "--format", "csv", *others]) == 0
    return capsys.readouterr().out.splitlines()


def test_show(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Tuples in order, each once; with nodes, each beside all of its nodes."""
    assert printed(capsys, root, "show", "link") == ["src,node", '"",y', "b,x", 'é\',"1,2"']
    assert printed(capsys, root, "show", "link", "--nodes") == [
        "src,node,_node",
        '"",y,node0',
        "b,x,node1",
        'é\',"1,2",node1',
    ]
    assert printed(capsys, root, "show", "known") == ["Name", "both", "only 0"]
    assert printed(capsys, root, "show", "known", "--nodes", "--limit", "2") == [
        "Name,node",
        "both,node0",
        "both,node1",
    ]
    assert printed(capsys, root, "show", "total", "--nodes", "--at", "é'") == ["Node,batch,_node", "é',1,node1"]
    assert printed(capsys, root, "show", "total", "--at", "") == ["Node,batch", '"",1']
    assert printed(capsys, root, "show", "alarm") == ["()"]
    assert printed(capsys, root, "show", "alarm", "--nodes") == ["node", "node0"]
    capsys.readouterr()
    assert nodes_main(PROGRAM, NODES, ["show", f"--root={root}", "total", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[0]) == {"Node": "", "batch": 1}


def test_changes(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Changes by node and batch, in the order of commits, not of names."""
    assert printed(capsys, root, "changes", "link") == [
        "_node,batch,op,src,node",
        'node0,step-1,+,"",y',
        "node0,step-1,+,a,x",
        "node0,step-0,-,a,x",
        "node1,step-1,+,b,x",
        'node1,step-1,+,é\',"1,2"',
    ]
    after = ("--after", "node0=step-1", "--after", "node1=step-1")
    assert printed(capsys, root, "changes", "link", *after)[1:] == ["node0,step-0,-,a,x"]
    assert printed(capsys, root, "changes", "total", "--at", "a") == [
        "_node,_batch,op,Node,batch",
        "node0,step-1,+,a,1",
        "node0,step-0,-,a,1",
    ]
    assert printed(capsys, root, "changes", "alarm") == ["node,batch,op", "node0,step-1,+"]
    assert printed(capsys, root, "changes", "total", "--at", "nowhere") == ["_node,_batch,op,Node,batch"]


def test_changes_that_are_kept_no_more(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A node keeps the changes of its last commits; behind a batch that it has forgotten, none are told."""
    shutil.copytree(root / "homes" / "node0", tmp_path / "homes" / "node0")
    shutil.copytree(root / "elsewhere", tmp_path / "homes" / "node1")
    state = ProcessState(PROGRAM, NODES.process(0), tmp_path / "homes" / "node0", keep="2")
    with state.database.transaction():
        state.apply({"link": [("+", ("a", "z"))]}, "step-3")
    state.close()
    lines = printed(capsys, tmp_path, "changes", "link")
    assert [line for line in lines if "node0" in line] == ["node0,step-0,-,a,x", "node0,step-3,+,a,z"]
    assert len(lines) == 5
    command = ["changes", "--root", str(tmp_path), "link", "--after", "node0=begin"]
    assert nodes_main(PROGRAM, NODES, command) == 1
    assert "node0 has no batch begin: it has started over since, or keeps it no longer" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "nothing"], "show: there is no relation nothing in test.dl; it has "),
        (["show", "known", "--at", "a"], "show: known has no location"),
        (["changes", "on"], "changes: on is not an output relation, so its changes are not kept"),
        (
            ["changes", "link", "--after", "node1=x"],
            "changes: node1 has no batch x: it has started over since, or keeps",
        ),
        (
            ["changes", "link", "--after", "node2=x"],
            "changes: --after node2=x: give it as NODE=..., for one of node0, ",
        ),
        (["show", "link", "--home", "node1"], "show: --home node1: give it as NODE=..., for one of node0, node1"),
        (
            ["show", "link", "--home", "node1=/none"],
            "show: node1 has no state in /none: start it, or say where its home",
        ),
    ],
)
def test_refused(arguments: list[str], message: str, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the reason."""
    command, *others = arguments
    assert nodes_main(PROGRAM, NODES, [command, "--root", str(root), *others]) == 1
    assert capsys.readouterr().err.startswith(message)
