"""The packages that are installed are those of the tree, whole, below ``flintlog`` and nowhere else."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

from golden_tests.harness import EXAMPLES
from golden_tests.nightly import AT_NIGHT, by_day
from golden_tests.packaging.installations import (
    FOLDERS,
    ROOT,
    Installation,
    packages,
    project,
    project_files,
    run,
)

FIND = """
import importlib, importlib.util, json, sys
loose = [name for name in sys.argv[1].split() if importlib.util.find_spec(name) is not None]
files = {name: importlib.import_module(name).__file__ for name in sys.argv[2].split()}
print(json.dumps({"loose": loose, "files": files}))
"""


def test_packages_are_those_of_the_tree() -> None:
    """Every folder with Python files is listed: an unlisted one works editable and is missing from the wheel."""
    assert sorted(project()["tool"]["setuptools"]["packages"]) == sorted(packages())


def test_every_package_has_an_init_file() -> None:
    """``PackageLoader`` and type checkers want ordinary packages."""
    folders = {path.parent for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")}
    assert [folder for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []


def test_wheel_holds_exactly_the_files_of_the_tree(wheel: Path) -> None:
    """Modules, grammars, templates and type markers are in the wheel, tests and examples are not."""
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert sorted(names) == sorted(project_files())


@by_day(1)
def test_nothing_but_flintlog_is_importable(installation: Installation, tmp_path: Path) -> None:
    """No top-level name of the repository leaks, and every package of ``flintlog`` comes from this installation."""
    names = [*FOLDERS, "golden_tests", "examples", "benchmarks"]
    said = run(installation.python, "-c", FIND, " ".join(names), " ".join(sorted(packages())), cwd=tmp_path)
    found = json.loads(said)
    assert found["loose"] == []
    assert [file for file in found["files"].values() if not Path(file).is_relative_to(installation.modules)] == []


IMPORT = """
import sys
known = set(sys.modules)
import flintlog
print(sorted(name for name in set(sys.modules) - known if name.partition(".")[0] not in sys.stdlib_module_names))
"""


def test_import_loads_nothing_else(installation: Installation, tmp_path: Path) -> None:
    """``import flintlog`` takes no time; its public names are loaded when they are used."""
    assert run(installation.python, "-c", IMPORT, cwd=tmp_path).strip() == "['flintlog']"


USE = """
import flintlog, flintlog.compiler.cli, flintlog.targets, flintlog.templates
import flintlog.runtime.kernel.model
assert set(flintlog.__all__) <= set(dir(flintlog))
assert all(getattr(flintlog, name) is not None for name in flintlog.__all__)
program = "input relation a(x: int)\\noutput relation b(x: int)\\nb(X + 1) :- a(X).\\n"
assert list(flintlog.compile(program, format=False).files) == ["program.py"]
print(flintlog.evaluate(program, {"a": [(1,)]})["b"].to_list())
"""


@by_day(1)
def test_library_works(installation: Installation, tmp_path: Path) -> None:
    """The public names are there, beside the packages of the tree."""
    assert run(installation.python, "-c", USE, cwd=tmp_path).strip() == "[(2,)]"


def test_command_explains_itself(installation: Installation, tmp_path: Path) -> None:
    """``flintlog --help`` and ``python -m flintlog --help`` name the commands."""
    said = run(installation.flintlog, "--help", cwd=tmp_path)
    assert "compile" in said
    assert "explain" in said
    assert run(installation.python, "-m", "flintlog", "--help", cwd=tmp_path) == said


@AT_NIGHT
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


@AT_NIGHT
def test_scripts_do_not_depend_on_the_hash_seed(wheel_installation: Installation, tmp_path: Path) -> None:
    """Sets and dictionaries of the compiler never decide the order of anything."""
    for seed in ("1", "2026"):
        options = ("compile", "--no-format", "-o", tmp_path / seed)
        run(wheel_installation.flintlog, *options, *EXAMPLES, cwd=tmp_path, PYTHONHASHSEED=seed)
    assert scripts(tmp_path / "1") == scripts(tmp_path / "2026")


def scripts(folder: Path) -> dict[str, bytes]:
    """The compiled examples in a folder."""
    return {program.stem: (folder / f"{program.stem}.py").read_bytes() for program in EXAMPLES}
