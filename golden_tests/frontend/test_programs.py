"""Programs that are accepted: their syntax and their typed form, one folder per case under ``programs/``."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from flintlog.compiler.ir.syntax_printer import syntax_text

from golden_tests.frontend.golden import compare, front, rendered
from golden_tests.oracle.programs import random_program

PROGRAMS = Path(__file__).parent / "programs"
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("case", sorted(PROGRAMS.iterdir()), ids=lambda case: case.name)
def test_program(case: Path, update_golden: bool) -> None:
    """The syntax and the typed form."""
    program, resolved, diagnostics = front(case / "program.dl")
    assert not diagnostics.failed, rendered(diagnostics, program)
    compare(syntax_text(program), case / "syntax.txt", update_golden)
    compare(str(resolved), case / "typed.txt", update_golden)


@pytest.mark.parametrize("case", sorted(PROGRAMS.iterdir()), ids=lambda case: case.name)
def test_printed_syntax_reads_as_itself(case: Path) -> None:
    """What the printer writes, the reader reads."""
    text = syntax_text(front(case / "program.dl")[0])
    program, _, diagnostics = front(text)
    assert not diagnostics.failed, rendered(diagnostics, program)
    assert syntax_text(program) == text


@pytest.mark.parametrize("path", sorted(EXAMPLES.rglob("*.dl")), ids=lambda path: path.name)
def test_example_has_nothing_to_report(path: Path) -> None:
    """Not even a warning."""
    program, _, diagnostics = front(path)
    assert rendered(diagnostics, program) == ""


def test_random_programs_are_accepted() -> None:
    """The reader of the oracle and this one agree on what is a program."""
    for seed in range(200):
        # The generator also assigns what an atom binds, which `=` allows and `:=` does not.
        text = random_program(random.Random(seed)).replace(":=", "=")
        program, resolved, diagnostics = front(text)
        assert not diagnostics.failed, f"seed {seed}\n{rendered(diagnostics, program)}"
        assert "unknown" not in str(resolved) and "broken" not in str(resolved), f"seed {seed}\n{resolved}"
