"""The oracle against results worked out by hand."""

from __future__ import annotations

from collections import Counter

from golden_tests.oracle.evaluate import counts, evaluate
from golden_tests.oracle.language import parse

HOPS = """
input relation link(@src: string, dst: string)
hop(@X, Y) :- link(@X, Z), link(@Z, Y).
tri_hop(@X, Y) :- hop(@X, Z), link(@Z, Y).
"""
LINKS = {("a", "b"), ("a", "d"), ("d", "c"), ("b", "c"), ("c", "h"), ("f", "g")}


def test_hop_and_tri_hop() -> None:
    """Nigam et al. 2010, section 3: the printed views.

    The paper prints tri_hop(a, h) twice, once per derivation of hop(a, c); here hop is a set at the border of its
    stratum, so that tri_hop(a, h) has the one derivation from hop(a, c) and link(c, h).
    """
    program = parse(HOPS)
    assert evaluate(program, {"link": LINKS}) == {
        "hop": {("a", "c"), ("d", "h"), ("b", "h")},
        "tri_hop": {("a", "h")},
    }
    found = counts(program, {"link": LINKS})
    assert found["hop"] == Counter({("a", "c"): 2, ("d", "h"): 1, ("b", "h"): 1})
    assert found["tri_hop"] == Counter({("a", "h"): 1})
