"""The demonstration of nodes and the benchmarks run on small input; they check their results themselves."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from golden_tests.nightly import AT_NIGHT
from golden_tests.packaging.installations import ROOT, run

#: As ``make`` sets it: this environment's commands and, for Spark's workers, its interpreter.
ENVIRONMENT = {
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    "PYSPARK_PYTHON": sys.executable,
    "PYSPARK_DRIVER_PYTHON": sys.executable,
    "SPARK_LOCAL_IP": "127.0.0.1",
}


@AT_NIGHT
@pytest.mark.parametrize("place", ["here", "spark"])
def test_network(place: str, tmp_path: Path) -> None:
    """Six nodes as real processes, of which two are killed: all tables are those of a single evaluation."""
    demo = ROOT / "examples" / "network" / "demo.py"
    said = run(sys.executable, demo, "--folder", tmp_path, "--on", place, "--patience", "600", cwd=ROOT, **ENVIRONMENT)
    assert len(re.findall(r"^ *[0-9.]+ s  .*; equal$", said, re.MULTILINE)) == 8
    assert "DIFFERS" not in said
    assert re.search(r"│ path +│ Amsterdam +│ ", said)
    logs = [path.read_text(encoding="utf-8") for path in (tmp_path / "run" / "logs").glob("*.log")]
    assert {found for log in logs for found in re.findall(r"event=runs .*on=(\w+)", log)} == {place}
    assert f"the picture of it is {tmp_path / 'network.svg'}" in said
    assert ElementTree.parse(tmp_path / "network.svg").getroot().tag.endswith("svg")


@AT_NIGHT
def test_benchmark(tmp_path: Path) -> None:
    """The data, the measuring and the tables; what needs Spark is left to ``make bench``."""
    options = ("--quick", "--part", "workloads", "--part", "compile", "--workload", "forward", "--contender", "duckdb")
    bench = (sys.executable, ROOT / "benchmarks" / "bench.py", "--folder", tmp_path)
    said = run(*bench, *options, cwd=ROOT, **ENVIRONMENT)
    assert "closure of a forward graph, 1,000 edges" in said
    results = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert set(results["machine"]) == {"cores", "memory_mb"}
    assert [(one["workload"], one["contender"], one["step"]) for one in results["comparison"]] == [
        ("forward", "duckdb", "init"),
        ("forward", "duckdb", "apply 0.01 %"),
        ("forward", "duckdb", "apply 1 %"),
        ("compile 100 rules", "compiler", "formatted"),
        ("compile 100 rules", "compiler", "--no-format"),
    ]
    assert all(one["seconds"] > 0 and one["peak_mb"] > 0 and one["rows"] > 0 for one in results["comparison"])
    assert "| compile 100 rules | formatted |" in (tmp_path / "performance.md").read_text(encoding="utf-8")
    again = run(*bench, "--quick", "--report", cwd=ROOT, **ENVIRONMENT)
    assert "closure of a forward graph, 1,000 edges" in again


@AT_NIGHT
def test_regular_queries(tmp_path: Path) -> None:
    """Path queries on generated graphs, built and updated, have the expected answers; the data is generated once."""
    gmark = (sys.executable, ROOT / "benchmarks" / "gmark.py", "--dataset", "snb-1k", "--workload", "nav")
    scenarios = ("--scenario", "symdel-0.10", "--scenario", "edgeq-1pct")
    said = run(*gmark, "--workload", "rec", *scenarios, cwd=tmp_path, **ENVIRONMENT)
    assert "snb-1k: 1,005 nodes" in said
    assert "270 answers compared, 0 mismatches" in said
    again = run(*gmark, "--scenario", "sym-0.25", cwd=tmp_path, **ENVIRONMENT)
    assert "1,005 nodes" not in again
    assert "25 answers compared, 0 mismatches" in again
    generated = tmp_path / "build" / "gmark-data" / "seed-1"
    shutil.rmtree(generated / "snb-1k" / "expected")
    alone = run(*gmark, "--data", generated, *scenarios, cwd=tmp_path, **ENVIRONMENT)
    assert "no expected answers; each update is compared with recomputation" in alone
    assert "20 answers compared, 0 mismatches" in alone
