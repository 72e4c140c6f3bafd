"""What the package says of itself: its metadata, the ranges of its dependencies, and the versions that are locked."""

from __future__ import annotations

import email
import re
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from golden_tests.nightly import AT_NIGHT
from golden_tests.packaging.installations import IN_SOURCES, METADATA, ROOT, copy_tree, project, run

#: Packages whose versions are dates, or that only developers use.
UNBOUNDED = {"s3fs"}


def requirements(extra: str = "") -> Iterator[Requirement]:
    """The requirements of the package, or of an extra and those that it names."""
    found = project()["project"]
    for line in found["optional-dependencies"][extra] if extra else found["dependencies"]:
        requirement = Requirement(line)
        if requirement.name == "flintlog":
            for other in sorted(requirement.extras):
                yield from requirements(other)
        else:
            yield requirement


def locked() -> dict[str, list[Requirement]]:
    """The versions in ``requirements-dev.txt`` by package."""
    found: dict[str, list[Requirement]] = {}
    for line in (ROOT / "requirements-dev.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            requirement = Requirement(line)
            found.setdefault(canonicalize_name(requirement.name), []).append(requirement)
    return found


def test_metadata_of_the_wheel(wheel: Path) -> None:
    """The licence, the authors, and README as description; the text of the licence is in the wheel."""
    archive = zipfile.ZipFile(wheel)
    (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    metadata = email.message_from_bytes(archive.read(name))
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Author"] == "The Flintlog authors"
    assert metadata["Requires-Python"] == ">=3.11"
    text = metadata.get_payload(decode=True)
    assert isinstance(text, bytes) and text.decode().strip() == (ROOT / "README.md").read_text("utf-8").strip()
    licence = archive.read(name.replace("METADATA", "licenses/LICENSE"))
    assert licence == (ROOT / "LICENSE").read_bytes()


@AT_NIGHT
def test_source_distribution(tmp_path: Path) -> None:
    """It has the changelog and what a contributor reads first, and a wheel can be built from it."""
    tree = copy_tree(tmp_path / "tree")
    build = ("build", "--no-isolation", "--sdist", "--outdir", tmp_path)
    run(sys.executable, "-m", *build, tree, cwd=tmp_path)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    assert {*METADATA, *IN_SOURCES, "pyproject.toml", "runtime/job/job.py", "compiler/frontend/flintlog.lark"} <= names


def test_ranges_end() -> None:
    """Users get no major version that nobody has tried."""
    for extra in ("", "job", "run", "kafka", "s3", "watch", "bench", "docs"):
        for requirement in requirements(extra):
            bounded = any(specifier.operator in ("<", "==") for specifier in requirement.specifier)
            assert bounded or requirement.name in UNBOUNDED, requirement


def test_locked_versions() -> None:
    """Each requirement has a locked version in its range; the lock names no place from where it came."""
    versions = locked()
    for requirement in (*requirements(), *requirements("dev")):
        pins = versions[canonicalize_name(requirement.name)]
        for pin in pins:
            (specifier,) = pin.specifier
            assert specifier.operator == "==" and specifier.version in requirement.specifier, requirement
    assert not re.search(r"://|^-|@", (ROOT / "requirements-dev.txt").read_text(encoding="utf-8"), re.MULTILINE)


def test_documented_versions() -> None:
    """Pages that say which versions a job needs say what the extra ``job`` asks for."""
    lowest = {
        requirement.name: next(s.version for s in requirement.specifier if s.operator == ">=")
        for requirement in requirements("job")
    }
    deploy = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    assert f"PySpark {lowest['pyspark']} or newer" in deploy
    assert f"PyArrow {lowest['pyarrow']} or newer" in deploy
    assert f"pandas {lowest['pandas']} or newer" in deploy
    assert f"DuckDB {lowest['duckdb'].partition('.')[0]}" in deploy
    (numpy,) = (requirement for requirement in requirements("run") if requirement.name == "numpy")
    assert f"NumPy {next(s.version for s in numpy.specifier if s.operator == '>=')} or newer" in deploy
    python = project()["project"]["requires-python"].removeprefix(">=")
    for name in ("README.md", "CONTRIBUTING.md", "docs/deploy.md", "docs/tutorial.md"):
        assert f"Python {python} or newer" in (ROOT / name).read_text(encoding="utf-8"), name
