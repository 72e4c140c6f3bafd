"""``fmt --to flintlog``: what is printed is the same program, with its comments."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from flintlog.compiler.cli import main
from flintlog.compiler.diagnostics import CompileError
from flintlog.compiler.dialects import DIALECTS, FLINTLOG, dialect_of
from flintlog.compiler.editor.converter import convert
from flintlog.compiler.editor.formatter import comments_of
from flintlog.compiler.source import SourceFile

from golden_tests.nightly import by_day

CASES = sorted((Path(__file__).parents[1] / "cases").glob("*/program.dl"))


def test_dialects() -> None:
    """No two dialects share a suffix; a name goes before the suffix, and unknown suffixes are Flintlog's."""
    suffixes = [suffix for dialect in DIALECTS.values() for suffix in dialect.suffixes]
    assert len(suffixes) == len(set(suffixes))
    assert dialect_of("a.dl") == dialect_of("a") == dialect_of("a.txt") == FLINTLOG
    for dialect in DIALECTS.values():
        assert dialect_of("a.dl", dialect.name) == dialect
        assert callable(dialect.read)
        assert [dialect_of(f"a{suffix}") for suffix in dialect.suffixes] == [dialect] * len(dialect.suffixes)


@by_day(10)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.parent.name)
def test_own_programs(case: Path) -> None:
    """Programs in Flintlog's own language are printed, too: once more printed, they stay as they are."""
    text, warnings, _ = convert(case)
    source = SourceFile("again.dl", text)
    assert convert(source)[:2] == (text, warnings)
    if "include" not in case.read_text(encoding="utf-8"):
        assert comments_of(source) == comments_of(SourceFile("program.dl", case.read_text(encoding="utf-8")))


def test_comments_stay_near() -> None:
    """A comment stands before the statement that it preceded or that it was in; the last ones at the end."""
    program = """// first
input relation e(x: string)  // of e
output p.

/* second,
   two lines */
p(X) :- e(X), // not a string
        X != "// a string".
// last
"""
    assert convert(SourceFile("a.dl", program))[0] == (
        """// first
// of e
input relation e(x: string)
output p.

/* second,
   two lines */
// not a string
p(X) :- e(X), X != "// a string".

// last
"""
    )


def test_command(tmp_path: Path) -> None:
    """The program is printed, and not changed, with warnings beside it; one with errors is not printed."""
    path = tmp_path / "a.dl"
    path.write_text("input relation e(x: int)\noutput p. p(X):-e(X).\n")
    done = CliRunner().invoke(main, ["fmt", "--to", "flintlog", str(path)])
    assert (done.exit_code, done.stdout) == (0, "input relation e(x: int)\noutput p.\np(X) :- e(X).\n")
    assert "p(X):-e(X)" in path.read_text()
    other = tmp_path / "a.ddlog"
    other.write_text("#[cold]\ninput relation E(x: string)\noutput relation P(x: string)\nP(x) :- E(x).\n")
    done = CliRunner().invoke(main, ["fmt", "--to", "flintlog", str(other)])
    assert done.stdout == "input relation E(x: string)\noutput relation P(x: string)\nP(x) :- E(x).\n"
    assert done.exit_code == 0 and "warning[W0811]: the attribute `cold` is ignored" in done.stderr
    path.write_text("p(X :- e(X).")
    wrong = CliRunner().invoke(main, ["fmt", "--to", "flintlog", str(path)])
    assert (wrong.exit_code, wrong.stdout) == (1, "") and "E0101" in wrong.stderr
    with pytest.raises(CompileError):
        convert(path)
    several = CliRunner().invoke(main, ["fmt", "--to", "flintlog", "--check", str(path)])
    assert several.exit_code == 2 and "--to takes one program" in several.stderr
