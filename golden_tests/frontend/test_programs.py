"""Programs that are accepted: their syntax and their typed form, one folder per case under ``programs/``."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from flintlog.compiler.frontend.words import KEYWORDS
from flintlog.compiler.ir.syntax_printer import syntax_text

from golden_tests.frontend.golden import compare, front, rendered
from golden_tests.nightly import NIGHTLY
from golden_tests.oracle.random_programs import random_program

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
    for seed in range(200 if NIGHTLY else 60):
        # The generator also assigns what an atom binds, which `=` allows and `:=` does not.
        text = random_program(random.Random(seed)).replace(":=", "=")
        program, resolved, diagnostics = front(text)
        assert not diagnostics.failed, f"seed {seed}\n{rendered(diagnostics, program)}"
        assert "unknown" not in str(resolved) and "broken" not in str(resolved), f"seed {seed}\n{resolved}"


#: Places of a name; NAME stands for the word, other names for others.
PLACES = {
    "nullary": "input relation NAME\np(1) :- NAME.\n",
    "nullary, before a declaration": "input relation NAME\ninput relation e(x: int)\np(X) :- e(X), NAME.\n",
    "nullary, before a rule of itself": "input derived relation NAME\nNAME :- e(1).\n"
    "input relation e(x: int)\np(1) :- NAME.\n",
    "with columns": "input relation NAME(x: int)\np(X) :- NAME(X).\n",
    "with a column": "input relation e(NAME: int, y: int) primary key (NAME)\np(X) :- e(X, _).\n",
    "with a location": "input relation NAME(@x: int, y: int) symmetric\np(@X) :- NAME(@X, _).\n",
    "qualified": "input relation A.NAME\ninput relation NAME.B(x: int)\np(X) :- NAME.B(X), A.NAME.\n",
    "derived": "relation NAME\np(1) :- NAME.\nNAME.\n",
    "derived, not declared": "NAME(1).\noutput NAME.\np(X) :- NAME(X).\n",
    "output": "output relation NAME(x: int)\nNAME(1).\np(X) :- NAME(X).\n",
    "label": "NAME: p(1).\n",
    "variable": "input relation e(x: int, y: int)\np(NAME) :- e(NAME, Y), NAME > Y, !e(Y, NAME).\n",
    "aggregate": "input relation e(x: int, y: int)\np(min<NAME>) :- e(NAME, _).\n"
    "q(X, count<distinct NAME>) :- e(X, NAME).\noutput q.\n",
    "path": "input relation NAME(x: int, y: int)\np(X) :- NAME+(X, _), (NAME | ^NAME)*(X, X).\n",
}


@pytest.mark.parametrize("place", PLACES)
def test_words_are_names(place: str) -> None:
    """A word of declarations is a name wherever a name stands; nothing is said that is not said of another name."""
    words = sorted({*KEYWORDS} - {"not", "true", "false", "null"})
    assert len(words) > 12
    heard = {word: names_heard(PLACES[place] + "output p.\n", word) for word in (*words, "other")}
    assert {word: said for word, said in heard.items() if said != heard["other"]} == {}
    assert "error" not in heard["other"]


def names_heard(text: str, word: str) -> str:
    """What is said of a program with a word in the place of NAME."""
    program, _, diagnostics = front(text.replace("NAME", word))
    said = re.sub(rf"\b{word}\b", "NAME", rendered(diagnostics, program))
    return "\n".join(line for line in said.splitlines() if not re.match(r" *-->| *\d* \|", line))
