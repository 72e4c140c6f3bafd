"""Programs of all dialects with mistakes that keep most of their form: no accident, every place in a file, and what is
accepted runs as the oracle says. ``python -m golden_tests.mutations`` looks for more."""

from __future__ import annotations

from collections import Counter

import pytest
from flintlog.compiler.dialects import DIALECTS

from golden_tests.mutations import SECONDS, check, limited, mutation_of
from golden_tests.nightly import NIGHTLY, by_day, seeds

EACH = 25


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("seed", seeds(1, 10))
def test_mutations(dialect: str, seed: int) -> None:
    """By day, one in five of those that are accepted runs."""
    heard: Counter[str] = Counter()
    for number in range(EACH * seed, EACH * (seed + 1)):
        text, _ = mutation_of(number, dialect)
        try:
            with limited(SECONDS):
                check(text, dialect, number, heard, running=NIGHTLY or number % 5 == 0)
        except BaseException:
            print(f"seed {number}\n{text}")
            raise
    assert heard["refused"] + heard["compiled"] == EACH


@by_day(1)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_some_mutations_compile(dialect: str) -> None:
    """Of a hundred of each dialect some do, and most do not."""
    heard: Counter[str] = Counter()
    for number in range(4 * EACH):
        check(mutation_of(number, dialect)[0], dialect, number, heard, running=False)
    assert heard["refused"] > 50 and heard["compiled"] > 3
