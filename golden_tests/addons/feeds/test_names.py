"""Columns of any name in tables that feeds read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from golden_tests.addons.feeds.lake import filled, lake_in
from golden_tests.addons.feeds.world import FeedWorld, applied, make_table, refusal
from golden_tests.nightly import by_day

NAMES = (
    "srcId", "SRC", "a b", "2024", "a.b", "SELECT", '"', 'a"b', "'", "it's", "`b`", "a`b", "a,b", "Ünï", "count(*)",
    "*", " ", "x; DROP TABLE y", "a\nb", "_x", "$1", "a-b", "NULL", "true", "a\\b", "%s", "{x}", "a[0]", "''", '""',
    "src AS dst", "☃", "op", "rows", "insert",
)  # fmt: skip

WHERE = ''' "a b" <> 302 AND "it's" IS NOT NULL AND """" > 0'''

COLUMNS = [f"c{number}" for number in range(len(NAMES))]

PROGRAM = f"""
input relation wide({", ".join(f"{name}: int" for name in COLUMNS)})
output relation kept({", ".join(f"{name}: int" for name in COLUMNS)})
kept({", ".join(name.upper() for name in COLUMNS)}) :- wide({", ".join(name.upper() for name in COLUMNS)}).
"""


def wide(*numbers: int, names: tuple[str, ...] = NAMES) -> pa.Table:
    """Return rows with another value in each column."""
    columns = [pa.array([100 * number + place for number in numbers], pa.int64()) for place in range(len(names))]
    return pa.table(columns, names=list(names))


@by_day(2)
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
@pytest.mark.parametrize("where", ["", WHERE], ids=["all", "some"])
def test_any_name(tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, where: str) -> None:
    """All columns have their values in the first read and in the later ones, with a filter and without."""
    world, feeds = FeedWorld(tmp_path, PROGRAM), tmp_path / "wide.toml"
    names = ", ".join(f"{ours} = {json.dumps(theirs)}" for ours, theirs in zip(COLUMNS, NAMES, strict=True))
    feeds.write_text(f"[wide]\ncolumns = {{ {names} }}\nwhere = {json.dumps(where)}\n", encoding="utf-8")
    append: Callable[[pa.Table], None]
    with lake_in(tmp_path) as catalog:
        if kind == "delta":
            place = make_table(tmp_path / "wide", wide(1, 2))
            append = lambda rows: write_deltalake(place, rows, mode="append")  # noqa: E731
        else:
            place, append = "db.wide", filled(catalog, "db.wide", wide(1, 2)).append
        assert world.run("connect", "--feeds", str(feeds), f"wide={kind}:{place}") == world.run("init") == 0
        append(wide(3))
        append(wide(4))
        applied(world, capsys)
        kept = [number for number in (1, 2, 3, 4) if number != 3 or not where]
        assert world.rows("kept") == {tuple(row.values()) for row in wide(*kept, names=tuple(COLUMNS)).to_pylist()}
    world.close()


def test_names_that_differ_in_case(world: FeedWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Iceberg has them; a filter could not tell them apart."""
    feeds = tmp_path / "link.toml"
    feeds.write_text('[link]\ncolumns = { src = "Node", dst = "node" }\n', encoding="utf-8")
    with lake_in(tmp_path) as catalog:
        table = filled(catalog, "db.link", wide(1, names=("Node", "node", "other")))
        assert world.run("connect", "--feeds", str(feeds), "link=iceberg:db.link") == world.run("init") == 0
        world.check({(100, 101)})
        feeds.write_text('[link]\ncolumns = { src = "Node", dst = "node" }\nwhere = "other > 0"\n', encoding="utf-8")
        table.append(wide(2, names=("Node", "node", "other")))
        assert world.run("connect", "--feeds", str(feeds), "link=iceberg:db.link") == 0
        assert "columns Node, node differ only in case" in refusal(world, capsys)
