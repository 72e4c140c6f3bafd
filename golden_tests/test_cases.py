"""Golden cases: one folder per case under ``cases/``, named after what it shows.

A case is a program, the text of every stage of its compilation, its script, and batches: ``00_init`` builds the state,
the others change it (``REL.csv``, with ``op`` in front). What must come of a batch lies beside it: ``expected/REL.csv``
has the net changes of an output relation, ``whole/REL.csv`` all of it afterwards, and ``expected/refused.txt`` the
message where the batch is refused. ``--update-golden`` writes all that anew; yet a batch passes only if the oracle,
which knows nothing of the compiler, comes to the same, so that nothing is recorded that was not checked.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from flintlog.compiler.pipeline import STAGES, Compilation, compile_program
from flintlog.targets.pyspark.emit import emit_script

from golden_tests.checks import Checked
from golden_tests.frontend.golden import compare
from golden_tests.harness import VERSION, LocalJob, MemoryJob, Row, compile_text
from golden_tests.oracle.batches import Batch

CASES = sorted(path.parent for path in Path(__file__).parent.glob("cases/*/program.dl"))


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
    """The text of every stage."""
    (case / "stages").mkdir(exist_ok=True)
    for stage in STAGES:
        compare(compiled(case).dump(stage), case / "stages" / f"{stage}.txt", update_golden)
    assert {path.stem for path in (case / "stages").iterdir()} == set(STAGES)


@pytest.mark.parametrize("case", CASES, ids=by_name)
def test_script(case: Path, update_golden: bool) -> None:
    """The formatted script."""
    compare(emit_script(compiled(case).plan, VERSION), case / "script.py", update_golden)


def test_all_kinds_of_strata_are_there() -> None:
    """Some case has each kind of stratum, bucketed and gathered."""
    found = {
        (stratum.stratum.kind, stage.bucketed)
        for case in CASES
        for stage in compiled(case).plan.stages
        for stratum in stage.strata
    }
    assert found == set(itertools.product(("aggregate", "counted", "extremal", "ranked"), (False, True)))


# ---- batches -------------------------------------------------------------------------------------------------------


def parsed(text: str, kind: str) -> Any:
    """A value of a column type."""
    if kind.startswith("list<"):
        element = kind.removeprefix("list<").removesuffix(">")
        return tuple(parsed(printed(item), element) for item in json.loads(text, parse_float=Decimal))
    match kind.partition("(")[0]:
        case "int":
            return int(text)
        case "float":
            return float(text)
        case "decimal":
            return Decimal(text)
        case "bool":
            return {"true": True, "false": False}[text]
        case "date":
            return date.fromisoformat(text)
        case "timestamp":
            return datetime.fromisoformat(text)
    assert kind == "string"
    return text


def printed(value: Any) -> str:
    """A value as :func:`parsed` reads it; lists as JSON."""
    if isinstance(value, tuple | list):
        return json.dumps(value, default=printed, ensure_ascii=False)
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_table(path: Path, relation: Any) -> list[tuple[str, Row]]:
    """The changes in a file; all insertions if it has no ``op`` in front."""
    names, kinds = [c.name for c in relation.columns], [c.type for c in relation.columns]
    with path.open(encoding="utf-8", newline="") as file:
        header, *lines = csv.reader(file)
    assert header in (names, ["op", *names]), f"{path} has the columns {header}"
    changes = []
    for line in lines:
        op, values = (line[0], line[1:]) if len(header) > len(names) else ("+", line)
        changes.append((op, tuple(parsed(text, kind) for text, kind in zip(values, kinds, strict=True))))
    return changes


def table_text(header: list[str], rows: list[list[Any]]) -> str:
    """A table as CSV, rows sorted."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([[printed(value) for value in row] for row in rows])
    return out.getvalue()


def read_batch(folder: Path, job: LocalJob | MemoryJob) -> Batch:
    """The changes of a batch."""
    batch: Batch = {}
    for path in sorted(folder.glob("*.csv")):
        batch[path.stem] = read_table(path, job.relation(path.stem))
    return batch


def outcome(checked: Checked, initial: bool) -> dict[str, str]:
    """The files that show what came of a batch."""
    if checked.refused:
        return {"expected/refused.txt": checked.refused + "\n"}
    files = {}
    for relation in checked.job.program.relations:
        if not relation.output:
            continue
        names = [column.name for column in relation.columns]
        changes = sorted(checked.job.changes[relation.table], key=lambda change: (change[1], change[0]))
        if not initial:
            rows: list[list[Any]] = [[op, *row] for op, row in changes]
            files[f"expected/{relation.name}.csv"] = table_text(["op", *names], rows)
        tuples = sorted(checked.job.tuples(relation))
        files[f"whole/{relation.name}.csv"] = table_text(names or ["()"], [list(row or ["()"]) for row in tuples])
    return files


def functions_of(case: Path) -> Path | None:
    """The file with the external functions of a case, if it has any."""
    path = case / "functions.py"
    return path if path.exists() else None


def played(case: Path, folder: Path, buckets: int | None) -> Iterator[tuple[Path, Checked]]:
    """Run a case over its batches, each checked against the oracle: its script, or without buckets in memory."""
    job: LocalJob | MemoryJob
    if buckets is None:
        job = MemoryJob(compiled(case), functions_of(case))
    else:
        script = (case / "script.py").read_text(encoding="utf-8")
        job = LocalJob(script, folder, buckets, functions_of(case))
    try:
        checked = Checked(job, whole_text(case), compiled(case))
        for batch in sorted((case / "batches").iterdir()):
            problems = checked.apply(read_batch(batch, job))
            assert not problems, f"{batch.name}: " + "\n".join(problems)
            yield batch, checked
    finally:
        job.close()


@pytest.mark.parametrize("buckets", [1, 3, None], ids=["1", "3", "memory"])
@pytest.mark.parametrize("case", CASES, ids=by_name)
def test_batches(case: Path, buckets: int | None, tmp_path: Path, update_golden: bool) -> None:
    """State and published changes after every batch: as expected, and as the oracle has them."""
    names = [path.name for path in sorted((case / "batches").iterdir())]
    assert [int(name[:2]) for name in names] == list(range(len(names))) and len(names) > 1
    for batch, checked in played(case, tmp_path / "state", buckets):
        files = outcome(checked, initial=batch.name == "00_init")
        for name, text in files.items():
            if update_golden:
                (batch / name).parent.mkdir(exist_ok=True)
            compare(text, batch / name, update_golden)
        present = {str(path.relative_to(batch)) for path in batch.glob("*/*")}
        if update_golden:
            for name in present - set(files):
                (batch / name).unlink()
        else:
            assert present == set(files)


# ---- the papers' examples, by their numbers ------------------------------------------------------------------------


def after(name: str, batches: int, tmp_path: Path) -> LocalJob:
    """The job of a case after so many of its batches; its state stays readable."""
    case = next(case for case in CASES if case.name == name)
    job = LocalJob((case / "script.py").read_text(encoding="utf-8"), tmp_path / f"{name}-{batches}")
    for batch in sorted((case / "batches").iterdir())[:batches]:
        job.run(read_batch(batch, job))
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
    with pytest.raises(job.module.JobError, match=r"no end after 20 rounds.*nothing was changed"):
        job.run({"n": [("+", (2,)), ("-", (-9,))]})
    assert job.manifest == manifest
    assert job.run({"n": [("+", (-3,)), ("-", (-9,))]})["m"] == {("-", (x,)) for x in (-9, -7, -5)}
    job.close()
