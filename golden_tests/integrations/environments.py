"""Environments of their own for tools that do not go together with Flintlog's."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

WANTED = pytest.mark.skipif(
    os.environ.get("FLINTLOG_INTEGRATIONS", "") in ("", "0"),
    reason="installs tools of others: make integrations",
)


def environment(*packages: str) -> Path:
    """The folder of the commands of an environment that has some packages; skips the test if they cannot be had."""
    name = hashlib.sha256("\n".join((sys.version, *packages)).encode()).hexdigest()[:12]
    folder = ROOT / "build" / "environments" / name
    if not (folder / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        pip = subprocess.run(
            [folder / "bin" / "python", "-m", "pip", "install", "--quiet", *packages],
            capture_output=True,
            text=True,
            check=False,
        )
        if pip.returncode:
            pytest.skip(f"{', '.join(packages)} cannot be installed: {pip.stderr[-500:]}")
        (folder / "complete").touch()
    return folder / "bin"
