"""Tasks read only the rows that a batch needs: those that it changes, and those that its changes meet."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from golden_tests.checks import Checked
from golden_tests.harness import LocalJob, compile_text
from golden_tests.nightly import AT_NIGHT, by_day, one_in, seeds
from golden_tests.oracle.batches import Batch
from golden_tests.random_search import checked_batches, scenario_of

#: Names are chosen to be those that lookups use.
PROGRAM = """
input relation stored(id: int, who: int, what: int)
input relation changed(changed: int, region: string)
input relation product(id: int, weight: float) primary key (id)
input relation blocked(who: int)
input relation pair(x: int, y: int)
output relation sold(region: string, weight: float)
output relation total(region: string, n: int, most: int)
output relation twice(x: int, z: int)
output relation far(x: int)
sold(R, W) :- stored(_, C, P), changed(C, R), product(P, W), !blocked(C).
total(R, count<*>, max<I>) :- stored(I, C, _), changed(C, R).
twice(X, Z) :- pair(X, Y), pair(Y, Z), stored(X, _, _).
far(X) :- twice(X, Z), Z > X.
"""

#: The only group is known by a hidden column, which the mark of a deleted tuple lacks.
UNGROUPED = """
input relation e(x: int)
output relation span(low: int, high: int, total: int)
output relation number(n: int)
span(min<X>, max<X>, sum<X>) :- e(X).
number(count<*>) :- e(X), X > 1.
"""


def first_batch() -> Batch:
    """Some rows of each relation."""
    return {
        "stored": [("+", (n, n % 7, n % 5)) for n in range(40)],
        "changed": [("+", (n, f"r{n % 3}")) for n in range(7)],
        "product": [("+", (n, n / 2)) for n in range(5)],
        "blocked": [("+", (6,))],
        "pair": [("+", (n, (n * 3) % 20)) for n in range(20)],
    }


BATCHES: dict[str, Batch] = {
    "a row of the largest": {"stored": [("-", (3, 3, 3)), ("+", (99, 2, 1))]},
    "a key replaced": {"product": [("+", (3, -0.0))]},
    "a key removed and a new one": {"product": [("-", (1, 0.5)), ("+", (7, -1e308))], "changed": [("+", (7, "r9"))]},
    "what blocks": {"blocked": [("-", (6,)), ("+", (0,)), ("+", (5,))]},
    "both ends of a pair": {"pair": [("-", (1, 3)), ("+", (3, 1)), ("+", (19, 1))]},
    "an extremum lost": {"stored": [("-", (39, 4, 4)), ("-", (38, 3, 3)), ("-", (37, 2, 2))]},
    "without effect": {"stored": [("-", (1000, 1, 1)), ("+", (5, 5, 0))], "pair": [("+", (0, 0))]},
    "all at once": {
        "stored": [("+", (200, 1, 7)), ("-", (8, 1, 3))],
        "changed": [("-", (1, "r1")), ("+", (1, "r0"))],
        "product": [("+", (2, 1.5)), ("-", (7, -1e308))],
        "blocked": [("-", (0,))],
        "pair": [("-", (0, 0))],
    },
}


@AT_NIGHT
@pytest.mark.parametrize("buckets", one_in([3, 1, 2], 3))
def test_only_what_is_needed_is_read(buckets: int, tmp_path: Path) -> None:
    """State and changes are those of recomputation, although most rows are never read."""
    compilation, script = compile_text(PROGRAM)
    job = LocalJob(script, tmp_path / "state", buckets)
    job.seem_large()
    job.use_strategy("incremental")
    looked_up, reduced = noted(job)
    checked = Checked(job, PROGRAM, compilation)
    assert checked.apply(first_batch()) == []
    assert not looked_up and not reduced
    read = {}
    for name, batch in BATCHES.items():
        looked_up.clear()
        reduced.clear()
        job.module.FEW_ROWS = 0
        assert checked.apply(batch) == [], name
        read[name] = (set(looked_up), set(reduced))
    job.close()
    if buckets > 1:
        assert read == {
            "a row of the largest": ({"changed", "product", "blocked"}, {"stored", "sold", "total", "far"}),
            "a key replaced": ({"stored"}, {"product", "sold"}),
            "a key removed and a new one": ({"stored"}, {"product", "sold"}),
            "what blocks": ({"stored", "changed"}, {"blocked", "sold"}),
            "both ends of a pair": ({"pair"}, {"pair", "far"}),
            "an extremum lost": ({"changed", "product", "blocked"}, {"stored", "sold", "total"}),
            "without effect": (set(), {"stored", "pair"}),
            "all at once": ({"stored"}, {"stored", "product", "blocked", "pair", "sold", "total", "far"}),
        }


@by_day(1)
@pytest.mark.parametrize("buckets", [1, 2])
def test_aggregates_without_groups(buckets: int, tmp_path: Path) -> None:
    """A tuple that was replaced by a batch before stays away."""
    compilation, script = compile_text(UNGROUPED)
    job = LocalJob(script, tmp_path / "state", buckets)
    job.seem_large()
    job.use_strategy("incremental")
    checked = Checked(job, UNGROUPED, compilation)
    for rows in ([("+", 1), ("+", 2)], [("+", 3)], [("+", 4)], [("-", 1)], [("-", 2), ("-", 3), ("-", 4)], [("+", 5)]):
        assert checked.apply({"e": [(sign, (x,)) for sign, x in rows]}) == [], rows
    job.close()


def noted(job: LocalJob) -> tuple[Counter[str], Counter[str]]:
    """The tables that a job looks up rows of, and those that it reads in part, from now on."""
    looked_up: Counter[str] = Counter()
    reduced: Counter[str] = Counter()
    engine: Any = job.module.DuckEngine
    look_up, reduce = engine.look_up, engine.reduce

    def watched_look_up(self: Any, name: str, of: str, condition: str) -> bool:
        done = bool(look_up(self, name, of, condition))
        looked_up.update([of] * done)
        return done

    def watched_reduce(self: Any, name: str, *arguments: Any) -> None:
        before = self.tables[name].later
        reduce(self, name, *arguments)
        reduced.update([name] * (self.tables[name].later != before))

    engine.look_up, engine.reduce = watched_look_up, watched_reduce
    return looked_up, reduced


@AT_NIGHT
@pytest.mark.parametrize("seed", seeds(1, 8))
def test_random_programs(seed: int, tmp_path: Path) -> None:
    """The same for random programs; those without joins look nothing up."""
    scenario = scenario_of(seed, seed % 2 == 0)
    compilation, script = compile_text(scenario.text)
    job = LocalJob(script, tmp_path / "state", 1 + seed % 3)
    job.seem_large()
    job.use_strategy("auto" if seed % 3 else "incremental")
    job.limit_rounds(500)
    assert checked_batches(scenario, compilation, job, "as if large", Counter()) == []
