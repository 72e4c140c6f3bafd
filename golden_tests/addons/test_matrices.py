"""Recursions as products of matrices: the same tuples, ranks that the invariant allows, and the way back to queries."""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import random
import subprocess
import sys
import tempfile
import types
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import graphblas
import pytest
from flintlog.evaluation import _ColumnSession
from flintlog.runtime.addons.matrices import pairs, selection
from pyspark import cloudpickle

from golden_tests.checks import Checked, insertions
from golden_tests.harness import LocalJob, MatricesJob, MemoryMatricesJob, TaskJob, compile_text
from golden_tests.nightly import AT_NIGHT, NIGHTLY, by_day, one_in, seeds
from golden_tests.oracle.language import Row
from golden_tests.oracle.random_chains import chain_scenario, weighted_scenario

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLOSURE = """
input relation link(a: string, b: string)
output relation path(a: string, b: string)
path(X, Y) :- link(X, Y).
path(X, Y) :- link(X, Z), path(Z, Y).
"""
SAME = """
input relation link(a: string, b: string)
output relation same(a: string, b: string)
same(X, Y) :- link(X, P), link(Y, P), X != Y.
same(X, Y) :- link(X, P), same(P, Q), link(Y, Q), X != Y.
"""
TWO = """
input relation link(a: string, b: string)
output relation odd(a: string, b: string)
output relation even(a: string, b: string)
odd(X, Y) :- link(X, Y).
odd(X, Y) :- even(X, Z), odd(Z, Y).
even(X, Y) :- odd(Z, X), odd(Z, Y).
"""


ENGINES = ("matrices", "spark", "duckdb")
#: How many batches random programs get.
BATCHES = 10 if NIGHTLY else 5


@contextlib.contextmanager
def job_of(text: str, buckets: int = 1, kind: type[LocalJob] = MatricesJob) -> Iterator[Any]:
    """A job over a state of its own."""
    with tempfile.TemporaryDirectory() as folder:
        job = kind(compile_text(text)[1], Path(folder), buckets)
        try:
            yield job
        finally:
            job.close()


def has_equations(job: Any) -> bool:
    """Whether matrices can compute anything of a job."""
    return any(stratum.equations for stage in job.program.stages for stratum in stage.strata)


def multiply_by_rows(job: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut products that have several entries, as if they were too large for memory."""
    monkeypatch.setattr(job.module, "BLOCKS", 10**15)


@by_day(1)
@pytest.mark.parametrize("seed", seeds(2, 25))
def test_random_chains(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines hand a state to each other after every batch; the oracle recounts every support."""
    scenario, rng = chain_scenario(seed, batches=BATCHES), random.Random(seed)
    with job_of(scenario.text, 1 + seed % 3) as job:
        if seed % 3 == 1:
            job.seem_large()
        if seed % 2:
            multiply_by_rows(job, monkeypatch)
        checked, used = Checked(job, scenario.text, compile_text(scenario.text)[0]), list[str]()
        for number, batch in enumerate([insertions(scenario.inputs), *scenario.batches]):
            engine = rng.choice(("matrices", "matrices", "auto", "duckdb")) if number else "matrices"
            job.use_strategy(rng.choice(("recompute", "incremental", "incremental", "incremental", "auto")))
            job.options = replace(job.options, engine=engine)
            assert checked.apply(batch, recount=number in (0, len(scenario.batches))) == [], (number, str(scenario))
            used += job.algebra
        assert not any("given up" in how for how in used), str(scenario)
        # Else a rule is no chain: such as one that reads a tuple between the ends of another.
        assert used or not has_equations(job), str(scenario)


@pytest.mark.parametrize("seed", seeds(1, 12))
def test_random_chains_in_memory(seed: int) -> None:
    """Sessions compute with matrices what they compute from scratch, and go on with queries."""
    scenario, rng = chain_scenario(seed, batches=BATCHES), random.Random(seed)
    compilation, _ = compile_text(scenario.text)
    job = MemoryMatricesJob(compilation)
    checked, used = Checked(job, scenario.text, compilation), list[str]()
    for number, batch in enumerate([insertions(scenario.inputs), *scenario.batches]):
        job.use_strategy(rng.choice(("recompute", "incremental", "auto")))
        assert checked.apply(batch) == [], (number, str(scenario))
        used += job.algebra
    assert not any("given up" in how for how in used), str(scenario)
    assert used or not has_equations(job), str(scenario)
    job.close()


def test_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that the package evaluates with many facts have what matrices need, where the library is installed."""
    links = named(SHAPES["grid"])
    monkeypatch.setattr(selection, "FEW_PAIRS", 0)
    with _ColumnSession(CLOSURE, {"link": links}) as session:
        assert session._session.choice.algebra == {"path": "path = link + link × path"}
        assert set(session["path"]) == closed(links)
        link = next(iter(links))
        session.apply(delete={"link": [link]})
        assert set(session["path"]) == closed(links - {link})


def test_sessions_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Queries do all."""
    monkeypatch.setattr(selection, "FEW_PAIRS", 0)
    lack(monkeypatch, selection, "graphblas")
    with _ColumnSession(CLOSURE, {"link": {("a", "b"), ("b", "c")}}) as session:
        assert set(session["path"]) == {("a", "b"), ("b", "c"), ("a", "c")}
        assert session._session.choice.algebra == {}


@pytest.mark.parametrize("seed", seeds(0, 5))
def test_random_chains_in_spark(seed: int, spark: SparkSession, tmp_path: Path) -> None:
    """Tasks with matrices, tasks with queries, and rounds of Spark go on from what any of them has left."""
    scenario, rng = chain_scenario(seed, batches=4), random.Random(seed)
    compilation, script = compile_text(scenario.text)
    job = TaskJob(script, tmp_path / "state", spark, 1 + seed % 3)
    if seed % 2:
        job.seem_large()
    checked, used = Checked(job, scenario.text, compilation), list[str]()
    for number, batch in enumerate([insertions(scenario.inputs), *scenario.batches]):
        job.options = replace(job.options, engine=ENGINES[(seed + number) % 3])
        job.use_strategy(rng.choice(("recompute", "incremental", "auto")))
        assert checked.apply(batch) == [], (number, str(scenario))
        used += job.algebra
    job.close()
    # Batches that change nothing of a recursion need no matrices; building it does.
    assert used or seed % 3 or not has_equations(job), str(scenario)


@pytest.mark.parametrize("seed", seeds(1, 12))
def test_random_best_values(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Best values along chains, found with matrices, are those of the oracle, and queries go on from there."""
    scenario, rng = weighted_scenario(seed, batches=BATCHES - 1), random.Random(seed)
    compilation, _ = compile_text(scenario.text)
    with job_of(scenario.text, 1 + seed % 3) as job:
        if seed % 3 == 1:
            job.seem_large()
        if seed % 2:
            multiply_by_rows(job, monkeypatch)
        checked, used = Checked(job, scenario.text, compilation), list[str]()
        for number, batch in enumerate([insertions(scenario.inputs), *scenario.batches]):
            job.options = replace(job.options, engine=rng.choice(("matrices", "duckdb")) if number else "matrices")
            job.use_strategy(rng.choice(("recompute", "incremental", "auto")))
            assert checked.apply(batch) == [], (number, str(scenario))
            used += job.algebra
        assert not any("given up" in how for how in used), str(scenario)
        assert used or not has_equations(job), str(scenario)


SHORTEST = """
input relation road(a: int, b: int, length: int)
output relation far(a: int, b: int, most: int)
far(X, Y, min<C>) :- road(X, Y, C).
far(X, Y, min<C>) :- far(X, Z, A), road(Z, Y, B), C = A + B.
"""


@pytest.mark.parametrize("most", [2**63 - 1, -(2**63)])
def test_values_out_of_range(most: int) -> None:
    """Sums that may be out of range are left to queries, which refuse those that matter."""
    with job_of(SHORTEST) as job:
        job.run({"road": {("+", (1, 2, most)), ("+", (3, 4, 1))}})
        assert job.rows("far") == {(1, 2, most), (3, 4, 1)} and "too great" in job.algebra[0]
        job.use_strategy("recompute")
        with pytest.raises(job.module.JobError, match="overflow"):
            job.run({"road": {("+", (2, 5, 1 if most > 0 else -1))}})


def test_values_without_an_end() -> None:
    """A cycle that makes values better for ever is refused as it is without matrices."""
    with job_of(SHORTEST) as job:
        job.limit_rounds(30)
        with pytest.raises(job.module.JobError, match="not finished after 30 rounds"):
            job.run({"road": {("+", (1, 2, 1)), ("+", (2, 1, -2))}})


def named(pairs: set[tuple[int, int]]) -> set[Row]:
    """Links between nodes with names in an order that is not that of their numbers."""
    return {(f"n'{a * 7 % 1009}", f"n'{b * 7 % 1009}") for a, b in pairs}


SHAPES = {
    "line": {(n, n + 1) for n in range(150)},
    "ring": {(n, (n + 1) % 60) for n in range(60)},
    "star": {(0, n) for n in range(1, 200)},
    "mesh": {(a, b) for a in range(25) for b in range(25)},
    "grid": {(10 * a + b, 10 * a + b + step) for a in range(9) for b in range(9) for step in (1, 10)},
    "tree": {(n, (n - 1) // 3) for n in range(1, 120)},
    "loops": {(n, n) for n in range(30)},
    "nothing": set[tuple[int, int]](),
}


@by_day(1)
@pytest.mark.parametrize("text", one_in([CLOSURE, SAME, TWO], 3), ids=["closure", "same", "two"])
@pytest.mark.parametrize("shape", one_in(SHAPES, 3))
def test_shapes(text: str, shape: str) -> None:
    """Matrices find what queries find, with valid supports, and queries go on from there and back."""
    links = named(SHAPES[shape])
    with job_of(text) as job, job_of(text, kind=LocalJob) as other:
        outputs = [relation.name for relation in job.program.relations if relation.output]
        changes = {"link": {("+", link) for link in links}}
        later = {"link": {("-", link) for link in sorted(links)[::17]} | {("+", ("n'0", "n'new"))}}
        for batch, strategy in ((changes, "recompute"), (later, "incremental"), ({"link": undone(later)}, "recompute")):
            job.use_strategy(strategy)
            assert job.run(batch) == other.run(batch)
            assert {name: job.rows(name) for name in outputs} == {name: other.rows(name) for name in outputs}
            assert job.differences() == []


FAR = """
input relation link(a: int, b: int)
output relation path(a: int, b: int)
path(X, Y) :- link(X, Y).
path(X, Y) :- path(X, Z), link(Z, Y).
"""


@by_day(1)
@pytest.mark.parametrize("engine", ["auto", "matrices"])
@pytest.mark.parametrize(
    "numbers",
    [[2**63 - 1, -(2**63)], [2**63 - 1, 2**63 - 2], [-(2**63), 1 - 2**63], [2**30, -(2**30)], [2**31, -(2**31)]],
    ids=["ends", "most", "least", "far", "farther"],
)
def test_numbers_far_apart(numbers: list[int], engine: str) -> None:
    """Whole numbers that come later may be far from those that are there."""
    with job_of(FAR) as job:
        job.use_strategy("incremental")
        known = {(n, n + 1) for n in range(5)}
        batches = [{("+", link) for link in known}]
        batches += [{("+", (4, number)), ("+", (number, 0)), ("-", (2, 3))} for number in numbers]
        batches += [{("-", (4, number)), ("+", (2, 3))} for number in numbers]
        for number, batch in enumerate(batches):
            job.options = replace(job.options, engine=engine)
            stay_warm(job, number)
            job.run({"link": batch})
            known = (known - {row for op, row in batch if op == "-"}) | {row for op, row in batch if op == "+"}
            assert job.rows("path") == closed(known) and job.differences() == []


NAMED_AFTER = """
input relation link__after(a__after: string, why: string, b: string)
input relation link__absent(x: string)
output relation path(a: string, b: string)
path(X, Y) :- link__after(X, _, Y).
path(X, Y) :- link__after(X, "FROM q__after", Z), !link__absent(Z), path(Z, Y).
"""


def test_names_of_versions() -> None:
    """Relations, columns and values that look like versions of relations are not taken for such."""
    with job_of(NAMED_AFTER) as job:
        why = "FROM q__after"
        rows = {("a", why, "b"), ("b", why, "c"), ("c", why, "d"), ("c", "no", "e")}
        job.run({"link__after": {("+", row) for row in rows}, "link__absent": {("+", ("z",))}})
        job.use_strategy("incremental")
        assert ("a", "e") in job.rows("path")
        for number, (op, path) in enumerate((("+", False), ("-", True), ("+", False))):
            stay_warm(job, number)
            job.run({"link__absent": {(op, ("b",))}})
            assert job.algebra and "given up" not in job.algebra[0]
            assert (("a", "e") in job.rows("path")) == path and job.differences() == []


def test_places_of_removed_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Matrices do not grow with names that come and go: they are read anew before that."""
    with job_of(CLOSURE) as job:
        monkeypatch.setattr(job.module, "FEW_PLACES", 1)
        job.run({"link": {("+", ("a", "b")), ("+", ("b", "c"))}})
        job.use_strategy("incremental")
        sizes, before = [], set[tuple[str, str]]()
        for number in range(12):
            stay_warm(job, number)
            new = {("c", f"{number} {name}") for name in "xyz"}
            job.run({"link": {*(("+", link) for link in new), *(("-", link) for link in before)}})
            before = new
            kept = [held for engine, _ in job.warm.kept._engines.values() for held in engine.resident.values()]
            sizes += [held.own["path"].size for held in kept]
        assert job.rows("path") == closed({("a", "b"), ("b", "c"), *before}) and job.differences() == []
        assert len(sizes) >= 6 and max(sizes) <= 3 * 13 + 9


def stay_warm(job: Any, number: int) -> None:
    """Let a batch have the tables that the one before it has kept."""
    job.attempts = 3 * (number + 1)


def closed(links: set[Any]) -> set[Any]:
    """The closure of links."""
    found = set(links)
    while more := {(a, d) for a, b in found for c, d in links if b == c} - found:
        found |= more
    return found


@AT_NIGHT
def test_memory_of_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Matrices stay in memory once queries have taken as long as to read them, are dropped with the tables that they
    belong to, and the batch after that is right all the same."""
    links = named(SHAPES["grid"])
    with job_of(CLOSURE) as job:
        job.options = replace(job.options, engine="auto")
        job.run({"link": {("+", link) for link in links}})
        job.use_strategy("incremental")
        changes = [{("-", link)} for link in sorted(links)[::9]]
        used = []
        for number, change in enumerate([*changes, *({("+", link)} for ((_, link),) in changes)]):
            stay_warm(job, number)
            if number == 8:
                monkeypatch.setattr(job.module, "SHARE_OF_TASK", 0.0)
                job.warm.kept.close()
            job.run({"link": change})
            used += [job.algebra]
            assert job.differences() == []
        assert ["changes of path = link + link × path"] in used[:8]
        assert any(how.startswith("given up") and "memory" in how for hows in used[8:] for how in hows)
        assert job.rows("path") == closed(links)


def undone(batch: dict[str, set[tuple[str, Row]]]) -> set[tuple[str, Row]]:
    """The changes that undo a batch."""
    return {("+" if op == "-" else "-", row) for op, row in batch["link"]}


def lack(monkeypatch: pytest.MonkeyPatch, module: Any, package: str) -> None:
    """Let a module look for a package in vain."""
    find = module.importlib.util.find_spec
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None if name == package else find(name))


@pytest.mark.parametrize("package", ["graphblas", "suitesparse_graphblas"])
def test_without_the_library(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine says what is missing if it was asked for; otherwise queries do all."""
    batch = {"link": {("+", link) for link in named(SHAPES["ring"])}}
    with job_of(CLOSURE) as job:
        monkeypatch.setattr(job.module, "FEW_PAIRS", 0)
        lack(monkeypatch, job.module, package)
        with pytest.raises(job.module.JobError, match="pip install python-graphblas"):
            job.run(batch)
        job.options = replace(job.options, engine="auto")
        job.run(batch)
        assert len(job.rows("path")) == 3600 and job.algebra == []


def test_a_library_that_does_not_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """Queries do all, and the log has the reason."""
    batch = {"link": {("+", link) for link in named(SHAPES["ring"])}}

    class Broken(types.ModuleType):
        """GraphBLAS whose backend cannot be loaded."""

        def __getattr__(self, name: str) -> Any:
            raise ImportError("libgraphblas.so: cannot open shared object file")

    broken = Broken("graphblas")
    broken.__spec__ = graphblas.__spec__
    with job_of(CLOSURE) as job:
        monkeypatch.setitem(sys.modules, "graphblas", broken)
        job.run(batch)
        (how,) = job.algebra
        assert len(job.rows("path")) == 3600 and how.startswith("given up: GraphBLAS does not load (libgraphblas.so")


def test_scripts_without_numpy(tmp_path: Path) -> None:
    """A script that has the part for matrices runs where NumPy and GraphBLAS are missing."""
    (tmp_path / "closure.py").write_text(compile_text(CLOSURE)[1])
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    for name in ("numpy", "graphblas", "suitesparse_graphblas"):
        (hidden / f"{name}.py").write_text(f'raise ModuleNotFoundError("No module named {name}", name="{name}")')
    (tmp_path / "link.csv").write_text("a,b\nx,y\ny,z\n")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "closure.py", *arguments, "--state", "state"]
        environment = {**os.environ, "PYTHONPATH": str(hidden)}
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    made = run("init", "--input", "link.csv")
    assert made.returncode == 0, made.stderr
    assert run("show", "path").stdout.splitlines()[2:] == ["x  y", "x  z", "y  z"]


def test_libraries_travel_to_tasks() -> None:
    """What is loaded later is loaded in the process of a task, whether or not it was in the one that sends the task."""
    sent = pairs.LoadedLater("numpy")
    assert pickle.loads(cloudpickle.dumps(sent)).zeros(2).tolist() == [0, 0]
    assert sent.ones(1).tolist() == [1] and pickle.loads(cloudpickle.dumps(sent)).ones(1).tolist() == [1]


def test_fewer_rounds_of_queries() -> None:
    """Where matrices need more rounds than are allowed, queries, which double paths, decide."""
    line = {("+", link) for link in named({(n, n + 1) for n in range(60)})}
    with job_of(CLOSURE) as job:
        job.limit_rounds(12)
        job.run({"link": line})
        assert len(job.rows("path")) == 60 * 61 // 2 and "rounds" in job.algebra[0]
        job.limit_rounds(5)
        job.use_strategy("recompute")
        with pytest.raises(job.module.JobError, match="not finished after 5 rounds"):
            job.run({"link": {("+", ("z", "z"))}})


@pytest.mark.parametrize("error", [MemoryError(), graphblas.exceptions.OutOfMemory()], ids=["Python", "GraphBLAS"])
def test_out_of_memory(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """If memory does not suffice in the middle, queries begin again."""
    with job_of(CLOSURE) as job, monkeypatch.context() as patch:

        def fail(*arguments: Any) -> None:
            raise error

        patch.setattr(job.module.EntryBound, "blocks", fail)
        job.run({"link": {("+", link) for link in named(SHAPES["ring"])}})
        assert len(job.rows("path")) == 3600 and job.algebra == [
            "given up: there is too little memory for its matrices"
        ]
        patch.setattr(job.module.Follower, "first_entering", fail)
        link = next(iter(job.rows("link")))
        job.run({"link": {("-", link)}})
        assert job.differences() == [] and job.rows("path") == closed(job.rows("link"))
        assert job.algebra == ["given up: there is too little memory for its matrices"]


def test_large_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a product would have too many entries for is known before all of them are made."""
    links = named({*((n, 0) for n in range(1, 300)), *((0, n) for n in range(300, 600))})
    made, entries = list[int](), 3_000
    with job_of(CLOSURE) as job:
        share = 48 * entries / job.module.task_bytes(1, 1)
        monkeypatch.setattr(job.module, "SHARE_OF_MEMORY", share)
        monkeypatch.setattr(job.module.EntryBound, "check", lambda bound, entries: made.append(entries))
        job.run({"link": {("+", link) for link in links}})
        assert len(job.rows("path")) == 299 * 300 + 599
        steps = [after - before for before, after in itertools.pairwise(made)]
        assert max(made) > 80_000 and max(steps) <= entries


@pytest.mark.parametrize("engine", ["auto", "matrices"])
def test_too_large(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not fit into memory, or into the numbers of entries, is computed by queries, and the log says so."""
    batch = {"link": {("+", link) for link in named(SHAPES["ring"])}}
    for name, value, reason in (("SHARE_OF_MEMORY", 0.0, "memory"), ("MOST_SUPPORT", 1, "derivations")):
        with job_of(CLOSURE) as job:
            monkeypatch.setattr(job.module, "FEW_PAIRS", 0)
            monkeypatch.setattr(job.module, name, value)
            job.options = replace(job.options, engine=engine)
            job.run(batch)
            assert len(job.rows("path")) == 3600 and job.differences() == []
            (how,) = job.algebra
            assert how.startswith("given up") and reason in how


def test_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small recursions are not worth loading a library, and ``duckdb`` never does."""
    batch = {"link": {("+", link) for link in named(SHAPES["ring"])}}
    for engine, few, used in (("auto", 61, False), ("auto", 60, True), ("duckdb", 0, False)):
        with job_of(CLOSURE) as job:
            monkeypatch.setattr(job.module, "FEW_PAIRS", few)
            job.options = replace(job.options, engine=engine)
            job.run(batch)
            assert job.algebra == (["path = link + link × path"] if used else [])
