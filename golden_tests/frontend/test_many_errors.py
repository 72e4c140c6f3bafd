"""Files that are no programs at all, and very long lines: few errors, short messages, and in time that grows with the
text only."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from flintlog.compiler.cli import main
from flintlog.compiler.diagnostics import (
    LONGEST_EXCERPT,
    LONGEST_MESSAGE,
    LONGEST_NAME,
    MOST_ERRORS,
    CompileError,
    Diagnostics,
    render,
    shortened,
)
from flintlog.compiler.dialects import DIALECTS
from flintlog.compiler.pipeline import compile_program
from flintlog.compiler.source import SourceFile, Span

#: Pieces of text, each of them repeated.
PIECES = (
    *(
        "1.",
        "1. ",
        "1.\n",
        "\uff21",
        "\uff21\n",
        "p(",
        "p(\n",
        "p(X) :- q(X)\n",
        ":- ",
        '"',
        "'a'",
        "{",
        "}",
        "@",
        "a b ",
    ),
    *("p(X):-", "p(X)=>", "p(<", "p(X),", "first<2 by ", "input relation a(x: int", "process p{", "#a\n", '"a" ', "/*"),
    *('p("a).\n', "a: ", "p|", "p(X, Y) :- q(1).\n", "\x1b[31m", "a\u0301"),
)
LENGTH = 3000


def said(text: str, dialect: str) -> str:
    """What the compiler says about a text that is no program."""
    source = SourceFile(f"program{''.join(DIALECTS[dialect].suffixes[:1])}", text)
    with pytest.raises(CompileError) as refused:
        compile_program(source, dialect=dialect)
    errors = [item for item in refused.value.diagnostics if item.severity == "error"]
    assert 1 <= len(errors) <= MOST_ERRORS
    stopped = [note for item in errors for note in item.notes if "is not looked for" in note.message]
    assert len(stopped) == (len(errors) == MOST_ERRORS)
    for item in errors:
        assert max(map(len, (item.message, item.help or ""))) <= LONGEST_MESSAGE
    return str(refused.value)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_program(dialect: str) -> None:
    """Some of these took minutes, and a hundred megabytes of messages."""
    started = time.process_time()
    for piece in PIECES:
        assert len(said(piece * (LENGTH // len(piece)), dialect)) < 60_000
    assert time.process_time() - started < 60


def test_many_errors_in_an_included_file() -> None:
    """The text of the included file is shown, and no other file is read."""
    files = {
        "part.dl": SourceFile("part.dl", "1. " * 100),
        "program.dl": SourceFile("program.dl", 'include "part.dl"\n1.'),
    }
    with pytest.raises(CompileError) as refused:
        compile_program(files["program.dl"], files.get)
    assert {item.span.file for item in refused.value.diagnostics} == {"part.dl"}
    assert "1 | 1. 1. 1. " in str(refused.value)


def test_errors_of_passes_are_few_too() -> None:
    """Behind the parser as well."""
    text = "".join(f"p{number}(X) :- q{number}(X).\n" for number in range(200))
    assert said(text, "flintlog").count("error[E0201]") == MOST_ERRORS


@pytest.mark.parametrize("before", [0, 10, 500, 100_000])
@pytest.mark.parametrize("behind", [0, 300, 100_000])
def test_caret_in_a_long_line(before: int, behind: int) -> None:
    """The caret stands under what is wrong, however long the line."""
    source = SourceFile("program.dl", f"{'a' * before}?!{'b' * behind}")
    diagnostics = Diagnostics()
    diagnostics.report("E0101", "wrong", Span("program.dl", 1, before + 1, 2))
    _, _, line, carets = render(diagnostics.items[0], {"program.dl": source}).splitlines()
    assert line[carets.index("^") : carets.rindex("^") + 1] == "?!"
    assert len(line) <= LONGEST_EXCERPT + 10


def test_long_names_are_cut() -> None:
    """In messages, in help, and in command files."""
    name = "A" * 10_000
    text = said(f"p({name}) :- q({name}), r({name.lower()}).", "flintlog")
    assert max(map(len, text.splitlines())) < LONGEST_EXCERPT + LONGEST_NAME + 100
    assert shortened(f"`{name}` and `b`") == f"`{'A' * (LONGEST_NAME - 3)}...` and `b`"
    assert shortened("`a`, " * 1000).endswith("...") and len(shortened("`a`, " * 1000)) == LONGEST_MESSAGE


@pytest.mark.parametrize("text", ["]" * 9000, "\uff21" * 9000, f"insert {'x' * 9000}(1);", "start; insert link(" * 900])
def test_no_command_file(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Command files are read up to their first mistake."""
    (tmp_path / "p.dl").write_text("input relation link(a: int)\noutput p.\np(X) :- link(X).\n")
    (tmp_path / "p.dat").write_text(text)
    main.main(["replay", str(tmp_path / "p.dl"), str(tmp_path / "p.dat")], standalone_mode=False)
    found = capsys.readouterr().err
    assert found.count("error[") == 1
    assert len(found) < 2000


@pytest.mark.parametrize(
    "text", ["1. " * 3000, "[[test]]\n" * 3000, f"{'x' * 9000} = 1\n", '[[test]]\nname = "a"\nb = 1\n']
)
def test_no_test_file(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Test files are read up to their first mistake, too."""
    (tmp_path / "p.dl").write_text("input relation link(a: int)\noutput p.\np(X) :- link(X).\n")
    (tmp_path / "p.test.toml").write_text(text)
    main.main(["test", str(tmp_path / "p.test.toml")], standalone_mode=False)
    output = "".join(capsys.readouterr())
    assert "p.test.toml" in output
    assert len(output) < 2000
