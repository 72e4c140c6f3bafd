"""Other literals are joined once for each key of the changes of a literal, and give the same derivations."""

from __future__ import annotations

import random

import pytest
from flintlog.compiler.pipeline import compile_program
from flintlog.compiler.source import SourceFile

from golden_tests.checks import Checked, insertions
from golden_tests.nightly import by_day, seeds
from golden_tests.oracle.random_programs import random_batches, random_inputs
from golden_tests.row_kernel.jobs import RowsJob

POINTS_TO = """
input relation alloc(var: int, object: int)
input relation load(target: int, base: int, field: int)
input relation store(base: int, field: int, source: int)
output relation points(var: int, object: int)
output relation holds(base: int, field: int, object: int)
points(V, H) :- alloc(V, H).
points(V, H) :- load(V, B, F), points(B, G), holds(G, F, H).
holds(G, F, H) :- store(B, F, V), points(B, G), points(V, H).
"""

SHAPES = """
input relation a(x: int, y: string, z: int)
input relation b(x: int, y: int)
input relation c(y: int)
output relation wild(x: int, n: int)
output relation copies(x: int)
output relation lone(y: string, z: int, k: int)
output relation path(x: int, y: int, name: string)
output relation sums(x: int, s: int)
wild(X, count<*>) :- a(X, _, _), b(X, Y), c(Y), !c(X).
copies(X) :- a(X, _, _), b(X, Y), b(Y, X).
lone(N, Z + 1, K) :- a(1, N, Z), b(K, 1), c(K), K < 3.
path(X, Y, N) :- a(X, N, Y), b(X, _), c(X).
path(X, Y, N) :- path(X, Z, N), b(X, Z), path(Z, Y, _).
sums(X, sum<Z>) :- a(X, N, Z), b(X, Y), c(Y).
"""

NAMES = """
input relation _changed(x: int, y: int?, z: string)
input relation _head(x: int, y: int) primary key (x)
input multiset relation _gone(x: int, y: int)
output relation p(x: int, y: int, z: string)
output relation q(x: int, y: int)
output relation top(x: int, place: int, z: string)
output relation few(x: int, y: int, n: int)
output relation least(x: int, y: int)
p(X, Y, Z) :- _changed(X, _, Z), _head(X, Y), _gone(X, _).
q(X, Y) :- _gone(X, Y), _head(X, _), _gone(X, _).
q(X, Y) :- q(X, Z), _head(Z, Y), _gone(Z, _).
top(X, first<2 by Z>, Z) :- _changed(X, _, Z), _head(X, Y), _gone(Y, _).
few(X, min<Y>, count<Z>) :- _changed(X, Y, Z), _head(X, K), _gone(K, _), Y != null.
least(X, min<Y>) :- _head(X, Y), _gone(X, _), _changed(X, _, _).
least(X, min<Y>) :- least(Z, Y), _head(X, Z), _gone(X, _), _changed(Z, _, _).
"""


def keyed(text: str) -> dict[str, list[tuple[int, tuple[str, ...]]]]:
    """The keyed literals of rules by heads, with their columns."""
    job = RowsJob(compile_program(SourceFile("test.dl", text)))
    found: dict[str, list[tuple[int, tuple[str, ...]]]] = {}
    for stratum in job.program.strata:
        for rule in stratum.rules:
            found.setdefault(rule.head, []).extend((one.place, one.columns) for one in rule.keyed)
    job.close()
    return found


def test_keys() -> None:
    """They are the first columns of a literal, if what the others need is before all that is only for the head."""
    assert keyed(POINTS_TO) == {
        "points": [(2, ("base", "field"))],
        "holds": [(1, ("var",)), (2, ("var",))],
    }
    found = keyed(SHAPES)
    assert found["copies"] == [(0, ("x",))]
    assert found["lone"] == [(0, ("x",))]
    assert found["path"] == [(0, ("x",)), (1, ("x",)), (0, ("x", "y")), (2, ("x",))]


@by_day(6)
@pytest.mark.parametrize("text", [POINTS_TO, SHAPES, NAMES], ids=["points-to", "shapes", "names"])
@pytest.mark.parametrize("seed", seeds(5, 100))
def test_derivations(text: str, seed: int) -> None:
    """Random rows, with several changes for one key."""
    rng = random.Random(f"keyed {seed}")
    compilation = compile_program(SourceFile("test.dl", text))
    checked = Checked(RowsJob(compilation), text, compilation)  # type: ignore[arg-type]
    inputs = random_inputs(rng, checked.program)
    for batch in [insertions(inputs), *random_batches(rng, checked.program, inputs, 6)]:
        assert not checked.apply(batch)
