"""The feed ``delta:`` without a JVM, with real tables."""

from __future__ import annotations

import datetime
import decimal
import shutil
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from golden_tests.addons.feeds.world import (
    NULLS,
    VALUES,
    FeedWorld,
    append,
    applied,
    delete,
    links,
    make_table,
    refusal,
)


def test_from_a_table_to_views(world: FeedWorld, capsys: pytest.CaptureFixture[str]) -> None:
    """The rows at one version, then each range of versions once, and no commit where nothing is new."""
    table = make_table(world.folder / "lake", links((1, 2), (2, 3)))
    assert world.run("connect", f"link=delta:{table}") == 0
    assert world.run("init") == 0
    world.check({(1, 2), (2, 3)})
    assert world.manifest.feeds["link"].position == {"version": 0}
    append(table, (3, 4))
    delete(table, "src = 1")
    result = applied(world, capsys)
    assert result["batch"] == "link@0..2"
    assert result["changes"]["link"] == {"inserted": 1, "deleted": 1}
    world.check({(2, 3), (3, 4)})
    assert not applied(world, capsys)["applied"]
    assert world.run("apply") == 0
    assert "nothing new in link (delta:" in capsys.readouterr().out
    assert world.manifest.commit == 2
    assert world.run("status") == 0
    assert f"link is fed by delta:{table}, read up to version 2" in capsys.readouterr().out


def test_versions_without_changes(world: FeedWorld, capsys: pytest.CaptureFixture[str]) -> None:
    """OPTIMIZE, overwriting with the same rows and RESTORE publish what changed in the end, and nothing more."""
    table = make_table(world.folder / "lake", links((1, 2), (2, 3)))
    assert world.run("connect", f"link=delta:{table}") == world.run("init") == 0
    append(table, (3, 4))
    applied(world, capsys)
    DeltaTable(table).optimize.compact()
    write_deltalake(table, links((3, 4), (2, 3), (1, 2)), mode="overwrite")
    result = applied(world, capsys)
    assert (result["applied"], result["changes"]) == (True, {})
    assert not list((world.state / "published" / "link").rglob("*.parquet"))
    write_deltalake(table, links((1, 2), (9, 9)), mode="overwrite")
    assert applied(world, capsys)["changes"]["link"] == {"inserted": 1, "deleted": 2}
    DeltaTable(table).restore(1)
    assert applied(world, capsys)["changes"]["link"] == {"inserted": 2, "deleted": 1}
    world.check({(1, 2), (2, 3), (3, 4)})


def test_without_a_change_data_feed(world: FeedWorld, capsys: pytest.CaptureFixture[str]) -> None:
    """The files of each version tell the changes, also across the version where the feed is switched on."""
    table = make_table(world.folder / "lake", links(*((n, n + 1) for n in range(50))), recorded=False)
    assert world.run("connect", f"link=delta:{table}") == world.run("init") == 0
    delete(table, "src = 7")
    assert applied(world, capsys)["changes"]["link"] == {"inserted": 0, "deleted": 1}
    delete(table, "src = 8")
    DeltaTable(table).alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
    DeltaTable(table).update(updates={"dst": "100"}, predicate="src = 10")
    assert applied(world, capsys)["changes"]["link"] == {"inserted": 1, "deleted": 2}
    world.check({(n, n + 1) for n in range(50) if n not in (7, 8, 10)} | {(10, 100)})


def test_a_feed_that_was_switched_off(world: FeedWorld, capsys: pytest.CaptureFixture[str]) -> None:
    """The changes since then are not recorded: the version is named, and resync is the way out."""
    table = make_table(world.folder / "lake", links((1, 2), (2, 3)))
    assert world.run("connect", f"link=delta:{table}") == world.run("init") == 0
    DeltaTable(table).alter.set_table_properties({"delta.enableChangeDataFeed": "false"})
    delete(table, "src = 1")
    DeltaTable(table).alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
    said = refusal(world, capsys)
    assert "switched off at version 1" in said and "`apply --resync link`" in said
    assert applied(world, capsys, "--resync", "link")["batch"] == "link@..3"
    world.check({(2, 3)})


def test_a_range_that_vacuum_has_cut(world: FeedWorld, capsys: pytest.CaptureFixture[str]) -> None:
    """The versions that are gone are named, and resync is the way out, which goes on from there."""
    table = make_table(world.folder / "lake", links((1, 2), (2, 3), (3, 4)))
    assert world.run("connect", f"link=delta:{table}") == world.run("init") == 0
    append(table, (4, 5))
    delete(table, "src = 1")
    DeltaTable(table).update(updates={"dst": "9"}, predicate="src = 3")
    DeltaTable(table).vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    shutil.rmtree(Path(table, "_change_data"), ignore_errors=True)
    said = refusal(world, capsys)
    assert "the files of versions" in said and "are gone" in said, said
    assert "was read up to version 0" in said and "`apply --resync link`" in said
    result = applied(world, capsys, "--resync", "link")
    assert result["changes"]["link"] == {"inserted": 2, "deleted": 2}
    world.check({(2, 3), (3, 9), (4, 5)})
    append(table, (7, 8))
    assert applied(world, capsys)["changes"]["link"] == {"inserted": 1, "deleted": 0}


def test_a_table_made_again(world: FeedWorld, capsys: pytest.CaptureFixture[str]) -> None:
    """It has another identity, whatever its versions are; so has another table at the place that is given."""
    table = make_table(world.folder / "lake", links((1, 2)))
    assert world.run("connect", f"link=delta:{table}") == world.run("init") == 0
    shutil.copytree(table, world.folder / "copy")
    append(table, (2, 3))
    shutil.rmtree(table)
    make_table(Path(table), links((5, 6)))
    append(table, (6, 7))
    said = refusal(world, capsys)
    assert "another table" in said and "dropped and made again" in said and "--resync link" in said
    assert applied(world, capsys, "--resync", "link")["changes"]["link"] == {"inserted": 2, "deleted": 1}
    world.check({(5, 6), (6, 7)})
    assert "another table" in refusal(world, capsys, "--feed", f"link=delta:{world.folder / 'copy'}")
    shutil.copytree(table, world.folder / "moved")
    append(str(world.folder / "moved"), (7, 8))
    assert applied(world, capsys, "--feed", f"link=delta:{world.folder / 'moved'}")["batch"] == "link@1..2"
    assert "earlier copy" in refusal(world, capsys)


def test_copies_of_rows_are_refused(world: FeedWorld, capsys: pytest.CaptureFixture[str]) -> None:
    """In a table without a key, deleting one of two equal rows never deletes the tuple."""
    table = make_table(world.folder / "lake", links((1, 2), (1, 2), (2, 3)))
    assert world.run("connect", f"link=delta:{table}") == 0
    said = refusal(world, capsys, command="init")
    assert "src = 1, dst = 2 more than once" in said
    delete(table, "src = 1")
    assert world.run("init") == 0
    append(table, (2, 3))
    assert "the table has a row more than once" in refusal(world, capsys)
    append(table, (4, 5), (4, 5))
    assert "src = 4, dst = 5 more than once" in refusal(world, capsys)
    assert "more than once" in refusal(world, capsys, "--resync", "link")
    write_deltalake(table, links((2, 3), (4, 5)), mode="overwrite")
    applied(world, capsys)
    world.check({(2, 3), (4, 5)})


def test_a_relation_with_a_key(world: FeedWorld, capsys: pytest.CaptureFixture[str]) -> None:
    """Updates replace rows; two rows with one key are refused, at first and later."""
    rows = pa.table({"id": [1, 2], "name": ["a", "b"]})
    table = make_table(world.folder / "person", rows)
    assert world.run("connect", f"person=delta:{table}") == world.run("init") == 0
    DeltaTable(table).update(updates={"name": "'c'"}, predicate="id = 2")
    DeltaTable(table).update(updates={"id": "7"}, predicate="id = 1")
    assert applied(world, capsys)["changes"]["person"] == {"inserted": 2, "deleted": 2}
    assert world.rows("person") == {(2, "c"), (7, "a")}
    write_deltalake(table, pa.table({"id": [7], "name": ["z"]}), mode="append")
    assert "two rows with one key" in refusal(world, capsys)
    assert "primary key" in refusal(world, capsys, "--resync", "person")


READINGS = pa.schema(
    [
        ("sourceId", pa.int32()),
        ("op", pa.string()),
        ("price", pa.decimal128(12, 2)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us")),
        ("in Zone", pa.timestamp("us", tz="UTC")),
        ("Ünicode 'x", pa.string()),
        ("active", pa.bool_()),
    ]
)


def reading(number: int, active: bool = True) -> dict[str, Any]:
    """Return a row with values of many types."""
    day = datetime.date(1960, 2, 28) + datetime.timedelta(days=number)
    at = datetime.datetime(1999, 12, 31, 23, 59, 59, 999999) + datetime.timedelta(hours=number)
    price = decimal.Decimal(number) / 100 - 5
    known = {"sourceId": number, "op": "delete", "price": price, "day": day, "at": at}
    return {**known, "in Zone": at, "Ünicode 'x": f"it's {number} ☃", "active": active}


@pytest.mark.parametrize("partitioned", [None, ["day", "sourceId"]])
def test_values_names_and_filters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], partitioned: list[str] | None
) -> None:
    """Columns called op or in camelCase, renamed ones, values of all types, partitions, and rows that enter and leave
    the filter."""
    world = FeedWorld(tmp_path, VALUES)
    rows = {number: reading(number, number % 2 == 0) for number in range(6)}
    table = make_table(
        tmp_path / "lake", pa.Table.from_pylist([*rows.values()], READINGS), partition_by=partitioned or []
    )
    feeds = tmp_path / "reading.toml"
    feeds.write_text(
        """
        [reading]
        from = "delta:elsewhere"
        columns = { at = "in Zone", other = "Ünicode 'x" }
        where = "active AND op = 'delete'"
        """
    )
    assert world.run("connect", "--feeds", str(feeds), f"reading=delta:{table}") == 0

    def check() -> None:
        there = [row for row in rows.values() if row["active"] and row["op"] == "delete"]
        columns = ("sourceId", "op", "price", "day", "in Zone", "Ünicode 'x")
        assert world.rows("kept") == {tuple(row[name] for name in columns) for row in there}
        assert world.rows("reading") == world.rows("kept")

    assert world.run("init") == 0
    check()
    DeltaTable(table).update(updates={"active": "true"}, predicate='"sourceId" = 1')
    DeltaTable(table).update(updates={"active": "false"}, predicate='"sourceId" = 2')
    DeltaTable(table).update(updates={"price": "7.25"}, predicate='"sourceId" = 4')
    rows[1]["active"], rows[2]["active"], rows[4]["price"] = True, False, decimal.Decimal("7.25")
    assert applied(world, capsys)["changes"]["reading"] == {"inserted": 2, "deleted": 2}
    check()
    # A new column of the table passes.
    rows[9] = reading(9)
    more = pa.Table.from_pylist([rows[9]], READINGS).append_column("extra", pa.array(["e"]))
    write_deltalake(table, more, mode="append", schema_mode="merge", partition_by=partitioned or [])
    assert applied(world, capsys)["changes"]["reading"] == {"inserted": 1, "deleted": 0}
    check()
    assert applied(world, capsys, "--resync", "reading")["changes"] == {}
    world.close()


def test_nulls_are_one_as_parts_of_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A deletion finds the row with a null, and comparing all rows finds no difference."""
    world = FeedWorld(tmp_path, NULLS)
    rows = pa.table({"id": [1, 2, 3], "email": ["a", None, None]})
    table = make_table(tmp_path / "mail", rows)
    assert world.run("connect", f"mail=delta:{table}") == world.run("init") == 0
    assert applied(world, capsys, "--resync", "mail")["changes"] == {}
    DeltaTable(table).delete("id = 2")
    DeltaTable(table).update(updates={"email": "null"}, predicate="id = 1")
    assert applied(world, capsys)["changes"]["mail"] == {"inserted": 1, "deleted": 2}
    assert world.rows("silent") == {(1,), (3,)}
    write_deltalake(table, pa.table({"id": [3], "email": pa.array([None], pa.string())}), mode="append")
    assert "the table has a row more than once" in refusal(world, capsys)
    world.close()


def test_a_value_that_does_not_fit(world: FeedWorld, capsys: pytest.CaptureFixture[str]) -> None:
    """It is refused by its row and column, and so is a column of another type."""
    table = make_table(world.folder / "lake", links((1, 2)))
    assert world.run("connect", f"link=delta:{table}") == world.run("init") == 0
    write_deltalake(table, pa.table({"src": [3], "dst": pa.array([None], pa.int64())}), mode="append")
    said = refusal(world, capsys)
    assert f"delta:{table}, a row with src 3" in said and "column dst: null" in said
    write_deltalake(table, pa.table({"src": ["a"], "dst": ["b"]}), mode="overwrite", schema_mode="overwrite")
    assert "columns that link is read from have another type" in refusal(world, capsys)
    assert "column src has the type string and should be int" in refusal(world, capsys, "--resync", "link")
    write_deltalake(table, pa.table({"SRC": [1], "dst": [2]}), mode="overwrite", schema_mode="overwrite")
    assert "no longer has the column src" in refusal(world, capsys)


def test_wrong_connections(world: FeedWorld, capsys: pytest.CaptureFixture[str]) -> None:
    """They are refused with what to do, and connecting is durable before and after the first commit."""
    table = make_table(world.folder / "lake", pa.table({"from": [1], "dst": [2]}))

    def said(*arguments: str) -> str:
        return refusal(world, capsys, *arguments, command="connect")

    assert "there is no relation links" in said(f"links=delta:{table}")
    assert "is not a feed; give one of delta:..., files:" in said("link=/lake/link")
    assert "has no column src" in said(f"link=delta:{table}")
    assert "cannot be opened" in said(f"link=delta:{world.folder / 'nothing'}")
    assert "give RELATION=SOURCE" in said()
    feeds = world.folder / "feeds.toml"
    feeds.write_text('[link]\ncolumns = { src = "from" }\nwher = "x"')
    assert "not wher" in said("--feeds", str(feeds))
    feeds.write_text('[link]\ncolumns = { source = "from" }')
    assert 'link has no column "source"' in said("--feeds", str(feeds), f"link=delta:{table}")
    feeds.write_text('[link]\ncolumns = { src = "from" }')
    assert "does not say where link comes from" in said("--feeds", str(feeds))
    assert world.run("connect", "--feeds", str(feeds), f"link=delta:{table}") == 0
    assert "is fed by" in refusal(world, capsys, "--input", "link=x.csv", command="init")
    assert world.run("init") == 0
    assert [path.name for path in (world.state / "manifest").glob("feeds*")] == []
    world.check({(1, 2)})
    assert "change its rows there" in refusal(world, capsys, "--changes", "link=x.csv")
    # Another place of the same table keeps the position; another filter compares all rows.
    shutil.copytree(table, world.folder / "moved")
    assert world.run("connect", f"link=delta:{world.folder / 'moved'}") == 0
    assert world.manifest.feeds["link"].position == {"version": 0}
    assert world.manifest.feeds["link"].columns == {"src": "from"}
    feeds.write_text('[link]\ncolumns = { src = "from" }\nwhere = "dst > 2"')
    assert world.run("connect", "--feeds", str(feeds), f"link=delta:{table}") == 0
    assert applied(world, capsys)["changes"]["link"] == {"inserted": 0, "deleted": 1}
    assert world.run("connect", "--remove", "link") == 0
    assert "no feed is connected" in refusal(world, capsys)


def test_several_feeds_are_one_batch(world: FeedWorld, capsys: pytest.CaptureFixture[str]) -> None:
    """The ID of the batch names all ranges; a feed without news has none."""
    lake = make_table(world.folder / "lake", links((1, 2)))
    person = make_table(world.folder / "person", pa.table({"id": [1, 2], "name": ["a", "b"]}))
    assert world.run("connect", f"link=delta:{lake}", f"person=delta:{person}") == world.run("init") == 0
    append(lake, (5, 1))
    DeltaTable(person).update(updates={"name": "'c'"}, predicate="id = 2")
    assert applied(world, capsys)["batch"] == "link@0..1+person@0..1"
    assert world.rows("named") == {(1, "c"), (5, "a")}
    append(lake, (6, 1))
    assert applied(world, capsys)["batch"] == "link@1..2"
    assert world.manifest.feeds["person"].position == {"version": 1}


def test_the_library_is_missing(
    world: FeedWorld, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names what to install."""
    monkeypatch.setitem(sys.modules, "deltalake", None)
    assert "pip install deltalake" in refusal(world, capsys, "link=delta:/lake/link", command="connect")
