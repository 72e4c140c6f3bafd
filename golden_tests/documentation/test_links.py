"""Links between the pages lead to files and headings that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from golden_tests.documentation.pages import ROOT
from golden_tests.documentation.test_pages import PAGES

#: A link of Markdown that leads nowhere else than into the repository.
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(#[^)\s]*)?\)")


def anchors(page: str) -> set[str]:
    """What links to headings end in, as code hosts make it."""
    without_code = re.sub(r"^ *```.*?^ *```$", "", page, flags=re.MULTILINE | re.DOTALL)
    found = set()
    for heading in re.findall(r"^#+ (.*)$", without_code, re.MULTILINE):
        found.add("#" + re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-"))
    return found


@pytest.mark.parametrize("name", PAGES)
def test_links(name: str) -> None:
    """Each file is there, and each heading in it."""
    place = ROOT / name
    page = place.read_text(encoding="utf-8")
    wrong = []
    for path, anchor in LINK.findall(re.sub(r"`[^`\n]*`", "``", page)):
        target = (place.parent / path).resolve() if path else place
        there = target.exists() and target.is_relative_to(ROOT)
        if not there or (anchor and anchor not in anchors(Path(target).read_text(encoding="utf-8"))):
            wrong.append(path + anchor)
    assert wrong == []
