"""Programs that are refused: every diagnostic of a case of ``golden_tests/errors``, word for word."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from flintlog.compiler.diagnostics import CODES, CompileError, Diagnostics
from flintlog.compiler.frontend.reader import MOST_CHARACTERS
from flintlog.compiler.ir.syntax import RECURSIONS
from flintlog.compiler.nodes import compile_nodes
from flintlog.compiler.pipeline import compile_program
from flintlog.compiler.processes import compile_any, compile_processes
from flintlog.compiler.source import SourceFile

from golden_tests.frontend.golden import compare, front, rendered

ERRORS = Path(__file__).parents[1] / "errors"
CASES = sorted(path.parent for path in ERRORS.glob("*/program.dl"))


def diagnose(case: Path) -> str:
    """What the compiler reports about a case: a program of one process or of several, in one file or in more.

    Where there is a file ``one_script``, it is compiled as a program of one process; where there is one ``nodes``, for
    nodes; where there is one ``derivation_sets``, with these; where there is one ``too_long``, with so many empty lines
    behind it that it is.
    """
    files = [case / "program.dl", *case.glob("process_*.dl")]
    try:
        if (case / "too_long").exists():
            text = files[0].read_text(encoding="utf-8") + "\n" * MOST_CHARACTERS
            compile_program(SourceFile("program.dl", text))
        if len(files) > 1:
            found, sources = compile_processes(files).warnings, ()
        elif (case / "one_script").exists():
            found, sources = compile_program(files[0]).warnings, ()
        elif (case / "nodes").exists():
            found, sources = compile_nodes(files[0]).warnings, ()
        else:
            sets = (case / "derivation_sets").exists()
            compiled = compile_any(files[0], recursion=RECURSIONS[1] if sets else RECURSIONS[0])
            found, sources = compiled.warnings, compiled.sources
    except CompileError as error:
        found, sources = error.diagnostics, error.sources
    program = front(case / "program.dl")[0]
    return rendered(Diagnostics(list(found)), replace(program, sources=sources or program.sources))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_diagnostics(case: Path, update_golden: bool) -> None:
    """All that is reported, with carets and help."""
    text = diagnose(case)
    assert text, "nothing was reported"
    compare(text, case / "expected.txt", update_golden)


def test_messages_are_single_sentences_in_the_words_of_the_language() -> None:
    """No message ends in a dot, holds two sentences or names a token."""
    tokens = re.compile(r"\b(NAME|QUALIFIED|LPAR|RPAR|LSQB|RSQB|COMMA|SEMICOLON|END|IF|Token|Tree)\b")
    for case in CASES:
        for line in (case / "expected.txt").read_text(encoding="utf-8").splitlines():
            if re.match(r"(error|warning)\[", line):
                message = line.split(": ", 1)[1]
                assert not message.endswith(".") and ". " not in message, line
                assert not tokens.search(re.sub(r"`[^`]*`", "", message)), line


def test_every_code_has_a_case() -> None:
    """A code without a case would be documented by nothing; those of command files have theirs among the replays, and
    those of other languages among the dialects."""
    cases = [*CASES, ERRORS.parent / "replay" / "mistakes"]
    files = [*(case / "expected.txt" for case in cases), *ERRORS.parent.glob("dialects/*/refused.txt")]
    expected = "".join(file.read_text(encoding="utf-8") for file in files)
    assert [code for code in CODES if f"[{code}]" not in expected] == []
