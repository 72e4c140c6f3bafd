"""Recursions with sums, counts and averages: exact where groups have an order, refused with the cycle where not."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from flintlog.compiler.pipeline import compile_program
from flintlog.compiler.source import SourceFile
from flintlog.runtime.explain.proofs import report_explanation

from golden_tests.checks import Checked, insertions
from golden_tests.harness import LocalJob, MemoryJob, RoundsJob, compile_text
from golden_tests.nightly import AT_NIGHT, by_day, seeds
from golden_tests.oracle.random_sums import sum_scenario

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@AT_NIGHT
@pytest.mark.parametrize("seed", seeds(1, 25))
def test_random_sums(seed: int) -> None:
    """Batches in files, with one to three buckets, followed or from scratch."""
    scenario, rng = sum_scenario(seed), random.Random(seed)
    compilation, script = compile_text(scenario.text)
    with tempfile.TemporaryDirectory() as folder:
        job = LocalJob(script, Path(folder), 1 + seed % 3)
        try:
            if seed % 3 == 1:
                job.seem_large()
            checked = Checked(job, scenario.text, compilation)
            for number, batch in enumerate([insertions(scenario.inputs), *scenario.batches]):
                job.use_strategy(rng.choice(("recompute", "incremental", "incremental", "auto")))
                assert checked.apply(batch) == [], (number, str(scenario))
        finally:
            job.close()


@by_day(1)
@pytest.mark.parametrize("seed", seeds(1, 75))
def test_random_sums_in_memory(seed: int) -> None:
    """Batches in one database."""
    scenario, rng = sum_scenario(seed, batches=8), random.Random(seed)
    compilation = compile_program(SourceFile("test.dl", scenario.text))
    job = MemoryJob(compilation)
    checked = Checked(job, scenario.text, compilation)
    for number, batch in enumerate([insertions(scenario.inputs), *scenario.batches]):
        job.use_strategy(rng.choice(("recompute", "incremental", "incremental", "auto")))
        assert checked.apply(batch) == [], (number, str(scenario))


@AT_NIGHT
@pytest.mark.parametrize("seed", seeds(1, 5))
def test_random_sums_on_spark(spark: SparkSession, seed: int, tmp_path: Path) -> None:
    """Batches by Spark's engine, as where relations are large."""
    scenario = sum_scenario(seed, batches=2)
    compilation, script = compile_text(scenario.text)
    job = RoundsJob(script, tmp_path, spark, 2)
    job.use_strategy("incremental")
    checked = Checked(job, scenario.text, compilation)
    for number, batch in enumerate([insertions(scenario.inputs), *scenario.batches]):
        assert checked.apply(batch, recount=number == 2) == [], (number, str(scenario))


WEIGHTS = """
input relation part(whole: string, item: string, weight: int) primary key (whole, item)
weight(W, sum<N>) :- part(W, _, N).
weight(W, sum<N>) :- part(W, I, _), weight(I, N).
output weight.
"""


@pytest.fixture(scope="module")
def sums() -> MemoryJob:
    """A program that adds up what things consist of."""
    return MemoryJob(compile_program(SourceFile("weights.dl", WEIGHTS)))


def weights(parts: dict[tuple[str, str], int]) -> set[tuple[str, int]]:
    """What the rules stand for, where nothing contains itself: a derivation is a choice of tuples."""

    def weight(whole: str) -> int:
        items = [(item, number) for (other, item), number in parts.items() if other == whole]
        return sum(number + weight(item) for item, number in items)

    return {(whole, weight(whole)) for whole, _ in parts}


def test_sum_of_a_recursion(sums: MemoryJob) -> None:
    """Wholes and parts of random sizes, some built in several times over, change by batches."""
    rng = random.Random(502)
    names = [f"p{number}" for number in range(7)]
    pairs = [(whole, item) for at, whole in enumerate(names) for item in names[at + 1 :]]
    parts: dict[tuple[str, str], int] = {}
    for _ in range(12):
        chosen = rng.sample(pairs, rng.randrange(1, 9))
        changes = [("-", (*pair, parts.pop(pair))) for pair in chosen if pair in parts and rng.random() < 0.7]
        for pair in chosen:
            if pair not in parts:
                parts[pair] = rng.randrange(1, 20)
                changes.append(("+", (*pair, parts[pair])))
        net = {row: op for op, row in changes}
        both = {row for op, row in changes if op == "-"} & {row for op, row in changes if op == "+"}
        sums.run({"part": [(op, row) for row, op in net.items() if row not in both]})
        assert sums.rows("weight") == weights(parts)


def test_sum_of_the_bike(sums: MemoryJob) -> None:
    """A wheel that is built in twice, in front and behind, and two screws of different weight in one thing."""
    now = sums.rows("part")
    parts = {
        ("bike", "frame"): 10,
        ("bike", "front"): 1,
        ("bike", "rear"): 1,
        ("front", "wheel"): 3,
        ("rear", "wheel"): 3,
        ("wheel", "spoke"): 8,
    }
    sums.run({"part": [*(("-", row) for row in now), *(("+", (*pair, n)) for pair, n in parts.items())]})
    assert sums.rows("weight") == weights(parts) == {("bike", 34), ("front", 11), ("rear", 11), ("wheel", 8)}


BILL = """
input relation contains(whole: string, part: string, n: int)
input relation price(part: string, cents: int)
output relation cost(part: string, cents: int)
r1: cost(P, sum<C>) :- price(P, C).
r2: cost(W, sum<C>) :- contains(W, P, N), cost(P, E), C = N * E.
"""


def test_a_cycle_is_refused_and_shown(tmp_path: Path) -> None:
    """Step by step, with the rows that make it, also if it adds nothing; what depends on it is not part of it."""
    job = LocalJob(compile_text(BILL)[1], tmp_path)
    rows = {("bike", "wheel", 2), ("wheel", "spoke", 32), ("shop", "bike", 1)}
    job.run({"contains": [("+", row) for row in sorted(rows)], "price": [("+", ("spoke", 45)), ("+", ("nut", 0))]})
    assert job.rows("cost") == {("spoke", 45), ("nut", 0), ("wheel", 1440), ("bike", 2880), ("shop", 2880)}
    with pytest.raises(job.module.JobError) as refused:
        job.run({"contains": [("+", ("spoke", "wheel", 0)), ("+", ("spoke", "nut", 1))]})
    text, *steps = str(refused.value).split("\n")
    assert text == (
        'test.dl:4: cost("wheel", _) depends on itself, so its value has no order in which it could be computed; '
        "the batch was refused and the state is unchanged"
    )
    assert sorted(steps) == [
        '  cost("spoke", _) depends on cost("wheel", _) by r2 (test.dl:6) with contains("spoke", "wheel", 0)',
        '  cost("wheel", _) depends on cost("spoke", _) by r2 (test.dl:6) with contains("wheel", "spoke", 32)',
    ]
    job.run({"contains": [("+", ("spoke", "nut", 1))]})
    assert job.rows("cost") >= {("spoke", 45), ("bike", 2880)} and job.differences() == []


OPTIONAL = """
input relation e(x: int, y: int, n: int?)
output total.
total(X, Y, sum<N>) :- e(X, Y, N).
total(3, Y, sum<N>) :- e(_, Z, N), total(Z, Y, _).
"""


def test_a_null_that_is_summed_up_makes_no_step() -> None:
    """It is left out, so there is no group that the cycle among groups could begin with."""
    compilation = compile_program(SourceFile("test.dl", OPTIONAL))
    job = MemoryJob(compilation)
    checked = Checked(job, OPTIONAL, compilation)
    assert checked.build({"e": {(1, 2, 5), (2, 3, None), (0, 3, 1)}}) == []
    assert not checked.refused
    assert checked.apply({"e": [("+", (2, 3, 4))]}) == []
    assert "depends on itself" in checked.refused
    job.close()


def test_a_proof_has_all_contributions() -> None:
    """Those of all rules of a group."""
    job = MemoryJob(compile_program(SourceFile("test.dl", BILL)))
    job.run({"contains": [("+", ("bike", "wheel", 2))], "price": [("+", ("bike", 100)), ("+", ("wheel", 7))]})
    (root, *others) = job.session.explain('cost("bike", 114)')["tuples"]
    assert (root["rule"], [said["rule"] for said in root["also"]]) == ("r1", ["r2"])
    named = {node["tuple"] for node in others}
    assert named >= {'price("bike", 100)', 'contains("bike", "wheel", 2)', 'cost("wheel", 7)'}
    assert root["derivations"] == root["listed"] == 2
    assert job.session.explain('cost("bike", _)')["tuples"][0] == root


def test_an_open_tuple_is_explained() -> None:
    """The first that agrees, with the next ones named; and that there is none."""
    job = MemoryJob(compile_program(SourceFile("test.dl", BILL)))
    job.run({"price": [("+", (part, 1)) for part in ("_", "a", "b", "c", "d", "e")]})
    found = job.session.explain("cost(_, _)")
    assert (found["tuple"], found["others"]) == ('cost("_", 1)', ['cost("a", 1)', 'cost("b", 1)', 'cost("c", 1)'])
    assert [*report_explanation(found)] == [
        'cost("_", 1)  by r1: cost(P, sum<C>) :- price(P, C).  (test.dl:5)',
        '└─ price("_", 1)  given',
        'the first of several; next: cost("a", 1) and cost("b", 1) and cost("c", 1)',
    ]
    assert job.session.explain('cost(@"a", _)')["others"] == []
    assert job.session.explain("cost(@_, 1)") == found
    assert [*report_explanation(job.session.explain('cost("z", _)'))] == ['cost("z", _) is not there']
    with pytest.raises(job.module.JobError, match='"x" is not an int'):
        job.session.explain('cost("a", "x")')
    job.close()


SEVERAL = """
input relation reading(place: string, value: int)
output relation range(place: string, least: int, most: int, n: int)
range(P, min<V>, max<V>, count<*>) :- reading(P, V).
range(P, min<V>, max<V>, count<*>) :- reading(P, W), V = W + 1.
"""


def test_a_proof_of_several_aggregates_has_all_contributions() -> None:
    """Also where no derivation attains all extrema of a group."""
    job = MemoryJob(compile_program(SourceFile("test.dl", SEVERAL)))
    job.run({"reading": [("+", ("hut", 1)), ("+", ("hut", 7))]})
    (root, *others) = job.session.explain('range("hut", 1, 8, 4)')["tuples"]
    assert (root["rule"], [said["rule"] for said in root["also"]]) == ("range_1", ["range_2"])
    assert {node["tuple"] for node in others} == {'reading("hut", 1)', 'reading("hut", 7)'}
    assert root["derivations"] == root["listed"] == 4
    job.close()
