"""``flintlog build``: what it writes, finds and removes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from flintlog.targets.signature import is_edited, is_generated

from golden_tests.cli.test_commands import REACH, REFUSED, flintlog, written
from golden_tests.nightly import AT_NIGHT

NETWORK = """
process A {
  input relation e(x: int)
  A.p(X) :- e(X).
}
process B {
  input relation S.r(x: int)
  B.q(X) :- A.p(X), S.r(X).
}
"""
TABLE = """
[project]
name = "other"

[tool.flintlog]
format = false
programs = [
    "rules/*.dl",
    { path = "network.dl", target = "processes", output = "jobs/network", outside = ["S"] },
]
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a table, two programs of which one includes a file, and one with processes."""
    written(tmp_path / "pyproject.toml", TABLE)
    written(tmp_path / "rules" / "reach.dl", REACH)
    written(tmp_path / "rules" / "more.dl", 'include "parts/types.dl"\n' + REACH)
    written(tmp_path / "rules" / "parts" / "types.dl", "typedef node = int\n")
    written(tmp_path / "network.dl", NETWORK)
    monkeypatch.chdir(tmp_path)
    return tmp_path


FILES = [
    "jobs/more.py",
    "jobs/network/A.py",
    "jobs/network/B.py",
    "jobs/network/run_local.py",
    "jobs/network/topology.json",
    "jobs/network/topology.mmd",
    "jobs/reach.py",
]


def made(project: Path) -> list[str]:
    """The files of the build."""
    return sorted(str(path.relative_to(project)) for path in (project / "jobs").rglob("*") if path.is_file())


def test_only_what_changed_is_written(project: Path) -> None:
    """By content, not by time: also after a program was touched."""
    first = flintlog("build")
    assert first.exit_code == 0
    assert made(project) == FILES
    assert first.stderr.endswith("7 files, 7 written\n")
    times = {name: (project / name).stat().st_mtime_ns for name in FILES}
    os.utime(project / "rules" / "reach.dl")
    assert flintlog("build").stderr == "7 files, 0 written\n"
    written(project / "rules" / "reach.dl", REACH + "output relation more(x: int)\nmore(X) :- link(X, _).\n")
    assert flintlog("build").stderr.splitlines()[-1] == "7 files, 1 written"
    assert [name for name in FILES if (project / name).stat().st_mtime_ns != times[name]] == ["jobs/reach.py"]


def test_from_below(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table is found above, and paths in it are relative to it."""
    monkeypatch.chdir(project / "rules")
    assert flintlog("build").exit_code == 0
    assert made(project) == FILES
    written(project / "flintlog.toml", 'programs = ["rules/reach.dl"]\noutput = "only"\nformat = false\n')
    assert flintlog("build").exit_code == 0
    assert [path.name for path in (project / "only").iterdir()] == ["reach.py"]


def test_check(project: Path) -> None:
    """Says what is missing, stale, edited and not made any more, and writes nothing."""
    missing = flintlog("build", "--check")
    assert missing.exit_code == 1
    assert missing.stderr.count(" is missing\n") == 7
    assert not (project / "jobs").exists()
    flintlog("build")
    assert flintlog("build", "--check").exit_code == 0
    written(project / "network.dl", NETWORK.replace("e(x: int)", "e(y: int)"))
    script = project / "jobs" / "reach.py"
    edited = script.read_text(encoding="utf-8").replace("import argparse", "import argparse, antigravity", 1)
    script.write_text(edited, encoding="utf-8")
    shutil.copy(project / "jobs" / "more.py", project / "jobs" / "old.py")
    written(project / "jobs" / "mine.py", "# Not generated\n")
    found = flintlog("build", "--check")
    assert found.exit_code == 1
    assert "error: jobs/reach.py was edited by hand or not made by a build" in found.stderr
    assert "error: jobs/network/A.py is stale" in found.stderr
    assert "error: jobs/old.py is no longer made; remove it with --prune" in found.stderr
    assert "mine.py" not in found.stderr
    assert "more.py" not in found.stderr
    assert "-import argparse, antigravity\n+import argparse\n" in found.stdout
    assert script.read_text(encoding="utf-8") == edited
    document = json.loads(flintlog("build", "--check", "--diagnostics", "json").stdout)
    assert "jobs/old.py is no longer made; remove it with --prune" in document["failures"]


def test_edits_are_not_lost(project: Path) -> None:
    """A file that was edited stays as it is, until it is said that it may go; so does one that was never generated."""
    flintlog("build")
    for name, text in (("jobs/reach.py", "\n# mine\n"), ("jobs/more.py", None)):
        path = project / name
        path.write_text(path.read_text(encoding="utf-8") + text if text else "# mine\n", encoding="utf-8")
    refused = flintlog("build")
    assert refused.exit_code == 1
    assert refused.stderr.count("edited by hand") == 2
    assert (project / "jobs" / "more.py").read_text(encoding="utf-8") == "# mine\n"
    assert flintlog("build", "--force").exit_code == 0
    assert flintlog("build", "--check").exit_code == 0


def test_line_ends_are_no_edit(project: Path) -> None:
    """Version control may change them."""
    flintlog("build")
    for name in FILES:
        text = (project / name).read_text(encoding="utf-8")
        assert is_generated(text)
        assert not is_edited(text)
        assert not is_edited(text.replace("\n", "\r\n"))
        assert is_edited(text[:-2] + "?" + text[-1:])
        assert is_edited(text + " ")


def test_prune(project: Path) -> None:
    """Removes what the build does not make, and nothing that was not generated or while a program is refused."""
    flintlog("build")
    written(project / "jobs" / "mine.py", "# Not generated\n")
    (project / "rules" / "more.dl").unlink()
    kept = flintlog("build")
    assert kept.exit_code == 0
    assert "jobs/more.py is no longer made; remove it with --prune" in kept.stderr
    text = written(project / "rules" / "reach.dl", REFUSED)
    assert flintlog("build", "--prune").exit_code == 1
    assert {"more.py", "reach.py"} <= {path.name for path in (project / "jobs").iterdir()}
    written(text, REACH)
    assert "removed jobs/more.py" in flintlog("build", "--prune").stderr
    assert made(project) == sorted({*FILES, "jobs/mine.py"} - {"jobs/more.py"})


def test_prune_while_a_program_is_refused_and_something_else_fails(project: Path) -> None:
    """The job of the refused program stays, whatever the exit code says, and ``--check`` does not call it left over."""
    flintlog("build")
    written(project / "rules" / "reach.dl", REFUSED)
    written(project / "more.dl", REACH)
    table = (project / "pyproject.toml").read_text(encoding="utf-8")
    written(project / "pyproject.toml", table.replace("programs = [", 'programs = [ "more.dl", ', 1))
    found = flintlog("build", "--prune")
    assert found.exit_code == 2 and "both become jobs/more.py" in found.stderr
    assert (project / "jobs" / "reach.py").exists()
    assert "reach.py is no longer made" not in flintlog("build", "--check").stderr


def test_a_folder_where_a_script_is_to_be(project: Path) -> None:
    """It is named, and the others are built."""
    (project / "jobs" / "reach.py").mkdir(parents=True)
    for options in ((), ("--check",)):
        found = flintlog("build", *options)
        assert found.exit_code == 2 and "error: cannot read jobs/reach.py: is a directory" in found.stderr
    assert (project / "jobs" / "more.py").is_file()


def test_refused(project: Path) -> None:
    """A program that is refused is reported, and the others are built."""
    written(project / "rules" / "reach.dl", REFUSED)
    found = flintlog("build")
    assert found.exit_code == 1
    assert "reach.dl:3" in found.stderr
    assert made(project) == [name for name in FILES if name != "jobs/reach.py"]
    document = json.loads(flintlog("build", "--diagnostics", "sarif").stdout)
    assert document["runs"][0]["results"]


def test_depfile(project: Path) -> None:
    """Make builds again when a program, an included file or the table changes, and also when one is gone."""
    written(
        project / "Makefile",
        f"jobs/reach.py:\n\t{sys.executable} -m flintlog build -MD\n-include flintlog.d\n",
    )

    def make(target: str) -> str:
        return subprocess.run(["make", target], cwd=project, capture_output=True, text=True, check=True).stdout

    make("jobs/reach.py")
    written(
        project / "Makefile", (project / "Makefile").read_text(encoding="utf-8").replace("\t", "\ttouch jobs/*.py; ")
    )
    assert "jobs/more.py: rules/more.dl rules/parts/types.dl pyproject.toml\n" in (project / "flintlog.d").read_text()
    assert "is up to date" in make("jobs/reach.py")
    os.utime(project / "rules" / "reach.dl", (time.time() + 5, time.time() + 5))
    assert "build -MD" in make("jobs/reach.py")
    (project / "rules" / "more.dl").unlink()
    assert flintlog("build", "-MD", "-MF", "deps/all.d").exit_code == 0
    assert "more" not in (project / "deps" / "all.d").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("", "programs must list the programs"),
        ("programs = []", "programs must list the programs"),
        ("programs = [1]", "programs[0] must be a path or a table"),
        ('programs = ["none/*.dl"]', "programs[0]: there is no file 'none/*.dl'"),
        ('programs = ["network.dl"]\ntargt = "x"', "targt is not an option; did you mean `target`?"),
        (
            'programs = [{path = "network.dl", target = "flink"}]',
            "programs[0].target must be one of pyspark, database, processes",
        ),
        ('programs = [{path = "network.dl", outside = ["S"]}]', 'programs[0].outside requires target = "processes"'),
        (
            'programs = ["network.dl"]\nwith = ["tables"]',
            "programs[0].with must be a list of parts: 'tables' is not one of",
        ),
        ('programs = ["network.dl"]\nwith = [["delta"]]', "programs[0].with must be a list of parts: ['delta'] is not"),
        ('programs = ["network.dl"]\nformat = "yes"', "programs[0].format must be true or false, not 'yes'"),
        ('programs = ["network.dl"', "flintlog.toml: "),
    ],
)
def test_tables_that_are_wrong(project: Path, table: str, message: str) -> None:
    """One sentence, with file and key."""
    written(project / "flintlog.toml", table)
    found = flintlog("build")
    assert found.exit_code == 2
    assert found.stderr.startswith("error: flintlog.toml: ")
    assert message in found.stderr
    assert found.stderr.count("\n") == 1


def test_no_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Says what was looked for."""
    monkeypatch.chdir(tmp_path)
    found = flintlog("build")
    assert found.exit_code == 2
    assert "has a flintlog.toml, or a pyproject.toml with [tool.flintlog]" in found.stderr


def test_one_file_of_two_programs(project: Path) -> None:
    """Neither overwrites the other."""
    written(project / "other" / "reach.dl", REACH)
    written(project / "flintlog.toml", 'programs = ["rules/reach.dl", "other/reach.dl"]\nformat = false\n')
    found = flintlog("build")
    assert found.exit_code == 2
    assert "rules/reach.dl and other/reach.dl both become jobs/reach.py" in found.stderr
    written(project / "flintlog.toml", 'programs = ["rules/reach.dl", "rules/*.dl"]\nformat = false\n')
    found = flintlog("build")
    assert found.exit_code == 2
    assert "rules/reach.dl and rules/reach.dl both become jobs/reach.py" in found.stderr


@AT_NIGHT
def test_watch(project: Path) -> None:
    """Builds again when a program changes, a new one comes or one is refused, until it is ended."""
    with (project / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "flintlog", "build", "--watch"],
            cwd=project,
            stdout=log,
            stderr=log,
            # What a shell starts in the background does not hear of Ctrl-C, nor does what that starts.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def said(text: str, times: int = 1) -> None:
        end = time.monotonic() + 60
        while (project / "log").read_text(encoding="utf-8").count(text) < times:
            assert time.monotonic() < end, (project / "log").read_text(encoding="utf-8")
            time.sleep(0.05)
        time.sleep(0.3)

    try:
        said("watching")
        written(project / "rules" / "reach.dl", REFUSED)
        said("reach.dl:3")
        said("watching", 2)
        written(project / "rules" / "reach.dl", REACH + "// again\n")
        said("wrote jobs/reach.py", 2)
        said("watching", 3)
        written(project / "rules" / "new.dl", REACH)
        said("wrote jobs/new.py")
        said("watching", 4)
    finally:
        process.send_signal(signal.SIGINT)
    assert process.wait(20) == 0
