"""A job on a real cluster: a worker is killed in mid-batch, and the state is right in the end."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pyspark
import pytest
from flintlog.compiler import CompileOptions, compile_source
from flintlog.compiler.source import SourceFile
from flintlog.targets import RUNTIMES

from golden_tests.cluster.standalone import Cluster
from golden_tests.harness import compile_text
from golden_tests.nightly import AT_NIGHT
from golden_tests.oracle import functions as oracle_functions
from golden_tests.oracle import language
from golden_tests.oracle.evaluate import evaluate

SPARK_SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"

PROGRAM = """
extern function paused(x: int): int
input relation link(src: int, dst: int)
output relation reachable(src: int, dst: int)
output relation degree(src: int, nodes: int)
r1: reachable(X, Y) :- link(X, W), Y = paused(W).
r2: reachable(X, Z) :- reachable(X, Y), link(Y, Z).
r3: degree(X, count<Y>) :- reachable(X, Y).
"""
PAUSE = '''
"""An external function that stops in mid-batch, until its process is killed."""

import os
import time
from pathlib import Path

FOLDER = Path({folder!r})


def paused(x):
    """x; a certain one takes until somebody was killed."""
    end = time.monotonic() + 600
    while x == 99 and not (FOLDER / "killed").exists() and time.monotonic() < end:
        (FOLDER / f"pausing-{{os.getpid()}}").touch()
        time.sleep(0.1)
    return x
'''
LINKS = {(n, (n * 7 + 3) % 40) for n in range(40)} | {(n, n // 2) for n in range(40)}
DELETED = {(0, 3), (4, 2), (10, 33), (7, 3)}
INSERTED = {(3, 99), (99, 5), (20, 21)}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A master and two workers."""
    made = Cluster(tmp_path / "cluster")
    yield made
    made.stop()


def submit(cluster: Cluster, script: Path, *arguments: str, py_files: Sequence[Path] = ()) -> subprocess.Popen[str]:
    """Start a command of a job on the cluster."""
    sent = [word for path in py_files for word in ("--py-files", path)]
    small = ("--driver-memory", "512m", "--executor-memory", "512m", "--conf", "spark.ui.enabled=false")
    return subprocess.Popen(
        [SPARK_SUBMIT, "--master", cluster.url, *small, *sent, script, *arguments, "--json"],
        env=cluster.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def printed(command: subprocess.Popen[str]) -> list[str]:
    """The lines of a command that ends well."""
    out, errors = command.communicate(timeout=300)
    assert command.returncode == 0, errors[-4000:]
    return out.splitlines()


def said(command: subprocess.Popen[str]) -> dict[str, Any]:
    """What a command reports in its last line."""
    result: dict[str, Any] = json.loads(printed(command)[-1])
    return result


def write_links(path: Path, changes: list[tuple[str, tuple[int, int]]]) -> None:
    """A CSV file of changes."""
    lines = [f"{op},{src},{dst}" for op, (src, dst) in changes]
    path.parent.mkdir(parents=True)
    path.write_text("\n".join(["op,src,dst", *lines]) + "\n", encoding="utf-8")


@AT_NIGHT
@pytest.mark.parametrize("engine", ["auto", "spark"])
def test_worker_killed(engine: str, cluster: Cluster, tmp_path: Path) -> None:
    """Spark gives the dead worker's tasks to the other; what they had written is not part of the commit.

    In distributed rounds the rows that its executor kept are gone too, and the job computes them again.
    """
    _, text = compile_text(PROGRAM)
    script, functions, state = tmp_path / "job.py", tmp_path / "pauses.py", tmp_path / "state"
    # As if the state were large: several tasks.
    script.write_text(text.replace("FEW_ROWS = 300_000", "FEW_ROWS = 0"), encoding="utf-8")
    functions.write_text(PAUSE.format(folder=str(tmp_path)), encoding="utf-8")
    write_links(tmp_path / "rows" / "link.csv", [("+", row) for row in sorted(LINKS)])
    changes = [("-", row) for row in sorted(DELETED)] + [("+", row) for row in sorted(INSERTED)]
    write_links(tmp_path / "changes" / "link.csv", changes)
    common = ("--state", str(state), "--functions", str(functions), "--engine", engine)
    said(submit(cluster, script, "init", *common, "--input", str(tmp_path / "rows"), "--buckets", "2"))
    given = ("--changes", str(tmp_path / "changes"), "--batch", "b", "--log", str(tmp_path / "apply.log"))
    command = submit(cluster, script, "apply", *common, *given)
    end = time.monotonic() + 600
    while not (pausing := [*tmp_path.glob("pausing-*")]):
        assert command.poll() is None, command.communicate()[1][-4000:]
        assert time.monotonic() < end, "no task came so far"
        time.sleep(0.05)
    worker = cluster.worker_of(int(pausing[0].name.removeprefix("pausing-")))
    (tmp_path / "killed").touch()
    assert cluster.kill(worker) >= 3, "the worker, its executor, and Python"
    result = said(command)
    events = (tmp_path / "apply.log").read_text(encoding="utf-8").splitlines()
    assert any(line.startswith("event=again ") for line in events) == (engine == "spark")
    assert result["applied"] is True
    before, after = (expected(links) for links in (LINKS, LINKS - DELETED | INSERTED))
    assert result["rows"] == {name: len(rows) for name, rows in after.items()}
    for name in ("reachable", "degree"):
        published = pq.read_table(state / "published" / name / "changes" / "batch=b").to_pylist()
        found = {(row["op"], *list(row.values())[1:3]) for row in published}
        assert len(found) == len(published)
        lost, gained = before[name] - after[name], after[name] - before[name]
        assert found == {("-", *row) for row in lost} | {("+", *row) for row in gained}
    assert said(submit(cluster, script, "verify", *common))["differences"] == []


REACH = """
input relation link(src: int, dst: int)
output relation reachable(src: int, dst: int)
reachable(X, Y) :- link(X, Y).
reachable(X, Z) :- reachable(X, Y), link(Y, Z).
"""


@AT_NIGHT
def test_ways_to_the_runtime(cluster: Cluster, tmp_path: Path) -> None:
    """In client mode, a script that contains its runtime, one with the runtime beside it, and one that imports the
    installed runtime work on one state in turn; executors get the code from the driver, which may be sent it."""
    write_links(tmp_path / "rows" / "link.csv", [("+", row) for row in sorted(LINKS)])
    state = ("--state", str(tmp_path / "state"))
    scripts = {}
    for way in RUNTIMES:
        compile_source(SourceFile("reach.dl", REACH), CompileOptions(runtime=way)).write(tmp_path / way)
        scripts[way] = tmp_path / way / "reach.py"
    said(submit(cluster, scripts["standalone"], "init", *state, "--input", str(tmp_path / "rows"), "--buckets", "2"))
    links = set(LINKS)
    for number, way in enumerate(RUNTIMES):
        gone, come = sorted(links)[number], (50 + number, number)
        links = links - {gone} | {come}
        write_links(tmp_path / f"batch-{way}" / "link.csv", [("-", gone), ("+", come)])
        result = said(submit(cluster, scripts[way], "apply", *state, "--changes", str(tmp_path / f"batch-{way}")))
        program = language.parse(REACH)
        reachable = evaluate(program, {"link": links})["reachable"]
        assert result["rows"] == {"link": len(links), "reachable": len(reachable)}, way
    (archive,) = (tmp_path / "beside").glob("*.zip")
    sent = archive.rename(tmp_path / archive.name)
    assert said(submit(cluster, scripts["beside"], "verify", *state, py_files=[sent]))["differences"] == []


def expected(links: set[tuple[int, int]]) -> dict[str, set[tuple[Any, ...]]]:
    """What the relations hold, by the oracle."""
    program = language.parse(PROGRAM, {"paused": oracle_functions.external(lambda x: x)})
    return {"link": links, **evaluate(program, {"link": links})}
