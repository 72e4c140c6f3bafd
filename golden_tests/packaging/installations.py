"""Installations of the project to test: as a wheel and editable, each in an environment of its own.

An environment takes the dependencies from the one that runs the tests, so that nothing is downloaded.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

#: The package ``flintlog`` itself, as a folder of the repository.
API = "api"

#: Folders of the repository that are packages below ``flintlog``.
BELOW = ("compiler", "runtime", "targets", "templates")

FOLDERS = (API, *BELOW)

#: Files that the metadata of the package refers to.
METADATA = ("README.md", "LICENSE")

#: Files that a source distribution has in addition.
IN_SOURCES = ("CHANGELOG.md", "CONTRIBUTING.md", "requirements-dev.txt")

#: What the project's files in a wheel end with.
SUFFIXES = (".py", ".lark", ".jinja", ".txt", "py.typed")


@dataclass(frozen=True)
class Installation:
    """An environment with Flintlog in it, and the folder that its modules are in."""

    folder: Path
    modules: Path

    @property
    def python(self) -> Path:
        """The interpreter."""
        return self.folder / "bin" / "python"

    @property
    def flintlog(self) -> Path:
        """The command."""
        return self.folder / "bin" / "flintlog"


def project() -> dict[str, Any]:
    """The project's configuration, ``pyproject.toml``."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def copy_tree(target: Path) -> Path:
    """Copy all of the project that a build could pick up, so that building leaves nothing behind in the repository."""
    target.mkdir(parents=True)
    ignored = shutil.ignore_patterns("__pycache__", ".*")
    for folder in (*FOLDERS, "golden_tests", "examples", "benchmarks"):
        shutil.copytree(ROOT / folder, target / folder, ignore=ignored)
    for name in ("pyproject.toml", "MANIFEST.in", *METADATA, *IN_SOURCES):
        shutil.copy(ROOT / name, target)
    return target


def project_files() -> set[str]:
    """The files that belong into a wheel, as the wheel names them."""
    paths = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*"))
    names = {path.relative_to(ROOT).as_posix() for path in paths if path.is_file()}
    names = {name for name in names if name.endswith(SUFFIXES)}
    names = {name for name in names if not any(part.startswith(".") for part in name.split("/"))}
    return {f"flintlog/{name.removeprefix(f'{API}/')}" for name in names}


def packages() -> set[str]:
    """The names of the packages: of every folder with Python files."""
    folders = {path.parent.relative_to(ROOT) for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")}
    below = (folder.parts[1:] if folder.parts[0] == API else folder.parts for folder in folders)
    return {".".join(("flintlog", *parts)) for parts in below}


def build_wheel(tree: Path, out: Path) -> Path:
    """Build the wheel with the setuptools of the environment that runs the tests."""
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", out, tree)
    (wheel,) = out.glob("*.whl")
    return wheel


def install_wheel(wheel: Path, folder: Path) -> Installation:
    """Install a wheel into a new environment."""
    python = _environment(folder)
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel)
    return Installation(folder, _site_packages(folder) / "flintlog")


def install_editable(tree: Path, folder: Path) -> Installation:
    """Install a copy of the project into a new environment so that changes of the copy take effect."""
    options = ("install", "--quiet", "--no-deps", "--no-build-isolation", "--editable")
    run(sys.executable, "-m", "pip", "--python", _environment(folder), *options, tree)
    return Installation(folder, tree)


def run(*command: str | Path, cwd: Path | None = None, **environment: str) -> str:
    """Run a command and return what it wrote; an error carries everything it wrote."""
    inherited = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=inherited | {"PIP_DISABLE_PIP_VERSION_CHECK": "1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, f"{' '.join(map(str, command))}\nexit code {done.returncode}\n{done.stdout}"
    return done.stdout


def _environment(folder: Path) -> Path:
    """Make an environment that finds, after its own, the packages of the one that runs the tests; its interpreter."""
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    # A path file in an added folder is not read, so the editable Flintlog of this environment stays out.
    lender = sysconfig.get_paths()["purelib"]
    (_site_packages(folder) / "lender.pth").write_text(f"{lender}\n", encoding="utf-8")
    return folder / "bin" / "python"


def _site_packages(folder: Path) -> Path:
    return Path(sysconfig.get_path("purelib", "venv", vars={"base": str(folder)}))
