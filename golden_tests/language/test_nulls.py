"""Columns that may be null: in random programs and batches, in files of every format, and in Python."""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import flintlog
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from flintlog.compiler.cli import main

from golden_tests.harness import compile_text, load_script
from golden_tests.nightly import AT_NIGHT, by_day, seeds
from golden_tests.random_search import check, check_in_memory, check_queries, scenario_of, small_queries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROGRAM = """
input relation person(name: string, email: string?, age: int?)
input relation tags(id: int, t: list<string>?, d: decimal(5,2)?, m: date?) primary key (id)
output relation contact(email: string?, n: int)
output relation tagged(id: int, t: list<string>?, d: decimal(5,2)?, m: date?)
output relation without(name: string)
contact(E, count<*>) :- person(_, E, _).
tagged(I, T, D, M) :- tags(I, T, D, M).
without(N) :- person(N, E, A), E = null, !tags(A, _, _, _).
"""


@by_day(1)
@pytest.mark.parametrize("seed", seeds(3, 11))
def test_seeds(seed: int) -> None:
    """Nulls in joins, negation, groups, aggregates, witnesses, recursions and facts."""
    assert check_in_memory(scenario_of(seed, nulls=True)) == []


@AT_NIGHT
@pytest.mark.parametrize("seed", seeds(2, 5))
def test_seeds_in_files(seed: int) -> None:
    """The same with the state in files and in buckets, also cut by a column that may be null."""
    assert check(scenario_of(seed, seed % 2 == 0, nulls=True), 1 + seed % 3) == []


@by_day(1)
@pytest.mark.parametrize("seed", seeds(2, 11))
def test_types(seed: int) -> None:
    """Columns of every type, with and without nulls, the ends of 64 bits, and hostile strings."""
    assert check_in_memory(scenario_of(seed, types=True, nulls=seed % 2 == 0)) == []


@AT_NIGHT
@pytest.mark.parametrize("seed", seeds(1, 5))
def test_types_in_files(seed: int) -> None:
    """The same with the state in files."""
    assert check(scenario_of(seed, seed % 2 == 0, types=True), 1 + seed % 3) == []


@AT_NIGHT
@pytest.mark.parametrize("seed", seeds(1, 5))
def test_types_in_spark(seed: int, spark: SparkSession) -> None:
    """Spark finds the same rows of them as DuckDB."""
    with small_queries(spark):
        assert check_queries(scenario_of(seed, types=True), spark) == []


@AT_NIGHT
@pytest.mark.parametrize("seed", seeds(1, 5))
def test_queries_in_spark(seed: int, spark: SparkSession) -> None:
    """Spark finds the same rows as DuckDB."""
    assert check_queries(scenario_of(seed, nulls=True), spark) == []


def test_derivation_sets_name_nulls(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both ways to maintain a recursion agree where its tuples have nulls, and a text that looks like one."""
    (tmp_path / "p.dl").write_text(
        "input relation link(a: string?, b: string?)\noutput relation reach(a: string?, b: string?)\n"
        "reach(X, Y) :- link(X, Y).\nreach(X, Z) :- reach(X, Y), link(Y, Z).\n"
    )
    (tmp_path / "p.dat").write_text(
        'start; insert link(null, "a"), insert link("a", "b"), insert link("b", null), insert link("b", "a"), '
        'insert link("null", "a"), insert link(null, null); commit dump_changes;\n'
        'start; delete link("a", "b"); commit dump_changes;\n'
        'start; insert link("a", "b"), delete link(null, "a"), delete link(null, null); commit dump_changes;\n'
    )
    said = []
    for recursion in ("ranks", "derivation-sets"):
        command = ["replay", str(tmp_path / "p.dl"), str(tmp_path / "p.dat"), "--recursion", recursion]
        assert main.main(command, standalone_mode=False) in (0, None)
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]
    assert 'reach{.a = null, .b = "b"}: -1' in said[0]
    assert 'reach{.a = "null", .b = "b"}: -1' in said[0]


def write_rows(folder: Path) -> None:
    """Nulls in CSV, JSON and Parquet."""
    folder.mkdir()
    (folder / "person.csv").write_text('name,email,age\nann,a@x,1\nbob,,\ncem,"",3\ndan,a@x,\n')
    rows = [
        {"id": 1, "t": ["x", "y"], "d": 1.5, "m": "2026-01-02"},
        {"id": 2, "t": None, "d": None, "m": None},
        {"id": 3, "t": [], "d": 0, "m": None},
    ]
    (folder / "tags.json").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_files_of_a_job(tmp_path: Path) -> None:
    """Nulls are read from every format, published as nulls, shown, explained and verified."""
    job: Any = load_script(compile_text(PROGRAM)[1]).JOB
    write_rows(tmp_path / "rows")
    (tmp_path / "changes").mkdir()
    (tmp_path / "changes" / "person.csv").write_text("op,name,email,age\n-,bob,,\n+,eve,,5\n+,fay,,2\n")
    nulls = {"t": pa.array([None, []], pa.list_(pa.string())), "d": pa.array([None, None])}
    nulls["m"] = pa.array([None, None], pa.date32())
    table = pa.table({"op": ["+", "+"], "id": [1, 4], **nulls})
    pq.write_table(table, tmp_path / "changes" / "tags.parquet")
    state = str(tmp_path / "state")
    job.init(None, state, str(tmp_path / "rows"), buckets=3)
    job.apply(None, state, str(tmp_path / "changes"), "b1")
    assert job.verify(None, state)["differences"] == []
    (path,) = (tmp_path / "state").glob("published/contact/changes/batch=b1/*.parquet")
    found = pq.read_table(path).to_pylist()
    assert {(row["op"], row["email"], row["n"]) for row in found} == {("-", None, 1), ("+", None, 2)}
    shown = job.relation(None, state, "tagged")
    assert [str(kind) for kind in shown.schema.types[2:]] == ["decimal128(5, 2)", "date32[day]"]
    assert [row["t"] for row in sorted(shown.to_pylist(), key=lambda row: row["id"])] == [None, None, [], []]
    assert job.explain(None, state, 'person("fay", null, 2)')["present"]
    assert job.explain(None, state, "contact(null, 2)")["tuples"][0]["values"] == [None, 2]
    assert job.explain(None, state, 'person("fay", _, _)')["tuple"] == 'person("fay", null, 2)'


@pytest.mark.parametrize("form", ["rows", "dicts", "pandas", "polars", "arrow"])
def test_python(form: str) -> None:
    """Nulls of Python and of data frames come and go as None."""
    rows = [("ann", "a@x", 1), ("bob", None, None), ("cem", "", 3)]
    table = pa.table(dict(zip(("name", "email", "age"), map(list, zip(*rows, strict=True)), strict=True)))
    given: Any = {"rows": rows, "dicts": table.to_pylist(), "arrow": table}.get(form)
    if form == "pandas":
        given = table.to_pandas()
    elif form == "polars":
        given = pytest.importorskip("polars").from_arrow(table)
    session = flintlog.Session(PROGRAM, {"person": given, "tags": [(1, None, None, None), (2, ["x"], 1, None)]})
    assert session["contact"].to_list() == [(None, 1), ("", 1), ("a@x", 1)]
    assert session["tagged"].to_arrow().column("t").to_pylist() == [None, ["x"]]
    assert session["without"].to_list() == [("bob",)]
    changes = session.apply(delete={"person": [("bob", None, None)]}, insert={"person": [("dan", None, 2)]})
    assert changes["without"].deleted.to_list() == [("bob",)]
    assert not changes["contact"]


def test_other_columns_refuse_nulls() -> None:
    """Also beside columns that may be null; and a member of JSON that is missing is no null."""
    with pytest.raises(flintlog.JobError, match="row 2, column name: null"):
        flintlog.evaluate(PROGRAM, {"tags": [], "person": [("ann", None, None), (None, None, None)]})
    with pytest.raises(flintlog.JobError, match="row 1, column age: missing"):
        flintlog.evaluate(PROGRAM, {"tags": [], "person": [{"name": "ann", "email": None}]})


CONSTANTS = (
    ("int", "7", 7),
    ("float", "1.5", 1.5),
    ("float", "2", 2.0),
    ("decimal(10,2)", "1.5", Decimal("1.50")),
    ("decimal(10,2)", "-2", Decimal("-2.00")),
    ("string", '""', ""),
    ("bool", "false", False),
    ("date", 'date"2026-02-28"', date(2026, 2, 28)),
    ("timestamp", 'timestamp"2026-02-28 01:02:03"', datetime(2026, 2, 28, 1, 2, 3)),
    ("list<float>", "[1, 2.5]", [1.0, 2.5]),
    ("list<string>", "[]", []),
)


@by_day(6)
@pytest.mark.parametrize("kind, literal, value", CONSTANTS, ids=lambda part: str(part))
@pytest.mark.parametrize("optional", ["", "?"])
def test_constants(kind: str, literal: str, value: Any, optional: str) -> None:
    """A constant has the type of its column, also of one that may be null, in literals, negated ones and heads."""
    text = f"""
        input relation e(a: int)
        input relation w(a: int, b: {kind}{optional}, c: int)
        output relation with(a: int)
        output relation without(a: int)
        output relation made(b: {kind}{optional})
        with(X) :- e(X), w(X, {literal}, _).
        without(X) :- e(X), !w(X, {literal}, _).
        made({literal}).
    """
    rows = [(1, value, 0), (2, value, 1), (2, None, 0), (3, None, 0)] if optional else [(1, value, 0), (2, value, 1)]
    found = flintlog.evaluate(text, {"e": [(1,), (2,), (3,)], "w": rows})
    assert found["with"].to_list() == [(1,), (2,)]
    assert found["without"].to_list() == [(3,)]
    assert found["made"].to_list() == [(value,)]


def test_a_domain_of_a_value_of_an_optional_column() -> None:
    """A constant of a domain is found in a column that may be null."""
    text = """
        input relation e(a: int, b: int)
        input relation w(a: int, b: int?)
        domain w(N, 3).
        output relation p(a: int, b: int)
        p(X, Y) :- e*(X, Y).
    """
    found = flintlog.evaluate(text, {"e": [(1, 2)], "w": [(1, 3), (5, 3), (6, None), (7, 4)]})
    assert found["p"].to_list() == [(1, 1), (1, 2), (5, 5)]
