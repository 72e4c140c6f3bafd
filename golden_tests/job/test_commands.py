"""The commands, as functions and on the command line."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow.parquet as pq
import pytest

from golden_tests.job import assemble

Write = Callable[[str, str | bytes], str]


@pytest.fixture
def main(job: ModuleType, spark: Any, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs a command line; returns exit code, output and errors."""

    def run(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = job.main(arguments)
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


@pytest.fixture
def built(main: Any, state: str, write: Write) -> str:
    """A state with two links and two prices."""
    write("inputs/link.csv", "src,dst\n1,2\n2,3\n")
    folder = Path(write("inputs/price.jsonl", '{"item": "", "op": 1}\n{"item": "a,\\"b\\"", "op": 2}\n')).parent
    code, _, err = main("init", "--state", state, "--input", str(folder), "--quiet")
    assert code == 0, err
    return state


def rows(job: ModuleType, spark: Any, state: str, name: str) -> list[tuple[Any, ...]]:
    """The tuples of a relation."""
    return sorted(map(tuple, job.relation(spark, state, name).collect()))


# ---- the command line ----------------------------------------------------------------------------------------------


def test_init_and_status(main: Any, state: str, write: Write) -> None:
    """What is not given starts empty, and a warning says so."""
    path = write("somewhere.csv", "src,dst\n1,2\n")
    code, out, err = main("init", "--state", state, "--input", f"link={path}", "--quiet")
    assert code == 0
    assert out.splitlines()[0].startswith("batch init is commit 1, in ")
    assert out.splitlines()[1:3] == ["  link: 1 tuple  +1 -0", "  pair: 1 tuple  +1 -0"]
    assert err.splitlines() == [
        f"warning: {name} starts empty: no --input {name}=PATH was given" for name in ("sample", "price", "go")
    ]
    code, out, _ = main("status", "--state", state, "--json")
    status = json.loads(out)
    assert code == 0 and status["rows"]["pair"] == 1 and status["commit"] == 1 and status["differs"] == []
    code, out, _ = main("status", "--state", state)
    assert out.splitlines()[0].startswith("reach: commit 1, batch init, ")


def test_init_refuses_a_state_that_is_there(main: Any, built: str) -> None:
    """And names the commands that work on it."""
    code, out, err = main("init", "--state", built)
    assert (code, out) == (1, "")
    assert err == (
        f"init: there is a state in {built} already; `apply` changes it, `rebuild` recomputes it from its inputs\n"
    )


def test_apply(main: Any, built: str, write: Write) -> None:
    """The second time says that it is the second."""
    path = write("link.csv", "src,dst,op\n1,2,-\n5,6,+\n")
    code, out, err = main("apply", "--state", built, "--changes", path, "--batch", "x")
    assert code == 0
    lines = out.splitlines()
    assert lines[0].startswith("batch x is commit 2, in ")
    assert "  pair: 2 tuples  +1 -1" in lines and "  priced: 2 tuples" in lines
    assert lines[-1] == f"  changes of pair: {built}/published/pair/changes/batch=x"
    events = [line.split(" ")[0] for line in err.splitlines()]
    assert events[0] == "event=read" and events[-1] == "event=committed"
    code, out, _ = main("apply", "--state", built, "--changes", path, "--batch", "x", "--quiet")
    assert (code, out) == (0, "batch x was applied before; nothing to do\n")


def test_a_refused_batch_leaves_everything_as_it_was(main: Any, built: str, write: Write) -> None:
    """Not a byte of the state changes, whatever was right in the batch."""
    write("batch/link.csv", "src,dst,op\n7,8,+\n")
    folder = Path(write("batch/price.csv", "item,op,_op\nx,y,+\n")).parent
    before = {path: path.read_bytes() for path in Path(built).rglob("*") if path.is_file()}
    code, out, err = main("apply", "--state", built, "--changes", str(folder), "--quiet")
    assert (code, out) == (1, "")
    assert err == (f'apply: refused, nothing has changed:\n  {folder}/price.csv, row 1, column op: "y" is not an int\n')
    assert {path: path.read_bytes() for path in Path(built).rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            "{tmp}/nothing",
            "{tmp}/nothing does not exist on this machine; pass data that is elsewhere as RELATION={tmp}/nothing",
        ),
        ("{tmp}/void", "{tmp}/void is empty; it must contain a file or folder named after each relation"),
        ("{tmp}/stray", "there is no relation README.md; the input relations of reach: go, link, price, sample"),
        ("lonk={tmp}/x.csv", "there is no relation lonk; the input relations of reach: go, link, price, sample"),
        (
            "{tmp}/stray/README.md",
            "there is no relation README.md; the input relations of reach: go, link, price, sample",
        ),
    ],
)
def test_changes_that_are_none(changes: str, message: str, main: Any, built: str, write: Write, tmp_path: Path) -> None:
    """A folder of changes has nothing else in it."""
    write("stray/README.md", "x")
    (tmp_path / "void").mkdir()
    code, _, err = main("apply", "--state", built, "--changes", changes.format(tmp=tmp_path), "--quiet")
    assert (code, err) == (1, f"apply: {message.format(tmp=tmp_path)}\n")


def test_ways_to_name_changes(job: ModuleType, spark: Any, main: Any, built: str, write: Write, tmp_path: Path) -> None:
    """A file, a folder of parts, a folder of relations, RELATION=PATH, and mappings from Python."""
    write("parts/link/a.csv", "src,dst\n11,0\n")
    write("parts/link/b.csv", "src,dst\n12,0\n")
    write("batch=1/link.csv", "src,dst\n13,0\n")
    pq.write_table(job.pa.table({"src": [14], "dst": [0]}), tmp_path / "link.parquet")
    for changes in (f"{tmp_path}/parts/link", f"{tmp_path}/batch=1", f"link={tmp_path}/link.parquet"):
        assert main("apply", "--state", built, "--changes", changes, "--all-inserts", "--quiet")[0] == 0
    frame = spark.createDataFrame([(15, 0)], "src INT, dst INT")
    given = {"link": [frame, write("more.csv", "src,dst\n16,0\n")]}
    job.apply(spark, built, given, all_inserts=True, log=job.Log(quiet=True))
    assert [src for src, _ in rows(job, spark, built, "link")] == [1, 2, 11, 12, 13, 14, 15, 16]


def test_usage(job: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    """Mistakes exit with 2; help says what everything is for."""
    for arguments in ([], ["apply"], ["vanish"], ["init", "--state", "x", "--buckets", "0"]):
        with pytest.raises(SystemExit) as caught:
            job.main(arguments)
        assert caught.value.code == 2
    with pytest.raises(SystemExit) as caught:
        job.main(["apply", "--help"])
    assert caught.value.code == 0
    assert "applying an ID again changes nothing" in " ".join(capsys.readouterr().out.split())


def test_verify(main: Any, built: str, job: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prints differences and fails if there are any."""
    code, out, _ = main("verify", "--state", built, "--quiet")
    assert code == 0 and out.startswith("commit 1 is exact: 8 tuples, ")
    differences = [{"relation": "pair", "problem": "missing", "tuple": (number, 0)} for number in range(12)]
    monkeypatch.setattr(job, "verify_stages", lambda *_: differences)
    code, out, _ = main("verify", "--state", built, "--quiet")
    lines = out.splitlines()
    assert code == 1 and len(lines) == 11
    assert lines[0] == "relation: pair  problem: missing  tuple: (0, 0)"
    assert lines[-1] == "12 differences; `rebuild` recomputes the state"
    code, out, _ = main("verify", "--state", built, "--quiet", "--json")
    assert code == 1 and len(json.loads(out)["differences"]) == 12


def test_options_reach_the_stages(main: Any, built: str, job: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Buckets are those of the state."""
    seen = []
    monkeypatch.setattr(job, "verify_stages", lambda *arguments: seen.append(arguments[-1]) or [])
    options = ["--engine", "spark", "--memory-limit", "3GB"]
    assert main("verify", "--state", built, "--quiet", *options)[0] == 0
    assert seen == [job.Options(2, "spark", memory_limit="3GB")]


@pytest.mark.parametrize(
    "size", ["2GB", "2 gib", "2.5GB", "2G", "80%", "100 bytes", "none", "-1", "1 PB", "2Ki", "2", "zzz", "1'; --"]
)
def test_amounts_of_memory(job: ModuleType, size: str) -> None:
    """What DuckDB takes is taken, and nothing else."""
    import duckdb

    def taken(check: Any, wrong: type[Exception]) -> bool:
        try:
            check()
        except wrong:
            return False
        return True

    escaped = size.replace("'", "''")
    by_duckdb = taken(lambda: duckdb.connect().execute(f"SET memory_limit = '{escaped}'"), duckdb.Error)
    assert taken(lambda: job.Options(2, memory_limit=size), job.JobError) == by_duckdb


@pytest.mark.parametrize(
    "given", [{"engine": "foo"}, {"strategy": "foo"}, {"buckets": 0}, {"max_rounds": -1}, {"max_entries": 0}]
)
def test_options_that_cannot_be(job: ModuleType, given: dict[str, Any]) -> None:
    """An option is refused by its name, before anything is done."""
    with pytest.raises(job.JobError, match=next(iter(given))):
        job.Options(**{"buckets": 2, **given})


# ---- show ----------------------------------------------------------------------------------------------------------


def test_show(main: Any, built: str, write: Write) -> None:
    """In order, as a table, as CSV, as JSON lines; what it prints can be read in again."""
    main("apply", "--state", built, "--changes", write("link.csv", "src,dst,op\n1,2,-\n10,6,+\n"), "--quiet")
    assert main("show", "pair", "--state", built)[1] == "src  dst\n---  ---\n2    3\n10   6\n"
    assert main("show", "pair", "--state", built, "--format", "csv")[1] == "src,dst\n2,3\n10,6\n"
    assert main("show", "pair", "--state", built, "--json")[1] == '{"src": 2, "dst": 3}\n{"src": 10, "dst": 6}\n'
    assert main("show", "pair", "--state", built, "--format", "csv", "--limit", "1")[1] == "src,dst\n2,3\n"
    assert main("show", "pair", "--state", built, "--format", "csv", "--at", "10")[1] == "src,dst\n10,6\n"
    out = main("show", "pair", "--state", built, "--format", "csv", "--support")[1]
    assert out == "src,dst,_support\n2,3,1\n10,6,1\n"
    out = main("show", "priced", "--state", built, "--format", "csv")[1]
    assert out == 'item,op\n"",1\n"a,""b""",2\n'
    path = write("price.csv", out)
    code, out, _ = main("apply", "--state", built, "--changes", path, "--all-inserts", "--quiet", "--json")
    assert code == 0 and json.loads(out)["changes"] == {}
    assert main("show", "gone", "--state", built)[1] == ""
    main("apply", "--state", built, "--changes", write("go.csv", "op\n+\n"), "--quiet")
    assert main("show", "gone", "--state", built)[1] == "()\n"
    assert main("show", "gone", "--state", built, "--format", "json")[1] == "{}\n"


def test_show_what_is_not_there(main: Any, built: str) -> None:
    """Relations and locations."""
    code, _, err = main("show", "nothing", "--state", built)
    assert code == 1 and err.startswith("show: there is no relation nothing in reach; it has ")
    assert main("show", "priced", "--state", built, "--at", "x")[2] == "show: priced has no location\n"
    assert (
        main("show", "pair", "--state", built, "--at", "x")[2]
        == 'show: pair cannot be located at "x": "x" is not an int\n'
    )


# ---- rebuild -------------------------------------------------------------------------------------------------------


def test_rebuild_publishes_what_it_corrects(job: ModuleType, spark: Any, built: str, tmp_path: Path) -> None:
    """Here the stages of a new version of the program derive one tuple less and one more."""
    fakes = assemble.FAKES.replace(
        "plus, minus = sorted(new - old)",
        'new = {(2, 3), (9, 9)} if relation.table == "pair" else new\n        plus, minus = sorted(new - old)',
    )
    other = assemble.load(tmp_path, assemble.PROGRAM.replace('"a" * 64', '"b" * 64'), "new_job", fakes)
    log = other.Log(quiet=True)
    result = other.rebuild(spark, built, log=log)
    assert result["batch"] == "rebuild-000002" and result["changes"] == {"pair": {"inserted": 1, "deleted": 1}}
    (file,) = Path(result["published"]["pair"]).iterdir()
    changes = pq.ParquetFile(file).read().to_pylist()
    assert sorted(tuple(row.values()) for row in changes) == [("+", 9, 9), ("-", 1, 2)]
    assert list(result["published"]) == ["pair"]
    assert rows(other, spark, built, "link") == [(1, 2), (2, 3)]
    with pytest.raises(other.JobError, match="init is an ID that this state generated for another batch"):
        other.apply(spark, built, {"link": []}, batch="init", log=log)


def test_rebuild_after_a_change_of_inputs(
    spark: Any, built: str, tmp_path: Path, write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows of inputs with other columns have to be given; new inputs start empty, dropped ones are dropped."""
    text = assemble.PROGRAM.replace('"a" * 64', '"b" * 64').replace('("dst", "int", "dst")', '("dst", "string", "dst")')
    text = text.replace('name="go", table="go"', 'name="went", table="went"')
    other = assemble.load(tmp_path, text, "new_job", assemble.FAKES.replace('"go"}', '"went"}'))
    log = other.Log(quiet=True)
    with pytest.raises(other.JobError) as caught:
        other.rebuild(spark, built, log=log)
    assert (
        str(caught.value)
        == "the columns of link differ from those of its stored rows; pass rows with --input link=PATH"
    )
    capsys.readouterr()
    path = write("link.csv", "src,dst,op\n1,x,+\n")
    result = other.rebuild(spark, built, [f"link={path}"], buckets=3, log=log)
    assert result["published"] == {}
    assert rows(other, spark, built, "pair") == [(1, "x")]
    assert len(rows(other, spark, built, "priced")) == 2
    assert other.status(built)["buckets"] == 3
    assert capsys.readouterr().err.splitlines() == [
        "warning: went is new and starts empty: no --input went=PATH was given",
        "warning: go is no longer an input; its rows are dropped",
    ]


# ---- as a script ---------------------------------------------------------------------------------------------------


def test_as_a_script(tmp_path: Path, write: Write) -> None:
    """Run by an interpreter: results on stdout, progress and messages on stderr, exit codes; status needs no Java."""
    script = write("reach.py", assemble.script_text())
    path = write("link.csv", "src,dst\n1,2\n")

    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, script, *arguments, "--state", str(tmp_path / "state")]
        return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, check=False)

    done = run("init", "--input", path, "--json", PYSPARK_PYTHON=sys.executable)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"]["pair"] == 1
    assert "event=committed" in done.stderr
    done = run("status", JAVA_HOME="/nowhere", PATH="/nowhere")
    assert (done.returncode, done.stdout.splitlines()[1]) == (0, "  link: 1 tuple")


def test_events_as_log_lines(job: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    """Quoted only where it must be; nothing but warnings when quiet."""
    job.Log().event("round", stratum="reachable", seconds=0.12345, reason='said "x y"', none="")
    line = capsys.readouterr().err
    assert line.endswith(' stratum=reachable reason="said \\"x y\\"" none=""\n') or "stratum=reachable" in line
    quiet = job.Log(quiet=True)
    quiet.event("round")
    quiet.warn("mind the gap")
    quiet.warn("mind the gap")
    assert capsys.readouterr().err == "warning: mind the gap\n"


def test_events_in_a_file(job: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Behind what the file has, whatever is said on standard error."""
    file = tmp_path / "job.log"
    file.write_text("before\n")
    job.Log(quiet=True, file=str(file)).event("round", round=1)
    job.Log(file=str(file)).event("committed", commit=2)
    said = re.sub("seconds=[0-9.]+ ", "", file.read_text())
    assert said == "before\nevent=round round=1\nevent=committed commit=2\n"
    assert capsys.readouterr().err.count("event=") == 1
    assert job.main(["apply", "--state", str(tmp_path), "--changes", "x", "--log", str(tmp_path / "no" / "log")]) == 1
    assert "No such file or directory" in capsys.readouterr().err


def test_what_fails_in_python_workers(job: ModuleType) -> None:
    """The line that matters is the last one of the traceback."""
    lines = ["An exception was thrown from the Python worker:", "Traceback (most recent call last):", "  File x"]
    missing = RuntimeError("\n".join([*lines, "ModuleNotFoundError: No module named 'pyarrow'", " SQLSTATE: 38000"]))
    assert job.reason(missing) == (
        "ModuleNotFoundError: No module named 'pyarrow' where Spark runs the tasks, with the interpreter that "
        "PYSPARK_PYTHON names"
    )
    assert job.reason(RuntimeError("\n".join([*lines, "ValueError: no", "\tat x.y"]))) == "ValueError: no"


def test_live_progress(job: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """One line, rewritten."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    log = job.Log()
    log.event("round", stratum="reachable", round=3, tuples=1204)
    log.clear()
    assert capsys.readouterr().err.endswith(" s  round  stratum reachable  round 3  tuples 1204\r\x1b[K")
