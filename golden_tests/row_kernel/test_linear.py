"""A batch of four times the changes costs SQLite about four times the steps: no work table is searched by a scan."""

from __future__ import annotations

import itertools

import flintlog
import pytest

from golden_tests.nightly import by_day

PROGRAMS = {
    "rows": "input relation e(x: int, y: int)\noutput p.\np(X, Y) :- e(X, Y).",
    "nulls": "input relation e(x: int, y: int?)\noutput p.\np(X, Y) :- e(X, Y).",
    "copies": "input multiset relation e(x: int, y: int)\noutput p.\np(X, Y) :- e(X, Y).",
    "key": "input relation e(x: int, y: int) primary key (x)\noutput p.\np(X, Y) :- e(X, Y).",
    "key of a view": "input relation e(x: int, y: int)\nrelation p(x: int, y: int) primary key (x)\noutput p.\n"
    "p(X, Y) :- e(X, Y).",
    "derived input": "input derived relation e(x: int, y: int)\noutput e.\ne(X + 1000000, Y) :- e(X, Y), X < 1000000.",
    "join": "input relation e(x: int, y: int)\noutput p.\np(X, Z) :- e(X, Y), e(Y, Z).",
    "negation": "input relation e(x: int, y: int)\noutput p.\np(X, Y) :- e(X, Y), !e(Y, X).",
    "count": "input relation e(x: int, y: int)\noutput p.\np(X, count<*>) :- e(X, Y).",
    "sum": "input relation e(x: int, y: int)\noutput p.\np(X, sum<Y>) :- e(X, Y).",
    "maximum": "input relation e(x: int, y: int)\noutput p.\np(X, max<Y>) :- e(X, Y).",
    "first": "input relation e(x: int, y: int)\noutput p.\np(X, first<2 by Y>, Y) :- e(X, Y).",
    "recursion": "input relation e(x: int, y: int)\noutput p.\np(X, Y) :- e(X, Y).\np(X, Z) :- p(X, Y), e(Y, Z).",
    "best": "input relation e(x: int, y: int)\noutput p.\np(X, min<Y>) :- e(X, Y).\n"
    "p(Y, min<C>) :- p(X, D), e(X, Y), C = D + 1.",
    "sums in recursion": "input relation e(x: int, y: int)\noutput p.\np(X, sum<N>) :- e(X, Y), N = 1.\n"
    "p(X, sum<M>) :- e(X, Y), p(Y, N), M = N.",
}
"""Programs whose tuples come from few neighbours each."""


def steps(text: str, count: int) -> int:
    """The steps that a batch of deletions, insertions and updates takes."""
    with flintlog.open(text) as view:
        view.apply(e=[("+", x, x + 1) for x in range(0, 6000, 3)])
        counted, counter = [0], itertools.count()

        def step() -> int:
            counted[0] = next(counter)
            return 0

        view._state.connection.set_progress_handler(step, 10)
        changes = [("-", x, x + 1) for x in range(0, 3 * count, 3)]
        view.apply(e=[*changes, *(("+", x, x + 2) for x in range(0, 3 * count, 3))])
        assert len(view["e"]) in (2000, 4000)
        return counted[0]


@by_day(5)
@pytest.mark.parametrize("name", PROGRAMS)
def test_steps(name: str) -> None:
    """Four times the changes."""
    small, large = (steps(PROGRAMS[name], count) for count in (100, 400))
    assert small > 100 and large < 6 * small, (small, large)
