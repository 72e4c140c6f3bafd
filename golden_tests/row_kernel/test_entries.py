"""Recursions with derivation sets on rows: the same entries as the transition rules of the paper, in any order."""

from __future__ import annotations

import contextlib
import random

import pytest

from golden_tests.checks import Checked
from golden_tests.kernel.test_derivation_sets import (
    PASSING,
    annotated,
    random_bursts,
    random_inputs,
    run_alone,
    run_both,
)
from golden_tests.nightly import seeds
from golden_tests.oracle import psn
from golden_tests.row_kernel.jobs import RowsJob


@pytest.mark.parametrize("seed", seeds(2, 40))
def test_random_programs(seed: int) -> None:
    """The very entries, with their copies, that the rules lead to."""
    compared = 0
    for number in range(10):
        rng = random.Random(f"entries {seed} {number}")
        text, size = psn.random_positive_program(rng), rng.randint(2, 3)
        with contextlib.suppress(psn.TooLarge):
            compared += run_both(text, [random_inputs(rng, size) for _ in range(3)], rng, RowsJob)
    assert compared


@pytest.mark.parametrize("seed", seeds(2, 40))
def test_random_bursts(seed: int) -> None:
    """Many bursts in a row, some of which have too many sets."""
    done = 0
    for number in range(10):
        rng = random.Random(f"bursts {seed} {number}")
        text = psn.random_positive_program(rng)
        done += run_alone(text, list(random_bursts(rng, rng.randint(1, 2))), RowsJob)
    assert done > 10


def test_what_is_never_there_divides_nothing() -> None:
    """What leaves and what comes are never joined."""
    for first, second in (
        ({"start": [("+", (1,))]}, {"start": [("-", (1,))], "q": [("+", (1, 0))]}),
        ({"start": [("+", (1,))], "q": [("+", (1, 2))]}, {"q": [("-", (1, 2)), ("+", (50, 0))]}),
        ({"start": [("+", (1,))], "q": [("+", (1, 2)), ("+", (2, 0))]}, {"start": [("-", (1,)), ("+", (3,))]}),
    ):
        compilation = annotated(PASSING)
        checked = Checked(RowsJob(compilation), PASSING, compilation)  # type: ignore[arg-type]
        for batch in (first, second):
            assert checked.apply(batch) == [] and checked.refused == ""
        assert checked.apply({"start": [("+", (7,))], "q": [("+", (7, 0))]}) == []
        assert "division by zero" in checked.refused
        checked.job.close()
