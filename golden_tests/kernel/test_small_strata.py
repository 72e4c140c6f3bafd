"""Small strata: they are computed from scratch where that takes fewer statements than to follow the changes."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from flintlog.runtime.kernel.method_interface import Choice, Effect
from flintlog.runtime.kernel.model import Relation
from flintlog.runtime.kernel.strategy import (
    DECAY,
    FEW_TUPLES,
    TooManySuspects,
    decayed,
    expected_statements,
    reason_for_scratch,
)
from flintlog.targets.pyspark.load import load_program

from golden_tests.harness import LocalJob, MemoryJob, compile_text
from golden_tests.nightly import AT_NIGHT, by_day, seeds
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


@by_day(1)
def test_few_rounds(job: Any) -> None:
    """A shallow recursion and a fold of groups take fewer statements from scratch; a sum is folded, since only that
    can say which group is out of range."""
    init, first, second = outcomes(job, [("+", (0, n)) for n in range(1, 9)], [("+", (9, 0))], [("-", (9, 0))])
    assert init == {}
    assert set(first) == set(second) == {"p", "n"}
    assert all(reason.startswith("it is small: to compute it takes ") for reason in first.values())


@by_day(1)
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


@by_day(1)
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
    return SimpleNamespace(kind=kind, name="p", rules=rules, ranged=(), relations=(Relation("p", "p", (), kind, ""),))


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
    module: Any = sys.modules["flintlog.runtime.kernel.deletions"]
    engine = SimpleNamespace(rows=lambda table: 100_000 if table == "p" else 10)

    def check(rounds: float, seconds: float, strategy: str = "auto") -> None:
        effects = {"p": Effect(seconds=10.0, built_rounds=rounds)}
        run: Any = SimpleNamespace(engine=engine, choice=Choice(strategy, effects))
        module.check_suspects(run, stratum_of("ranked"), 3, seconds, 50)

    with pytest.raises(TooManySuspects) as raised:
        check(60, 0.6)
    assert raised.value.price == pytest.approx(1.2)
    check(6, 0.6)
    check(60, 0.4)
    check(60, 0.6, "incremental")
    with pytest.raises(TooManySuspects):
        check(0, 6.0)


def test_small_deletions() -> None:
    """Deletions from a small recursion are expected to take more statements than to compute it, until they are tried;
    then they are given up early, unless they took few. That says nothing about insertions."""
    stratum, new = stratum_of("ranked"), Effect(built=40.0, seconds=0.1)

    def expected(effect: Effect, lost: float = 0.01) -> float:
        return expected_statements(stratum, effect, lost)

    assert expected(new) == 60 and expected(new, 0.0) == 12
    assert expected(new._replace(followed=16.0)) == 16
    effect, batches = new, 0
    while reason_for_scratch(Choice(), stratum, effect, 0.0015, 3000, 0.01, 0.01):
        effect, batches = decayed(stratum, effect, 3000, 0.01), batches + 1
        assert expected(effect) == pytest.approx(60 * DECAY**batches)
        assert not reason_for_scratch(Choice(), stratum, effect, 0.0015, 3000, 0.0, 0.01)
    assert batches == 4
    module: Any = sys.modules["flintlog.runtime.kernel.deletions"]
    engine = SimpleNamespace(rows=lambda table: 3000 if table == "p" else 10, seconds_of_statement=0.0015)
    run: Any = SimpleNamespace(engine=engine, choice=Choice("auto", {"p": effect}))
    module.check_suspects(run, stratum, 3, 0.01, 13)
    with pytest.raises(TooManySuspects, match="to compute it takes 40 statements, deletions took 14"):
        module.check_suspects(run, stratum, 3, 0.01, 14)


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


@AT_NIGHT
@pytest.mark.parametrize("seed", seeds(1, 5))
def test_random_programs(seed: int, tmp_path: Path) -> None:
    """The oracle agrees with batches of random programs that choose by the number of statements."""
    scenario = scenario_of(70_000 + seed)
    compilation, script = compile_text(scenario.text)
    job = LocalJob(script, tmp_path / "state", 1 + seed % 3)
    assert checked_batches(scenario, compilation, job, "small strata", Counter()) == []


def test_tables_without_which_a_rule_derives_nothing() -> None:
    """Negated literals do not count; a change of a relation meets the others, and itself if the rule has it twice."""
    text = """
input relation e(a: int, b: int)
input relation f(a: int)
output relation p(a: int)
output relation t(a: int, b: int)
r1: p(A) :- e(A, B), e(B, _), !f(A).
r2: t(A, B) :- e(A, B).
r3: t(A, C) :- t(A, B), e(B, C).
"""
    stages = load_program(compile_text(text)[0].plan).stages
    rules = {rule.label: rule for stage in stages for stratum in stage.strata for rule in stratum.rules}
    assert {label: rule.joined for label, rule in rules.items()} == {"r1": {"e"}, "r2": {"e"}, "r3": {"e", "t"}}
    beside = {label: [rule.read_beside(delta) for delta in rule.deltas] for label, rule in rules.items()}
    assert beside == {"r1": [{"e", "f"}, {"e", "f"}, {"e"}], "r2": [set()], "r3": [{"t"}]}


def test_rules_over_empty_relations_run_no_query(job: Any) -> None:
    """A batch takes no more statements for them, and they are followed once there are tuples."""
    job.run({"e": [("+", (1, 2))]})
    job.run({"e": [("-", (1, 2))]})
    job.run({"e": [("+", (2, 3)), ("+", (3, 4))]})
    assert job.differences() == []
    assert job.rows("p") == {(2, 3), (3, 4), (2, 4)}
