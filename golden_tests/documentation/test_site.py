"""The site: it has every page, says what a code host shows of the pages, and its links lead somewhere."""

from __future__ import annotations

import difflib
import re
import shutil
from collections.abc import Iterator, Mapping
from functools import cache
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from flintlog.compiler.diagnostics import CODES
from flintlog.compiler.diagnostics import index as error_index
from markdown_it import MarkdownIt
from mkdocs.config import load_config

from golden_tests.documentation.pages import COMMAND, ROOT, pieces
from golden_tests.documentation.pages import PAGES as SHOWN
from golden_tests.documentation.site import DOCS, PAGES, PICTURES, build, diagrams, hooks, picture_of, text_of
from golden_tests.nightly import AT_NIGHT

BLOCKS = ("h1", "h2", "h3", "h4", "h5", "h6", "li", "pre", "td", "th")
OUTER = ("p", "ul", "ol", "table", "tr", "div")
VOID = ("br", "col", "hr", "img", "input", "link", "meta")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built without a warning."""
    return build(tmp_path_factory.mktemp("site"))


def read(site: Path, page: str) -> str:
    """The HTML of a page."""
    return (site / page).with_suffix(".html").read_text(encoding="utf-8")


# ---- pages and links -------------------------------------------------------------------------------------------------


def test_every_page_is_in_the_navigation() -> None:
    """Once, and nothing else is."""
    config = load_config(str(ROOT / "mkdocs.yml"))
    assert sorted(named(config.nav)) == PAGES


def named(entry: Any) -> Iterator[str]:
    """The pages that a part of the navigation names."""
    if isinstance(entry, str):
        yield entry
    else:
        for part in entry.values() if isinstance(entry, Mapping) else entry:
            yield from named(part)


@AT_NIGHT
def test_broken_links_end_the_build(tmp_path: Path) -> None:
    """Each page or anchor that is not there, and a diagram without a picture, is named."""
    root = tmp_path / "root"
    shutil.copytree(ROOT, root, ignore=shutil.ignore_patterns(".git", ".venv", "build", "dist", "*cache*"))
    page = root / "docs" / "tutorial.md"
    links = {
        "[a](nothing.md)": "a link 'nothing.md', but the target is not found",
        "[a](build.md#nothing)": "'build.md#nothing', but the doc 'build.md' does not contain an anchor '#nothing'",
        "[a](../nothing.dl)": "a link '../nothing.dl', but the target is not found",
    }
    text = page.read_text(encoding="utf-8")
    for mistakes in (links, {"```mermaid\nflowchart LR\n    a --> b\n```": "`make pictures` draws it"}):
        page.write_text("\n\n".join([text, *mistakes]) + "\n", encoding="utf-8")
        with pytest.raises(AssertionError) as refused:
            build(tmp_path / "site", root)
        assert [said for said in mistakes.values() if said not in str(refused.value)] == []


def test_links_of_the_site(site: Path) -> None:
    """Each leads to a file of the site, and to an anchor that is there."""
    pages = {
        path: Seen.of(path.read_text(encoding="utf-8")) for path in site.rglob("*.html") if path.name != "404.html"
    }
    broken = []
    for path, seen in pages.items():
        for link in seen.links:
            parts = urlsplit(link)
            leads = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if parts.scheme:
                continue
            if not leads.is_file() or (parts.fragment and unquote(parts.fragment) not in pages[leads].anchors):
                broken.append(f"{path.relative_to(site)}: {link}")
    assert broken == []


@pytest.mark.parametrize("name", SHOWN)
def test_links_on_a_code_host(name: str) -> None:
    """Each leads to a file or folder of the repository, and to a heading that is there."""
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", outside_blocks((ROOT / name).read_text(encoding="utf-8"))):
        parts = urlsplit(link)
        leads = ((ROOT / name).parent / unquote(parts.path)).resolve() if parts.path else ROOT / name
        there = leads.exists() and leads.is_relative_to(ROOT)
        if not parts.scheme and not (there and (not parts.fragment or parts.fragment in anchors(leads))):
            broken.append(link)
    assert broken == []


def test_headings_have_the_anchors_of_a_code_host(site: Path) -> None:
    """So a link to a heading is right in both."""
    for name in PAGES:
        seen = Seen.of(read(site, name))
        assert [anchor for anchor in anchors(DOCS / name) if anchor not in seen.anchors] == []


@cache
def anchors(page: Path) -> list[str]:
    """The anchors of a page on a code host: its own, and those of headings: lower case, no punctuation, hyphens for
    spaces."""
    text = outside_blocks(page.read_text(encoding="utf-8"))
    found: list[str] = re.findall(r'<a id="([^"]*)"></a>', text)
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading.replace("`", ""))
        anchor = re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
        assert anchor not in found, f"{page.name} has two headings {heading!r}, whose anchors differ from host to host"
        found.append(anchor)
    return found


def outside_blocks(text: str) -> str:
    """A page without its fenced blocks."""
    return re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)


def test_nothing_comes_from_other_hosts(site: Path) -> None:
    """Scripts, styles, fonts and pictures are files of the site."""
    for path in site.rglob("*.html"):
        assert [link for link in Seen.of(path.read_text(encoding="utf-8")).loaded if urlsplit(link).netloc] == []


# ---- what the pages say ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PAGES)
def test_site_says_what_a_code_host_shows(name: str, site: Path) -> None:
    """The same headings, paragraphs, list items, cells and blocks, though mkdocs has another reader of Markdown."""
    text = text_of(name)
    text = re.sub(r"^\*\*`[^`\n]+`\*\*\n\n(?=```)", "", text, flags=re.MULTILINE)
    text = re.sub(r"^```mermaid\n.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    host = Seen.of(MarkdownIt("commonmark", {"html": True}).enable("table").render(text)).texts
    article = re.search(r"<article[^>]*>(.*)</article>", read(site, name), re.DOTALL)
    assert article
    difference = list(difflib.unified_diff(host, Seen.of(article[1]).texts, "code host", "site", lineterm="", n=0))
    assert not difference, "\n".join(difference)


class Seen(HTMLParser):
    """What a reader sees of a page: its blocks as text behind the name of their tag, and its links and anchors."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self._open: list[tuple[str, bool]] = []
        self._text = ""

    @classmethod
    @cache
    def of(cls, html: str) -> Seen:
        """What there is in a text."""
        seen = cls()
        seen.feed(html)
        seen.end_of_block()
        return seen

    def end_of_block(self) -> None:
        """What was collected is a text."""
        text = " ".join(self._text.split())
        self._text = ""
        if text:
            block = next((tag for tag, _ in reversed(self._open) if tag in BLOCKS), "p")
            depth = sum(tag in ("ul", "ol") for tag, _ in self._open)
            self.texts.append(f"{block} {depth} {text}")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Look at what a tag names."""
        given = {name: value or "" for name, value in attrs}
        if tag in BLOCKS + OUTER:
            self.end_of_block()
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        loaded = "href" if tag == "link" else "src"
        if tag in ("script", "img", "iframe", "source") or (
            tag == "link" and given.get("rel") in ("stylesheet", "icon")
        ):
            self.loaded += [given[loaded]] if loaded in given else []
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag not in VOID:
            classes = given.get("class", "").split()
            hidden = tag in ("svg", "nav", "button", "script") or bool({"headerlink", "filename"} & {*classes})
            self._open.append((tag, hidden))

    def handle_endtag(self, tag: str) -> None:
        """End a tag and those in it that need no end."""
        if tag in BLOCKS + OUTER:
            self.end_of_block()
        if any(tag == opened for opened, _ in self._open):
            while self._open.pop()[0] != tag:
                pass

    def handle_data(self, data: str) -> None:
        """Collect text that is shown."""
        if not any(hidden for _, hidden in self._open):
            self._text += data


def test_programs_are_coloured(site: Path) -> None:
    """By the lexer of Flintlog, under the language that blocks of programs have."""
    page = read(site, "tutorial.md")
    assert '<span class="kd">input</span><span class="w"> </span><span class="kd">relation</span>' in page
    for name in PAGES:
        assert not re.search(r'class="language-datalog highlight">(?:(?!</pre>).)*class="err"', read(site, name), re.S)


def test_files_are_named(site: Path) -> None:
    """The path above a block is its title."""
    for name in PAGES:
        files = [piece.what for piece in pieces(text_of(name)) if piece.mark == "file"]
        titles = re.findall(r'<span class="filename">([^<]*)</span>', read(site, name))
        assert [title for title in titles if title in files] == files
        assert "<strong><code>" not in "".join(f"<strong><code>{file}" for file in files if file not in titles)


def test_commands_can_be_copied(site: Path) -> None:
    """The button of a console copies its commands."""
    for name in PAGES:
        consoles = [p.text for p in pieces(text_of(name)) if p.language == "console"]
        copied = re.findall(r'class="language-console highlight" data-copy="([^"]*)"', read(site, name))
        assert [unescape(text) for text in copied] == [
            "\n".join(command for command, _ in COMMAND.findall(console)) for console in consoles
        ]


def test_diagrams_have_pictures(site: Path) -> None:
    """Each has one that was drawn of it, ``make pictures`` draws them; none is left over."""
    assert {picture_of(text) for text in diagrams()} == set(PICTURES.glob("*.svg"))
    shown = [name for name in PAGES for _ in range(read(site, name).count('<div class="picture"><svg'))]
    assert len(shown) == len(diagrams())


def test_codes_have_their_anchors(site: Path) -> None:
    """Where documents of diagnostics lead to, once the package names the site."""
    assert {code.lower() for code in CODES} <= Seen.of(read(site, error_index.PAGE)).anchors


# ---- hooks -----------------------------------------------------------------------------------------------------------


def test_links_to_files(site: Path) -> None:
    """A file of the repository is a page with its text, a folder one that leads to those of its files."""
    page = read(site, "build.md")
    assert 'href="files/examples/build_step/Makefile.html"' in page
    assert 'href="files/pre-commit-hooks.yaml.html"' in page
    example = read(site, "files/examples/access/groups.dl.html")
    assert '<span class="nf">belongs</span>' in example
    assert 'href="package.json.html"' in read(site, "files/editors/index.md")
    assert not (site / "review" / "groups.dl").exists()


def test_links_that_stay() -> None:
    """Those of blocks, to pages and pictures, to other hosts and to what is not there."""
    module = hooks()
    source = DOCS / "guides" / "guide.md"
    text = (
        "[a](../build.md#the-table) [b](https://example.org) ![c](../performance-scaling.svg) [d](../nothing.dl)"
        " [e](../../examples/reach/reach.dl#here)\n\n```text\n[f](../../README.md)\n```\n"
    )
    made = module.with_links(text, source, "guides/guide.md")
    assert made == text.replace("../../examples/reach/reach.dl#here", "../files/examples/reach/reach.dl.md")
    assert list(module.linked(source, text)) == [ROOT / "examples" / "reach" / "reach.dl"]


def test_titles() -> None:
    """Of blocks below the name of a file, and of those with a name behind their language."""
    made = hooks().with_titles(
        "**`a/b.dl`**\n\n```datalog\n```\n\n```datalog c.dl latin-1\n```\n\n**`d`** x\n\n```text\n```\n"
    )
    assert made == '```datalog title="a/b.dl"\n```\n\n```datalog title="c.dl"\n```\n\n**`d`** x\n\n```text\n```\n'


def test_lists_and_cells() -> None:
    """As mkdocs wants them; blocks stay as they are."""
    given = """\
Text:
* one
  more

  ```text
  * a
      b
  ```

  behind it
* two
  * in it
    - and in that

1. three

   more

```text
x
* y
  z
```
"""
    made = """\
Text:

* one
    more

    ```text
    * a
        b
    ```

    behind it

* two
    * in it
        - and in that

1. three

    more

```text
x
* y
  z
```
"""
    assert hooks().with_lists(given) == made
    assert hooks().with_cells("| `a\\|b` | c\\|d |\n`e\\|f`\n") == "| `a|b` | c\\|d |\n`e\\|f`\n"


def test_file_with_fences() -> None:
    """A file that has fences itself is in a longer one."""
    page = hooks().file_page(ROOT / "README.md")
    assert "\n````text\n# Flintlog\n" in page
    assert page.endswith("\n````\n")
