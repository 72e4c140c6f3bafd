"""Included files: where they may lie, what they may be, and programs that are nested or named as no program is."""

from __future__ import annotations

import errno
import os
import re
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from flintlog.compiler import cli, pipeline
from flintlog.compiler.frontend import reader

from golden_tests.cli.test_commands import written
from golden_tests.nightly import AT_NIGHT, by_day

SECRET = "root:x:0:0:secret\n"
USER = "output relation q(x: int)\nq(X) :- p(X).\n"


def flintlog(*arguments: str | Path) -> Result:
    """What a command says."""
    return CliRunner().invoke(cli.main, [str(argument) for argument in arguments], catch_exceptions=False)


def outside(folder: Path) -> Path:
    """A program that includes a file beside its folder, which declares what the program reads."""
    written(folder / "shared" / "p.dl", "input relation p(x: int)\n")
    return written(folder / "rules" / "q.dl", f'include "../shared/p.dl"\n{USER}')


def test_outside_of_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies elsewhere is refused without a word of what it holds, also behind links and where there is nothing."""
    written(tmp_path / "secret", SECRET)
    program = written(tmp_path / "rules" / "q.dl", 'include "../secret"\ninclude "a/link"\ninclude "../nothing"\n')
    (tmp_path / "rules" / "a").mkdir()
    (tmp_path / "rules" / "a" / "link").symlink_to(tmp_path / "secret")
    monkeypatch.chdir(tmp_path)
    done = flintlog("check", program.relative_to(tmp_path))
    assert done.exit_code == 1
    assert done.stderr.count("error[E0124]") == 3 == done.stderr.count("error[")
    assert "secret\n" not in done.stderr.replace('include "../secret"\n', "") and "root" not in done.stderr


def test_links_inside_of_the_folder(tmp_path: Path) -> None:
    """Paths may go up and down again, and the folder of the program may itself be a link."""
    (tmp_path / "real" / "x").mkdir(parents=True)
    written(tmp_path / "real" / "p.dl", "input relation p(x: int)\n")
    written(tmp_path / "real" / "q.dl", f'include "x/../p.dl"\n{USER}')
    (tmp_path / "there").symlink_to(tmp_path / "real")
    assert flintlog("check", tmp_path / "there" / "q.dl").exit_code == 0


COMMANDS = {
    "check": [],
    "compile": ["--stdout", "--no-format"],
    "explain": [],
    "certify": [],
    "topology": [],
    "report": ["-o", "page.html"],
    "run": [],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_include_path(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each command that compiles takes folders in which included files may lie."""
    monkeypatch.chdir(tmp_path)
    program = outside(tmp_path)
    refused = flintlog(command, program, *COMMANDS[command])
    assert (refused.exit_code, "error[E0124]" in refused.stderr) == (1, True)
    taken = flintlog(command, program, *COMMANDS[command], "--include-path", tmp_path / "shared")
    # The program has no processes, which topology says.
    assert "E0124" not in taken.stderr and (taken.exit_code == 0 or command == "topology")


def test_include_path_of_diff_replay_and_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same of commands that take more than a program."""
    monkeypatch.chdir(tmp_path)
    program, shared = outside(tmp_path), ("--include-path", tmp_path / "shared")
    commands = written(tmp_path / "changes.dat", "start;\ncommit;\n")
    table = 'programs = ["rules/*.dl"]\nformat = false\n'
    config = written(tmp_path / "flintlog.toml", table)
    for arguments in (("diff", program, program), ("replay", program, commands)):
        assert "error[E0124]" in flintlog(*arguments).stderr
        assert flintlog(*arguments, *shared).exit_code == 0
    assert "error[E0124]" in flintlog("build").stderr
    written(config, f'{table}include-path = ["shared"]\n')
    assert flintlog("build").exit_code == 0
    written(config, f'{table}include-path = ["missing"]\n')
    assert "include-path must be a list of folders" in flintlog("build").stderr


def test_a_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What git has at a revision is bounded alike."""
    monkeypatch.chdir(tmp_path)
    program = outside(tmp_path)
    git = ["git", "-c", "user.name=n", "-c", "user.email=e"]
    for arguments in (["init", "-q", "."], ["add", "."], ["commit", "-q", "-m", "m"]):
        subprocess.run([*git, *arguments], check=True)
    assert "error[E0124]" in flintlog("diff", program).stderr
    assert flintlog("diff", program, "--include-path", "shared").exit_code == 0


def test_what_is_no_regular_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe is not waited for, a folder not read, and a large file is refused for its size."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    written(tmp_path / "large.dl", "// some comment\n")
    monkeypatch.setattr(reader, "MOST_BYTES", 10)
    program = written(tmp_path / "q.dl", 'include "pipe"\ninclude "folder"\ninclude "large.dl"\n')
    said = flintlog("check", program).stderr
    assert said.count("error[E0125]") == 3
    assert "`pipe` is not a regular file" in said and "`folder` is not a regular file" in said
    assert "`large.dl` has 16 bytes" in said and "an included file has at most 10" in said


def test_what_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason is that of the system, at the include; other errors of the program are reported too."""
    program = written(tmp_path / "q.dl", f'include "secret.dl"\ninclude "{"a" * 300}"\nq(X) :- r(Y).\n')
    written(tmp_path / "secret.dl", SECRET)

    def read_text(path: Path, **options: str) -> str:
        assert path.name == "secret.dl"
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(Path, "read_text", read_text)
    done = flintlog("check", program)
    assert done.exit_code == 1
    assert "error[E0127]: `secret.dl` cannot be read: permission denied\n" in done.stderr
    assert "help: include a file that you may read\n" in done.stderr
    assert re.search(r"`a{50,}[^`\n]*` cannot be read: file name too long\n", done.stderr)
    assert "error[E0401]" in done.stderr


def test_names_that_are_not_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a program, of what an include says, and of facts and folders."""
    monkeypatch.chdir(tmp_path)
    bad = os.fsdecode(b"bad\xff")
    written(tmp_path / f"{bad}.dl", USER)
    done = flintlog("check", f"{bad}.dl")
    assert (done.exit_code, done.stderr) == (2, "error: cannot read bad\\udcff.dl: its name is not UTF-8\n")
    program = written(tmp_path / "q.dl", f'include "a\\u0000b"\ninput relation p(x: int)\n{USER}')
    assert "error[E0118]" in flintlog("check", program).stderr
    written(program, f"input relation p(x: int)\n{USER}")
    written(tmp_path / "facts" / f"{bad}.csv", "x\n1\n")
    written(tmp_path / "facts" / "p.csv", "x\n1\n")
    done = flintlog("run", program, "--facts", "facts", "--out", bad)
    assert done.exit_code != 0
    assert "facts/bad\\udcff.csv: there is no input relation bad\\udcff" in done.stderr
    (tmp_path / "facts" / f"{bad}.csv").unlink()
    assert flintlog("run", program, "--facts", "facts", "--out", bad).exit_code == 0
    assert (tmp_path / bad / "q.csv").read_text() == "x\n1\n"


@AT_NIGHT
def test_a_long_chain(tmp_path: Path) -> None:
    """Files include each other as often as they like."""
    for number in range(2000):
        written(tmp_path / f"i{number}.dl", f'include "i{number + 1}.dl"\n')
    written(tmp_path / "i2000.dl", "input relation p(x: int)\n" + USER)
    assert flintlog("check", tmp_path / "i0.dl").exit_code == 0


DEEP = {
    "parentheses": f"q(Y) :- p(X), Y = {'(' * 5000}X{')' * 5000}.",
    "open": f"q(Y) :- p(X), Y = {'(' * 5000}X.",
    "joined": f"s(Y) :- t(X), Y = {' ++ '.join(['X'] * 5000)}.",
    "signs": f"q(Y) :- p(X), Y = {'-' * 5000}X.",
    "alternatives": f"q(X) :- {'(' * 3000}p(X) ; p(X){')' * 3000}.",
    "negations": f"q(X) :- p(X), {'!' * 5000}p(X).",
    "lists": f"q(X) :- p(X), X = {'[' * 5000}1{']' * 5000}.",
    "calls": f"q(Y) :- p(X), Y = {'abs(' * 3000}X{')' * 3000}.",
    "types": f"input relation z(x: {'list<' * 5000}int{'>' * 5000})",
    "typedefs": "".join(f"typedef T{n} = T{n + 1}\n" for n in range(2000)) + "typedef T2000 = int\n",
    "paths": f"q(X) :- {'(' * 5000}e{')' * 5000}+(X, X).",
    "exponent": f"q(1e{'9' * 5000}).",
}


@by_day(3)
@pytest.mark.parametrize("name", DEEP)
def test_deep_programs(name: str, tmp_path: Path) -> None:
    """What is nested deeper than anybody writes is refused with its place."""
    text = "input relation p(x: int)\ninput relation t(x: string)\ninput relation e(x: int, y: int)\n"
    program = written(tmp_path / "deep.dl", f"{text}{DEEP[name]}\n")
    done = flintlog("check", program)
    assert done.exit_code == 1
    assert "error[E" in done.stderr and f"--> {program}:" in done.stderr


def test_a_recursion_that_is_too_deep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the compiler has no more room, it says so about the program."""

    def sink(*_: object) -> object:
        return sink()

    program = written(tmp_path / "q.dl", f"input relation p(x: int)\n{USER}")
    monkeypatch.setattr("flintlog.targets.pyspark.emit.make_script", sink)
    done = flintlog("compile", program, "-o", tmp_path)
    assert (done.exit_code, "error[E0711]: the program is nested too deeply" in done.stderr) == (1, True)
    monkeypatch.setattr(pipeline, "PASSES", (pipeline.Pass("sink", sink),))
    done = flintlog("check", program)
    assert (done.exit_code, "error[E0711]: the program is nested too deeply" in done.stderr) == (1, True)
