"""What turns the pages of docs/, as a code host shows them, into pages of a site; mkdocs.yml names this file as a hook.

* The page of errors has a section for each code, which `flintlog errors` prints, too.
* A link to a file of the repository leads to a page with its text; one to a folder, to a page that lists its files.
* The name of a file in a line of its own above a block becomes the title of the block; so does the name behind the
  language of a block.
* What is copied from a console are its commands.
* Lists and cells of tables are written as the reader of Markdown in mkdocs wants them.
* A Mermaid diagram becomes a picture that was drawn before, ``docs/site/pictures/HASH.svg``, in the text of the page:
  so a page needs no script for it, and the picture has the colours of the page.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Iterator
from html import escape, unescape
from pathlib import Path
from urllib.parse import unquote

from flintlog.compiler.diagnostics import index
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "site" / "pictures"

FENCED = re.compile(r"^(?P<indent> *)(?P<fence>`{3,})(?P<info>[^`\n]*)\n(?P<text>.*?)^ *(?P=fence)$", re.M | re.S)
"""Text outside of fenced blocks, or a block."""

LINK = re.compile(r"(?<=\]\()(?P<target>[^)\s#:]+)(?P<anchor>#[^)\s]*)?(?=\))")
"""An inline link to something without a scheme."""

NAMED = re.compile(r"^ *\*\*`(?P<file>[^`\n]+)`\*\*\n\n(?P<fence> *`{3,}\w+)$", re.M)
"""The name of a file above a block."""

TITLED = re.compile(r"^(?P<fence> *`{3,}\w+) (?P<file>[\w./-]+)(?: [\w-]+)?$", re.M)
"""A block whose name stands behind its language, and perhaps an encoding behind the name."""

ITEM = re.compile(r"(?:[*+-]|\d+\.) +")
"""What begins an item of a list."""

CONSOLE = re.compile(r'(?P<tag><div class="language-console highlight")>(?P<text>.*?</pre>)', re.S)
"""A console in the HTML of a page."""

LANGUAGES = {
    ".dl": "datalog",
    ".json": "json",
    ".py": "python",
    ".toml": "toml",
    ".yaml": "yaml",
    ".yml": "yaml",
}
AS_IT_IS = (".md", ".png", ".svg")
"""What a page shows or links to as it is."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each file of the repository that a page links to."""
    wanted = {
        path
        for file in files.documentation_pages()
        for path in linked(Path(config.docs_dir) / file.src_uri, file.content_string)
    }
    inside = {path for folder in wanted if folder.is_dir() for path in listed(folder)}
    for path in sorted(wanted | inside):
        text = folder_page(path) if path.is_dir() else file_page(path)
        files.append(File.generated(config, page_of(path), content=text, inclusion=InclusionLevel.NOT_IN_NAV))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Make the text of a page one for the site."""
    source = page.file
    if source.generated_by:
        return markdown
    if source.src_uri == index.PAGE:
        markdown = index.page(markdown)
    made = with_links(with_titles(markdown), Path(config.docs_dir) / source.src_uri, source.src_uri)
    return with_pictures(with_lists(with_cells(made)), source.src_uri)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put the commands of each console where the button to copy looks for them."""
    return CONSOLE.sub(
        lambda block: f'{block["tag"]} data-copy="{escape(commands(block["text"]))}">{block["text"]}', html
    )


def commands(console: str) -> str:
    """The commands of a console, which is HTML."""
    lines = unescape(re.sub(r"<[^>]*>", "", console)).splitlines()
    return "\n".join(line.removeprefix("$ ") for line in lines if line.startswith("$ "))


# ---- links to files --------------------------------------------------------------------------------------------------


def outside_fences(text: str) -> Iterator[tuple[str, bool]]:
    """The text in pieces, and of each whether it is outside of fenced blocks."""
    end = 0
    for block in FENCED.finditer(text):
        yield text[end : block.start()], True
        yield block[0], False
        end = block.end()
    yield text[end:], True


def linked(source: Path, text: str) -> Iterator[Path]:
    """The files and folders that a page links to and that are no pages of the site themselves."""
    for piece, outside in outside_fences(text):
        for link in LINK.finditer(piece) if outside else ():
            path = target(source, link["target"])
            if path is not None:
                yield path


def target(source: Path, link: str) -> Path | None:
    """The file or folder of the repository that a link of a page leads to; None for what the site has anyway."""
    path = (source.parent / unquote(link)).resolve()
    if path.suffix in AS_IT_IS and path.is_relative_to(ROOT / "docs"):
        return None
    return path if path.is_relative_to(ROOT) and path.exists() else None


def listed(folder: Path) -> list[Path]:
    """The files of a folder, those of folders in it aside."""
    return sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))


def page_of(path: Path) -> str:
    """The page for a file or folder, in the site; names that begin with a dot would not be served everywhere."""
    name = "/".join(part.lstrip(".") for part in path.relative_to(ROOT).parts)
    return f"files/{name}/index.md" if path.is_dir() else f"files/{name}.md"


def file_page(path: Path) -> str:
    """A page with the text of a file."""
    text = path.read_text(encoding="utf-8").rstrip("\n")
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    language = LANGUAGES.get(path.suffix, {"Makefile": "make"}.get(path.name, "text"))
    return page_text(path, f"{fence}{language}\n{text}\n{fence}")


def folder_page(path: Path) -> str:
    """A page that lists the files of a folder."""
    own = page_of(path)
    return page_text(path, "\n".join(f"* [{file.name}]({relative(page_of(file), own)})" for file in listed(path)))


def page_text(path: Path, text: str) -> str:
    """A page about a file, which the search does not find."""
    return f"---\nsearch:\n  exclude: true\n---\n\n# {path.relative_to(ROOT)}\n\n{text}\n"


def relative(page: str, source: str) -> str:
    """A link from one page of the site to another."""
    return posixpath.relpath(page, posixpath.dirname(source))


def with_links(text: str, source: Path, uri: str) -> str:
    """The text with links to the pages for files."""

    def led(link: re.Match[str]) -> str:
        path = target(source, link["target"])
        return link[0] if path is None else relative(page_of(path), uri)

    return "".join(LINK.sub(led, piece) if outside else piece for piece, outside in outside_fences(text))


# ---- titles of blocks ------------------------------------------------------------------------------------------------


def with_titles(text: str) -> str:
    """The text with names of files as titles of blocks."""
    text = NAMED.sub(lambda found: f'{found["fence"]} title="{found["file"]}"', text)
    return TITLED.sub(lambda found: f'{found["fence"]} title="{found["file"]}"', text)


# ---- lists and tables ------------------------------------------------------------------------------------------------


def with_lists(text: str) -> str:
    """The text with four spaces before what belongs to an item of a list, and a blank line where a list begins and
    behind an item of several paragraphs.

    A code host wants no more spaces than the mark of the item is wide, and no blank line.
    """
    made: list[str] = []
    items: list[int] = []  # where the text of each open item begins
    fenced = parted = False
    for line in text.split("\n"):
        content = line.lstrip(" ")
        indent = len(line) - len(content)
        item = None if fenced else ITEM.match(content)
        if item and made and made[-1] and (parted or not items):
            made.append("")
        if content and not fenced:
            while items and indent < items[-1]:
                items.pop()
        inside = max(0, indent - items[-1]) if items else indent
        made.append(" " * (4 * len(items) + inside) + content if content else "")
        if item:
            items.append(indent + len(item[0]))
        parted = not item and (parted or not content)
        fenced ^= content.startswith("```")
    return "\n".join(made)


def with_cells(text: str) -> str:
    """The text without backslashes before bars of code in tables, where a code host wants them."""

    def row(line: re.Match[str]) -> str:
        return re.sub(r"`[^`\n]+`", lambda code: code[0].replace("\\|", "|"), line[0])

    pieces = outside_fences(text)
    return "".join(re.sub(r"^\|.*$", row, piece, flags=re.M) if outside else piece for piece, outside in pieces)


# ---- diagrams --------------------------------------------------------------------------------------------------------


def picture_of(diagram: str) -> Path:
    """Where the picture of a Mermaid diagram is, drawn from this very text."""
    return PICTURES / f"{hashlib.sha256(diagram.encode()).hexdigest()[:12]}.svg"


def with_pictures(text: str, uri: str) -> str:
    """The text with pictures for its Mermaid diagrams."""

    def drawn(block: re.Match[str]) -> str:
        if block["info"] != "mermaid":
            return block[0]
        path = picture_of(block["text"])
        if not path.exists():
            raise PluginError(f"{uri} has a diagram without a picture: `make pictures` draws it")
        return f'<div class="picture">{path.read_text(encoding="utf-8").strip()}</div>'

    return FENCED.sub(drawn, text)
