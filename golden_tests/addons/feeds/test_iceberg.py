"""The feed ``iceberg:``, with real tables in a catalog of their own."""

from __future__ import annotations

import datetime
import decimal
import random
import sys
import zoneinfo
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.types import LongType, StringType

from golden_tests.addons.feeds.lake import filled, iceberg_links, lake_in, snapshot_of, without_snapshots
from golden_tests.addons.feeds.world import NULLS, VALUES, FeedWorld, applied, links, refusal
from golden_tests.nightly import AT_NIGHT, seeds


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    """A catalog without tables."""
    with lake_in(tmp_path) as made:
        yield made


Said = pytest.CaptureFixture[str]


def test_from_a_table_to_views(world: FeedWorld, catalog: Catalog, capsys: Said) -> None:
    """The rows at one snapshot, none if there is none yet, then each range once, and no commit where nothing is new."""
    table = catalog.create_table("db.link", links((1, 2)).schema)
    assert world.run("connect", "link=iceberg:lake/db.link") == world.run("init") == 0
    world.check(set())
    table.append(links((1, 2), (2, 3)))
    first = snapshot_of(table)
    assert applied(world, capsys)["batch"] == f"link@empty..{first}"
    table.append(links((3, 4)))
    table.delete("src == 1")
    result = applied(world, capsys)
    assert result["batch"] == f"link@{first}..{snapshot_of(table)}"
    assert result["changes"]["link"] == {"inserted": 1, "deleted": 1}
    world.check({(2, 3), (3, 4)})
    assert not applied(world, capsys)["applied"]
    assert world.run("status") == 0
    assert f"link is fed by iceberg:lake/db.link, read up to snapshot {snapshot_of(table)}" in capsys.readouterr().out


def test_snapshots_without_changes(world: FeedWorld, catalog: Catalog, capsys: Said) -> None:
    """Rewriting files, rolling back, and another branch that becomes the main one change what differs in the end."""
    table = iceberg_links(catalog, (1, 2), (2, 3))
    start = snapshot_of(table)
    assert world.run("connect", "link=iceberg:db.link") == world.run("init") == 0
    table.append(links((3, 4)))
    applied(world, capsys)
    table.overwrite(table.scan().to_arrow())
    result = applied(world, capsys)
    assert (result["applied"], result["changes"]) == (True, {})
    assert not list((world.state / "published" / "link").rglob("*.parquet"))
    table.manage_snapshots().rollback_to_snapshot(start).commit()
    assert applied(world, capsys)["changes"]["link"] == {"inserted": 0, "deleted": 1}
    table.manage_snapshots().create_branch(start, "audit").commit()
    table.append(links((7, 8)), branch="audit")
    assert not applied(world, capsys)["applied"]
    table.append(links((8, 9)))
    applied(world, capsys)
    audited = table.refresh().refs()["audit"].snapshot_id
    table.manage_snapshots().set_current_snapshot(audited).commit()
    assert applied(world, capsys)["changes"]["link"] == {"inserted": 1, "deleted": 1}
    world.check({(1, 2), (2, 3), (7, 8)})


def test_only_files_that_differ_are_read(
    world: FeedWorld, catalog: Catalog, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the rows of other files nor the lists of files that both snapshots have."""
    table = iceberg_links(catalog, (1, 2), (2, 3))
    for n in range(10, 15):
        table.append(links((n, n + 1)))
    assert world.run("connect", "link=iceberg:lake/db.link") == world.run("init") == 0
    table.append(links((3, 4)))
    table.delete("src == 10")
    from pyiceberg.io.pyarrow import PyArrowFile

    opened: list[str] = []
    original = PyArrowFile.open

    def open_file(self: Any, *arguments: Any, **options: Any) -> Any:
        opened.append(self.location)
        return original(self, *arguments, **options)

    monkeypatch.setattr(PyArrowFile, "open", open_file)
    assert applied(world, capsys)["changes"]["link"] == {"inserted": 1, "deleted": 1}
    assert len([place for place in opened if place.endswith(".parquet")]) == 2


def test_snapshots_that_expired(world: FeedWorld, catalog: Catalog, capsys: Said) -> None:
    """What was appended since then is known; otherwise the snapshot is named, and resync is the way out."""
    table = iceberg_links(catalog, (1, 2), (2, 3))
    assert world.run("connect", "link=iceberg:lake/db.link") == world.run("init") == 0
    first = snapshot_of(table)
    table.append(links((3, 4)))
    second = snapshot_of(table)
    table.append(links((4, 5)))
    gone = f"snapshot {first}, up to which link was read, has expired"
    # The changes of the second one are not to be had.
    assert gone in refusal(world, capsys, "--feed", f"link={without_snapshots(table, first, second)}")
    result = applied(world, capsys, "--feed", f"link={without_snapshots(table, first)}")
    assert result["changes"]["link"] == {"inserted": 2, "deleted": 0}
    first = snapshot_of(table)
    table.append(links((5, 6)))
    table.delete("src == 1")
    table.maintenance.expire_snapshots().by_id(first).commit()
    said = refusal(world, capsys)
    assert f"snapshot {first}, up to which link was read" in said and "`apply --resync link`" in said
    assert f"until snapshot {snapshot_of(table)} cannot be told" in said
    assert "cannot be told" in refusal(world, capsys, "--feed", f"link={without_snapshots(table, first)}")
    result = applied(world, capsys, "--resync", "link")
    assert result["batch"] == f"link@..{snapshot_of(table)}"
    assert result["changes"]["link"] == {"inserted": 1, "deleted": 1}
    world.check({(2, 3), (3, 4), (4, 5), (5, 6)})


def test_a_file_that_is_gone(world: FeedWorld, catalog: Catalog, capsys: Said) -> None:
    """Files of an earlier snapshot may have been removed though it has not expired."""
    table = iceberg_links(catalog, (1, 2), (2, 3))
    assert world.run("connect", "link=iceberg:lake/db.link") == world.run("init") == 0
    old = [task.file.file_path for task in table.scan().plan_files()]
    table.delete("src == 1")
    Path(old[0].removeprefix("file://")).unlink()
    said = refusal(world, capsys)
    assert "a file is gone" in said and "`apply --resync link`" in said, said
    assert applied(world, capsys, "--resync", "link")["changes"]["link"] == {"inserted": 0, "deleted": 1}


def test_a_table_made_again(world: FeedWorld, catalog: Catalog, capsys: Said) -> None:
    """It has another identity, also if nothing else tells."""
    iceberg_links(catalog, (1, 2))
    assert world.run("connect", "link=iceberg:lake/db.link") == world.run("init") == 0
    catalog.drop_table("db.link")
    assert "cannot be opened" in refusal(world, capsys)
    iceberg_links(catalog, (1, 2), (5, 6))
    said = refusal(world, capsys)
    assert "another table" in said and "dropped and made again" in said and "--resync link" in said
    assert applied(world, capsys, "--resync", "link")["changes"]["link"] == {"inserted": 1, "deleted": 0}


def test_copies_of_rows_are_refused(world: FeedWorld, catalog: Catalog, capsys: Said) -> None:
    """In a table without a key, deleting one of two equal rows never deletes the tuple."""
    table = iceberg_links(catalog, (1, 2), (1, 2), (2, 3))
    assert world.run("connect", "link=iceberg:lake/db.link") == 0
    assert "src = 1, dst = 2 more than once" in refusal(world, capsys, command="init")
    table.delete("src == 1")
    assert world.run("init") == 0
    table.append(links((2, 3)))
    assert "the table has a row more than once" in refusal(world, capsys)
    table.append(links((4, 5), (4, 5)))
    assert "src = 4, dst = 5 more than once" in refusal(world, capsys)
    assert "more than once" in refusal(world, capsys, "--resync", "link")
    table.overwrite(links((2, 3), (4, 5)))
    applied(world, capsys)
    # One file that is added twice has each row twice.
    file = world.folder / "one.parquet"
    pq.write_table(links((6, 7)), file)
    table.add_files([f"file://{file}"])
    table.add_files([f"file://{file}"], check_duplicate_files=False)
    assert "src = 6, dst = 7 more than once" in refusal(world, capsys)


READINGS = pa.schema(
    [
        ("sourceId", pa.int32()),
        ("op", pa.string()),
        ("_change_type", pa.string()),
        ("price", pa.decimal128(12, 2)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us")),
        ("in Zone", pa.timestamp("us", tz="UTC")),
        ("Ünicode 'x.y", pa.string()),
        ("active", pa.bool_()),
        ("list", pa.list_(pa.int64())),
    ]
)


def reading(number: int, active: bool = True) -> dict[str, Any]:
    """Return a row with values of many types."""
    day = datetime.date(1960, 2, 28) + datetime.timedelta(days=number)
    at = datetime.datetime(1999, 12, 31, 23, 59, 59, 999999) + datetime.timedelta(hours=number)
    price = decimal.Decimal(number) / 100 - 5
    known = {"sourceId": number, "op": "delete", "_change_type": "insert", "price": price, "day": day, "at": at}
    zoned = at.replace(tzinfo=zoneinfo.ZoneInfo("UTC"))
    return {**known, "in Zone": zoned, "Ünicode 'x.y": f"it's {number} ☃", "active": active, "list": [number]}


@pytest.mark.parametrize("partitioned", [False, True])
def test_values_names_and_filters(tmp_path: Path, catalog: Catalog, capsys: Said, partitioned: bool) -> None:
    """Columns called op or in camelCase, renamed ones, values of all types, partitions, and rows that enter and leave
    the filter."""
    world = FeedWorld(tmp_path, VALUES)
    rows = {number: reading(number, number % 2 == 0) for number in range(6)}
    table = catalog.create_table("db.reading", READINGS)
    if partitioned:
        with table.update_spec() as spec:
            spec.add_identity("day").add_identity("Ünicode 'x.y")
    table.append(pa.Table.from_pylist([*rows.values()], READINGS))
    feeds = tmp_path / "reading.toml"
    feeds.write_text(
        """
        [reading]
        from = "iceberg:lake/db.elsewhere"
        columns = { at = "in Zone", other = "Ünicode 'x.y" }
        where = "active AND op = 'delete' AND _change_type = 'insert' AND list[1] >= 0"
        """
    )
    assert world.run("connect", "--feeds", str(feeds), "reading=iceberg:lake/db.reading") == 0

    def check() -> None:
        there = [{**row, "in Zone": row["in Zone"].replace(tzinfo=None)} for row in rows.values() if row["active"]]
        columns = ("sourceId", "op", "price", "day", "in Zone", "Ünicode 'x.y")
        assert world.rows("kept") == {tuple(row[name] for name in columns) for row in there}
        assert world.rows("reading") == world.rows("kept")

    def update(number: int, **values: Any) -> None:
        rows[number].update(values)
        table.overwrite(pa.Table.from_pylist([rows[number]], READINGS), f"sourceId == {number}")

    assert world.run("init") == 0
    check()
    update(1, active=True)
    update(2, active=False)
    update(4, price=decimal.Decimal("7.25"))
    assert applied(world, capsys)["changes"]["reading"] == {"inserted": 2, "deleted": 2}
    check()
    # A new column of the table passes, and so do other partitions.
    with table.update_schema() as schema:
        schema.add_column("extra", StringType())
    with table.update_spec() as spec:
        spec.add_identity("sourceId")
    rows[9] = reading(9)
    table.append(pa.Table.from_pylist([{**rows[9], "extra": "e"}], READINGS.append(pa.field("extra", pa.string()))))
    assert applied(world, capsys)["changes"]["reading"] == {"inserted": 1, "deleted": 0}
    check()
    assert applied(world, capsys, "--resync", "reading")["changes"] == {}
    world.close()


def test_columns_are_told_by_their_fields(world: FeedWorld, catalog: Catalog, capsys: Said) -> None:
    """A renamed column is the same in all files; one that was added again under the same name is not."""
    table = filled(catalog, "db.link", links((1, 2), (2, 3), names=("a.b", "dst")))
    with table.update_schema() as schema:
        schema.rename_column("a.b", "src")
    table.append(links((3, 4)))
    assert world.run("connect", "link=iceberg:lake/db.link") == world.run("init") == 0
    world.check({(1, 2), (2, 3), (3, 4)})
    with table.update_schema() as schema:
        schema.rename_column("src", "source")
    assert "no longer has the column src" in refusal(world, capsys)
    feeds = world.folder / "feeds.toml"
    feeds.write_text('[link]\nfrom = "iceberg:lake/db.link"\ncolumns = { src = "source" }')
    assert world.run("connect", "--feeds", str(feeds)) == 0
    table.append(links((5, 6), names=("source", "dst")))
    assert applied(world, capsys)["changes"]["link"] == {"inserted": 1, "deleted": 0}
    # No snapshot tells that the values are gone.
    with table.update_schema(allow_incompatible_changes=True) as schema:
        schema.delete_column("dst")
    with table.update_schema() as schema:
        schema.add_column("dst", LongType())
    said = refusal(world, capsys)
    assert "were dropped and added again; they are now source long (field 1), dst long (field 3)" in said, said
    assert "column dst: null" in refusal(world, capsys, "--resync", "link")


def test_a_column_of_another_type(world: FeedWorld, catalog: Catalog, capsys: Said) -> None:
    """It stops the feed, and a comparison of all rows takes the values of old files as the new type."""
    rows = links((1, 2)).cast(pa.schema([("src", pa.int32()), ("dst", pa.int64())]))
    table = filled(catalog, "db.link", rows)
    assert world.run("connect", "link=iceberg:lake/db.link") == world.run("init") == 0
    with table.update_schema() as schema:
        schema.update_column("src", LongType())
    table.append(links((2, 3)))
    assert "have another type" in refusal(world, capsys)
    assert applied(world, capsys, "--resync", "link")["changes"]["link"] == {"inserted": 1, "deleted": 0}


def test_nulls_are_one_as_parts_of_rows(tmp_path: Path, catalog: Catalog, capsys: Said) -> None:
    """A deletion finds the row with a null; a column that old files do not have is null there."""
    world = FeedWorld(tmp_path, NULLS)
    table = filled(catalog, "db.mail", pa.table({"id": [1, 2, 3]}))
    with table.update_schema() as schema:
        schema.add_column("email", StringType())
    table.append(pa.table({"id": [4, 5], "email": ["a", None]}))
    assert world.run("connect", "mail=iceberg:lake/db.mail") == world.run("init") == 0
    assert world.rows("silent") == {(1,), (2,), (3,), (5,)}
    table.delete("id == 2")
    table.overwrite(pa.table({"id": [4], "email": pa.array([None], pa.string())}), "id == 4")
    assert applied(world, capsys)["changes"]["mail"] == {"inserted": 1, "deleted": 2}
    assert world.rows("silent") == {(1,), (3,), (4,), (5,)}
    assert applied(world, capsys, "--resync", "mail")["changes"] == {}
    table.append(pa.table({"id": [3], "email": pa.array([None], pa.string())}))
    assert "the table has a row more than once" in refusal(world, capsys)
    world.close()


def test_a_table_without_a_catalog(world: FeedWorld, catalog: Catalog, capsys: Said) -> None:
    """A file with metadata, or a folder that names the last one."""
    table = iceberg_links(catalog, (1, 2))
    folder = Path(table.location().removeprefix("file://"))
    hint = folder / "metadata" / "version-hint.text"

    def point() -> None:
        hint.write_text(table.refresh().metadata_location.rpartition("/")[2].removesuffix(".metadata.json"))

    point()
    assert world.run("connect", f"link=iceberg:{folder}") == world.run("init") == 0
    table.append(links((2, 3)))
    assert not applied(world, capsys)["applied"]
    point()
    assert applied(world, capsys)["changes"]["link"] == {"inserted": 1, "deleted": 0}
    table.append(links((3, 4)))
    assert applied(world, capsys, "--feed", f"link=iceberg:{table.metadata_location}")["applied"]
    assert world.run("connect", "link=iceberg:lake/db.link") == 0
    assert not applied(world, capsys)["applied"]
    world.check({(1, 2), (2, 3), (3, 4)})


def test_wrong_connections(world: FeedWorld, catalog: Catalog, capsys: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are refused with what to do."""
    filled(catalog, "db.link", links((1, 2), names=("Src", "dst")))

    def said(*arguments: str) -> str:
        return refusal(world, capsys, *arguments, command="connect")

    assert "has no column src; there is Src" in said("link=iceberg:lake/db.link")
    assert "cannot be opened" in said("link=iceberg:lake/db.nothing")
    assert "PYICEBERG_CATALOG__POND__URI" in said("link=iceberg:pond/db.link")
    assert "cannot be opened" in said(f"link=iceberg:{world.folder}/nothing")
    monkeypatch.setitem(sys.modules, "pyiceberg.table", None)
    assert "pip install 'pyiceberg[pyarrow]'" in said("link=iceberg:lake/db.link")


@AT_NIGHT
@pytest.mark.filterwarnings("ignore:Delete operation did not match any records")
@pytest.mark.parametrize("seed", seeds(1, 5))
def test_random_changes(tmp_path: Path, catalog: Catalog, capsys: Said, seed: int) -> None:
    """Whatever is done to a table, each batch ends with its rows; a table with copies of a row is refused as long as it
    has them, and the next batch goes on from before."""
    chosen, world = random.Random(seed), FeedWorld(tmp_path)
    partitioned = chosen.choice([True, False])
    table = catalog.create_table("db.link", links((1, 2)).schema)
    if partitioned:
        with table.update_spec() as spec:
            spec.add_identity("src")
    #: The rows of each snapshot.
    known: dict[int | None, list[tuple[int, int]]] = {None: []}
    assert world.run("connect", "link=iceberg:db.link") == world.run("init") == 0

    def pairs() -> list[tuple[int, int]]:
        return [(chosen.randrange(5), chosen.randrange(5)) for _ in range(chosen.randrange(1, 4))]

    def change(rows: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Change the table, and return the rows that it should have."""
        kind, some, src = chosen.randrange(8), pairs(), chosen.randrange(5)
        if kind <= 1:
            some = some if chosen.random() < 0.1 else sorted(set(some) - set(rows))
            table.append(links(*some))
            return rows + some
        if kind == 2:
            table.delete(f"src == {src}")
            return [row for row in rows if row[0] != src]
        if kind == 3:
            table.delete(f"dst == {src}")
            return [row for row in rows if row[1] != src]
        if kind == 4:
            some = sorted({(src, dst) for _, dst in some})
            table.overwrite(links(*some), f"src == {src}")
            return [row for row in rows if row[0] != src] + some
        if kind == 5 and partitioned:
            some = sorted(set(some))
            table.dynamic_partition_overwrite(links(*some))
            return [row for row in rows if row[0] not in {one for one, _ in some}] + some
        if kind == 6:
            table.overwrite(links(*rows))
            return rows
        if kind == 7 and len(known) > 1:
            number = chosen.choice([number for number in known if number])
            table.manage_snapshots().set_current_snapshot(number).commit()
            return known[number]
        return rows

    rows: list[tuple[int, int]] = []
    for _ in range(8):
        for _ in range(chosen.randrange(1, 4)):
            rows = change(rows)
            found = table.refresh().current_snapshot()
            known[found.snapshot_id if found else None] = rows
            assert sorted(rows) == sorted(zip(*table.scan().to_arrow().to_pydict().values(), strict=True))
        if len(set(rows)) < len(rows):
            assert "more than once" in refusal(world, capsys)
        else:
            applied(world, capsys, *(["--resync", "link"] if chosen.random() < 0.1 else []))
            assert world.rows("link") == set(rows)
    if len(set(rows)) == len(rows):
        world.check(rows)
    world.close()


def test_another_column_in_a_filter(world: FeedWorld, catalog: Catalog, capsys: Said) -> None:
    """A column that was dropped and added again has other values in all rows, whether or not there is a snapshot: all
    rows are compared. A new column is no news."""
    rows = links((1, 2), (2, 3)).append_column("active", pa.array([1, 1]))
    table = filled(catalog, "db.link", rows)
    feeds = world.folder / "link.toml"
    feeds.write_text('[link]\nwhere = "active > 0 OR src > 8"\n', encoding="utf-8")
    assert world.run("connect", "--feeds", str(feeds), "link=iceberg:db.link") == world.run("init") == 0
    table.update_schema().add_column("extra", LongType()).commit()
    assert not applied(world, capsys)["applied"]
    table.update_schema().delete_column("active").commit()
    table.update_schema().add_column("active", LongType()).commit()
    assert applied(world, capsys)["changes"]["link"] == {"inserted": 0, "deleted": 2}
    world.check(set())
    assert not applied(world, capsys)["applied"]
    assert world.manifest.commit == 2
    more = links((9, 9), (3, 4)).append_column("extra", pa.array([1, 1])).append_column("active", pa.array([1, 0]))
    table.append(more)
    assert applied(world, capsys)["changes"]["link"] == {"inserted": 1, "deleted": 0}
    table.update_schema().rename_column("active", "enabled").rename_column("extra", "active").commit()
    applied(world, capsys)
    world.check({(9, 9), (3, 4)})
