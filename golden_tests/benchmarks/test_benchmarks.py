"""What the benchmarks are made of, on tiny data: programs, queries, batches of changes, tables and pictures."""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from flintlog.compiler.pipeline import compile_program
from flintlog.compiler.source import SourceFile

from golden_tests.harness import MemoryJob
from golden_tests.nightly import AT_NIGHT, by_day

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
MODULES = (
    *("checksum", "comparison", "contenders", "duckdb_answers", "generators", "in_session", "measure", "network"),
    *("report", "results", "workloads"),
)
NAMES = ("cyclic", "forward", "same generation", "points-to", "orders", "shortest paths", "bill of materials")
BATCHES = (("some", 0.05), ("many", 0.5), ("two", 2))


@pytest.fixture(scope="module")
def bench() -> Iterator[Any]:
    """The modules of the benchmarks, which are scripts in a folder."""
    known = set(sys.modules)
    sys.path.insert(0, str(BENCHMARKS))
    yield SimpleNamespace(**{name: importlib.import_module(name) for name in MODULES})
    sys.path.remove(str(BENCHMARKS))
    for name in set(MODULES) - known:
        sys.modules.pop(name)


def workload_named(bench: Any, name: str) -> Any:
    """The tiny workload of a name."""
    return next(workload for workload in bench.workloads.TINY if workload.name == name)


def answers_in_duckdb(bench: Any, workload: Any, step: Any, way: str) -> dict[str, set[tuple[int, ...]]]:
    """The answers of a step from scratch."""
    with duckdb.connect(config={"threads": 1}) as connection:
        for name, rows in step.tables.items():
            table = pa.table(bench.workloads.columns_of(workload, name, rows))
            connection.register("given", table)
            connection.execute(f"CREATE TABLE {name} AS FROM given")
        bench.duckdb_answers.WAYS[workload.program][way](connection)
        answers = {}
        for name, columns in workload.answers.items():
            rows = connection.execute(f"SELECT {', '.join(columns)} FROM {name}").fetchall()
            assert len(rows) == len(set(rows)), f"{name} has a row twice"
            answers[name] = set(rows)
        return answers


def changes_of(step: Any) -> dict[str, list[tuple[str, tuple[int, ...]]]]:
    """The batch of a step, the whole relations for the first one."""
    if not step.inserted:
        return {name: [("+", tuple(row)) for row in rows.tolist()] for name, rows in step.tables.items()}
    return {
        name: [
            *(("-", tuple(row)) for row in step.deleted[name].tolist()),
            *(("+", tuple(row)) for row in rows.tolist()),
        ]
        for name, rows in step.inserted.items()
    }


def test_every_size_has_the_same_workloads(bench: Any) -> None:
    """Results of a name are of one kind, and each has its queries and a program for each contender."""
    for workloads in (bench.workloads.WORKLOADS, bench.workloads.QUICK, bench.workloads.TINY):
        assert tuple(workload.name for workload in workloads) == NAMES
    loops = (BENCHMARKS / "hand_loops.py").read_text(encoding="utf-8")
    for workload in bench.workloads.TINY:
        assert workload.source.exists()
        assert workload.program in bench.duckdb_answers.WAYS
        assert f'    "{workload.program}": {workload.program},' in loops
        without = workload.program in bench.workloads.WITHOUT_SOUFFLE
        assert (BENCHMARKS / "souffle" / f"{workload.program}.dl").exists() != without


@by_day(2)
@pytest.mark.parametrize("name", NAMES)
def test_program_and_queries_agree(bench: Any, name: str) -> None:
    """After every step the maintained relations are those of each query, and what is published is their difference."""
    workload = workload_named(bench, name)
    text = workload.source.read_text(encoding="utf-8")
    job = MemoryJob(compile_program(SourceFile(workload.source.name, text)))
    before: dict[str, set[tuple[int, ...]]] = {answer: set() for answer in workload.answers}
    for step in bench.workloads.steps(workload, BATCHES):
        published = job.run(changes_of(step))
        for way in bench.duckdb_answers.WAYS[workload.program]:
            expected = answers_in_duckdb(bench, workload, step, way)
            for answer, rows in expected.items():
                assert rows, "nothing to compare"
                assert job.rows(answer) == rows, (step.name, way, answer)
                appeared = {("+", row) for row in rows - before[answer]}
                disappeared = {("-", row) for row in before[answer] - rows}
                assert published[answer] == appeared | disappeared
        before = expected
    assert job.differences() == []
    job.close()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("apart", [False, True])
def test_batches(bench: Any, name: str, apart: bool) -> None:
    """Deletions remove what is there, insertions bring what is not, as many of the one as of the other."""
    workload = workload_named(bench, name)
    made = list(bench.workloads.steps(workload, BATCHES, apart))
    before = made[0]
    for step, (_, share) in zip(made[1:], BATCHES, strict=True):
        changed = 0
        for relation, rows in before.tables.items():
            old, new = set(map(tuple, rows.tolist())), set(map(tuple, step.tables[relation].tolist()))
            gone = set(map(tuple, step.deleted.get(relation, rows[:0]).tolist()))
            come = set(map(tuple, step.inserted.get(relation, rows[:0]).tolist()))
            assert gone <= old and not come & old
            assert new == (old - gone) | come
            assert len(old) == len(rows) and len(gone) == len(come)
            changed += len(gone) + len(come)
        total = sum(len(rows) for relation, rows in made[0].tables.items() if relation != "source")
        assert changed == step.changes == max(2, 2 * round((total * share if share < 1 else share) / 2))
        before = made[0] if apart else step
    for one, other in zip(made, bench.workloads.steps(workload, BATCHES, apart), strict=True):
        assert all((one.tables[relation] == rows).all() for relation, rows in other.tables.items())


def test_full_size(bench: Any) -> None:
    """Rows of the inputs at full size, without drawing them."""
    assert [workload.title for workload in bench.workloads.WORKLOADS] == [
        "closure of a cyclic graph, 20,000 edges",
        "closure of a forward graph, 100,000 edges",
        "same generation on a tree of 12,200 nodes",
        "points-to, 50,000 program facts",
        "three-way join with negation and a count, 5,000,000 rows",
        "shortest paths with min, 1,000,000 edges",
        "bill of materials with sum, 1,000,000 links, depth 20",
    ]


@pytest.mark.parametrize("name", NAMES[1:-1])
def test_souffle_declarations(bench: Any, name: str) -> None:
    """Programs for Soufflé read and write the relations of the workload, columns in their order."""
    workload = workload_named(bench, name)
    text = (BENCHMARKS / "souffle" / f"{workload.program}.dl").read_text(encoding="utf-8")
    declared = {
        found[1]: tuple(re.findall(r"(\w+): number", found[2])) for found in re.finditer(r"\.decl (\w+)\((.*?)\)", text)
    }
    for direction, relations in (("input", workload.inputs), ("output", workload.answers)):
        assert set(re.findall(rf"\.{direction} (\w+)", text)) == set(relations)
        assert relations.items() <= declared.items()


@pytest.mark.parametrize("name", ["forward", "same generation", "points-to"])
def test_souffle_rules(bench: Any, name: str) -> None:
    """Where the language is the same, the rules for Soufflé give what the query gives."""
    workload = workload_named(bench, name)
    text = (BENCHMARKS / "souffle" / f"{workload.program}.dl").read_text(encoding="utf-8")
    kinds = dict.fromkeys(workload.inputs, "input relation") | dict.fromkeys(workload.answers, "output relation")
    text = re.sub(r"\.decl (\w+)", lambda found: f"{kinds[found[1]]} {found[1]}", text.replace(": number", ": int"))
    text = re.sub(r"^\.(in|out)put .*$", "", text, flags=re.MULTILINE)
    job = MemoryJob(compile_program(SourceFile(workload.source.name, text)))
    step = next(bench.workloads.steps(workload))
    job.run(changes_of(step))
    expected = answers_in_duckdb(bench, workload, step, next(iter(bench.duckdb_answers.WAYS[workload.program])))
    assert {answer: job.rows(answer) for answer in workload.answers} == expected
    job.close()


def test_checksum(bench: Any) -> None:
    """The order of rows does not matter, which values stand together in a row and column does."""
    checksum = bench.checksum
    with duckdb.connect() as connection:
        known = {
            rows: checksum.answer(connection, f"(VALUES {rows}) AS t(a, b)", ("a", "b"))
            for rows in ("(1, 2), (3, 4)", "(3, 4), (1, 2)", "(2, 1), (3, 4)", "(1, 4), (3, 2)", "(1, 2)")
        }
    one, turned, *others = known.values()
    assert one == turned and one.rows == 2
    assert len({one, *others}) == 4
    assert (one - known["(1, 2)"]).rows == 1


def test_limit(bench: Any, tmp_path: Path) -> None:
    """A command that takes too long is ended, with its children."""
    measure = bench.measure
    command = (sys.executable, "-c", "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])")
    with pytest.raises(measure.OutOfTime) as found:
        measure.run(("sh", "-c", "sleep 30 & sleep 30"), tmp_path / "log", limit=0.3)
    assert 0.3 <= found.value.measured.seconds < 10
    assert measure.run((*command[:2], "print(1)"), tmp_path / "log", limit=60).output == "1\n"


def test_states_in_one_file(bench: Any, tmp_path: Path) -> None:
    """Scripts with a database and a view in a process give DuckDB's answers after each step."""
    comparison = bench.comparison.Comparison(tmp_path, ("database", "installed", "embedded"), 60)
    comparison.workload(workload_named(bench, "points-to"), BATCHES[:2])
    found = [(one.contender, one.step) for one in comparison.results]
    assert found == [
        ("database", "init"),
        ("installed", "init"),
        *(("database", step) for step in ("some", "many")),
        ("embedded", "some"),
        ("embedded", "many"),
    ]
    assert all(one.processor > 0 for one in comparison.results)
    rows = {one.step: one.rows for one in comparison.results if one.contender == "database"}
    assert all(one.rows == rows[one.step] for one in comparison.results)


def measured_example(bench: Any) -> Any:
    """Results of each kind."""
    results, report = bench.results, bench.report
    comparison = [
        results.Result("cyclic", "duckdb", "init", 3.0, 2.0, 100.0, 7),
        results.Result("cyclic", "here", "init", 4.5, 4.2, 100.0, 7),
        results.Result("cyclic", "warm", "init", 4.0, 4.0, 100.0, 7),
        results.Result("cyclic", "in session", "init", 4.0, 4.0, 300.0, 7),
        results.Result("cyclic", "by hand", "init", 80.0, 80.0, 900.0, 0, ended=True),
        results.Result("cyclic", "duckdb", "apply 1 %", 3.0, 2.5, 100.0, 9),
        results.Result("cyclic", "in session", "apply 1 %", 0.1, 0.1, 300.0, 9, parts={"spark": 0.02, "rules": 0.05}),
        results.Result("compile 100 rules", "compiler", "formatted", 2.0, None, 80.0, 100),
    ]
    scaling = [
        results.Scaled("forward", 10, 100, 4, 1.0, [0.1, 0.2, 0.3], "here"),
        results.Scaled("forward", 10, 100, 4, 0.9, [0.1, 0.1, 0.3], "warm"),
        results.Scaled("forward", 100, 1_000, 4, 5.0, [0.3, 0.4, 0.5], "here"),
        results.Scaled("forward", 100, 1_000, 4, 4.0, [0.4, 0.4, 0.5], "warm"),
    ]
    strategies = [
        results.Strategy("closure", share, 4, strategy, seconds)
        for share, strategy, seconds in ((0.01, "incremental", 0.5), (0.01, "recompute", 2.0), (0.1, "recompute", 2.5))
    ]
    distributed = [
        results.Distributed("closure", "init", 1_000, 1_000, 7, 20.4, 9.6, 3_072, 1_234.5),
        results.Distributed("closure", "verify", 1_000, 0, 0, 10.0, 5.0, 3_072, 999.0),
    ]
    batches = [
        results.Batch("closure", step, changes, contender, seconds, 99.6)
        for step, changes, slower in (("init", 0, 1.0), ("apply 1 %", 10, 0.5))
        for contender, seconds in (
            ("duckdb", 2.0),
            ("queries, cold", 4.0 * slower),
            ("matrices, cold", 3.0 * slower),
            ("queries, warm", 2.0 * slower),
            ("matrices, warm", 0.25 * slower),
        )
    ]
    database = [
        results.Result("cyclic", "duckdb", "init", 3.0, 2.0, 100.0, 7, processor=4.0),
        results.Result("cyclic", "database", "init", 9.0, 8.0, 100.0, 7, processor=8.0),
        results.Result("cyclic", "database", "apply 1 %", 0.2, 0.1, 100.0, 9, processor=0.1),
        results.Result("cyclic", "here", "apply 1 %", 1.0, 0.9, 100.0, 9, processor=2.0),
    ]
    return report.Measured({"cores": 2}, comparison, scaling, strategies, distributed, batches, database)


def test_tables(bench: Any, tmp_path: Path) -> None:
    """Numbers and ratios, written to a document that a second writing leaves as it is."""
    grids = bench.report.grids(measured_example(bench), {"cyclic": "a closure"})
    assert [grid.name for grid in grids] == [
        "processes",
        "workloads",
        "memory",
        "parts",
        "database",
        "scaling",
        "strategies",
        "batches",
        "rounds",
        "compiler",
    ]
    assert grids[0].rows == [
        ("a closure", "init", "7", "4.50", "4.00", "3.00", "1.50 x", "1.5 x or 2 s", "1.33 x", ""),
    ]
    assert grids[1].rows == [
        ("a closure", "init", "7", "", "", "4.00", "2.00", "", "over 80", "2.00 x", "", "under 0.050 x", ""),
        ("", "apply 1 %", "9", "", "", "0.10", "2.50", "", "", "0.040 x", "", "under 0.001 x", "0.025 x"),
    ]
    assert grids[3].rows == [("", "apply 1 %", "0.10", "0.00", "0.02", "0.00", "0.05", "0.00", "0.03")]
    assert grids[4].rows == [
        ("a closure", "init", "7", "", "8.00 / 9.00", "", "", "", "4.00 / 2.00", "", "", "2 x", "", ""),
        ("", "apply 1 %", "9", "2.00 / 1.00", "0.100 / 0.200", "", "", "", "", "0.05 x", "", "", "", ""),
    ]
    assert grids[5].rows[1] == ("", "100", "1,000", "4", "5.00", "0.40", "2.0 x", "0.40", "4.0 x", "10.0 x")
    assert grids[6].rows == [("closure", "1 %", "4", "0.50", "2.00"), ("", "10 %", "4", "", "2.50")]
    assert grids[7].rows == [
        ("closure", "init", "", "2.00", "4.00", "3.00", "2.00", "0.25", "1.50 x", "0.12 x", "100"),
        ("", "apply 1 %", "10", "2.00", "2.00", "1.50", "1.00", "0.12", "0.75 x", "0.06 x", "100"),
    ]
    assert grids[8].rows == [
        ("closure", "init", "1,000", "1,000", "7", "20", "10", "3,072", "1,234"),
        ("", "verify", "1,000", "0", "0", "10", "5", "3,072", "999"),
    ]
    document = tmp_path / "performance.md"
    document.write_text((BENCHMARKS.parent / "docs" / "performance.md").read_text(encoding="utf-8"), encoding="utf-8")
    bench.report.write_document(document, grids)
    first = document.read_text(encoding="utf-8")
    assert "| a closure | init | 7 |" in first
    bench.report.write_document(document, grids)
    assert document.read_text(encoding="utf-8") == first


def test_aims(bench: Any) -> None:
    """What is missed depends on the size of the view, on the step, and on how long DuckDB takes."""
    results = bench.results

    def row(step: str, rows: int, here: float, warm: float, duckdb: float) -> tuple[str, str]:
        said = [("here", here), ("warm", warm), ("duckdb", duckdb)]
        grid = bench.report.processes_grid([results.Result("w", n, step, s, s, 1.0, rows) for n, s in said], {})
        (found,) = grid.rows
        return found[7], found[9]

    assert row("init", 5, 2.0, 9.9, 0.1) == ("1.5 x or 2 s", "")
    assert row("init", 5, 3.1, 0.1, 2.0) == ("1.5 x or 2 s (missed)", "")
    assert row("apply 1 %", 5, 1.3, 0.1, 1.0) == ("1.2 x or 1 s (missed)", "")
    assert row("apply 1 %", 5, 1.0, 0.1, 0.1) == ("1.2 x or 1 s", "")
    assert row("apply 0.01 %", 5, 0.8, 9.9, 0.1) == ("1 x or 0.8 s", "")
    assert row("apply 0.01 %", 10**8, 0.5, 0.3, 1.0) == ("0.4 x (missed)", "0.2 x (missed)")
    assert row("apply 0.01 %", 10**8, 0.4, 0.2, 1.0) == ("0.4 x", "0.2 x")


@AT_NIGHT
def test_pictures(bench: Any, tmp_path: Path) -> None:
    """The same results give the same bytes, without a date."""
    pytest.importorskip("matplotlib")
    measured = measured_example(bench)
    first = bench.report.draw(measured, {}, tmp_path / "one")
    second = bench.report.draw(measured, {}, tmp_path / "two")
    assert [path.name for path in first] == [
        f"performance-{name}.svg" for name in ("workloads", "scaling", "strategies", "matrices")
    ]
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()
        assert b"dc:date" not in one.read_bytes()


def test_committed_results(bench: Any) -> None:
    """The results in the repository are those that the tables of the document show."""
    path = BENCHMARKS / "results.json"
    if not path.exists():
        pytest.skip("nothing was measured yet")
    known = json.loads(path.read_text(encoding="utf-8"))
    results, report = bench.results, bench.report
    measured = report.Measured(
        known["machine"],
        [results.Result(**one) for one in known["comparison"]],
        [results.Scaled(**one) for one in known["scaling"]],
        [results.Strategy(**one) for one in known["strategies"]],
        [results.Distributed(**one) for one in known["distributed"]],
        [results.Batch(**one) for one in known.get("batches", ())],
        [results.Result(**one) for one in known.get("database", ())],
    )
    document = (BENCHMARKS.parent / "docs" / "performance.md").read_text(encoding="utf-8")
    titles = {workload.name: workload.title for workload in bench.workloads.WORKLOADS}
    for grid in report.grids(measured, titles):
        assert grid.markdown() in document, grid.name


@AT_NIGHT
def test_networks(bench: Any, tmp_path: Path) -> None:
    """What nodes keep and send is the same in every run, and compared with a single evaluation; what takes too much is
    ended, and tables say so."""
    network = bench.network
    case = network.Case("reachable", "mesh", 3)
    measured = []
    for method, most in (("live proofs", 1000), ("derivation sets", 1000), ("derivation sets", 3)):
        run = network.Run(case, method, most)
        measured.append(list(run.measure()))
        run.close()
    proofs, sets, ended = measured
    assert [one.step for one in proofs] == [one.step for one in sets] == ["build", "link down", "link up", "node down"]
    assert [one.result for one in proofs] == [one.result for one in sets] == [9, 9, 9, 4]
    assert proofs[0].entries == 27 < sets[0].entries
    assert [(one.step, one.ended) for one in ended] == [("build", "over 3 entries")]
    both = network.merged(network.merged([], ended), [*proofs, *sets])
    assert {*both} == {*proofs, *sets}
    assert [network.Measurement(**one) for one in json.loads(network.as_json(both))] == both
    (row,) = network.cost_grid(both).rows
    assert row[:4] == ("reachable", "mesh of 3", "9", "27")
    (row,) = network.sets_grid([*proofs, *ended]).rows
    assert row[:3] == ("mesh of 3", "27", "over 3 entries")


def test_networks_one_way(bench: Any) -> None:
    """Links go both ways or one way, at the same cost; each shape is connected."""
    for case in bench.network.CASES:
        links, pairs = case.links(), case.pairs()
        assert len({row[:2] for row in links}) == len(links) == len(pairs) * (1 if case.one_way else 2)
        assert {node for pair in pairs for node in pair} == set(range(case.nodes))
        costs = {row[:2]: row[2:] for row in links}
        assert case.one_way or all(costs[b, a] == cost for (a, b), cost in costs.items())


def test_committed_networks(bench: Any) -> None:
    """The results in the repository are those that the document shows."""
    measured = bench.network.load(BENCHMARKS / "network.json")
    assert bench.network.as_json(measured) == (BENCHMARKS / "network.json").read_text(encoding="utf-8")
    document = (BENCHMARKS.parent / "docs" / "processes.md").read_text(encoding="utf-8")
    for grid in (bench.network.cost_grid(measured), bench.network.sets_grid(measured)):
        assert grid.markdown() in document, grid.name
    cases = [(case, method) for case in bench.network.CASES for method in bench.network.METHODS]
    wanted = {(case.program, case.network, method) for case, method in cases if bench.network.is_measured(case, method)}
    assert {(one.program, one.network, one.method) for one in measured} == wanted
