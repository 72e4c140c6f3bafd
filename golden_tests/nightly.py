"""What runs at night only, and the random numbers of the night.

By day every random choice is the same each time. ``make nightly`` sets ``FLINTLOG_NIGHTLY=1``: tests marked ``night``
run too, and random programs are new ones. ``FLINTLOG_SEED`` is the number of the first, the same in every worker; the
header of the run prints it, and ``make nightly SEED=N`` uses it again. ``FLINTLOG_SHARE=3/10`` runs the third of ten
shares of the tests of the night and nothing else; ``golden_tests/random_search.py`` runs one random program by hand.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import hypothesis
import pytest

T = TypeVar("T")

NIGHTLY = os.environ.get("FLINTLOG_NIGHTLY", "") not in ("", "0")

SEED_NAME = "FLINTLOG_SEED"


def choose_seed() -> int:
    """The number of the night's first random program; chosen, and left to all workers, unless it is given. By day 0."""
    if not NIGHTLY:
        return 0
    given = os.environ.setdefault(SEED_NAME, str(random.SystemRandom().randrange(10**6, 10**9)))
    if not re.fullmatch(r"[0-9]{1,18}", given):
        raise pytest.UsageError(f"{SEED_NAME}={given} is not a number from 0 on")
    return int(given)


START = choose_seed()


def choose_share() -> tuple[int, int] | None:
    """Which share of the tests of the night is to run, and of how many; None for all of them."""
    given = os.environ.get("FLINTLOG_SHARE", "")
    if not NIGHTLY or not given:
        return None
    found = re.fullmatch(r"([0-9]{1,4})/([0-9]{1,4})", given)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise pytest.UsageError(f"FLINTLOG_SHARE={given} is not a share such as 3/10")
    return int(found[1]), int(found[2])


SHARE = choose_share()

AT_NIGHT = pytest.mark.night


def by_day(count: int) -> pytest.MarkDecorator:
    """A marker of tests with many cases: at most ``count`` of them run by day, chosen evenly, and all at night."""
    return pytest.mark.by_day(count)


def numbers(day: int, night: int, first: int = 0) -> list[Any]:
    """Parameters of a test: numbers from ``first`` on, ``day`` of them by day and ``night`` at night."""
    if not NIGHTLY:
        return list(range(first, first + day))
    return [pytest.param(number, marks=AT_NIGHT) for number in range(first, first + night)]


def one_in(values: Iterable[Any], every: int) -> list[Any]:
    """Parameters of a test: each ``every``-th of the values by day, beginning with the first, and all at night."""
    return [pytest.param(value, marks=AT_NIGHT if number % every else ()) for number, value in enumerate(values)]


def seeds(day: int, night: int) -> list[Any]:
    """Parameters of a test: the seeds of ``day`` random programs by day, and of ``night`` new ones at night."""
    return numbers(day, night, START)


def seeded(number: int) -> Callable[[T], T]:
    """A decorator for tests of hypothesis: other examples for each number at night; by day it changes nothing."""

    def unchanged(test: T) -> T:
        return test

    return hypothesis.seed(START + number) if NIGHTLY else unchanged


def leave_to_the_night(items: Iterable[pytest.Item]) -> None:
    """Mark what ``by_day`` leaves of each test with many cases."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("by_day") and not item.get_closest_marker("night"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for test in cases.values():
        marker = test[0].get_closest_marker("by_day")
        assert marker
        chosen = {place * len(test) // marker.args[0] for place in range(marker.args[0])}
        for place, item in enumerate(test):
            if place not in chosen:
                item.add_marker(AT_NIGHT)


def select(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip the tests of the night by day, unless they are to write files; keep those of the share if one is to run.

    The tests of the night are dealt out like cards, in the order in which they are collected, so that each share has a
    part of every kind and all shares together have all.
    """
    leave_to_the_night(items)
    night = [item for item in items if item.get_closest_marker("night")]
    if not NIGHTLY:
        writing = config.getoption("--update-golden")
        for item in night:
            if writing and "update_golden" in getattr(item, "fixturenames", ()):
                continue
            item.add_marker(pytest.mark.skip(reason="runs in `make nightly`; a smaller test covers most of it"))
    elif SHARE:
        number, count = SHARE
        kept = night[number - 1 :: count]
        chosen = set(kept)
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = kept


def header() -> str:
    """What a run at night says of itself; empty by day."""
    if not NIGHTLY:
        return ""
    share = f"share {SHARE[0]} of {SHARE[1]} of the tests of the night" if SHARE else "all tests"
    return f"nightly: {share}, random programs from {START} on (make nightly SEED={START} tries them again)"
