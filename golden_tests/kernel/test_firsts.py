"""The first few of an order: random programs agree with the oracle, in memory, in files, in buckets and in Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from golden_tests.harness import MemoryJob, compile_text
from golden_tests.nightly import AT_NIGHT, by_day, seeds
from golden_tests.random_search import check, check_in_memory, check_queries, scenario_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@by_day(1)
@pytest.mark.parametrize("seed", seeds(3, 15))
def test_seeds(seed: int) -> None:
    """Groups, orders by several values, ties, nulls, copies of rows, and places that others read."""
    wanted = {"nulls": seed % 2 == 0, "multisets": seed % 3 == 0, "timestamps": seed % 4 == 0}
    assert check_in_memory(scenario_of(seed, firsts=True, **wanted)) == []


@AT_NIGHT
@pytest.mark.parametrize("seed", seeds(2, 5))
def test_seeds_in_files(seed: int) -> None:
    """The same with the state in files and in buckets, every second with nasty names."""
    assert check(scenario_of(seed, seed % 2 == 0, firsts=True, nulls=seed % 3 == 0), 1 + seed % 3) == []


@pytest.mark.parametrize("seed", seeds(0, 6))
def test_queries_in_spark(seed: int, spark: SparkSession) -> None:
    """Spark finds the same rows as DuckDB."""
    assert check_queries(scenario_of(seed, firsts=True, timestamps=True, nulls=seed % 2 == 0), spark) == []


PROGRAM = """
input relation game(player: string, team: string, points: int)
output relation best(team: string, rank: int, player: string)
b: best(T, first<2 by P desc>, W) :- game(W, T, P).
"""
GAMES = {("ann", "red", 7), ("bob", "red", 9), ("bob", "red", 3), ("bob", "red", 8), ("cem", "red", 1)}
ANSWERS = {
    'best("red", 1, "bob")': """
best("red", 1, "bob")  by b: best(T, first<2 by P desc>, W) :- game(W, T, P).  (test.dl:4)
└─ game("bob", "red", 9)  given
""",
    'best("red", 2, "bob")': """
best("red", 2, "bob")  by b: best(T, first<2 by P desc>, W) :- game(W, T, P).  (test.dl:4)
└─ game("bob", "red", 8)  given
""",
    'best("red", 2, "ann")': """
best("red", 2, "ann") is not there; its group has best("red", 1, "bob") and best("red", 2, "bob")
  b: best(T, first<2 by P desc>, W) :- game(W, T, P).  (test.dl:4)
    found game("ann", "red", 7)
    derives it, but at another place, or behind the last one
""",
    'best("blue", 1, "ann")': """
best("blue", 1, "ann") is not there
  b: best(T, first<2 by P desc>, W) :- game(W, T, P).  (test.dl:4)
    game("ann", "blue", _) is not there, for game(W, T, P)
""",
}


def test_explanations() -> None:
    """A tuple at a place is derived by the values that put it there."""
    job = MemoryJob(compile_text(PROGRAM)[0])
    job.run({"game": [("+", row) for row in sorted(GAMES)]})
    module: Any = job.module
    for asked, expected in ANSWERS.items():
        said = "\n".join(module.report_explanation(job.session.explain(asked)))
        assert said + "\n" == expected.lstrip("\n"), said
    job.close()


def test_only_groups_that_lose_a_first_tuple_are_ranked_again() -> None:
    """Other changes put tuples into the places that are stored."""
    job = MemoryJob(compile_text(PROGRAM)[0])
    job.use_strategy("incremental")
    engine = job.session.engine
    job.run({"game": [("+", (f"p{number}", f"t{number % 5}", number)) for number in range(1000)]})
    for changes, again in (
        ([("+", ("new", "t1", 2000)), ("-", ("p7", "t2", 7))], 0),
        ([("-", ("new", "t1", 2000)), ("-", ("p999", "t4", 999)), ("+", ("low", "t3", -1))], 2),
    ):
        job.run({"game": changes})
        assert engine.rows("best__groups") == again
    assert job.tuples(job.relation("best")) == {
        (f"t{group}", place, f"p{number}")
        for group in range(5)
        for place, number in enumerate((990 + group + 5 - 5 * (group == 4), 990 + group - 5 * (group == 4)), 1)
    }
    job.close()
