"""Explain diagnostic codes, in Markdown, as plain text and by URLs.

The explanations are in ``explanations/GROUP.txt``, in the order of ``CODES``. A file begins with the heading of its
group; a line ``==== CODE`` begins a code, and lines ``---- LANGUAGE`` or ``---- LANGUAGE FILE ENCODING`` begin its
blocks: a wrong program; ``text``, what is reported about it; ``mend``, what to do; and the corrected program.
``flintlog errors`` prints them, and the page of errors has them on the site of the documentation.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.metadata import metadata
from importlib.resources import files

from . import CODES

PAGE = "errors.md"
"""The path of the page below ``docs``: an introduction and tables of codes, in place of which the site has sections."""

GROUPS = (
    *("syntax", "names", "types", "safety", "strata", "locations", "unsupported", "processes"),
    *("ndlog", "souffle", "ddlog", "sql", "commands", "warnings"),
)
"""The names of the files, in the order of the page."""

_CODE = re.compile(r"^==== (\w+)\n", re.MULTILINE)
_BLOCK = re.compile(r"^---- (.*)\n", re.MULTILINE)

_LINK = re.compile(r"\[([^]\n]+)\]\((\w+)\.md(#[\w-]+)?\)")
"""A link to another page of the documentation, or to a heading there."""


@cache
def groups() -> dict[str, tuple[str, dict[str, str]]]:
    """Return, by the headings of groups, the introduction of a group and the Markdown of its codes."""
    by_heading = {}
    for group in GROUPS:
        text = files(__package__).joinpath("explanations", f"{group}.txt").read_text(encoding="utf-8")
        first, *explained = _CODE.split(text)
        heading, _, introduction = first.partition("\n")
        by_heading[heading] = (
            introduction.strip(),
            {
                code: _section(code, explanation)
                for code, explanation in zip(explained[::2], explained[1::2], strict=True)
            },
        )
    return by_heading


def _section(code: str, explanation: str) -> str:
    meaning, *blocks = _BLOCK.split(explanation)
    parts = [f"**{CODES[code]}**", meaning.strip()]
    for language, text in zip(blocks[::2], blocks[1::2], strict=True):
        parts.append(text.strip() if language == "mend" else f"```{language}\n{text}```")
    return "\n\n".join(filter(None, parts))


@cache
def sections() -> dict[str, str]:
    """Return the Markdown section of each code, without its heading, in the order of the page."""
    return {code: text for _, of_group in groups().values() for code, text in of_group.items()}


def page(text: str) -> str:
    """Return the page of the site, given that of ``docs``: with a section for each code in place of the tables."""
    parts = [text.partition("\n## ")[0].strip()]
    for heading, (introduction, of_group) in groups().items():
        parts += [f"## {heading}", *filter(None, [introduction])]
        parts += [f"### {code}\n\n{section}" for code, section in of_group.items()]
    return "\n\n".join(parts) + "\n"


def tables() -> str:
    """Return what stands for the sections in ``docs``: for each group a table of its codes, to which links lead."""
    parts = []
    for heading, (_, of_group) in groups().items():
        rows = "".join(f'| <a id="{code.lower()}"></a>`{code}` | {CODES[code]} |\n' for code in of_group)
        parts.append(f"## {heading}\n\n| code | meaning |\n|---|---|\n{rows}")
    return "\n".join(parts)


def markdown(code: str) -> str:
    """Return the section of a code as self-contained Markdown; links to other pages become URLs or plain text."""
    base = _documentation()
    return _LINK.sub(lambda link: link[1] if base is None else _linked(link, base), sections()[code])


def _linked(link: re.Match[str], base: str) -> str:
    return f"[{link[1]}]({base}/{link[2]}.html{link[3] or ''})"


def description(code: str) -> str:
    """Return the meaning of a code: the paragraph below the title of its section, or the title if there is none."""
    title, first, *_ = sections()[code].split("\n\n")
    text = " ".join(_LINK.sub(r"\1", title.strip("*") if first.startswith("```") else first).split())
    # Drop the last sentence if it introduces the example.
    return re.sub(r"(?<=\.) [^.]*:$", "", text)


def plain(code: str) -> str:
    """Return the section of a code as plain text, with indented examples. Raise KeyError if there is none."""
    lines, fenced = [], False
    for line in sections()[code].splitlines():
        if line.startswith("```"):
            name = line.removeprefix("```").partition(" ")[2]
            if not fenced and name:
                lines += [f"{name.split()[0]}:", ""]
            fenced = not fenced
        elif fenced:
            lines.append(f"    {line}".rstrip())
        else:
            lines.append(_LINK.sub(r"\1", re.sub(r"^\*\*(.*)\*\*$", rf"{code}: \1", line)))
    return "\n".join(lines)


def address(code: str) -> str | None:
    """Return the URL of a code's section on the documentation site, or None if the package names no site."""
    base = _documentation()
    return None if base is None else f"{base}/{PAGE.removesuffix('.md')}.html#{code.lower()}"


def _documentation() -> str | None:
    """Return the URL ``Documentation`` of ``[project.urls]`` in ``pyproject.toml``, the mkdocs site, or None."""
    for entry in metadata("flintlog").get_all("Project-URL") or ():
        label, _, url = entry.partition(", ")
        if label.lower() == "documentation":
            return str(url).rstrip("/")
    return None
