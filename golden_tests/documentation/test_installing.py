"""Nothing that users read tells them to install the name ``flintlog`` from PyPI, where anybody may take it."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

#: What installs packages, or lists them to be installed.
INSTALLING = re.compile(r"\b(?:pipx?3?|uvx?|poetry|conda|mamba)\b.*|additional_dependencies:.*|dependencies:.*")

#: The name, with extras and a version; not a path or a file.
NAME = re.compile(r"""flintlog(?:-)?(?:\[[\w,-]*\])?(?:\s*(?:[=<>~!]=?|@).*)?""", re.IGNORECASE)


def names(line: str) -> list[str]:
    """The words of a line that stand for the package on PyPI."""
    found = INSTALLING.search(line.partition("#")[0].replace("`", " "))
    if not found or not re.search(r"\binstall\b|\badd\b|\bdownload\b|dependencies|\buvx\b|\brun\b", found[0]):
        return []
    try:
        words = shlex.split(re.sub(r"[;|&,()]+(?![\w,-]*\])", " ", found[0]))
    except ValueError:
        words = found[0].split()
    words = [word.lstrip("['\"").rstrip("'\".:") for word in words]
    return [word for word in words if NAME.fullmatch(word if "[" in word else word.rstrip("]"))]


def pages() -> list[Path]:
    """The files of the repository that users read or copy, or whose messages they see."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found = [Path(name) for name in listed.splitlines()]
    folders = ("api", "compiler", "editors", "examples", "runtime", "targets", ".ci")
    return [path for path in found if path.suffix in (".md", ".yml", ".yaml") or path.parts[0] in folders]


def test_nothing_installs_the_name() -> None:
    """Pages say where the sources or the wheel are, and messages which packages are missing."""
    found = []
    for path in pages():
        text = (ROOT / path).read_text(encoding="utf-8", errors="replace")
        found += [f"{path}: {line.strip()}" for line in text.splitlines() if names(line)]
    assert not found
    assert len(pages()) > 50


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("pip install flintlog", True),
        ('pip install "flintlog[run,delta]"', True),
        ("        run: python -m pip install -U flintlog==0.1.0 pyarrow", True),
        ("uv pip install 'flintlog>=0.1'", True),
        ("uvx flintlog check", True),
        ("run `pip install flintlog`.", True),
        ("        additional_dependencies: [flintlog]", True),
        ('pip install ".[run]"', False),
        ("pip install wheels/flintlog-*.whl", False),
        ('pip install "SOURCES[run]"  # flintlog', False),
        ('pip install "./flintlog-0.2.0-py3-none-any.whl[run]"', False),
        ("flintlog build", False),
    ],
)
def test_what_is_found(line: str, found: bool) -> None:
    """The name in any form; not paths, and not commands."""
    assert bool(names(line)) is found
