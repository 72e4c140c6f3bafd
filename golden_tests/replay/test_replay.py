"""``flintlog replay``: in ``cases.txt``, each case has a program, commands, and what is printed.

``mistakes/`` has one program, commands with a mistake each behind a heading, and what is said of them.
"""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from flintlog.compiler import cli
from flintlog.compiler.diagnostics import CompileError, render
from flintlog.compiler.pipeline import compile_program
from flintlog.compiler.source import SourceFile
from flintlog.local.dat.printer import value_text
from flintlog.local.dat.reader import COMMANDS, Reader
from flintlog.local.dat.replay import Replay
from flintlog.local.session import RowSession
from flintlog.runtime.row_kernel.model import RowProgram
from flintlog.targets.database.lower import lower_rows

from golden_tests.frontend.golden import compare
from golden_tests.nightly import by_day
from golden_tests.packed import Case, cases_of, check, written

HERE = Path(__file__).parent
FILE = HERE / "cases.txt"
CASES = cases_of(FILE)


def replayed(program: Path, commands: Path | str, *options: str | Path) -> str:
    """What the command prints, on both streams as they come, and its exit code unless that is 0."""
    arguments = ["replay", str(program), "-" if isinstance(commands, str) else str(commands), *map(str, options)]
    given = commands if isinstance(commands, str) else None
    result = CliRunner().invoke(cli.main, arguments, input=given, catch_exceptions=False)
    return result.output + (f"exit code {result.exit_code}\n" if result.exit_code else "")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_cases(case: Case, update_golden: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is printed is what is expected."""
    monkeypatch.chdir(written(case, ".dl", tmp_path).parent)
    options = ["--functions", "functions.py"] if Path("functions.py").exists() else []
    printed = replayed(Path("program.dl"), Path("changes.dat"), *options)
    check(FILE, case, {"printed": printed}, update_golden)


def test_cases_show_all_commands() -> None:
    """Each command stands in some case, but timestamp, which prints another number each time."""
    text = "\n".join(case.parts["file changes.dat"] for case in CASES)
    assert [word for word in COMMANDS if not re.search(rf"\b{word}\b", text)] == ["timestamp"]


# ---- mistakes --------------------------------------------------------------------------------------------------------


def loaded(text: str) -> RowProgram:
    """A program given as text."""
    return lower_rows(compile_program(SourceFile("program.dl", text)).plan)


def answers(program: RowProgram, commands: bytes) -> Iterator[str]:
    """What is printed of commands in a new session, up to the first mistake and what is said of it."""
    printed: list[str] = []
    reader = Reader("changes.dat", commands.splitlines(keepends=True))
    running = Replay(RowSession(program), reader, printed.append)
    errors: list[CompileError] = []
    running.run_all(lambda error: bool(errors.append(error)))
    error = errors[0] if errors else running.unfinished()
    yield from printed
    if error is not None:
        (item,) = error.diagnostics
        yield render(item, {source.name: source for source in error.sources})


def test_mistakes(update_golden: bool) -> None:
    """Every mistake is said to be one, at its place."""
    program = loaded((HERE / "mistakes" / "program.dl").read_text(encoding="utf-8"))
    found = []
    for section in re.split(rb"^#### ", (HERE / "mistakes" / "commands.dat").read_bytes(), flags=re.MULTILINE)[1:]:
        heading, _, commands = section.partition(b"\n")
        answer = "\n".join(answers(program, commands))
        assert re.search(r"^(error|warning)\[", answer, re.MULTILINE), heading
        found.append(f"#### {heading.decode()}\n{answer}\n")
    compare("\n".join(found), HERE / "mistakes" / "expected.txt", update_golden)


# ---- sessions --------------------------------------------------------------------------------------------------------

KEYED = "input relation K(k: int, v: int) primary key (k)\noutput relation V(k: int, v: int)\nV(K, V) :- K(K, V).\n"


@pytest.fixture(scope="module")
def keyed() -> RowProgram:
    """A program whose input relation has a key."""
    return loaded(KEYED)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The same as a file."""
    path = tmp_path / "keyed.dl"
    path.write_text(KEYED, encoding="utf-8")
    return path


def command_line(*arguments: str | Path) -> list[str]:
    """A command as a process of its own."""
    return [sys.executable, "-m", "flintlog", *map(str, arguments)]


def typed(program: RowProgram, *lines: str) -> list[str]:
    """What is printed of commands that go on behind mistakes, and the codes of these."""
    said: list[str] = []
    reader = Reader("typed", [f"{line}\n".encode() for line in lines])
    running = Replay(RowSession(program), reader, said.append)

    def refused(error: CompileError) -> bool:
        said.append(error.diagnostics[0].code)
        return True

    running.run_all(refused)
    return said


def test_a_queue_is_applied_as_a_whole_or_not_at_all(keyed: RowProgram) -> None:
    """The transaction goes on without the queue that has a mistake."""
    said = typed(
        keyed,
        "start; insert K(1, 1);",
        "modify K 1 <- K{.v = 2}, insert K(2, 2), delete_key K 1, insert K(1, 3), insert K(2, 0);",
        "insert K(3, 3), modify K 1 <- K{.k = 0};",
        "insert K(3, 4), insert C(1);",
        "commit dump_changes;",
    )
    assert said == ["E0905", "E0905", "E0902", "V:\nV{.k = 1, .v = 1}: +1"]


def test_a_refused_transaction_leaves_all_as_it_was() -> None:
    """The relations, the keys, the ranks; the next transaction begins from there."""
    program = loaded(
        "input relation K(k: int, v: int) primary key (k)\ninput relation E(a: int, b: int)\n"
        "output relation P(a: int, b: int)\noutput relation Q(k: int, q: int)\n"
        "P(X, Y) :- E(X, Y).\nP(X, Y) :- E(X, Z), P(Z, Y).\nQ(K, 6 / V) :- K(K, V), P(K, _).\n"
    )
    said = typed(
        program,
        "start; insert K(1, 2); insert E(1, 2), insert E(2, 3); commit;",
        "start; modify K 1 <- K{.v = 0}; insert K(2, 3); delete E(2, 3), insert E(2, 1); commit dump_changes;",
        "insert K(2, 3);",
        "dump; start; insert K(2, 3); delete E(1, 2), insert E(2, 1); commit dump_changes;",
        "start; insert K(3, 3); rollback; start; delete_key K 1, insert K(3, 1); commit dump_changes;",
        "dump K;",
    )
    assert said == [
        "E0906",
        "E0904",
        "P:\nP{.a = 1, .b = 2}\nP{.a = 1, .b = 3}\nP{.a = 2, .b = 3}\n",
        "Q:\nQ{.k = 1, .q = 3}\n",
        "P:\nP{.a = 1, .b = 2}: -1\nP{.a = 1, .b = 3}: -1\nP{.a = 2, .b = 1}: +1",
        "Q:\nQ{.k = 1, .q = 3}: -1\nQ{.k = 2, .q = 2}: +1",
        "K{.k = 2, .v = 3}\nK{.k = 3, .v = 1}",
    ]


def test_timestamps_go_on(keyed: RowProgram) -> None:
    """Later ones are larger."""
    first, second = (int(line.removeprefix("Timestamp: ")) for line in typed(keyed, "timestamp; timestamp;"))
    assert 0 < first <= second


def test_values_as_they_are_printed() -> None:
    """Floats as DDlog has them; what has no type there as the strings that are read in."""
    printed = [value_text(value) for value in (1e16, 1e-5, 123456789.0, -0.5, 5e-324, ["a", [True]], "\x7f\u0301")]
    assert printed == ["1e16", "1e-5", "123456789.0", "-0.5", "5e-324", '["a", [true]]', '"\\u{7f}\\u{301}"']


# ---- processes -------------------------------------------------------------------------------------------------------


def test_commands_from_standard_input(program: Path) -> None:
    """``-`` reads what is piped in, with the ends of lines of any system and a mark of the byte order."""
    commands = "\ufeffstart;\r\ninsert K(1, 2);\r\ncommit dump_changes;\r\necho a\r\nb;\r\n"
    assert replayed(program, commands) == "V:\nV{.k = 1, .v = 2}: +1\na\nb\n"


def test_answers_come_before_the_next_command(program: Path) -> None:
    """Nothing behind a command is waited for."""
    with subprocess.Popen(
        command_line("replay", program, "-"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write("echo one;\n")
        assert process.stdout.readline() == "one\n"
        process.stdin.write("start; insert K(1, 2); commit dump_changes;\n")
        assert [process.stdout.readline() for _ in range(2)] == ["V:\n", "V{.k = 1, .v = 2}: +1\n"]
    assert process.returncode == 0


def test_a_person_who_types_may_go_on(program: Path) -> None:
    """In a terminal a mistake ends the line, not the replay; the exit code tells of it all the same."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        command_line("replay", program, "-"), stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        os.close(theirs)
        os.write(ours, b"strat; echo not said;\necho go on;\nstart; insert K(1, 2); commit dump_changes;\nexit;\n")
        assert process.stdout is not None
        said = process.stdout.read().decode()
    os.close(ours)
    assert "error[E0901]: `strat` is not a command" in said
    assert "\nnot said" not in said
    assert said.endswith("go on\nV:\nV{.k = 1, .v = 2}: +1\n1 error, no warnings\n")
    assert process.returncode == 1


@by_day(1)
@pytest.mark.parametrize("command", ["run", "replay"])
def test_nobody_reads_to_the_end(command: str, tmp_path: Path) -> None:
    """A closed pipe ends the command without a word."""
    path = tmp_path / "many.dl"
    facts = "".join(f"D({digit}).\n" for digit in range(10))
    path.write_text(f"{facts}output N.\nN(A, B, C, E, F) :- D(A), D(B), D(C), D(E), D(F).\n", encoding="utf-8")
    line = command_line(command, path, *([os.devnull] if command == "replay" else []))
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline().startswith("N")
        process.stdout.close()
        assert process.stderr.read() == ""


@pytest.mark.parametrize("command", ["run", "replay"])
def test_interrupted(command: str, tmp_path: Path) -> None:
    """Ctrl-C ends a recursion that does not end by itself, without a traceback."""
    path = tmp_path / "endless.dl"
    path.write_text("output N.\nN(1).\nN(X + 1) :- N(X).\n", encoding="utf-8")
    options = ["--max-rounds", "1000000000"]
    line = command_line(command, path, *([os.devnull] if command == "replay" else []), *options)
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert select.select([process.stderr], [], [], 60)[0]
        time.sleep(1)
        process.send_signal(2)
        said = process.stderr.read()
    assert said.endswith("Aborted!\n")
    assert "Traceback" not in said
    assert process.returncode == 1


@pytest.mark.parametrize("command", ["run", "replay"])
def test_neither_spark_nor_arrow_is_imported(command: str, program: Path) -> None:
    """Nor anything that only the other commands need."""
    arguments = [command, str(program), *([os.devnull] if command == "replay" else [])]
    code = (
        "import sys\nfrom flintlog.compiler.cli import main\n"
        f"main({arguments!r}, standalone_mode=False)\n"
        "print(sorted({'pyspark', 'pyarrow', 'pandas', 'numpy', 'black', 'rich'} & set(sys.modules)))\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "[]"


def without_packages(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """A command where neither DuckDB nor PyArrow is installed."""
    code = (
        "import importlib.util, sys\nsys.modules.update(duckdb=None, pyarrow=None)\nfind = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, package=None: None if name == 'duckdb' else find(name, package)\n"
        f"from flintlog.compiler.cli import main\nmain({arguments!r})\n"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=folder)


@pytest.mark.parametrize("command", [["run"], ["replay", os.devnull, "--recursion", "derivation-sets"]])
def test_without_duckdb(command: list[str], program: Path, tmp_path: Path) -> None:
    """The message says how to install it; the exit code is that of what cannot be used."""
    result = without_packages([command[0], str(program), *command[1:]], tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == (
        "error: this command requires DuckDB, which is not installed: pip install duckdb pyarrow numpy\n"
    )


def test_rows_need_no_packages(tmp_path: Path) -> None:
    """Replays and tests of programs."""
    (tmp_path / "p.dl").write_text("input relation e(x: int)\noutput p.\np(X + 1) :- e(X).\n", encoding="utf-8")
    (tmp_path / "c.dat").write_text("start; insert e(1); commit; dump;", encoding="utf-8")
    (tmp_path / "e.csv").write_text("x\n2\n", encoding="utf-8")
    case = "[[test]]\nname = 't'\ngiven.e = 'e.csv'\nexpect.p = [[3]]\n"
    (tmp_path / "p.test.toml").write_text(case, encoding="utf-8")
    replay = without_packages(["replay", "p.dl", "c.dat"], tmp_path)
    assert (replay.returncode, replay.stdout, replay.stderr) == (0, "p:\np{.x1 = 2}\n\n", "")
    test = without_packages(["test"], tmp_path)
    assert (test.returncode, test.stderr) == (0, "") and "1 test: 1 passed" in test.stdout


def test_paths_are_shown_as_given(program: Path) -> None:
    """In what is said about a command."""
    commands = program.parent / "changes.dat"
    commands.write_text("commit;\n", encoding="utf-8")
    assert f"  --> {commands}:1:1\n" in replayed(program, commands)


@pytest.mark.parametrize("name", ["nothing.dat", "."])
def test_files_that_cannot_be_read(name: str, program: Path) -> None:
    """A missing file, and a folder."""
    path = program.parent / name
    reason = "is a directory" if path.is_dir() else "no such file or directory"
    assert replayed(program, path) == f"error: cannot read {path}: {reason}\nexit code 2\n"


def test_functions_must_be_given(tmp_path: Path) -> None:
    """Where the program has external functions, and only there; before anything else is done."""
    case, keys = (
        written(case, ".dl", tmp_path).parent for case in CASES if case.name in ("functions_that_fail", "keys")
    )
    assert replayed(case / "program.dl", case / "changes.dat") == (
        "error: program.dl needs Python functions; pass their file with --functions FILE: half(int): int\nexit code 1\n"
    )
    empty = tmp_path / "empty.py"
    empty.touch()
    assert replayed(case / "program.dl", case / "changes.dat", "--functions", empty) == (
        f"error: {empty} has no function half; program.dl declares half(int): int\nexit code 1\n"
    )
    assert replayed(keys / "program.dl", keys / "changes.dat", "--functions", empty) == (
        "error: program.dl declares no `extern function`, but functions were given\nexit code 1\n"
    )
