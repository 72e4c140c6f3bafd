"""Look up diagnostic codes in ``docs/errors.md``, and their URLs."""

from __future__ import annotations

import re
from functools import cache
from importlib.metadata import metadata
from importlib.resources import files

#: The path of the page below ``docs``.
PAGE = "errors.md"

_HEADING = re.compile(r"^### ([EW]\d{4})\n", re.MULTILINE)
_ANY_HEADING = re.compile(r"^##+ ", re.MULTILINE)
#: A link to another page of the documentation, or to a heading there.
_LINK = re.compile(r"\[([^]\n]+)\]\((\w+)\.md(#[\w-]+)?\)")


@cache
def sections() -> dict[str, str]:
    """Return the Markdown section of each code, without its heading, in the order of the page."""
    page = files("flintlog.docs").joinpath(PAGE).read_text(encoding="utf-8")
    found = {}
    for heading in _HEADING.finditer(page):
        following = _ANY_HEADING.search(page, heading.end())
        found[heading[1]] = page[heading.end() : following.start() if following else len(page)].strip()
    return found


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
