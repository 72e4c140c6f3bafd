"""``flintlog report``: every link leads somewhere, both ways between rules and script; pictures; logs."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser
from itertools import combinations
from pathlib import Path

import pytest
from click.testing import CliRunner
from flintlog.compiler import CompileOptions, cli
from flintlog.compiler.pipeline import compile_program
from flintlog.compiler.processes import compile_any
from flintlog.compiler.review.report.joblog import read_runs
from flintlog.compiler.review.report.layered import Box, Drawing, Edge, Node, draw
from flintlog.compiler.review.report.page import report_page
from flintlog.compiler.source import SourceFile
from flintlog.targets import EmitOptions
from hypothesis import given, settings
from hypothesis import strategies as some

from golden_tests.nightly import by_day, one_in

ROOT = Path(__file__).parents[2]
CASES = sorted((ROOT / "golden_tests" / "cases").glob("*/program.dl"))
UNFORMATTED = EmitOptions("0.0.0", format=False)

LOG = """\
WARNING: Using incubator modules: jdk.incubator.vector
event=read seconds=2.000 relation=link files=1 bytes=24
event=stage seconds=2.500 strata=reachable engine=duckdb reason="by bucket"
[Stage 0:>    (0 + 2) / 2]\revent=working seconds=3.1 bucket=0 stratum=reachable phase=insert round=1 tuples=2
event=round seconds=0.200 stratum=reachable phase=insert round=1 tuples=2 bucket=0
event=round seconds=0.250 stratum=reachable phase=insert round=2 tuples=1 bucket=0
event=round seconds=0.300 stratum=reachable phase=insert round=1 tuples=40 bucket=1
event=relation seconds=4.000 relation=link tuples=12 inserted=12 deleted=0
event=relation seconds=4.000 relation=reachable tuples=1043 inserted=1043 deleted=0
event=committed seconds=4.000 commit=1 batch=init
event=read seconds=1.000 relation=link files=1 bytes=24
event=stage seconds=1.500 strata=reachable engine=spark reason="asked for"
event=round seconds=1.750 stratum=reachable phase=delete round=1 tuples=7
event="from scratch" seconds=2.000 stratum=reachable bucket=0 reason="too much has died \\"here\\""
event=again seconds=3.000 start=2 reason="an executor was lost, and rows that it kept"
event=round seconds=3.500 stratum=reachable phase=delete round=1 tuples=9
event=relation seconds=4.000 relation=reachable tuples=1040 inserted=2 deleted=5
event=committed seconds=5.000 commit=2 batch=monday
event=read seconds=1.000 relation=link files=1 bytes=24
event=stage seconds=1.500 strata=reachable skipped="nothing it reads has changed"
event=stage seconds=1.500 strata=far engine=duckdb reason="by bucket"
"""

LOCATED = """\
input relation link(@src: int, dst: int)
input relation closed(@node: int)
output relation reachable(@src: int, dst: int)
output relation far(@src: int, n: int)
r1: reachable(@S, D) :- link(@S, D).
r2: reachable(@S, D) :-
    link(@S, Z),  // a step
    reachable(@Z, D), !closed(@Z).
far(@S, count<*>) :- reachable(@S, D).
"""


class Page(HTMLParser):
    """The anchors of a page, and what it leads to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: list[str] = []
        self.links: list[str] = []
        self.tags: set[str] = set()
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.tags.add(tag)
        named = dict(attributes)
        if "id" in named:
            self.anchors.append(str(named["id"]))
        for name in ("href", "src"):
            if name in named:
                self.links.append(str(named[name]))


def reported(text: str, log: str = "") -> str:
    """The page about a program."""
    return report_page(compile_any(SourceFile("reach.dl", text)), UNFORMATTED, {"reach.dl": log})


def check(page: str) -> Page:
    """Anchors are unique, links lead to them, and nothing is fetched or run."""
    found = Page(page)
    assert len(found.anchors) == len(set(found.anchors))
    assert {f"#{anchor}" for anchor in found.anchors} >= set(found.links)
    assert not found.tags & {"script", "link", "img", "iframe", "object"}
    assert "@import" not in page and "url(h" not in page
    return found


@by_day(5)
@pytest.mark.parametrize("path", one_in(CASES, 3), ids=lambda path: path.parent.name)
def test_links(path: Path) -> None:
    """Of every case: rules and script lead to each other, and so do lines of the program and rules."""
    compilation = compile_program(path)
    page = report_page(compilation, UNFORMATTED, {})
    found = check(page)
    for rule in (rule for stage in compilation.plan.stages for stratum in stage.strata for rule in stratum.rules):
        card = next(part for part in page.split('<article class="card rule" id="')[1:] if f"<h4>{rule.label} " in part)
        shown = html.unescape(re.sub("<.*?>", "", card))
        assert all(fact.text in shown for fact in rule.full.facts)
        anchor = card.partition('"')[0]
        to = re.search(r'href="#(script-\d+)">lines', card)
        assert to is not None
        row = page.partition(f'id="{to[1]}"')[2].partition("\n")[0]
        assert f'href="#{anchor}"' in row
        assert f">{rule.label}" in row or rule.label in re.sub("<.*?>", "", row)
        place = re.search(r'href="#(source-\d+-\d+)"', card)
        assert place is not None
        assert f'href="#{anchor}"' in page.partition(f'id="{place[1]}"')[2].partition("\n")[0]
    assert {anchor for anchor in found.anchors if anchor.startswith("relation-")}


def test_a_rule() -> None:
    """All that becomes of a rule is there: localized, delta rules, certificate, SQL."""
    page = reported(LOCATED)
    card = re.sub("<.*?>", "", page.partition('id="rule-r2"')[2].partition("</article>")[0])
    assert "send link_at_dst: @S -&gt; @Z (link), since" in card
    assert "r2: reachable(@S, D) :- link_at_dst(@Z, S), reachable(@Z, D), !closed(@Z)." in card
    assert "Δlink(S, Z), !closed(Z), reachable(Z, D)" in card
    assert "every change is counted exactly once" in card
    assert "Δlink !closed Δreachable" in card
    assert "r2, a change arriving through the absence of closed" in card
    assert "FROM closed__absent_delta" in card
    assert 'class="edge negated' in page and "@S → @Z" in page and "head: @Z → @S" in page


def test_both_dialects() -> None:
    """Where the engines read different texts, both are there; where not, one."""
    page = reported("input relation a(x: int)\noutput relation b(x: int)\nb(X / 2) :- a(X).\n")
    assert '<span class="tag">DuckDB</span>' in page and '<span class="tag">Spark</span>' in page
    assert "DuckDB and Spark" in reported("input relation a(x: int)\noutput relation b(x: int)\nb(X) :- a(X).\n")


def test_text_is_escaped() -> None:
    """What a program says is text."""
    page = reported(
        'input relation a(x: string)\noutput relation b(x: string)\n// <b>&\nb("<script>") :- a("&amp;").\n'
    )
    check(page)
    assert "&lt;script&gt;" in page


def test_runs() -> None:
    """A log: sizes, stages, rounds on the clock of a bucket or of the job, a start anew, a run that did not commit."""
    first, second = read_runs(LOG)
    assert (first.batch, first.commit, first.seconds) == ("init", "1", 4.0)
    assert [(size.relation, size.tuples, size.inserted) for size in first.sizes] == [
        ("link", 12, 12),
        ("reachable", 1043, 1043),
    ]
    (stage,) = first.stages
    assert (stage.engine, stage.reason, stage.seconds) == ("duckdb", "by bucket", 1.5)
    (phase,) = stage.phases
    assert [(done.number, done.tuples, round(done.seconds, 3)) for done in phase.rounds] == [(1, 42, 0.3), (2, 1, 0.05)]
    (stage,) = second.stages
    (phase,) = stage.phases
    assert phase.scratch == 'too much has died "here"'
    assert [(done.tuples, done.seconds) for done in phase.rounds] == [(9, 2.0)]


def test_a_run_that_ended_in_its_first_stage() -> None:
    """It is none of the next one."""
    lines = LOG.splitlines(keepends=True)
    end = next(place for place, line in enumerate(lines) if "event=round" in line)
    assert read_runs("".join([*lines[: end + 1], *lines])) == read_runs(LOG)


def test_runs_on_the_page() -> None:
    """Sizes stand on the graph and at relations, times at strata."""
    page = reported(LOCATED, LOG)
    check(page)
    text = re.sub("<.*?>", "", page)
    assert "batch monday, commit 2, 5.0 s" in text
    assert "1,040 tuples" in page.partition("</svg></div>")[0]
    assert "too much has died" in text
    assert page.count('<i style="height') == 3
    assert 'id="program-runs"' not in reported(LOCATED)


def test_processes() -> None:
    """Each process is a part of the page; the picture leads to it; a line of a pattern leads to several rules."""
    path = ROOT / "examples" / "switches" / "switches.dl"
    page = report_page(compile_any(path), UNFORMATTED, {})
    found = check(page)
    assert {"S1.program", "S2.program", "S3.program", "topology"} <= set(found.anchors)
    assert page.count('class="process"') == 3
    row = next(line for line in page.splitlines() if "S1.rule-" in line and "source-1-" in line)
    assert "S2.rule-" in row


def test_recursion_over_processes() -> None:
    """What is recursive through another process only is said to be so."""
    path = ROOT / "golden_tests" / "addons" / "processes" / "cases" / "reach_over_two" / "program.dl"
    page = report_page(compile_any(path), UNFORMATTED, {})
    check(page)
    assert "part of a recursion over several processes" in " ".join(page.split())


def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command writes the page, and refuses what does not go together."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reach.dl").write_text(LOCATED, encoding="utf-8")
    (tmp_path / "log").write_text(LOG, encoding="utf-8")
    runner = CliRunner()
    done = runner.invoke(cli.main, ["report", "reach.dl", "--log", "log"], catch_exceptions=False)
    assert (done.exit_code, done.stderr, done.stdout) == (0, "wrote reach.html\n", "")
    page = (tmp_path / "reach.html").read_text(encoding="utf-8")
    check(page)
    assert f"Flintlog {CompileOptions().compiler}." in page
    (tmp_path / "reach.dl").write_text(LOCATED.replace("!closed(@Z)", "!close(@Z)"), encoding="utf-8")
    done = runner.invoke(cli.main, ["report", "reach.dl", "-o", "new.html"])
    assert done.exit_code == 1 and "E0201" in done.stderr and not (tmp_path / "new.html").exists()
    (tmp_path / "reach.dl").write_text(LOCATED, encoding="utf-8")
    for arguments in (["reach.dl", "--root", "."], ["reach.dl", "--outside", "S2"]):
        assert runner.invoke(cli.main, ["report", *arguments]).exit_code == 2
    switches = str(ROOT / "examples" / "switches" / "switches.dl")
    assert runner.invoke(cli.main, ["report", switches, "--log", "log"]).exit_code == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "log has no events; use the --log option of the job to write a log"),
        ("26/11/22 09:31:38 INFO SparkContext: Running Spark\n", "log has no events"),
        (
            "event=stage seconds=1.0 strata=reachable engine=duckdb reason=x\n",
            "no command in this log was committed",
        ),
    ],
)
def test_logs_that_tell_nothing(text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page without the job that was asked for is not written."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reach.dl").write_text("input relation e(x: int)\noutput o.\no(X) :- e(X).\n", encoding="utf-8")
    (tmp_path / "log").write_text(text, encoding="utf-8")
    done = CliRunner().invoke(cli.main, ["report", "reach.dl", "--log", "log"], catch_exceptions=False)
    assert (done.exit_code, said in done.stderr) == (2, True), done.stderr
    assert not (tmp_path / "reach.html").exists()


@some.composite
def graphs(draw_: some.DrawFn) -> tuple[list[Node], list[Edge]]:
    """Blocks in a row; edges lead from one to a later one, or within a block."""
    sizes = draw_(some.lists(some.integers(1, 6), min_size=1, max_size=9))
    nodes = [Node(f"n{b}.{i}", "x" * (b + 3), "", f"b{b}") for b, size in enumerate(sizes) for i in range(size)]
    pairs = draw_(
        some.sets(some.tuples(some.integers(0, len(nodes) - 1), some.integers(0, len(nodes) - 1)), max_size=25)
    )
    edges = [Edge(nodes[min(p)].key, nodes[max(p)].key, ("r1", "longer_label")[: 1 + p[0] % 2]) for p in pairs]
    return nodes, list({(edge.source, edge.target): edge for edge in edges}.values())


@given(graphs())
@settings(max_examples=150, deadline=None)
def test_drawing(graph: tuple[list[Node], list[Edge]]) -> None:
    """Nodes do not overlap and lie within the drawing, below what leads to them and within their block."""
    nodes, edges = graph
    drawn = draw(nodes, edges)
    assert len(drawn.curves) == len(edges)
    for one, other in combinations(drawn.nodes.values(), 2):
        assert apart(one, other)
    for one, other in combinations(drawn.blocks.values(), 2):
        assert apart(one, other)
    of = {node.key: node.block for node in nodes}
    for key, box in drawn.nodes.items():
        assert inside(box, Box(0, 0, drawn.width, drawn.height))
        if of[key] in drawn.blocks:
            assert inside(box, drawn.blocks[of[key]])
    for edge in edges:
        if of[edge.source] != of[edge.target]:
            assert drawn.nodes[edge.source].y < drawn.nodes[edge.target].y
    paths_stay_inside(drawn)


def apart(one: Box, other: Box) -> bool:
    """Whether boxes have nothing in common, but for what rounding makes."""
    beside = one.x + one.width <= other.x + 0.01 or other.x + other.width <= one.x + 0.01
    return beside or one.y + one.height <= other.y + 0.01 or other.y + other.height <= one.y + 0.01


def inside(box: Box, outer: Box) -> bool:
    """Whether a box lies in another."""
    return (
        box.x >= outer.x - 0.01
        and box.y >= outer.y - 0.01
        and box.x + box.width <= outer.x + outer.width + 0.01
        and box.y + box.height <= outer.y + outer.height + 0.01
    )


def paths_stay_inside(drawn: Drawing) -> None:
    """Edges between blocks do not leave the drawing."""
    for curve in drawn.curves:
        if "C" in curve.path and curve.edge.source != curve.edge.target:
            numbers = [float(number) for number in re.findall(r"-?\d+", curve.path)]
            assert all(-1 <= x <= drawn.width + 1 for x in numbers[::2])
            assert all(-1 <= y <= drawn.height + 1 for y in numbers[1::2])


def test_cycle_of_blocks() -> None:
    """Blocks that lead to each other are a mistake of the caller."""
    nodes = [Node("a", "a", "", "a"), Node("b", "b", "", "b")]
    with pytest.raises(ValueError, match="cycle"):
        draw(nodes, [Edge("a", "b"), Edge("b", "a")])


def test_nothing_to_draw() -> None:
    """A program without relations has an empty picture."""
    assert draw([], []).nodes == {}
    check(report_page(compile_any(SourceFile("empty.dl", "// nothing\n")), UNFORMATTED, {}))
