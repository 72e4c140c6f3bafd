"""docs/development.md and CONTRIBUTING.md describe the code and the Makefile as they are."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

from flintlog.compiler.pipeline import STAGES
from flintlog.targets import RUNTIMES

from golden_tests.documentation.pages import ROOT, in_code, table
from golden_tests.packaging.installations import FOLDERS

TOUR = (ROOT / "docs" / "development.md").read_text(encoding="utf-8")
GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
#: The rooms of the table by row, and the files in which to begin.
ROOMS = [(in_code(cells[0]), in_code(cells[2])) for cells in table(TOUR, "rooms")]


def place_of(module: str) -> str:
    """The folder of a package, or the file of a module, in the repository."""
    path = Path(*module.split(".")[1:])
    path = path if (ROOT / path).exists() or (ROOT / path.with_suffix(".py")).exists() else Path("api", path)
    return f"{path}/" if (ROOT / path).is_dir() else f"{path}.py"


def test_rooms() -> None:
    """The table has every folder with modules, and the rooms of each contract line by line, highest first."""
    rooms = {room for row, _ in ROOMS for room in row}
    assert len(rooms) == sum(len(row) for row, _ in ROOMS)
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    folders = {f"{Path(name).parts[0]}/" for name in listed.splitlines() if "/" in name and not name.startswith(".")}
    packages = {place_of(package) for package in PROJECT["setuptools"]["packages"]}
    assert (folders | packages) - {"./", "compiler/", "runtime/", "templates/"} <= rooms
    for contract in PROJECT["importlinter"]["contracts"]:
        if contract["type"] == "layers":
            lines = [{place_of(room.strip()) for room in layer.split("|")} for layer in contract["layers"]]
            lines = [line for line in lines if line != {"runtime/"}]
            below = {room for line in lines for room in line}
            assert [{*row} for row, _ in ROOMS if {*row} <= below] == lines


def test_where_to_begin() -> None:
    """The files that the table names are there."""
    for rooms, files in ROOMS:
        folders = [ROOT / folder for room in rooms for folder in (room, Path(room).parts[0])]
        assert [file for file in files if not any((folder / file).is_file() for folder in folders)] == []


def test_folders_of_tests() -> None:
    """The guide has each folder of tests once."""
    named = [folder for cells in table(GUIDE, "folders of tests") for folder in in_code(cells[1])]
    folders = [f"{path.parent.name}/" for path in (ROOT / "golden_tests").glob("*/__init__.py")]
    assert sorted(named) == sorted([*folders, "cases/", "errors/", "store/remote/"])


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
