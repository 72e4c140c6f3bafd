"""Random histories of Delta tables, with everything that may happen to one: after each batch that is applied, the
relation has the rows of the table, whatever the options are, and no refusal is without a reason and a way out."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from golden_tests.addons.feeds.world import RECORDED, FeedWorld, FileWorld, refusal
from golden_tests.nightly import by_day, seeds

PROGRAM = """
input {multiset}relation item(k: int, v: int, w: string?){key}
output relation total(v: int, many: int, all: int)
total(V, count<*>, sum<K>) :- item(K, V, _).
"""

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("w", pa.string()), ("active", pa.bool_())])

Row = tuple[Any, ...]


class History:
    """A Delta table that changes at random. ``excuses`` are reasons for which the next batch may be refused."""

    def __init__(self, rng: random.Random, folder: Path, kind: str) -> None:
        """Make the table."""
        self.rng, self.kind = rng, kind
        self.path, self.backup = str(folder / "item"), folder / "backup"
        self.key = 0
        self.excuses: set[str] = set()
        self.past: list[int] = []
        properties: dict[str, str | None] = {"delta.logRetentionDuration": "interval 0 days"}
        self.recorded = rng.random() < 0.7
        options: dict[str, Any] = {"partition_by": ["active"]} if rng.random() < 0.3 else {}
        properties |= dict(RECORDED) if self.recorded else {}
        write_deltalake(self.path, self.new(4), configuration=properties, **options)

    @property
    def table(self) -> DeltaTable:
        """The table as it is."""
        return DeltaTable(self.path)

    def rows(self) -> list[Row]:
        """Return the rows of the table."""
        return [tuple(row[name] for name in SCHEMA.names) for row in pa.table(self.table.scan()).to_pylist()]

    def new(self, most: int) -> pa.Table:
        """Return new rows; without a key, they may be copies."""
        rows = []
        for _ in range(self.rng.randrange(most + 1)):
            self.key += 1
            k = self.key if self.kind != "multiset" else self.rng.randrange(3)
            v, w = self.rng.choice((None, 1, 2, 2, 3)), self.rng.choice((None, "", "x"))
            rows.append((k, v, w, self.rng.random() < 0.7))
        return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)

    def step(self) -> None:
        """Let something happen."""
        likely = [self.append, self.update, self.update, self.delete, self.merge, self.swap]
        seldom = [self.overwrite, self.compact, self.restore, self.new_column, self.touch, self.copy_row]
        hostile = [self.vacuum, self.clean_log, self.bring_back, self.bring_back, self.switch]
        group = self.rng.choices((likely, seldom, hostile), (12, 6, 5))[0]
        self.rng.choice(group)()

    def append(self) -> None:
        """Append rows."""
        write_deltalake(self.path, self.new(3), mode="append", schema_mode="merge")

    def condition(self) -> str:
        """Return a condition for some rows."""
        return self.rng.choice(("k % 2 = 0", "k % 3 = 1", "v = 2", "v IS NULL", "w = 'x'", "active", "true"))

    def update(self) -> None:
        """Let rows become others, of which there may be some already."""
        column, value = self.rng.choice(
            (("v", "2"), ("v", "v + 1"), ("v", "CAST(NULL AS BIGINT)"), ("w", "'x'"), ("active", "NOT active"))
        )
        self.table.update(updates={column: value}, predicate=self.condition())

    def swap(self) -> None:
        """Let rows take turns, and others become new ones."""
        self.table.update(updates={"v": "CASE WHEN v = 1 THEN 2 WHEN v = 2 THEN 1 ELSE v + 1 END"})

    def delete(self) -> None:
        """Delete rows."""
        self.table.delete(self.condition() if self.rng.random() < 0.8 else None)

    def merge(self) -> None:
        """Merge rows by key."""
        if self.kind != "multiset":
            (
                self.table.merge(self.new(3), "s.k = t.k + 1", source_alias="s", target_alias="t")
                .when_matched_update({"v": "s.v", "w": "s.w"})
                .when_not_matched_insert({name: f"s.{name}" for name in SCHEMA.names})
                .execute()
            )

    def overwrite(self) -> None:
        """Overwrite the table with some of its rows and new ones."""
        kept = [row for row in self.rows() if self.rng.random() < 0.5]
        rows = pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in kept], SCHEMA)
        write_deltalake(self.path, pa.concat_tables([rows, self.new(2)]), mode="overwrite", schema_mode="merge")

    def compact(self) -> None:
        """Rewrite files."""
        self.table.optimize.compact()

    def restore(self) -> None:
        """Go back to an earlier version, if its files are there."""
        version = self.rng.randrange(self.table.version() + 1)
        try:
            # Partitions and the change data feed may have been others.
            self.table.restore(version)
        except Exception:
            return
        self.excuses.add("restore")

    def new_column(self) -> None:
        """Append rows with a new column."""
        rows = self.new(2)
        extra = pa.array(["e"] * rows.num_rows, pa.string())
        write_deltalake(self.path, rows.append_column(f"c{self.key}", extra), mode="append", schema_mode="merge")

    def touch(self) -> None:
        """Change a property."""
        self.table.alter.set_table_properties({"delta.appendOnly": "false"})

    def copy_row(self) -> None:
        """Let a set have a copy of a row, or of one outside of any filter."""
        rows = [row for row in self.rows() if self.kind != "multiset"]
        if rows:
            row = dict(zip(SCHEMA.names, self.rng.choice(rows), strict=True))
            write_deltalake(self.path, pa.Table.from_pylist([row], SCHEMA), mode="append", schema_mode="merge")

    def vacuum(self) -> None:
        """Remove files of earlier versions."""
        self.table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
        shutil.rmtree(Path(self.path, "_change_data"), ignore_errors=True)
        self.excuses.add("vacuum")

    def clean_log(self) -> None:
        """Remove entries of the log that a checkpoint replaces."""
        self.table.create_checkpoint()
        self.table.cleanup_metadata()
        for number in range(self.table.version()):
            Path(self.path, "_delta_log", f"{number:020d}.json").unlink(missing_ok=True)
        self.excuses.add("log")

    def save(self) -> None:
        """Make a backup."""
        shutil.rmtree(self.backup, ignore_errors=True)
        shutil.copytree(self.path, self.backup)

    def bring_back(self) -> None:
        """Bring the backup back, after which somebody goes on writing."""
        if self.backup.exists():
            shutil.rmtree(self.path)
            shutil.copytree(self.backup, self.path)
            self.excuses.add("backup")
            for _ in range(self.rng.randrange(6)):
                self.rng.choice((self.append, self.update, self.delete))()

    def switch(self) -> None:
        """Switch the change data feed on or off."""
        said = self.rng.choice(("true", "false"))
        self.table.alter.set_table_properties({"delta.enableChangeDataFeed": said})
        self.excuses.add("switch")


def expected(history: History, options: str, where: bool) -> Counter[Row]:
    """Return the rows that the relation should have, as often as the table has them."""
    skip = options != ""
    return Counter(row[:3] for row in history.rows() if (row[3] or not where) and not (skip and row[1] is None))


def check(world: FeedWorld, wanted: Counter[Row]) -> None:
    """The relation has these rows."""
    assert world.copies("item") == wanted
    groups: dict[Any, list[int]] = {}
    for (k, v, _), number in wanted.items():
        groups.setdefault(v, []).extend([k] * number)
    assert world.rows("total") == {(v, len(keys), sum(keys)) for v, keys in groups.items()}


@by_day(1)
@pytest.mark.parametrize("kind_of_world", [FeedWorld, FileWorld])
@pytest.mark.parametrize("seed", seeds(1, 5))
def test_any_history(
    seed: int, kind_of_world: type[FeedWorld], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The relation has the rows of the table after each batch, or the batch is refused, for one of the excuses."""
    rng = random.Random(seed)
    kind = rng.choice(("set", "keyed", "multiset", "multiset"))
    options, where = rng.choice(("", "--nulls", "--quarantine")), rng.random() < 0.5
    if kind_of_world is FileWorld and options == "--quarantine":
        options = "--nulls"
    given = {"": [], "--nulls": ["--nulls", "skip"], "--quarantine": ["--quarantine", str(tmp_path / "aside")]}[options]
    multiset, key = "multiset " if kind == "multiset" else "", " primary key (k)" if kind == "keyed" else ""
    world = kind_of_world(tmp_path, PROGRAM.format(multiset=multiset, key=key))
    history = History(rng, tmp_path, kind)
    feeds = tmp_path / "item.toml"
    feeds.write_text(f'[item]\nwhere = "{"active" if where else ""}"\n', encoding="utf-8")

    def mend() -> None:
        """Let the table have nothing that a relation of this kind refuses."""
        kept: dict[Any, Row] = {}
        for row in history.rows():
            if options or row[1] is not None:
                kept[row[0] if kind != "multiset" else len(kept)] = row
        rows = pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in kept.values()], SCHEMA)
        write_deltalake(history.path, rows, mode="overwrite", schema_mode="merge")

    mend()
    assert world.run("connect", "--feeds", str(feeds), f"item=delta:{history.path}") == world.run("init", *given) == 0
    for _ in range(8):
        if rng.random() < 0.4:
            history.save()
        for _ in range(rng.randrange(1, 4)):
            history.step()
            if options == "" and any(row[1] is None for row in history.rows()):
                history.excuses.add("a null in between")
        wanted = expected(history, options, where)
        keys = Counter(row[0] for row in wanted.elements())
        twice = kind != "multiset" and max(keys.values(), default=0) > 1
        if any(row[1] is None for row in wanted) or twice:
            # Nulls, copies and keys that are there twice are refused until they are mended.
            refusal(world, capsys, *given)
            mend()
            history.excuses.add("mended")
            wanted = expected(history, options, where)
        if world.run("apply", *given) != 0:
            said = capsys.readouterr().err
            assert history.excuses, said
            assert "--resync item" in said, said
            assert world.run("apply", *given, "--resync", "item") == 0
        history.excuses.clear()
        check(world, wanted)
    assert world.differences() == []
    world.close()
