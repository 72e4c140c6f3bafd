"""Joins are hashed: no statement compares every row of a relation with every row of another, if an equality says which
ones agree."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from golden_tests.checks import Checked
from golden_tests.harness import LocalJob, MemoryJob, compile_text
from golden_tests.language.test_cases import CASES, batches_of, by_name, compiled, functions_of
from golden_tests.nightly import AT_NIGHT, by_day, one_in
from golden_tests.oracle.batches import Batch
from golden_tests.plans import PlansInDuckDB, slow_in_spark
from golden_tests.random_search import compare_queries, small_queries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INPUTS = """
input relation a(x: int, y: int)
input relation b(x: int, y: int)
input relation n(x: int, y: int?)
input relation m(x: int?, y: int?)
input relation l(x: list<int>, y: int)
input relation k(x: list<list<int>>, y: list<int>?)
input relation s(x: string, y: int)
input relation f(x: float, y: decimal(10,2)?)
input relation e(x: int, y: int) symmetric
"""

#: Bodies by what they show; their variables X and Z are in the head.
FORMS = {
    "plain": "a(X, Y), b(Y, Z)",
    "two_columns": "a(X, Z), b(Z, X)",
    "three_atoms": "a(X, Y), b(Y, W), a(W, Z)",
    "repeated": "a(X, Y), b(Y, Y), a(Y, Z)",
    "wildcards": "a(X, _), b(X, _), a(_, Z), e(Z, X)",
    "constant": "a(X, 3), b(X, Z)",
    "equated": "a(X, Y), b(W, Z), Y = W",
    "symmetric": "e(X, Y), e(Y, Z)",
    "nullable_with_plain": "a(X, P), n(Z, P)",
    "plain_with_nullable": "n(X, P), a(P, Z)",
    "nullable_with_nullable": "m(X, P), n(Z, P), X != null",
    "two_nullables": "m(P, Q), m(Q, P), n(X, P), n(Z, Q)",
    "nullable_with_value": "n(X, P), P != null, n(Z, P)",
    "nullable_constant": "n(X, 3), b(X, Z)",
    "null": "n(X, null), b(X, Z)",
    "null_on_both_sides": "n(X, null), b(X, Z), n(Z, null)",
    "test_of_null": "n(X, P), P = null, b(X, Z)",
    "nullable_and_computed": "n(X, P), a(Q, Z), P = Q + 1",
    "nullable_assigned": "a(X, Q), P = Q + 1, n(Z, P)",
    "nullable_float": "f(_, D), s(S, X), f(F, D), F = Z, b(Z, X)",
    "nullable_list": "k(_, L), l(L, X), b(X, Z)",
    "lists": "l(L, X), l(L, Z)",
    "list_pattern": "a(X, Y), l([X, Y], Z)",
    "list_pattern_over_two_atoms": "a(X, _), b(Y, _), l([X, Y], Z)",
    "list_pattern_with_constant": "a(X, _), l([1, X], Z)",
    "list_pattern_computed": "a(X, Y), l([X, Y + 1], Z)",
    "list_pattern_in_order": "l(L, X), b(X, Z), L = [X, Z]",
    "lists_equated": "a(X, Y), b(Z, W), [X, Y] = [Z, W]",
    "list_of_lists": "a(X, Y), b(Z, _), k([[X, Y], [Z]], _)",
    "list_with_wildcard": "a(X, _), l(L, Z), size(L) = 2, element_at(L, 2) = X",
    "item_of_a_nested_list": "a(X, Z), k(K, _), size(K) >= 1, I = element_at(K, 1), size(I) = 2, element_at(I, 2) = X",
    "head": "a(X, _), l(L, Z), size(L) > 0, element_at(L, 1) = X",
    "tail": "l(L, X), l(M, Z), M = slice(L, 2, size(L))",
    "rest": "l(L, X), l(M, Z), size(L) > 0, slice(L, 2, size(L)) = M",
    "prepended": "l(L, X), l(M, Z), M = [X] ++ L",
    "last": "a(X, _), l(L, Z), size(L) != 0, X = element_at(L, -1)",
    "next": "a(X, Y), b(W, Z), Y = W + 1",
    "next_in_atom": "a(X, Y), b(Y + 1, Z)",
    "expressions": "a(X, Y), b(W, Z), Y + 1 = W * 2",
    "chain_of_expressions": "a(X, Y), b(V, W), a(U, Z), V = Y + 1, U = W + 1",
    "sum_of_two_atoms": "a(X, Y), b(Y, W), e(Z, _), Z = X + W",
    "sums_of_two_pairs": "a(X, Y), b(Y, W), e(Z, U), a(U, V), X + W = Z * V",
    "functions": "a(X, Y), b(W, Z), abs(Y) = abs(W)",
    "partial_function": "s(S, X), b(Y, Z), int(substring(S, 2)) = Y",
    "strings": "s(S, X), s(T, Z), lower(S) = T",
    "parts_of_strings": "s(S, X), s(T, Z), S = T ++ T",
    "widened": "a(X, Y), f(F, _), Y = F, b(Y, Z)",
    "decimals": "a(X, Y), f(_, D), Y = D, b(Y, Z)",
    "disequality": "a(X, Y), b(Y, Z), X != Z",
    "range_beside": "a(X, Y), b(Y, Z), X < Z",
    "disequality_of_lists": "l(L, X), l(M, Z), X = Z, L != M, L < M",
    "negation": "a(X, Z), !b(Z, _)",
    "negation_of_nullable": "a(X, Z), !n(_, X), !m(X, Z)",
    "nullable_negated": "n(X, P), b(X, Z), !a(P, _)",
    "nullables_negated": "n(X, P), m(P, Q), b(X, Z), !m(Q, P)",
    "negation_of_list": "a(X, Z), !l([X, Z], _)",
    "negation_of_computed": "a(X, Z), !b(X + 1, Z), !n(Z, X + 1)",
    "disjunction": "a(X, Y), (n(Z, Y) ; l([X, Y], Z))",
}

#: Rules for a form: relations that derive, aggregate and recur with it.
POSITIONS = """
output relation {0}(x: int, z: int)
output relation {0}_best(x: int, z: int, n: int)
output relation {0}_onward(x: int, z: int)
{0}(X, Z) :- {1}.
{0}_best(X, max<Z>, count<*>) :- {1}.
{0}_onward(X, Z) :- {1}.
{0}_onward(X, Z) :- {2}.
"""

#: The forms with an equality between values that take two literals each: tables are joined one after the other, and the
#: third has no equality with the first two. DuckDB finds another order unless a batch also inserts tuples.
NOT_ONE_BY_ONE = ("sums_of_two_pairs",)
#: The golden cases with relations that no equality connects, with the reason.
WITHOUT_EQUALITY = {
    "aggregate_of_everything": "DuckDB joins the rows of the one group with its extrema, which are one row",
    "counting_up": "every walk may take every step, as long as their sum is small",
    "cycle_of_two": "a proposition holds if a relation has any tuple",
    "distinct_values": "pairs of the distinct values of two columns",
    "firsts": "the rows of the one group are joined with the number of the first ones",
    "four_nodes": "propositions",
    "lists": "any tour beside any closed stop, and each tour with the greater ones",
    "multiset": "any page with any sale",
    "names_of_sql": "an inequality",
    "negation": "a proposition is negated",
    "negation_with_wildcard": "all pairs that are not in a relation",
    "nullary": "propositions",
    "one_relation_twice": "a proposition holds if a relation has any tuple",
    "paths_with_domain": "all pairs without a path",
    "paths_without_domain": "all pairs without a path",
    "phases": "quotients of all pairs",
    "rule_of_itself": "propositions",
    "strata_in_a_row": "all pairs of different values",
    "sums_in_recursion": "both relations have one value in the columns that are equal",
    "text_in_constants": "any line with any tuple",
    "types": "DuckDB joins the rows of the one group with its extrema, which are one row",
    "wildcards_count": "an inequality",
}


def rules_of(name: str) -> str:
    """The rules for a form; in the last one, the form is recursive itself."""
    body = FORMS[name]
    return POSITIONS.format(name, body, re.sub(r"(?<![!\w])[ab]\(", f"{name}_onward(", body, count=1))


def batches() -> Iterator[Batch]:
    """Batches that insert and delete; no sum of theirs is out of range, and each text has a number."""
    numbers = range(1, 11)
    a = {(x, 1 + x % 10) for x in numbers} | {(x, 1 + (x * 3 + 1) % 10) for x in numbers}
    rows = {
        "a": a,
        "b": {(y, x) for x, y in a} | {(3, 4)},
        "n": {(x, None if x % 3 == 0 else 1 + x % 4) for x in numbers},
        "m": {(None if x == 2 else x, None if x % 2 else x - 1) for x in numbers},
        "l": {((x, y), x) for x, y in a} | {((), 1), ((1,), 2), ((2,), 3), ((1, 1), 1), ((2, 1, 1), 4)},
        "k": {(((x, y), (x,)), (x, y) if y % 2 else None) for x, y in a} | {((), ())},
        "s": {(f"N{x}", x) for x in numbers} | {(f"n{x}", x) for x in numbers} | {("12", 1), ("1212", 2)},
        "f": {(float(x), None if x == 2 else x) for x in numbers},
        "e": a,
    }
    yield {name: [("+", row) for row in sorted(of, key=str)] for name, of in rows.items()}
    for part in range(2):
        yield {
            name: [("-", row) for place, row in enumerate(sorted(of, key=str)) if place % 3 == part]
            + [("+", row) for place, row in enumerate(sorted(of, key=str)) if part and place % 3 == part - 1]
            for name, of in rows.items()
        }


KINDS = ("memory", "files", "looked up")


@by_day(3)
@pytest.mark.parametrize(
    ("kind", "part"),
    [
        pytest.param(kind, part, marks=() if place == part == 1 else AT_NIGHT)
        for place, kind in enumerate(KINDS)
        for part in range(len(KINDS))
    ],
)
def test_forms(kind: str, part: int, tmp_path: Path) -> None:
    """Every condition that equates, in every position: hashed, and with the oracle's results."""
    text = INPUTS + "".join(rules_of(name) for name in list(FORMS)[part :: len(KINDS)])
    compilation, script = compile_text(text)
    job = MemoryJob(compilation) if kind == "memory" else LocalJob(script, tmp_path / "state", 2)
    if kind == "looked up":
        assert isinstance(job, LocalJob)
        job.seem_large()
    job.use_strategy("incremental")
    plans = PlansInDuckDB(job.module)
    checked = Checked(job, text, compilation)
    for batch in batches():
        assert checked.apply(batch, recount=False) == []
        assert not checked.refused
    job.close()
    assert len(plans.statements) > len(FORMS)
    slow = {sql: joins for sql, joins in plans.slow.items() if not any(name in sql for name in NOT_ONE_BY_ONE)}
    assert not slow, "\n".join(f"{joins}: {sql}" for sql, joins in slow.items())


@AT_NIGHT
@pytest.mark.parametrize("part", range(24))
def test_forms_in_spark(part: int, spark: SparkSession) -> None:
    """The queries of all rules in Spark: hashed or merged, and with the same rows as in DuckDB."""
    text = INPUTS + "".join(rules_of(name) for name in list(FORMS)[part::24])
    compilation, script = compile_text(text)
    slow: list[str] = []

    def look(label: str, sql: str) -> None:
        # Derivations without a value are looked for apart: there are none.
        for query in sql.split("\nUNION ALL\n"):
            if " IS NULL" not in query and not any(label.startswith(name) for name in NOT_ONE_BY_ONE):
                slow.extend(f"{label}: {join}" for join in slow_in_spark(spark.sql(query)))

    with small_queries(spark):
        assert compare_queries(compilation, script, text, batches(), spark, look) == []
    assert not slow, "\n".join(slow)


#: Two doubtful equalities, each with an overflow; and what a batch needs beside it.
OVERFLOWS = """
input relation a(x: int, y: int)
input relation b(x: int, y: int)
input relation n(x: int, y: int?)
input relation l(x: list<int>, y: int)
output relation chain(x: int, z: int)
output relation both(x: int, z: int)
output relation nullable(x: int, z: int)
output relation absent(x: int)
chain(X, Z) :- a(X, Y), b(V, W), n(Z, U), V = Y + 1, U = W + 1, X != 7.
both(X, Z) :- a(X, Y), b(W, Z), Y + 1 = W - 1, X != Z.
nullable(X, Z) :- a(X, Q), n(Z, P), P = Q + 1, Z > 0.
absent(X) :- l(L, X), b(V, _), V = X + 1, !l(L ++ [1], X), !n(X, V).
"""
MOST = 2**63 - 1


@AT_NIGHT
@pytest.mark.parametrize("kind", one_in(["files", "memory"], 2))
def test_overflows(kind: str, tmp_path: Path) -> None:
    """A batch is refused if and only if a derivation needs a value that an equality lacks."""
    compilation, script = compile_text(OVERFLOWS)
    job = MemoryJob(compilation) if kind == "memory" else LocalJob(script, tmp_path / "state", 2)
    checked = Checked(job, OVERFLOWS, compilation)
    refused = []
    for changes in (
        {"a": [("+", (1, 2))], "b": [("+", (3, 4))], "n": [("+", (1, 5)), ("+", (2, 3)), ("+", (3, None))]},
        {"a": [("+", (7, MOST))]},  # Needed by `both` and `nullable`.
        {"b": [("+", (9, MOST))]},  # Needed by `chain`.
        {"b": [("-", (3, 4))]},
        {"b": [("+", (9, MOST))]},  # Not needed: no `a` is before it.
        {"a": [("+", (1, 8))]},
        {"b": [("-", (9, MOST))], "a": [("+", (1, 8))]},
        {"a": [("-", (1, 2)), ("-", (1, 8))], "n": [("-", (1, 5)), ("-", (2, 3))]},
        {"a": [("+", (7, MOST))]},  # `n` has a null only, which `P = Q + 1` is compared with all the same.
        {"b": [("+", (2, 1))], "l": [("+", ((1,), 1)), ("+", ((1, 1), 1))]},
        {"l": [("+", ((2,), MOST))]},
        {"b": [("-", (2, 1))]},
        {"l": [("+", ((2,), MOST))]},
        {"b": [("+", (MOST, 1)), ("+", (-MOST - 1, 0))]},
        {"a": [("-", (7, MOST))]},
    ):
        assert checked.apply(changes) == []
        refused.append(bool(checked.refused))
    job.close()
    assert True in refused and False in refused


@by_day(6)
@pytest.mark.parametrize("case", one_in(CASES, 3), ids=by_name)
def test_golden_cases(case: Path) -> None:
    """The statements of the golden cases, except where no equality says which tuples agree."""
    job = MemoryJob(compiled(case), functions_of(case))
    job.use_strategy("incremental")
    plans = PlansInDuckDB(job.module)
    for batch in batches_of(case, job).values():
        with contextlib.suppress(job.module.JobError):
            job.run(batch)
    job.close()
    assert not plans.slow or case.name in WITHOUT_EQUALITY, "\n".join(plans.slow)
