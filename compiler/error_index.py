"""What ``docs/errors.md`` says about the codes of diagnostics, and where it can be read."""

from __future__ import annotations

import re
from functools import cache
from importlib.metadata import metadata
from importlib.resources import files

#: The page, as the repository names it.
PAGE = "docs/errors.md"

_HEADING = re.compile(r"^### ([EW]\d{4})\n", re.MULTILINE)
_ANY_HEADING = re.compile(r"^##+ ", re.MULTILINE)


@cache
def sections() -> dict[str, str]:
    """The Markdown of each code's section, without its heading, in the order of the page."""
    page = files("flintlog.docs").joinpath("errors.md").read_text(encoding="utf-8")
    found = {}
    for heading in _HEADING.finditer(page):
        following = _ANY_HEADING.search(page, heading.end())
        found[heading[1]] = page[heading.end() : following.start() if following else len(page)].strip()
    return found


def plain(code: str) -> str:
    """The section of a code as text for a terminal: programs and outputs indented. Raises KeyError if there is none."""
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
            lines.append(re.sub(r"^\*\*(.*)\*\*$", rf"{code}: \1", line))
    return "\n".join(lines)


def address(code: str) -> str:
    """Where a code is documented: below the URL that the package names for it, else a path in the repository.

    The URL is the one that ``pyproject.toml`` calls ``Documentation`` under ``[project.urls]``, and leads to ``docs``.
    """
    for entry in metadata("flintlog").get_all("Project-URL") or ():
        label, _, url = entry.partition(", ")
        if label.lower() == "documentation":
            return f"{url.rstrip('/')}/errors.md#{code.lower()}"
    return f"{PAGE}#{code.lower()}"
