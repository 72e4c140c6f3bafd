"""Small strata: they are computed from scratch where that takes fewer statements than to follow the changes."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from flintlog.runtime.maintenance.changes import joined_tables
from flintlog.runtime.maintenance.choice import FEW_TUPLES, TooManySuspects, reason_for_scratch
from flintlog.runtime.maintenance.run import Choice, Effect

from golden_tests.harness import LocalJob, MemoryJob, compile_text
from golden_tests.nightly import seeds
from golden_tests.random_search import checked_batches, scenario_of

PROGRAM = """
input relation e(x: int, y: int)
output relation p(x: int, y: int)
output relation n(x: int, most: int)
output relation s(x: int, sum_y: int)
p(X, Y) :- e(X, Y).
p(X, Y) :- p(X, Z), e(Z, Y).
n(X, max<Y>) :- p(X, Y).
s(X, sum<Y>) :- p(X, Y).
"""


def outcomes(job: LocalJob | MemoryJob, *batches: list[tuple[str, tuple[int, int]]]) -> list[dict[str, str]]:
    """Why which strata were computed from scratch, in each batch."""
    found = []
    for batch in batches:
        job.run({"e": batch})
        assert job.differences() == []
        found.append(dict(job.module.LAST))
    return found


@pytest.fixture(params=["files", "memory"])
def job(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A job that remembers what the last batch computed from scratch."""
    compilation, script = compile_text(PROGRAM)
    made = LocalJob(script, tmp_path / "state") if request.param == "files" else MemoryJob(compilation)
    module: Any = made.module
    real = module.from_scratch
    module.LAST = {}

    def noted(run: Any, stratum: Any, reason: str, begun: bool) -> int:
        module.LAST[stratum.name] = reason
        return int(real(run, stratum, reason, begun))

    module.from_scratch = noted
    run = made.run

    def cleared(changes: Any) -> Any:
        module.LAST.clear()
        return run(changes)

    made.run = cleared  # type: ignore[method-assign]
    yield made
    made.close()


def test_few_rounds(job: Any) -> None:
    """A shallow recursion and a fold of groups take fewer statements from scratch; a sum is folded, since only that
    can say which group is out of range."""
    init, first, second = outcomes(job, [("+", (0, n)) for n in range(1, 9)], [("+", (9, 0))], [("-", (9, 0))])
    assert init == {}
    assert set(first) == set(second) == {"p", "n"}
    assert all(reason.startswith("it is small: to compute it takes ") for reason in first.values())


def test_many_rounds(job: Any) -> None:
    """To compute a deep recursion takes more statements than to follow a change at its end."""
    chain = [("+", (n, n + 1)) for n in range(1, 90)]
    _, first, second = outcomes(job, [*chain[:40], *chain[41:]], [("+", (90, 91))], [("-", (90, 91))])
    assert "p" not in first and "p" not in second
    job.use_strategy("incremental")
    assert outcomes(job, [chain[40]]) == [{}]


def test_long_computations(job: Any) -> None:
    """What took long follows the changes, however few its statements and its tuples are."""
    job.module.QUICK_STATEMENTS = 0
    _, first = outcomes(job, [("+", (0, n)) for n in range(1, 9)], [("+", (9, 0))])
    assert first == {}


def test_what_was_given_up_is_remembered(job: Any) -> None:
    """Deletions that touch most tuples are given up once; batches of their kind are then computed from scratch at once,
    with an estimate that decays."""
    job.use_strategy("auto")
    chain = [("+", (n, n + 1)) for n in range(1, 60)]
    cut, mended = [("-", (20, 21))], [("+", (20, 21))]
    found = outcomes(job, chain, cut, mended, cut, mended, cut, mended)[1::2]
    reasons = [one["p"] for one in found]
    assert "were not at their end" in reasons[0]
    assert all("to follow that would cost about" in reason for reason in reasons[1:])
    costs = [float(reason.split("about ")[1].split()[0]) for reason in reasons[1:]]
    assert costs == sorted(costs, reverse=True) and costs[0] > 1.1


def test_few_differences(tmp_path: Path) -> None:
    """Of a stratum that was computed from scratch, only rows that differ are written, and nothing if none does."""
    loop = "output relation loop(x: int, y: int)\nloop(X, Y) :- e(X, Y), e(Y, X)."
    _, script = compile_text(f"{PROGRAM}{loop}")
    job = LocalJob(script, tmp_path / "state")
    job.run({"e": [*[("+", (0, n)) for n in range(1, 41)], ("+", (1, 50)), ("+", (2, 50)), ("+", (8, 8))]})
    first = job.manifest.relations["p"].buckets[0]
    # The closure has (0, 50) either way, now from one path less.
    for batch, rows in ([("-", (2, 50))], 2), ([("+", (41, 42))], 3), ([("-", (41, 42))], 3), ([("+", (0, 41))], 4):
        job.run({"e": batch})
        assert "it is small" in job.scratch[0] and job.differences() == []
        bucket = job.manifest.relations["p"].buckets[0]
        assert bucket.base == first.base and sum(bucket.change_rows) == rows
    assert "loop" in job.manifest.effects and len(job.scratch) == 3
    (bucket,) = job.manifest.relations["loop"].buckets.values()
    assert bucket.rows == 1 and "/000001-" in f"/{bucket.base[0].removeprefix('data/')}" and not bucket.changes
    job.close()


def stratum_of(kind: str, calls: tuple[str, ...] = ()) -> Any:
    """A stratum as far as the choice looks at it."""
    rounds = ("delta",) if kind == "ranked" else ()
    rules = (SimpleNamespace(rounds=rounds, calls=calls),)
    return SimpleNamespace(kind=kind, name="p", rules=rules, ranged=(), relations=(SimpleNamespace(table="p"),))


@pytest.mark.parametrize("kind", ["ranked", "counted"])
def test_what_earlier_batches_cost(kind: str) -> None:
    """A larger stratum is computed from scratch if batches like this one took longer than to compute it."""

    def reason(effect: Effect, lost: float = 0.001, gained: float = 0.001, **stratum: Any) -> str:
        return reason_for_scratch(Choice(), stratum_of(kind, **stratum), effect, 0.0015, FEW_TUPLES, lost, gained)

    long = Effect(built=5, seconds=9.0)
    quick = Effect(built=5, seconds=0.009)
    assert not reason(long) and "times as much" in reason(quick)
    assert not reason(quick, calls=("f",))
    dear = {"followed": 10.0, "follow_seconds": 12.0, "follow_lost": 0.001, "follow_gained": 0.001}
    assert "about 1.3 times" in reason(long._replace(**dear))
    assert not reason(long._replace(**dear), lost=0.0005, gained=0.0005) or kind == "ranked"
    cheap = {**dear, "follow_seconds": 2.0}
    assert not reason(long._replace(**cheap))
    # Changes that touched nothing have no price.
    assert "about 1.3 times" in reason(long._replace(**dear, rounds=0.0, lost=0.0, gained=0.0)) or kind == "counted"
    # What larger changes take is not less.
    assert reason(long._replace(**dear), lost=0.01)


def test_deep_deletions() -> None:
    """Deletions whose first rounds cost much are given up early if the recursion is deep, and what following them to
    the end would cost is passed on."""
    module: Any = sys.modules["flintlog.runtime.maintenance.deletions"]
    engine = SimpleNamespace(rows=lambda table: 100_000 if table == "p" else 10)

    def check(rounds: float, seconds: float, strategy: str = "auto") -> None:
        effects = {"p": Effect(seconds=10.0, built_rounds=rounds)}
        run: Any = SimpleNamespace(engine=engine, choice=Choice(strategy, effects))
        module.check_suspects(run, stratum_of("ranked"), 3, seconds)

    with pytest.raises(TooManySuspects) as raised:
        check(60, 0.6)
    assert raised.value.price == pytest.approx(1.2)
    check(6, 0.6)
    check(60, 0.4)
    check(60, 0.6, "incremental")
    with pytest.raises(TooManySuspects):
        check(0, 6.0)


def test_calls(tmp_path: Path) -> None:
    """Functions of users are called for the changes only."""
    text = """
    input relation e(x: int)
    extern function f(x: int): int
    output relation q(x: int, y: int)
    q(X, Y) :- e(X), Y := f(X).
    """
    compilation, _ = compile_text(text)
    calls = tmp_path / "calls"
    functions = tmp_path / "functions.py"
    functions.write_text(
        "def f(x: int) -> int:\n"
        f"    with open({str(calls)!r}, 'a') as lines:\n"
        "        lines.write(f'{x}\\n')\n"
        "    return x + 1\n",
        encoding="utf-8",
    )
    job = MemoryJob(compilation, functions)
    job.run({"e": [("+", (n,)) for n in range(5)]})
    calls.unlink()
    job.run({"e": [("+", (7,))]})
    assert set(calls.read_text(encoding="utf-8").split()) == {"7"}
    job.close()


def test_known_to_the_next_process(job: Any) -> None:
    """The manifest keeps what was measured, beside what earlier versions kept."""
    if isinstance(job, MemoryJob):
        pytest.skip("has no manifest")
    outcomes(job, [("+", (0, 1))], [("+", (1, 2))])
    assert set(job.manifest.effects) == {"p", "n", "s"}
    effect = job.module.Effect(*job.manifest.effects["p"][0])
    assert effect.built > 0 and 0 < effect.seconds < 10
    earlier = job.module.Effect(1.0, 2.0, 3.0)
    assert (earlier.built, earlier.followed) == (0, 0)


@pytest.mark.parametrize("seed", seeds(3, 300))
def test_random_programs(seed: int, tmp_path: Path) -> None:
    """The oracle agrees with batches of random programs that choose by the number of statements."""
    scenario = scenario_of(70_000 + seed)
    compilation, script = compile_text(scenario.text)
    job = LocalJob(script, tmp_path / "state", 1 + seed % 3)
    assert checked_batches(scenario, compilation, job, "small strata", Counter()) == []


@pytest.mark.parametrize(
    ("query", "tables"),
    [
        ("SELECT 1 FROM r__after AS r\nJOIN s__before AS s\n  ON s.x = r.x", ("r", "s")),
        ("SELECT 1 FROM r__delta AS r CROSS JOIN r__after AS r_2", ("r",)),
        ("SELECT 1 FROM r__after AS r WHERE NOT EXISTS(SELECT 1 FROM s__absent_after AS absent)", ("r",)),
        (
            "SELECT 1 FROM x__absent_after__after AS x JOIN y__before__delta AS y ON TRUE",
            ("x__absent_after", "y__before"),
        ),
        ("SELECT ' FROM s__after', 'it''s FROM s__after' FROM r__after AS r", ("r",)),
        ('SELECT r." FROM s__after" FROM r__after AS r', ("r",)),
        ("SELECT 1 FROM r__after AS r LEFT JOIN s__after AS s ON TRUE", ()),
        ("SELECT COUNT(*) FROM r__after AS r GROUP BY x", ()),
        ("SELECT 1 FROM r__after UNION ALL SELECT 1 FROM s__after", ()),
    ],
)
def test_tables_without_which_a_query_has_no_rows(query: str, tables: tuple[str, ...]) -> None:
    """Text and negated literals do not count, and nothing is said of other queries than joins."""
    assert joined_tables(query) == tables


def test_rules_over_empty_relations_run_no_query(job: Any) -> None:
    """A batch takes no more statements for them, and they are followed once there are tuples."""
    job.run({"e": [("+", (1, 2))]})
    job.run({"e": [("-", (1, 2))]})
    job.run({"e": [("+", (2, 3)), ("+", (3, 4))]})
    assert job.differences() == []
    assert job.rows("p") == {(2, 3), (3, 4), (2, 4)}
