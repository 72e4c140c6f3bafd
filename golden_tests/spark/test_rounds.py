"""Rounds as Spark jobs, as they are where relations are large: plans, actions, and all ways through Spark's engine."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from golden_tests.checks import Checked
from golden_tests.harness import LocalJob, QuietLog, RoundsJob, compile_text
from golden_tests.nightly import AT_NIGHT, seeds
from golden_tests.random_search import check, scenario_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REACH = """
input relation link(@src: int, dst: int)
output reach.
reach(@S, D) :- link(@S, D).
reach(@S, D) :- link(@S, Z), reach(@Z, D).
"""
LINKS = {(x, (x * 7 + k) % 60) for x in range(60) for k in (1, 2)}


class Watched(RoundsJob):
    """A job that keeps the plan of whatever Spark computes, and the actions of each round."""

    def __init__(self, script: str, folder: Path, spark: SparkSession, **constants: int) -> None:
        """Load a script, with other ``constants``."""
        super().__init__(script, folder, spark, 2)
        self.plans: list[str] = []
        self.rounds: list[tuple[str, int]] = []
        for name, value in constants.items():
            assert hasattr(self.module, name)
            setattr(self.module, name, value)
        engine: Any = self.module.SparkEngine
        kept, first = engine._kept, engine.first

        def watched(this: Any, frame: DataFrame, *arguments: Any) -> Any:
            self.plans.append(frame._jdf.queryExecution().executedPlan().toString())  # type: ignore[operator]
            return kept(this, frame, *arguments)

        def first_rows(this: Any, sql: str, limit: int) -> Any:
            self.plans.append("first rows")
            return first(this, sql, limit)

        engine._kept, engine.first = watched, first_rows

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count the actions of the rounds in the body."""
        before = len(self.plans)

        def event(_: QuietLog, name: str, **values: Any) -> None:
            nonlocal before
            if name == "round":
                self.rounds.append((values["phase"], len(self.plans) - before))
                before = len(self.plans)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(QuietLog, "event", event)
            yield


def build(job: LocalJob, text: str, inputs: dict[str, set[tuple[Any, ...]]]) -> Checked:
    """Build the state of a job, checked against the oracle."""
    checked = Checked(job, text, compile_text(text)[0])
    assert checked.build(inputs) == []
    return checked


@AT_NIGHT
def test_joins_where_tuples_lie(tmp_path: Path, spark: SparkSession) -> None:
    """Where nothing is few, what a localized rule joins stays where it is.

    Only heads travel, once, and what is stored is neither moved nor sorted to be compared with them.
    """
    job = Watched(compile_text(REACH)[1], tmp_path / "state", spark, FEW_SPARK_ROWS=0)
    # No broadcast of what Spark knows to be small.
    before = spark.conf.get("spark.sql.autoBroadcastJoinThreshold")
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    try:
        build(job, REACH, {"link": LINKS})
    finally:
        spark.conf.set("spark.sql.autoBroadcastJoinThreshold", before)
    rounds = [plan for plan in job.plans if "Inner" in plan and "LeftAnti" in plan]
    assert len(rounds) > 4
    for plan in rounds[1:]:
        lines = plan.splitlines()
        (sent,) = (number for number, line in enumerate(lines) if "Exchange" in line)
        (joined,) = (number for number, line in enumerate(lines) if "Inner" in line)
        assert sent < joined, "what is sent is what the join has made"
        (sort,) = (number for number, line in enumerate(lines) if re.search(r"\bSort \[", line))
        assert sort == sent - 1, "only what arrives is sorted"
        assert "SortAggregate" in lines[0], "and counted as it comes"
    job.close()


@AT_NIGHT
def test_pivots_send_nothing(tmp_path: Path, spark: SparkSession) -> None:
    """Where all but the recursive relation is few, and sent to all, derivations stay where their pivot is."""
    job = Watched(compile_text(REACH)[1], tmp_path / "state", spark)
    build(job, REACH, {"link": LINKS})
    rounds = [plan for plan in job.plans if "BroadcastHashJoin" in plan and "LeftAnti" in plan]
    assert len(rounds) > 4
    assert all("Exchange hashpartitioning" not in plan for plan in rounds)
    job.close()


@pytest.mark.parametrize(
    ("few", "segments"),
    [
        pytest.param(0, 100, id="all", marks=AT_NIGHT),
        pytest.param(100, 100, id="some", marks=AT_NIGHT),
        pytest.param(10**9, 8, id="nothing", marks=AT_NIGHT),
    ],
)
def test_one_action_a_round(few: int, segments: int, tmp_path: Path, spark: SparkSession) -> None:
    """A round of a recursion of one relation is one action, and one more now and then, where what came is merged."""
    job = Watched(compile_text(REACH)[1], tmp_path / "state", spark, FEW_SPARK_ROWS=few, MOST_SEGMENTS=segments)
    with job.counting():
        checked = build(job, REACH, {"link": LINKS})
    phases, actions = zip(*job.rounds, strict=True)
    assert set(phases) == {"insert"}
    # The first two belong to the inputs and what is derived from them alone.
    found = actions[2:]
    assert len(found) > 4
    assert set(found) == {1} if few == 0 else max(found) <= 2 and sum(found) <= 1.5 * len(found)
    job.rounds.clear()
    job.use_strategy("incremental")
    with job.counting():
        assert checked.apply({"link": [("-", min(LINKS)), ("+", (3, 50))]}) == []
    # The first round belongs to the inputs too. Few changes of much take one more, for what they derive.
    deleting = [count for phase, count in job.rounds if phase == "delete"][1:]
    assert len(deleting) > 4
    if few == 0:
        assert sorted(deleting)[:-1] == [1] * (len(deleting) - 1), deleting
    assert max(deleting) <= 3 and sum(deleting) <= 2.5 * len(deleting), deleting
    job.close()


SIZES = {
    "all is large": {"FEW_SPARK_ROWS": 0, "MOST_SEGMENTS": 1},
    "some is large": {"FEW_SPARK_ROWS": 4, "MOST_SEGMENTS": 2},
    "partitions become more": {"FEW_SPARK_ROWS": 2, "PARTITION_ROWS": 1000},
}


@pytest.mark.parametrize(
    "sizes",
    [pytest.param(sizes, id=name, marks=AT_NIGHT) for name, sizes in SIZES.items()],
)
def test_sizes(sizes: dict[str, int], tmp_path: Path, spark: SparkSession) -> None:
    """Every way through the engine, on small data."""
    job = Watched(compile_text(REACH)[1], tmp_path / "state", spark, **sizes)
    checked = build(job, REACH, {"link": LINKS})
    job.use_strategy("incremental")
    assert checked.apply({"link": [("-", min(LINKS)), ("+", (3, 50))]}) == []
    assert checked.apply({"link": [("-", link) for link in sorted(LINKS)[10:14]]}, recount=True) == []
    job.close()


CARRIED = """
input relation base(x: int, c: int)
input relation a(x: int, y: int)
output m.
output t.
m(X, min<C>) :- base(X, C).
t(X, C) :- m(X, C).
t(Y, C) :- t(X, C), a(X, Y).
m(Y, min<C>) :- t(X, C1), a(X, Y), C = greatest(C1, 3).
"""


@AT_NIGHT
def test_carried_extrema(tmp_path: Path, spark: SparkSession) -> None:
    """Values that were bettered leave a cycle of a relation without an extremum, also where some of them are large."""
    job = Watched(compile_text(CARRIED)[1], tmp_path / "state", spark, **SIZES["some is large"])
    job.limit_rounds(50)
    checked = build(job, CARRIED, {"base": {(1, 4), (2, 5)}, "a": {(2, 3), (3, 2)}})
    job.use_strategy("incremental")
    assert checked.apply({"base": [("+", (1, 2))], "a": [("+", (1, 2))]}) == []
    job.close()


@pytest.mark.parametrize("seed", seeds(0, 5))
def test_strategies_agree(seed: int, spark: SparkSession) -> None:
    """By bucket, gathered, and in distributed rounds in which all, some or nothing counts as large.

    Each has the tuples and changes of the oracle after every batch, and passes its own recount.
    """

    def rounds(script: str, folder: Path, buckets: int) -> LocalJob:
        job = RoundsJob(script, folder, spark, buckets)
        for name, value in [*SIZES.values(), {}][seed % (len(SIZES) + 1)].items():
            setattr(job.module, name, value)
        return job

    scenario = scenario_of(seed)
    assert check(scenario, 3) == []
    assert check(scenario, 1) == []
    few = replace(scenario, batches=scenario.batches[:3])
    assert check(few, 1 + seed % 3, make_job=rounds) == []
