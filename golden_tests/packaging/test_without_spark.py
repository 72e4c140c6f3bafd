"""Jobs that ``python`` starts need DuckDB and PyArrow, and NumPy to call external functions: no PySpark and no Java."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
from flintlog.compiler import CompileOptions, compile_source
from flintlog.compiler.source import SourceFile

from golden_tests.nightly import one_in

PROGRAM = """
input relation link(src: int, dst: int)
output relation reachable(src: int, dst: int)
reachable(X, Y) :- link(X, Y).
reachable(X, Z) :- reachable(X, Y), link(Y, Z).
"""
CALLING = "extern function twice(x: int): int  input relation e(x: int)  output p.  p(twice(X)) :- e(X)."

#: Variables that would choose Spark, or find Java or modules elsewhere.
LEFT_OUT = ("JAVA_HOME", "SPARK_HOME", "SPARK_REMOTE", "PYSPARK_GATEWAY_PORT", "PYTHONPATH", "VIRTUAL_ENV")

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def environment(folder: Path, *packages: str) -> Path:
    """Make an environment with nothing but some packages of the one that runs the tests; return its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    modules = Path(sysconfig.get_path("purelib", "venv", vars={"base": str(folder)}))
    for package in packages:
        found = distribution(package)
        names = {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}
        assert names
        for name in names:
            (modules / name).symlink_to(Path(str(found.locate_file(name))))
    return folder / "bin" / "python"


def without_java(python: Path) -> dict[str, str]:
    """The variables of a command: no Java can be found."""
    kept = {name: value for name, value in os.environ.items() if name not in LEFT_OUT}
    return {**kept, "PATH": str(python.parent)}


def write_script(folder: Path, text: str, runtime: str = "standalone") -> Path:
    """Compile a program, and return its script."""
    options = CompileOptions(format=False, runtime=runtime, parts=("explain", "operations"))
    compile_source(SourceFile("job.dl", text), options).write(folder)
    return folder / "job.py"


def runner(python: Path, folder: Path) -> Run:
    """A function that runs a command of a script and expects an exit code."""

    def run(script: Path, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        command = [str(python), str(script), *arguments, "--state", "state"]
        done = subprocess.run(command, cwd=folder, env=without_java(python), capture_output=True, text=True)
        assert done.returncode == code, f"{arguments}\n{done.stdout}\n{done.stderr}"
        return done

    return run


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter with DuckDB and PyArrow."""
    made = environment(tmp_path_factory.mktemp("run") / "venv", "duckdb", "pyarrow")
    has = "import importlib.util as u; print([n for n in ('numpy', 'pandas', 'py4j', 'pyspark') if u.find_spec(n)])"
    said = subprocess.run([made, "-c", has], env=without_java(made), capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"
    return made


@pytest.mark.parametrize("runtime", one_in(["standalone", "beside"], 2))
def test_every_command(runtime: str, python: Path, tmp_path: Path) -> None:
    """All ten commands succeed, and the relations are right after each that changes them."""
    run = runner(python, tmp_path)
    job = write_script(tmp_path / "jobs", PROGRAM, runtime)
    links = [(1, 2), (2, 3), *((n, n) for n in range(10, 60))]
    (tmp_path / "link.csv").write_text("src,dst\n" + "".join(f"{x},{y}\n" for x, y in links), encoding="utf-8")
    (tmp_path / "monday.csv").write_text("op,src,dst\n-,1,2\n+,3,4\n", encoding="utf-8")
    (tmp_path / "tuesday.csv").write_text("op,src,dst\n+,1,2\n", encoding="utf-8")

    def result(*arguments: str, script: Path = job) -> dict[str, Any]:
        said: dict[str, Any] = json.loads(run(script, *arguments, "--json").stdout)
        return said

    def shown(script: Path = job) -> set[tuple[int, int]]:
        lines = run(script, "show", "reachable", "--format", "json").stdout.splitlines()
        return {(row["src"], row["dst"]) for row in map(json.loads, lines) if row["src"] < 10}

    assert result("init", "--input", "link.csv")["rows"] == {"link": 52, "reachable": 53}
    assert shown() == {(1, 2), (2, 3), (1, 3)}
    done = result("apply", "--changes", "link=monday.csv", "--batch", "monday")
    assert done["changes"]["reachable"] == {"inserted": 2, "deleted": 2}
    assert [*Path(done["published"]["reachable"]).glob("*.parquet")]
    assert shown() == {(2, 3), (3, 4), (2, 4)}
    assert result("status")["batch"] == "monday"
    assert result("explain", "reachable(2, 4)")["tuples"][0]["tuple"] == "reachable(2, 4)"
    assert result("verify")["differences"] == []
    files = result("compact")["files"]
    assert files[1] < files[0]
    assert result("rebuild", "--buckets", "3")["changes"] == {}
    assert shown() == {(2, 3), (3, 4), (2, 4)}
    other = write_script(tmp_path / "other", PROGRAM.replace("link(X, Y).", "link(X, Y), X != 3."), runtime)
    assert result("upgrade", script=other)["recomputed"] == ["reachable"]
    assert shown(other) == {(2, 3), (2, 4)}
    assert result("upgrade")["recomputed"] == ["reachable"]
    result("apply", "--changes", "link=tuesday.csv", "--batch", "tuesday")
    max((tmp_path / "state" / "manifest").glob("*.json")).write_bytes(b"")
    assert result("recover")["applied"] is True
    assert shown() == {(2, 3), (3, 4), (2, 4)}
    assert result("verify")["differences"] == []


def test_on_spark(python: Path, tmp_path: Path) -> None:
    """The message names PySpark and the interpreter that lacks it; nothing was built."""
    job = write_script(tmp_path / "jobs", PROGRAM)
    said = runner(python, tmp_path)(job, "init", "--on", "spark", code=1).stderr
    assert f"init: PySpark is not installed for {python}: install it" in said
    assert not [*tmp_path.glob("state/manifest/*.json")]


def test_without_duckdb(tmp_path: Path) -> None:
    """The message names DuckDB and the interpreter that lacks it."""
    python = environment(tmp_path / "venv", "pyarrow")
    job = write_script(tmp_path / "jobs", PROGRAM)
    said = runner(python, tmp_path)(job, "init", code=1).stderr
    assert f"init: DuckDB is not installed for {python}: install it" in said
    assert "Traceback" not in said


def test_external_functions(python: Path, tmp_path: Path) -> None:
    """They need NumPy; without it the message says so."""
    job = write_script(tmp_path / "jobs", CALLING)
    (tmp_path / "e.csv").write_text("x\n4\n", encoding="utf-8")
    (tmp_path / "twice.py").write_text("def twice(x):\n    return 2 * x\n", encoding="utf-8")
    given = ("init", "--functions", "twice.py", "--input", "e.csv")
    said = runner(python, tmp_path)(job, *given, code=1).stderr
    assert f"init: NumPy is not installed for {python}: install it" in said
    assert "twice(int): int" in said and "Traceback" not in said
    run = runner(environment(tmp_path / "venv", "duckdb", "pyarrow", "numpy"), tmp_path)
    run(job, *given)
    assert run(job, "show", "p", "--format", "csv").stdout.splitlines()[1:] == ["8"]


def test_pyspark_is_not_imported(tmp_path: Path) -> None:
    """A job that ``python`` starts imports neither PySpark nor pandas: both take longer than its work."""
    run = runner(Path(sys.executable), tmp_path)
    job = write_script(tmp_path / "jobs", PROGRAM)
    (tmp_path / "link.csv").write_text("src,dst\n1,2\n", encoding="utf-8")
    (tmp_path / "monday.csv").write_text("op,src,dst\n+,2,3\n", encoding="utf-8")
    run(job, "init", "--input", "link.csv")
    traced = tmp_path / "jobs" / "traced.py"
    traced.write_text(
        "import atexit, runpy, sys\n"
        "atexit.register(lambda: print(sorted({'pyspark', 'py4j', 'pandas', 'duckdb'} & {*sys.modules})))\n"
        "runpy.run_path(__file__.replace('traced', 'job'), run_name='__main__')\n",
        encoding="utf-8",
    )
    said = run(traced, "apply", "--changes", "link=monday.csv").stdout.splitlines()
    assert "  reachable: 3 tuples  +2 -0" in said
    assert said[-1] == "['duckdb']"
