"""The site that mkdocs makes of the pages, and what its hooks do."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

from flintlog.compiler.diagnostics import index

from golden_tests.documentation.pages import ROOT

DOCS = ROOT / "docs"
PICTURES = DOCS / "site" / "pictures"

#: The pages, by their paths in ``docs/``.
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))


def text_of(name: str) -> str:
    """A page before mkdocs reads it, that of errors with its sections."""
    text = (DOCS / name).read_text(encoding="utf-8")
    return index.page(text) if name == index.PAGE else text


def hooks() -> ModuleType:
    """The module that mkdocs.yml names."""
    spec = importlib.util.spec_from_file_location("docs_site", ROOT / ".ci" / "docs_site.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def build(folder: Path, root: Path = ROOT) -> Path:
    """Build the site in a folder; a link that leads nowhere, or anything else that mkdocs warns of, ends it."""
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=root,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def picture_of(diagram: str) -> Path:
    """Where the picture of a Mermaid diagram belongs."""
    path: Path = hooks().picture_of(diagram)
    return path


def diagrams() -> list[str]:
    """The Mermaid diagrams of all pages."""
    blocks = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    return [text for name in PAGES for text in blocks.findall(text_of(name))]
