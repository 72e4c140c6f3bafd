"""Hostile values through both ways of reading: row by row in the driver, and by Spark, which reads large files.

Whatever Spark takes without doubt has to be what the readers of values take, and the same; what it doubts is read row
by row, or named by its row. Values are the ends of every type's range, what other systems write, and random changes of
these.
"""

from __future__ import annotations

import datetime
import decimal
import json
import random
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from golden_tests.nightly import by_day, seeds


def words(text: str, *more: str) -> list[str]:
    """The words of a text, and what cannot stand in it."""
    return [*text.split(), *more]


DATES = """
0001-01-01 0000-12-31 0000-01-01 9999-12-31 10000-01-01 +10000-01-01 2024-02-30 2024-02-29 2023-02-29 1900-02-29
-0001-01-01 +2024-01-01 2024-1-1 infinity -infinity epoch now 1582-10-10 2024-01-01Z 20240101 2024-13-01
2024-01-01T00:00 294247-01-10
"""
CLOCKS = """
00:00 02:30:00 23:59:59 23:59:59.999999 23:59:60 24:00:00 00:00:00.1234567 00:00:00+14:00 23:59:59-12:00
23:59:59.5-18:00 00:00:00+18:00 00:00:00+18:01 00:00:00+23:59 00:00:00-23:59 00:00:00+24:00 00:00Z 00:00:00z
12:00+0200 12:00+02 00:00:00-00:00
"""
NUMBERS_OF_38_DIGITS = """
9999999999999999999999999999.9999999999 10000000000000000000000000000 1.23456789012 0.00000000001
-9999999999999999999999999999.9999999999 12345678901234567890.1234567891
"""
#: Values of text, as CSV and JSON strings have them.
TEXTS = {
    "int": words(
        """
        0 -0 +5 9223372036854775807 9223372036854775808 -9223372036854775808 -9223372036854775809 1e3 1.0 0x1 1_0 nan 1-
        --1 1e400 \u0663 \uff10\uff11
        """,
        *("", " 7 ", "\t7", "\u00a07", "1" * 40, "0" * 40 + "1", "1" * 5000, "1\x00", "\x001", "1 2"),
    ),
    "float": words(
        """
        1e400 -1e400 1e-400 4.9e-324 2e-324 1.7976931348623157e308 1.7976931348623159e308 1d 1f NaN Infinity -inf +.5 5.
        0x1p3 -0 -0.0 1e+5 1E5 1e5.5 0.1 1e 123456789012345678901234567890.5 9007199254740993 1e99999999999999999999
        """,
        *("1" * 400, "0." + "0" * 400 + "1", " .5\t", "1\x00", ""),
    ),
    "decimal(6,2)": words(
        """
        9999.99 10000 -9999.99 0.001 1.10 1.100 .5 5. +1 -0 1e2 1E-2 NaN 1d 1.005 9999.990 9999.995 1,5
        """,
        *("0" * 50 + "1", "1." + "0" * 50, " 1.5 ", "1\x00", "", "1" * 100),
    ),
    "decimal(38,10)": words(NUMBERS_OF_38_DIGITS),
    "string": words(
        """x \ufffd \ufffe \ufeff \U0001d11e null NULL \\N \\ ' " a"b "" , \x7f e\u0301 # -- NaN""",
        *("", " ", "a\x00b", "\x00", "\u0085", "\u2028", "\u00a0", "a\tb", "a\rb", "a\nb", "\x1f"),
    ),
    "bool": words("TRUE tRuE true false False 1 0 yes t tru\u0435", "true\x00", " true ", ""),
    "date": words(DATES, " 2024-01-01 ", "", "\uff12024-01-01"),
    "timestamp": [
        *(f"{day} {clock}" for day in words("0001-01-01 1582-10-10 2024-03-31 9999-12-31") for clock in words(CLOCKS)),
        *words("2024-01-01T00:00:00 2024-01-01t00:00:00 infinity 2024-01-01 1704067200 epoch", "", "2024-01-01 0:00"),
        *(" 2024-01-01 00:00 ", "2024-02-30 00:00", "2024-01-01 02:30 Europe/Berlin", "2024-01-01 00:00:00 Z"),
        *("10000-01-01 00:00:00", "0000-12-31 23:59:59-01:00"),
    ],
    "order": words(
        "0 -5 1.0 1.5 1e3 2024-01-01 9999-12-31 0001-01-01 0/16B37 infinity",
        *("0001-01-01 00:00:00+14:00", "9999-12-31 23:59:59-12:00", "2024-01-01 00:00:00.000001", ""),
        *("1" * 38, "1" * 39, "-" + "9" * 38),
    ),
}

#: What may stand in JSON, or may not.
TOKENS = words(
    """
    0 -0 1 -1 1.0 1.5 1e2 1E+2 1e-2 -0.0 9223372036854775807 9223372036854775808 -9223372036854775809 1e400 -1e400
    1e-400 1e999999999 20240101 1704067200 true false null [] {} [1] 9999.99 10000 0.001 9999.990 0.1e1
    1.23456789012345678901e0 123456789012345678901234567890123456789 12345678901234567890123456789.5 0.1
    1.00000000000000000001 99.99e2 1.23456789012345678901234567890123456789e5 NaN Infinity 01 .5 5. +1 1e 1_0 0x1 '1'
    1.7976931348623157e308 9.999999999999999999999999999999999999999e1 5e-324
    1e99999999999999999999 -1e99999999999999999999 1e-99999999999999999999 0e99999999999999999999
    """,
    *("1" * 200, "1" * 5000, "0." + "1" * 60),
    *('"\\ud800"', '"\\udc00\\ud800"', '"\\ud834\\udd1e"', '"\\u0000"', '"\\u0031"'),
)
MARKS = '0123456789+-.eE:TZ \t\x00\\é,"'
MADE_UP = 40


def changed(text: str, rng: random.Random) -> str:
    """The text with a character more, less or other."""
    place = rng.randrange(len(text) + 1)
    return text[:place] + rng.choice(["", rng.choice(MARKS)]) + text[place + rng.randrange(2) :]


def values_of(kind: str, rng: random.Random) -> list[str]:
    """Values of a type, or that look like them."""
    known = TEXTS[kind]
    return [*known, *(changed(rng.choice(known), rng) for _ in range(MADE_UP))]


def shape_of(job: ModuleType, kind: str) -> Any:
    """Rows of a number and a value; an order stands beside a value."""
    value = [] if kind == "order" else [job.Column("v", kind, "v")]
    columns = (job.Column("n", "int", "n"), *value)
    relation = job.Relation(name="hostile", table="hostile", columns=columns, kind="input", source="p.dl:1")
    return job.InputShape(relation, "op", "v" if kind == "order" else "", False, "", True)


def staged(job: ModuleType, file: Any, shape: Any, by_rows: bool = False) -> tuple[dict[int, Any], list[str]]:
    """The values that are taken, by their rows' numbers, and what is said of the others; ``by_rows`` no column is
    converted as a whole."""

    def doubt(*_: object) -> None:
        raise ValueError

    problems = job.Problems()
    with pytest.MonkeyPatch.context() as patch:
        for name in ("text_values", "staged_values") if by_rows else ():
            patch.setattr(job, name, doubt)
        tables = list(job.staged_tables(file, shape, problems, lambda text: None))
    return {row["n"]: value_in(row) for table in tables for row in table.to_pylist()}, problems.listed


def places(said: list[str]) -> set[int]:
    """The numbers of the rows that messages name."""
    return {int(text.split(", row ")[1].split(",")[0].split(":")[0]) for text in said}


def value_in(row: dict[str, Any]) -> str:
    """The value of a staged row, as text that tells types apart."""
    return repr(row["_order"] if "_order" in row else row["v"])


def compare(job: ModuleType, file: Any, shape: Any, values: list[Any]) -> None:
    """Columns converted as a whole, where that can be done, and row by row; in parts of different sizes."""
    expected = staged(job, file, shape, by_rows=True)
    taken, said = expected
    assert {*taken} | {number - 1 for number in places(said)} == {*range(len(values))}, "every row has a verdict"
    assert taken and said
    for rows in (1, 7, job.ROWS_AT_ONCE):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(job, "ROWS_AT_ONCE", rows)
            patch.setattr(job, "CSV_BLOCK", 64 * rows)
            assert staged(job, file, shape) == expected


@pytest.fixture
def strict(job: ModuleType, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The job, listing all problems."""
    monkeypatch.setattr(job, "PROBLEMS_LISTED", 10**6)
    return job


@by_day(3)
@pytest.mark.parametrize("seed", seeds(1, 2))
@pytest.mark.parametrize("kind", TEXTS)
def test_text(kind: str, seed: int, strict: ModuleType, tmp_path: Path) -> None:
    """In CSV, without quotes and with them."""
    rng = random.Random(f"csv {kind} {seed}")
    values = values_of(kind, rng)
    plain = [value for value in values if not set(value) & set(',"\r\n')]
    whole = [value for value in values if not set(value) & set("\r\n\0")]
    for name, listed in {"zeros": plain, "plain": [v for v in plain if "\0" not in v], "quoted": whole}.items():
        fields = [field(value, name == "quoted" and rng.random() < 0.5) for value in listed]
        path = tmp_path / f"{name}.csv"
        path.write_text("n,v\n" + "".join(f"{n},{v}\n" for n, v in enumerate(fields)), "utf-8", newline="")
        file = strict.InputFile(shape_of(strict, kind).relation, str(path), "csv", path.stat().st_size)
        compare(strict, file, shape_of(strict, kind), listed)


def field(value: str, quoted: bool) -> str:
    """A field of CSV."""
    if quoted or set(value) & set(',"\r\n'):
        return '"' + value.replace('"', '""') + '"'
    return value


@by_day(3)
@pytest.mark.parametrize("seed", seeds(1, 2))
@pytest.mark.parametrize("kind", TEXTS)
def test_json(kind: str, seed: int, strict: ModuleType, tmp_path: Path) -> None:
    """In JSON lines: strings, and whatever else may stand there."""
    rng = random.Random(f"json {kind} {seed}")
    values = [json.dumps(value, ensure_ascii=rng.random() < 0.5) for value in values_of(kind, rng)]
    values += [*TOKENS, *(changed(rng.choice(TOKENS), rng) for _ in range(MADE_UP))]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(f'{{"n": {n}, "v": {v}}}\n' for n, v in enumerate(values)), "utf-8", newline="")
    file = strict.InputFile(shape_of(strict, kind).relation, str(path), "json", path.stat().st_size)
    compare(strict, file, shape_of(strict, kind), values)


DAYS = [-(2**31), -719_529, -719_528, -719_163, -719_162, -1, 0, 2_932_896, 2_932_897, 2**31 - 1]
FIRST, LAST = -62_135_596_800_000_000, 253_402_300_799_999_999
MOMENTS = [-(2**63) + 1, FIRST - 1, FIRST, -1, 0, LAST, LAST + 1, 2**63 - 1]
NUMBERS = [decimal.Decimal(text) for text in ("0", "-9999.99", "9999.99", "10000", "0.001", "1.5", "1e15")]
COLUMNS = {
    "int": [pa.array([0, 2**63 - 1, 2**63, 2**64 - 1], pa.uint64()), pa.array(NUMBERS, pa.decimal128(30, 3))],
    "float": [pa.array([0.0, -0.0, float("nan"), float("inf"), 5e-324]), pa.array([0.5, float("-inf")], pa.float32())],
    "decimal(6,2)": [pa.array(NUMBERS, pa.decimal128(30, 3)), pa.array([-(2**63), 9999, 10000, 0])],
    "decimal(38,10)": [
        pa.array([decimal.Decimal(f"{n}.{n}") for n in (1, 12345678901, 123456789012)], pa.decimal128(38, 20)),
    ],
    "string": [pa.array([b"x", b"\xff", b"\xed\xa0\x80", b"a\x00b", "𝄞".encode()]).view(pa.string())],
    "date": [pa.array(DAYS, pa.int32()).view(pa.date32())],
    "timestamp": [
        pa.array(MOMENTS, pa.timestamp("us")),
        pa.array(MOMENTS, pa.timestamp("us", "UTC")),
        pa.array(MOMENTS, pa.timestamp("us", "Asia/Tokyo")),
        pa.array([moment // 1000 for moment in MOMENTS[1:-1]], pa.timestamp("ms", "America/New_York")),
        pa.array([moment // 1000 for moment in MOMENTS[1:-1]], pa.timestamp("ms")),
    ],
    "order": [
        pa.array(MOMENTS, pa.timestamp("us", "Asia/Tokyo")),
        pa.array(MOMENTS, pa.timestamp("us")),
        pa.array(DAYS, pa.int32()).view(pa.date32()),
        pa.array(NUMBERS, pa.decimal128(30, 3)),
    ],
    "list<date>": [pa.array([[0, day] for day in DAYS], pa.list_(pa.int32())).cast(pa.list_(pa.date32()))],
    "list<timestamp>": [pa.array([[0, moment] for moment in MOMENTS], pa.list_(pa.timestamp("us", "Asia/Tokyo")))],
    "list<string>": [pa.array([["x", "a\x00b"], ["x", None]])],
}


@by_day(1)
@pytest.mark.parametrize("kind", COLUMNS)
def test_typed_values(kind: str, strict: ModuleType, spark: Any, tmp_path: Path) -> None:
    """In Parquet, with all messages; and in a table, whose values are refused as well."""
    shape = shape_of(strict, kind)
    for number, column in enumerate(COLUMNS[kind]):
        path = tmp_path / f"{number}.parquet"
        pq.write_table(pa.table({"n": list(range(len(column))), "v": column}), path)
        file = strict.InputFile(shape.relation, str(path), "parquet", path.stat().st_size)
        compare(strict, file, shape, column.to_pylist() if kind == "int" else [None] * len(column))
        taken, said = staged(strict, file, shape)
        given = strict.InputFile(shape.relation, spark.read.parquet(str(path)), "frame")
        problems = strict.Problems()
        tables = strict.spark_tables(spark, given, shape, tmp_path / f"raw-{number}", problems, lambda text: None)
        assert {row["n"]: value_in(row) for table in tables for row in table.to_pylist()} == taken
        reasons = sorted(text.split("column v: ")[1] for text in said)
        assert sorted(text.rsplit("column v: ", 1)[1] for text in problems.listed) == reasons
        assert not (tmp_path / f"raw-{number}").exists()


def test_the_oldest_timestamps(strict: ModuleType, spark: Any, tmp_path: Path) -> None:
    """Those of 96 bits, which many a Spark writes, hold years that nanoseconds do not; of nanoseconds only the driver
    reads more."""
    shape = shape_of(strict, "timestamp")
    moments = [datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999)]
    spark.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
    try:
        rows = [(n, moment.replace(tzinfo=datetime.UTC).isoformat()) for n, moment in enumerate(moments)]
        spark.createDataFrame(rows, "n INT, t STRING").selectExpr("n", "CAST(t AS TIMESTAMP) AS v").coalesce(
            1
        ).write.parquet(str(tmp_path / "old"))
    finally:
        spark.conf.unset("spark.sql.parquet.outputTimestampType")
    (path,) = (tmp_path / "old").glob("*.parquet")
    file = strict.InputFile(shape.relation, str(path), "parquet", path.stat().st_size)
    assert staged(strict, file, shape) == ({n: repr(moment) for n, moment in enumerate(moments)}, [])
    path = tmp_path / "nanoseconds.parquet"
    pq.write_table(pa.table({"n": [0, 1], "v": pa.array([1999, -1], pa.timestamp("ns", "UTC"))}), path)
    file = strict.InputFile(shape.relation, str(path), "parquet", path.stat().st_size)
    tables = list(strict.staged_tables(file, shape, strict.Problems(), lambda text: None))
    assert [row["v"].microsecond for table in tables for row in table.to_pylist()] == [1, 0]


@pytest.mark.parametrize(
    ("text", "rows", "said"),
    [
        (b"v\na\n  \nb\n", ["  ", "a", "b"], ""),
        (b"v\na\n\t", ["\t", "a"], ""),
        (b"v\n \x00\na\n", [" \0", "a"], ""),
        (b"v,w\na,\xff\n", [], "is not UTF-8: invalid start byte"),
        (b"v,w\na,b\n\n", ["a"], ""),
    ],
)
def test_lines_of_blanks(text: bytes, rows: list[str], said: str, strict: ModuleType, tmp_path: Path) -> None:
    """A row of a column of strings; what is not UTF-8 is refused wherever it stands."""
    relation = strict.Relation(
        name="word", table="word", columns=(strict.Column("v", "string", "v"),), kind="input", source="p.dl:1"
    )
    path = tmp_path / "v.csv"
    path.write_bytes(text)
    file, problems = strict.InputFile(relation, str(path), "csv", len(text)), strict.Problems()
    try:
        shape = strict.InputShape(relation, "op", "", False, "", True)
        found = [
            row["v"]
            for table in strict.staged_tables(file, shape, problems, lambda text: None)
            for row in table.to_pylist()
        ]
    except strict.JobError as error:
        assert said and said in str(error)
    else:
        assert (sorted(found), problems.listed, said) == (rows, [], "")
