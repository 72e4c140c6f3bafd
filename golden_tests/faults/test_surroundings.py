"""What surrounds a program: the folders of its state, the names of its files, the two engines that cut it."""

from __future__ import annotations

import sys
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlglot
from flintlog.compiler.naming import sql_names
from flintlog.compiler.pipeline import compile_program
from flintlog.compiler.source import SourceFile
from flintlog.targets.pyspark.emit import emit_script
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.dialects.spark import Spark

from golden_tests.checks import Checked
from golden_tests.harness import VERSION, LocalJob, RoundsJob, arrow_type, compile_text, load_script
from golden_tests.nightly import AT_NIGHT, by_day

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLOSURE = """
input relation e(x: int, y: int)
output p.
p(X, Y) :- e(X, Y).
p(X, Y) :- p(X, Z), e(Z, Y).
"""


@by_day(3)
@pytest.mark.parametrize("name", ["x=5/y=7", "a[1]", "b*c", "it's", "ä #%20"])
@pytest.mark.parametrize("buckets", [1, 2])
def test_state_in_folders_with_awkward_names(name: str, buckets: int, tmp_path: Path) -> None:
    """A folder above the state gives no relation a column, and is no pattern."""
    compilation, script = compile_text(CLOSURE)
    job = LocalJob(script, tmp_path / name, buckets)
    checked = Checked(job, CLOSURE, compilation)
    assert checked.build({"e": {(1, 2), (2, 3)}}) == []
    assert checked.apply({"e": [("+", (3, 4)), ("-", (1, 2))]}) == []
    job.close()


@AT_NIGHT
def test_state_of_rounds_in_folders_with_awkward_names(spark: SparkSession, tmp_path: Path) -> None:
    """The same where Spark reads and writes the state."""
    text = "input relation e(x: int, y: int)\noutput p.\np(X, Y) :- e(X, Y), X < 5.\n"
    compilation, script = compile_text(text)
    job = RoundsJob(script, tmp_path / "x=5" / "a[1] b*c{d}", spark, 2)
    checked = Checked(job, text, compilation)
    assert checked.build({"e": {(1, 2), (2, 3)}}) == []
    assert checked.apply({"e": [("+", (3, 4)), ("-", (1, 2))]}) == []
    job.close()


@pytest.mark.parametrize("name", ['a"b.dl', "a\\b.dl", '"""x.dl', "new\nline.dl", "{{ x }}.dl"])
def test_programs_with_awkward_file_names(name: str) -> None:
    """The script says the name of its program as it is, and can be read by Python."""
    script = emit_script(compile_program(SourceFile(name, CLOSURE)).plan, VERSION)
    job = load_script(script)
    assert job.PROGRAM.name == name
    assert job.PROGRAM.relation("p").source == f"{name}:4"


def test_rules_that_quote_what_stands_for_support(tmp_path: Path) -> None:
    """The program part stands first, and no character is hidden from a reviewer or changed by Python."""
    text = (
        'input relation e(x: string)  output p.\np("\x0c\u202e\u2028\x1b", X) :- e(X), X != "\\n# block: state.\\n".\n'
    )
    compilation, script = compile_text(text)
    assert not any((ord(c) < 32 and c != "\n") or c in "\u202e\u2028" for c in script)
    assert script.index("def program()") < script.index("class DuckEngine") < script.index("PROGRAM = ")
    job = LocalJob(script, tmp_path)
    assert Checked(job, text, compilation).build({"e": {("a",), ("\n# block: state.\n",)}}) == []
    job.close()


def test_names_that_sql_knows() -> None:
    """No keyword of an engine, nor of the printer of SQL, remains as the name of a table or a column."""
    known = {str(row[0]) for row in duckdb.sql("SELECT keyword_name FROM duckdb_keywords()").fetchall()}
    for dialect in (DuckDB, Spark):
        known |= {word.lower() for word in dialect.Tokenizer.KEYWORDS if word.isidentifier()}
    for name in sql_names(sorted(known)).values():
        sql = (
            f"SELECT {name}, {name}.{name} AS {name}, MAX({name}.a) OVER (PARTITION BY {name}.{name}) AS a "
            f"FROM (SELECT {name}, 1 AS a FROM {name}) AS {name} JOIN {name} AS s USING ({name}, a)"
        )
        assert len(duckdb.extract_statements(sql)) == 1, name
        assert sqlglot.parse_one(sql, dialect="duckdb").sql("spark").count(name) >= sql.count(name), name


VALUES: dict[str, list[Any]] = {
    "int": [-(2**63), 2**63 - 1, 0, -1, 2**31 - 1],
    "string": ["", "ä€😀", "\n", "\x00x"],
    "float": [0.0, -0.0, 1e300, 5e-324, 0.1, -1.5, 1e16, 1e7, 1e-5, 1.7976931348623157e308, 12345678.9],
    "decimal(10,3)": [Decimal("1.500"), Decimal("-0.001"), Decimal("10.000")],
    "decimal(38,20)": [Decimal("0E-20"), Decimal("-0.00000000000000000001")],
    "decimal(2,2)": [Decimal("0.50"), Decimal("-0.01"), Decimal("0.00")],
    "date": [date(1, 1, 1), date(9999, 12, 31), date(1582, 10, 10)],
    "timestamp": [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999), datetime(2026, 3, 8, 2, 30, 0, 100)],
    "bool": [True, False],
}
VALUES |= {f"list<{kind}>": [[], values, values[:1]] for kind, values in VALUES.items()}
VALUES |= {"list<list<string>>": [[], [[]], [["a,b"], ["a", "b"]], [["a", "b,a"], ["b"]]]}
VALUES["list<float>"] += [[0.0, -0.0], [-0.0, 0.0]]


@AT_NIGHT
def test_buckets_are_those_of_the_other_engine(spark: SparkSession, tmp_path: Path) -> None:
    """A value of any type lives in the same bucket whichever engine says so, and equal values in the same."""
    module: Any = load_script(compile_text(CLOSURE)[1])
    for number, (kind, values) in enumerate(VALUES.items()):
        path = str(tmp_path / f"{number}.parquet")
        table = pa.table({"i": list(range(len(values))), "v": pa.array(values, arrow_type(kind))})
        pq.write_table(table, path)
        duck = module.bucket_number("v", kind, 1009, "duckdb")
        found = duckdb.sql(f"SELECT {duck} FROM '{path}' ORDER BY i").fetchall()
        rows = spark.read.parquet(path).orderBy("i").selectExpr(module.bucket_number("v", kind, 1009, "spark"))
        assert [int(row[0]) for row in found] == [int(row[0]) for row in rows.collect()], kind
        if kind == "float":
            assert found[0] == found[1]
        elif kind == "list<float>":
            assert found[-1] == found[-2]


def test_tasks_without_duckdb(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where tasks have no DuckDB, the message says whose it is and what else there is."""
    _, script = compile_text("input relation e(x: int)\noutput p.\np(X) :- e(X).\n")
    module: Any = load_script(script)
    monkeypatch.setattr(module, "INSTANCES", module.Instances())
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(
        module.JobError, match=r"DuckDB is not installed for .*: install it .*where the tasks run.*--engine spark"
    ):
        module.DuckEngine()
