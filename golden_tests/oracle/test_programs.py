"""The generators make valid programs, and the oracle agrees with engines of others on them."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Mapping
from importlib.util import find_spec
from itertools import product

import pytest
from hypothesis import HealthCheck, given, settings

from golden_tests.nightly import AT_NIGHT, one_in
from golden_tests.oracle.batches import Rows, apply, diff, split
from golden_tests.oracle.evaluate import (
    ArithmeticFault,
    Joined,
    OnlyFromEachOther,
    Store,
    counts,
    evaluate,
    evaluated,
    once,
    shown,
    strata,
    supports_ok,
)
from golden_tests.oracle.language import Program, Row, parse
from golden_tests.oracle.random_programs import random_scenario
from golden_tests.oracle.second_engines import by_clingo, by_duckdb, without_paths
from golden_tests.oracle.strategies import FEATURES, MORE_FEATURES, Scenario, random_program, scenarios

CHUNKS = [range(start, start + 40) for start in range(0, 320, 40)]

SHOWN = {
    "aggregates": r"sum<",
    "arithmetic": r" % 5",
    "comparisons": r" <= ",
    "constants": r"p\d\([^)]*[0-9],.*:-",
    "disjunction": r" ; ",
    "duplicates": r"^([a-z].*:-.*)\n\1$",
    "expressions": r"^\w+\([^:]* % [^:]* :-",
    "facts": r"^[pqr]\d\([^:]*\)\.$",
    "many facts": r"^([pqr]\d\()[^:]*\)\.\n\1[^:]*\)\.\n\1[^:]*\)\.$",
    "guards": r"B = \w / \w",
    "input_derived": r"input derived relation",
    "keys": r"primary key",
    "mutual": r"\bq\d",
    "negation": r"!\w",
    "negation_only": r":- (!|not )[^,]*\.$",
    "nonlinear": r"(p\d)\(.* :- .*\b\1\(.*\b\1\(",
    "nullary": r"\bon\b",
    "paths": r"[+/|*?]\)?\(\w",
    "recursion": r"(p\d)\(.* :- .*\b\1\(",
    "repeats": r":- .*\(([A-Z]), \1\)",
    "same_relation": r":- .*\be\(.*\be\(",
    "strings": r" \+\+ ",
    "wildcards": r"[( ]_[,)]",
    "locations": r"@X",
    "witnesses": r"m..<\w>, \w\)",
    "distinct": r"count<distinct",
    "lists": r"list<int>",
    "functions": r"\b(upper|pmod|contains|abs|length)\(",
    "extremes": r"m\d\(X, Y, min<C>\) :- wt\(X, Z, C1\)",
    "nulls": r"[NOPQ] !?= null",
    "timestamps": r'timestamp"',
    "firsts": r"first<2 by",
    "multisets": r"^input multiset relation",
    "types": r"^input relation (ty|tz|wild)\(",
    "nasty names": r"\b(rowid|_rank|_support|select|ROWID|count|batch)\b *[(:,)]",
}
"""What shows in some program that has a feature."""


def scenario(seed: int) -> Scenario:
    """A scenario of all features; every fourth with the ones to be asked for, every eighth with nasty names too. The
    ends of 64 bits would make arithmetic fail."""
    more = MORE_FEATURES - {"types"} - (set() if seed % 8 == 7 else {"nasty names"})
    return random_scenario(seed, FEATURES | more if seed % 4 == 3 else FEATURES)


@pytest.mark.parametrize("seeds", one_in(CHUNKS, 4), ids=map(str, CHUNKS))
def test_random_programs_are_valid(seeds: range) -> None:
    """They parse, have strata, and evaluate after nearly every batch; what is counted is what is there."""
    refused = 0
    for seed in seeds:
        made = scenario(seed)
        program = parse(made.text)
        assert program.outputs, made
        found = strata(program)
        assert Counter(name for stratum in found for name in stratum.relations) == Counter(
            relation.name for relation in program.derived
        ), made
        now = made.inputs
        for batch in [{}, *made.batches]:
            now = apply(now, batch, program)
            try:
                store = evaluated(program, now)
            except OnlyFromEachOther:
                # Of a recursion by `min` with a rule that does not grow, as a job says too.
                refused += 1
                break
            state = shown(program, store)
            for name, counted in counts(program, now, store).items():
                assert set(counted) == (state[name] if name in state else now[name]), made
                assert all(n > 0 for n in counted.values()), made
    assert refused <= len(seeds) // 20


def test_programs_of_all_types_are_valid() -> None:
    """They parse, have strata, and evaluate after most batches: arithmetic with the ends of 64 bits fails."""
    evaluations, refused = 0, 0
    for seed in range(40):
        made = random_scenario(seed, FEATURES | {"types"})
        program = parse(made.text)
        now = made.inputs
        for batch in [{}, *made.batches]:
            after = apply(now, batch, program)
            try:
                evaluated(program, after)
            except ArithmeticFault:
                refused += 1
                continue
            now = after
            evaluations += 1
    assert evaluations > 4 * refused > 0


def test_same_seed_same_program() -> None:
    """The generator depends on nothing but the seed."""
    assert [scenario(seed) for seed in range(20)] == [scenario(seed) for seed in range(20)]


@pytest.mark.parametrize("feature", sorted(FEATURES | MORE_FEATURES))
def test_features_show(feature: str) -> None:
    """Every feature occurs when it is asked for, and what has a sign of its own does not when it is not."""
    assert set(SHOWN) == FEATURES | MORE_FEATURES
    sign = re.compile(SHOWN[feature], re.MULTILINE)
    assert any(sign.search(random_program(random.Random(seed), FEATURES | {feature})) for seed in range(400))
    if feature not in (
        "constants",
        "duplicates",
        "arithmetic",
        "comparisons",
        "mutual",
        "nonlinear",
        "recursion",
        "same_relation",
    ):
        without = FEATURES - {feature}
        for seed in range(150):
            text = random_program(random.Random(seed), without)
            assert not sign.search(text), text


@AT_NIGHT
def test_enough_happens() -> None:
    """Most relations hold something, most batches change something, and recursion goes deep enough now and then."""
    filled = relations = changed = batches = deep = 0
    for seed in range(200):
        made = random_scenario(seed)
        program = parse(made.text)
        now = made.inputs
        old = evaluate(program, now)
        for batch in made.batches:
            now = apply(now, batch, program)
            new = evaluate(program, now)
            changed += bool(diff(old, new))
            batches += 1
            old = new
        relations += len(old)
        filled += sum(map(bool, old.values()))
        deep += max((rank for rows in ranked(program, now).values() for _, rank in rows.values()), default=0) > 2
    assert filled > 0.6 * relations
    assert changed > 0.4 * batches
    assert deep > 25


def test_splits_change_nothing() -> None:
    """Batches split by key end in the same state in any order; also if applied twice, where copies do not count."""
    for seed in range(60):
        made = scenario(seed)
        program = parse(made.text)
        rng = random.Random(seed)
        before: Mapping[str, Rows] = made.inputs
        for batch in made.batches:
            whole = apply(before, batch, program)
            place = {(name, row): rng.randrange(3) for name, changes in batch.items() for _, row in changes}
            keys = {(name, key): place[name, row] for (name, row), key in keyed(program, place).items()}
            parts = split(batch, program, lambda name, key, keys=keys: keys[name, key], 3)  # type: ignore[misc]
            rng.shuffle(parts)
            now = before
            again = [] if any(relation.is_multiset for relation in program.inputs) else parts
            for part in [*parts, *again]:
                now = apply(now, part, program)
            assert now == whole, made
            before = whole


def keyed(program: Program, rows: dict[tuple[str, Row], int]) -> dict[tuple[str, Row], Row]:
    """The key of every changed row."""
    return {
        (name, row): tuple(row[c] for c in program.relations[name].key) if program.relations[name].key else row
        for name, row in rows
    }


# ---- ranked support ------------------------------------------------------------------------------------------------


def ranked(program: Program, inputs: dict[str, set[Row]]) -> dict[str, dict[Row, tuple[int, int]]]:
    """(support, rank) of the recursive strata without aggregates, the rank being the round that finds a tuple first."""
    state: dict[str, dict[Row, tuple[int, int]]] = {}
    complete = Store({**inputs, **evaluate(program, inputs)})
    for stratum in strata(program):
        if not stratum.recursive or any(rule.aggregated for n in stratum.relations for rule in program.rules_of(n)):
            continue
        store = Store({name: rows for name, rows in complete.rows.items() if name not in stratum.relations})
        clock = 0
        entered: dict[str, Counter[Row]] = {}
        for name in stratum.relations:
            state[name] = {}
        while True:
            clock += 1
            for name in stratum.relations:
                entered[name] = Counter(once(program, name, store, strict=False))
                if program.relations[name].is_input:
                    entered[name].update(inputs.get(name, ()))
            grew = False
            for name in stratum.relations:
                for row in store.add(name, entered[name]):
                    state[name][row] = (entered[name][row], clock)
                    grew = True
            if not grew:
                break
    return state


@AT_NIGHT
def test_supports() -> None:
    """Ranks by rounds satisfy the invariant; any change of a support, or a lost tuple, is found."""
    checked = 0
    for seed in range(200):
        made = random_scenario(seed)
        program = without_paths(parse(made.text))
        state = ranked(program, made.inputs)
        store = evaluated(program, made.inputs)
        assert supports_ok(program, made.inputs, state, store) == [], made
        for name, rows in state.items():
            for row in list(rows)[:2]:
                support, rank = rows[row]
                for wrong in ((support + 1, rank), (support - 1, rank), (support, 0)):
                    assert supports_ok(program, made.inputs, {**state, name: {**rows, row: wrong}}, store), made
                without = {**state, name: {r: v for r, v in rows.items() if r != row}}
                assert supports_ok(program, made.inputs, without, store)
                checked += 1
    assert checked > 100


def test_join_order_does_not_matter() -> None:
    """Beginning with any atom finds the same derivations."""
    compared = 0
    for seed in range(100):
        made = scenario(seed)
        program = parse(made.text)
        try:
            store = Store({**made.inputs, **evaluate(program, made.inputs)})
        except OnlyFromEachOther:
            continue
        compared += 1
        for rule in program.rules:
            found = [
                Counter(tuple(derivation.used) for derivation in Joined(rule, first).derivations(store))
                for first in (None, *range(len(rule.positive)))
            ]
            assert all(other == found[0] for other in found), (made, rule)
    assert compared > 90


# ---- other engines -------------------------------------------------------------------------------------------------


@pytest.mark.skipif(find_spec("clingo") is None, reason="clingo is not installed (pip install clingo)")
def test_clingo_agrees() -> None:
    """Programs without arithmetic and aggregates, after every batch."""
    for seed in range(300):
        made = random_scenario(seed, FEATURES - {"aggregates", "arithmetic", "expressions", "guards"})
        program = parse(made.text)
        now = made.inputs
        for batch in [{}, *made.batches]:
            now = apply(now, batch, program)
            ours = evaluate(program, now)
            theirs = by_clingo(program, now)
            assert diff(ours, {**ours, **theirs}) == {}, made


@pytest.mark.skipif(find_spec("duckdb") is None, reason="duckdb is not installed")
@pytest.mark.parametrize("seeds", one_in([range(20), range(20, 60), range(60, 100)], 3), ids=str)
def test_duckdb_agrees(seeds: range) -> None:
    """Programs with arithmetic, guards and aggregates."""
    for seed in seeds:
        made = random_scenario(seed, FEATURES | {"distinct", "locations"}, batches=0)
        program = parse(made.text)
        ours = evaluate(program, made.inputs)
        assert diff(ours, {**ours, **by_duckdb(program, made.inputs)}) == {}, made


def shortest(links: set[Row]) -> dict[tuple[int, int], int]:
    """Lengths of shortest walks of at least one link, by Floyd and Warshall."""
    nodes = sorted({node for x, y, _ in links for node in (x, y)})
    best: dict[tuple[int, int], int] = {}
    for x, y, c in links:
        best[x, y] = min(c, best.get((x, y), c))
    for z, x, y in product(nodes, repeat=3):
        if (x, z) in best and (z, y) in best:
            through = best[x, z] + best[z, y]
            best[x, y] = min(through, best.get((x, y), through))
    return best


def test_recursive_min_is_shortest() -> None:
    """``min`` inside recursion, linear, non-linear and mutual, against Floyd and Warshall; zero weights included."""
    seen = 0
    for seed in range(400):
        made = random_scenario(seed, {"extremes"}, batches=0)
        program = parse(made.text)
        try:
            found = evaluate(program, made.inputs)
        except OnlyFromEachOther:
            continue
        for name, rows in found.items():
            if re.search(rf"^{name}\(X, Y, min<C>\) :-", made.text, re.MULTILINE):
                assert {(x, y): c for x, y, c in rows} == shortest(made.inputs["wt"]), made
                assert len(rows) == len(shortest(made.inputs["wt"]))
                seen += bool(rows)
    assert seen > 50


# ---- shrinking generators ------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(scenarios())
def test_strategies_make_valid_scenarios(made: Scenario) -> None:
    """What hypothesis draws evaluates, and one batch after the other is what their sum is."""
    program = parse(made.text)
    now, old = made.inputs, evaluate(program, made.inputs)
    start = old
    collected: dict[tuple[str, Row], str] = {}
    for batch in made.batches:
        now = apply(now, batch, program)
        new = evaluate(program, now)
        for name, changes in diff(old, new).items():
            for op, row in changes:
                if collected.pop((name, row), op) == op:
                    collected[name, row] = op
        old = new
    total = {(name, row): op for name, changes in diff(start, old).items() for op, row in changes}
    assert collected == total
