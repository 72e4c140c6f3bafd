"""Golden cases: one folder per case under ``cases/``, named after what it shows.

A case is ``program.dl``, the text of every stage of its compilation (``stages.txt``), and batches of changes
(``batches.dat``), the first of which builds the state. The comments behind a batch say what comes of it: the net
changes of the output relations, or the message where it is refused. The cases ``SCRIPTS`` have the program part of
their script (``script.py``), one of them the modules of the runtime in a script with their lines (``modules.txt``).
``--update-golden`` writes all that anew; yet a batch passes only if the oracle, which knows nothing of the compiler,
comes to the same changes and the same relations, so that nothing is recorded that was not checked.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import black
import flintlog
import pytest
from flintlog.compiler.pipeline import STAGES, Compilation, compile_program
from flintlog.runtime.kernel import model
from flintlog.targets.pyspark import print_sql
from flintlog.targets.pyspark.emit import emit_script, format_script, job_templates, program_part
from flintlog.targets.pyspark.lower import lower
from flintlog.targets.pyspark.python import WIDTH
from sqlglot import tokenize
from sqlglot.generator import Generator

from golden_tests.batch_files import changes_text, read_batches, with_outcomes
from golden_tests.checks import Checked
from golden_tests.frontend.golden import compare
from golden_tests.harness import VERSION, LocalJob, MemoryJob, Row, compile_text
from golden_tests.nightly import AT_NIGHT, by_day
from golden_tests.oracle.batches import Batch

CASES = sorted(path.parent for path in Path(__file__).parents[1].glob("cases/*/program.dl"))


#: The cases that have their script: together, they have each kind of stratum.
SCRIPTS = (
    *("reachability", "hops", "negation", "mutual_recursion", "shortest_paths", "counting_up"),
    *("aggregate_of_everything", "sums_in_recursion"),
)


def by_name(case: Path) -> str:
    """The name of a case in test reports."""
    return case.name


@cache
def compiled(case: Path) -> Compilation:
    """A case's program."""
    return compile_program(case / "program.dl")


def whole_text(case: Path) -> str:
    """The program with its includes filled in, as the oracle reads it."""

    def included(match: re.Match[str]) -> str:
        return (case / match[1]).read_text(encoding="utf-8")

    text = (case / "program.dl").read_text(encoding="utf-8")
    return re.sub(r'^include "(.*)"$', included, text, flags=re.MULTILINE)


# ---- text ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=by_name)
def test_stages(case: Path, update_golden: bool) -> None:
    """The text of every stage, one after the other, each that differs from the one before it."""
    lines, before = [], ""
    for stage in STAGES:
        text = compiled(case).dump(stage)
        heading = f"# ---- {stage}{', unchanged' * (text == before)} ".ljust(101, "-")
        lines.append(f"{heading}\n{text * (text != before)}")
        before = text
    compare("".join(lines), case / "stages.txt", update_golden)


@pytest.mark.parametrize("case", [case for case in CASES if case.name in SCRIPTS], ids=by_name)
def test_script(case: Path, update_golden: bool) -> None:
    """The program part of the script, formatted."""
    part, _ = program_part(job_templates(), compiled(case).plan, VERSION, True)
    compare(f"{part}\n", case / "script.py", update_golden)


#: Programs whose values and names mean something where they are printed.
HOSTILE = {
    "facts": """p("{facts}", 1).  p("{x}", 2).  p("\\"\\"\\"", 3).  p("\\\\", 4).  p("{{", 5).
        output q.  q(X, N) :- p(X, N), X != "{facts}".""",
    "names": """input relation Program(Relation: int, self: string)  output relation Both(id: int)
        input relation Rule(class: int, _v1: int, _w1: list<int>)  output relation Stratum(program: int, lambda: string)
        Stratum(X, Y) :- Program(X, Y), Rule(X, X, _).  Both(X) :- Stratum(X, _), !Rule(X, _, [1]).""",
    "wide": f"""input relation e(x: string)  output p.
        p(X, "\u2028\\"'", count<*>) :- e(X), X != "{"日本語" * 11}".""",
    "breaks": r"""input relation e(x: string)  output p.  p(X) :- e(X), X != "it's\nWHERE\n  1", X < "\n (\n  x".""",
}


@by_day(24)
@pytest.mark.parametrize("spark", [True, False], ids=["both engines", "DuckDB"])
@pytest.mark.parametrize("case", [*CASES, *HOSTILE], ids=lambda case: getattr(case, "name", case))
def test_printed_program(case: Path | str, spark: bool) -> None:
    """A script builds the program that was lowered, and is formatted as black alone would do it."""
    plan = (compiled(case) if isinstance(case, Path) else compile_text(HOSTILE[case])[0]).plan
    part, _ = program_part(job_templates(), plan, VERSION, False, spark)
    names = dict(vars(model))
    exec(compile(part, "<program>", "exec"), names)
    assert names["program"]() == lower(plan, VERSION, spark).program
    function = part[part.index("def program()") : part.index("\n\n\n# ---- what only")] + "\n"
    assert format_script(function) == black.format_str(function, mode=black.Mode(line_length=WIDTH))


@by_day(8)
@pytest.mark.parametrize("case", [*CASES, "breaks"], ids=lambda case: getattr(case, "name", case))
def test_clauses_on_one_line(case: Path | str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query has the same tokens whether its clauses are on one line or on several."""
    printed, count = print_sql._printed, 0

    def checked(tree: Any, dialect: Any) -> str:
        nonlocal count
        count += 1
        plain = print_sql._generator(dialect).generate(tree)
        found = printed(tree, dialect)
        before, after = ([(t.token_type, t.text) for t in tokenize(text, dialect)] for text in (plain, found))
        assert after == before
        return found

    monkeypatch.setattr(print_sql, "_printed", checked)
    plan = (compiled(case) if isinstance(case, Path) else compile_text(HOSTILE[case])[0]).plan
    program_part(job_templates(), plan, VERSION, False)
    assert count


@pytest.mark.parametrize("text", [Generator().SENTINEL_LINE_BREAK, "{facts}", "{columns}", "%s", ":x", "a\nb"])
def test_words_of_printers(text: str) -> None:
    """Words that stand for something while queries are printed and run are strings like others."""
    program = f"""output p.  p({json.dumps(text)}).  p("\\n").
        output q.  q(X, Y) :- p(X), X = {json.dumps(text)}, Y = "it's\\n" ++ X."""
    tables = flintlog.evaluate(program, {})
    assert sorted(tables["p"]) == sorted([("\n",), (text,)])
    assert list(tables["q"]) == [(text, f"it's\n{text}")]


def test_modules_of_a_script(update_golden: bool) -> None:
    """A script as users get it: its lines, and those of each module of the runtime in it."""
    case = next(case for case in CASES if case.name == SCRIPTS[0])
    script = emit_script(compiled(case).plan, VERSION, parts=())
    sections = re.split(r"^# ---- runtime: (\S+), [0-9a-f]{12} -+$", script, flags=re.MULTILINE)
    lines = [f"{text.count(chr(10)):6,}  {name}" for name, text in zip(sections[1::2], sections[2::2], strict=True)]
    compare(
        "\n".join([f"{script.count(chr(10)):6,}  the whole script", *lines, ""]), case / "modules.txt", update_golden
    )


@cache
def script_of(case: Path) -> str:
    """The script of a case, not formatted."""
    return emit_script(compiled(case).plan, VERSION, format_code=False)


def test_all_kinds_of_strata_are_there() -> None:
    """Some case has each kind of stratum, bucketed and gathered, and some script each kind."""
    kinds = {
        (stratum.stratum.kind, stage.bucketed, case.name in SCRIPTS)
        for case in CASES
        for stage in compiled(case).plan.stages
        for stratum in stage.strata
    }
    every = ("acyclic", "aggregate", "counted", "extremal", "ranked")
    assert {kind[:2] for kind in kinds} == set(itertools.product(every, (False, True)))
    assert {kind for kind, _, in_script in kinds if in_script} == set(every)


# ---- batches -------------------------------------------------------------------------------------------------------


def functions_of(case: Path) -> Path | None:
    """The file with the external functions of a case, if it has any."""
    path = case / "functions.py"
    return path if path.exists() else None


def played(case: Path, folder: Path, buckets: int | None) -> Iterator[tuple[str, Checked]]:
    """Run a case over its batches, each checked against the oracle: its script, or without buckets in memory."""
    job: LocalJob | MemoryJob
    if buckets is None:
        job = MemoryJob(compiled(case), functions_of(case))
    else:
        job = LocalJob(script_of(case), folder, buckets, functions_of(case))
    if buckets != 1:
        # With one bucket, strata are computed from scratch where that is cheaper.
        job.use_strategy("incremental")
    try:
        checked = Checked(job, whole_text(case), compiled(case))
        for name, batch in batches_of(case, job).items():
            problems = checked.apply(batch)
            assert not problems, f"{name}: " + "\n".join(problems)
            yield name, checked
    finally:
        job.close()


def batches_of(case: Path, job: LocalJob | MemoryJob) -> dict[str, Batch]:
    """The batches of a case by name."""
    return read_batches(case / "batches.dat", job.program)


@pytest.mark.parametrize(
    ("case", "buckets"),
    [
        pytest.param(case, count, id=f"{case.name}-{count or 'memory'}", marks=() if count in by_day else AT_NIGHT)
        for case, by_day in zip(CASES, itertools.cycle([(None,), (None,), (3,), (None,), (None,), (1,)]), strict=False)
        for count in (1, 3, None)
    ],
)
def test_batches(case: Path, buckets: int | None, tmp_path: Path, update_golden: bool) -> None:
    """What comes of every batch, as expected and as the oracle has it."""
    outcomes = {}
    for name, checked in played(case, tmp_path / "state", buckets):
        changes = changes_text(checked.job.program.relations, checked.job.changes)
        outcomes[name] = [checked.refused] if checked.refused else list(changes)
    assert [int(name[:2]) for name in outcomes] == list(range(len(outcomes))) and len(outcomes) > 1
    file = case / "batches.dat"
    compare(with_outcomes(file.read_text(encoding="utf-8"), outcomes), file, update_golden)


def test_cases_have_nothing_else() -> None:
    """No file is left over that no test reads."""
    for case in CASES:
        usual = {"program.dl", "stages.txt", "batches.dat"} | ({"script.py"} if case.name in SCRIPTS else set())
        found = {path.name for path in case.iterdir()} - {"__pycache__"}
        assert usual <= found and found - usual <= {"functions.py", "modules.txt", *included(case)}, case.name


def included(case: Path) -> list[str]:
    """What a case's program includes: files beside it, or folders with them."""
    text = (case / "program.dl").read_text(encoding="utf-8")
    return [Path(name).parts[0] for name in re.findall(r'^include "(.*)"$', text, re.MULTILINE)]


# ---- the papers' examples, by their numbers ------------------------------------------------------------------------


def after(name: str, batches: int, tmp_path: Path) -> LocalJob:
    """The job of a case after a number of its batches; its state stays readable."""
    case = next(case for case in CASES if case.name == name)
    job = LocalJob(script_of(case), tmp_path / f"{name}-{batches}")
    for batch in list(batches_of(case, job).values())[:batches]:
        job.run(batch)
    return job


def counts(job: LocalJob, name: str) -> dict[Row, int]:
    """The stored numbers of derivations of a relation."""
    return job.counts(job.relation(name))


def test_printed_views_of_hops(tmp_path: Path) -> None:
    """The views that Nigam et al. print in section 3.3, before the update and after it.

    The paper counts tri_hop(a, h) once per derivation of hop(a, c), since it knows bags only; here hop is a set at the
    border of its stratum, and tri_hop(a, h) has the one derivation from hop(a, c) and link(c, h).
    """
    before = after("hops", 1, tmp_path)
    assert counts(before, "hop") == {("a", "c"): 2, ("d", "h"): 1, ("b", "h"): 1}
    assert counts(before, "tri_hop") == {("a", "h"): 1}
    updated = after("hops", 2, tmp_path)
    assert counts(updated, "hop") == dict.fromkeys(
        (("a", "c"), ("a", "f"), ("a", "g"), ("d", "h"), ("b", "h"), ("d", "g")), 1
    )
    assert counts(updated, "tri_hop") == {("a", "h"): 1, ("a", "g"): 1}


def test_one_derivation_of_one_relation_twice(tmp_path: Path) -> None:
    """``p@1 :- t@1, t@1``: the insertion of t derives p once."""
    assert counts(after("one_relation_twice", 2, tmp_path), "p") == {(): 1}


def test_run_of_figure_1_leaves_nothing(tmp_path: Path) -> None:
    """The run of figure 1 ends without p, s and t."""
    job = after("four_nodes", 2, tmp_path)
    assert [job.rows(name) for name in "pst"] == [set()] * 3
    assert job.changes["p"] == set()


def test_detectable_frauds(tmp_path: Path) -> None:
    """Bonifati et al., example 3: the views before and after, and the delta update."""
    before = {(6, 0), (3, 0)}
    gained = {(0, 2), (2, 0), (0, 5)}
    assert after("detectable_frauds", 1, tmp_path).rows("detectable") == before
    job = after("detectable_frauds", 2, tmp_path)
    assert job.rows("detectable") == before | gained
    assert job.changes["detectable"] == {("+", row) for row in gained}


def test_wildcards_multiply(tmp_path: Path) -> None:
    """A tuple per tuple that the wildcard stands for."""
    assert counts(after("wildcards_count", 1, tmp_path), "starts") == {(1,): 2, (2,): 1}
    assert counts(after("wildcards_count", 1, tmp_path / "2"), "pairs") == {(1, 2): 2}


def every_three(options: list[Any]) -> list[Any]:
    """A sequence in which any three of the options follow each other somewhere, in every order."""
    wanted = set(itertools.product(options, repeat=3))
    made = [options[0]] * 3
    while wanted - set(zip(made, made[1:], made[2:], strict=False)):
        seen = set(zip(made, made[1:], made[2:], strict=False))
        made.append(next((o for o in options[::-1] if (made[-2], made[-1], o) not in seen), options[0]))
    return made


@by_day(1)
@pytest.mark.parametrize(
    "text",
    [
        "input relation a@1  output p.\np@1 :- a@1.\np@1 :- p@1.\n",
        "input relation a@0  output p.  output q.\np@1 :- a@0.\nq@2 :- p@1.\np@1 :- q@2.\n",
    ],
    ids=["rule_of_itself", "cycle_of_two"],
)
def test_updates_of_a_cycle_in_every_order_and_batching(text: str, tmp_path: Path) -> None:
    """INS(a) and DEL(a), alone and in one batch, three batches in every order (Nigam et al., appendix B).

    A batch has no order of its own: a that is both deleted and inserted in it is there if ``net`` says so.
    """
    compilation, script = compile_text(text)
    job = LocalJob(script, tmp_path / "state")
    job.net = "insert"
    checked = Checked(job, text, compilation)
    assert checked.build({}) == []
    for number, batch in enumerate(every_three(["-", "+", "+-"])):
        changes = [(op, ()) for op in (batch if number % 2 else reversed(batch))]
        assert checked.apply({"a": changes}) == []
        assert job.rows("p") == ({()} if "+" in batch else set())
    job.net = ""
    assert checked.apply({"a": [("-", ()), ("+", ())]}) == []
    assert checked.refused.startswith("refused, nothing has changed:\n  a: the row () is both deleted and inserted\n")
    job.close()


def test_recursion_without_end_is_refused(tmp_path: Path) -> None:
    """A recursion that invents values for ever stops at the round limit; the batch is refused, the next one applied."""
    job = LocalJob(
        compile_text("input relation n(x: int)  output m.  m(X) :- n(X).  m(X + 2) :- m(X), X != 1.")[1], tmp_path
    )
    job.options = replace(job.options, max_rounds=20)
    assert job.run({"n": [("+", (-9,))]})["m"] == {("+", (x,)) for x in range(-9, 2, 2)}
    manifest = job.manifest
    with pytest.raises(job.module.JobError, match=r"not finished after 20 rounds.*nothing was changed"):
        job.run({"n": [("+", (2,)), ("-", (-9,))]})
    assert job.manifest == manifest
    assert job.run({"n": [("+", (-3,)), ("-", (-9,))]})["m"] == {("-", (x,)) for x in (-9, -7, -5)}
    job.close()
