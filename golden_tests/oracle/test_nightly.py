"""The tests of the night can be run: by several workers, in shares, and again with the same random numbers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from golden_tests import nightly, quick
from golden_tests.nightly import AT_NIGHT

ROOT = Path(__file__).parents[2]

#: A file with tests of both kinds.
FILE = "golden_tests/explain/test_explain.py"


def pytest_at_night(*arguments: str, **variables: str) -> str:
    """What pytest prints in a process of its own, at night; it has to succeed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("FLINTLOG_", "PYTEST_"))}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=ROOT,
        env={**environment, "FLINTLOG_NIGHTLY": "1", **variables},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@dataclass(frozen=True, eq=False)
class Collected:
    """As much of a test as shares look at."""

    night: bool
    nodeid: str = "a test"
    marks: list[pytest.MarkDecorator] = field(default_factory=list)

    def get_closest_marker(self, name: str) -> pytest.MarkDecorator | bool | None:
        """Return a mark; True for that of the night if it has that from the beginning."""
        mark = next((mark for mark in self.marks if mark.name == name), None)
        return mark or (self.night and name == "night")

    def add_marker(self, mark: pytest.MarkDecorator) -> None:
        """Take another mark."""
        self.marks.append(mark)


def collected(**variables: str) -> list[str]:
    """The tests that would run."""
    printed = pytest_at_night("--collect-only", "-q", FILE, **variables)
    return [line for line in printed.splitlines() if "::" in line]


@AT_NIGHT
def test_two_workers_run_the_same_programs() -> None:
    """They draw their random numbers once, and the header says which."""
    printed = pytest_at_night("-n", "2", FILE, FLINTLOG_SHARE="1/2")
    assert re.search("share 1 of 2 of the tests of the night, random programs from [0-9]+ on", printed)
    assert re.search("[23] passed", printed)


def test_shares_make_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test of the night is in one share, and a share has no other tests."""
    items = [Collected(number % 3 > 0) for number in range(40)]
    hook = SimpleNamespace(pytest_deselected=lambda items: None)
    monkeypatch.setattr(nightly, "NIGHTLY", True)
    together = []
    for number in range(1, 8):
        monkeypatch.setattr(nightly, "SHARE", (number, 7))
        chosen: list[Any] = list(items)
        nightly.select(cast(pytest.Config, SimpleNamespace(hook=hook)), chosen)
        assert len(chosen) in (3, 4)
        together += chosen
    assert sorted(map(id, together)) == sorted(id(item) for item in items if item.night)


@pytest.mark.parametrize("count", [0, 1, 3, 10, 20])
def test_few_cases_run_by_day(count: int) -> None:
    """As many as a marker says, from the first on; a test without one runs whole."""
    cases = [Collected(False, f"marked[{number}]", [nightly.by_day(count)]) for number in range(10)]
    others = [Collected(False, f"whole[{number}]") for number in range(4)]
    nightly.leave_to_the_night(cast(list[pytest.Item], [*cases, *others]))
    by_day = [item for item in cases if not item.get_closest_marker("night")]
    assert len(by_day) == min(count, 10) and by_day[:1] == cases[: min(count, 1)]
    assert not any(item.get_closest_marker("night") for item in others)


@AT_NIGHT
def test_shares_have_random_programs() -> None:
    """Those of a number, in each share of those that pytest collects."""
    seed = "123456"
    everything = collected(FLINTLOG_SEED=seed)
    shares = [collected(FLINTLOG_SEED=seed, FLINTLOG_SHARE=f"{number}/2") for number in (1, 2)]
    together = [test for share in shares for test in share]
    assert len(set(together)) == len(together)
    others = set(everything) - set(together)
    assert others and all("[" not in test for test in others)
    assert any(f"{seed}]" in test for test in together)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_a_share_that_is_none_is_refused() -> None:
    """The message says what a share looks like."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", FILE],
        cwd=ROOT,
        env={**os.environ, "FLINTLOG_NIGHTLY": "1", "FLINTLOG_SHARE": "11/10"},
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert "FLINTLOG_SHARE=11/10 is not a share such as 3/10" in done.stdout + done.stderr


def test_quick_tests() -> None:
    """Those that are left out of a file are those that are named, and all that are named are there."""
    names = quick.slow_functions()
    for file in {name.partition("::")[0] for name in names}:
        there = set(re.findall(r"^def (test_\w+)", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE))
        assert {name.partition("::")[2] for name in names if name.startswith(f"{file}::")} <= there, file
    file = "golden_tests/oracle/test_programs.py"
    every = {
        f"{file}::{name}" for name in re.findall(r"^def (test_\w+)", (ROOT / file).read_text("utf-8"), re.MULTILINE)
    }
    printed = pytest_at_night("--collect-only", "-q", file, "--quick")
    chosen = set(re.findall(r"^golden_tests/\S+::test_\w+", printed, re.MULTILINE))
    assert every - chosen == every & names != set()
