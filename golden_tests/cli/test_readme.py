"""The commands in README.md, and in pages of the documentation, print what stands below them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from flintlog.compiler import cli

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/review.md")
BLOCK = re.compile(r"(?<=^```console\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", PAGES)
def test_commands(name: str, monkeypatch: pytest.MonkeyPatch, update_golden: bool) -> None:
    """``flintlog`` and ``cat``, in the repository."""
    monkeypatch.chdir(ROOT)
    page = (ROOT / name).read_text(encoding="utf-8")

    def answered(block: re.Match[str]) -> str:
        return "".join(f"$ {line}\n{answer(line)}" for line in re.findall(r"^\$ (.*)$", block[0], re.MULTILINE))

    made = BLOCK.sub(answered, page)
    if update_golden:
        (ROOT / name).write_text(made, encoding="utf-8")
        page = made
    assert BLOCK.search(page)
    assert made == page


def answer(line: str) -> str:
    """What a command prints on both streams."""
    command, *arguments = line.split()
    if command == "cat":
        return "".join(Path(name).read_text(encoding="utf-8") for name in arguments)
    assert command == "flintlog"
    return CliRunner().invoke(cli.main, arguments, catch_exceptions=False).output
