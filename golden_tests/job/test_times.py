"""The time of batches, from the command line and from Python."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import flintlog
import pytest
from click.testing import CliRunner
from flintlog.compiler.cli.main import main

PROGRAM = """
input relation granted(subject: string, document: string, until: timestamp?) primary key (subject, document)
output relation live(subject: string, document: string)
live(S, D) :- granted(S, D, U), U = null.
live(S, D) :- granted(S, D, U), now(T), U > T.
"""

GRANTS = "subject,document,until\nann,plan,\nbob,plan,2026-03-01 00:00:00\ncem,plan,2026-04-01 00:00:00\n"

Run = Callable[..., dict[str, Any]]


def flintlog_command(*arguments: str) -> str:
    """Run ``flintlog``; returns what it prints."""
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(params=["pyspark", "database"])
def job(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
    """A script of either target, and where its state is to be."""
    (tmp_path / "grants.dl").write_text(PROGRAM)
    (tmp_path / "facts").mkdir()
    (tmp_path / "facts/granted.csv").write_text(GRANTS)
    target = ("--target", "database") if request.param == "database" else ()
    flintlog_command("compile", str(tmp_path / "grants.dl"), *target, "-o", str(tmp_path / "jobs"))
    return tmp_path / "jobs/grants.py", str(tmp_path / ("state.db" if target else "state"))


def run(job: tuple[Path, str], command: str, *arguments: str, said: str = "") -> dict[str, Any]:
    """Run a command of a job; returns its result. With ``said``, it is refused, with that."""
    script, state = job
    line = [sys.executable, str(script), command, "--state", state, "--json", *arguments]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode == 1 and said in result["error"]) if said else done.returncode == 0, done.stderr
    return result


def test_grants_end(job: tuple[Path, str], tmp_path: Path) -> None:
    """A grant counts until it ends; the time does not go back, and is no input."""
    started = run(job, "init", "--input", str(tmp_path / "facts"), "--as-of", "2026-02-01")
    assert started["rows"]["live"] == 3
    assert run(job, "apply", "--as-of", "2026-02-28 23:59:59.999999")["changes"].keys() == {"now"}
    assert run(job, "apply", "--as-of", "2026-03-01T01:00:00+01:00")["changes"]["live"] == {"inserted": 0, "deleted": 1}
    run(job, "apply", "--as-of", "2026-02-28", said="before 2026-03-01 00:00:00, the time of the state")
    run(job, "apply", "--as-of", "today", said="is no time of a batch")
    (tmp_path / "now.csv").write_text("op,time\n+,2026-05-01 00:00:00\n")
    run(job, "apply", "--changes", str(tmp_path / "now.csv"), said="now is not an input relation")
    changes = tmp_path / "changes"
    changes.mkdir()
    (changes / "granted.csv").write_text("op,subject,document,until\n+,bob,plan,2026-05-01 00:00:00\n")
    again = ("--changes", str(changes), "--batch", "monday")
    applied = run(job, "apply", *again, "--as-of", "2026-03-02")
    assert applied["changes"]["live"] == {"inserted": 1, "deleted": 0}
    assert not run(job, "apply", *again, "--as-of", "2026-09-01")["applied"]
    assert run(job, "apply")["rows"]["live"] == 1  # by the clock, which is later
    assert run(job, "verify")["differences"] == []


def test_reverts_leave_the_time(job: tuple[Path, str], tmp_path: Path) -> None:
    """To undo a batch does not undo that time has passed."""
    run(job, "init", "--input", str(tmp_path / "facts"), "--as-of", "2026-02-01")
    (tmp_path / "granted.csv").write_text("op,subject,document,until\n+,dan,plan,2026-06-01 00:00:00\n")
    run(job, "apply", "--changes", str(tmp_path / "granted.csv"), "--batch", "dan", "--as-of", "2026-03-15")
    script, state = job
    flintlog_command("job", "revert", str(script), "dan", "--state", state)
    assert run(job, "verify")["differences"] == []
    kept = json.loads(flintlog_command("job", "show", str(script), "now", "--state", state, "--format", "json"))
    assert kept["time"] > "2026-03-15"


def test_both_kinds_of_states(tmp_path: Path) -> None:
    """A state that is moved keeps its time, and goes on from there; a program that reads the time from now on gets
    one."""
    program = tmp_path / "grants.dl"
    (tmp_path / "facts").mkdir()
    (tmp_path / "facts/granted.csv").write_text(GRANTS)
    program.write_text("\n".join(PROGRAM.splitlines()[:-1]) + "\n")
    jobs = {}
    for kind, target, state in (("file", ("--target", "database"), "state.db"), ("folder", (), "state")):
        jobs[kind] = (tmp_path / kind / "grants.py", str(tmp_path / state))
        flintlog_command("compile", str(program), *target, "-o", str(tmp_path / kind))
    assert run(jobs["file"], "init", "--input", str(tmp_path / "facts"))["rows"]["live"] == 1
    program.write_text(PROGRAM)
    for kind, target in (("file", ("--target", "database")), ("folder", ())):
        flintlog_command("compile", str(program), *target, "-o", str(tmp_path / kind))
    script, state = jobs["file"]
    flintlog_command("job", "upgrade", str(script), "--state", state)
    assert run(jobs["file"], "verify")["differences"] == []
    flintlog_command("job", "move", str(jobs["folder"][0]), "--state", jobs["folder"][1], "--from", state)
    run(jobs["folder"], "apply", "--as-of", "2026-03-01", said="the time of the state")
    later = (datetime.now(UTC) + timedelta(days=400)).strftime("%Y-%m-%d")
    run(jobs["folder"], "apply", "--as-of", later)
    assert run(jobs["folder"], "verify")["differences"] == []
    flintlog_command("job", "rebuild", str(jobs["folder"][0]), "--state", jobs["folder"][1])
    Path(state).unlink()
    flintlog_command("job", "move", str(script), "--state", state, "--from", jobs["folder"][1])
    run(jobs["file"], "apply", "--as-of", "2026-12-31", said="the time of the state")
    assert run(jobs["file"], "verify")["differences"] == []


def test_follow(job: tuple[Path, str], tmp_path: Path) -> None:
    """What ends while a job follows a folder ends there, in a batch of its own, and nothing else makes batches."""
    now = datetime.now(UTC).replace(tzinfo=None)
    rows = [f"{name},plan,{now + timedelta(seconds=seconds)}" for name, seconds in (("ann", 2), ("bob", 86400))]
    (tmp_path / "facts/granted.csv").write_text("\n".join(["subject,document,until", *rows]) + "\n")
    run(job, "init", "--input", str(tmp_path / "facts"))
    (tmp_path / "batches").mkdir()
    script, state = job
    line = [sys.executable, str(script), "follow", "--state", state, "--batches", str(tmp_path / "batches"), "--json"]
    time.sleep(max(0.0, 2.5 - (datetime.now(UTC).replace(tzinfo=None) - now).total_seconds()))
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout
        result = json.loads(process.stdout.readline())
        time.sleep(1.0)
        process.terminate()
        rest = process.stdout.read()
    assert result["changes"]["live"] == {"inserted": 0, "deleted": 1}
    assert rest == ""
    assert run(job, "status")["commit"] == 2


@pytest.mark.parametrize(
    "forged",
    [
        "UPDATE _rows_of_now SET time_ = 'soon'",
        "UPDATE _rows_of_now SET time_ = x'00'",
        "INSERT INTO _rows_of_now VALUES ('2026-01-01 00:00:00.000000')",
    ],
)
def test_a_forged_time(forged: str, tmp_path: Path) -> None:
    """A file whose time is none, or several, is damaged."""
    path = tmp_path / "view.db"
    flintlog.open(PROGRAM, path, as_of="2026-02-01").close()
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(forged)
    with flintlog.open(PROGRAM, path) as view, pytest.raises(flintlog.JobError, match="has no single time; restore"):
        view.apply()


def test_in_python(tmp_path: Path) -> None:
    """Views, sessions and evaluations take the time of each batch."""
    grants = [("ann", "plan", None), ("bob", "plan", datetime(2026, 3, 1))]
    assert len(flintlog.evaluate(PROGRAM, {"granted": grants}, as_of="2026-02-01")["live"]) == 2
    with flintlog.Session(PROGRAM, {"granted": grants}, as_of=date(2026, 2, 1)) as session:
        assert list(session.apply(as_of="2026-03-01")["live"].deleted) == [("bob", "plan")]
        assert "U > T does not hold" in session.explain('live("bob", "plan")')
        with pytest.raises(flintlog.JobError, match="does not go back"):
            session.apply(as_of="2026-02-01")
    path = tmp_path / "view.db"
    with flintlog.open(PROGRAM, path, as_of="2026-02-01") as view:
        view.apply(granted=[("+", *row) for row in grants], as_of="2026-02-02")
        assert len(view["live"]) == 2
        assert view.apply(as_of=datetime(2026, 3, 1, 1))["live"].deleted.to_list() == [("bob", "plan")]
        assert view.explain('live("bob", "plan")')["rules"][1]["why"].endswith("at 2026-03-01 01:00:00")
        assert view.verify() == []
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT * FROM now").fetchall() == [("2026-03-01 01:00:00.000000",)]


def test_tests_of_programs(tmp_path: Path) -> None:
    """Test files and ``flintlog run`` give the time."""
    (tmp_path / "grants.dl").write_text(PROGRAM)
    (tmp_path / "granted.csv").write_text(GRANTS)
    (tmp_path / "grants.test.toml").write_text(
        """
[[test]]
name = "grants end"
as_of = 2026-02-01
given.granted = "granted.csv"
expect.live = [["ann", "plan"], ["bob", "plan"], ["cem", "plan"]]
[[test.batch]]
as_of = "2026-03-01 12:00:00"
changes.live.delete = [["bob", "plan"]]
[[test.batch]]
as_of = 2026-02-01
refused = "does not go back"
"""
    )
    assert "1 test: 1 passed" in flintlog_command("test", str(tmp_path / "grants.test.toml"))
    (tmp_path / "facts").mkdir()
    (tmp_path / "facts/granted.csv").write_text(GRANTS)
    line = ("run", str(tmp_path / "grants.dl"), "--facts", str(tmp_path / "facts"), "--format", "json", "--as-of")
    assert len(json.loads(flintlog_command(*line, "2026-03-15"))["live"]) == 2
