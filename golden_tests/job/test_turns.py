"""Random programs, whose batches are rolled back, reverted and applied again: the state is that of recomputation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from golden_tests.job.turns import take_turns
from golden_tests.nightly import AT_NIGHT, seeds


@pytest.mark.parametrize("seed", seeds(1, 5))
def test_turns(seed: int, tmp_path: Path) -> None:
    """Commands of all kinds, one after the other."""
    take_turns(seed, tmp_path, 9)


@AT_NIGHT
@pytest.mark.parametrize("seed", seeds(1, 5))
def test_turns_on_spark(seed: int, tmp_path: Path, spark: Any) -> None:
    """The same with tasks in Spark."""
    take_turns(seed, tmp_path, 12, spark)
