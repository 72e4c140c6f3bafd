"""The demonstration runs on small input, and checks its results itself."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from golden_tests.integrations.environments import WANTED
from golden_tests.packaging.installations import ROOT, run
from golden_tests.packaging.test_runs import ENVIRONMENT

LIBRARY = {
    "core": "hub, csv, plistlib",
    "hub": "core, statistics",
    "csv": "hub",
    "plistlib": "core",
    "statistics": "hub",
    "optparse": "hub",
    "program": "optparse, csv",
    "tomllib": "",
}


@WANTED
def test_demonstration(tmp_path: Path) -> None:
    """From the program to verified views after two batches: one in a file, which is moved to a folder, one on Spark."""
    for module, imports in LIBRARY.items():
        path = tmp_path / "lib" / f"{module}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"import {imports}\n" if imports else "", encoding="utf-8")
    demo = ROOT / "examples" / "imports" / "demo.py"
    options = ("--library", tmp_path / "lib", "--folder", tmp_path / "demo", "--master", "local[2]")
    said = run(sys.executable, demo, *options, cwd=ROOT, **ENVIRONMENT)
    assert "core stops importing csv" in said
    assert "optparse is removed" in said
    assert said.count("no difference") == 4
    assert "modules affected by tomllib" in said
    logs = tmp_path / "demo" / "logs"
    runs = {path.stem: re.findall(r" on=(\w+)", path.read_text("utf-8")) for path in logs.glob("*.events")}
    assert runs == {
        **{f"database-{name}": [] for name in ("init", "apply-1-imports-dropped", "verify")},
        "pyspark-apply-2-module-removed": ["spark"],
        "pyspark-verify": ["here"],
    }
