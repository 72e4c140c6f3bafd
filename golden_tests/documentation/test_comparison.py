"""docs/comparison.md says of others only what it gives a source for."""

from __future__ import annotations

import re

from golden_tests.documentation.pages import ROOT

PAGE = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")
SOURCES = dict(re.findall(r"^\[([^\]]+)\]: (\S+)$", PAGE, re.MULTILINE))

#: What each says of itself in the words of its column: the language, and when it does something.
SELF_EVIDENT = ("when changes are visible", "what a reviewer reads")


def test_sources() -> None:
    """Each source that is named is there, and each that is there is named."""
    text = re.sub(r"^\[[^\]]+\]: .*$", "", PAGE, flags=re.MULTILINE)
    named = set(re.findall(r"\[([^\]\n`]+)\](?!\()", " ".join(text.split()).replace("] (", "](")))
    assert named == set(SOURCES)
    assert len(set(SOURCES.values())) == len(SOURCES)
    assert all(url.startswith("https://") for url in SOURCES.values())


def test_table_names_its_sources() -> None:
    """A cell about another system has a source, unless it says what the system is."""
    (table,) = re.findall(r"^\| \| Flintlog(?:.*\n)+?\n", PAGE, re.MULTILINE)
    head, _, *lines = [line.strip().strip("|").split(" | ") for line in table.strip().splitlines()]
    without = []
    for topic, _, *cells in lines:
        assert len(cells) == len(head) - 2, topic
        if topic.strip() not in SELF_EVIDENT:
            without += [
                (topic.strip(), name.strip()) for name, cell in zip(head[2:], cells, strict=True) if "[" not in cell
            ]
    assert without == [("recursion", "dbt 2.0"), ("state", "Materialize")]


def test_each_section_names_its_sources() -> None:
    """So has each section about another system."""
    for section in re.findall(
        r"^## (?:dbt|Spark|Soufflé|DDlog|Feldera|Materialize|Datalog)(?:.*\n)+?(?=## |\[)", PAGE, re.MULTILINE
    ):
        assert re.search(r"\(\[[^\]]+\]", section), section
