"""Values at the edges of every type, in every form: each is taken exactly, or refused with its place."""

from __future__ import annotations

import enum
import fractions
import math
import uuid
import zoneinfo
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any

import flintlog
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from flintlog.local.given import given_changes
from flintlog.runtime.inputs.records import Problems
from flintlog.runtime.kernel.model import Column, Relation
from flintlog.runtime.kernel.values import stored_value
from flintlog.runtime.local.objects import given_rows
from flintlog.runtime.row_kernel.model import RowRelation

from golden_tests.nightly import by_day

KINDS = (
    *("int", "float", "decimal(6,2)", "decimal(38,10)", "string", "bool", "date", "timestamp"),
    *("list<int>", "list<float>", "list<string>", "list<timestamp>", "int?", "float?", "timestamp?"),
)


class Number(enum.IntEnum):
    """An int of a type of its own."""

    THREE = 3


class NoOffset(tzinfo):
    """A time zone that does not know its offset."""

    def utcoffset(self, moment: datetime | None) -> None:
        """No offset."""

    def tzname(self, moment: datetime | None) -> str:
        """A name."""
        return "nowhere"


class Unprintable:
    """An object that cannot print itself."""

    def __repr__(self) -> str:
        raise RuntimeError


BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
FINE = "2026-01-01T00:00:00.000000001"
DECIMALS = "1e5 1E+400 1e-400 1E+999999 NaN sNaN -Infinity 0.1 -0 1.10 1.005 9007199254740993"
VALUES: list[Any] = [
    *(10**5000, -(10**5000), 2**53 + 1, 2**53, 2**63, -(2**63), 2**64 - 1, 2**1024, True, Number.THREE),
    *(1.0, 0.1, 1e300, math.nan, math.inf, -0.0, 5e-324, 1j, fractions.Fraction(1, 3), fractions.Fraction(1, 2)),
    *map(Decimal, DECIMALS.split()),
    *(Decimal("0.1000000000000000055511151231257827"), Decimal("9007199254740992")),
    *(np.int8(3), np.uint64(2**64 - 1), np.int64(2**53 + 1), np.bool_(True), np.str_("x"), np.bytes_(b"x")),
    *(np.float16(0.1), np.float32(0.1), np.float64(math.nan), np.longdouble("0.1"), np.complex128(1), np.void(b"x")),
    *(np.datetime64("NaT"), np.datetime64("2026-01"), np.datetime64("20000", "Y"), np.datetime64("400000", "Y")),
    *(np.datetime64(FINE), np.datetime64(f"{FINE}"[:-1] + "0"), np.datetime64(1, "as"), np.timedelta64(1, "s")),
    *(np.array(5), np.array([1, 2]), np.array([2**53 + 1]), np.array([FINE], dtype="datetime64[ns]")),
    *(b"x", bytearray(b"x"), "", "\0", "1", "nan", "\ud800", "x\udc00" * 50, "2026-01-01 00:00:00.1234567"),
    *("2026-01-01", "2026-01-01T00:00:00+02:00", "9999-12-31 23:59:59-12:00"),
    *(date(2026, 1, 1), datetime(2026, 1, 1), datetime(2026, 1, 1, tzinfo=NoOffset()), time(1), timedelta(1)),
    *(datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))), datetime(2026, 3, 29, 2, 30, tzinfo=BERLIN)),
    *(datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=fold) for fold in (0, 1)),
    *(pd.Timestamp(FINE), pd.Timestamp("2026-01-01", tz="Asia/Tokyo"), pd.Timestamp(np.datetime64("20000", "s"))),
    *(pd.Timestamp(np.datetime64("20000-01-01", "s")), pd.NaT, pd.NA, pd.Timedelta(1), pd.Period("2026-01")),
    *([], [1], (1, 2), [1, None], [[1]], [10**5000], [2**53 + 1], [0.1, "x"], [math.inf], ["\udc00"], [FINE]),
    *({1}, {1: 2}, range(3), None, object(), Unprintable(), [Unprintable()], uuid.UUID(int=1), int, pl.Series([1])),
]
ARROW: list[pa.Array] = [
    *(pa.array([1, 2**53 + 1]), pa.array([2**60]), pa.array([2**63 - 1]), pa.array([-(2**63)])),
    *(pa.array([2**64 - 1], pa.uint64()), pa.array([2**32 - 1], pa.uint32()), pa.array([-128], pa.int8())),
    *(pa.array([1.5], pa.float16()), pa.array([0.1], pa.float32()), pa.array([math.nan]), pa.array([-math.inf])),
    *(pa.array([Decimal("0.1")], pa.decimal32(5, 2)), pa.array([Decimal("1e70")], pa.decimal256(76, 2))),
    *(pa.array([Decimal("9007199254740993")]), pa.array([Decimal("100")], pa.decimal128(5, -2))),
    *(pa.array([1], pa.timestamp("ns")), pa.array([1000], pa.timestamp("ns", "Asia/Tokyo"))),
    *(pa.array([[1]], pa.list_(pa.timestamp("ns"))), pa.array([[1000]], pa.list_(pa.timestamp("ns")))),
    *(pa.array([2**62], pa.timestamp("s")), pa.array([2**31 - 1], pa.date32()), pa.array([86_400_001], pa.date64())),
    *(pa.array([[2**53 + 1]]), pa.array([[2**53 + 1]], pa.large_list(pa.uint64())), pa.array([[math.inf]])),
    *(pa.array([b"\xff"]).view(pa.string()), pa.array(["x"], pa.string_view()), pa.array([b"x"]), pa.nulls(1)),
    *(pa.array([{"a": 1}]), pa.array([[1, 2]], pa.list_(pa.int64(), 2)), pa.array([1], pa.duration("ns"))),
    *(pa.array([[None]]), pa.array([[]]), pa.array([["a"]]), pa.array([[[1]]]), pa.array([True])),
]


def dictionary(numbers: list[int], values: pa.Array) -> pa.Array:
    """A dictionary array, whose numbers are not checked."""
    return pa.DictionaryArray.from_arrays(pa.array(numbers), values, safe=False)


ARROW += [
    *(dictionary([0, 1], pa.array([1, 2**53 + 1])), dictionary([0], pa.array([1], pa.timestamp("ns")))),
    dictionary([0, 1], pa.array(["a", None])),
]


def read(kind: str, rows: Any) -> tuple[list[Any], list[str]]:
    """What is staged of rows for a column of a type, and what is said of the others: alike for rows and columns."""
    columns = (Column("x", kind, "x"),)

    def by_columns(problems: Problems) -> list[Any]:
        relation = Relation(name="t", table="t", columns=columns, kind="input", source="p.dl:1")
        found: list[Any] = given_rows(relation, rows, "t", problems).to_pydict()["x"]
        return found

    def by_rows(problems: Problems) -> list[Any]:
        relation = RowRelation(name="t", table="t", columns=columns, kind="input", source="p.dl:1")
        changes = given_changes(relation, rows, "t", problems)
        return [stored_value(row[0], kind) for _, row in changes]

    results: list[tuple[list[Any], list[str]]] = []
    for reading in (by_columns, by_rows):
        problems = Problems()
        try:
            found = reading(problems)
        except flintlog.JobError as error:
            found, problems.listed = [], [str(error)]
        results.append(([], problems.listed) if problems.listed else (found, []))
    assert repr(results[0]) == repr(results[1])
    return results[0]


def forms(value: Any) -> Iterator[Any]:
    """A row with a value, in all forms that can hold it."""
    yield [(value,)]
    yield [{"x": value}]
    column = np.empty(1, dtype=object)
    column[0] = value
    yield pd.DataFrame({"x": pd.Series(column, dtype=object)})


def exact(found: Any, given: Any) -> bool:
    """Whether a value is the one that was given."""
    if isinstance(given, np.ndarray) and not given.ndim:
        given = given.item()
    if isinstance(given, np.datetime64) and isinstance(found, datetime):
        return bool(np.datetime64(found) == given)
    if isinstance(found, list) and not isinstance(given, list | tuple | np.ndarray):  # An optional value.
        return exact(found[0], given) if found else str(given) in ("None", "<NA>", "NaT", "nan", "NaN", "sNaN")
    if isinstance(given, np.generic):
        given = given.item()
    if isinstance(found, list):
        return len(found) == len(given) and all(map(exact, found, given))
    if isinstance(given, str) and not isinstance(found, str):
        given = type(found)(given) if isinstance(found, Decimal) else type(found).fromisoformat(given)
    if isinstance(found, datetime):
        return found == (given if given.utcoffset() is None else given.astimezone(UTC)).replace(tzinfo=None)
    if isinstance(found, float) and isinstance(given, Decimal):
        return Decimal(repr(found)) == given
    return bool(found == given) and isinstance(found, bool) == isinstance(given, bool)


@by_day(5)
@pytest.mark.parametrize("kind", KINDS)
def test_values_of_python(kind: str) -> None:
    """In tuples, dicts and columns of objects; none with an exception of another kind."""
    taken = 0
    for value in VALUES:
        for rows in forms(value):
            found, said = read(kind, rows)
            assert bool(found) != bool(said)
            if found:
                taken += 1
                assert exact(found[0], value), (found, value)
            else:
                (line,) = said
                assert line.startswith(("t, row 1, column x: ", "t: column x has the type ")), line
    assert taken


@pytest.mark.parametrize(
    ("kind", "column", "staged"),
    [
        ("string", pa.array(["a", None, "c"], pa.string_view()), ["a", "c"]),
        ("string?", pa.array(["a", None, "c"], pa.string_view()), [["a"], ["c"]]),
        ("list<string>", pa.array([["a"], None, ["c", "d"]], pa.list_(pa.string_view())), [["a"], ["c", "d"]]),
    ],
)
def test_views_of_strings(kind: str, column: pa.Array, staged: list[Any]) -> None:
    """Of their rows, too, some can be left out."""
    columns = (Column("x", kind, "x"), Column("y", "int", "y"))
    relation = Relation(name="t", table="t", columns=columns, kind="input", source="p.dl:1")
    left_out: Counter[str] = Counter()
    found = given_rows(relation, pa.table({"x": column, "y": [1, None, 3]}), "t", Problems(), left_out=left_out)
    assert (found.to_pydict()["x"], left_out) == (staged, {"t": 1})


@pytest.mark.parametrize("kind", KINDS)
def test_values_of_arrow(kind: str) -> None:
    """In Arrow tables, and in DataFrames of Polars and pandas as far as these have them."""
    for column in ARROW:
        table = pa.table({"x": column})
        found, said = read(kind, table)
        assert bool(found) != bool(said)
        if not found:
            assert all(line.startswith(("t, row ", "t, column x: ", "t: column x has the type ")) for line in said), (
                said
            )
            continue
        given = table.to_pandas()["x"].tolist() if pa.types.is_date64(column.type) else column.to_pylist()
        assert all(map(exact, found, given)), (found, given)
        try:
            frame = pl.from_arrow(table)
        except BaseException:  # Polars does not have the type.
            continue
        assert read(kind, frame)[0] == found


@pytest.mark.parametrize(
    ("kind", "rows", "message"),
    [
        ("int", [(10**5000,)], f"t, row 1, column x: 1{'0' * 56}... does not fit 64 bits"),
        (
            "float",
            [(1,), (2**53 + 1,)],
            "t, row 2, column x: 9007199254740993 is not a float; the nearest one is 9007199254740992.0",
        ),
        (
            "float",
            pa.table({"x": [0, 2**53 + 1]}),
            "t, row 2, column x: 9007199254740993 is not a float; the nearest one is 9007199254740992.0",
        ),
        (
            "timestamp",
            pd.DataFrame({"x": pd.to_datetime([FINE])}),
            "t, row 1, column x: 2026-01-01 00:00:00.000000001 is finer than microseconds",
        ),
        ("timestamp", [(np.datetime64(FINE),)], f"t, row 1, column x: {FINE} is finer than microseconds"),
        (
            "string",
            pa.table({"x": dictionary([0, 5], pa.array(["a", "b"]))}),
            "t, row 2, column x: entry 5 of a dictionary with 2",
        ),
        (
            "string",
            pa.table({"x": dictionary([0, -1], pa.array(["a", "b"]))}),
            "t, row 2, column x: entry -1 of a dictionary with 2",
        ),
        (
            "list<string>",
            pa.table({"x": pa.ListArray.from_arrays([0, 2], dictionary([0, 5], pa.array(["a", "b"])))}),
            "t, row 1, column x: element 2: entry 5 of a dictionary with 2",
        ),
        ("int", pd.DataFrame({"x": [2.0**53 + 2, None]}), "t: column x has the type float and should be int"),
        ("float", [(np.longdouble(1),)], "t, row 1, column x: 1.0 is not a float"),
        ("float", [(Unprintable(),)], "t, row 1, column x: a value of the type Unprintable is not a float"),
    ],
)
def test_refused(kind: str, rows: Any, message: str) -> None:
    """The message names the place."""
    assert read(kind, rows) == ([], [message])


def test_damaged_arrow_data() -> None:
    """Lists whose offsets do not ascend, and types that another library does not pass on."""
    offsets = pa.array([0, 2, 1], pa.int32()).buffers()[1]
    column = pa.ListArray.from_buffers(pa.list_(pa.int64()), 2, [None, offsets], children=[pa.array([1, 2])])
    found, said = read("list<int>", pa.table({"x": column}))
    assert (found, len(said)) == ([], 1) and said[0].startswith("t, column x: damaged Arrow data: ")
    found, (line,) = read("int", pl.DataFrame({"x": pl.Series([2**100], dtype=pl.Int128)}))
    assert not found and "a DataFrame cannot be read as Arrow data: " in line
