"""Least and greatest values inside recursion, and path vectors, on random graphs with cycles and edges without cost.

State, changes, supports and ranks after every batch are those of the oracle, which computes from nothing.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from golden_tests.checks import Checked
from golden_tests.harness import LocalJob, Row, compile_text
from golden_tests.nightly import NIGHTLY, by_day, one_in, seeds
from golden_tests.oracle.batches import Batch

PROGRAMS = {
    "linear": "p(X, Y, min<C>) :- e(X, Y, C). p(X, Y, min<C>) :- p(X, Z, C1), e(Z, Y, C2), C = C1 + C2.",
    "doubled": "p(X, Y, min<C>) :- e(X, Y, C). p(X, Y, min<C>) :- p(X, Z, C1), p(Z, Y, C2), C = C1 + C2.",
    "two relations": """
        q(X, Y, C) :- e(X, Y, C).
        q(X, Y, C) :- e(X, Z, C1), p(Z, Y, C2), C = C1 + C2.
        p(X, Y, min<C>) :- q(X, Y, C).
        """,
    "witnesses": """
        p(X, Y, min<C>, Y) :- e(X, Y, C).
        p(X, Y, min<C>, Z) :- e(X, Z, C1), p(Z, Y, C2, _), C = C1 + C2.
        """,
    "from sources": "p(X, min<0>) :- s(X). p(Y, min<C>) :- p(X, D), e(X, Y, W), C = D + W, C < 9.",
    "labels of components": "p(X, min<Y>) :- e(X, Y, _). p(X, min<M>) :- e(X, Y, _), p(Y, M).",
    "greatest": "p(X, Y, max<C>) :- e(X, Y, C). p(X, Y, max<C>) :- p(X, Z, C), e(Z, Y, _), C >= 2.",
    "bottleneck": """
        p(X, Y, max<C>) :- e(X, Y, C).
        p(X, Y, max<C>) :- e(X, Z, C1), p(Z, Y, C2), C = least(C1, C2).
        """,
    "bottleneck doubled": """
        p(X, Y, max<C>, Z) :- e(X, Y, C), Z = X.
        p(X, Y, max<C>, Z) :- p(X, Z, C1, _), p(Z, Y, C2, _), C = least(C1, C2).
        """,
    "least of the greatest": """
        p(X, Y, min<C>) :- e(X, Y, C).
        p(X, Y, min<C>) :- p(X, Z, C1), e(Z, Y, C2), C = greatest(C1, C2, 1), !s(Z).
        """,
    "two extrema": """
        p(X, Y, min<C>) :- e(X, Y, C).
        p(X, Y, min<C>) :- q(X, Z, C1), e(Z, Y, C2), C = C1 + C2.
        q(X, Y, min<C>) :- p(X, Y, C), !s(Y).
        q(X, Y, min<C>) :- e(Y, X, C1), C = C1 * 2.
        """,
    "two extrema doubled": """
        p(X, Y, max<C>) :- e(X, Y, C).
        p(X, Y, max<C>) :- q(X, Z, C1), q(Z, Y, C2), C = least(C1, C2).
        q(X, Y, max<C>) :- p(Y, X, C), C > 0.
        """,
    "path vector": """
        p(X, Y, P, C) :- e(X, Y, C), P = f_init(X, Y).
        p(X, Y, P, C) :- e(X, Z, C1), p(Z, Y, P2, C2), C = C1 + C2, P = f_concatPath(X, P2), f_inPath(P2, X) = false.
        q(X, Y, min<C>) :- p(X, Y, _, C).
        """,
    "best paths, chosen": """
        q(X, Y, P, C) :- e(X, Y, C), P = f_init(X, Y).
        q(X, Y, P, C) :- e(X, Z, C1), q(Z, Y, P2, C2), C = C1 + C2, P = f_concatPath(X, P2), !f_inPath(P2, X).
        p(X, Y, min<C>, P) :- q(X, Y, P, C).
        """,
    "carried around a cycle": """
        p(X, Y, min<C>) :- e(X, Y, C).
        p(X, Y, min<C>) :- t(X, Z, C1), e(Z, Y, C2), C = C1 + C2, C2 > 1.
        t(X, Y, C) :- p(X, Y, C).
        t(X, Z, C) :- t(X, Y, C), e(Y, Z, 0).
        """,
    "carried by two": """
        p(X, Y, max<C>) :- e(X, Y, C).
        p(X, Y, max<C>) :- q(X, Z, C1), t(Z, Y, C2), C = least(C1, C2).
        q(X, Y, max<C>) :- t(X, Y, C).
        t(X, Y, C) :- p(X, Y, C), !s(X).
        t(X, Y, C) :- e(X, Z, _), t(Z, Y, C1), C = C1 / 2.
        """,
    "witnesses behind greatest": """
        p(X, Y, min<C>, Z) :- e(X, Y, C), Z = X.
        p(X, Y, min<C>, W) :- p(X, Z, C1, W), e(Z, Y, _), C = greatest(C1, 2).
        """,
    "witnesses behind a quotient": """
        p(X, Y, max<C>, Z) :- e(X, Y, C), Z = X.
        p(X, Y, max<C>, W) :- e(X, Z, _), p(Z, Y, C1, W), C = C1 / 2.
        """,
    "behind negation": """
        p(X, Y, min<C>) :- e(X, Y, C), !s(X).
        p(X, Y, min<C>) :- p(X, Z, C1), e(Z, Y, C2), C = C1 + C2, !s(Y).
        r(X, count<*>) :- p(X, _, _).
        """,
}


@by_day(1)
@pytest.mark.parametrize("seed", seeds(1, 5))
@pytest.mark.parametrize("rules", one_in(PROGRAMS.values(), 6), ids=list(PROGRAMS))
def test_extrema(rules: str, seed: int, tmp_path: Path) -> None:
    """A graph and batches of up to six changes: four by day, six at night."""
    text = f"input relation e(x: int, y: int, c: int)\ninput relation s(x: int)\noutput p.\n{rules}\n"
    rng = random.Random(f"{rules} {seed}")
    nodes, costs = rng.choice((4, 5, 7)), rng.choice((1, 2, 4))

    def edge() -> Row:
        return rng.randrange(nodes), rng.randrange(nodes), rng.randrange(costs)

    compilation, script = compile_text(text)
    job = LocalJob(script, tmp_path / "state", buckets=1 + seed % 3)
    job.limit_rounds(500)
    job.use_strategy(("incremental", "auto", "recompute")[(seed + len(rules)) % 3])
    checked = Checked(job, text, compilation)
    assert checked.build({"e": {edge() for _ in range(rng.randrange(2, 14))}, "s": {(rng.randrange(nodes),)}}) == []
    for _ in range(6 if NIGHTLY else 4):
        known = sorted(checked.inputs["e"])
        gone = [("-", row) for row in rng.sample(known, min(len(known), rng.randrange(4)))]
        come = [("+", edge()) for _ in range(rng.randrange(4))]
        batch: Batch = {"e": list({row: (op, row) for op, row in (*gone, *come)}.values())}
        if rng.random() < 0.3:
            batch["s"] = [(rng.choice("+-"), (rng.randrange(nodes),))]
        assert checked.apply(batch) == []
    job.close()


def rows(relation: str, *found: Row) -> Batch:
    """Insertions."""
    return {relation: [("+", row) for row in found]}


def test_plain_relation_carries_a_value_around_a_cycle(tmp_path: Path) -> None:
    """The tuples with a value that was bettered derive each other, and go."""
    text = """
        input relation base(x: int, c: int)
        input relation a(x: int, y: int)
        input relation z(x: int, y: int)
        output m.
        output t.
        m(X, min<C>) :- base(X, C).
        m(Y, min<C>) :- t(X, C), a(X, Y).
        t(X, C) :- m(X, C).
        t(Y, C) :- t(X, C), z(X, Y).
        """
    steps = [rows("base", (0, 2), (1, 5)), rows("z", (1, 2), (2, 1)), rows("a", (0, 1))]
    for number, batches in enumerate(([{**steps[0], **steps[1], **steps[2]}], steps)):
        job = LocalJob(compile_text(text)[1], tmp_path / str(number))
        job.limit_rounds(50)
        job.use_strategy("incremental")
        for batch in batches:
            job.run(batch)
        assert job.rows("m") == {(0, 2), (1, 2)}
        assert job.rows("t") == {(0, 2), (1, 2), (2, 2)}
        assert job.differences() == []
        job.close()


def test_witnesses_behind_a_function_that_is_not_strict(tmp_path: Path) -> None:
    """Of a group the value stays and the witness changes; those that it was handed on to do not keep it alive."""
    text = """
        input relation base(x: int, c: int, w: string)
        input relation e(x: int, y: int)
        output m.
        m(X, min<C>, W) :- base(X, C, W).
        m(Y, min<C>, W) :- e(X, Y), m(X, C1, W), C = greatest(C1, 3).
        """
    job = LocalJob(compile_text(text)[1], tmp_path / "state")
    job.limit_rounds(50)
    job.use_strategy("incremental")
    job.run({**rows("base", (1, 3, "w3"), (1, 4, "w1")), **rows("e", (1, 2), (2, 3), (3, 2))})
    assert job.rows("m") == {(1, 3, "w3"), (2, 3, "w3"), (3, 3, "w3")}
    job.run(rows("base", (1, 2, "w2")))
    assert job.rows("m") == {(1, 2, "w2"), (2, 3, "w2"), (3, 3, "w2")}
    assert job.differences() == []
    job.close()


def test_values_that_only_follow_from_each_other(tmp_path: Path) -> None:
    """A function that bounds a value which another betters: the best values have no finite proof of best values. The
    first build says so, and so does a batch, however it is applied."""
    text = """
        input relation s(x: int, c: int)
        output p.
        p(X, max<C>) :- s(X, C).
        p(X, max<C>) :- q(X, C1), C = C1 + 4.
        q(X, max<C>) :- p(X, C1), C = least(C1, 3).
        """
    script = compile_text(text)[1]
    for number, strategy in enumerate(("incremental", "recompute")):
        job = LocalJob(script, tmp_path / str(number))
        job.limit_rounds(50)
        job.use_strategy(strategy)
        with pytest.raises(job.module.JobError, match="best values of p only follow from each other"):  # type: ignore[attr-defined]
            job.run(rows("s", (1, 5)))
        job.run(rows("s", (1, 8)))
        assert job.rows("p") == {(1, 8)}
        with pytest.raises(job.module.JobError, match="best values of p only follow from each other"):  # type: ignore[attr-defined]
            job.run({"s": [("-", (1, 8)), ("+", (1, 5))]})
        assert job.rows("p") == {(1, 8)}
        job.close()
