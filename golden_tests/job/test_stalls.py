"""A writer that stands still at any step of a commit, while others commit: numbers of commits never come back."""

from __future__ import annotations

from pathlib import Path

import pytest

from golden_tests.job import assemble
from golden_tests.job.stalls import PROGRAM, Race, Steps
from golden_tests.nightly import AT_NIGHT, by_day

KEPT = 2


@AT_NIGHT
@pytest.mark.parametrize(
    ("count", "apart"), [(KEPT + 1, 6), *(pytest.param(count, 1, marks=AT_NIGHT) for count in (1, 2, KEPT + 1))]
)
def test_stalled_at_each_step(count: int, apart: int, tmp_path: Path) -> None:
    """Its batch is committed and published once, or it is told that another job has committed. With as many commits of
    others as here, the manifest that has its number is removed while it stands still."""
    race, steps = Race(assemble.load(tmp_path, PROGRAM, "stalled_job"), tmp_path / "race", KEPT), Steps()
    step = 1
    while race.stall(steps, step, count):
        step += apart
    assert step > 50


@by_day(1)
@pytest.mark.parametrize("named", ["os.mkdir /data", "os.link", ".published"])
def test_stopped_at_chosen_steps(named: str, tmp_path: Path) -> None:
    """A process gets SIGSTOP and SIGCONT: when its data folder appears, before the commit, and while it publishes."""
    race = Race(assemble.load(tmp_path, PROGRAM, "stopped_job"), tmp_path / "race", KEPT)
    assert race.stop(1, KEPT + 1, named)


@AT_NIGHT
@pytest.mark.parametrize("count", [1, KEPT + 1])
def test_stopped_at_each_step(count: int, tmp_path: Path) -> None:
    """The same at every step."""
    race = Race(assemble.load(tmp_path, PROGRAM, "stopped_job"), tmp_path / "race", KEPT)
    step = 1
    while race.stop(step, count):
        step += 1
    assert step > 50
