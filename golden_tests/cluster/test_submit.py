"""Jobs that ``spark-submit`` starts on one machine: what goes to standard output, and when a session begins."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pyspark
import pytest

from golden_tests.harness import compile_text, load_script
from golden_tests.nightly import AT_NIGHT

SPARK_SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"

PROGRAM = """
input relation link(src: int, dst: int)
output relation reachable(src: int, dst: int)
reachable(X, Y) :- link(X, Y).
reachable(X, Z) :- reachable(X, Y), link(Y, Z).
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """The job, and a state of it that was built in this process."""
    _, text = compile_text(PROGRAM)
    (tmp_path / "job.py").write_text(text, encoding="utf-8")
    (tmp_path / "link.csv").write_text("src,dst\n1,2\n2,3\n", encoding="utf-8")
    here(text, "init", "--state", str(tmp_path / "state"), "--input", str(tmp_path / "link.csv"))
    return tmp_path / "job.py"


def here(text: str, *arguments: str) -> dict[str, Any]:
    """The result of a command that runs in this process."""
    module: Any = load_script(text)
    output = io.StringIO()
    with redirect_stdout(output):
        assert module.main([*arguments, "--on", "here", "--quiet", "--json"]) == 0
    result: dict[str, Any] = json.loads(output.getvalue())
    return result


def apply_with_spark(script: Path, changes: str) -> tuple[int, list[str], str, list[str]]:
    """Apply changes with ``spark-submit``: the exit code, the lines of standard output, standard error, and the events
    of the log."""
    folder = script.parent
    (folder / "changes.csv").write_text(changes, encoding="utf-8")
    spark = ("--master", "local[1]", "--driver-memory", "512m", "--conf", "spark.ui.enabled=false")
    job = ("apply", "--state", folder / "state", "--changes", f"link={folder / 'changes.csv'}", "--batch", "monday")
    done = subprocess.run(
        [SPARK_SUBMIT, *spark, script, *job, "--json", "--log", folder / "job.log"],
        env={**os.environ, "PYSPARK_DRIVER_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
    )
    events = re.findall(r"^event=(.*?) seconds=", (folder / "job.log").read_text(encoding="utf-8"), re.MULTILINE)
    return done.returncode, done.stdout.splitlines(), done.stderr, events


def test_a_batch(script: Path) -> None:
    """Standard output has the result and nothing else; the log has the events; the state changes hands."""
    code, lines, errors, events = apply_with_spark(script, "op,src,dst\n-,1,2\n+,3,4\n")
    assert code == 0, errors
    assert len(lines) == 1, lines
    assert json.loads(lines[0])["changes"]["reachable"] == {"inserted": 2, "deleted": 2}
    assert "event=" not in errors
    assert events[:3] == ["read", "runs", "stage"] and events[-1] == "committed"
    log = (script.parent / "job.log").read_text(encoding="utf-8")
    assert 'on=spark reason="started by spark-submit"' in log
    verified = here(script.read_text(encoding="utf-8"), "verify", "--state", str(script.parent / "state"))
    assert (verified["differences"], verified["rows"]) == ([], {"link": 2, "reachable": 3})


@AT_NIGHT
def test_a_refused_batch(script: Path) -> None:
    """It ends before a session begins; the last line of standard output says what was refused, as JSON."""
    code, lines, errors, events = apply_with_spark(script, "op,src,dst\n-,1,x\n")
    assert code == 1, errors
    refusal = json.loads(lines[-1])
    assert (refusal["program"], refusal["kind"]) == ("test.dl", "refused")
    assert refusal["error"].startswith("apply: refused, nothing has changed:\n") and 'dst: "x"' in refusal["error"]
    assert lines[:-1] == refusal["error"].splitlines()
    assert events == ["read"]
    assert "SparkContext" not in errors
