"""The same scripts and batches in each engine: DuckDB here, DuckDB in the tasks of a Spark session, and Spark SQL.

Each engine's states and changes are held against the oracle, so they agree with each other; ranks may differ, and every
state passes its own recount. Spark's rounds cost seconds a batch, so there are few programs, each of many kinds.
"""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from flintlog.compiler.pipeline import Compilation, compile_program
from flintlog.compiler.source import SourceFile
from flintlog.targets.pyspark.emit import emit_script

from golden_tests.checks import Checked, Inputs, insertions
from golden_tests.harness import (
    VERSION,
    AlternatingJob,
    LocalJob,
    MemoryJob,
    RoundsJob,
    TaskJob,
    arrow_type,
    compile_text,
    load_script,
)
from golden_tests.language.test_cases import CASES, batches_of, compiled, functions_of, script_of, whole_text
from golden_tests.nightly import AT_NIGHT, NIGHTLY, by_day, one_in, seeds
from golden_tests.oracle.batches import Batch
from golden_tests.oracle.evaluate import Undefined, operate
from golden_tests.random_search import check, compare_queries, scenario_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Story:
    """A program, its first inputs and its batches."""

    text: str
    inputs: Inputs
    batches: tuple[Batch, ...]
    recursion: str = "ranks"

    @property
    def compilation(self) -> Compilation:
        """The program, compiled."""
        return compile_program(SourceFile("test.dl", self.text), recursion=self.recursion)

    @property
    def script(self) -> str:
        """Its script."""
        return emit_script(self.compilation.plan, VERSION, format_code=False)


def changes(text: str) -> list[Any]:
    """``+1 2, -3`` as changes of integers."""
    return [(item[0], tuple(map(int, item[1:].split()))) for item in text.split(", ")]


KINDS = Story(
    """
    // A stratum of each kind: a closure, which leaps, best values, an aggregate, and a rule without recursion.
    input relation link(@src: int, dst: int, cost: int)
    output reach.  output best.  output sizes.  output far.
    reach(@S, D) :- link(@S, D, _).
    reach(@S, D) :- link(@S, Z, _), reach(@Z, D).
    best(@X, Y, min<C>) :- link(@X, Y, C).
    best(@X, Y, min<C>) :- link(@X, Z, C1), best(@Z, Y, C2), C = C1 + C2.
    sizes(@S, count<*>, max<D>) :- reach(@S, D).
    far(X, Y) :- best(X, Y, C), C > 2.
    """,
    {"link": {(1, 2, 1), (2, 3, 1), (1, 3, 4)}},
    ({"link": changes("-2 3 1, +3 1 2")},),
)

REACH = Story(
    """
    // A closure, and an aggregate.
    input relation link(@src: int, dst: int)
    output reach.  output sizes.
    reach(@S, D) :- link(@S, D).
    reach(@S, D) :- link(@S, Z), reach(@Z, D).
    sizes(@S, count<*>) :- reach(@S, D).
    """,
    {"link": {(1, 2), (2, 3), (1, 3)}},
    ({"link": changes("-2 3, +1 4")},),
)

REFUSED = Story(
    """
    // A batch that is refused.
    input relation n(x: int, y: int)
    output quotient.
    quotient(X, Z) :- n(X, Y), Z = X / Y, Y != 7.
    """,
    {"n": {(3, 2), (0, 7)}},
    ({"n": changes("+1 0")},),
)

ENTRIES = Story(
    """
    // A recursion with derivation sets.
    input relation link(x: int, y: int)
    output reach.
    reach(X, Y) :- link(X, Y).
    reach(X, Z) :- reach(X, Y), link(Y, Z).
    """,
    {"link": {(1, 2), (2, 1)}},
    ({"link": changes("-2 1, +2 3")},),
    "derivation-sets",
)

RECURSIVE = Story(
    """
    // Recursion in buckets with a negated projection, and an aggregate over it.
    input relation link(@src: int, dst: int)
    input relation closed(@x: int, why: string)
    output reach.  output sizes.
    reach(@S, D) :- link(@S, D).
    reach(@S, D) :- link(@S, Z), reach(@Z, D), !closed(@D, _).
    sizes(@S, count<*>, max<D>) :- reach(@S, D).
    """,
    {"link": {(1, 2), (2, 3), (3, 1), (3, 5)}, "closed": {(3, "it's"), (5, 'so "it" is')}},
    (
        {"link": changes("-3 1, +3 4"), "closed": [("-", (3, "it's")), ("+", (3, "née Å🙂"))]},
        {"link": changes("-1 2, +1 3, +4 1"), "closed": [("-", (3, "née Å🙂"))]},
    ),
)

MUTUAL = Story(
    """
    // Two relations that define each other, one rule not linear, one relation that takes input, one duplicate rule.
    input relation edge(x: int, y: int)
    input derived relation odd(x: int, y: int)
    output odd.  output even.
    odd(X, Y) :- edge(X, Y).
    odd(X, Y) :- edge(X, Z), even(Z, Y).
    even(X, Y) :- odd(X, Z), odd(Z, Y), X != Y.
    even(X, Y) :- odd(X, Z), odd(Z, Y), X != Y.
    """,
    {"edge": {(1, 2), (2, 3), (3, 4)}, "odd": {(4, 1)}},
    (
        {"edge": changes("-2 3, +4 2"), "odd": changes("+1 2, -4 1")},
        {"edge": changes("-1 2")},
    ),
)

COUNTED = Story(
    """
    // Upserts, a derived key, relations without columns, facts, disjunction, every aggregate with groups and without.
    input relation price(shop: string, item: int, cost: decimal(8,2)) primary key (shop, item)
    input relation open
    output relation best(item: int, cost: decimal(8,2)) primary key (item)
    output cheap.  output mean.  output all_shut.
    best(I, min<C>) :- price(_, I, C).
    cheap(S) :- price(S, I, C), best(I, C), (open ; C < 1.0).
    cheap("none") :- !price(_, _, _).
    mean(sum<C>, avg<C>, count<*>, max<S>) :- price(S, _, C).
    all_shut(0) :- !open.
    all_shut(1).
    """,
    {
        "price": {("a", 1, Decimal("1.50")), ("b", 1, Decimal("0.75")), ("b", 2, Decimal("0.10"))},
        "open": set(),
    },
    (
        {"price": [("+", ("b", 1, Decimal("2.25"))), ("-", ("b", 2, Decimal("0.10")))], "open": [("+", ())]},
        {"price": [("-", ("a", 1, Decimal("1.50"))), ("-", ("b", 1, Decimal("2.25")))], "open": [("+", ())]},
    ),
)

EXTREMAL = Story(
    """
    // Least values and their witnesses inside the recursion, edges of cost 0 and cycles of them.
    input relation road(@x: int, y: int, c: int)
    output best.  output near.
    path(@X, Y, Y, C) :- road(@X, Y, C).
    path(@X, Y, Z, C) :- road(@X, Z, C1), best(@Z, Y, C2, _), C = C1 + C2, X != Y.
    best(@X, Y, min<C>, Z) :- path(@X, Y, Z, C).
    near(@X, max<N>) :- road(@X, _, N).
    near(@X, max<N>) :- near(@Y, M), road(@X, Y, _), N = M - 1.
    """,
    {"road": {(1, 2, 1), (2, 3, 0), (3, 2, 0), (1, 3, 1), (3, 4, 2)}},
    (
        {"road": changes("-1 2 1, +4 1 0")},
        {"road": changes("-1 3 1, +1 4 9, +2 4 1")},
        {"road": changes("-1 4 9, -4 1 0")},
    ),
)

DEEP = Story(
    """
    // A chain, which is closed in leaps.
    input relation link(@x: int, y: int)
    output reach.
    reach(@X, Y) :- link+(X, Y).
    """,
    {"link": {(x, x + 1) for x in range(9) if x != 3}},
    ({"link": changes("+3 4, -8 9")},),
)
FAULTS = Story(
    """
    // What has no value stops the batch, unless a condition keeps it from being needed.
    input relation n(x: int, y: int)
    output quotient.  output product.  output grown.
    quotient(X, Z) :- n(X, Y), Z = X / Y, Y != 7, X % Y >= 0.
    product(X * Y, sum<X>) :- n(X, Y), Y != 0.
    grown(X) :- n(X, 7).
    grown(Y) :- grown(X), Y = X * 1000000, X < 90000000000000, Y > 0.
    """,
    {"n": {(3, 2), (-7, 2), (5, 7), (0, 7)}},
    (
        {"n": changes("+1 0")},
        {"n": changes("+4611686018427387904 2")},
        {"n": changes("+8000000000000000000 1, +4000000000000000000 2")},
        {"n": changes("+-9223372036854775808 -1")},
        {"n": changes("+10 7")},
        {"n": changes("-5 7, +8 3")},
    ),
)

FACTS = Story(
    """
    // Facts in a row, which are one query, of every type: values that need quotes, of many digits, and some twice.
    input relation e(x: int, y: int)
    relation facts(asked: int, _at: string, _rule: float, facts: bool, d: decimal(38,10), day: date, at: timestamp)
    output relation reach(x: int, y: int)
    output relation told(k: int, s: string, f: float, b: bool, d: decimal(38,10), day: date, at: timestamp)
    output gone.
    facts(-9223372036854775808, "{x} 'q' \\\\ \\"", 1.5, true, 0.0000000001, date"0001-01-01",
        timestamp"0001-01-01 00:00:00").
    facts(9223372036854775807, "", -0.0, false, -999999999999999999.0000000001, date"9999-12-31",
        timestamp"9999-12-31 23:59:59.999999").
    facts(0, "née Å🙂\\n\\t%s", 0.1, false, 2, date"2024-02-29",
        timestamp"2026-01-31 12:00:00.50").
    facts(0, "née Å🙂\\n\\t%s", 0.1, false, 2, date"2024-02-29",
        timestamp"2026-01-31 12:00:00.50").
    twice: facts(1, "{facts}", 100000000000000000000.5, true, 12345678901234567890.5, date"1970-01-01",
        timestamp"1969-12-31 23:59:59.000001").
    told(K, S, F, B, D, T, A) :- facts(K, S, F, B, D, T, A), !e(K, 0), A != timestamp"2026-01-31 12:00:00".
    gone(K, count<*>) :- facts(K, _, _, _, _, _, _), e(K, 0).
    facts(2, "${env:HOME} ${spark.app.name} ${nope} $${x}", 0.25, true, 1, date"2024-02-29",
        timestamp"2026-01-31 12:00:00.50").
    reach(3, 4).
    reach(4, 3).
    reach(3, 4).
    reach(X, Y) :- e(X, Y).
    reach(X, Y) :- e(X, Z), reach(Z, Y).
    reach(1, 2).
    reach(2, 3).
    """,
    {"e": {(4, 1), (0, 0)}},
    (
        {"e": changes("-4 1, +1 0, +3 4, +2 3")},
        {"e": changes("-3 4, -2 3, +4 5, -0 0, -1 0")},
    ),
)


def play(job: LocalJob, story: Story) -> list[str]:
    """Run a story, everything checked against the oracle; returns why batches were refused."""
    checked = Checked(job, story.text, story.compilation)
    refused = []
    batches = [insertions(story.inputs), *story.batches]
    for batch in batches:
        problems = checked.apply(batch, recount=NIGHTLY or batch is batches[-1])
        assert not problems, f"{batch}: " + "\n".join(problems)
        refused += [checked.refused] if checked.refused else []
    return refused


#: By day one program with all kinds of strata; the queries of the others run by day, too (``test_queries_in_spark``).
STORIES = {
    "recursive": RECURSIVE,
    "deep": DEEP,
    "mutual": MUTUAL,
    "counted": COUNTED,
    "extremal": EXTREMAL,
    "faults": FAULTS,
    "facts": FACTS,
}
REFUSALS = {"refused": 1, "faults": 5}


@by_day(3)
@pytest.mark.parametrize(
    ("name", "story"),
    [
        ("reach", REACH),
        pytest.param("kinds", KINDS, marks=AT_NIGHT),
        pytest.param("entries", ENTRIES, marks=AT_NIGHT),
        pytest.param("refused", REFUSED, marks=AT_NIGHT),
        *(pytest.param(name, story, marks=AT_NIGHT) for name, story in STORIES.items()),
    ],
)
def test_rounds_in_spark(name: str, story: Story, tmp_path: Path, spark: SparkSession) -> None:
    """All rounds as Spark SQL; and in DuckDB here, with the same refusals."""
    local = LocalJob(story.script, tmp_path / "local", buckets=2)
    said = play(local, story)
    local.close()
    job = RoundsJob(story.script, tmp_path / "rounds", spark, buckets=2)
    if name in ("reach", "kinds"):
        job.module.SparkEngine.rounds_before_leaps = 0
    assert play(job, story) == said
    job.close()
    assert len(said) == REFUSALS.get(name, 0)


@pytest.mark.parametrize("story", one_in(STORIES.values(), 5), ids=list(STORIES))
def test_queries_in_spark(story: Story, spark: SparkSession) -> None:
    """Each query of the rules finds the same rows in Spark as in DuckDB."""
    batches = (insertions(story.inputs), *story.batches)
    assert compare_queries(story.compilation, story.script, story.text, batches, spark) == []


@pytest.mark.parametrize("name", one_in(["types", "path_vector", "lists", "functions"], 4))
def test_queries_of_cases_in_spark(name: str, spark: SparkSession) -> None:
    """Those of programs with every type, lists and functions."""
    case = case_of(name)
    job = MemoryJob(compiled(case))
    batches = list(batches_of(case, job).values())
    job.close()
    assert compare_queries(compiled(case), script_of(case), whole_text(case), batches, spark) == []


#: Settings with which a session reads texts of SQL in another way.
UNUSUAL_SETTINGS = {
    "spark.sql.ansi.enforceReservedKeywords": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "true",
    "spark.sql.parser.escapedStringLiterals": "true",
    "spark.sql.parser.quotedRegexColumnNames": "true",
    "spark.sql.variable.substitute": "true",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "true",
}
UNUSUAL = Story(
    """
    // Constants that need quoting, functions with patterns, joins, and sums, by whatever settings a session has.
    input relation e(x: int, y: string)
    output f.  output m.  output s.  output k.
    f(1, "a\\\\b").
    f(2, "quote ' \\" end").
    f(3, "${spark.app.name}").
    m(X, Y) :- e(X, Y), !f(_, Y), instr(Y, "\\\\") > 0, Y != "a\\\\c".
    s(Y, sum<X>) :- e(X, Y), Y != "${spark.app.name}".
    k(X, "${system:file.separator}") :- e(X, _).
    """,
    {"e": {(1, "a\\b"), (5, "c"), (9, "c"), (10, "x\\y")}},
    ({"e": [("-", (5, "c")), ("+", (6, "golden tests")), ("+", (7, "c\\"))]},),
)


@by_day(1)
@pytest.mark.parametrize(
    "story",
    [
        pytest.param(replace(UNUSUAL, batches=()), id="built"),
        pytest.param(UNUSUAL, id="changed", marks=AT_NIGHT),
    ],
)
def test_settings_of_the_session(story: Story, tmp_path: Path, spark: SparkSession) -> None:
    """A session may read SQL otherwise; the job says how it means its own, and leaves the settings as they were."""
    found = {name: spark.conf.get(name) for name in UNUSUAL_SETTINGS}
    job = RoundsJob(story.script, tmp_path, spark, buckets=1)
    try:
        for name, value in UNUSUAL_SETTINGS.items():
            spark.conf.set(name, value)
        assert play(job, story) == []
        assert {name: spark.conf.get(name) for name in UNUSUAL_SETTINGS} == UNUSUAL_SETTINGS
    finally:
        for name, value in found.items():
            spark.conf.set(name, value)
        job.close()


def play_case(job: LocalJob, case: Path) -> Iterator[str]:
    """Run a golden case's batches, each checked against the oracle; the job recounts itself after the last."""
    checked = Checked(job, whole_text(case), compiled(case))
    batches = batches_of(case, job)
    for name, batch in batches.items():
        yield name
        problems = checked.apply(batch, recount=name == list(batches)[-1])
        assert not problems, f"{name}: " + "\n".join(problems)


def case_of(name: str) -> Path:
    """The folder of a golden case."""
    return next(case for case in CASES if case.name == name)


@AT_NIGHT
@pytest.mark.parametrize("name", ["types", "path_vector", "external_functions", "lists", "functions"])
def test_cases_in_spark(name: str, tmp_path: Path, spark: SparkSession) -> None:
    """Every type and constants that need quoting, lists and functions, in Spark SQL."""
    case = case_of(name)
    script = script_of(case)
    job = RoundsJob(script, tmp_path / "state", spark, 2, functions_of(case))
    assert len(list(play_case(job, case))) > 2
    job.close()


@by_day(2)
@pytest.mark.parametrize(
    "name",
    [
        "external_functions",
        *(pytest.param(name, marks=AT_NIGHT) for name in ("arithmetic_faults", "strata_in_a_row", "types", "lists")),
    ],
)
def test_tasks_in_spark(name: str, tmp_path: Path, spark: SparkSession) -> None:
    """Rounds in DuckDB, in the tasks of Spark jobs."""
    case = case_of(name)
    script = script_of(case)
    job = TaskJob(script, tmp_path / "state", spark, 2, functions_of(case))
    assert list(play_case(job, case))
    job.close()


@AT_NIGHT
def test_places_and_engines_take_turns_on_one_state(tmp_path: Path, spark: SparkSession) -> None:
    """What one writes the other reads: a batch in threads of this process, the next by Spark's SQL or in Spark's tasks,
    over files of changes, with 3 buckets."""
    case = case_of("input_and_derived_recursive")
    job = AlternatingJob(script_of(case), tmp_path / "state", spark, 3, functions_of(case))
    job.module.COMPACT_SHARE, job.module.FEW_ROWS = 10**9, 0  # type: ignore[attr-defined]
    engines = itertools.cycle(["spark", "duckdb"])
    for _ in play_case(job, case):
        # The first batch, and every other one after it, runs here.
        job.options = replace(job.options, engine=next(engines) if job.attempts % 2 else "auto")
    job.close()


@pytest.mark.parametrize("seed", seeds(1, 5))
def test_random_programs_change_places(seed: int, spark: SparkSession) -> None:
    """Random programs and batches: in this process, in Spark's tasks, and again."""

    def make(script: str, folder: Path, buckets: int) -> LocalJob:
        return AlternatingJob(script, folder, spark, buckets)

    assert check(scenario_of(30_000 + seed, seed % 2 == 0), 1 + seed % 3, make_job=make) == []


# ---- operations, one by one ----------------------------------------------------------------------------------------


def numbers(*texts: str) -> list[Decimal]:
    """Decimals."""
    return [Decimal(text) for text in texts]


INTS = [0, 1, -1, 2, -3, 7, 10**9, -(2**31), 2**31 + 1, 2**62, -(2**62), 2**63 - 1, -(2**63), -(2**63) + 1]
FLOATS = [0.0, 1.0, -1.5, 0.1, 3.0, 1e-300, -1e300, 1.7e308, 5e-324, 12345678.9]
SHORT = numbers("0.00", "0.01", "-0.01", "1.00", "-2.50", "3.33", "99999999.99", "-99999999.99")
MIDDLE = numbers("0.000000", "0.000001", "1.500000", "-999999999999.999999", "999999999999.000001")
WHOLE = numbers("0", "1", "-1", "7", "10219781253369226", "-22495390383768040906", "9" + "0" * 36 + "5", "-" + "9" * 38)
LONG = numbers("0.0000000001", "1.5000000000", "-" + "9" * 28 + "." + "9" * 10)

OPERATIONS = [
    *(("int", op, INTS) for op in "+-*/%"),
    *(("float", op, FLOATS) for op in "+-*/%"),
    *(("decimal(10,2)", op, SHORT) for op in "+-*/%"),
    *(("decimal(18,6)", op, MIDDLE) for op in "+-*/%"),
    *(("decimal(38,0)", op, WHOLE) for op in "+-*/%"),
    *(("decimal(38,10)", op, LONG) for op in "+-/%"),
]


def result(op: str, left: Any, right: Any, kind: str) -> Any:
    """The oracle's value of ``left op right`` in a column of ``kind``, None if it has none there."""
    value = operate(op, left, right)
    if isinstance(value, Undefined):
        return None
    if kind.startswith("decimal"):
        precision, scale = map(int, kind.removeprefix("decimal(").removesuffix(")").split(","))
        return value if abs(Fraction(value)) < 10 ** (precision - scale) else None
    return value


def greater(value: Any, other: Any) -> bool:
    """Whether a result, which may be a float where the operands were decimals, is greater than an operand."""
    return bool(value > (float(other) if isinstance(value, float) else other))


@pytest.mark.parametrize(("kind", "op", "values"), OPERATIONS, ids=[f"{kind} {op}" for kind, op, _ in OPERATIONS])
def test_operation(kind: str, op: str, values: list[Any], tmp_path: Path, spark: SparkSession) -> None:
    """Every operation on all pairs of awkward values, in both engines: its value, or NULL where it has none.

    So are conditions that compute: they hold, or let a derivation pass whose head then is NULL.
    """
    script = compile_text(
        f"input relation n(x: {kind}, y: {kind})  output h.  output c.\n"
        f"h(X, Y, X {op} Y) :- n(X, Y).\n"
        f"c(X, Y) :- n(X, Y), X {op} Y > X.\n"
    )[1]
    job = LocalJob(script, tmp_path / "state")
    rules = {rule.head: rule for stage in job.program.stages for s in stage.strata for rule in s.rules}
    queries = [rules["h"].full, rules["c"].full]
    found = {(x, y): result(op, x, y, job.relation("h").columns[2].type) for x, y in itertools.product(values, values)}
    expected = [
        {(*pair, value) for pair, value in found.items()},
        {
            (x if value is not None else None, y)
            for (x, y), value in found.items()
            if value is None or greater(value, x)
        },
    ]
    columns = [pa.array([pair[side] for pair in found], arrow_type(kind)) for side in (0, 1)]
    table = pa.table(columns, names=["x", "y"])
    duckdb = job.module.DuckEngine()
    duckdb.connection.register("n__after", table)
    assert [set(duckdb.connection.execute(duckdb.text(query)).fetchall()) for query in queries] == expected
    rounds = job.module.SparkEngine(spark, 1)
    spark.createDataFrame(table).createOrReplaceTempView("n__after")
    try:
        assert [{tuple(row) for row in spark.sql(rounds.text(query)).collect()} for query in queries] == expected
    finally:
        spark.catalog.dropTempView("n__after")
        rounds.close()
        job.close()


#: Precisions and scales of decimals; (0, 0) stands for ints.
SIZES = [(0, 0), (38, 0), (38, 30)]
MORE_SIZES = [(12, 2), (19, 0), (38, 1), (38, 18)]


@AT_NIGHT
@pytest.mark.parametrize("sizes", [SIZES, pytest.param(MORE_SIZES, marks=AT_NIGHT)], ids=["few", "more"])
def test_averages(sizes: list[tuple[int, int]], tmp_path: Path, spark: SparkSession) -> None:
    """Both engines round exact sums of any size alike."""
    rng = random.Random(38)

    def number(precision: int, scale: int) -> int | Decimal:
        digits = rng.randrange(1, (precision or 18) + 1)
        value = rng.choice((1, -1)) * rng.randrange(1, 10**digits)
        return Decimal(f"{value}E-{scale}") if precision else value

    text, inputs = "", {}
    for place, (precision, scale) in enumerate(sizes):
        kind = f"decimal({precision}, {scale})" if precision else "int"
        text += f"input relation n{place}(g: int, v: {kind}, w: {kind})  output mean{place}.\n"
        text += f"mean{place}(G, avg<V>, avg<distinct W>, count<*>) :- n{place}(G, V, W).\n"
        inputs[f"n{place}"] = {
            (rng.randrange(40), number(precision, scale), number(precision, scale)) for _ in range(120)
        }
    gone: Batch = {name: [("-", row) for row in sorted(rows)[::3]] for name, rows in inputs.items()}
    compilation, script = compile_text(text)
    for job in (LocalJob(script, tmp_path / "here"), RoundsJob(script, tmp_path / "spark", spark, 2)):
        checked = Checked(job, text, compilation)
        assert checked.build(inputs) == []
        assert checked.apply(gone, recount=False) == []
        assert not checked.refused
        job.close()


def test_an_average_of_many_decimals() -> None:
    """Their number, in units of the last of 15 digits after the point, is no 64-bit integer."""
    text = "input relation n(v: decimal(20, 15))  output mean.  mean(avg<V>) :- n(V)."
    compilation = compile_program(SourceFile("test.dl", text))
    job = MemoryJob(compilation)
    checked = Checked(job, text, compilation)
    assert checked.build({"n": {(Decimal(f"{n}E-15"),) for n in range(12_000)}}) == []
    assert job.rows("mean") == {(5.9995e-12,)}
    job.close()


def test_few_rows_meet_few_rows_of_a_large_table() -> None:
    """Only columns with few of the table's values are looked up first, and none for many rows or in a small table."""
    _, script = compile_text("input relation p(x: int, y: int, z: list<int>).  output q.  q(X) :- p(X, _, _).")
    module = load_script(script)
    try:
        engine, relation = module.DuckEngine(), module.PROGRAM.relation("p")
        rows = 2 * module.MANY_ROWS
        engine.table("p", f"SELECT range // 1000 AS x, range % 1000 AS y, [0] AS z, range AS n FROM range({rows})")

        def met(derived: str, after: int = 1, columns: tuple[str, ...] = ()) -> set[str]:
            few, (part,) = engine.meeting(relation, derived, after, columns)
            found = engine.run(f"SELECT s.x, s.y, s.rowid = s.n FROM {part} AS s JOIN {few} AS d USING (x, y, z)")
            assert sorted(found) == [(x, y, True) for x, y in sorted(engine.run(f"SELECT x, y FROM ({derived})"))]
            return {name for name in "xyz" if f"{name} IN" in part}

        assert met("SELECT x, y, z FROM p WHERE x = 3") == {"x"}
        assert met("SELECT x, y, z FROM p WHERE x IN (3, 500) AND y < 9") == {"x", "y"}
        assert met("SELECT x, y, z FROM p WHERE x IN (3, 500) AND y < 9", columns=("y", "z")) == {"y"}
        assert met("SELECT x, y, z FROM p WHERE x = y") == set()
        assert met("SELECT x, y, z FROM p WHERE x = 3", after=rows) == set()
        assert met("SELECT x, y, z FROM p WHERE x < 300") == set()
        assert met("SELECT x, y, z FROM p WHERE FALSE") == {"x", "y"}
        engine.table("p", "SELECT * FROM p WHERE x < 9")
        assert met("SELECT x, y, z FROM p WHERE x = 3") == set()
        engine.close()
    finally:
        del sys.modules[module.__name__]


def test_rows_are_counted_once() -> None:
    """One statement counts all conditions that a table was made with; what nothing meets takes no further one."""
    _, script = compile_text("input relation e(x: int).  output p.  p(X) :- e(X).")
    module = load_script(script)
    try:
        engine, said = module.DuckEngine(), []
        execute = engine._execute
        engine._execute = lambda sql: said.append(sql) or execute(sql)
        engine.table("hit", "SELECT range AS x FROM range(5)", ("x = 0", "x < 0", "x > 1"))
        engine.table("other", "SELECT 7 AS x")
        said.clear()
        assert [engine.counted("hit", condition) for condition in ("x = 0", "x < 0", "x > 1")] == [1, 0, 3]
        engine.add("other", "hit", condition="x < 0")
        assert engine.part("nobody", "hit", "x", "x < 0") == engine.rows("nobody") == 0
        assert len(said) == 1
        assert engine.run("SELECT * FROM nobody") == []
        assert engine.part("several", "hit", "x", "x > 1") == 3
        engine.add("other", "hit", condition="x = 0")
        assert engine.rows("other") == 2
        assert engine.counted("hit", "x = 1") is engine.counted("other", "x = 0") is None
        engine.remove("hit", "several", ["x"], 3)
        assert engine.counted("hit", "x = 0") is None
        engine.close()
    finally:
        del sys.modules[module.__name__]


def test_rows_keep_their_row_ids(tmp_path: Path) -> None:
    """Statements between finding rows and removing them moved rows once; and what is inserted comes after what was
    read."""
    _, script = compile_text("input relation e(x: int).  output p.  p(X) :- e(X).")
    module = load_script(script)
    try:
        engine = module.DuckEngine(threads=2, state=str(tmp_path))
        rows = 3_000_000
        path = tmp_path / "r.parquet"
        engine.run(f"COPY (SELECT range AS x, range % 7 AS y FROM range({rows})) TO '{path}' (FORMAT parquet)")
        engine.later("r", f"SELECT * FROM read_parquet('{path}')", rows)
        inserted: set[int] = set()
        for number in range(12):
            found = engine.table("hit", f"SELECT *, rowid AS _row FROM r WHERE HASH(x + {number}) % 20 = 0")
            engine.table("other", "SELECT 1 AS x FROM range(1000)")
            engine.remove("r", "hit", ["x", "y"], found, numbered=True)
            engine.insert("r", "SELECT x, y FROM hit WHERE x % 2 = 0")
            hit = {x for (x,) in engine.run("SELECT x FROM hit")}
            inserted = (inserted - hit) | {x for x in hit if x % 2 == 0}
            rows -= found - sum(x % 2 == 0 for x in hit)
            assert engine.first("SELECT COUNT(*) AS n FROM r", 1)[0]["n"] == rows == engine.rows("r")
        since = engine.run(f"SELECT x FROM {engine.since_read('r')}")
        assert len(since) == len(inserted)
        assert {x for (x,) in since} == inserted
    finally:
        del sys.modules[module.__name__]
