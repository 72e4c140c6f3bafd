"""docs/development.md and CONTRIBUTING.md describe the code and the Makefile as they are."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from flintlog.compiler.pipeline import STAGES
from flintlog.targets import RUNTIMES

from golden_tests.documentation.pages import ROOT, in_code, table
from golden_tests.packaging.installations import FOLDERS

TOUR = (ROOT / "docs" / "development.md").read_text(encoding="utf-8")
GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def room_of(parts: tuple[str, ...], rooms: set[str]) -> str:
    """The room of a module; empty for a module at the top of ``compiler/`` and for the templates."""
    return next((room for end in (2, 1) if (room := "/".join(parts[:end]) + "/") in rooms), "")


def imported(path: Path) -> Iterator[tuple[str, ...]]:
    """The modules of the project that a module imports, as paths from the root of the repository."""
    package = path.relative_to(ROOT).parent.parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            for name in [node.module] if node.module else [alias.name for alias in node.names]:
                yield (*base, *name.split("."))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("flintlog."):
            yield tuple(str(node.module).split(".")[1:])


def test_rooms() -> None:
    """Each folder of the compiler is in the table, and no module imports from a room that the table does not allow."""
    rows = {in_code(cells[0])[0]: cells[2] for cells in table(TOUR, "rooms")}
    rooms = {
        f"compiler/{path.name}/" for path in (ROOT / "compiler").iterdir() if path.is_dir() and path.name[0] not in "_."
    }
    assert rows.keys() == rooms | {"runtime/", "targets/"}
    for folder in ("compiler", "runtime", "targets"):
        for path in (ROOT / folder).rglob("*.py"):
            room = room_of(path.relative_to(ROOT).parts[:-1], {*rows})
            if room and rows[room] != "everything":
                found = {room_of(parts, {*rows}) for parts in imported(path)} - {"", room}
                assert found <= set(in_code(rows[room])), path.relative_to(ROOT)


def test_the_runtime_imports_nothing_else_of_the_project() -> None:
    """Neither the compiler nor the targets."""
    for path in (ROOT / "runtime").rglob("*.py"):
        assert {parts[0] for parts in imported(path)} <= {"runtime"}, path.relative_to(ROOT)


def test_flow() -> None:
    """The picture has the stages in their order, and each pass by the name of its module."""
    picture = re.search(r"^```text\ntext\n(.*?)^```$", TOUR, re.MULTILINE | re.DOTALL)
    assert picture
    stages = [word for word in re.findall(r"^(\w+)(?:  .*)?$", picture[1], re.MULTILINE) if word in STAGES]
    assert stages == list(STAGES)
    passes = {path.stem for path in (ROOT / "compiler" / "passes").glob("*.py")}
    named = re.findall(r"\b(\w+)\b", " ".join(re.findall(r"^ │(.*)$", picture[1], re.MULTILINE)))
    pipeline = (ROOT / "compiler" / "pipeline.py").read_text(encoding="utf-8")
    used = set(re.findall(r"^from \.passes\.(\w+) import", pipeline, re.MULTILINE))
    assert used <= {*named} & passes


def test_ways_to_the_runtime() -> None:
    """The table has the choices of ``--runtime``."""
    rows = re.findall(r"^\| `(\w+)` \| the program part", TOUR, re.MULTILINE)
    assert rows == [*RUNTIMES]


def test_paths() -> None:
    """Paths in code lead to files and folders of the repository."""
    names = "|".join([*FOLDERS, "golden_tests", "examples", "benchmarks", "editors", r"\.ci"])
    for page in (TOUR, GUIDE):
        for path in re.findall(rf"`((?:{names})/[^`\s]*)`", page):
            assert "NAME" in path or (ROOT / path).exists(), path


def test_targets() -> None:
    """The guide has each target of the Makefile, as has the comment at its top."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (targets,) = re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    rows = [in_code(cells[0])[0].removeprefix("make ") for cells in table(GUIDE, "targets")]
    assert sorted(rows) == sorted(targets.split())
    assert {*re.findall(r"^#   make ([\w-]+)", makefile, re.MULTILINE)} == {*rows}


def test_changelog() -> None:
    """Sections of the form of Keep a Changelog; the version of the package is in it."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    releases = re.findall(r"^## (.*)$", text, re.MULTILINE)
    version = re.search(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    assert version and releases[0] == "Unreleased"
    assert all(re.fullmatch(r"\d+\.\d+\.\d+ - \d{4}-\d\d-\d\d", release) for release in releases[1:])
    assert version[1] in [release.partition(" ")[0] for release in releases]
    kinds = set(re.findall(r"^### (.*)$", text, re.MULTILINE))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
