"""``flintlog job``: commands that a script does not contain, with the program that the script has."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import flintlog
import pytest
from click.testing import CliRunner
from flintlog.compiler.cli import main
from flintlog.targets.pyspark import load
from flintlog.targets.signature import signed

from golden_tests.harness import load_script, run_job
from golden_tests.nightly import by_day

PROGRAM = """\
include "shared.dl"
// Where one gets.
input relation link(src: int, dst: int)
output relation reach(src: int, dst: int)
start: reach(X, Y) :- link(X, Y).
again: reach(X, Y) :- link(X, Z), reach(Z, Y), !closed(Z).
output relation most(src: int, n: int)
most(X, count<Y>) :- reach(X, Y).
"""
SHARED = 'input relation closed(node: int)\noutput relation named(name: string)\nnamed("\u200b\\\\").\n'


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A script with nothing but the basic commands, with a state beside it."""
    made = compiled(tmp_path)
    rows = tmp_path / "link.csv"
    rows.write_text("src,dst\n1,2\n2,3\n", encoding="utf-8")
    assert run_job("init", made, "--state", tmp_path / "state", "--input", f"link={rows}").exit_code == 0
    return made


def compiled(folder: Path, *options: str) -> Path:
    """The script of the program, in a folder of its own."""
    (folder / "reach.dl").write_text(PROGRAM, encoding="utf-8")
    (folder / "shared.dl").write_text(SHARED, encoding="utf-8")
    jobs = folder / f"jobs{''.join(options)}"
    given = ["compile", str(folder / "reach.dl"), "-o", str(jobs), "--no-format", *options]
    result = CliRunner().invoke(main, given, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return jobs / "reach.py"


def told(script: Path, command: str, *given: str, code: int = 0) -> Any:
    """What a command says of the state beside a script, as JSON."""
    state = script.parents[1] / "state"
    result = run_job(command, script, "--state", state, "--json", "--quiet", *given)
    assert result.exit_code == code, result.output
    return json.loads(result.stdout.splitlines()[-1])


@by_day(1)
@pytest.mark.parametrize("options", [[], ["--with=explain"], ["--runtime=beside"], ["--runtime=installed"]])
def test_explanations(options: list[str], script: Path) -> None:
    """They are the same whether the script has what explains tuples, or the sources of the program."""
    other = compiled(script.parents[1], *options)
    explained = "--with=explain" in options
    assert ("\nSOURCES = {\n" in other.read_text("utf-8")) is not explained
    assert ("_ASKED = " in other.read_text("utf-8")) is explained
    found = told(other, "explain", "reach(1, 3)")
    assert [node["tuple"] for node in found["tuples"]] == ["reach(1, 3)", "link(1, 2)", "reach(2, 3)", "link(2, 3)"]
    assert found["tuples"][0] | {"id": 0, "because": []} == {
        "id": 0,
        "tuple": "reach(1, 3)",
        "relation": "reach",
        "values": [1, 3],
        "rank": 2,
        "support": 1,
        "rule": "again",
        "source": "reach.dl:6",
        "text": "again: reach(X, Y) :- link(X, Z), reach(Z, Y), !closed(Z).",
        "absent": ["closed(2)"],
        "because": [],
    }
    assert told(other, "explain", "most(1, 2)")["tuples"][0]["derivations"] == 2
    assert not told(other, "explain", "reach(3, 1)")["present"]


def test_jobs_with_a_database(script: Path) -> None:
    """They have commands of their own; a program that only speaks of one is a job as others."""
    other = compiled(script.parents[1], "--target=database")
    refused = run_job("compact", other, "--state", "state.db")
    assert refused.exit_code == 2
    assert "invalid choice: 'compact' (choose from 'init', 'apply'," in refused.output
    source = script.parents[1] / "reach.dl"
    source.write_text(f"{PROGRAM}// def program() -> RowProgram:\n", encoding="utf-8")
    jobs = script.parents[1] / "commented"
    assert CliRunner().invoke(main, ["compile", str(source), "-o", str(jobs)]).exit_code == 0
    assert told(jobs / "reach.py", "explain", "reach(1, 3)")["present"]


def test_other_commands(script: Path) -> None:
    """They run as those of a script with all parts."""
    assert told(script, "rebuild", "--buckets", "2")["commit"] == 2
    assert told(script, "compact")["applied"] is False
    assert [commit["command"] for commit in told(script, "history")["commits"]] == ["rebuild", "init"]
    assert told(script, "rollback", "--to", "1")["commit"] == 3
    assert "commit 9 is not kept" in told(script, "rollback", "--to", "9", code=1)["error"]
    assert told(script, "verify")["differences"] == []
    assert "usage: flintlog job rebuild " in run_job("rebuild", script, "--help").output
    assert run_job("rebuild", script, "--nonsense").exit_code == 2
    assert "invalid choice: 'nonsense'" in run_job("nonsense", script).output
    assert "SCRIPT" in CliRunner().invoke(main, ["job", "--help"]).output


def test_the_script_says_what_to_run(script: Path) -> None:
    """The line for a command that it lacks is the one that was typed, and works."""
    state = str(script.parents[1] / "state")
    given = [sys.executable, str(script), "explain", "--state", state, "reach(1, 3)"]
    done = subprocess.run(given, capture_output=True, text=True)
    assert done.returncode == 2
    line = f"run `flintlog job explain {script} --state {state} 'reach(1, 3)'` where the package flintlog is installed"
    assert f"the command explain is not in this script: {line}" in done.stderr
    assert "or compile the program with `flintlog compile --with explain`" in done.stderr
    assert "reach(1, 3)  by again:" in run_job("explain", script, "--state", state, "reach(1, 3)").output


def test_scripts_that_are_refused(script: Path) -> None:
    """Nothing runs of a script that was edited, made by another release, or by something else."""
    text = script.read_text("utf-8")
    for wrong, why in (
        (text.replace("link.dst", "link.src", 1), "it was edited after it was compiled"),
        (text.replace(f"Flintlog {version('flintlog')}", "Flintlog 0.0.1"), "it was compiled by flintlog 0.0.1, but"),
        ("raise SystemExit(5)\n", "this is not a script that Flintlog has compiled"),
    ):
        script.write_text(wrong, "utf-8")
        result = run_job("status", script, "--state", "state")
        assert result.exit_code == 2
        assert why in result.output
    assert run_job("status", script.with_name("missing.py")).exit_code == 2
    processes = script.with_name("processes.dl")
    processes.write_text("process A {\n  input relation a(x: int)\n  output A.p.\n  A.p(X) :- a(X).\n}\n", "utf-8")
    given = ["compile", str(processes), "-o", str(script.parent), "--no-format", "--target", "processes"]
    assert CliRunner().invoke(main, given, catch_exceptions=False).exit_code == 0
    assert "this is not the script of a program" in run_job("status", script.with_name("run_local.py")).output


@pytest.mark.parametrize("option", ["--state", "--help"])
def test_options_before_the_script(option: str, script: Path) -> None:
    """The message has the right order."""
    result = run_job("explain", Path(option), "state", str(script))
    assert result.exit_code == 2
    assert f"give the script behind the command: flintlog job explain SCRIPT {option} ..." in result.output


def test_a_script_that_another_program_runs(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """That program is not the script whose command it is."""
    module = load_script(script.read_text("utf-8"))
    with pytest.raises(SystemExit, match="2"):
        module.main(["explain", "--state", "state", "reach(1, 3)"])
    assert "run `flintlog job explain SCRIPT --state state 'reach(1, 3)'`" in capsys.readouterr().err


def test_what_only_programs_with_derivations_have(capsys: pytest.CaptureFixture[str]) -> None:
    """A script without the part does not send others to it, and theirs says that it lacks it."""
    text = "input relation e(x: int, y: int)\noutput p.\np(X, Y) :- e(X, Y).\np(X, Y) :- e(X, Z), p(Z, Y).\n"
    for recursion, command, said in (
        ("ranks", ["depends", "--state", "state", "e(1, 2)"], "invalid choice: 'depends'"),
        ("derivation-sets", ["depends", "--state", "state", "e(1, 2)"], "run `flintlog job depends"),
        (
            "derivation-sets",
            ["show", "p", "--state", "state", "--entries"],
            "printing derivations (--entries) is not in",
        ),
    ):
        (made,) = flintlog.compile(text, recursion=recursion, format=False).files.values()
        try:
            load_script(made).main(command)
        except SystemExit as end:
            assert end.code == 2
        assert said in capsys.readouterr().err


def test_sources_that_do_not_fit(script: Path) -> None:
    """An explanation by other rules than those of the script would be wrong."""
    text = script.read_text("utf-8")
    head, rest = text.split("\nSOURCES = {\n")
    for wrong in (rest.replace("!closed(Z)", "!closed(X)", 1), rest.replace("reach(X, Y)", "reach(X Y)", 1)):
        zeros = "This text is 0000000000000000, unless"
        start, _, behind = f"{head}\nSOURCES = {{\n{wrong}".partition("This text is ")
        script.write_text(signed(start + zeros + behind.partition(", unless")[2]), "utf-8")
        result = run_job("explain", script, "--state", "state", "reach(1, 3)")
        assert (result.exit_code, "its sources do not compile to its program" in result.output) == (2, True)
        # What does not depend on them still works.
        assert told(script, "history")["commits"]


def test_sources_with_the_mark_of_the_formatter() -> None:
    """What is left out while black formats the rest is found again."""
    comment = "/*\nSETTLED = 99999\nSETTLED = 0\n*/\n"
    (made,) = flintlog.compile(comment + PROGRAM.partition("\n")[2].replace(", !closed(Z)", "")).files.values()
    assert load_script(made).SOURCES["program.dl"].startswith(f"\n{comment}")


@pytest.mark.parametrize("recursion", ["ranks", "derivation-sets"])
@pytest.mark.parametrize("dialect", ["", "souffle"])
def test_programs_are_made_again(recursion: str, dialect: str) -> None:
    """The method of recursions and the language follow from the script."""
    text = PROGRAM.partition("\n")[2].replace(", !closed(Z)", "")
    if dialect:
        text = ".decl e(x: number, y: number)\n.input e\n.decl p(x: number, y: number)\n.output p\n"
        text += "p(x, y) :- e(x, y).\np(x, y) :- e(x, z), p(z, y).\n"
    (made,) = flintlog.compile(text, recursion=recursion, dialect=dialect, format=False).files.values()
    module = load_script(made)
    found = load.explained_program(own_program(module.PROGRAM), module.SOURCES)
    rules = [rule for stage in found.stages for stratum in stage.strata for rule in stratum.rules]
    assert any(rule.asked for rule in rules)


def own_program(program: Any) -> Any:
    """A program of a script, made of the classes of the installed runtime."""
    return eval(repr(program), dict(vars(__import__("flintlog.runtime.script", fromlist=["script"]))))
