"""Columns that were never null may become null in a later version of a program: stored rows stay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from flintlog.compiler.pipeline import compile_program
from flintlog.compiler.source import SourceFile
from flintlog.targets.pyspark.emit import emit_script

from golden_tests.harness import VERSION, load_script
from golden_tests.nightly import by_day

if TYPE_CHECKING:
    from types import ModuleType

    from pyspark.sql import SparkSession

BEFORE = """
    input relation person(id: int, mail: string, tags: int) primary key (id)
    input multiset relation sale(item: string, price: int)
    input relation here(id: int)
    output relation reached(id: int, mail: string)
    output relation mails(mail: string)
    output relation sold(item: string, n: int)
    reached(I, M) :- person(I, M, _), here(I).
    mails(M) :- reached(_, M).
    sold(I, count<*>) :- sale(I, _).
    """
AFTER = BEFORE.replace("mail: string", "mail: string?").replace(
    "sale(item: string, price: int)", "sale(item: string, price: int?)"
)
OUTPUTS = ("reached", "mails", "sold")


def job(text: str) -> ModuleType:
    """The job of a version of the program."""
    plan = compile_program(SourceFile("p.dl", text)).plan
    return load_script(emit_script(plan, VERSION, format_code=False))


def files(folder: Path, **rows: str) -> str:
    """A folder with a CSV file for each relation."""
    folder.mkdir()
    for name, text in rows.items():
        (folder / f"{name}.csv").write_text(text, "utf-8")
    return str(folder)


def tuples(module: ModuleType, place: Any, state: str, name: str) -> list[Any]:
    """The tuples of a relation."""
    found = module.relation(place, state, name)
    rows = found.to_pylist() if place is None else [row.asDict() for row in found.collect()]
    return sorted(json.dumps(list(row.values()), default=str) for row in rows)


@by_day(1)
@pytest.mark.parametrize(("where", "command"), [("here", "upgrade"), ("here", "rebuild"), ("spark", "upgrade")])
def test_stored_rows_stay(where: str, command: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """The state is that of the new version built from the same rows, and takes nulls from there on."""
    spark: SparkSession | None = request.getfixturevalue("spark") if where == "spark" else None
    old, new = job(BEFORE), job(AFTER)
    rows = files(
        tmp_path / "rows",
        person='id,mail,tags\n1,"",0\n2,null,1\n3,"a ""b"", \'c\'",2\n',
        sale="item,price\nx,1\nx,1\ny,2\n",
        here="id\n1\n2\n4\n",
    )
    changes = files(
        tmp_path / "changes",
        person="op,id,mail,tags\nu,2,,7\n+,4,,8\n",
        sale="op,item,price\n+,x,\n-,x,1\n+,x,\n",
        here="op,id\n-,1\n+,3\n",
    )
    changed, fresh = str(tmp_path / "changed"), str(tmp_path / "fresh")
    old.init(spark, changed, rows, buckets=2)
    with pytest.raises(new.JobError, match="another version"):
        new.apply(spark, changed, changes)
    getattr(new, command)(spark, changed)
    new.init(spark, fresh, rows, buckets=2)
    for _ in range(2):
        for name in ("person", "sale", *OUTPUTS):
            assert tuples(new, spark, changed, name) == tuples(new, spark, fresh, name), name
        assert new.verify(spark, changed)["differences"] == []
        for state in (changed, fresh):
            new.apply(spark, state, changes, batch="more")
    assert tuples(new, spark, changed, "sold") == ['["x", 3]', '["y", 1]']
    # Nothing says what becomes of nulls, so the way back needs rows.
    with pytest.raises(old.JobError, match=r"the columns of (person|sale) differ from those of its stored rows"):
        getattr(old, command)(spark, changed)
