"""Environments of their own for tools that do not go together with Flintlog's."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ENVIRONMENTS = ROOT / "build" / "environments"

PATIENCE = 300

WANTED = pytest.mark.skipif(
    os.environ.get("FLINTLOG_INTEGRATIONS", "") in ("", "0"),
    reason="installs tools of others: make integrations",
)


def environment(*packages: str) -> Path:
    """The folder of the commands of an environment that has some packages; skips the test if they cannot be had."""
    folder = folder_for(sys.version, *packages)
    if not (folder / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        installed([folder / "bin" / "python", "-m", "pip", "install", "--quiet", *packages], packages)
        (folder / "complete").touch()
    return folder / "bin"


def node_modules(*packages: str) -> Path:
    """The folder ``node_modules`` with some packages of npm; skips the test if they or Node cannot be had."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("Node and npm are not there")
    folder = folder_for("npm", *packages)
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        installed(
            ["npm", "install", "--silent", "--no-save", "--ignore-scripts", "--prefix", folder, *packages], packages
        )
        (folder / "complete").touch()
    return folder / "node_modules"


def folder_for(*what: str) -> Path:
    """Where an environment lies."""
    return ENVIRONMENTS / hashlib.sha256("\n".join(what).encode()).hexdigest()[:12]


def installed(command: list[str | Path], packages: tuple[str, ...]) -> None:
    """Install packages; skips the test if that fails, or takes so long that the registry seems to be out of reach."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        pytest.skip(f"{', '.join(packages)} cannot be installed in {PATIENCE} seconds")
    if done.returncode:
        pytest.skip(f"{', '.join(packages)} cannot be installed: {done.stderr[-500:]}")


def unpacked(package: str, folder: Path) -> bool:
    """Unpack a package of Debian's, and what is missing of what it needs, into a folder, without root; whether it was
    to be had."""
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        return False
    install = ["apt-get", "install", "--simulate", "--no-install-recommends", package]
    told = subprocess.run(install, capture_output=True, text=True, check=False)
    names = [line.split()[1] for line in told.stdout.splitlines() if line.startswith("Inst ")]
    download = ["apt-get", "download", "--quiet", *names]
    if package not in names or subprocess.run(download, cwd=folder, capture_output=True).returncode:
        return False
    for archive in folder.glob("*.deb"):
        subprocess.run(["dpkg", "--extract", archive, folder], check=True)
        archive.unlink()
    return True
