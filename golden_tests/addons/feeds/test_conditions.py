"""Conditions of feeds: SQL's meaning for those that are accepted, and no way out of them."""

from __future__ import annotations

import datetime
import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from flintlog.runtime.addons.feeds.condition import condition_in

from golden_tests.addons.feeds.world import FeedWorld, links, make_table, refusal
from golden_tests.nightly import by_day, seeds

ROWS = pa.table(
    {
        "src": pa.array([1, 2, 3, None], pa.int64()),
        "dst": pa.array([2, 2, 0, 7], pa.int64()),
        "kind": ["it's", "test", None, "a_b%c"],
        "active": [True, False, None, True],
        "day": [datetime.date(2024, 1, n) for n in (1, 2, 3, 4)],
        "moment": pa.array([datetime.datetime(2024, 1, n, 12) for n in (1, 2, 3, 4)], pa.timestamp("us", "UTC")),
        "price": pa.array([1.5, float("nan"), None, -2.0]),
        "list": [[1, 2], [], None, [5]],
        "a b": [1, 2, 3, 4],
        "it": [{"x": 1, "y z": "a"}, {"x": 2, "y z": "b"}, None, {"x": 4, "y z": None}],
        'q"uote': [1, 1, 2, 2],
    }
)

ACCEPTED = (
    "active",
    "active AND kind <> 'test'",
    "active and op_ is null",
    "kind = 'it''s' OR src > 1 AND dst < 5",
    "NOT (src = 1 OR dst = 2) or not not active",
    "src IN (1, 3) and kind is not null",
    "src NOT IN (1, 3, null)",
    "day BETWEEN DATE '2024-01-02' AND date '2024-01-03'",
    "day NOT BETWEEN '2024-01-02' AND '2024-01-03'",
    "moment >= TIMESTAMP '2024-01-02 12:00:00'",
    "kind LIKE 'a%' or kind NOT LIKE '%s%'",
    "kind ILIKE 'TE_T'",
    "price > -3.5 AND price <> 1e0",
    "src * 2 + 1 - dst % 3 = 1",
    "src - -1 > 2 / 1",
    "-src < - (dst - 5)",
    "list[1] >= 2",
    "list[-1] = 2",
    '"a b" = 2 AND "KIND" = \'test\'',
    "it.x = 2 OR it.\"y z\" = 'a'",
    'src == 1 and "q""uote" != 2',
    "coalesce(kind, 'none') = 'none'",
    "lower(kind) = 'test' and length(kind) = 4",
    "CAST(src AS VARCHAR) = '3' OR cast('4' as decimal(4, 1)) = src",
    "src IS DISTINCT FROM dst AND src IS NOT DISTINCT FROM 1",
    "(active IS TRUE) = (src IS NOT FALSE)",
    "true",
    "src\n  = 1",
    ".5 < 1. and 1.5E+1 > src",
)


DATABASE = duckdb.connect()
DATABASE.execute("SET TimeZone = 'UTC'")
DATABASE.register("rows", ROWS.append_column("op_", pa.nulls(len(ROWS), pa.string())))


def rows_where(sql: str) -> Any:
    """Return the rows for which DuckDB takes a condition for true, as text, or what kind of error it raises."""
    try:
        return str(DATABASE.sql(f"SELECT * FROM rows WHERE ({sql})").to_arrow_table().to_pylist())
    except duckdb.Error as error:
        return type(error)


@pytest.mark.parametrize("text", ACCEPTED)
def test_they_mean_what_sql_means(text: str) -> None:
    """The SQL that is printed gives the rows that the text itself gives."""
    found = condition_in(text).sql([*ROWS.column_names, "op_"], "duckdb")
    assert isinstance(rows_where(text), str)
    assert rows_where(found) == rows_where(text)


VALUES = ["src", "dst", "active", "kind", "price", "day", "1", "2", "0.5", "'test'", "'a%'", "null", "true", "list"]
SIGNS = ["AND", "OR", "=", "<>", "<", ">=", "+", "-", "*", "/", "%", "IS", "IN", "BETWEEN", "LIKE", "DISTINCT", "FROM"]
OTHERS = ["(", ")", ",", "NOT", "NULL", "abs(", "coalesce(", "upper(", "[", "]", "--", ";", "||", "^", "::", "SELECT"]
WORDS = [*VALUES, *SIGNS, *OTHERS, "CASE", "DATE", "DATE '2024-01-02'"]


@pytest.mark.parametrize("seed", seeds(3, 5))
def test_random_words(seed: int) -> None:
    """What is accepted gives the rows that SQL gives; the rest is refused with a ValueError."""
    rng, accepted = random.Random(seed), 0
    for _ in range(600):
        words = rng.choices(WORDS, k=rng.randint(1, 3))
        while rng.random() < 0.7:
            words += [rng.choice(SIGNS), *rng.choices(VALUES + OTHERS, k=rng.randint(1, 2))]
        text = " ".join(words)
        try:
            found = condition_in(text).sql(ROWS.column_names, "duckdb")
        except ValueError:
            continue
        expected = rows_where(text)
        accepted += isinstance(expected, str)
        assert rows_where(found) == expected, text
    assert accepted > 5


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1=1); COPY (SELECT 1 AS x) TO '{out}'; --", '"; COPY'),
        ("1=1) UNION ALL SELECT 7, 7", '") UNION'),
        ("src IN (SELECT 1)", '"SELECT 1 )"'),
        ("src = (SELECT count(*) FROM read_text('/etc/passwd'))", '"SELECT count'),
        ("EXISTS (FROM read_text('/etc/passwd'))", 'no function "exists"'),
        ("random() < 0.5", 'no function "random"'),
        ("now() > moment", 'no function "now"'),
        ("current_date > day", '"current_date > day"'),
        ("getenv('HOME') = 'x'", 'no function "getenv"'),
        ("read_text('/etc/passwd') IS NULL", 'no function "read_text"'),
        ("pg_catalog.version() = ''", '"( ) = '),
        ("'/etc/passwd'.src = 1", '". src = 1"'),
        ("src = 1 -- AND dst = 2", '"-- AND dst = 2"'),
        ("src = 1 /* x */", '"* x * /"'),
        ("src = 1;", '";"'),
        ("src = $1", '"$1"'),
        ("src = ?", '"?"'),
        ("kind = E'\\\\n'", "is not expected"),
        ("kind = $$a$$", '"$$a$$"'),
        ("rows.src = 1", 'no column "rows"'),
        ("rowid = 1", 'no column "rowid"'),
        ("src = 1\0", "NUL"),
        ("kind = 'a", '"\'a" cannot be read'),
        ('"src = 1', "cannot be read"),
        ("`src` = 1", '"name"'),
        ("src = 1 = 2", "is not expected"),
        ("src = 1 IS NULL", "is not expected"),
        ("src::varchar = '1'", "cannot be read"),
        ("CAST(src AS int; DROP TABLE rows) = 1", "cannot be read"),
        ("CAST(src AS uuid) = 1", 'no type "uuid"'),
        ("CAST(src AS decimal(4, 1e9)) = 1", "no type decimal"),
        ("list[(1)] = 1", "is not expected"),
        ("", "it is empty"),
        ("AND", "is not expected"),
        ("src =", "it ends too early"),
        ("(" * 5000 + "src" + ")" * 5000, "nested too deeply"),
        ("src" + " + 1" * 5000, "nested too deeply"),
        ("not " * 30_000 + "src", "more than 100,000 characters"),
        ("abs(1, 2) = 1", "abs cannot have 2 arguments"),
        ("case when true then true end", "is not expected"),
        ("x = 1", 'no column "x"'),
    ],
)
def test_what_is_refused(text: str, said: str) -> None:
    """More than one expression, what reads files, tables or settings, what differs from one time to the next, and
    what dialects read in different ways."""
    with pytest.raises(ValueError, match=r".") as raised:
        condition_in(text).sql(ROWS.column_names, "duckdb")
    assert said in str(raised.value)


def test_names_that_differ_only_in_case() -> None:
    """The one that is written, and no other one."""
    assert condition_in("Src = 1").sql(["Src", "src"], "duckdb") == '("Src" = 1)'
    with pytest.raises(ValueError, match="differ only in case"):
        condition_in("SRC = 1").sql(["Src", "src"], "duckdb")


def test_sql_of_spark() -> None:
    """It quotes names in another way, and reads texts with backslashes and elements of lists in another way."""
    found = condition_in("`a b`.x = 'it''s' AND CAST(day AS text) > 'b'", "spark").sql(["a b", "day"], "spark")
    assert found == "((`a b`.`x` = 'it''s') AND (CAST(`day` AS STRING) > 'b'))"
    for text, said in (
        ('kind <> "test"', "texts as 'text'"),
        ("kind = 'a\\b'", "backslash"),
        ("list[0] = 1", "is not expected"),
    ):
        with pytest.raises(ValueError, match=r".") as raised:
            condition_in(text, "spark").sql(["kind", "list"], "spark")
        assert said in str(raised.value)


HOSTILE = "1=1); COPY (SELECT 1 AS x) TO '{out}'; --"


def tampered(world: FeedWorld, change: Callable[[Any], Any]) -> None:
    """Replace the last manifest of a state by one that somebody has written."""
    manifest = world.manifest
    path = world.state / "manifest" / f"{manifest.commit:012d}.json"
    path.write_text(world.job.sealed(change(manifest)), encoding="utf-8")


def test_a_hostile_archive(world: FeedWorld, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Nothing of the condition in an imported state runs; what the state reads is shown before it is read."""
    table = make_table(world.folder / "lake", links((1, 2), (2, 3)))
    feeds, out = tmp_path / "feeds.toml", tmp_path / "out.csv"
    feeds.write_text(f'[link]\nfrom = "delta:{table}"\nwhere = "src < 9"')
    assert world.run("connect", "--feeds", str(feeds)) == world.run("init") == 0
    where = HOSTILE.format(out=out)
    tampered(world, lambda made: replace(made, feeds={"link": replace(made.feeds["link"], where=where)}))
    archive = tmp_path / "state.tar"
    assert world.run("export", "--to", str(archive)) == 0
    world.state = tmp_path / "imported"
    capsys.readouterr()
    assert world.run("import", str(archive)) == 0
    said = capsys.readouterr().out
    assert f"link is fed by delta:{table}, rows where {where}" in said
    assert world.run("status") == 0
    assert f"rows where {where}, read up to version 0" in capsys.readouterr().out
    assert world.run("status", "--json") == 0
    assert json.loads(capsys.readouterr().out)["feeds"]["link"]["where"] == where
    make_table(Path(table), links((5, 6)), mode="append")
    for arguments in ((), ("--resync", "link")):
        said = refusal(world, capsys, *arguments)
        assert "link: the condition (`where`) of its feed" in said and "`connect --feeds FILE.toml`" in said
    assert not out.exists()
    # The way out.
    assert world.run("connect", "--feeds", str(feeds)) == world.run("apply") == 0
    world.check({(1, 2), (2, 3), (5, 6)})


def test_conditions_are_checked_when_they_are_given(
    world: FeedWorld, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Also those over columns that only the changes of a table have."""
    table, feeds = make_table(world.folder / "lake", links((1, 2))), tmp_path / "feeds.toml"
    for where, said in ((HOSTILE, "cannot be used"), ("_change_type = 'insert'", 'no column "_change_type"')):
        feeds.write_text(f'[link]\nfrom = "delta:{table}"\nwhere = "{where}"')
        assert said in refusal(world, capsys, "--feeds", str(feeds), command="connect")
    assert not (world.state / "manifest").exists()


@by_day(2)
@pytest.mark.parametrize(
    "name", ["x'; COPY (SELECT 1) TO 'out.csv'; --", 'x"y` \\ z', "a.b", "src; --", "$(touch out)"]
)
def test_names_of_columns(
    name: str, world: FeedWorld, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may be anything, in the table and in the file of feeds; a name that the table lacks is refused."""
    monkeypatch.chdir(tmp_path)
    table = make_table(world.folder / "lake", links((1, 2), (5, 1), names=(name, "dst")))
    quoted, feeds = name.replace('"', '""'), tmp_path / "feeds.toml"

    def define(column: str, condition: str) -> None:
        where, column = json.dumps(condition), json.dumps(column)
        feeds.write_text(f'[link]\nfrom = "delta:{table}"\ncolumns = {{ src = {column} }}\nwhere = {where}')

    define(f"{name}!", f'"{quoted}" < 9')
    assert "has no column" in refusal(world, capsys, "--feeds", str(feeds), command="connect")
    define(name, f'"{quoted}" < 3')
    assert world.run("connect", "--feeds", str(feeds)) == world.run("init") == 0
    world.check({(1, 2)})
    make_table(Path(table), links((2, 4), (6, 1), names=(name, "dst")), mode="append")
    assert world.run("apply") == world.run("status") == 0
    world.check({(1, 2), (2, 4)})
    assert not list(tmp_path.rglob("out*"))
