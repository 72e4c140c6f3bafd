"""Inputs as they are found, where a job runs on Spark: options of CSV, compressed files, nulls, and bad rows."""

from __future__ import annotations

import datetime
import gzip
import json
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from golden_tests.harness import compile_text, load_script
from golden_tests.nightly import AT_NIGHT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROGRAM = """
input relation sale(id: int, item: string, price: decimal(8,2), day: date?) primary key (id)
output relation sold(item: string, turnover: decimal(38,2))
sold(I, sum<P>) :- sale(_, I, P, _).
"""


@pytest.fixture
def job() -> Iterator[Any]:
    """The script."""
    module: Any = load_script(compile_text(PROGRAM, "shop.dl")[1])
    yield module
    del sys.modules[module.__name__]


def rows(job: Any, spark: Any, state: str) -> set[tuple[Any, ...]]:
    """Return the sales that a state has."""
    return {tuple(row) for row in job.relation(spark, state, "sale").collect()}


@pytest.mark.parametrize("engine", ["auto", pytest.param("spark", marks=AT_NIGHT)])
def test_as_without_spark(job: Any, spark: SparkSession, engine: str, tmp_path: Path) -> None:
    """Files, a table and a DataFrame give the same state on Spark and here, and the same rows are set aside."""
    first = b"7;'Pears; Williams';2.10;-\n8;plum;-;-\n9;'it''s';0.40;2026-01-31\n10;fig;x;-\n"
    (tmp_path / "first.csv.gz").write_bytes(gzip.compress(first))
    second = b"id\titem\tprice\tday\top\n7\t\t1.00\t\tu\n9\tfig\t0.5\t\tu\n11\tfig\t0.55\n12\tNA\t0.25\t\tc\n"
    (tmp_path / "second.csv.zst").write_bytes(pa.compress(second, codec="zstd", asbytes=True))
    options = "?delimiter=;&quote='&header=no&columns=id,item,price,day&null=-"
    schema = "id INT, item STRING, price DECIMAL(9,3), day DATE, op STRING"
    day = datetime.date(2026, 2, 1)
    third = [
        (9, "kiwi", Decimal("1.500"), day, "update"),
        (13, "kiwi", Decimal("0.125"), day, "insert"),
        (14, None, Decimal("1.000"), None, "insert"),
        (15, "kiwi", Decimal("1.000"), None, "upset"),
    ]
    frame = spark.createDataFrame(third, schema)
    frame.createOrReplaceTempView("third")
    states, asides, log = {}, {}, job.Log(quiet=True)
    for place, name in ((spark, "there"), (None, "here")):
        state, aside = str(tmp_path / name), str(tmp_path / f"{name}-aside")
        given: dict[str, Any] = {"nulls": "skip", "quarantine": aside, "log": log}
        given |= {"engine": engine} if place else {}
        found = []
        found.append(job.init(place, state, {"sale": f"{tmp_path}/first.csv.gz{options}"}, buckets=2, **given))
        assert rows(job, spark, state) == {
            (7, "Pears; Williams", Decimal("2.10"), None),
            (9, "it's", Decimal("0.40"), datetime.date(2026, 1, 31)),
        }
        changes = {"sale": f"{tmp_path}/second.csv.zst?delimiter=tab"}
        found.append(job.apply(place, state, changes, batch="2", **given))
        assert rows(job, spark, state) == {(9, "fig", Decimal("0.50"), None), (12, "NA", Decimal("0.25"), None)}
        # Without Spark, its tables cannot be read.
        source = "table:third" if place else frame.toArrow()
        found.append(job.apply(place, state, {"sale": source}, batch="3", **given))
        assert rows(job, spark, state) == {(9, "kiwi", Decimal("1.50"), day), (12, "NA", Decimal("0.25"), None)}
        with pytest.raises(job.JobError, match=r"column price: 0.125 has too many digits"):
            job.apply(place, state, {"sale": source}, nulls="skip", log=log)
        if place:
            found.append(job.apply(place, state, {"sale": frame}, batch="4", **given))
            more = {name: given[name] for name in ("nulls", "quarantine", "log")}
            checkpoint = tmp_path / "checkpoint"
            checkpoint.mkdir()
            (checkpoint / "metadata").write_text('{"id":"0f0f0f0f-0000-4000-8000-000000000000"}')
            found.append(job.apply_micro_batch(frame, 0, state, "sale", checkpoint=str(checkpoint), **more))
            assert [(one["left_out"], one["set_aside"]) for one in found[2:]] == [({"sale": 1}, {"sale": 2})] * 3
            assert Path(found[4]["quarantine"]["sale"]).is_file()
        states[name] = [(one["left_out"], one["set_aside"], one["changes"]) for one in found[:3]]
        asides[name] = set_aside(Path(aside))
        assert job.verify(place, state, log=log)["differences"] == []
    assert states["there"] == states["here"]
    assert len(asides["there"]) == 4
    assert asides["there"] == asides["here"]


def set_aside(folder: Path) -> list[Any]:
    """Return what is set aside, without where it was."""
    found = []
    for batch in ("init", "2", "3"):
        (file,) = (folder / f"batch={batch}" / "sale").iterdir()
        found += [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    return [(one["problems"], one["values"]) for one in found]
