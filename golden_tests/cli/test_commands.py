"""The commands of ``flintlog``: what they write where, and their exit codes."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from flintlog.compiler import CompileOptions, cli, compile_source
from flintlog.compiler.cli import files, options, printing
from flintlog.compiler.diagnostics import CompileError, render
from flintlog.compiler.ir.delta import DeltaProgram
from flintlog.compiler.pipeline import DUMPS, STAGES, compile_program
from flintlog.compiler.review import certify as certify_module
from flintlog.compiler.source import SourceFile
from flintlog.targets import TARGETS, module_name, target
from flintlog.targets.pyspark.emit import format_script
from flintlog.targets.signature import MARK, signed

from golden_tests import packed
from golden_tests.frontend.golden import compare
from golden_tests.frontend.test_errors import CASES, REPORTED
from golden_tests.nightly import by_day

HERE = Path(__file__).parent
EXPLAINED = HERE / "explain" / "reachable_on_one_way_links" / "program.dl"

REACH = """\
input relation link(@src: int, dst: int)
output relation reachable(@src: int, dst: int)
r1: reachable(@S, D) :- link(@S, D).
r2: reachable(@S, D) :- link(@S, Z), reachable(@Z, D).
"""
REFUSED = "input relation a(x: int)\noutput p.\np(X, Y) :- a(X).\np(X) :- a(X).\n"
WARNED = "input relation a(x: int)\ninput relation unused(x: int)\noutput p.\np(X) :- a(X).\n"


def flintlog(*arguments: str | Path) -> Result:
    """Run a command in this process; an exception of the compiler itself fails the test."""
    result = CliRunner().invoke(cli.main, [str(argument) for argument in arguments], catch_exceptions=False)
    assert isinstance(result, Result)
    return result


@pytest.fixture
def reach(tmp_path: Path) -> Path:
    """A program that is accepted."""
    return written(tmp_path / "reach.dl", REACH)


@pytest.fixture
def refused(tmp_path: Path) -> Path:
    """A program that is refused."""
    return written(tmp_path / "refused.dl", REFUSED)


@pytest.fixture
def warned(tmp_path: Path) -> Path:
    """A program that is accepted with a warning."""
    return written(tmp_path / "warned.dl", WARNED)


def written(path: Path, text: str) -> Path:
    """Write a file; its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def unformatted(path: Path) -> str:
    """The script of a program, not formatted."""
    (text,) = compile_source(path, CompileOptions(format=False)).files.values()
    return text


def diagnosed(path: Path) -> str:
    """The diagnostics of a program as ``render`` gives them."""
    try:
        compilation = compile_program(path)
        items, sources = compilation.warnings, compilation.sources
    except CompileError as error:
        items, sources = error.diagnostics, error.sources
    return "".join(f"{render(item, {source.name: source for source in sources})}\n\n" for item in items)


# ---- compile ---------------------------------------------------------------------------------------------------------


def test_compile_writes_a_script(reach: Path, tmp_path: Path) -> None:
    """Named after the program, in a folder that need not exist, and with nothing beside it."""
    result = flintlog("compile", reach, "--no-format", "-o", tmp_path / "new" / "jobs")
    script = tmp_path / "new" / "jobs" / "reach.py"
    assert (result.exit_code, result.stdout) == (0, "")
    assert re.fullmatch(rf"wrote {re.escape(str(script))} \(\d+ lines\)\n", result.stderr)
    assert script.read_text(encoding="utf-8") == unformatted(reach)
    assert list(script.parent.iterdir()) == [script]


def test_compile_leaves_an_unchanged_script_alone(reach: Path, tmp_path: Path) -> None:
    """Nothing is written unless it differs; a new script keeps the old one's permissions."""
    script = tmp_path / "reach.py"
    flintlog("compile", "--no-format", reach, "-o", tmp_path)
    script.chmod(0o750)
    before = script.stat()
    result = flintlog("compile", "--no-format", reach, "-o", tmp_path)
    assert "reach.py is up to date" in result.stderr
    assert (script.stat().st_mtime_ns, script.stat().st_ino) == (before.st_mtime_ns, before.st_ino)
    written(reach, REACH.replace("r2", "step"))
    result = flintlog("compile", "--no-format", reach, "-o", tmp_path)
    assert result.stderr.startswith("wrote ")
    assert script.stat().st_ino != before.st_ino
    assert script.stat().st_mode == before.st_mode
    assert "STEP_" in script.read_text(encoding="utf-8")


def test_a_script_is_never_half_written(reach: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the disk is full the old script is there, and nothing else."""
    script = written(tmp_path / "jobs.py", "old\n")

    def full(path: Path, content: bytes) -> int:
        with path.open("wb") as file:
            file.write(content[: len(content) // 2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space"):
        files.write_file(script, "new\n")
    assert script.read_text(encoding="utf-8") == "old\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["jobs.py", "reach.dl"]


def test_a_link_to_a_script_stays_a_link(tmp_path: Path) -> None:
    """What the link leads to is written."""
    script = written(tmp_path / "script.py", "old\n")
    link = tmp_path / "link.py"
    link.symlink_to(script)
    assert files.write_file(link, "new\n")
    assert link.is_symlink()
    assert script.read_text(encoding="utf-8") == "new\n"


def without_mark(script: str) -> str:
    """A script as it is before its hash is known."""
    return re.sub(r"This text is \w{16},", MARK.partition(",")[0] + ",", script)


def test_formatting_changes_nothing_else(reach: Path) -> None:
    """``--no-format`` gives what the templates print, which black hardly changes."""
    formatted = flintlog("compile", reach, "--stdout").stdout
    plain = flintlog("compile", reach, "--stdout", "--no-format").stdout
    assert signed(without_mark(formatted)) == formatted
    part, mark, runtime = without_mark(plain).partition("\n\n\n# ---- the runtime ")
    assert without_mark(formatted) == format_script(f"{part}\n").rstrip("\n") + mark + runtime


def test_stdout_prints_the_script(reach: Path) -> None:
    """The script and nothing else."""
    result = flintlog("compile", reach, "--stdout", "--no-format")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == unformatted(reach)


def test_compile_several(reach: Path, refused: Path, warned: Path, tmp_path: Path) -> None:
    """Programs that are accepted are compiled, whatever the others are; the diagnostics of all are shown."""
    result = flintlog("compile", "--no-format", refused, reach, warned, tmp_path / "none.dl", "-o", tmp_path / "jobs")
    assert result.exit_code == 2
    assert sorted(path.name for path in (tmp_path / "jobs").iterdir()) == ["reach.py", "warned.py"]
    assert diagnosed(refused) + f"{refused}: 2 errors, no warnings\n" in result.stderr
    assert diagnosed(warned) + f"{warned}: no errors, 1 warning\n" in result.stderr
    assert f"error: cannot read {tmp_path / 'none.dl'}: no such file or directory\n" in result.stderr
    assert result.stderr.endswith("\n2 errors, 1 warning in 2 of 4 programs\n")


def test_two_programs_cannot_become_one_script(reach: Path, tmp_path: Path) -> None:
    """The first one is written, the second one is an error."""
    (tmp_path / "other").mkdir()
    other = written(tmp_path / "other" / "reach.dl", WARNED)
    result = flintlog("compile", "--no-format", reach, other, "-o", tmp_path / "jobs")
    assert result.exit_code == 2
    assert f"error: {reach} and {other} both become {tmp_path / 'jobs' / 'reach.py'}\n" in result.stderr
    assert "reachable" in (tmp_path / "jobs" / "reach.py").read_text(encoding="utf-8")


def test_output_that_cannot_be_written(reach: Path, tmp_path: Path) -> None:
    """A file where the folder should be."""
    folder = written(tmp_path / "jobs", "a file\n")
    result = flintlog("compile", "--no-format", reach, "-o", folder)
    assert result.exit_code == 2
    assert f"error: cannot write {folder / 'reach.py'}: " in result.stderr
    assert folder.read_text(encoding="utf-8") == "a file\n"


@pytest.mark.parametrize("stage", DUMPS)
def test_dump(stage: str, reach: Path) -> None:
    """The text form of a stage or of the result of a pass, alone."""
    result = flintlog("compile", reach, "--dump", stage)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == compile_program(reach).dump(stage)


def test_dump_several(reach: Path, warned: Path, tmp_path: Path) -> None:
    """In the order of the stages, under headings; with ``-o`` the scripts are written too."""
    result = flintlog("compile", reach, warned, "--dump", "plan", "--dump", "syntax")
    headings = re.findall(r"^# ---- (\w+) of (.*?) -*$", result.stdout, re.MULTILINE)
    assert headings == [(stage, str(path)) for path in (reach, warned) for stage in ("syntax", "plan")]
    result = flintlog("compile", reach, "--dump", "mark_closures", "--dump", "typed", "--dump", "infer_types")
    headings = re.findall(r"^# ---- (\w+) of .*? -*$", result.stdout, re.MULTILINE)
    assert headings == ["infer_types", "typed", "mark_closures"]
    result = flintlog("compile", reach, "--dump", "all", "--no-format", "-o", tmp_path)
    assert re.findall(r"^# ---- (\w+) of ", result.stdout, re.MULTILINE) == [*STAGES, "script"]
    assert (tmp_path / "reach.py").read_text(encoding="utf-8") in result.stdout


def test_stages_are_those_of_the_pipeline() -> None:
    """The command line lists them without importing the pipeline."""
    assert (*STAGES, "script") == options.STAGES
    assert (*DUMPS, "script") == options.DUMPS


# ---- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("reach.dl", "reach"),
        ("jobs/reach.dl", "reach"),
        ("fraud-detection.v2.dl", "fraud_detection_v2"),
        ("2026.dl", "_2026"),
        ("class.dl", "class_"),
        ("json.dl", "json_"),
        ("pyspark.dl", "pyspark_"),
        ("confluent_kafka.dl", "confluent_kafka_"),
        ("s3fs.dl", "s3fs_"),
        ("run_local.dl", "run_local_"),
        ("Run_Local.dl", "Run_Local_"),
        ("größe.dl", "größe"),
        ("no suffix", "no_suffix"),
        (".dl", "_dl"),
    ],
)
def test_module_name(source: str, name: str) -> None:
    """Scripts can be imported, and hide no module that they need."""
    assert module_name(source) == name
    assert name.isidentifier()


# ---- check, explain, certify -----------------------------------------------------------------------------------------


def test_check(reach: Path, refused: Path, warned: Path) -> None:
    """Diagnostics only, counted in the last line."""
    result = flintlog("check", reach)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "no errors, no warnings\n")
    result = flintlog("check", warned)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == diagnosed(warned) + "no errors, 1 warning\n"
    result = flintlog("check", refused)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == diagnosed(refused) + "2 errors, no warnings\n"


S1 = "input relation host(h: int)\nS1.host(H) :- host(H).\nS1.bad(H) :- S3.bad(H).\n"
S2 = "input relation host(h: int)\nS2.host(H) :- host(H).\n"
S3 = "S3.bad(H) :- S1.host(H), S2.host(H).\n"


def test_check_of_processes(tmp_path: Path) -> None:
    """Files of processes that read of others are checked together, as they are compiled; errors count to their file."""
    one, two, three = (written(tmp_path / f"S{n}.dl", text) for n, text in enumerate((S1, S2, S3), 1))
    plain = written(tmp_path / "reach.dl", REACH)
    alone = written(tmp_path / "alone.dl", "process S1 {\n  input relation e(x: int)\n  S1.p(X) :- e(X).\n}\n")
    for command in (["check"], ["compile", "--target", "processes", "-o", tmp_path / "jobs"]):
        result = flintlog(*command, one, three)
        assert result.exit_code == 1
        assert "no process outputs `S2.host`, which `S3` reads" in result.stderr
        assert f"{three}: 1 error, no warnings" in result.stderr
        assert result.stderr.endswith("1 error, no warnings in 1 of 2 programs\n")
    for programs in ([one, two, three], [three, plain, one, two], [alone, plain]):
        result = flintlog("check", *programs)
        assert result.exit_code == 0
        assert result.stderr == f"no errors, no warnings in {len(programs)} programs\n"
    declared = written(tmp_path / "declared.dl", f"input relation S2.host(h: int)\n{S3}")
    assert flintlog("check", one, declared).exit_code == 1
    assert flintlog("check", one, declared, "--outside", "S2").exit_code == 0
    written(three, S3.replace("S2.host(H)", "S1.host(H, 1)"))
    result = flintlog("check", plain, one, three, "--diagnostics", "json")
    assert result.exit_code == 1
    assert [item["file"] for item in json.loads(result.stdout)["diagnostics"]] == [three.as_posix()]


def test_check_of_processes_in_several_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of the same name in different folders are told apart, also if one has no qualified name."""
    written(tmp_path / "a" / "p.dl", "process S1 {\n  input relation e(x: int)\n  p(X) :- e(X).\n}\n")
    written(tmp_path / "b" / "p.dl", 'include "lib/q.dl"\nprocess S2 {\n  S2.q(X) :- S1.p(X).\n}\n')
    written(tmp_path / "b" / "lib" / "q.dl", "typedef port = int\n")
    monkeypatch.chdir(tmp_path)
    result = flintlog("check", "a/p.dl", "b/p.dl")
    assert result.exit_code == 1
    assert result.stderr == (
        "error[E0736]: no process outputs `S1.p`, which `S2` reads\n  --> b/p.dl:3:14\n"
        "3 |   S2.q(X) :- S1.p(X).\n  |              ^^^^\n"
        "note: the process is here\n  --> a/p.dl:1:9\n1 | process S1 {\n  |         ^^\n"
        "help: `S1` outputs nothing\n\nb/p.dl: 1 error, no warnings\n\n1 error, no warnings in 1 of 2 programs\n"
    )
    monkeypatch.chdir("a")
    (item,) = json.loads(flintlog("check", "p.dl", "../b/p.dl", "--format", "json").stdout)["diagnostics"]
    assert (item["file"], item["notes"][0]["file"]) == ("../b/p.dl", "p.dl")
    written(tmp_path / "a" / "p.dl", "process S1 {\n  input relation e(x: int)\n  S1.p(X) :- e(X).\n}\n")
    assert flintlog("check", "p.dl", "../b/p.dl").exit_code == 0
    jobs = tmp_path / "jobs"
    assert flintlog("compile", "--target", "processes", "-o", jobs, "p.dl", "../b/p.dl").exit_code == 0
    assert "a/p.dl:3" in (jobs / "S1.py").read_text() and "b/p.dl:3" in (jobs / "S2.py").read_text()


def test_paths_are_shown_as_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Diagnostics show the path of the program, and of files that it includes, as the user gave it."""
    written(tmp_path / "rules" / "main.dl", 'include "../lib/wrong.dl"\np(X) :- e(X).\n')
    written(tmp_path / "lib" / "wrong.dl", "input relation e(x: int)\noutput relation p(x: int)\np(Y) :- e(X).\n")
    monkeypatch.chdir(tmp_path)
    wrong = flintlog("check", "rules/main.dl", "--include-path", "lib")
    assert "  --> lib/wrong.dl:3:3\n" in wrong.stderr
    absolute = tmp_path / "rules" / "main.dl"
    assert f"  --> {absolute}:1:9\n" in flintlog("check", absolute).stderr
    assert "  --> rules/main.dl:1:9\n" in flintlog("compile", "--stdout", "rules/main.dl").stderr


def test_check_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All programs below it but hidden ones; files that others include are checked as their parts only."""
    part = 'include "../parts/b.dl"\noutput p.\np(X) :- e(X).\n'
    written(tmp_path / "all" / "one" / "whole.dl", 'include "../parts/a.dl"\ninput relation e(x: int)\n')
    written(tmp_path / "all" / "parts" / "a.dl", part)
    written(tmp_path / "all" / "parts" / "b.dl", 'include "../parts/a.dl"\n')
    written(tmp_path / "all" / "round.dl", 'include "round_2.dl"\n' + REACH)
    written(tmp_path / "all" / "round_2.dl", 'include "round.dl"\n')
    written(tmp_path / "all" / ".hidden" / "junk.dl", "junk")
    (tmp_path / "all" / "folder.dl").mkdir()
    monkeypatch.chdir(tmp_path)
    result = flintlog("check", "all", "--include-path", "all")
    assert result.stderr == "note: all/folder.dl is not a file and is ignored\nno errors, no warnings in 2 programs\n"
    named = flintlog("check", "all", "all/parts/b.dl", "--include-path", "all")
    assert named.exit_code == 1
    assert "the relation `e` is neither declared nor derived\n  --> all/parts/a.dl:3:9\n" in named.stderr
    empty = flintlog("check", "all/folder.dl")
    assert (empty.exit_code, empty.stderr) == (
        0,
        "note: there are no programs (.dl files) below all/folder.dl\nno errors, no warnings in 0 programs\n",
    )


@pytest.mark.parametrize("name", ["include_with_error", "include_not_utf8", "include_missing", "tuples_live_apart"])
def test_check_says_what_the_golden_files_say(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Includes are found beside the program, and quoted."""
    (case,) = (case for _, case in CASES if case.name == name)
    monkeypatch.chdir(packed.written(case, ".dl", tmp_path).parent)
    result = flintlog("check", "program.dl")
    expected = case.parts[REPORTED]
    assert result.stderr.startswith(f"{expected}\n")
    assert result.exit_code == (1 if "error[" in expected else 0)


def test_explain(reach: Path, warned: Path, refused: Path) -> None:
    """The explanation on standard output; it holds the warnings, so these are not repeated."""
    result = flintlog("explain", EXPLAINED)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == EXPLAINED.with_name("expected.txt").read_text(encoding="utf-8")
    result = flintlog("explain", warned, refused, reach)
    assert result.exit_code == 1
    assert result.stdout.index("How warned.dl is evaluated") < result.stdout.index("How reach.dl is evaluated")
    assert "W0801, warned.dl:2: nothing uses" in result.stdout
    assert "W0801" not in result.stderr
    assert diagnosed(refused) in result.stderr


def test_certify(tmp_path: Path, update_golden: bool) -> None:
    """Every rule's certificate, and how many there are."""
    program = written(
        tmp_path / "hop.dl",
        REACH + "output hop.\nhop(@S, D) :- link(@S, Z), link(@Z, D), !link(@S, D).\nhop(@0, 0).\n",
    )
    result = flintlog("certify", program)
    assert (result.exit_code, result.stderr) == (0, "")
    compare(result.stdout.replace(str(tmp_path), "FOLDER"), HERE / "certificates.txt", update_golden)


def test_certificate_that_does_not_hold(reach: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names the rule, and exits with 1."""
    certify = certify_module.certify

    def broken(program: DeltaProgram) -> tuple[certify_module.Certificate, ...]:
        first, second = certify(program)
        return first, replace(second, monomials=(("Δlink Δreachable", (0, 1)), *second.monomials))

    monkeypatch.setattr(certify_module, "certify", broken)
    result = flintlog("certify", reach)
    assert result.exit_code == 1
    assert "NOT covered exactly once" in result.stdout
    assert result.stderr == f"error: {reach}: the certificate does not hold for r2\n"


@pytest.mark.parametrize("command", ["check", "explain", "certify", "compile"])
def test_refused_programs(command: str, refused: Path, tmp_path: Path) -> None:
    """Nothing on standard output, nothing written, exit code 1."""
    given = ["-o", str(tmp_path / "jobs")] if command == "compile" else []
    result = flintlog(command, refused, *given)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == diagnosed(refused) + "2 errors, no warnings\n"
    assert not (tmp_path / "jobs").exists()


# ---- files and command lines that are of no use ----------------------------------------------------------------------


@pytest.mark.parametrize("command", ["check", "explain", "certify"])
def test_files_that_cannot_be_read(command: str, tmp_path: Path) -> None:
    """A missing file and a folder are named, with the reason."""
    result = flintlog(command, tmp_path / "none.dl")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"error: cannot read {tmp_path / 'none.dl'}: no such file or directory\n"
    if command != "check":
        result = flintlog(command, tmp_path)
        assert result.exit_code == 2
        assert result.stderr == f"error: cannot read {tmp_path}: is a directory\n"


def test_files_that_are_not_text(tmp_path: Path) -> None:
    """A refused program, not an accident."""
    program = tmp_path / "latin.dl"
    program.write_bytes(REACH.encode() + "// Zürich\n".encode("latin-1"))
    result = flintlog("check", program)
    assert result.exit_code == 1
    assert "error[E0119]: `latin.dl` is not UTF-8 text" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("compile", "a.dl"), "give the folder for the scripts with -o DIR, or print one with --stdout"),
        (("compile", "a.dl", "b.dl", "--stdout"), "--stdout prints one script; write several with -o DIR"),
        (("compile", "a.dl", "--dump", "soup"), "'soup' is not one of 'syntax', 'expand_paths',"),
        (("compile", "a.dl", "-o", "jobs", "--target", "flink"), "'flink' is not"),
        (("compile", "a.dl", "-o", "jobs", "--outside", "S1"), "--outside requires --target processes"),
        (("compile", "a.dl", "--stdout", "--diagnostics", "json"), "json and --stdout both print to standard output"),
        (("compile", "a.dl", "--dump", "plan", "--diagnostics", "sarif"), "sarif and --dump both print to standard"),
        (("check", "a.dl", "--diagnostics", "xml"), "'xml' is not one of 'text', 'json', 'sarif'"),
        (("errors", "E0100"), "there is no code E0100; `flintlog errors` lists all codes"),
        (("compile",), "Missing argument 'PROG...'"),
        (("check",), "Missing argument '(PROG or DIR)...'"),
        (("compyle", "a.dl"), "No such command 'compyle'"),
        (
            ("compile", "a.dl", "-o", "b.py"),
            "-o takes a folder, but b.py looks like a script; print one with --stdout > b.py",
        ),
    ],
)
def test_wrong_command_lines(arguments: tuple[str, ...], complaint: str) -> None:
    """Exit code 2, and a word about what is wrong."""
    result = flintlog(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert complaint in result.stderr


def test_version_and_help() -> None:
    """``--version``, ``--help`` and ``-h``, also of commands."""
    assert flintlog("--version").stdout == f"flintlog, version {version('flintlog')}\n"
    for arguments in (("--help",), ("-h",), ("compile", "--help"), ("certify", "-h")):
        result = flintlog(*arguments)
        assert result.exit_code == 0
        assert result.stdout.startswith("Usage: ")


def test_long_lines_are_shown_in_part(tmp_path: Path) -> None:
    """Around the mistake, with carets below it."""
    rule = f"p(X) :- {'q(X), ' * 5000}r(Y), X < Z{', q(X)' * 5000}."
    lines = diagnosed(written(tmp_path / "long.dl", f"input relation q(x: int)\ninput relation r(x: int)\n{rule}\n"))
    (excerpt,) = re.findall(r"^3 \| (.*)\n  \| ( *)(\^+)$", lines, re.MULTILINE)
    text, lead, carets = excerpt
    assert text.startswith("...") and text.endswith("...") and len(text) == 246
    assert text[len(lead) : len(lead) + len(carets)] == "Z"


# ---- output that cannot be written ----------------------------------------------------------------------------------

#: Arguments of commands that print something about ``reach.dl``.
PRINTING = (
    ("run", "reach.dl", "--relation", "link"),
    ("compile", "reach.dl", "--stdout", "--no-format"),
    ("fmt", "--diff", "reach.dl"),
    ("--help",),
)


@by_day(1)
@pytest.mark.parametrize("arguments", PRINTING, ids=" ".join)
def test_a_full_device(arguments: tuple[str, ...], reach: Path) -> None:
    """A message instead of a traceback."""
    written(reach, REACH.replace(", ", ",  "))
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "flintlog", *arguments],
            cwd=reach.parent,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert (done.returncode, done.stderr) == (2, "error: cannot write the output: no space left on device\n")


@by_day(1)
@pytest.mark.parametrize("arguments", PRINTING, ids=" ".join)
def test_a_closed_pipe(arguments: tuple[str, ...], reach: Path) -> None:
    """``flintlog ... | head -1`` says nothing about the pipe."""
    written(reach, REACH.replace(", ", ",  "))
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "flintlog", *arguments],
        cwd=reach.parent,
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


# ---- colours ---------------------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        """It is."""
        return True


def test_colours_on_a_terminal_only(refused: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same text, in colour; nothing is wrapped or taken for markup."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    long = written(refused, REFUSED + f"[bold](X) :- a({', '.join('X' * 60)}).\n")
    plain = diagnosed(long)
    terminal = Terminal()
    for part in plain.split("\n\n")[:-1]:
        printing.print_coloured(f"{part}\n", printing.coloured, terminal)
    assert "\x1b[1;31merror[E" in terminal.getvalue()
    assert re.sub(r"\x1b\[[0-9;]*m", "", terminal.getvalue()) == plain
    monkeypatch.setenv("NO_COLOR", "1")
    terminal = Terminal()
    printing.print_coloured(plain, printing.coloured, terminal)
    assert "\x1b[3" not in terminal.getvalue()


def test_headings_are_bold_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """An explanation, its headings set off."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    text = EXPLAINED.with_name("expected.txt").read_text(encoding="utf-8")
    terminal = Terminal()
    printing.print_coloured(text, printing.headed, terminal)
    assert "\x1b[1mRelations" in terminal.getvalue()
    assert re.sub(r"\x1b\[[0-9;]*m", "", terminal.getvalue()) == f"{text}\n"


# ---- as a library ----------------------------------------------------------------------------------------------------


def test_compile_source_with_fixed_version() -> None:
    """A text, an includer, a version to name: the same bytes wherever this runs."""
    main = SourceFile("main.dl", 'include "lib.dl"\noutput p.\np(X) :- a(X).\n')
    included = {"lib.dl": SourceFile("lib.dl", "input relation a(x: int)\n")}
    compiled = compile_source(main, CompileOptions(format=False, compiler="9.9.9"), included.get)
    assert list(compiled.files) == ["main.py"]
    assert compiled.files["main.py"].startswith("# Generated by Flintlog 9.9.9 from main.dl.\n")
    assert [source.name for source in compiled.compilation.sources] == ["main.dl", "lib.dl"]
    assert compiled.warnings == ()


def test_compile_source_refuses() -> None:
    """With the sources that the diagnostics are about; no target is no program's fault."""
    with pytest.raises(CompileError, match="E0203") as refused:
        compile_source(SourceFile("main.dl", REFUSED))
    assert [source.name for source in refused.value.sources] == ["main.dl"]
    with pytest.raises(KeyError, match="flink"):
        compile_source(SourceFile("main.dl", REACH), CompileOptions(target="flink"))


@pytest.mark.parametrize("name", TARGETS)
def test_targets(name: str) -> None:
    """A target knows its name, and says what it prints."""
    assert target(name).name == name
    assert target(name).description


def test_importing_the_compiler_is_light() -> None:
    """Neither the package nor ``--help`` loads the parser, the formatter or a target's printer."""
    heavy = "{'lark', 'black', 'jinja2', 'sqlglot', 'rich', 'pyspark', 'duckdb'}"
    for statement in ("import flintlog.compiler", "import flintlog.compiler.cli"):
        script = f"import sys; {statement}; print(sorted({heavy} & set(sys.modules)))"
        said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
        assert said == "[]\n", statement


def test_module_and_command_are_the_same() -> None:
    """``python -m flintlog``, and ``flintlog`` where it is installed; ``-V`` is short for ``--version``."""
    command = [sys.executable, "-m", "flintlog", "--version"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said == f"flintlog, version {version('flintlog')}\n"
    installed = shutil.which("flintlog", path=str(Path(sys.executable).parent))
    if installed is not None:
        assert subprocess.run([installed, "--version"], capture_output=True, text=True, check=True).stdout == said
    assert flintlog("-V").stdout == said


WITHOUT = """
import sys
for name in ("duckdb", "numpy", "pandas", "polars", "pyarrow", "pyspark"):
    sys.modules[name] = None
from flintlog.compiler.cli import main
main(sys.argv[1:], prog_name="flintlog")
"""


@by_day(3)
@pytest.mark.parametrize(
    "command",
    [
        ["check", "reach.dl"],
        ["compile", "reach.dl", "-o", "jobs"],
        ["diff", "reach.dl", "other.dl"],
        ["explain", "reach.dl"],
        ["certify", "reach.dl"],
        ["report", "reach.dl"],
        ["fmt", "--check", "reach.dl"],
        ["errors", "E0203"],
    ],
    ids=lambda command: command[0],
)
def test_commands_of_a_build_need_no_other_package(command: list[str], tmp_path: Path) -> None:
    """What compiles and reviews programs works where neither DuckDB nor PyArrow nor PySpark is installed."""
    text = "input relation e(x: int)\noutput relation p(x: int)\n\np(X) :- e(X).\n"
    (tmp_path / "reach.dl").write_text(text, encoding="utf-8")
    (tmp_path / "other.dl").write_text(text + "p(X) :- e(X), X > 1.\n", encoding="utf-8")
    done = subprocess.run([sys.executable, "-c", WITHOUT, *command], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
