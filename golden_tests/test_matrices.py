"""Recursions as products of matrices: the same tuples, ranks that the invariant allows, and the way back to queries."""

from __future__ import annotations

import contextlib
import random
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from golden_tests.checks import Checked, insertions
from golden_tests.harness import LocalJob, MatricesJob, compile_text
from golden_tests.nightly import one_in, seeds
from golden_tests.oracle.chains import chain_scenario
from golden_tests.oracle.language import Row

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


@contextlib.contextmanager
def job_of(text: str, buckets: int = 1, kind: type[LocalJob] = MatricesJob) -> Iterator[Any]:
    """A job over a state of its own."""
    with tempfile.TemporaryDirectory() as folder:
        job = kind(compile_text(text)[1], Path(folder), buckets)
        try:
            yield job
        finally:
            job.close()


@pytest.mark.parametrize("seed", seeds(6, 2000))
def test_random_chains(seed: int) -> None:
    """Engines hand a state to each other after every batch; the oracle recounts every support."""
    scenario, rng = chain_scenario(seed, batches=5), random.Random(seed)
    with job_of(scenario.text, 1 + seed % 3) as job:
        if seed % 3 == 1:
            job.seem_large()
        job.use_strategy(rng.choice(("recompute", "recompute", "auto")))
        checked, used = Checked(job, scenario.text, compile_text(scenario.text)[0]), list[str]()
        for number, batch in enumerate([insertions(scenario.inputs), *scenario.batches]):
            engine = rng.choice(("matrices", "duckdb")) if number else "matrices"
            job.options = replace(job.options, engine=engine)
            assert checked.apply(batch, recount=number in (0, len(scenario.batches))) == [], (number, str(scenario))
            used += job.algebra
        assert not any("given up" in how for how in used), str(scenario)
        # Else a rule is no chain: such as one that reads a tuple between the ends of another.
        assert used or not any(s.equations for stage in job.program.stages for s in stage.strata), str(scenario)


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


@pytest.mark.parametrize("text", one_in([CLOSURE, SAME, TWO], 3), ids=["closure", "same", "two"])
@pytest.mark.parametrize("shape", SHAPES)
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


def undone(batch: dict[str, set[tuple[str, Row]]]) -> set[tuple[str, Row]]:
    """The changes that undo a batch."""
    return {("+" if op == "-" else "-", row) for op, row in batch["link"]}


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine says what is missing if it was asked for; otherwise queries do all."""
    batch = {"link": {("+", link) for link in named(SHAPES["ring"])}}
    with job_of(CLOSURE) as job:
        monkeypatch.setattr(job.module, "FEW_PAIRS", 0)
        find = job.module.importlib.util.find_spec
        monkeypatch.setattr(
            job.module.importlib.util, "find_spec", lambda name: None if name == "graphblas" else find(name)
        )
        with pytest.raises(job.module.JobError, match=r"pip install flintlog\[matrices\]"):
            job.run(batch)
        job.options = replace(job.options, engine="auto")
        job.run(batch)
        assert len(job.rows("path")) == 3600 and job.algebra == []


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
