"""Every function of the language on awkward values, in both engines, against the oracle's plain Python."""

from __future__ import annotations

import contextlib
import itertools
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from flintlog.compiler.functions import FUNCTIONS, Pattern, Signature
from flintlog.compiler.ir import typed
from flintlog.compiler.passes.annotate_derivations import HOLDS, PICK, UNION
from flintlog.compiler.source import Span
from flintlog.targets.pyspark.functions import DUCKDB, SPARK

from golden_tests.checks import Checked
from golden_tests.harness import LocalJob, MemoryJob, arrow_type, compile_text, frozen, load_script
from golden_tests.nightly import AT_NIGHT, by_day, one_in
from golden_tests.oracle import functions as oracle
from golden_tests.oracle.batches import Batch
from golden_tests.random_search import compare_queries, queries_of, small_queries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STRINGS = [
    *(
        "",
        " ",
        "a",
        "abc",
        "zAaZ",
        "é",
        "e\u0301",
        "🙂",
        "a🙂b",
        "👨\u200d👩\u200d👧",
        "ß",
        "İı",
        "ǆ",
        "ﬁ",
        "\0a",
        "x y",
    ),
    *("a,b,,c", ",", "%", "_", "\\", "\\E", "\\Q", "a\\Eb", ".", "[", "$1", "x\ny", "\t a ", "\u00a0a\u3000", "  aa "),
    *("aaaa", "aa", "0012", "+7", "-0", "-9223372036854775808", "9223372036854775808", "1e5", " 5", "5\n", "1_0"),
    *(
        "0x1f",
        "\uff11\uff12",
        "1.5",
        ".5",
        "5.",
        ".",
        "1e400",
        "1e-400",
        "4.9e-324",
        "nan",
        "inf",
        "1d",
        "0.1",
        "1" * 40,
    ),
    *("2024-02-29", "2023-02-29", "0001-01-01", "9999-12-31", "0000-01-01", "2024-2-9", "2024-02-29\n"),
    "10000-01-01",
]
INTS = [0, 1, -1, 2, -2, 3, 4, -4, 31, 100, 10**6, 10**6 + 1, 2**31 - 1, -(2**31), 2**31, 2**32 + 1]
INTS += [2**62, 2**63 - 1, -(2**63), -(2**63) + 1]
FLOATS = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.49999999999999994, 4503599627370497.5, 2.0**53, 9.223372036854775e18]
FLOATS += [9.223372036854775807e18, -9.223372036854775808e18, -9.3e18, 1e300, -1e300, 5e-324, 1.7e308, 0.1, 2.675, -3.0]
DATES = [date(1, 1, 1), date(1, 12, 31), date(9999, 12, 31), date(9999, 12, 1), date(1970, 1, 1), date(1969, 12, 31)]
DATES += [date(2000, 2, 29), date(1900, 2, 28), date(2024, 2, 29), date(2024, 12, 30), date(2021, 1, 3)]
DATES += [date(1582, 10, 10), date(1500, 3, 1), date(2023, 1, 31)]
MOMENTS = [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999), datetime(1969, 12, 31, 23, 59, 59, 999999)]
MOMENTS += [datetime(1970, 1, 1), datetime(2024, 2, 29, 12, 34, 56, 789000), datetime(1883, 11, 18, 12, 3, 58)]
LONG = 12345678901234567890123456789012345678


def scaled(digits: int, scale: int) -> Decimal:
    """A decimal with this number of digits behind the point."""
    return Decimal((int(digits < 0), tuple(map(int, str(abs(digits)))), -scale))


VALUES: dict[str, Sequence[Any]] = {
    "int": INTS,
    "float": FLOATS,
    "string": STRINGS,
    "bool": [False, True],
    "date": DATES,
    "timestamp": MOMENTS,
    "decimal(10,2)": [Decimal(t) for t in ("0.00", "0.01", "-0.01", "2.50", "-2.50", "99999999.99", "-99999999.99")],
    "decimal(2,2)": [Decimal(t) for t in ("0.00", "0.01", "-0.99")],
    "decimal(18,18)": [scaled(t, 18) for t in (0, 1, -1, 10**18 - 1)],
    "decimal(38,0)": [scaled(t, 0) for t in (0, 7, -(2**63), 2**63, 2**63 - 1, 10**38 - 1, 1 - 10**38, LONG, -LONG)],
    "decimal(38,10)": [
        scaled(t, 10) for t in (0, 1, -1, 15 * 10**9, -15 * 10**9, 10**37, -(10**37), 10**38 - 1, LONG, -LONG)
    ],
}
LIST_ITEMS: dict[str, Sequence[Any]] = {
    "int": [1, 2, 2**63 - 1],
    "float": [0.0, -0.0, 1.5],
    "string": ["", "a", "🙂"],
    "bool": [False, True],
    "date": DATES[:2],
    "decimal(10,2)": VALUES["decimal(10,2)"][:2],
    "list<int>": [(), (1,), (1, 2)],
}
STANDS_FOR = {
    "T": ("int", "string", "float", "bool", "list<int>"),
    "O": ("int", "float", "string", "date", "timestamp", "decimal(10,2)", "list<int>"),
    "N": ("int", "float", "decimal(10,2)", "decimal(38,0)", "decimal(38,10)"),
    "decimal": ("decimal(10,2)", "decimal(2,2)", "decimal(18,18)", "decimal(38,0)", "decimal(38,10)"),
}
MOST = 1500
"""So many combinations of arguments, by chance where there are more."""


def values_of(kind: str) -> Sequence[Any]:
    """Awkward values of a type; of a list type, lists of up to three items."""
    if not kind.startswith("list<"):
        return VALUES[kind]
    element = kind.removeprefix("list<").removesuffix(">")
    items = LIST_ITEMS[element] if element in LIST_ITEMS else values_of(element)[:3]
    return [row for length in range(4) for row in itertools.product(items, repeat=length)][:25]


def spelled(pattern: Pattern, variable: str) -> str:
    """The type that a pattern becomes where its type variable stands for a type."""
    if pattern.element is not None:
        return f"list<{spelled(pattern.element, variable)}>"
    return variable if pattern.name in STANDS_FOR else pattern.name


def instances(signature: Signature) -> Iterator[tuple[str, ...]]:
    """The types of parameters that a signature is tried with; one that repeats stands once and three times."""
    text = " ".join(map(str, signature.parameters))
    names = [name for name in STANDS_FOR if name in text.replace("<", " ").replace(">", " ").split()]
    for kind in STANDS_FOR[names[0]] if names else ("",):
        if kind == "timestamp" and "list<" in text:
            continue
        kinds = tuple(spelled(parameter, kind) for parameter in signature.parameters)
        yield kinds
        if signature.repeats:
            yield (*kinds, *kinds[-1:] * 2)


CALLS = [(name, kinds) for name, f in FUNCTIONS.items() for signature in f.signatures for kinds in instances(signature)]


def arguments(name: str, kinds: tuple[str, ...]) -> list[tuple[Any, ...]]:
    """Combinations of values."""
    pools = [values_of(kind) for kind in kinds]
    if kinds[0].startswith("list<") and kinds[1:] == (kinds[0][5:-1],):
        pools[1] = [*LIST_ITEMS.get(kinds[1], ()), *pools[1][:4]]
    if name == "make_date":
        pools = [[-1, 0, 1, 4, 1900, 2000, 9999, 10000, 2**63 - 1], [0, 1, 2, 12, 13], [-1, 0, 1, 28, 29, 30, 31, 32]]
    found = list(itertools.product(*pools))
    found = found if len(found) <= MOST else random.Random(name).sample(found, MOST)
    return [row for row in found if not too_long(name, row)]


def too_long(name: str, row: tuple[Any, ...]) -> bool:
    """Whether a result of a million characters would only take time."""
    return name in ("repeat", "lpad", "rpad") and row[1] == 10**6 and row[0] != "a"


def expected(name: str, kinds: tuple[str, ...], row: tuple[Any, ...]) -> Any:
    """The oracle's value, None if there is none."""
    if name == "f_concat":  # The oracle does not know what an empty list is a list of.
        name = "concat" if kinds[0] == kinds[1] else "f_concatPath"
    value = oracle.FUNCTIONS[name](*row)
    return None if isinstance(value, oracle.Undefined) else value


def exactly(value: Any) -> Any:
    """A value that equals only those of its type; floats that are equal are the same."""
    if isinstance(value, tuple | list):
        return tuple(map(exactly, value))
    return type(value).__name__, value


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalJob]:
    """A job with a rule for each of the calls: from input relation n0 on, to h0 on."""
    lines = []
    for number, (name, kinds) in enumerate(CALLS):
        columns = [f"x{place}" for place in range(len(kinds))]
        declared = ", ".join(f"{column}: {kind}" for column, kind in zip(columns, kinds, strict=True))
        lines += [f"input relation n{number}(id: int, {declared})  output h{number}."]
        lines += [f"h{number}(Id, {name}({', '.join(columns)})) :- n{number}(Id, {', '.join(columns)})."]
    job = LocalJob(compile_text("\n".join(lines))[1], tmp_path_factory.mktemp("calls") / "state")
    yield job
    job.close()


@dataclass(frozen=True)
class Call:
    """A call with many arguments: its query, a table of the arguments with the place of each row as ``id``, the type of
    its values, and the oracle's values."""

    view: str
    query: Any
    table: pa.Table
    wanted: pa.DataType
    rows: list[tuple[Any, ...]]
    oracles: list[Any]

    def check(self, engine: str, found: Iterable[tuple[Any, ...]]) -> None:
        """Compare what an engine finds."""
        values = dict(found)
        wrong = [
            (row, frozen(values[place]), value)
            for place, (row, value) in enumerate(zip(self.rows, self.oracles, strict=True))
            if exactly(values[place]) != exactly(value)
        ]
        assert not wrong, f"{engine}: {len(wrong)} of {len(self.rows)} differ: (arguments, found, expected) {wrong[:8]}"


def call_of(calls: LocalJob, number: int) -> Call:
    """The call with a number."""
    name, kinds = CALLS[number]
    strata = (stratum for stage in calls.program.stages for stratum in stage.strata)
    query = next(rule.full for stratum in strata for rule in stratum.rules if rule.head == f"h{number}")
    wanted = arrow_type(calls.relation(f"h{number}").columns[1].type)
    rows = arguments(name, kinds)
    arrays = [pa.array([row[place] for row in rows], arrow_type(kind)) for place, kind in enumerate(kinds)]
    names = ["id", *(f"x{place}" for place in range(len(kinds)))]
    table = pa.table([pa.array(range(len(rows)), pa.int64()), *arrays], names=names)
    oracles = [expected(name, kinds, row) for row in rows]
    if not FUNCTIONS[name].partial:
        assert None not in oracles
    return Call(f"n{number}__after", query, table, wanted, rows, oracles)


NAMED = [f"{name}({','.join(kinds)})" for name, kinds in CALLS]


@by_day(6)
@pytest.mark.parametrize("number", range(len(CALLS)), ids=NAMED)
def test_in_duckdb(number: int, calls: LocalJob) -> None:
    """A function's value in DuckDB, NULL where it has none, and its type."""
    call = call_of(calls, number)
    with contextlib.closing(calls.module.DuckEngine()) as engine:
        engine.connection.register(call.view, call.table)
        found = engine.connection.sql(engine.text(call.query))
        assert pa.table(found.to_arrow_table()).schema.field(1).type in (call.wanted, pa.list_(call.wanted))
        call.check("DuckDB", found.fetchall())


@by_day(8)
@pytest.mark.parametrize("number", one_in(range(len(CALLS)), 9), ids=NAMED)
def test_in_spark(number: int, calls: LocalJob, tmp_path: Path, spark: SparkSession) -> None:
    """The same in Spark."""
    call = call_of(calls, number)
    engine = calls.module.SparkEngine(spark, 1)
    pq.write_table(call.table, tmp_path / "n.parquet")  # Which keeps timestamps apart from moments.
    spark.read.parquet(f"file://{tmp_path}/n.parquet").createOrReplaceTempView(call.view)
    try:
        frame = spark.sql(engine.text(call.query))
        assert frame.schema.fields[1].dataType.simpleString() == spark_type(call.wanted)
        call.check("Spark", [tuple(row) for row in frame.collect()])
    finally:
        spark.catalog.dropTempView(call.view)
        engine.close()


def spark_type(kind: pa.DataType) -> str:
    """What Spark calls an Arrow type."""
    if pa.types.is_list(kind):
        return f"array<{spark_type(kind.value_type)}>"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    names = {"int64": "bigint", "bool": "boolean", "date32[day]": "date", "timestamp[us]": "timestamp_ntz"}
    return names.get(str(kind), str(kind))


def test_tables_have_the_same_functions() -> None:
    """Every function has an entry in both dialects, or is composed; so have those of derivation sets and of
    optional columns, and no other."""
    composed = {"greatest", "least", "concat", "concat_ws"}
    for table in (DUCKDB, SPARK):
        names = {key.partition(":")[0].partition("/")[0] for key in table}
        assert names == set(FUNCTIONS) - composed | {UNION, HOLDS, PICK, typed.VALUE, typed.OR_NULL, "item?"}
    assert set(oracle.FUNCTIONS) == set(FUNCTIONS)


LITERAL = {"int", "float", "string", "bool", "date", "timestamp", "list<int>", "list<string>"}


def literal(value: Any) -> str:
    """A value as a program writes it."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, date):
        return f'{"timestamp" if isinstance(value, datetime) else "date"}"{value}"'
    if isinstance(value, float):
        text = f"{Decimal(repr(value)):f}"
        return text if "." in text else f"{text}.0"
    return str(typed.Constant(value, typed.STRING, Span("", 0, 0, 0))) if isinstance(value, str) else str(value).lower()


def test_signs_close_to_zero(tmp_path: Path, spark: SparkSession) -> None:
    """A 0 beside a decimal with 38 digits after the point leaves Spark 37 of them to compare."""
    values = [scaled(number, 38) for number in (0, 1, -1, 4, -4, 10**38 - 1)]
    script = compile_text("input relation n(x: decimal(38, 38))  output h.  h(X, abs(X), sign(X), int(X)) :- n(X).")[1]
    job = LocalJob(script, tmp_path / "state")
    (rule,) = (rule for stage in job.program.stages for stratum in stage.strata for rule in stratum.rules)
    pq.write_table(pa.table({"x": pa.array(values, pa.decimal128(38, 38))}), tmp_path / "n.parquet")
    duckdb, rounds = job.module.DuckEngine(state=str(tmp_path)), job.module.SparkEngine(spark, 1)
    duckdb.connection.execute(f"CREATE VIEW n__after AS FROM '{tmp_path / 'n.parquet'}'")
    spark.read.parquet(str(tmp_path / "n.parquet")).createOrReplaceTempView("n__after")
    try:
        wanted = {(value, value.copy_abs(), (value > 0) - (value < 0), 0) for value in values}
        assert set(duckdb.connection.execute(duckdb.text(rule.full)).fetchall()) == wanted
        assert {tuple(row) for row in spark.sql(rounds.text(rule.full)).collect()} == wanted
    finally:
        spark.catalog.dropTempView("n__after")
        rounds.close()
        job.close()


@AT_NIGHT
def test_literals(tmp_path: Path, spark: SparkSession) -> None:
    """Calls whose arguments are literals, which engines compute before they run; one program with hundreds."""
    calls = []
    for name, kinds in CALLS:
        rows = [row for row in arguments(name, kinds) if not any(value in ((), ((),)) for value in row)]
        if LITERAL.issuperset(kinds):
            chosen = random.Random(f"{name}{kinds}").sample(rows, 2)
            calls += [(f"{name}({', '.join(map(literal, row))})", expected(name, kinds, row)) for row in chosen]
    text = "".join(f"h{number}({call}).\n" for number, (call, _) in enumerate(calls))
    job = LocalJob(compile_text(text)[1], tmp_path / "state")
    rules = {rule.head: rule for stage in job.program.stages for s in stage.strata for rule in s.rules}
    duckdb, rounds = job.module.DuckEngine(), job.module.SparkEngine(spark, 1)
    wrong = []
    for number, (call, value) in enumerate(calls):
        query = rules[f"h{number}"].full
        in_duckdb = duckdb.connection.execute(duckdb.text(query)).fetchall()[0][0]
        wrong += [(call, "DuckDB", in_duckdb, value)] if exactly(frozen(in_duckdb)) != exactly(value) else []
    union = " UNION ALL ".join(
        f"SELECT {number}, CAST(x0 AS STRING), x0 IS NULL FROM ({rounds.text(rules[f'h{number}'].full)}) AS q(x0)"
        for number in range(len(calls))
    )
    try:
        for number, in_spark, missing in spark.sql(union).collect():
            call, value = calls[number]
            same = missing == (value is None) and (
                missing or not isinstance(value, int | str) or in_spark == oracle.as_string(value)
            )
            wrong += [] if same else [(call, "Spark", in_spark, value)]
    finally:
        rounds.close()
        job.close()
    assert len(calls) > 250 and not wrong, wrong


def calls_of_calls(depth: int) -> str:
    """A program that takes lists from lists that it has taken from lists, as records within records are, and so on."""
    parts, nested, number = [("", "L")], "L", "X"
    for place in range(1, depth + 1):
        within = parts[-1][1]
        size, rest = f"N{place} = element_at({within}, 1)", f"M{place} = slice({within}, N{place} + 1, size({within}))"
        parts.append((f", size({within}) > 0, {size}, {rest}", f"M{place}"))
        nested, number = f"slice({nested}, 2, size(L))", f'int(string({number}) ++ "0")'
    return f"""
input relation l(x: list<int>, y: int)
output relation named(x: list<int>, y: int)
output relation absent(y: int)
output relation nested(x: list<int>)
output relation numbers(x: int)
named({parts[-1][1]}, X) :- l(L, X){"".join(part for part, _ in parts)}.
absent(X) :- l(L, X){"".join(part for part, _ in parts)}, !named({parts[-1][1]}, X + 1).
nested({nested}) :- l(L, _).
numbers({number}) :- l(_, X), X != 0.
"""


#: Lists from which :func:`calls_of_calls` takes several, or none, and a number whose last value is out of range.
LISTS: tuple[Batch, ...] = (
    {
        "l": [
            ("+", ((1, 2, 1, 1, 1, 1, 3, 0, 0, 0), 1)),
            ("+", ((0, 0, 1, 0), 2)),
            ("+", ((), 3)),
            ("+", ((0, 0, 0, 0, 0, 7), -1)),
            ("+", (tuple(range(16)), 0)),
        ]
    },
    {"l": [("+", ((9,), 4)), ("-", ((), 3)), ("-", ((0, 0, 1, 0), 2))]},
    {"l": [("+", ((0,), 2**63 - 1))]},
    {"l": [("+", ((-4, 1), 5))]},
)


@AT_NIGHT
def test_calls_of_calls() -> None:
    """A value that is used several times is printed once, however deep; otherwise these would have many megabytes."""
    compilation, script = compile_text(calls_of_calls(2))
    texts = [text for _, both in queries_of(load_script(script)) for text in both]
    assert max(map(len, texts)) < 70_000
    job = MemoryJob(compilation)
    checked = Checked(job, calls_of_calls(2), compilation)
    refused = []
    for batch in LISTS:
        assert checked.apply(batch) == []
        refused.append(bool(checked.refused))
    job.close()
    assert refused == [False, False, True, False]


@AT_NIGHT
def test_calls_of_calls_in_spark(spark: SparkSession) -> None:
    """And Spark's text finds what DuckDB's does."""
    text = calls_of_calls(2)
    with small_queries(spark):
        assert compare_queries(*compile_text(text), text, LISTS, spark) == []
