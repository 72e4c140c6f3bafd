"""Servers for tests, from Maven Central."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest


def jars(pom: Path, name: str) -> Path:
    """The folder with the classes that a pom.xml names, fetched if they are not there; skips the test if they cannot
    be."""
    folder = Path(__file__).parents[1] / "build" / name
    if not (folder / "complete").exists():
        maven = shutil.which("mvn")
        if maven is None:
            pytest.skip(f"the jars of {name} are fetched with Maven, which is not installed")
        command = [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
        fetched = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        if fetched.returncode:
            pytest.skip(f"the jars of {name} cannot be fetched: {fetched.stdout[-500:]}")
        (folder / "complete").touch()
    return folder


def java() -> str:
    """The program that runs classes."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else "java"
