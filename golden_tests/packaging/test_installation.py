"""The packages that are installed are those of the tree, whole, below ``flintlog`` and nowhere else."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from golden_tests.packaging.installations import FOLDERS, ROOT, Installation, project, project_files, run

EXAMPLES = sorted((ROOT / "examples").rglob("*.dl"))

FIND = """
import importlib, importlib.util, json, sys
loose = [name for name in sys.argv[2:] if importlib.util.find_spec(name) is not None]
print(json.dumps({"loose": loose, "file": importlib.import_module(sys.argv[1]).__file__}))
"""


def test_packages_are_those_of_the_tree() -> None:
    """Every folder with Python files is listed: an unlisted one works editable and is missing from the wheel."""
    folders = {path.parent.relative_to(ROOT) for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")}
    packages = {"flintlog." + ".".join(folder.parts) for folder in folders | {Path(name) for name in FOLDERS}}
    assert sorted(project()["tool"]["setuptools"]["packages"]) == sorted(packages)


def test_every_package_has_an_init_file() -> None:
    """``PackageLoader`` and type checkers want ordinary packages."""
    folders = {path.parent for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")}
    assert [folder for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []


def test_wheel_holds_exactly_the_files_of_the_tree(wheel: Path) -> None:
    """Modules, grammars, templates and type markers are in the wheel, tests and examples are not."""
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert sorted(names) == sorted(project_files())


def test_nothing_but_flintlog_is_importable(installation: Installation, tmp_path: Path) -> None:
    """No top-level name of the repository leaks, and ``flintlog.compiler`` comes from this installation."""
    names = [*FOLDERS, "golden_tests", "examples", "benchmarks"]
    found = json.loads(run(installation.python, "-c", FIND, "flintlog.compiler", *names, cwd=tmp_path))
    assert found["loose"] == []
    assert Path(found["file"]).is_relative_to(installation.modules)


def test_command_explains_itself(installation: Installation, tmp_path: Path) -> None:
    """``flintlog --help`` names the commands."""
    said = run(installation.flintlog, "--help", cwd=tmp_path)
    assert "compile" in said
    assert "explain" in said


@pytest.mark.parametrize("program", EXAMPLES, ids=lambda path: path.stem)
def test_every_installation_compiles_the_examples_alike(
    program: Path, wheel_installation: Installation, editable_installation: Installation, tmp_path: Path
) -> None:
    """A script is the same byte for byte, whichever installation wrote it and wherever the program lies."""
    elsewhere = tmp_path / "elsewhere" / program.name
    elsewhere.parent.mkdir()
    elsewhere.write_bytes(program.read_bytes())
    run(wheel_installation.flintlog, "compile", program, "-o", tmp_path / "one", cwd=tmp_path)
    run(editable_installation.flintlog, "compile", program.name, "-o", tmp_path / "two", cwd=elsewhere.parent)
    script = f"{program.stem}.py"
    assert (tmp_path / "one" / script).read_bytes() == (tmp_path / "two" / script).read_bytes()


@pytest.mark.parametrize("program", EXAMPLES, ids=lambda path: path.stem)
def test_scripts_do_not_depend_on_the_hash_seed(
    program: Path, wheel_installation: Installation, tmp_path: Path
) -> None:
    """Sets and dictionaries of the compiler never decide the order of anything."""
    scripts = []
    for seed in ("1", "2026"):
        out = tmp_path / seed
        run(wheel_installation.flintlog, "compile", program, "-o", out, cwd=tmp_path, PYTHONHASHSEED=seed)
        scripts.append((out / f"{program.stem}.py").read_bytes())
    assert scripts[0] == scripts[1]
