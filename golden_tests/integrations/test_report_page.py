"""The page of ``flintlog report`` in a browser: drawn, readable, and its links lead to what is then in sight."""

from __future__ import annotations

from pathlib import Path

import pytest
from flintlog.compiler.processes import compile_any, compile_processes
from flintlog.compiler.review.report.page import report_page, topology_page
from flintlog.compiler.source import SourceFile
from flintlog.targets import EmitOptions

from golden_tests.cli.test_report import LOCATED, LOG
from golden_tests.integrations.browser import NARROW, WIDE, Browser, Visit
from golden_tests.integrations.environments import ROOT, WANTED

PROGRAMS = {
    "located": (SourceFile("reach.dl", LOCATED), LOG),
    "fraud_detection": (ROOT / "golden_tests" / "cases" / "fraud_detection" / "program.dl", ""),
    "mutual_recursion": (ROOT / "golden_tests" / "cases" / "mutual_recursion" / "program.dl", ""),
    "switches": (ROOT / "examples" / "switches" / "switches.dl", ""),
}

#: Names that stick out of their boxes, and nodes outside of their picture.
DRAWN = """() => [...document.querySelectorAll("svg.graph, svg.topology")].flatMap(svg => {
  const all = svg.getBoundingClientRect();
  return [...svg.querySelectorAll("rect.node, rect.process")].flatMap(rect => {
    const box = rect.getBoundingClientRect(), found = [];
    if (!box.width || box.left < all.left || box.right > all.right || box.top < all.top || box.bottom > all.bottom)
      found.push("outside");
    for (const text of rect.parentElement.querySelectorAll(":scope > text:not(.small)")) {
      const own = text.getBoundingClientRect();
      if (own.left > box.left && own.left < box.right && own.right > box.right) found.push(text.textContent);
    }
    return found;
  });
})"""

#: What the page's address leads to, if it is in sight.
IN_SIGHT = """() => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const box = target.getBoundingClientRect();
  return box.width > 0 && box.top > -2 && box.top < innerHeight;
}"""


@pytest.fixture
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The page about a program."""
    program, log = PROGRAMS[request.param]
    page = tmp_path / "page.html"
    logs = {"reach.dl": log}
    page.write_text(report_page(compile_any(program), EmitOptions("0.0.0"), logs), encoding="utf-8")
    return page.as_uri()


def followed(visit: Visit, selector: str) -> str:
    """Click on a link; the anchor that it leads to, which is then in sight."""
    visit.page.locator(selector).first.click()
    visit.page.wait_for_function(IN_SIGHT, timeout=5000)
    return str(visit.page.evaluate("location.hash"))


@WANTED
@pytest.mark.parametrize("address", PROGRAMS, indirect=True)
@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("dark", [False, True])
def test_page(browser: Browser, address: str, width: int, dark: bool) -> None:
    """Nothing sticks out, everything can be read, pictures are drawn, and nothing else is loaded."""
    with browser.open(address, width=width, dark=dark) as visit:
        assert visit.page.locator("svg.graph rect.node").count() > 1
        assert visit.page.evaluate(DRAWN) == []
        visit.page.evaluate("document.querySelectorAll('details').forEach(details => details.open = true)")
        assert visit.faults() == []


@WANTED
@pytest.mark.parametrize("address", ["located"], indirect=True)
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_links(browser: Browser, address: str, width: int) -> None:
    """From a line of the program to its rule, on to the script, and back; from the graph to rules and relations."""
    with browser.open(address, width=width) as visit:
        assert followed(visit, "#source-1-6 + .text a") == "#rule-r2"
        line = followed(visit, "#rule-r2 h4 a >> nth=1")
        assert line.startswith("#script-")
        assert followed(visit, f"{line} + .text a") == "#rule-r2"
        assert followed(visit, "#rule-r2 h4 a >> nth=0") == "#source-1-6"
        assert followed(visit, "svg.graph a:has-text('reachable')") == "#relation-reachable"
        assert followed(visit, "svg.graph a:has-text('!r2')") == "#rule-r2"
        visit.page.locator("#rule-r2 summary:has-text('SQL')").click()
        assert followed(visit, "#rule-r2 h5 a >> nth=0").startswith("#script-")
        assert visit.faults() == []


@WANTED
@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("dark", [False, True])
def test_topology(browser: Browser, tmp_path: Path, width: int, dark: bool) -> None:
    """The page of ``flintlog topology``."""
    found = compile_processes([ROOT / "examples" / "switches" / "switches.dl"])
    page = tmp_path / "topology.html"
    page.write_text(topology_page(found.topology, "switches.dl", {}), encoding="utf-8")
    with browser.open(page.as_uri(), width=width, dark=dark) as visit:
        assert visit.page.locator("svg.topology rect.process").count() == 3
        assert visit.page.evaluate(DRAWN) == []
        assert visit.faults() == []


@WANTED
@pytest.mark.parametrize("address", ["switches"], indirect=True)
def test_processes(browser: Browser, address: str) -> None:
    """From the picture of the processes to a process."""
    with browser.open(address) as visit:
        assert followed(visit, "svg.topology a:has-text('S2')") == "#S2.program"
        assert visit.faults() == []
