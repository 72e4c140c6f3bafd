"""Soufflé: what becomes of programs, what is refused, and random programs printed in Soufflé and read back."""

from __future__ import annotations

import contextlib
import random
from dataclasses import replace
from pathlib import Path

import pytest
from flintlog.compiler.diagnostics import CompileError, Diagnostics
from flintlog.compiler.editor.converter import converted
from flintlog.compiler.frontend import read_program
from flintlog.compiler.frontend.souffle.reader import read
from flintlog.compiler.ir import syntax
from flintlog.compiler.pipeline import run_passes
from flintlog.compiler.source import SourceFile

from golden_tests.checks import Checked, insertions
from golden_tests.frontend.golden import rendered
from golden_tests.harness import ImportedJob
from golden_tests.nightly import by_day, one_in, seeds
from golden_tests.oracle.evaluate import evaluate
from golden_tests.oracle.language import parse
from golden_tests.oracle.random_programs import random_batches, random_inputs, random_program
from golden_tests.packed import Case, cases_of, check, loader

from .halves import problems_of, rows_of
from .print_souffle import EXPRESSIBLE, printed

HERE = Path(__file__).parent / "souffle"
PROGRAMS = cases_of(HERE / "programs.txt")
REFUSED = cases_of(HERE / "refused.txt")


def program_of(case: Case) -> tuple[syntax.SyntaxProgram, Diagnostics]:
    """Read the program of a case."""
    files, diagnostics = loader(case), Diagnostics()

    def load(name: str) -> SourceFile | None:
        text = files(name)
        return None if text is None else SourceFile(name, text)

    return read(SourceFile("program.souffle", case.program), diagnostics, load), diagnostics


@pytest.mark.parametrize("case", PROGRAMS, ids=lambda case: case.name)
def test_programs(case: Case, update_golden: bool) -> None:
    """A program in Flintlog's own language, which is read as the same program, and its rows."""
    program, diagnostics = program_of(case)
    assert diagnostics.items == []
    check(HERE / "programs.txt", case, {"flintlog": converted(program), "rows": rows_of(program)}, update_golden)


@pytest.mark.parametrize(
    "text",
    [
        ".comp Base<T> { .decl kept(x: T) } .comp Derived : Base<Name> { .type Name <: symbol } .init i = Derived",
        ".comp User<T> { .decl kept(x: T) } .comp Name { .type Own <: symbol }"
        " .comp Whole { .init user = User<name.Own> .init name = Name } .init whole = Whole",
    ],
)
def test_types_behind_their_use(text: str) -> None:
    """An argument of a component may be a type that a derived component or a later instance declares."""
    program, diagnostics = program_of(Case("types", "types", text))
    (relation,) = run_passes(program, diagnostics).typed.relations
    assert [item for item in diagnostics.items if item.severity == "error"] == []
    assert [column.type.name for column in relation.columns] == ["string"]


def test_the_preprocessor_keeps_places_and_texts() -> None:
    """Blanks behind lines do not move what follows them, and no characters of a text stand for others."""
    lines = (
        "#define LIMIT 3  ",
        ".decl a(x: number, y: symbol)\t",
        ".output a",
        'a(1, "so??!").',
        "a(y, _) :- z > LIMIT.",
    )
    program, diagnostics = program_of(Case("blanks", "blanks behind lines", "\n".join(lines)))
    with contextlib.suppress(CompileError):
        run_passes(program, diagnostics)
    places = {(item.span.line, item.span.column) for item in diagnostics.items if item.span}
    assert places == {(5, 3), (5, 6), (5, 12)}
    program, diagnostics = program_of(Case("texts", "a text", "\n".join(lines[:4])))
    assert diagnostics.items == [] and rows_of(program) == 'a(1, "so??!")\n'


@by_day(5)
@pytest.mark.parametrize("case", one_in(PROGRAMS, 3))
def test_halves(case: Case) -> None:
    """A program that starts from a part of its facts and gets and loses others has the rows of its evaluation."""
    assert problems_of(program_of(case)[0], seed=len(case.program)) == []


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)
def test_refused(case: Case, update_golden: bool) -> None:
    """What is reported about a program, by the frontend and by the passes, with places in its own text."""
    program, diagnostics = program_of(case)
    with contextlib.suppress(CompileError):
        run_passes(replace(program, complete=not diagnostics.failed), diagnostics)
    found = rendered(diagnostics, program)
    assert "error[" in found
    check(HERE / "refused.txt", case, {"diagnostics": found}, update_golden)


@by_day(1)
@pytest.mark.parametrize("seed", seeds(4, 19))
def test_random_programs(seed: int) -> None:
    """A random program of the oracle, printed in Soufflé, has the same relations, whatever batches come, and what is
    printed of it in Flintlog's own language does, too."""
    rng = random.Random(seed)
    text = random_program(rng, EXPRESSIBLE)
    original = run_passes(read_program(SourceFile("program.dl", text), Diagnostics()), Diagnostics())
    columns = {r.name: [str(column.type) for column in r.columns] for r in original.typed.relations}
    souffle, diagnostics = printed(original.syntax, columns, rng), Diagnostics()
    found = read(SourceFile("program.souffle", souffle), diagnostics, lambda name: None)
    assert diagnostics.items == [], souffle
    compilation = run_passes(found, diagnostics)
    assert {r.name: columns.get(r.name) or [str(c.type) for c in r.columns] for r in compilation.typed.relations} == {
        r.name: [str(column.type) for column in r.columns] for r in compilation.typed.relations
    }, souffle
    program = parse(text)
    inputs = random_inputs(rng, program)
    job = ImportedJob(compilation)
    try:
        checked = Checked(job, converted(found), compilation)
        for batch in [insertions(inputs), *random_batches(rng, program, inputs, 2)]:
            assert checked.apply(batch, recount=False) == [], souffle
            if not checked.refused:
                expected = evaluate(program, checked.inputs)
                assert {name: checked.state[name] for name in expected} == expected, souffle
    finally:
        job.close()
