"""The tests of the night can be run: by several workers, in shares, and again with the same random numbers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from golden_tests.nightly import AT_NIGHT

ROOT = Path(__file__).parents[1]

#: A file with tests of both kinds.
FILE = "golden_tests/test_explain.py"


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


def collected(**variables: str) -> list[str]:
    """The tests that would run."""
    printed = pytest_at_night("--collect-only", "-q", FILE, **variables)
    return [line for line in printed.splitlines() if "::" in line]


@AT_NIGHT
def test_two_workers_run_the_same_programs() -> None:
    """They draw their random numbers once, and the header says which."""
    printed = pytest_at_night("-n", "2", FILE, FLINTLOG_SHARE="7/90")
    assert re.search("share 7 of 90 of the tests of the night, random programs from [0-9]+ on", printed)
    assert re.search("[23] passed", printed)


def test_shares_make_a_whole() -> None:
    """Each test of the night is in one share, and a share has no other tests."""
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
