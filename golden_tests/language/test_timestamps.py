"""Constants of timestamps: what proofs print can be pasted, and random programs agree with the oracle."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from golden_tests.harness import MemoryJob, compile_text
from golden_tests.nightly import AT_NIGHT, by_day, seeds
from golden_tests.oracle.random_programs import VALUES
from golden_tests.random_search import check, check_in_memory, check_queries, scenario_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOMENTS: list[datetime] = [*VALUES["timestamp"], datetime(1900, 2, 28, 23, 59, 59, 1), datetime(1582, 10, 10)]


def test_proofs_can_be_pasted() -> None:
    """A program of the tuples that proofs print derives the same tuples."""
    text = "input relation event(id: int, at: timestamp)\noutput relation seen(id: int, at: timestamp)\n"
    job = MemoryJob(compile_text(f"{text}seen(I, T) :- event(I, T).\n")[0])
    module: Any = job.module
    rows = set(enumerate(MOMENTS))
    relation = module.PROGRAM.relation("seen")
    printed = [module.tuple_text(relation, row) for row in sorted(rows)]
    assert printed[1] == 'seen(1, timestamp"2026-01-31 12:00:00.500000")'
    assert [module.parse_tuple(module.PROGRAM, line)[1] for line in printed] == sorted(rows)
    pasted = MemoryJob(compile_text(text + "\n".join(f"{line}." for line in printed) + "\n")[0])
    pasted.run({})
    assert pasted.tuples(pasted.relation("seen")) == rows
    pasted.close()
    job.close()


@by_day(1)
@pytest.mark.parametrize("seed", seeds(2, 8))
def test_seeds(seed: int) -> None:
    """Timestamps in columns, constants, comparisons, keys and groups."""
    assert check_in_memory(scenario_of(seed, nulls=seed % 2 == 0, timestamps=True)) == []


@AT_NIGHT
@pytest.mark.parametrize("seed", seeds(2, 5))
def test_seeds_in_files(seed: int) -> None:
    """The same with the state in files and in buckets."""
    assert check(scenario_of(seed, seed % 2 == 0, timestamps=True), 1 + seed % 3) == []


@pytest.mark.parametrize("seed", seeds(0, 6))
def test_queries_in_spark(seed: int, spark: SparkSession) -> None:
    """Spark finds the same rows as DuckDB, in a session whose time zone is not UTC."""
    assert check_queries(scenario_of(seed, timestamps=True), spark) == []
