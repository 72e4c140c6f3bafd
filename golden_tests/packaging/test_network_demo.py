"""The demonstration of six nodes without its processes: what it expects, what it draws, and when it fails."""

from __future__ import annotations

import importlib
import io
import re
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest
from flintlog.compiler.review.report.topology import Flow
from rich.console import Console
from rich.live import Live

from golden_tests.oracle.evaluate import evaluate
from golden_tests.oracle.language import parse
from golden_tests.packaging.installations import ROOT

FOLDER = ROOT / "examples" / "network"
OWN = ("demo", "picture", "local_processes")
ESSEN_BERLIN = ("Essen", "Berlin")


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The demonstration as a module; what is imported with it is forgotten."""
    for folder in (FOLDER.parent, FOLDER):
        monkeypatch.syspath_prepend(folder)
    module: Any = importlib.import_module("demo")
    module.CALM = 0.0
    yield module
    for name in OWN:
        sys.modules.pop(name, None)


class StandIns:
    """Nodes of which none runs; they are told what changes, and what they have is invented."""

    def __init__(self, folder: Path, differs: str) -> None:
        """Return wrong rows of the relation ``differs`` once a link has failed."""
        self.root, self.differs, self.changes = folder, differs, list[tuple[str, tuple[str, Any]]]()
        self.local, self.jobs = self, self
        self.running: dict[str, Any] = {}
        self.known: dict[Any, Any] = {}
        self.network: Any = None
        self.program: Any = None
        self.TOPOLOGY = {
            "channels": [
                {"relation": f"node{a}.path", "sender": f"node{a}", "reader": f"node{b}"}
                for a in (0, 5)
                for b in (5, 0)
            ]
        }

    def __getattr__(self, name: str) -> Any:
        # To start, to kill and to wait are nothing here.
        return lambda *_, **__: None

    def feed(self, node: str, relation: str, columns: Any, changes: Any) -> None:
        """Note a change."""
        self.changes += [(node, change) for change in changes]

    def is_quiet(self) -> bool:
        """Say so."""
        return True

    def ended(self) -> list[str]:
        """Return none."""
        return []

    def status(self, node: str) -> dict[str, Any]:
        """Return what a node might say."""
        return {"busy": True, "fed": {"link": []}, "incarnation": 1, "out": len(self.changes), "pid": 1}

    def outputs(self, node: str) -> list[str]:
        """Return what the program outputs."""
        return ["path", "best"]

    def size(self, node: str, relation: str) -> int:
        """Return something."""
        return 3

    def rows(self, node: str, relation: str) -> set[Any]:
        """Return what the rules imply for a node."""
        found = self.network.expected(self.program)[relation]
        wrong = relation == self.differs and any(op == "-" for _, (op, _) in self.changes)
        (city,) = (city for city, known in self.network.nodes.items() if known == node)
        return {row for row in found if row[0] == city and not (wrong and row[1] == "Essen")}


def story_of(demo: Any, folder: Path, differs: str = "") -> Any:
    """Return a story of nodes that do not run."""
    made = StandIns(folder, differs)
    story = demo.Story(made, demo.Network(demo.holders()), 10.0)
    made.network, made.program = story.network, story.program
    story.network.expected = partial(expected_once, made.known, story.network.expected, story.network)
    return story


def expected_once(known: dict[Any, Any], evaluated: Any, network: Any, program: Any) -> Any:
    """Return what is expected, evaluated once for the same links and nodes."""
    state = frozenset(network.links), frozenset(network.running)
    if state not in known:
        known[state] = evaluated(program)
    return known[state]


def test_expected(demo: Any) -> None:
    """A single evaluation finds what the rules imply for the links of nodes that run."""
    network = demo.Network(demo.holders())
    network.running = set(network.nodes) - {"Frankfurt"}
    network.links.remove(ESSEN_BERLIN)
    links = {row for city in network.running for row in network.rows(city)}
    assert ("Essen", "Frankfurt", 2) in links and ("Frankfurt", "Essen", 2) not in links
    assert ("Berlin", "Essen", 4) not in links
    expected = evaluate(parse(demo.PROGRAM.read_text(encoding="utf-8")), {"link": links})
    assert network.expected(demo.flintlog.compile(demo.PROGRAM)) == expected


def test_story(demo: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both ends are told of a link; each event is a line, a row and a panel, and a node that is killed is away."""
    story = story_of(demo, tmp_path)
    demo.tell(story)
    told = story.processes.changes
    assert [change for change in told if change[1][0] == "-"] == [
        (node, ("-", row))
        for ends, hours in ((ESSEN_BERLIN, 4), (("Dresden", "Berlin"), 2))
        for a, b in (ends, ends[::-1])
        for node, row in [(story.network.nodes[a], (a, b, hours))]
    ]
    assert story.network.links == set(demo.LINKS) and len(story.network.running) == 6
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "node0.log").write_text(
        "event=sent seconds=1 channel=node0.path--node5 kind=changes incarnation=1 inserted=1500 deleted=7\n"
    )
    demo.show(story, tmp_path / "network.svg")
    said = capsys.readouterr().out
    assert len(re.findall(r" s  .*; equal$", said, re.MULTILINE)) == 8
    assert re.search(r"│ path +│ Amsterdam +│ +│.*│ +1 / 1,507 │ +1 / 1,507 │", said)
    assert str(tmp_path / "network.svg") in said.replace("\n", "")
    drawn = list(ElementTree.parse(tmp_path / "network.svg").getroot().iter())
    kinds = [part.get("class") for part in drawn]
    assert kinds.count("mark") == 16 and kinds.count("city killed") == 2 and kinds.count("away") == 2
    assert kinds.count("cut") == 3 and kinds.count("best") == 5 * 6 + 2 * 4
    assert "wrong" not in kinds


def test_a_table_that_differs(demo: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The story goes on, says which table differs, and fails."""
    story = story_of(demo, tmp_path, differs="best")
    story.happens("start", story.start_all)
    story.happens("failure", partial(story.cut, ESSEN_BERLIN))
    story.happens("return", partial(story.mend, ESSEN_BERLIN))
    with pytest.raises(demo.WrongTables, match=r"after: failure, return$"):
        demo.check(story)
    demo.show(story, tmp_path / "network.svg")
    assert capsys.readouterr().out.count("DIFFERS in best") == 4
    assert "DIFFERS in best" in (tmp_path / "network.svg").read_text(encoding="utf-8")


def test_live_table(demo: Any, tmp_path: Path) -> None:
    """On a terminal, the nodes are shown in place until all is quiet."""
    story = story_of(demo, tmp_path)
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, width=110, color_system=None)
    story.processes.running = {"node0": SimpleNamespace(pid=1), "node1": SimpleNamespace(pid=2)}
    with Live(console=console, transient=True, auto_refresh=False) as story.live:
        story.happens("start", story.start_all)
        story.live.refresh()
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.getvalue().splitlines()]
    known = {row[0]: row[2:] for row in rows if len(row) == 9}
    assert known["Amsterdam"] == ["busy", "1", "3", "3", "0", "0", "14"]
    assert known["Copenhagen"][0] == "starting" and known["Berlin"][0] == "killed"
    assert "\x1b[1A" in shown.getvalue()


def test_bars(demo: Any) -> None:
    """What a run has sent since the last look; another run counts from 0."""
    picture = sys.modules["picture"]
    looks = [(0.1, 1, 4), (0.2, 1, 4), (0.7, 1, 10), (1.1, 2, 3), (1.2, 2, 5)]
    found = picture.sent_by_bar([picture.Sample(time, "Essen", run, tuples) for time, run, tuples in looks])
    assert found == {0: 4, 1: 6, 2: 5}
    assert demo.cell(Flow()) == "" and demo.cell(Flow(1_000, 1, 2_000, 3)) == "1,000 / 2,003"
