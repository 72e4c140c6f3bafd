"""NDlog: what becomes of programs, what is refused, and random programs printed in NDlog and read back."""

from __future__ import annotations

import contextlib
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from flintlog.compiler.cli import main
from flintlog.compiler.diagnostics import CompileError, Diagnostics
from flintlog.compiler.frontend import read_program
from flintlog.compiler.frontend.ndlog.reader import read
from flintlog.compiler.functions import FUNCTIONS, Signature
from flintlog.compiler.ir import syntax
from flintlog.compiler.ir.syntax_printer import syntax_text
from flintlog.compiler.pipeline import run_passes
from flintlog.compiler.source import SourceFile

from golden_tests.checks import Checked, insertions
from golden_tests.frontend.golden import rendered
from golden_tests.harness import ImportedJob
from golden_tests.nightly import AT_NIGHT, one_in, seeds
from golden_tests.oracle.random_programs import random_batches, random_inputs, random_program
from golden_tests.packed import Case, cases_of, check, loader
from golden_tests.passes.test_large_programs import FEW, MOST, calls

from .halves import problems_of, rows_of
from .print_ndlog import EXPRESSIBLE, printed

HERE = Path(__file__).parent / "ndlog"
PROGRAMS = cases_of(HERE / "programs.txt")
REFUSED = cases_of(HERE / "refused.txt")


def program_of(case: Case) -> tuple[syntax.SyntaxProgram, Diagnostics]:
    """Read the program of a case."""
    files, diagnostics = loader(case), Diagnostics()

    def load(name: str) -> SourceFile | None:
        text = files(name)
        return None if text is None else SourceFile(name, text)

    return read(SourceFile("program.olg", case.program), diagnostics, load), diagnostics


@pytest.mark.parametrize("case", PROGRAMS, ids=lambda case: case.name)
def test_programs(case: Case, update_golden: bool) -> None:
    """A program in Flintlog's language, its rows, and the same from a part of its facts."""
    program, diagnostics = program_of(case)
    assert diagnostics.items == []
    text = syntax_text(program)
    again = read_program(SourceFile("program.dl", text), diagnostics)
    assert syntax_text(again) == text, "the program in Flintlog's language reads as another one"
    check(HERE / "programs.txt", case, {"flintlog": text, "rows": rows_of(program)}, update_golden)


@pytest.mark.parametrize("case", one_in(PROGRAMS, 9))
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
    """A random program of the oracle, printed in NDlog, reads as the same program, and its job agrees."""
    rng = random.Random(seed)
    text = random_program(rng, EXPRESSIBLE)
    original = read_program(SourceFile("program.dl", text), Diagnostics())
    ndlog, diagnostics = printed(original, rng), Diagnostics()
    found = read(SourceFile("program.olg", ndlog), diagnostics, lambda name: None)
    assert [item for item in diagnostics.items if item.severity == "error"] == [], ndlog
    compilation = run_passes(found, Diagnostics())
    typed, expected = compilation.typed, run_passes(original, Diagnostics()).typed
    used = {relation.name for relation in typed.relations}
    assert {relation.name: [str(column.type) for column in relation.columns] for relation in typed.relations} == {
        relation.name: [str(column.type) for column in relation.columns]
        for relation in expected.relations
        if relation.name in used
    }, ndlog
    job = ImportedJob(compilation)
    try:
        checked = Checked(job, text, compilation)
        inputs = random_inputs(rng, checked.program)
        batches = [insertions(inputs), *random_batches(rng, checked.program, inputs, 2)]
        for batch in batches:
            known = {name: changes for name, changes in batch.items() if name in used}
            assert checked.apply(known, recount=False) == [], ndlog
    finally:
        job.close()


#: What joins the types of variables, as lists and as elements.
JOINED = (
    *("{0} = f_concat({1}, {2})", "{0} = f_init({1}, {2})", "{0} = f_append({1})", "{0} = [{1}, {2}]", "{0} == {1}"),
    *("f_member({0}, {1}) == 1", "f_first({0}) == {1}", "f_concatPath({0}, {1}) == {2}", "f_size({0}) > {1}"),
    *("{0} = {1} + {2}", "{0} = {1} + 1"),
)


@pytest.mark.parametrize("seed", seeds(8, 12))
def test_inferred_types_end(seed: int) -> None:
    """Whatever a body does with lists, no column is a list of itself: if something is wrong, it is a use of a value."""
    rng = random.Random(seed)
    body = [rng.choice(JOINED).format(*rng.choices("ABCD", k=3)) for _ in range(rng.randint(1, 6))]
    text = "materialize(a, infinity, infinity, keys(1)).\nmaterialize(b, infinity, infinity, keys(1)).\n"
    text += f"b(@A, B, C, D) :- a(@{', '.join(rng.sample('ABCD', 4))}), {', '.join(body)}.\n"
    diagnostics = Diagnostics()
    program = read(SourceFile("program.olg", text), diagnostics, lambda name: None)
    with contextlib.suppress(CompileError):
        run_passes(program, diagnostics)
    assert all(item.code.startswith("E03") for item in diagnostics.items), text


@pytest.mark.parametrize(
    "signature", [signature for function in FUNCTIONS.values() for signature in function.signatures], ids=str
)
@pytest.mark.parametrize("types", [dict.fromkeys("TON", "int"), {**dict.fromkeys("TO", "string"), "N": "float"}])
def test_results_of_functions(signature: Signature, types: dict[str, str]) -> None:
    """A column that nothing declares has the type of the function that computes it."""
    decimal = {"decimal": "decimal(10,2)"}
    kinds = [re.sub(r"\w+", lambda word: (types | decimal).get(word[0], word[0]), str(p)) for p in signature.parameters]
    declared = "".join(f", x{place}: {kind}" for place, kind in enumerate(kinds))
    given = [f"X{place}" for place, _ in enumerate(kinds)]
    text = f"//: input relation a(@h: string{declared})\nmaterialize(a, infinity, infinity, keys()).\n"
    text += "materialize(b, infinity, infinity, keys(1)).\n"
    name = str(signature).partition("(")[0]
    text += f"b(@H, R) :- a(@{', '.join(['H', *given])}), R = {name}({', '.join(given)}).\n"
    diagnostics = Diagnostics()
    run_passes(read(SourceFile("program.olg", text), diagnostics, lambda name: None), diagnostics)
    assert [item for item in diagnostics.items if item.severity == "error"] == [], text


@AT_NIGHT
def test_inference_is_linear() -> None:
    """For twice the operations and lists whose types are open no function is called much more than twice as often."""
    rules = (
        *(f"materialize({name}{{n}}, infinity, infinity, keys(1, 2))." for name in "pquvw"),
        "r{n} p{n}(@S, C) :- q{n}(@S, A, B), C = A + B.",
        "s{n} u{n}(@S, P) :- v{n}(@S, A), w{n}(@S, Q), P = f_concat(A, Q).",
    )

    def work(count: int) -> None:
        text = "\n".join(rule.format(n=n) for n in range(count) for rule in rules)
        diagnostics = Diagnostics()
        read(SourceFile("program.ndlog", text), diagnostics, lambda name: None)
        assert not diagnostics.failed

    work(2)
    once, twice = (calls(lambda count=count: work(count)) for count in (20, 40))
    found = {what: (once[what], count) for what, count in twice.items() if count > max(MOST * once[what], FEW)}
    assert found == {}


def test_nodes(tmp_path: Path) -> None:
    """Protocols run on nodes: after each burst of changes, all tables equal those of a single evaluation."""
    cables = [("a", "b", 1), ("b", "a", 1), ("b", "c", 2), ("c", "b", 2), ("a", "c", 9), ("c", "a", 9)]
    insertions = ", ".join(f'insert cable("{one}", "{other}", {cost})' for one, other, cost in cables)
    changes = tmp_path / "changes.dat"
    changes.write_text(f'start;\n{insertions};\ncommit;\nstart;\ndelete cable("a", "b", 1);\ncommit;\n')
    for name in ("all_paths", "one_of_equal_paths"):
        text = next(case.program for case in PROGRAMS if case.name == name)
        program = tmp_path / f"{name}.olg"
        program.write_text(re.sub(r"^cable\(@.*\n", "", text, flags=re.MULTILINE))
        command = ["simulate", str(program), "--nodes", "3", "--changes", str(changes)]
        done = CliRunner().invoke(main, command)
        assert done.exit_code == 0, done.output
        assert done.output.count("equal to the single evaluation") == 2, name
