"""The site in a browser: it asks no other host for anything, and is read on a phone, in the dark and from a disk."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from golden_tests.documentation.site import PAGES
from golden_tests.integrations.browser import NARROW, WIDE, Browser, Visit, served
from golden_tests.integrations.environments import ROOT, WANTED

pytestmark = WANTED

#: Pages of each kind: those of the documentation, of a file and of a folder, and that of an address that leads nowhere.
KINDS = [name.removesuffix(".md") for name in PAGES] + ["files/examples/access/groups.dl", "files/editors/index", "404"]


@pytest.fixture(scope="module")
def site() -> Path:
    """What ``make docs`` builds."""
    done = subprocess.run(["make", "docs"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return ROOT / "build" / "site"


@pytest.fixture(scope="module", params=["server", "disk"])
def address(request: pytest.FixtureRequest, site: Path) -> Iterator[str]:
    """Where the site is."""
    if request.param == "disk":
        yield site.as_uri()
    else:
        with served(site) as address:
            yield address


@pytest.fixture(scope="module")
def server(site: Path) -> Iterator[str]:
    """Where a server has the site."""
    with served(site) as address:
        yield address


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_pages(browser: Browser, server: str, width: int, dark: bool) -> None:
    """No errors, no requests to other hosts, nothing beyond the edge of the window, and text that can be read."""
    wrong: dict[str, list[str]] = {}
    with browser.open(f"{server}/index.html", width=width, dark=dark) as visit:
        scheme = visit.page.evaluate("document.body.getAttribute('data-md-color-scheme')")
        assert scheme == ("slate" if dark else "default")
        for name in KINDS:
            visit.go(f"{server}/{name}.html")
            wrong[name] = visit.faults()
    assert {name: faults for name, faults in wrong.items() if faults} == {}


def test_faults_are_found(browser: Browser, server: str) -> None:
    """What the test above looks for, it finds."""
    with browser.open(f"{server}/index.html", width=NARROW) as visit:
        visit.page.evaluate(
            """() => {
              const wide = document.createElement("p");
              wide.style = "width: 1000px; color: #999; background: #eee";
              wide.textContent = "faint";
              document.querySelector("article").append(wide);
              console.error("wrong");
              fetch("https://example.org/font").catch(() => {});
            }"""
        )
        visit.page.wait_for_timeout(200)
        faults = visit.faults()
        assert "wrong" in faults
        assert "asked for https://example.org/font" in faults
        assert any("the page is" in fault for fault in faults)
        assert any(fault.endswith("2.46: faint") for fault in faults)


def test_search(browser: Browser, address: str) -> None:
    """What is typed is found, and a click leads there; with a server and without."""
    with browser.open(f"{address}/index.html") as visit:
        visit.page.get_by_placeholder("Search").click()
        visit.page.keyboard.type("incarnations", delay=20)
        visit.page.locator('.md-search-result__link[href*="processes.html"][href*="h=incarnation"]').first.click()
        visit.page.wait_for_url("**/processes.html*")
        visit.page.locator("mark", has_text="Incarnations").first.wait_for()
        assert visit.faults() == []


def test_commands_are_copied(browser: Browser, server: str) -> None:
    """From a console its commands, without prompts and what they print; from another block all of it."""
    with browser.open(f"{server}/tutorial.html") as visit:
        visit.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        copied = copy(visit, ".language-console", "flintlog job explain")
        assert [line.split()[:3] for line in copied.splitlines()] == [
            *(["python", "jobs/groups.py", command] for command in ("apply", "apply", "show")),
            ["flintlog", "job", "explain"],
            ["python", "jobs/groups.py", "verify"],
        ]
        assert copy(visit, ".language-text", "user,grp") == "user,grp\nada,compiler\nlin,storage"
        assert visit.faults() == []


def copy(visit: Visit, kind: str, text: str) -> Any:
    """What is in the clipboard after a click on the button of a block that has some text."""
    visit.page.locator(kind, has_text=text).first.locator("button").first.click()
    return visit.page.evaluate("navigator.clipboard.readText()")


def test_colours_can_be_chosen(browser: Browser, server: str) -> None:
    """Those of the system, until a reader chooses others, which other pages remember."""
    scheme = "document.body.getAttribute('data-md-color-scheme')"
    with browser.open(f"{server}/index.html", dark=True) as visit:
        visit.page.get_by_title("Switch to light colours").click()
        assert visit.page.evaluate(scheme) == "default"
        visit.go(f"{server}/errors.html")
        assert visit.page.evaluate(scheme) == "default"
        assert visit.faults() == []


def test_pages_need_no_script(browser: Browser, server: str) -> None:
    """Text, programs and diagrams are there without any."""
    with browser.open(scripts=False) as visit:
        visit.go(f"{server}/index.html")
        assert visit.page.locator(".picture svg .node").count() > 5
        assert visit.page.locator(".language-datalog .kd").first.inner_text() == "input"
