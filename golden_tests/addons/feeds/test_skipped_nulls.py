"""``--nulls skip``: a relation has the rows of its source that have no null where none is allowed, whatever happens."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from golden_tests.addons.feeds.envelopes import MemoryTopic, envelope, key_of
from golden_tests.addons.feeds.world import RECORDED, FeedWorld
from golden_tests.nightly import by_day, seeds

COLUMNS = ("id", "shop", "name", "size", "note")
KINDS = (pa.int64(), pa.string(), pa.string(), pa.int64(), pa.string())

SET = """
input relation item(id: int, shop: string, name: string, size: int, note: string?)
output relation total(name: string, sizes: int)
total(N, sum<S>) :- item(I, P, N, S, _).
"""

KEYED = SET.replace("string?)", "string?) primary key (id, shop)")

Line = tuple[Any, ...]


class Nullable:
    """A table with a key whose rows may have nulls anywhere but in the key, and changes at random."""

    def __init__(self, rng: random.Random) -> None:
        """Begin without rows."""
        self.rng = rng
        self.rows: dict[tuple[int, str], Line] = {}
        self.clock = 0

    def line(self, key: tuple[int, str]) -> Line:
        """Return a new row."""
        # "" and 0 are what a removal has in the columns that do not matter.
        name, size, note = (
            self.rng.choice(values) for values in ((None, "", "a", "null"), (None, 0, 7), (None, "", "n"))
        )
        return (*key, name, size, note)

    def change(self) -> tuple[Line | None, Line | None]:
        """Change a row, and return it as it was and as it is."""
        key = (self.rng.randrange(3), self.rng.choice(("", "x")))
        before = self.rows.pop(key, None)
        if before is None or self.rng.random() < 0.6:
            self.rows[key] = self.line(key)
        return before, self.rows.get(key)

    def expected(self) -> set[Line]:
        """Return the rows that the relation must have."""
        return {row for row in self.rows.values() if None not in row[:4]}


def text_of(value: Any) -> str:
    """Return a value as a field of CSV."""
    if value is None:
        return ""
    return '"' + value.replace('"', '""') + '"' if isinstance(value, str) else str(value)


def write_rows(path: Path, names: tuple[str, ...], rows: list[Line]) -> None:
    """Write rows to a file of the format that its name says."""
    if path.suffix == ".csv":
        lines = [",".join(names), *(",".join(map(text_of, row)) for row in rows)]
        path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows))
    else:
        columns = list(zip(*rows, strict=True)) or [()] * len(names)
        kinds = [*KINDS, pa.string(), pa.int64()]
        pq.write_table(
            pa.table({n: pa.array(list(c), k) for n, c, k in zip(names, columns, kinds, strict=False)}), path
        )


def put_changes(table: Nullable, path: Path, keyed: bool, ordered: bool) -> int:
    """Write a file with some changes of a table; return how many of its rows are left out for nulls."""
    rows: list[Line] = []
    touched: set[tuple[int, str]] = set()
    for _ in range(table.rng.randrange(1, 6)):
        table.clock += 1
        order = table.clock
        before, after = table.change()
        key = (before or after or (0, ""))[:2]
        if not ordered and key in touched:
            # A batch without an order has one change of each key.
            if before is None:
                table.rows.pop(key, None)
            else:
                table.rows[key] = before
            continue
        touched.add(key)
        if before is not None and (after is None or (not keyed and before != after)):
            rows.append((*before, table.rng.choice(("-", "d")), order))
        if after is not None and before != after:
            rows.append((*after, table.rng.choice(("+", "u", "c") if keyed else ("+", "c")), order))
    if not ordered:
        table.rng.shuffle(rows)
    wanted = slice(None) if ordered else slice(6)
    names = (*COLUMNS, "op", "at")[wanted]
    write_rows(path, names, [row[wanted] for row in rows])
    # With an order, a deletion needs no more than the key.
    return sum(None in row[:4] and not (keyed and ordered and row[5] in "-d") for row in rows)


@pytest.fixture(params=["keyed", "set"])
def kind(request: pytest.FixtureRequest) -> str:
    """Whether the relation has a primary key."""
    return str(request.param)


@pytest.fixture
def make(tmp_path: Path, kind: str) -> Iterator[Callable[[], FeedWorld]]:
    """Makes a job."""
    made: list[FeedWorld] = []

    def one() -> FeedWorld:
        made.append(FeedWorld(tmp_path, KEYED if kind == "keyed" else SET))
        return made[-1]

    yield one
    for world in made:
        world.close()


def check(world: FeedWorld, table: Nullable) -> None:
    """The state has the rows without nulls, and what follows from them."""
    assert world.rows("item") == table.expected()
    assert world.job.verify(None, str(world.state), log=world.job.Log(quiet=True))["differences"] == []


@by_day(1)
@pytest.mark.parametrize("seed", seeds(1, 10))
def test_files(make: Callable[[], FeedWorld], kind: str, seed: int) -> None:
    """Change files in all formats, with and without an order, given or fed, give what the table has in the end."""
    world, table = make(), Nullable(random.Random(seed))
    ordered, fed = table.rng.random() < 0.6, table.rng.random() < 0.5
    ordering = ["--order-column", "at"] if ordered else []
    folder = world.folder / "incoming"
    folder.mkdir()
    if fed:
        assert world.run("connect", f"item=files:{folder}") == 0
    assert world.run("init", "--nulls", "skip") == 0
    for number in range(6):
        path = folder / f"{number}{table.rng.choice(('.csv', '.jsonl', '.parquet'))}"
        lacking = put_changes(table, path, kind == "keyed", ordered)
        given = [] if fed else ["--changes", f"item={path}"]
        assert world.run("apply", *given, *ordering, "--nulls", "skip") == 0
        assert world.manifest.left_out == ({"item": lacking} if lacking else {})
        check(world, table)
    if fed and not ordered:
        assert world.run("apply", "--resync", "item", "--nulls", "skip") in (0, 1)
    write_rows(folder / ".all.parquet", COLUMNS, list(table.rows.values()))
    (folder / ".all.parquet").rename(world.folder / "all.parquet")
    assert world.run("rebuild", "--nulls", "skip", "--input", f"item={world.folder / 'all.parquet'}") == 0 or fed
    check(world, table)


@by_day(1)
@pytest.mark.parametrize("seed", seeds(1, 10))
def test_topics(make: Callable[[], FeedWorld], kind: str, seed: int) -> None:
    """An update to a row with a null deletes the row."""
    world, table = make(), Nullable(random.Random(seed))
    topic = MemoryTopic(1)
    topic.install(world.job)
    assert world.run("connect", "item=kafka-debezium://broker:9092/items") == 0
    assert world.run("init", "--nulls", "skip") == 0
    for _ in range(5):
        for _ in range(table.rng.randrange(1, 6)):
            before, after = table.change()
            key = key_of(id=(before or after or ())[0], shop=(before or after or ())[1])
            images = [row and dict(zip(COLUMNS, row, strict=True)) for row in (before, after)]
            operation = "c" if before is None else "d" if after is None else "u"
            topic.write(key, envelope(operation, images[0] if kind == "set" else None, images[1]))
        assert world.run("apply", "--nulls", "skip") == 0
        check(world, table)


@by_day(1)
@pytest.mark.parametrize("seed", seeds(1, 10))
def test_delta_tables(make: Callable[[], FeedWorld], seed: int) -> None:
    """Both sides of an update are left out by themselves, and numbers of rows are no longer compared."""
    world, table = make(), Nullable(random.Random(seed))
    path = str(world.folder / "lake")
    schema = pa.schema(list(zip(COLUMNS, KINDS, strict=True)))

    def rows() -> pa.Table:
        return pa.Table.from_pylist([dict(zip(COLUMNS, row, strict=True)) for row in table.rows.values()], schema)

    for _ in range(5):
        table.change()
    write_deltalake(path, rows(), configuration=RECORDED)
    assert world.run("connect", f"item=delta:{path}") == 0
    assert world.run("init", "--nulls", "skip") == 0
    check(world, table)
    for _ in range(4):
        for _ in range(3):
            table.change()
        same = " AND ".join(f"(s.{name} IS NOT DISTINCT FROM t.{name})" for name in COLUMNS)
        keys = "s.id = t.id AND s.shop = t.shop"
        DeltaTable(path).merge(rows(), keys, source_alias="s", target_alias="t").when_matched_update_all(
            f"NOT ({same})"
        ).when_not_matched_insert_all().when_not_matched_by_source_delete().execute()
        assert world.run("apply", "--nulls", "skip") == 0
        check(world, table)


def test_what_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], make: Callable[[], FeedWorld], kind: str
) -> None:
    """Refused by default; otherwise counted in the result, the log and the history, and places stay right."""
    world = make()
    path = tmp_path / "item.csv"
    path.write_text("id,shop,name,size,note\n1,x,,2,\n2,x,a,,\n,x,a,3,\n4,x,a,4,\n")
    assert world.run("init", "--input", f"item={path}") == 1
    assert "row 1, column name: null" in capsys.readouterr().err
    log = tmp_path / "log"
    assert world.run("init", "--input", f"item={path}", "--nulls", "skip", "--log", str(log)) == 0
    assert "item: 1 tuple  +1 -0  (3 rows with nulls left out)" in capsys.readouterr().out
    assert 'event="left out"' in log.read_text() and "relation=item rows=3" in log.read_text()
    assert world.run("history") == 0
    assert "in: item, 3 rows with nulls left out" in capsys.readouterr().out
    # Of rows that are left out, the numbers still count; other errors are still errors.
    path.write_text("op,id,shop,name,size,note\n-,1,x,,2,\n+,2,x,a,,\n-,7,x,a,7,\n+,5,x,a,b,\n")
    assert world.run("apply", "--changes", f"item={path}", "--nulls", "skip") == 1
    assert 'item.csv, row 4, column size: "b" is not an int' in capsys.readouterr().err
    path.write_text("op,id,shop,name,size,note\n-,1,x,,2,\n-,7,x,a,7,\n+,7,x,a,7,\n")
    assert world.run("apply", "--changes", f"item={path}", "--nulls", "skip") == 1
    assert "(" + str(path) + ", row 2) and inserted (" + str(path) + ", row 3)" in capsys.readouterr().err
    if kind == "keyed":
        path.write_text("op,id,shop,name,size,note\n+,4,x,,2,\n+,4,x,a,7,\n")
        assert world.run("apply", "--changes", f"item={path}", "--nulls", "skip") == 1
        assert "two different rows with the primary key" in capsys.readouterr().err
        path.write_text("op,id,shop,name,size,note\nwrong,4,x,,2,\n+,4,x,a,7,\n")
        assert world.run("apply", "--changes", f"item={path}", "--nulls", "skip") == 1
        assert 'row 1, column op: unknown operation "wrong"' in capsys.readouterr().err
    with pytest.raises(world.job.JobError, match='nulls must be refuse or skip, not "drop"'):
        world.job.apply(None, str(world.state), {"item": str(path)}, nulls="drop")


@by_day(1)
@pytest.mark.parametrize(("more", "suffix"), [(0, ".csv"), (1200, ".parquet")])
def test_net_changes(make: Callable[[], FeedWorld], kind: str, suffix: str, more: int) -> None:
    """A removal of a key is told from a row with the values that stand for it, however many changes are compared, in
    order, and without one in every way."""
    world = make()
    first, second = world.folder / f"first{suffix}", world.folder / f"second{suffix}"
    rows: list[Line] = [(n, "x", "", 0, None) for n in range(4)]
    others: list[Line] = [(n, "y", "", 0, None) for n in range(more)]
    write_rows(world.folder / "rows.parquet", COLUMNS, rows)
    assert world.run("init", "--input", f"item={world.folder / 'rows.parquet'}") == 0
    lost: Line = (0, "x", None, 0, None)
    changes = [(*lost, "+"), (*rows[1], "-"), (*rows[1], "+"), (*rows[2], "-"), *((*row, "+") for row in others)]
    write_rows(first, (*COLUMNS, "op"), changes)
    assert world.run("apply", "--changes", f"item={first}", "--nulls", "skip") == 1
    assert world.run("apply", "--changes", f"item={first}", "--nulls", "skip", "--net", "insert") == 0
    kept = {*rows[1:2], *rows[3:], *others} | ({rows[0]} if kind == "set" else set())
    assert world.rows("item") == kept
    ordered = [
        ((1, "x", None, 0, None), "+", 1),
        (rows[1], "+", 2),
        (rows[3], "+", 1),
        ((3, "x", "", None, None), "+", 2),
        (rows[2], "+", 5),
        *((row, "-", 7) for row in others),
    ]
    write_rows(second, (*COLUMNS, "op", "at"), [(*row, sign, order) for row, sign, order in ordered])
    assert world.run("apply", "--changes", f"item={second}", "--nulls", "skip", "--order-column", "at") == 0
    assert world.rows("item") == {*rows[1:3]} | ({rows[0], rows[3]} if kind == "set" else set())
    assert world.job.verify(None, str(world.state), log=world.job.Log(quiet=True))["differences"] == []
