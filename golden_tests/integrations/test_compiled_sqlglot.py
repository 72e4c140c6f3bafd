"""sqlglot compiled, as ``sqlglot[c]`` installs it: other classes cannot inherit from its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import sqlglot

from golden_tests.integrations.environments import ROOT, WANTED, environment


@WANTED
def test_golden_scripts() -> None:
    """The scripts of all cases are the same."""
    commands = environment(f"sqlglot[c]=={sqlglot.__version__}")
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = subprocess.run([commands / "python", "-c", where], capture_output=True, text=True, check=True)
    surroundings = {**os.environ, "PYTHONPATH": packages.stdout.strip()}
    loaded = "import sqlglot.generator; print(sqlglot.generator.__file__)"
    printed = subprocess.run(
        [sys.executable, "-c", loaded], capture_output=True, text=True, check=True, env=surroundings
    )
    assert Path(printed.stdout.strip()).suffix in (".so", ".pyd")
    pytest = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "0",
        "golden_tests/language/test_cases.py",
        "-k",
        "test_script or words_of_printers",
    ]
    done = subprocess.run(pytest, cwd=ROOT, capture_output=True, text=True, env=surroundings)
    assert done.returncode == 0, done.stdout + done.stderr
