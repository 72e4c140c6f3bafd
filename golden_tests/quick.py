"""Which tests are quick: ``make check`` runs no others.

``slow.txt`` names the functions of tests that take half a second or more, with what they prepare. ``pytest
--update-slow`` writes it anew after a run, by the times of that run; of tests that did not run it keeps what it says.
Tests with a Spark session are slow, whatever the times say: the first of them starts the session.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import pytest

FILE = Path(__file__).with_name("slow.txt")
LIMIT = 0.5
"""Seconds from which on a test is slow, on two cores that do nothing else."""


def function_of(test: str) -> str:
    """The function of a test, by the names that pytest gives both."""
    return test.partition("[")[0]


def slow_functions() -> set[str]:
    """The functions that ``slow.txt`` names."""
    return set(FILE.read_text(encoding="utf-8").split())


def select(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the slow tests with ``--quick``."""
    if config.getoption("--quick"):
        slow = slow_functions()
        left_out = [item for item in items if function_of(item.nodeid) in slow or "spark" in item.fixturenames]
        kept = set(items) - {*left_out}
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item in kept]


def slowest_first(items: list[pytest.Item]) -> None:
    """Sort files by how many of their tests are slow: workers that get whole files then end at about the same time."""
    slow = slow_functions()
    weights = Counter(item.path for item in items if function_of(item.nodeid) in slow)
    items.sort(key=lambda item: -weights[item.path])


class Times:
    """A plugin that adds up the seconds of each test, and writes ``slow.txt`` at the end."""

    def __init__(self) -> None:
        """Start without times."""
        self.seconds: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add what a test took to prepare, to run or to clean up."""
        if not report.skipped:
            self.seconds[report.nodeid] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Write the functions that are slow now, and those that did not run and were."""
        slow = {function_of(test) for test, seconds in self.seconds.items() if seconds >= LIMIT}
        others = slow_functions() - {function_of(test) for test in self.seconds}
        FILE.write_text("".join(f"{name}\n" for name in sorted(slow | others)), encoding="utf-8")
