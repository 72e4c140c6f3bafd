"""CSV files as they are found, compressed files, and folders whose names have values."""

from __future__ import annotations

import gzip
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from flintlog.compiler import cli

from golden_tests.addons.feeds.world import FeedWorld, refusal
from golden_tests.nightly import by_day

PROGRAM = """
input relation item(id: int, name: string?, size: decimal(6,2))
output relation named(id: int, name: string?, size: decimal(6,2))
named(I, N, S) :- item(I, N, S).
"""

PARTS = """
input relation item(id: int, year: int, day: date?, kind: string)
output relation named(id: int, year: int)
named(I, Y) :- item(I, Y, _, _).
"""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[FeedWorld]:
    """A job that reads items."""
    made = FeedWorld(tmp_path, PROGRAM)
    yield made
    made.close()


def read(world: FeedWorld, place: str) -> set[tuple[Any, ...]]:
    """Return the rows that a new state has from a place."""
    state = world.folder / f"state-{next(NUMBERS)}"
    world.job.init(None, str(state), {"item": place}, log=world.job.Log(quiet=True))
    found = world.job.relation(None, str(state), "item")
    return {(*row[:-1], str(row[-1])) for row in zip(*(c.to_pylist() for c in found.columns), strict=True)}


NUMBERS = itertools.count()

FILES = [
    ("", "id,name,size\n1,a,1.5\n2,,2\n", {(1, "a"), (2, None)}),
    ("", '\ufeffname,id,size\r\n"a ""b"", c\r\nd",1,1.5\r\n\r\n"",2,2\r\n', {(1, 'a "b", c\r\nd'), (2, "")}),
    ("?delimiter=;", "id;name;size\n1;a,b;1.5\n2;;2\n", {(1, "a,b"), (2, None)}),
    ("?delimiter=tab&quote=none", 'id\tname\tsize\n1\t"a\t1.5\n2\t""\t2\n', {(1, '"a'), (2, '""')}),
    ("?delimiter=pipe&quote='", "id|name|size\n1|'a|''b\"'|1.5\n2|''|2\n", {(1, "a|'b\""), (2, "")}),
    ("?delimiter=%7C", "id|name|size\n1|a|1.5\n2||2\n", {(1, "a"), (2, None)}),
    ("?header=no", "1,a,1.5\n2,,2\n", {(1, "a"), (2, None)}),
    ("?header=no", '\ufeff1,"a",1.5\n2,,2\n', {(1, "a"), (2, None)}),
    ("?header=false", "1,a,1.5\n2,,2\n", {(1, "a"), (2, None)}),
    ("?header=true", "id,name,size\n1,a,1.5\n2,,2\n", {(1, "a"), (2, None)}),
    ("?header=no", "\ufeff1,a,1.5\n2,,2\n", {(1, "a"), (2, None)}),
    ("?columns=size,id,name", "1.5,1,a\n2,2,\n", {(1, "a"), (2, None)}),
    ("?null=NA", 'id,name,size\n1,"NA",1.5\n2,NA,2\n', {(1, "NA"), (2, None)}),
    ("?null=NA", "id,name,size\n1,,1.5\n2,NA,2\n", {(1, ""), (2, None)}),
    ("?null=NA&null=", "id,name,size\n1,a,1.5\n2,,2\n", {(1, "a"), (2, None)}),
    ("?null=\\N&delimiter=^", "id^name^size\n1^\\n^1.5\n2^\\N^2\n", {(1, "\\n"), (2, None)}),
    ("?delimiter=.&null=]", "id.name.size\n1.[-.2\n2.].2\n", {(1, "[-"), (2, None)}),
]


@by_day(20)
@pytest.mark.parametrize("number", range(len(FILES)))
@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".csv.zst", ".txt"])
def test_dialects(world: FeedWorld, number: int, suffix: str) -> None:
    """The rows of a file, also without the fast path, and compressed."""
    options, text, expected = FILES[number]
    if suffix == ".txt" and not options:
        return
    path = world.folder / f"item{suffix}"
    content = text.encode()
    if suffix == ".csv.gz":
        content = gzip.compress(content[:9]) + gzip.compress(content[9:])
    elif suffix == ".csv.zst":
        content = pa.compress(content[:9], "zstd", asbytes=True) + pa.compress(content[9:], "zstd", asbytes=True)
    path.write_bytes(content)
    assert {row[:2] for row in read(world, f"{path}{options}")} == expected


@by_day(6)
@pytest.mark.parametrize(
    ("options", "text", "said"),
    [
        ("?delimiter=§", "id\n", 'delimiter="§" must be one character of ASCII, or one of: tab, comma'),
        ("?delimiter=;;", "id\n", "must be one character"),
        ("?quote=ab", "id\n", 'quote="ab" must be one character of ASCII, or one of: none'),
        ("?delimiter='&quote='", "id\n", "cannot be both the delimiter and the quote"),
        ("?header=maybe", "id\n", "header=maybe must be yes or no"),
        ("?header=yes&columns=a", "id\n", "leave out header=yes"),
        ("?header=true&columns=a", "id\n", "leave out header=true"),
        ("?columns=a,,b", "id\n", "has an empty name"),
        ("?null=a,b", "id\n", "contains a delimiter"),
        ("?null=a&nul=b", "id\n", '"nul" is no option of CSV files; these are delimiter, quote, header, columns, null'),
        ("?delimiter=;&delimiter=,", "id\n", "delimiter is given twice"),
        ("?delimeter=;", "id\n", "does not exist, or is a folder without files; options behind a place are delimiter"),
        ("", "id;name;size\n1;a;2\n", "with another delimiter: add ?delimiter=semicolon to the place"),
        ("", "id,name,name,size\n1,a,b,2\n", "column name occurs 2 times"),
        ("?header=no", "1,a\n", "row 1: 2 fields instead of 3"),
        ("?header=no", "id,name,size\n1,a,2\n", 'row 1, column id: "id" is not an int'),
        ("?null=NA", "id,name,size\nNA,a,2\n", "row 1, column id: null"),
        ("?columns=id,name,name", "1,a,2\n", "column name occurs 2 times"),
        ("", 'id,name,size\n1,"a"b,2\n', "text after a closing quote"),
    ],
)
def test_refused(world: FeedWorld, capsys: pytest.CaptureFixture[str], options: str, text: str, said: str) -> None:
    """What is wrong with a file or with options is said in words."""
    path = world.folder / "item.csv"
    path.write_text(text, encoding="utf-8")
    assert said in refusal(world, capsys, "--input", f"item={path}{options}", command="init")


def test_damaged_compression(world: FeedWorld, capsys: pytest.CaptureFixture[str]) -> None:
    """Truncated or empty compressed files, and compressed Parquet."""
    content = b"id,name,size\n" + b"".join(b"%d,a%d,2\n" % (n, n * n) for n in range(20_000))
    zstd = pa.compress(content, "zstd", asbytes=True)
    for name, data, said in (
        ("item.csv.gz", gzip.compress(content)[:-20], "is damaged"),
        ("item.csv.gz", content, "is damaged: Not a gzipped file"),
        ("item.csv.gz", gzip.compress(b""), "header: there is none"),
        ("item.csv.gz", b"", "is empty"),
        ("item.csv.zst", zstd[: len(zstd) // 2], "is damaged"),
        ("item.csv.zst", content, "is damaged"),
        ("item.parquet.gz", b"PAR1", "does not have the suffix of a known format"),
    ):
        path = world.folder / name
        path.write_bytes(data)
        assert said in refusal(world, capsys, "--input", f"item={path}", command="init"), name


def test_changes_folders_and_feeds(world: FeedWorld, capsys: pytest.CaptureFixture[str]) -> None:
    """Options stand behind files, folders, folders of relations and feeds alike."""
    rows = world.folder / "rows"
    rows.mkdir()
    (rows / "item.csv.gz").write_bytes(gzip.compress(b"id|name|size\n1|a|2\n"))
    assert world.run("init", "--input", f"{rows}?delimiter=pipe") == 0
    changes = world.folder / "changes"
    changes.mkdir()
    (changes / "item.csv").write_text("+;5;NA;2\n-;1;a;2\n")
    assert world.run("apply", "--changes", f"{changes}?delimiter=;&columns=op,id,name,size&null=NA") == 0
    assert {row[:2] for row in world.rows("item")} == {(5, None)}
    incoming = world.folder / "incoming"
    incoming.mkdir()
    assert world.run("connect", f"item=files:{incoming}?delimiter=tab&columns=id,name,size,op") == 0
    (incoming / "1.csv").write_text("5\t\t2\t+\n7\tx\t1\t+\n")
    assert world.run("apply") == 0
    (incoming / "2.csv.gz").write_bytes(gzip.compress(b"5\t\t2\t-\n"))
    assert world.run("apply") == 0
    assert {row[:2] for row in world.rows("item")} == {(7, "x")}
    world.run("status")
    assert "files:" + str(incoming) + "?delimiter=tab&columns=id,name,size,op" in capsys.readouterr().out


def test_partitioned_folders(tmp_path: Path) -> None:
    """Values in the names of folders are columns, in all formats, as DuckDB writes and reads them."""
    world = FeedWorld(tmp_path, PARTS)
    rows = "SELECT i AS id, 2020 + i % 3 AS year, CASE WHEN i % 2 = 0 THEN DATE '2026-01-01' + i::INT END AS day, "
    rows += "CASE i WHEN 1 THEN 'a=b/c ü' ELSE 'x' END AS kind FROM RANGE(7) t(i)"
    for kind in ("parquet", "csv", "json"):
        target = tmp_path / kind / "item"
        target.mkdir(parents=True)
        duckdb.sql(f"COPY ({rows}) TO '{target}' (FORMAT {kind}, PARTITION_BY (year, day, kind), OVERWRITE)")
        state = str(tmp_path / f"state-{kind}")
        world.job.init(None, state, {"item": str(target)}, log=world.job.Log(quiet=True))
        found = world.job.relation(None, state, "item")
        assert set(zip(*(c.to_pylist() for c in found.columns), strict=True)) == set(duckdb.sql(rows).fetchall())
        ran = CliRunner().invoke(cli.main, ["run", str(program(tmp_path)), "--facts", str(tmp_path / kind)])
        assert ran.exit_code == 0 and "named (7 rows)" in ran.output, ran.output
    said: dict[str, str] = {}
    names = ("year=x", "year=1/year=2", "other", "year=__HIVE_DEFAULT_PARTITION__", "id=2/year=3")
    for number, name in enumerate(names):
        wrong = tmp_path / f"wrong-{number}"
        (wrong / name).mkdir(parents=True)
        rows_of_one = pa.table({"id": [1], "day": pa.array([None], pa.date32()), "kind": ["a"]})
        pq.write_table(rows_of_one, wrong / name / "a.parquet")
        with pytest.raises(world.job.JobError) as caught:
            world.job.init(None, str(tmp_path / "none"), {"item": str(wrong)}, log=world.job.Log(quiet=True))
        said[name] = str(caught.value)
    assert 'column year, in the name of a folder: "x" is not an int' in said["year=x"]
    assert "two of its folders have a value of year" in said["year=1/year=2"]
    assert "not of the form COLUMN=VALUE" in said["other"]
    assert "column year: null" in said["year=__HIVE_DEFAULT_PARTITION__"]
    assert "column id occurs 2 times" in said["id=2/year=3"]
    world.close()


def program(folder: Path) -> Path:
    """Write the program of partitioned items, and return its path."""
    path = folder / "parts.dl"
    path.write_text(PARTS)
    return path


def test_run_reads_them_too(tmp_path: Path) -> None:
    """``flintlog run`` takes options behind the folder of facts."""
    (tmp_path / "facts").mkdir()
    (tmp_path / "facts" / "item.csv.gz").write_bytes(gzip.compress(b"1;NA;2\n2;a;3\n"))
    (tmp_path / "p.dl").write_text(PROGRAM)
    options = f"{tmp_path / 'facts'}?delimiter=;&header=no&null=NA"
    ran = CliRunner().invoke(cli.main, ["run", str(tmp_path / "p.dl"), "--facts", options, "--format", "csv"])
    assert ran.output == "id,name,size\n1,,2.00\n2,a,3.00\n"
    ran = CliRunner().invoke(cli.main, ["run", str(tmp_path / "p.dl"), "--facts", f"{tmp_path}/facts?delimiter=ab"])
    assert ran.exit_code == 1 and "must be one character of ASCII" in ran.output
