"""The packages that are installed are those of the tree, whole, below ``flintlog`` and nowhere else."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

from golden_tests.harness import EXAMPLES
from golden_tests.packaging.installations import FOLDERS, ROOT, Installation, project, project_files, run

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


def test_every_installation_compiles_the_examples_alike(
    wheel_installation: Installation, editable_installation: Installation, tmp_path: Path
) -> None:
    """A script is the same byte for byte, whichever installation wrote it and wherever the program lies."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for program in EXAMPLES:
        shutil.copy(program, elsewhere)
    names = [program.name for program in EXAMPLES]
    options = ("compile", "--no-format", "-o")
    run(wheel_installation.flintlog, *options, tmp_path / "one", *EXAMPLES, cwd=tmp_path)
    run(editable_installation.flintlog, *options, tmp_path / "two", *names, cwd=elsewhere)
    assert scripts(tmp_path / "one") == scripts(tmp_path / "two")


def test_scripts_do_not_depend_on_the_hash_seed(wheel_installation: Installation, tmp_path: Path) -> None:
    """Sets and dictionaries of the compiler never decide the order of anything."""
    for seed in ("1", "2026"):
        options = ("compile", "--no-format", "-o", tmp_path / seed)
        run(wheel_installation.flintlog, *options, *EXAMPLES, cwd=tmp_path, PYTHONHASHSEED=seed)
    assert scripts(tmp_path / "1") == scripts(tmp_path / "2026")


def scripts(folder: Path) -> dict[str, bytes]:
    """The compiled examples in a folder."""
    return {program.stem: (folder / f"{program.stem}.py").read_bytes() for program in EXAMPLES}
