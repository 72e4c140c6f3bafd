"""Programs that are refused: every diagnostic of the cases in ``golden_tests/errors``, word for word.

A file has the cases whose first diagnostic is of its kind. ``[nodes]`` compiles a program as one for nodes,
``[derivation-sets]`` with these. The examples of the explanations of codes are
further cases, of ``golden_tests/language/test_error_index.py``.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from flintlog.compiler.diagnostics import CompileError, Diagnostics
from flintlog.compiler.ir.syntax import RECURSIONS
from flintlog.compiler.nodes import compile_nodes
from flintlog.compiler.processes import compile_any, compile_processes

from golden_tests.frontend.golden import front, rendered
from golden_tests.packed import Case, cases_of, check, written

ERRORS = Path(__file__).parents[1] / "errors"
FILES = sorted(ERRORS.glob("*.txt"))
CASES = [(file, case) for file in FILES for case in cases_of(file)]
REPORTED = "reported"


def diagnose(case: Case, folder: Path) -> str:
    """What the compiler reports about a case, a program of one process or of several, written below a folder."""
    main = written(case, ".dl", folder)
    processes = sorted(main.parent.glob("process_*.dl"))
    try:
        if processes:
            found, sources = compile_processes([main, *processes]).warnings, ()
        elif "[nodes]" in case.shows:
            found, sources = compile_nodes(main).warnings, ()
        else:
            compiled = compile_any(main, recursion=RECURSIONS["[derivation-sets]" in case.shows])
            found, sources = compiled.warnings, compiled.sources
    except CompileError as error:
        found, sources = error.diagnostics, error.sources
    program = front(main)[0]
    return rendered(Diagnostics(list(found)), replace(program, sources=sources or program.sources))


@pytest.mark.parametrize(("file", "case"), CASES, ids=lambda value: getattr(value, "name", ""))
def test_diagnostics(file: Path, case: Case, tmp_path: Path, update_golden: bool) -> None:
    """All that is reported, with carets and help."""
    text = diagnose(case, tmp_path)
    assert text, "nothing was reported"
    check(file, case, {REPORTED: text}, update_golden)


def test_messages_are_single_sentences_in_the_words_of_the_language() -> None:
    """No message ends in a dot, holds two sentences or names a token."""
    tokens = re.compile(r"\b(NAME|QUALIFIED|LPAR|RPAR|LSQB|RSQB|COMMA|SEMICOLON|END|IF|Token|Tree)\b")
    for _, case in CASES:
        for line in case.parts[REPORTED].splitlines():
            if re.match(r"(error|warning)\[", line):
                message = line.split(": ", 1)[1]
                assert not message.endswith(".") and ". " not in message, line
                assert not tokens.search(re.sub(r"`[^`]*`", "", message)), line
