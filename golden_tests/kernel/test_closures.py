"""Transitive closures: recursion that goes deep, and leaps, which are checked against the generic rounds.

State, changes, supports and ranks after every batch are those of the oracle, which computes from nothing.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from golden_tests.checks import Checked
from golden_tests.harness import LocalJob, MemoryJob, compile_text
from golden_tests.nightly import AT_NIGHT, NIGHTLY, by_day, one_in, seeds
from golden_tests.oracle.batches import Batch

CLOSURES = {
    "at the start": "p(X, Y) :- e(X, Y).  p(X, Y) :- e(X, Z), p(Z, Y).",
    "at the end": "p(X, Y) :- e(X, Y).  p(X, Y) :- p(X, Z), e(Z, Y).",
    "made linear": "p(X, Y) :- e(X, Y).  p(X, Y) :- p(X, Z), p(Z, Y).",
    "made linear, turned round": "p(X, Y) :- e(Y, X).  p(X, Y) :- p(X, Z), p(Z, Y).",
    "turned round": "p(X, Y) :- e(Y, X).  p(X, Y) :- e(Z, X), p(Z, Y).",
    "two steps": "p(X, Y) :- e(X, Y).  p(X, Y) :- f(Y, X).  p(X, Y) :- p(X, Z), e(Z, Y).  p(X, Y) :- f(Y, Z), p(X, Z).",
    "reflexive": "p(X, X) :- e(X, _), !f(_, X).  p(X, Y) :- e(X, Y).  p(X, Y) :- e(X, Z), p(Z, Y).",
    "path": "p(X, Y) :- (e | ^f)+(X, Y).",
    "path of paths": "n(X) :- e(X, _).  domain n(X).  p(X, Y) :- (e / f?)*(X, Y).",
}
#: What looks like a closure and is none, so that there is nothing to leap over.
OTHERS = {
    "doubled": "p(X, Y) :- e(X, Y).  p(X, Y) :- p(X, Z), p(Z, Y), X != Y.",
    "begins otherwise": "p(X, Y) :- f(X, Y).  p(X, Y) :- e(X, Z), p(Z, Y).",
    "goes on the other way": "p(X, Y) :- e(X, Y).  p(X, Y) :- e(Z, X), p(Z, Y).",
    "goes on by one of two steps": "p(X, Y) :- e(X, Y); f(X, Y).  p(X, Y) :- e(X, Z), p(Z, Y).",
    "both sides": "p(X, Y) :- e(X, Y); f(X, Y).  p(X, Y) :- e(X, Z), p(Z, Y).  p(X, Y) :- p(X, Z), f(Z, Y).",
    "with a fact": "p(1, 1).  p(X, Y) :- e(X, Y).  p(X, Y) :- e(X, Z), p(Z, Y).",
    "filtered": "p(X, Y) :- e(X, Y).  p(X, Y) :- e(X, Z), p(Z, Y), Z != 7.",
    "path turned round": "p(X, Y) :- ^(e / f)(X, Y).",
    "path to a node": "p(X, X) :- (e / f)+(X, 4).",
}
INPUTS = "input relation e(x: int, y: int)  input relation f(x: int, y: int)  output p.\n"
NODES = 30
SIZES = (1, 1, 4, 1, 10, 2) if NIGHTLY else (1, 4, 10)
IN_FILES = ("made linear", "path of paths", "both sides", "with a fact")
"""What is tried in files by day, too."""


def batches(seed: int) -> list[Batch]:
    """A ring of 30 nodes with short cuts, then batches of one edge up to ten."""
    rng = random.Random(seed)
    now = {
        "e": {(node, (node + 1) % NODES) for node in range(NODES)},
        "f": {(rng.randrange(NODES), rng.randrange(NODES)) for _ in range(2)},
    }
    now["e"] |= {(rng.randrange(NODES), rng.randrange(NODES)) for _ in range(3)}
    made: list[Batch] = [{name: [("+", edge) for edge in sorted(edges)] for name, edges in now.items()}]
    for size in SIZES:
        batch: Batch = {}
        for name, edges in now.items():
            gone = set(rng.sample(sorted(edges), min(len(edges) // 2, (size + 1) // 2)))
            come = {(rng.randrange(NODES), rng.randrange(NODES)) for _ in range(size // 2)} - gone
            if rng.random() < 0.4:
                gone, come = set(), gone - come | {(node, (node + 1) % NODES) for node in rng.sample(range(NODES), 2)}
            batch[name] = [*(("-", edge) for edge in sorted(gone)), *(("+", edge) for edge in sorted(come))]
            now[name] = edges - gone | come
        made.append(batch)
    return made


@by_day(3)
@pytest.mark.parametrize("seed", seeds(1, 2))
@pytest.mark.parametrize(
    "rules",
    [
        pytest.param(rules, id=name, marks=() if name in IN_FILES else AT_NIGHT)
        for name, rules in {**CLOSURES, **OTHERS}.items()
    ],
)
def test_closures_in_files(rules: str, seed: int, tmp_path: Path) -> None:
    """As jobs do it, in one bucket or several."""
    compilation, script = compile_text(INPUTS + rules)
    job = LocalJob(script, tmp_path / "state", buckets=1 + (seed + len(rules)) % 3)
    job.module.DuckEngine.rounds_before_leaps = 1
    checked = Checked(job, INPUTS + rules, compilation)
    for batch in batches(seed):
        assert checked.apply(batch) == []
    job.close()


@pytest.mark.parametrize("rules", [*CLOSURES.values(), *OTHERS.values()], ids=[*CLOSURES, *OTHERS])
def test_few_nodes(rules: str) -> None:
    """Every form by day, on a line whose steps have one direction; steps that follow each other go at once."""
    job = MemoryJob(compile_text(INPUTS + rules)[0])
    job.session.choice.strategy = "incremental"
    job.module.DuckEngine.rounds_before_leaps = 0
    checked = Checked(job, INPUTS + rules, compile_text(INPUTS + rules)[0])
    line = [(node, node + 1) for node in range(5)]
    assert checked.apply({"e": [("+", edge) for edge in line], "f": [("+", (4, 1)), ("+", (5, 3))]}) == []
    assert checked.apply({"e": [("-", (2, 3)), ("+", (5, 2))], "f": [("+", (3, 0))]}) == []
    assert checked.apply({"e": [("-", (0, 1)), ("-", (1, 2))]}) == []
    assert checked.apply({"e": [("+", (node * 5 % 8, node * node % 8)) for node in range(8)]}) == []
    job.close()


@by_day(3)
@pytest.mark.parametrize("seed", seeds(1, 2))
@pytest.mark.parametrize("rules", one_in([*CLOSURES.values(), *OTHERS.values()], 6), ids=[*CLOSURES, *OTHERS])
def test_leaps_and_rounds_agree(rules: str, seed: int) -> None:
    """From the first round on, however much is leapt over; generic rounds come to the same relations and changes."""
    compilation = compile_text(INPUTS + rules)[0]
    leaping, generic = MemoryJob(compilation), MemoryJob(compilation)
    # How long batches took must not choose what is computed from scratch in one of the two alone.
    leaping.session.choice.strategy = generic.session.choice.strategy = "incremental"
    leaping.module.DuckEngine.rounds_before_leaps = seed % 2
    leaping.module.SMALL_LEAP = 10**9  # type: ignore[attr-defined]
    generic.module.DuckEngine.rounds_before_leaps = 10**9
    checked = Checked(leaping, INPUTS + rules, compilation)
    rounds = Counter[str]()
    for name, job in (("leaping", leaping), ("generic", generic)):
        job.session.note = lambda *_, name=name: rounds.update([name])  # type: ignore[method-assign,misc]
    for batch in batches(seed):
        assert checked.apply(batch) == []
        generic.run(batch)
        assert leaping.changes == generic.changes
        assert leaping.rows("p") == generic.rows("p")
    assert generic.differences() == []
    assert rounds["generic"] > 0
    assert (rounds["leaping"] < rounds["generic"]) is (rules in CLOSURES.values())
    leaping.close()
    generic.close()
