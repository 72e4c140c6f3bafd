"""The formatter: golden cases, and that it keeps everything and changes nothing the second time, for all programs."""

from __future__ import annotations

import io
import os
import random
import re
import textwrap
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from flintlog.compiler import cli
from flintlog.compiler.diagnostics import CompileError, Diagnostics, render
from flintlog.compiler.editor import formatter
from flintlog.compiler.editor.formatter import MeaningChanged, comments_of, format_file, format_program
from flintlog.compiler.frontend import read_program
from flintlog.compiler.frontend.parser import statements_with_tokens
from flintlog.compiler.frontend.syntax_errors import end_of, start_of
from flintlog.compiler.ir.syntax_printer import syntax_text
from flintlog.compiler.source import SourceFile

from golden_tests.documentation.pages import pieces
from golden_tests.frontend.golden import compare
from golden_tests.nightly import AT_NIGHT, by_day, one_in

ROOT = Path(__file__).parents[2]
CASES = sorted((Path(__file__).parent / "formatted").iterdir())
COMMENT = re.compile(r"//|/\*")
ADDED = (
    *(" // c\n", "\n// c\n", " /* c */ ", "\n  /* c */\n", "\n/* c\n   more */ ", " /* c */\n", "\n/* c */", " /*c*/"),
    *("\n\n\n  // c\n   // d\n", " // a comment that is longer than many a line is\n", "  // c\n              // e\n"),
)
#: Characters between which a space may make a difference.
JOINED = re.compile(r'[\w"]{2}|[^\w"()\[\]]{2}|[0-9.]{2}')
UGLY = "p( X ):-a(X).\n"
GOOD = "p(X) :- a(X).\n"


def readable() -> dict[str, str]:
    """The texts of all programs here that have no syntax errors, by name."""
    texts = {}
    for path in sorted([*ROOT.glob("golden_tests/**/*.dl"), *ROOT.glob("examples/**/*.dl")]):
        diagnostics = Diagnostics()
        read_program(path, diagnostics, load=lambda name: SourceFile(name, ""))
        if not diagnostics.failed:
            texts[path.relative_to(ROOT).as_posix()] = path.read_text(encoding="utf-8-sig")
    return texts


PROGRAMS = readable()


def formatted(text: str) -> str:
    """The text of a program, formatted."""
    return format_program(SourceFile("program.dl", text))


def printed(text: str) -> str:
    """The syntax of a program as its printer prints it, without the text that rules quote."""
    program = read_program(SourceFile("program.dl", text), Diagnostics(), load=lambda name: SourceFile(name, ""))
    return syntax_text(program)


def mangled(rng: random.Random, text: str, choices: tuple[str, ...], share: float) -> str:
    """A program with other texts between some words of its statements, where no comments stand."""
    made, last = [], 0
    for _, tokens in statements_with_tokens(SourceFile("program.dl", text), Diagnostics()):
        for place, token in enumerate(tokens):
            gap = text[last : start_of(token)]
            if place and not COMMENT.search(gap) and rng.random() < share:
                gap = rng.choice(choices)
                gap = gap or " " * bool(JOINED.fullmatch(text[last - 1] + text[start_of(token)]))
            last = end_of(token)
            made += [gap, text[start_of(token) : last]]
    return "".join([*made, text[last:]])


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_case(case: Path, update_golden: bool) -> None:
    """``before.dl`` becomes ``after.dl``."""
    compare(formatted((case / "before.dl").read_text(encoding="utf-8")), case / "after.dl", update_golden)


@AT_NIGHT
@pytest.mark.parametrize("part", one_in(range(2), 2))
def test_all_programs(part: int) -> None:
    """The same syntax and comments, short lines, no blanks at their ends, and nothing to change the second time."""
    assert len(PROGRAMS) > 150
    for name, text in list(PROGRAMS.items())[part::2]:
        made = formatted(text)
        assert formatted(made) == made, name
        assert printed(made) == printed(text), name
        assert comments_of(SourceFile(name, made)) == comments_of(SourceFile(name, text)), name
        assert not re.search(r"[ \t]$|\n\n\n|\A\n|\n\n\Z", made, re.MULTILINE), name
        for line in made.splitlines():
            assert len(line.partition("//")[0]) <= formatter.WIDTH or " " not in line.strip().removeprefix(
                "include "
            ), (name, line)


@by_day(1)
@pytest.mark.parametrize("seed", one_in(range(3), 3))
def test_white_space_does_not_matter(seed: int) -> None:
    """However the words of a statement are set apart, the result is the same."""
    rng = random.Random(seed)
    for name in rng.sample(sorted(PROGRAMS), 40):
        if "/formatted/" not in name:  # where comments stand below each other on purpose
            other = mangled(rng, PROGRAMS[name], (" ", "", "\n", "\t", "   ", "\n\n  ", " \n"), 0.8)
            assert formatted(other) == formatted(PROGRAMS[name]), name


@AT_NIGHT
@pytest.mark.parametrize("seed", one_in(range(3), 3))
def test_comments_anywhere(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Comments between any two words, in lines of any width: all are kept, and nothing changes the second time."""
    rng = random.Random(seed)
    for name in rng.sample(sorted(PROGRAMS), 60):
        monkeypatch.setattr(formatter, "WIDTH", rng.choice((100, 60, 30, 10)))
        text = mangled(rng, PROGRAMS[name], ADDED, 0.15)
        made = formatted(text)
        assert comments_of(SourceFile(name, made)) == comments_of(SourceFile(name, text)), name
        assert formatted(made) == made, name


def test_documented_layout() -> None:
    """What docs/editors.md shows, and the docstring of the formatter: before and after, and how alternatives look."""
    page = (ROOT / "docs" / "editors.md").read_text(encoding="utf-8")
    before, after, alternatives = (piece.text for piece in pieces(page) if piece.language in ("text", "datalog"))
    assert formatted(before) == after
    assert formatted(alternatives) == alternatives
    assert formatter.__doc__ is not None
    for block in (before, after):
        assert textwrap.indent(block, "    ") in formatter.__doc__


def test_examples_are_formatted() -> None:
    """The programs that people look at first."""
    for path in ROOT.glob("examples/**/*.dl"):
        assert formatted(path.read_text(encoding="utf-8")) == path.read_text(encoding="utf-8"), path


def test_marks_and_line_ends_are_kept() -> None:
    """A byte order mark, and line ends of Windows, also in comments."""
    assert format_file(b"", "empty.dl") == b""
    assert format_file(b"\n \n", "blank.dl") == b""
    assert format_file(b"// only a comment", "comment.dl") == b"// only a comment\n"
    assert format_file("\ufeffp( X ) :- a(X).".encode(), "mark.dl") == "\ufeffp(X) :- a(X).\n".encode()
    content = b"/* a \r\n b */\r\np( X ) :- a(X).\r\n"
    assert format_file(content, "windows.dl") == b"/* a\r\n b */\r\np(X) :- a(X).\r\n"


# ---- the command -----------------------------------------------------------------------------------------------------


def fmt(*arguments: str | Path, given: bytes | None = None) -> Result:
    """Run ``flintlog fmt``; an exception of the compiler itself fails the test."""
    return CliRunner().invoke(
        cli.main, ["fmt", *map(str, arguments)], input=io.BytesIO(given or b""), catch_exceptions=False
    )


@pytest.fixture
def ugly(tmp_path: Path) -> Path:
    """A program that formatting changes."""
    path = tmp_path / "ugly.dl"
    path.write_text(UGLY, encoding="utf-8")
    return path


@pytest.fixture
def good(tmp_path: Path) -> Path:
    """A program that formatting leaves as it is."""
    path = tmp_path / "good.dl"
    path.write_text(GOOD, encoding="utf-8")
    return path


def test_files_are_written(ugly: Path, good: Path) -> None:
    """Those that change, with the mode they had."""
    ugly.chmod(0o640)
    before = good.stat()
    result = fmt(ugly, good)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"formatted {ugly}\n{good} is unchanged\n"
    assert ugly.read_text(encoding="utf-8") == GOOD
    assert ugly.stat().st_mode & 0o777 == 0o640
    assert (good.stat().st_ino, good.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert sorted(path.name for path in ugly.parent.iterdir()) == ["good.dl", "ugly.dl"]


def test_folders(ugly: Path, good: Path) -> None:
    """Of a folder all programs below it, but for hidden ones and files of other kinds."""
    for name in ("below/deeper/ugly.dl", ".hidden/ugly.dl", "below/.venv/ugly.dl", "below/notes.txt"):
        path = ugly.parent / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(UGLY, encoding="utf-8")
    result = fmt(ugly.parent)
    below = ugly.parent / "below" / "deeper" / "ugly.dl"
    assert result.stderr == f"formatted {below}\n{good} is unchanged\nformatted {ugly}\n"
    assert below.read_text(encoding="utf-8") == GOOD
    assert (ugly.parent / "below" / ".venv" / "ugly.dl").read_text(encoding="utf-8") == UGLY


def test_what_is_no_file_in_a_folder(tmp_path: Path) -> None:
    """It is left aside, and named."""
    for make, name in ((os.mkfifo, "fifo.dl"), (Path.mkdir, "folder.dl")):
        make(tmp_path / name)
    (tmp_path / "dangling.dl").symlink_to(tmp_path / "nowhere")
    result = fmt("--check", tmp_path)
    assert result.exit_code == 0
    assert result.stderr.endswith(f"note: there are no programs (.dl files) below {tmp_path}\n")
    assert result.stderr.startswith(
        "".join(
            f"note: {tmp_path / name} is not a file and is ignored\n"
            for name in ("dangling.dl", "fifo.dl", "folder.dl")
        )
    )


def test_check_writes_nothing(ugly: Path, good: Path) -> None:
    """The exit code says whether a program would change, standard error which."""
    assert (fmt("--check", good).exit_code, fmt("--check", good).output) == (0, "")
    result = fmt("--check", good, ugly)
    assert (result.exit_code, result.output) == (1, f"{ugly} would change\n")
    assert ugly.read_text(encoding="utf-8") == UGLY


def test_diff_writes_nothing(ugly: Path, good: Path) -> None:
    """A unified diff, on its own or to explain ``--check``."""
    expected = f"--- {ugly}\n+++ {ugly}\n@@ -1 +1 @@\n-{UGLY}+{GOOD}"
    assert (fmt("--diff", good, ugly).exit_code, fmt("--diff", good, ugly).output) == (0, expected)
    checked = fmt("--diff", "--check", ugly)
    assert (checked.exit_code, checked.stdout, checked.stderr) == (1, expected, f"{ugly} would change\n")
    ugly.write_text(UGLY.rstrip("\n"), encoding="utf-8")
    assert f"-{UGLY}\\ No newline at end of file\n+{GOOD}" in fmt("--diff", ugly).stdout
    assert ugly.read_text(encoding="utf-8") == UGLY.rstrip("\n")


def test_standard_input() -> None:
    """What an editor sends comes back formatted; nothing comes back where it is refused."""
    result = fmt("--stdin", given=b'p( "\xc3\xa9" ).\r\n')
    assert (result.exit_code, result.stdout_bytes, result.stderr) == (0, b'p("\xc3\xa9").\r\n', "")
    result = fmt("--stdin", "--check", given=UGLY.encode())
    assert (result.exit_code, result.output) == (1, "standard input would change\n")
    result = fmt("--stdin", given=b"p(X :- a(X).\n")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "--> standard input:1:" in result.stderr


def test_syntax_errors_are_reported(ugly: Path, tmp_path: Path) -> None:
    """With the diagnostics of ``check``; the program is left alone, and the others are formatted."""
    broken = tmp_path / "broken.dl"
    broken.write_text("p( X ) :- a(X.\n", encoding="utf-8")
    result = fmt(broken, ugly)
    with pytest.raises(CompileError) as refused:
        format_file(broken.read_bytes(), broken.name, str(broken))
    (diagnostic,), sources = refused.value.diagnostics, {s.name: s for s in refused.value.sources}
    assert result.exit_code == 1
    assert f"{render(diagnostic, sources)}\n" in result.stderr
    assert render(diagnostic, sources) in CliRunner().invoke(cli.main, ["check", str(broken)]).stderr
    assert f"formatted {ugly}\n" in result.stderr
    assert broken.read_text(encoding="utf-8") == "p( X ) :- a(X.\n"


def test_other_errors_do_not_matter(tmp_path: Path) -> None:
    """Types that do not fit, and files to include that are not there."""
    program = tmp_path / "program.dl"
    program.write_text('include"none.dl"\np( X ):-q(X,"a"),X=1+"b".\n', encoding="utf-8")
    assert fmt(program).exit_code == 0
    assert program.read_text(encoding="utf-8") == 'include "none.dl"\np(X) :- q(X, "a"), X = 1 + "b".\n'


def test_files_of_other_kinds(tmp_path: Path, ugly: Path) -> None:
    """Command files, programs of other languages, files that are not UTF-8, and none at all."""
    commands = tmp_path / "changes.dat"
    commands.write_text("start;\n", encoding="utf-8")
    result = fmt(commands, tmp_path / "none.dl", ugly)
    assert result.exit_code == 2
    assert f"error: {commands} is not a .dl file\n" in result.stderr
    assert f"error: cannot read {tmp_path / 'none.dl'}: no such file or directory\n" in result.stderr
    assert ugly.read_text(encoding="utf-8") == GOOD
    ugly.write_text(".decl a(x: number)\n", encoding="utf-8")
    assert fmt(ugly).exit_code == 1
    assert "error[E0714]: `.decl` is a directive of Soufflé" in fmt(ugly).stderr
    ugly.write_bytes(b"p(\xff).\n")
    assert fmt(ugly).exit_code == 1
    assert "error[E0119]: `ugly.dl` is not UTF-8 text" in fmt(ugly).stderr


def test_wrong_command_lines(ugly: Path) -> None:
    """Programs or standard input, not both and not neither."""
    assert fmt().exit_code == fmt("--stdin", ugly).exit_code == 2


@pytest.mark.parametrize("made", ["p(Y) :- a(Y).\n", "p(X) :- a(X, 1).\n", "p(X) :- a(X).  // new\n", "p(X :-\n", ""])
def test_another_program_is_not_written(made: str, ugly: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the formatter may get wrong, the file stays as it was, and the command says so."""
    monkeypatch.setattr(formatter, "_layout", lambda source: made)
    with pytest.raises(MeaningChanged):
        formatted(UGLY)
    result = fmt(ugly)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"error: {ugly} was not changed: formatting would have changed its meaning")
    assert ugly.read_text(encoding="utf-8") == UGLY
