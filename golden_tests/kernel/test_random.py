"""Random programs and random batches: whatever happens, a job's state and changes are those of recomputation.

By day the same every time, at night thousands of new programs; ``golden_tests/random_search.py`` does the same by hand.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from golden_tests.checks import Checked
from golden_tests.harness import LocalJob, MemoryJob, Row, compile_text
from golden_tests.nightly import AT_NIGHT, NIGHTLY, by_day, numbers, seeded, seeds
from golden_tests.oracle.batches import Batch, split
from golden_tests.oracle.language import parse
from golden_tests.oracle.strategies import FEATURES, Scenario, random_scenario, scenarios
from golden_tests.random_search import check, check_in_memory, made_daring, scenario_of

settings.register_profile(
    "jobs",
    derandomize=not NIGHTLY,
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)


def profile(examples: int) -> settings:
    """So many examples."""
    return settings(settings.get_profile("jobs"), max_examples=examples)


BUCKETS = st.integers(1, 3)


# Without files a program takes half the time, so that most are tried so; the others also see buckets and files.


@AT_NIGHT
@pytest.mark.parametrize("part", numbers(1, 5))
def test_any_program_any_batches(part: int) -> None:
    """After every batch: every relation, every published change, every support and rank; refused is what has to be."""

    @seeded(part)
    @profile(32 if NIGHTLY else 14)
    @given(scenarios(FEATURES | {"lists", "functions"}), st.integers(0, 99))
    def holds(made: Scenario, daring: int) -> None:
        assert check_in_memory(made_daring(made, random.Random(daring)) if daring >= 75 else made) == []

    holds()


@AT_NIGHT
@pytest.mark.parametrize("part", numbers(1, 5))
def test_any_program_any_batches_in_files(part: int) -> None:
    """The same with the state in files and in buckets."""

    @seeded(part)
    @profile(8)
    @given(scenarios(FEATURES | {"lists", "functions"}), BUCKETS, st.integers(0, 99))
    def holds(made: Scenario, buckets: int, daring: int) -> None:
        scenario = made_daring(made, random.Random(daring)) if daring >= 75 else made
        assert check(scenario, buckets) == []

    holds()


@by_day(2)
@pytest.mark.parametrize("seed", seeds(4, 31))
def test_seeds(seed: int) -> None:
    """The same for programs chosen evenly, which are larger than those that hypothesis likes."""
    assert check_in_memory(scenario_of(seed)) == []


@by_day(1)
@pytest.mark.parametrize("seed", seeds(2, 8))
def test_seeds_in_files(seed: int) -> None:
    """Some of them with the state in files and in buckets, every second with nasty names."""
    assert check(scenario_of(seed, seed % 2 == 0), 1 + seed % 3) == []


@by_day(3)
@pytest.mark.parametrize(
    "rule",
    [
        "p(X, X) :- !k(X, _), ls(X, _), B = X % X.",
        "p(X, Y) :- !k(X, _), ls(X, Y), X % X = 0.",
        "p(X) :- !k(X, _), ls(X, _), B = X % X.",
        "p(X, count<*>) :- ls(X, _), !k(X, _), B = X % X, B < 5.",
        "p(X, max<Y>) :- ls(X, Y), !k(X, _), X % X < 5.",
    ],
)
@pytest.mark.parametrize("buckets", [1, 3, *(pytest.param(buckets, marks=AT_NIGHT) for buckets in (2, 7))])
def test_a_condition_without_value_in_another_bucket(rule: str, buckets: int) -> None:
    """A batch is not refused for a tuple that is not derived: what the rule negates is in a bucket."""
    text = f"input relation k(a: int, b: int)\ninput relation ls(a: int, b: int)\noutput p.\n{rule}\n"
    batches: list[Batch] = [
        {"k": [("+", (2, 2))], "ls": [("+", (2, 2)), ("-", (0, 1))]},
        {"k": [("-", (0, 3))]},
        {"ls": [("+", (0, 1))]},
        {"k": [("+", (0, 1))], "ls": [("+", (0, 5))]},
    ]
    made = Scenario(text, {"k": {(0, 3)}, "ls": {(0, 1), (4, 1), (5, 1)}}, batches)
    assert check(made, buckets) == []


@pytest.mark.parametrize(
    ("rule", "refused"),
    [
        ("p(X) :- e(X, Y), Z = X / Y.", True),
        ("p(X) :- Z = X / Y, e(X, Y).", True),
        ("p(X) :- e(X, Y), Z = X / Y, V = Z + 1.", True),
        ("p(count<*>) :- e(X, Y), Z = X / Y.", True),
        ("p(first<1>, X) :- e(X, Y), Z = X / Y.", True),
        ("p(X) :- e(X, Y), Z = X / Y, Y != 0.", False),
        ("p(X) :- e(X, Y), Z = X / Y, f(Y).", False),
        ("p(X) :- e(X, Y), Z = X / Y, !e(Y, X).", False),
    ],
)
def test_assignments_that_nothing_uses_need_a_value(rule: str, refused: bool) -> None:
    """As the reference says; where no literal lets the tuple through, nothing needs it."""
    text = f"input relation e(x: int, y: int)\ninput relation f(x: int)\noutput p.\n{rule}\n"
    compilation = compile_text(text)[0]
    job = MemoryJob(compilation)
    checked = Checked(job, text, compilation)
    assert checked.build({"e": {(4, 2), (0, 3)}, "f": {(2,)}}) == []
    assert checked.apply({"e": [("+", (3, 0)), ("+", (0, 3))]}) == []
    assert bool(checked.refused) == refused
    job.close()


@pytest.mark.parametrize("buckets", [1, 2, 3])
def test_a_key_of_tuples_in_different_buckets(buckets: int) -> None:
    """The rule keeps a column that is not part of the key; a relation cut by it would hide tuples with one key."""
    text = "input relation q(x: int, y: int)\noutput relation p(k: int, y: int) primary key (k)\n"
    text += "p(X % 2, Y) :- q(X, Y).\n"
    batches: list[Batch] = [{"q": [("+", (3, y))]} for y in range(6)]
    assert check(Scenario(text, {"q": {(0, 5), (1, 7)}}, batches), buckets) == []


def test_a_key_of_rows_in_different_buckets() -> None:
    """An input is cut by its key, wherever that stands: the row that is replaced lies where the new one comes."""
    text = "input relation q(x: int, k: int) primary key (k)\noutput p.\np(X, K) :- q(X, K).\n"
    batches: list[Batch] = [{"q": [("+", (x, 0)), ("+", (x + 1, 1))]} for x in range(1, 4)]
    assert check(Scenario(text, {"q": {(0, 0), (0, 1)}}, batches), 3) == []


def test_two_projections_of_a_negated_relation() -> None:
    """They leave other columns open, although as many."""
    text = "input relation q(x: int, y: int)\ninput relation r(x: int)\noutput p.\n"
    text += "p(X, 0) :- r(X), !q(X, _).\np(X, 1) :- r(X), !q(_, X).\n"
    nodes: set[Row] = {(x,) for x in range(4)}
    made = Scenario(text, {"q": {(0, 1), (1, 2)}, "r": nodes}, [{"q": [("-", (0, 1)), ("+", (3, 2))]}])
    assert check_in_memory(made) == []


@pytest.mark.parametrize("body", list(itertools.permutations(("a(X)", "!b(X)", "c(X)"))), ids=", ".join)
def test_what_a_rule_reads_and_negates_changes_at_once(body: tuple[str, ...]) -> None:
    """A tuple for each way in which three relations change or stay: no derivation counts that was never there."""
    text = "".join(f"input relation {name}(x: int)\n" for name in "abc") + f"output p.\np(X) :- {', '.join(body)}.\n"
    tuples = list(enumerate(itertools.product(("absent", "present", "lost", "gained"), repeat=3)))
    inputs: dict[str, set[Row]] = {}
    batch: Batch = {}
    for place, name in enumerate("abc"):
        inputs[name] = {(x,) for x, ways in tuples if ways[place] in ("present", "lost")}
        batch[name] = [("-", (x,)) for x, ways in tuples if ways[place] == "lost"]
        batch[name] += [("+", (x,)) for x, ways in tuples if ways[place] == "gained"]
    compilation = compile_text(text)[0]
    job = MemoryJob(compilation)
    job.use_strategy("incremental")
    checked = Checked(job, text, compilation)
    assert checked.build(inputs) == []
    assert checked.apply(batch) == []
    job.close()


DIVISORS = """
input relation e(x: int, y: int)
input relation f(x: int)
input relation g(x: int, y: int)
output p.
listed([1, 2], Y) :- g(X, Y).
p(Y, Z) :- p(X, Y), listed(L, Y), e(Y, Z).
p(Y, 0) :- size(L) < 2, !f_inPath(L, X), K = L ++ [X], !f_inPath(K, 1), listed(K, Y), !hidden(_, L), listed(L, X).
p(A, X) :- g(_, X), A = X % 2, B = X / A, A != 0, B != 2.
p(X, X) :- f(X) ; hidden(S, [3, 3]), e(X, Y).
hidden("ab", [3, 3]).
"""


def test_a_divisor_that_statistics_keep_from_zero() -> None:
    """DuckDB 2.0 died of a division by zero: it put an expression in the place of a column that it knew not to be zero,
    and kept the division without a check that it had chosen for the column."""
    compilation = compile_text(DIVISORS)[0]
    job = MemoryJob(compilation)
    job.use_strategy("incremental")
    checked = Checked(job, DIVISORS, compilation)
    links = [(0, 1), (0, 3), (0, 4), (1, 2), (2, 1), (2, 4), (3, 0), (3, 2), (4, 1)]
    pairs = [(0, 0), (0, 1), (1, 2), (1, 4), (3, 0), (3, 2), (4, 0), (4, 1), (4, 2), (4, 3)]
    assert checked.build({"e": set(links), "f": {(0,), (1,), (3,), (4,)}, "g": set(pairs)}) == []
    assert checked.apply({"e": [("-", (2, 1))]}) == []
    assert checked.apply({"e": [("-", (2, 4))], "g": [("+", (4, 4)), ("-", (4, 1))]}) == []
    job.close()


def apart(seed: int) -> Scenario:
    """A seed's scenario with all its changes in one batch, each tuple once."""
    made = random_scenario(seed)
    program = parse(made.text)
    merged: dict[str, dict[tuple[object, ...], tuple[str, tuple[object, ...]]]] = {}
    for batch in made.batches:
        for name, changes in batch.items():
            key = program.relations[name].key
            for op, row in changes:
                merged.setdefault(name, {})[tuple(row[c] for c in key) if key else row] = (op, row)
    return replace(made, batches=[{name: list(found.values()) for name, found in merged.items()}])


def cut(made: Scenario, parts: int, rng: random.Random) -> list[Batch]:
    """The one batch of a scenario in parts, the changes of a key together."""
    places: dict[object, int] = {}
    return split(
        made.batches[0],
        parse(made.text),
        lambda name, key: places.setdefault((name, key), rng.randrange(parts)),
        parts,
    )


@AT_NIGHT
@pytest.mark.parametrize("seed", seeds(1, 5))
def test_split_batches_end_in_the_same_state(seed: int, tmp_path: Path) -> None:
    """A batch whose tuples are distinct, in one piece or in three, in any order, each piece once or twice."""
    rng = random.Random(seed)
    made = apart(seed)
    compilation, script = compile_text(made.text)
    states: list[dict[str, set[Row]]] = []
    for parts in (1, 3, 3):
        pieces = cut(made, parts, rng)
        rng.shuffle(pieces)
        job = LocalJob(script, tmp_path / str(len(states)), buckets=rng.choice((1, 2, 3)))
        checked = Checked(job, made.text, compilation)
        assert checked.build(made.inputs) == []
        for piece in pieces:
            assert checked.apply(piece) == []
            if rng.random() < 0.3:
                assert checked.apply(piece) == []
                assert not any(job.changes.values()), "a batch applied again changes nothing"
        states.append({relation.table: job.tuples(relation) for relation in job.program.relations})
        job.close()
    assert states[0] == states[1] == states[2]


@pytest.mark.parametrize("rule", ["p(X, X) :- e(X, Y).", "p(X, Y) :- e(X, Y); e(Y, X).  p(X, Y) :- p(X, Z), e(Z, Y)."])
def test_more_is_lost_than_there_was(rule: str) -> None:
    """A state whose supports are too low was made by something else, and is refused."""
    job = MemoryJob(compile_text(f"input relation e(x: int, y: int)  output p.  {rule}")[0])
    job.use_strategy("incremental")
    rows = [(0, 1), (1, 0), (0, 0)]
    job.run({"e": [("+", row) for row in rows]})
    job.session.engine.run("UPDATE p SET _support = 1")
    with pytest.raises(job.module.JobError, match="p is inconsistent with its inputs: more derivations were lost than"):
        job.run({"e": [("-", row) for row in rows]})
    job.close()
