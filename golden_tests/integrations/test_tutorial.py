"""The tutorial, word by word: its commands run in processes of their own, in the order of the page."""

from __future__ import annotations

from pathlib import Path

from golden_tests.documentation.pages import ROOT, follow
from golden_tests.integrations.environments import WANTED


@WANTED
def test_tutorial(tmp_path: Path, update_golden: bool) -> None:
    """Every command prints what stands below it."""
    path = ROOT / "docs" / "tutorial.md"
    page = path.read_text(encoding="utf-8")
    made, ran = follow(page, tmp_path, apart=True)
    if update_golden:
        path.write_text(made, encoding="utf-8")
        page = made
    assert ran > 15
    assert made == page
