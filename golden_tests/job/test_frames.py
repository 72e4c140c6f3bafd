"""Jobs take DataFrames of pandas and Polars, and Arrow tables, as rows and as changes."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from flintlog.compiler.pipeline import compile_program
from flintlog.compiler.source import SourceFile
from flintlog.targets.pyspark.emit import emit_script

from golden_tests.harness import VERSION, load_script

if TYPE_CHECKING:
    from types import ModuleType

PROGRAM = """
    input relation Sale(ID: int, price: decimal(9, 2), at: timestamp, day: date, note: string?) primary key (ID)
    input relation tag(ID: int, words: list<string>)
    output relation sold(ID: int, price: decimal(9, 2), at: timestamp, day: date, note: string?)
    output relation tagged(ID: int, words: list<string>)
    sold(I, P, T, D, N) :- Sale(I, P, T, D, N).
    tagged(I, W) :- Sale(I, _, _, _, _), tag(I, W).
    """
MOMENT, DAY = datetime.datetime(2026, 1, 2, 3, 4, 5, 678901), datetime.date(1969, 12, 31)
SCHEMA = pa.schema(
    {
        "ID": pa.int64(),
        "price": pa.decimal128(9, 2),
        "at": pa.timestamp("us"),
        "day": pa.date32(),
        "note": pa.string(),
    }
)


def pandas_frame(table: pa.Table) -> Any:
    """A DataFrame of pandas, whose numbers are floats beside missing values, and whose index says nothing."""
    frame = table.to_pandas()
    frame.index = range(7, 7 + len(frame))
    return frame


def polars_frame(table: pa.Table) -> Any:
    """A DataFrame of Polars."""
    return pytest.importorskip("polars").from_arrow(table)


class Streamed:
    """Data that can be read once, by Arrow's C interface."""

    def __init__(self, table: pa.Table) -> None:
        """Keep the table."""
        self.reader = table.to_reader(1)

    def __arrow_c_stream__(self, requested: object = None) -> object:
        """Return the stream."""
        return self.reader.__arrow_c_stream__(requested)


KINDS: dict[str, Callable[[pa.Table], Any]] = {
    "arrow": lambda table: table,
    "pandas": pandas_frame,
    "polars": polars_frame,
    "stream": Streamed,
}


@pytest.fixture(scope="module")
def job() -> ModuleType:
    """The job."""
    plan = compile_program(SourceFile("shop.dl", PROGRAM)).plan
    return load_script(emit_script(plan, VERSION, format_code=False, parts=()))


def sale(number: int, note: str | None, **more: str) -> dict[str, Any]:
    """A row."""
    return {
        "ID": number,
        "price": decimal.Decimal("-0.10"),
        "at": MOMENT,
        "day": DAY,
        "note": note,
        **more,
    }


def held(job: ModuleType, state: str, relation: str) -> list[tuple[Any, ...]]:
    """The tuples of a relation."""
    return sorted((tuple(row.values()) for row in job.relation(None, state, relation).to_pylist()), key=repr)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_and_changes(kind: str, job: ModuleType, tmp_path: Path) -> None:
    """They have the columns of the relation in any order, and those of changes the operation."""
    made, state = KINDS[kind], str(tmp_path / "state")
    rows = pa.Table.from_pylist([sale(1, None), sale(2, 'a "quoted", ünï\n')], SCHEMA).select(
        ["note", "day", "at", "price", "ID"]
    )
    tags = pa.table(
        {"words": [["x", ""], []], "ID": [1, 3]}, pa.schema({"words": pa.list_(pa.string()), "ID": "int64"})
    )
    job.init(None, state, {"Sale": made(rows), "tag": [made(tags)]})
    assert held(job, state, "sold") == [tuple(sale(1, None).values()), tuple(sale(2, 'a "quoted", ünï\n').values())]
    assert held(job, state, "tagged") == [(1, ["x", ""])]
    changed = SCHEMA.append(pa.field("op", pa.string()))
    changes = pa.Table.from_pylist([sale(1, None, op="-"), sale(3, "new", op="+"), sale(2, None, op="+")], changed)
    job.apply(None, state, {"Sale": made(changes)})
    assert held(job, state, "sold") == [tuple(sale(2, None).values()), tuple(sale(3, "new").values())]
    assert held(job, state, "tagged") == [(3, [])]
    contradiction = pa.table({"op": ["+", "-"], "ID": [9, 9], "words": [["y"], ["y"]]})
    with pytest.raises(job.JobError, match="the DataFrame given for tag"):
        job.apply(None, state, {"tag": made(contradiction)})
    assert job.status(state)["commit"] == 2


def test_what_is_refused(job: ModuleType, tmp_path: Path) -> None:
    """Wrong types and values are told with the relation, and so is what is no table."""
    pandas, state = pytest.importorskip("pandas"), str(tmp_path / "state")
    for given, said in (
        (pandas.DataFrame({"ID": [1, "x"], "words": [["a"], ["b"]]}), "one column that Arrow has no common type for"),
        (7, "tag is given as a path, a DataFrame of Spark, pandas or Polars, or an Arrow table, and this int is none"),
        (pa.table({"ID": [1.5], "words": [["a"]]}), "the DataFrame given for tag"),
        (pa.table({"ID": [None], "words": [["a"]]}), "the DataFrame given for tag"),
        (pa.table({"id": [1], "words": [["a"]]}), "the DataFrame given for tag"),
    ):
        with pytest.raises(job.JobError, match=said):
            job.init(None, state, {"tag": given})
    job.init(None, state, {"tag": pa.table({"ID": [1, None], "words": [["a"], ["b"]]})}, nulls="skip")
    assert held(job, state, "tag") == [(1, ["a"])]


def test_empty_frames(job: ModuleType, tmp_path: Path) -> None:
    """The types of columns without values say nothing."""
    pandas, state = pytest.importorskip("pandas"), str(tmp_path / "state")
    job.init(None, state, {"tag": pandas.DataFrame({"ID": [], "words": []})})
    job.apply(None, state, {"tag": pandas.DataFrame({"ID": [], "words": [], "op": []})})
    job.apply(None, state, {"tag": pandas.DataFrame({"ID": [], "words": [], "op": [], "n": []})}, order_column="n")
    assert held(job, state, "tag") == []
