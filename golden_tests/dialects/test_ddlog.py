"""DDlog: what becomes of programs, what is refused, and random programs printed in DDlog and read back."""

from __future__ import annotations

import contextlib
import random
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from flintlog.compiler.cli import main
from flintlog.compiler.diagnostics import CompileError, Diagnostics
from flintlog.compiler.frontend import read_program
from flintlog.compiler.frontend.ddlog.reader import read
from flintlog.compiler.ir import syntax
from flintlog.compiler.ir.syntax_printer import syntax_text
from flintlog.compiler.pipeline import run_passes
from flintlog.compiler.source import SourceFile

from golden_tests.checks import insertions
from golden_tests.frontend.golden import rendered
from golden_tests.harness import ImportedJob
from golden_tests.nightly import by_day, one_in, seeds
from golden_tests.oracle.batches import apply
from golden_tests.oracle.evaluate import evaluate
from golden_tests.oracle.language import parse
from golden_tests.oracle.random_programs import random_batches, random_inputs, random_program
from golden_tests.packed import Case, cases_of, check, loader

from .halves import problems_of, rows_of
from .print_ddlog import EXPRESSIBLE, Inexpressible, named, printed

HERE = Path(__file__).parent / "ddlog"
PROGRAMS = cases_of(HERE / "programs.txt")
WRITTEN = cases_of(HERE / "written.txt")
REFUSED = cases_of(HERE / "refused.txt")


def program_of(case: Case) -> tuple[syntax.SyntaxProgram, Diagnostics]:
    """Read the program of a case."""
    files, diagnostics = loader(case), Diagnostics()

    def load(name: str) -> SourceFile | None:
        text = files(name)
        return None if text is None else SourceFile(name, text)

    return read(SourceFile("program.ddlog", case.program), diagnostics, load), diagnostics


@pytest.mark.parametrize("case", PROGRAMS, ids=lambda case: case.name)
def test_programs(case: Case, update_golden: bool) -> None:
    """A program in Flintlog's language, its rows, and the same from a part of its facts."""
    program, diagnostics = program_of(case)
    assert not diagnostics.failed
    warnings = rendered(diagnostics, program)
    text = syntax_text(program)
    again = read_program(SourceFile("program.dl", text), diagnostics)
    assert syntax_text(again) == text, "the program in Flintlog's language reads as another one"
    made = {"warnings": warnings} if warnings or "warnings" in case.parts else {}
    check(HERE / "programs.txt", case, {"flintlog": text, "rows": rows_of(program)} | made, update_golden)


@pytest.mark.parametrize("case", WRITTEN, ids=lambda case: case.name)
def test_written(case: Case) -> None:
    """A program as people write them, with rows that were worked out by hand."""
    program, diagnostics = program_of(case)
    assert not diagnostics.failed
    assert rows_of(program) == case.parts["rows"]


@pytest.mark.parametrize("case", one_in([*PROGRAMS, *WRITTEN], 18))
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


@pytest.mark.parametrize("seed", seeds(2, 19))
def test_random_programs(seed: int) -> None:
    """A random program of the oracle that DDlog can express, printed in it, reads as the same program."""
    rng = random.Random(seed)
    while True:
        text = random_program(rng, EXPRESSIBLE)
        original = read_program(SourceFile("program.dl", text), Diagnostics())
        with contextlib.suppress(Inexpressible):
            ddlog = printed(original, run_passes(original, Diagnostics()).typed, rng)
            break
    diagnostics = Diagnostics()
    found = read(SourceFile("program.ddlog", ddlog), diagnostics, lambda name: None)
    assert diagnostics.items == [], ddlog
    compilation = run_passes(found, diagnostics)
    program = parse(text)
    inputs = random_inputs(rng, program)
    job = ImportedJob(compilation)
    try:
        for batch in [insertions(inputs), *random_batches(rng, program, inputs, 2)]:
            inputs = apply(inputs, batch, program) if job.manifest else inputs
            state = evaluate(program, inputs)
            job.run({named(name): changes for name, changes in batch.items()})
            for name, rows in state.items():
                assert job.rows(named(name)) == set(rows), ddlog
            assert job.differences() == []
    finally:
        job.close()


def test_commands(tmp_path: Path) -> None:
    """Command files name structures and tuples, by position and by name; what does not fit the types is refused."""
    program, commands = tmp_path / "p.ddlog", tmp_path / "p.dat"
    program.write_text("""typedef point_t = Point{x: u8, y: s8}
typedef colour_t = Red | Green
input relation P(id: u16, p: point_t, t: (colour_t, bool)) primary key (r) r.id
output relation Q(id: u16, p: point_t, c: colour_t)
Q(i, p, t.0) :- P(i, p, t), t.1.
""")
    commands.write_text("""start;
insert P(1, Point{1, -2}, (Red, true)), insert P(.id = 2, .t = (Green, true), .p = Point{.y = 3, .x = 4});
commit dump_changes;
start;
insert_or_update P(1, Point{255, 0}, (Red, true)), delete_key P 2;
commit dump_changes;
dump Q;
start;
insert P(3, Point{256, 0}, (Red, true));
commit;
""")
    done = CliRunner().invoke(main, ["replay", str(program), str(commands)])
    assert (
        done.stdout
        == """Q:
Q{.id = 1, .p_x = 1, .p_y = -2, .c = "Red"}: +1
Q{.id = 2, .p_x = 4, .p_y = 3, .c = "Green"}: +1
Q:
Q{.id = 1, .p_x = 1, .p_y = -2, .c = "Red"}: -1
Q{.id = 1, .p_x = 255, .p_y = 0, .c = "Red"}: +1
Q{.id = 2, .p_x = 4, .p_y = 3, .c = "Green"}: -1
Q{.id = 1, .p_x = 255, .p_y = 0, .c = "Red"}
"""
    )
    assert done.exit_code == 1 and "P_out_of_range" in done.stderr


@by_day(3)
@pytest.mark.parametrize(
    ("opened", "closed", "item"),
    [
        ("(", ")", "y"),
        ("if (x == 0) {1} else {", "}", "y"),
        ("if (x == 0) 1 else ", "", "y"),
        ("if (x == 0) {if (x == 1) {", "} else {2}} else {1}", "y"),
        ("same(if (x == 0) {1} else {", "})", "y"),
        ("x + ", "", "y"),
        ("not (", ")", "condition"),
        ("x == 1 and ", "", "condition"),
        ("(x == 1 or x == 2 and ", ")", "condition"),
    ],
)
def test_deep_nesting(opened: str, closed: str, item: str) -> None:
    """Expressions of any depth are read, or refused for their depth."""
    outcomes = []
    for depth in (10, 60, 290, 700):
        value = f"{opened * depth}{'x' if item == 'y' else 'x == 3'}{closed * depth}"
        rule = f"O(x) :- E(x), {value}." if item == "condition" else f"O(y) :- E(x), var y = {value}."
        text = f"""
        input relation E(x: u32)
        output relation O(x: u32)
        function same(x: u32): u32 {{ x }}
        {rule}
        """
        diagnostics = Diagnostics()
        read(SourceFile("program.ddlog", text), diagnostics, lambda name: None)
        outcomes.append([one.code for one in diagnostics.items if one.code.startswith("E")])
    assert outcomes[0] == [] and outcomes[-1] == ["E0711"]
    assert all(codes in ([], ["E0711"]) for codes in outcomes)
