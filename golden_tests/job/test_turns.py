"""Random programs, whose batches are rolled back, reverted and applied again: the state is that of recomputation."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import pytest

from golden_tests.checks import REFUSALS
from golden_tests.harness import compile_text, load_script
from golden_tests.job.turns import Turns
from golden_tests.nightly import AT_NIGHT, seeds
from golden_tests.oracle import language
from golden_tests.oracle.evaluate import evaluate
from golden_tests.random_search import scenario_of


def take_turns(seed: int, folder: Path, steps: int, spark: Any = None) -> None:
    """Run a random program, and so many commands on its state."""
    rng = random.Random(seed)
    scenario = scenario_of(seed, nasty=seed % 2 == 1, nulls=seed % 3 == 0)
    job: Any = load_script(compile_text(scenario.text)[1])
    try:
        try:
            evaluate(language.parse(scenario.text), {name: set(rows) for name, rows in scenario.inputs.items()})
        except tuple(REFUSALS):
            return
        turns = Turns(job, scenario, folder, rng, 1 + seed % 3, rng.choice([2, 3, 6, 20]), spark)
        for _ in range(steps):
            turns.step()
        turns.end()
    finally:
        del sys.modules[job.__name__]


@pytest.mark.parametrize("seed", seeds(2, 300))
def test_turns(seed: int, tmp_path: Path) -> None:
    """Commands of all kinds, one after the other."""
    take_turns(seed, tmp_path, 9)


@AT_NIGHT
@pytest.mark.parametrize("seed", seeds(2, 10))
def test_turns_on_spark(seed: int, tmp_path: Path, spark: Any) -> None:
    """The same with tasks in Spark."""
    take_turns(seed, tmp_path, 12, spark)
