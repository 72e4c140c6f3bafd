"""Late changes: relations with a primary key keep the sequence of each key, over all batches and commands."""

from __future__ import annotations

import json
import random
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from golden_tests.harness import compile_text, load_script, tuples_in
from golden_tests.job.kill import STEPS, in_child, kill_at
from golden_tests.nightly import AT_NIGHT, by_day, seeds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROGRAM = """
input relation host(_last: int, zone: string, _order: string, load: decimal(6,2)?) primary key (_last, zone)
input relation link(src: int, dst: int)
output busy.
busy(Z, N) :- host(H, Z, N, _), link(H, _).
"""

COLUMNS = ("_last", "zone", "_order", "load")


class Change(NamedTuple):
    """A change of a key at a sequence: its row, or None for a deletion."""

    key: tuple[int, str]
    at: Any
    row: tuple[Any, ...] | None

    @property
    def rank(self) -> tuple[Any, bool]:
        """What decides among changes of a key: at the same point, deletions come first."""
        return self.at, self.row is not None


class Contradiction(Exception):
    """Two rows of a key with the same sequence."""


class Truth:
    """A dictionary from keys to their last changes."""

    def __init__(
        self, known: dict[tuple[int, str], Change] | None = None, rows: Sequence[tuple[Any, ...]] = ()
    ) -> None:
        """Begin with changes, and with rows that have no sequence."""
        self.known = dict(known or {})
        self.rows = {row[:2]: row for row in rows}

    def apply(self, batch: Sequence[Change]) -> int:
        """Apply a batch and return how many changes were late; raise Contradiction, and change nothing."""
        after, late = dict(self.known), 0
        fresh = []
        for change in batch:
            known = self.known.get(change.key)
            if known and change.rank < known.rank:
                late += 1
            else:
                fresh.append(change)
        for change in fresh:
            best = max(c.rank for c in fresh if c.key == change.key)
            rows = {c.row for c in fresh if c.key == change.key and c.rank == best}
            known = self.known.get(change.key)
            if len(rows | ({known.row} if known and known.rank == best else set())) > 1:
                raise Contradiction
            after[change.key] = Change(change.key, best[0], rows.pop())
        self.known = after
        return late

    @property
    def table(self) -> set[tuple[Any, ...]]:
        """The rows that are there."""
        changed = {change.row for change in self.known.values() if change.row}
        return changed | {row for key, row in self.rows.items() if key not in self.known}

    def copy(self) -> Truth:
        """The same."""
        return Truth(self.known, list(self.rows.values()))


@pytest.fixture(scope="module")
def job() -> Iterator[Any]:
    """The script."""
    module: Any = load_script(compile_text(PROGRAM, "late.dl")[1])
    yield module
    del sys.modules[module.__name__]


class Written:
    """Changes as files."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        """Write below a folder."""
        self.folder, self.rng, self.count = folder, rng, 0

    def files(self, changes: Sequence[Change]) -> list[str]:
        """Divide changes arbitrarily into files of any format."""
        parts: list[list[Change]] = [[] for _ in range(self.rng.randint(1, 3))]
        for change in changes:
            self.rng.choice(parts).append(change)
        return [self.file(part, self.rng.choice(["csv", "jsonl", "parquet"])) for part in parts if part]

    def file(self, changes: Sequence[Change], kind: str) -> str:
        """Write a file of changes; deletions have the key, and sometimes other values."""
        self.count += 1
        path = self.folder / f"{self.count:06d}.{kind}"
        rows = []
        for change in changes:
            values = change.row or (*change.key, *self.rng.choice([(None, None), ("old", None)]))
            row = dict(zip(COLUMNS, values, strict=True))
            rows.append({**row, "op": "+" if change.row else self.rng.choice(["-", "delete"]), "seq": change.at})
        if kind == "parquet":
            kinds = [pa.int64(), pa.string(), pa.string(), pa.decimal128(6, 2), pa.string()]
            fields = [*zip((*COLUMNS, "op"), kinds, strict=True)]
            arrays = [pa.array([row[name] for row in rows], type_) for name, type_ in fields]
            points = [row["seq"] for row in rows]
            timed = isinstance(points[0], datetime)
            points = points if timed else list(map(Decimal, points))
            order = pa.array(points, pa.timestamp("us", "UTC") if timed else pa.decimal128(38))
            pq.write_table(pa.table([*arrays, order], [*COLUMNS, "op", "seq"]), path)
        elif kind == "jsonl":
            lines = []
            for row in rows:
                kept = {name: value for name, value in row.items() if value is not None}
                kept |= {name: self.text(kept[name]) for name in ("load", "seq") if name in kept}
                if isinstance(row["seq"], int) and self.rng.random() < 0.5:
                    kept["seq"] = row["seq"]
                if row["op"] == "+":
                    kept.setdefault("load", None)
                lines.append(json.dumps(kept))
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        else:
            names = [*COLUMNS, "op", "seq"]
            self.rng.shuffle(names)
            lines = [",".join(names)]
            lines += [",".join(self.quoted(row[name]) for name in names) for row in rows]
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return str(path)

    def text(self, value: Any) -> Any:
        """A value as text; points in time in various zones."""
        if isinstance(value, datetime):
            shift = self.rng.choice([0, 2, -11])
            return (value + timedelta(hours=shift)).replace(tzinfo=None).isoformat(" ") + f"{shift:+03d}:00"
        return None if value is None else str(value)

    def quoted(self, value: Any) -> str:
        """A field of CSV."""
        text = self.text(value)
        return "" if text is None else f'"{text}"' if isinstance(value, str) else text


def history(rng: random.Random, points: Sequence[Any]) -> list[Change]:
    """Changes of a few keys, with repetitions; rarely two rows contradict each other."""
    keys = [(number, zone) for number in (-1, 0, 7) for zone in ("", "b", "null")]
    changes = []
    for _ in range(rng.randint(10, 60)):
        key, at = rng.choice(keys), rng.choice(points)
        name = f"{key}{at}" if rng.random() < 0.97 else "other"
        load = None if len(name) % 2 else Decimal(len(name)) / 8
        load = None if load is None else load.quantize(Decimal("0.01"))
        changes.append(Change(key, at, (*key, name, load) if rng.random() < 0.6 else None))
    return changes + rng.choices(changes, k=rng.randint(0, 20))


POINTS = {
    "numbers": [*range(-10, 10), -(10**38) + 1, 10**38 - 1, 2**63, 2**63 + 1],
    "times": [datetime(1969, 12, 31, 23, 59, 59, 999990, UTC) + timedelta(microseconds=n) for n in range(20)],
}


def rows_of(job: Any, state: str) -> set[tuple[Any, ...]]:
    """The rows of the relation."""
    return set(map(tuple, tuples_in(job.relation(None, state, "host"))))


def apply(
    job: Any, executor: Any, state: str, truth: Truth, files: list[str], batch: Sequence[Change], **options: Any
) -> bool:
    """Apply a batch to a state and to the truth; return whether it was refused by both."""
    log = job.Log(quiet=True)
    try:
        late = truth.apply(batch)
    except Contradiction:
        with pytest.raises(job.JobError, match="same seq"):
            job.apply(executor, state, {"host": files}, order_column="seq", log=log, **options)
        return True
    done = job.apply(executor, state, {"host": files}, order_column="seq", log=log, **options)
    assert done.get("late", {}) == ({"host": late} if late else {})
    assert rows_of(job, state) == truth.table
    assert job.status(state)["sequences"]["host"]["keys"] == len(truth.known)
    return False


def check(job: Any, folder: Path, seed: int, executor: Any = None, engine: str = "auto", commands: bool = True) -> None:
    """Apply a history in many batches and in one, with other commands in between."""
    rng = random.Random(f"late {seed}")
    written, log = Written(folder, rng), job.Log(quiet=True)
    changes = history(rng, POINTS[rng.choice([*POINTS])])
    state, first = str(folder / "state"), [(0, "b", "first", None), (5, "b", "first", Decimal("1.50"))]
    (folder / "host.csv").write_text("_last,zone,_order,load\n0,b,first,\n5,b,first,1.5\n", encoding="utf-8")
    rows = {"host": str(folder / "host.csv")}
    job.init(executor, state, rows, buckets=rng.choice([1, 3]), log=log, engine=engine)
    truth, applied = Truth(rows=first), list[Sequence[Change]]()
    known = {1: (truth.copy(), list(applied))}
    more = {"log": log, "engine": engine}
    while changes:
        size = rng.randint(1, 12)
        batch, changes = changes[:size], changes[size:]
        if not apply(job, executor, state, truth, written.files(batch), batch, engine=engine):
            applied.append(batch)
        last = job.status(state)["commit"]
        known[last] = truth.copy(), list(applied)
        step = rng.random() if commands else 1.0
        if step < 0.05:
            job.compact(executor, state, **more)
        elif step < 0.1:
            job.rebuild(executor, state, buckets=rng.choice([1, 2, 4]), **more)
        elif step < 0.15:
            archive = str(folder / f"{last}.tar")
            job.export(state, archive)
            state = str(folder / f"state{last}")
            job.import_archive(state, archive)
        elif step < 0.2:
            job.vacuum(state, log=log)
        elif step < 0.35 and last - 1 in known and job.history(state)["commits"][0]["command"] == "apply":
            job.revert(executor, state, job.status(state)["batch"], **more)
            truth, applied = known[last - 1][0].copy(), list(known[last - 1][1])
        elif step < 0.45:
            to = rng.choice([number for number in known if number >= job.history(state)["kept_from"]])
            job.rollback(executor, state, to, log=log)
            truth, applied = known[to][0].copy(), list(known[to][1])
        known[job.status(state)["commit"]] = truth.copy(), list(applied)
        assert rows_of(job, state) == truth.table
        if rng.random() < 0.2:
            assert not job.verify(executor, state, log=log)["differences"]
    assert not job.verify(executor, state, log=log)["differences"]
    whole = [change for batch in applied for change in batch]
    rng.shuffle(whole)
    once = str(folder / "once")
    job.init(executor, once, rows, log=log, buckets=1)
    if whole:
        apply(job, executor, once, Truth(rows=first), written.files(whole), whole)
    assert rows_of(job, once) == rows_of(job, state)


@AT_NIGHT
@pytest.mark.parametrize("seed", seeds(1, 5))
def test_any_order(seed: int, job: Any, tmp_path: Path) -> None:
    """Many batches, divided arbitrarily, give the table that one batch gives; a dictionary says which."""
    check(job, tmp_path, seed)


class Small:
    """A state, and changes of hosts, a line each: key, name, operation and sequence."""

    def __init__(self, job: Any, folder: Path, *initial: str, executor: Any = None, **options: Any) -> None:
        """Build the state from rows."""
        self.job, self.folder, self.executor, self.options = job, folder, executor, options
        self.state, self.log = str(folder / "state"), job.Log(quiet=True)
        rows = self.file("first", "_last,zone,_order,load", *(f"{row}," for row in initial))
        links = self.file("links", "src,dst", "1,1", "2,2")
        job.init(executor, self.state, {"host": rows, "link": links}, buckets=2, log=self.log, **options)

    def file(self, name: str, *lines: str) -> str:
        """A file."""
        path = self.folder / f"{name}.csv"
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return str(path)

    def changes(self, *lines: str) -> str:
        """A file of changes."""
        return self.file("changes", "_last,zone,_order,load,op,seq", *lines)

    def apply(self, batch: str, *lines: str, **options: Any) -> dict[str, Any]:
        """Apply a batch, by default in the order of seq."""
        given = {"order_column": "seq", **self.options, **options}
        changes = {"host": self.changes(*lines)}
        done: dict[str, Any] = self.job.apply(self.executor, self.state, changes, batch=batch, log=self.log, **given)
        return done

    def refused(self, *lines: str, **options: Any) -> str:
        """What is said when a batch is refused."""
        before = self.job.read_manifest(Path(self.state))
        with pytest.raises(self.job.JobError) as refused:
            self.apply("refused", *lines, **options)
        assert self.job.read_manifest(Path(self.state)) == before
        return str(refused.value)

    @property
    def names(self) -> set[tuple[int, str]]:
        """The key and the name of each host."""
        return {(row[0], row[2]) for row in rows_of(self.job, self.state)}


def test_a_deletion_overtakes_an_insertion(job: Any, tmp_path: Path) -> None:
    """It is told what was ignored, in the result, the log, the status and the history."""
    world = Small(job, tmp_path, "1,a,first")
    world.apply("one", "1,a,,,-,9", "2,a,new,,+,-3")
    assert world.names == {(2, "new")}
    lines = tmp_path / "log"
    world.log = job.Log(quiet=True, file=str(lines))
    done = world.apply("two", "1,a,late,,+,5", "1,a,late,,-,8", "2,a,older,,u,-4", "2,a,new,,+,-3", "2,a,x,,-,-3")
    assert world.names == {(2, "new")}
    assert done["late"] == {"host": 4} and done["changes"] == {}
    assert "event=late" in lines.read_text() and "relation=host rows=4" in lines.read_text()
    assert "host: 1 tuple  (4 late changes ignored)" in "\n".join(job.report_commit(done))
    said = list(job.report_history(job.history(world.state, limit=1)))
    assert "  in: host, 4 late changes ignored" in said
    assert "  host keeps 2 sequences by seq" in list(job.report_status(job.status(world.state)))
    assert world.apply("three", "1,a,again,,+,9")["changes"]["host"] == {"inserted": 1, "deleted": 0}
    assert "late" not in world.apply("four", "1,a,again,,+,9", "2,a,new,,+,-3")


def test_ties_between_batches(job: Any, tmp_path: Path) -> None:
    """The same row again changes nothing; another one is refused, unless something newer decides."""
    world = Small(job, tmp_path)
    world.apply("one", "1,a,x,,+,5", "2,a,y,,+,5", "3,a,z,,+,5")
    said = world.refused("1,a,other,,+,5", "3,a,z,1.00,+,5", "2,a,y,,+,5")
    assert said == (
        'refused, nothing has changed:\n  host: an earlier batch had another row with _last = 1, zone = "a" and the '
        'same seq\n  host: an earlier batch had another row with _last = 3, zone = "a" and the same seq'
    )
    assert "late" not in world.apply("two", "1,a,other,,+,5", "1,a,newer,,+,6")
    assert world.names == {(1, "newer"), (2, "y"), (3, "z")}


def test_beginning_and_ending(job: Any, tmp_path: Path) -> None:
    """Rows without a sequence are older than all; a relation that has sequences takes no changes without."""
    world = Small(job, tmp_path, "1,a,first", "2,a,first")
    world.apply("plain", "2,a,second,,+,0", order_column=None)
    world.apply("ordered", "1,a,third,,+,-5")
    assert world.names == {(1, "third"), (2, "second")}
    said = world.refused("2,a,x,,+,0", order_column=None)
    assert said.startswith("host keeps the sequence of each key, by the order column seq: pass --order-column seq")
    assert world.refused("2,a,x,,+,0", order_column="load").startswith("host keeps the sequence of each key")
    assert job.apply(None, world.state, {"link": world.file("l", "src,dst,op", "1,3,+")}, log=world.log)["applied"]
    done = job.vacuum(world.state, forget_sequences=["host"], log=world.log)
    assert done["removed"]["sequences"] == {"host": 1} and "removed 1 sequence of host" in list(job.report_vacuum(done))
    world.apply("again", "1,a,fourth,,+,0", order_column=None)
    assert world.names == {(1, "fourth"), (2, "second")}
    assert job.status(world.state)["sequences"] == {}
    with pytest.raises(job.JobError, match="host keeps no sequences; these relations do: none"):
        job.vacuum(world.state, forget_sequences=["host"], log=world.log)


def test_tombstones(job: Any, tmp_path: Path) -> None:
    """Those that are far behind are removed; after that, rows of unknown keys are late up to there, others are not."""
    world = Small(job, tmp_path, "9,a,first")
    world.apply("one", "1,a,,,-,10", "2,a,,,-,60", "3,a,x,,+,7", "4,a,y,,+,100")
    with pytest.raises(job.JobError, match="is no distance"):
        job.vacuum(world.state, tombstones=["host=-1"], log=world.log)
    assert job.vacuum(world.state, tombstones={"host": 90}, log=world.log)["removed"]["sequences"] == {"host": 0}
    assert job.vacuum(world.state, tombstones=["host=50"], log=world.log)["removed"]["sequences"] == {"host": 1}
    status = job.status(world.state)
    assert status["sequences"] == {"host": {"column": "seq", "keys": 3, "pruned": 11}}
    assert "  host keeps 3 sequences by seq, those of dead keys since 11" in list(job.report_status(status))
    # Key 1 is dead and forgotten, 2 is dead, 3 lives with a sequence, 9 without one; 5 is new.
    done = world.apply("two", "1,a,late,,+,10", "2,a,late,,+,59", "3,a,z,,+,8", "9,a,second,,+,-1", "5,a,late,,+,10")
    assert done["late"] == {"host": 3}
    assert world.names == {(3, "z"), (4, "y"), (9, "second")}
    world.apply("three", "1,a,now,,+,11", "9,a,,,-,0")
    assert world.names == {(1, "now"), (3, "z"), (4, "y")}
    assert world.apply("four", "9,a,late,,+,-1")["late"] == {"host": 1}
    # Key 2 died at 60, and 9 long before what was removed already.
    assert job.vacuum(world.state, tombstones=["host=40"], log=world.log)["removed"]["sequences"] == {"host": 1}
    assert job.status(world.state)["sequences"]["host"]["pruned"] == 11
    assert job.vacuum(world.state, tombstones=["host=39"], log=world.log)["removed"]["sequences"] == {"host": 1}
    assert job.status(world.state)["sequences"]["host"]["pruned"] == 61
    assert world.apply("five", "2,a,late,,+,60", "9,a,late,,+,60")["late"] == {"host": 2}
    assert not job.verify(None, world.state, log=world.log)["differences"]


def test_revert_and_later_changes(job: Any, tmp_path: Path) -> None:
    """A batch whose keys were changed since, even to the same rows, is not reverted."""
    world = Small(job, tmp_path)
    world.apply("one", "1,a,x,,+,5", "2,a,x,,+,5")
    world.apply("two", "1,a,x,,+,7")
    with pytest.raises(job.JobError, match="later batches have changed rows that batch one changed"):
        job.revert(None, world.state, "one", log=world.log)
    job.revert(None, world.state, "two", log=world.log)
    assert world.apply("three", "1,a,y,,+,6")["changes"]["host"]["inserted"] == 1
    assert world.names == {(1, "y"), (2, "x")}


def test_verify(job: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It finds sequences that do not fit the rows: keys that should have a row and have none, and the other way."""
    world = Small(job, tmp_path, "5,a,first")
    world.apply("one", "1,a,x,,+,5", "2,a,x,,+,5", "3,a,,,-,5")
    assert not job.verify(None, world.state, log=world.log)["differences"]
    real = job.write_query

    def wrong(engine: Any, staged: Any, sql: str, path: Path) -> None:
        real(engine, staged, sql.replace("_op AS _last", "CASE _op WHEN '+' THEN '-' ELSE '+' END AS _last"), path)

    with monkeypatch.context() as patch:
        patch.setattr(job, "write_query", wrong)
        world.apply("two", "1,a,y,,+,6", "2,a,,,-,6")
    found = job.verify(None, world.state, log=world.log)["differences"]
    assert [(one["relation"], one["problem"].partition(";")[0], [*one["tuples"]]) for one in found] == [
        ("host", "a key was inserted by its last change, and has no row", [{"last_": 2, "zone": "a"}]),
        ("host", "a key was removed by its last change, and has a row", [{"last_": 1, "zone": "a"}]),
    ]
    job.vacuum(world.state, forget_sequences=["host"], log=world.log)
    assert not job.verify(None, world.state, log=world.log)["differences"]


def test_nulls_and_bad_rows(job: Any, tmp_path: Path) -> None:
    """A row that is left out for a null removes its key, with its sequence; deletions need the key only."""
    world = Small(job, tmp_path)
    world.apply("one", "1,a,x,,+,5", "2,a,x,,+,5")
    done = world.apply("two", "1,a,,,+,7", "2,a,,,-,6", "3,a,,,+,1", nulls="skip")
    assert done["left_out"] == {"host": 2} and world.names == set()
    assert world.apply("three", "1,a,y,,+,6", "3,a,y,,+,2")["late"] == {"host": 1}
    assert world.names == {(3, "y")}
    assert "same seq" in world.refused("1,a,z,,+,7")
    assert "column zone: null" in world.refused("1,,,,-,7")
    assert "column _order: null" in world.refused("1,a,,,+,8")
    assert "column load" in world.refused("1,a,x,1.234,-,8")


def test_new_versions(tmp_path: Path, job: Any) -> None:
    """Sequences stay when other rules change, and when the key is the same; they go with it, or with new rows."""
    world = Small(job, tmp_path, "1,a,first")
    world.apply("one", "1,a,,,-,9")
    other: Any = load_script(compile_text(PROGRAM + "idle(H) :- host(H, _, _, _), !link(H, _).", "late.dl")[1])
    world.job = other
    other.upgrade(None, world.state, log=other.Log(quiet=True))
    assert world.apply("two", "1,a,late,,+,8")["late"] == {"host": 1}
    other.rebuild(None, world.state, buckets=1, log=other.Log(quiet=True))
    assert world.apply("three", "1,a,late,,+,8")["late"] == {"host": 1}
    rows = world.file("anew", "_last,zone,_order,load", "1,a,anew,")
    warned: list[str] = []
    log = other.Log(quiet=True)
    log.warn = warned.append
    other.rebuild(None, world.state, {"host": rows}, log=log)
    assert warned == ["host no longer keeps the sequences of its keys, since its rows are given anew"]
    assert other.status(world.state)["sequences"] == {}
    world.apply("four", "1,a,,,-,9")
    narrow: Any = load_script(compile_text(PROGRAM.replace("(_last, zone)", "(_last)"), "late.dl")[1])
    log = narrow.Log(quiet=True)
    log.warn = warned.append
    narrow.upgrade(None, world.state, log=log)
    assert warned[1:] == [
        "host no longer keeps the sequences of its keys, since it has another primary key, or is no input any more"
    ]
    for module in (other, narrow):
        del sys.modules[module.__name__]


@by_day(1)
@pytest.mark.parametrize("engine", ["duckdb", pytest.param("spark", marks=AT_NIGHT)])
def test_in_spark(engine: str, job: Any, tmp_path: Path, spark: SparkSession) -> None:
    """Tasks in Spark, and rounds of Spark's, keep the same sequences."""
    world = Small(job, tmp_path, "1,a,first", "5,a,first", executor=spark, engine=engine)
    world.apply("one", "1,a,,,-,9", "2,a,x,,+,-3", "3,a,x,,+,4")
    assert world.apply("two", "1,a,late,,+,5", "2,a,y,,+,-2", "3,a,,,-,5")["late"] == {"host": 1}
    assert world.names == {(2, "y"), (5, "first")}
    if engine == "duckdb":
        return
    job.revert(spark, world.state, "two", log=world.log, engine=engine)
    assert world.names == {(2, "x"), (3, "x"), (5, "first")}
    job.compact(spark, world.state, log=world.log, engine=engine)
    assert world.apply("three", "2,a,late,,+,-4", "3,a,z,,+,5")["late"] == {"host": 1}
    assert world.names == {(2, "x"), (3, "z"), (5, "first")}


def test_change_files_of_a_feed(job: Any, tmp_path: Path) -> None:
    """A folder of change files with an order column keeps sequences; rows that are compared as a whole have none."""
    folder, log, state = tmp_path / "incoming", job.Log(quiet=True), str(tmp_path / "state")
    folder.mkdir()
    job.connect(None, state, [f"host=files:{folder}"], log=log)
    job.init(None, state, log=log)
    header = "_last,zone,_order,load,op,seq\n"
    (folder / "1.csv").write_text(f"{header}1,a,,,-,9\n2,a,x,,+,3\n")
    (folder / "2.csv").write_text(f"{header}1,a,late,,+,8\n2,a,y,,+,4\n")
    assert "late" not in job.apply(None, state, order_column="seq", log=log)
    (folder / "3.csv").write_text(f"{header}1,a,late,,+,5\n2,a,late,,+,3\n3,a,z,,+,0\n")
    assert job.apply(None, state, order_column="seq", log=log)["late"] == {"host": 2}
    assert rows_of(job, state) == {(2, "a", "y", None), (3, "a", "z", None)}
    (folder / "4.csv").write_text(f"{header}1,a,late,,+,5\n")
    for options in ({}, {"resync": ["host"], "order_column": "seq"}):
        with pytest.raises(job.JobError, match="host keeps the sequence of each key"):
            job.apply(None, state, log=log, **options)


@by_day(1)
@pytest.mark.parametrize("apart", [211, pytest.param(1, marks=AT_NIGHT)])
def test_killed(apart: int, job: Any, tmp_path: Path) -> None:
    """Whenever a batch is killed, its rows and its sequences are there, or neither."""
    built, batch = tmp_path / "built", ("1,a,late,,+,8", "2,a,y,,+,4", "3,a,z,,+,1", "4,a,,,-,0")
    before, after = {(2, "x"), (4, "first")}, {(2, "y"), (3, "z")}
    for folder in (built, tmp_path / "now"):
        folder.mkdir()

    def build() -> None:
        Small(job, built, "1,a,first", "4,a,first").apply("one", "1,a,,,-,9", "2,a,x,,+,3")

    assert in_child(build) == 0
    for step in range(1, 10_000, apart):
        folder = tmp_path / "now"
        shutil.rmtree(folder)
        shutil.copytree(built, folder)
        world = object.__new__(Small)
        world.job, world.folder, world.executor, world.options = job, folder, None, {}
        world.state, world.log = str(folder / "state"), job.Log(quiet=True)

        def killed(world: Small = world, step: int = step) -> None:
            kill_at(step, lambda event, found: event in STEPS and world.state in str(found[0]))
            world.apply("two", *batch)

        def check(world: Small = world) -> None:
            there = job.status(world.state)["batch"] == "two"
            assert world.names == (after if there else before)
            assert job.status(world.state)["sequences"]["host"]["keys"] == (4 if there else 2)
            done = world.apply("two", *batch)
            assert done["applied"] is not there and (there or done["late"] == {"host": 1})
            assert world.apply("three", "4,a,late,,+,-1", "2,a,late,,+,3")["late"] == {"host": 2}
            assert world.names == after

        ended = in_child(killed)
        assert ended in (0, signal.SIGKILL), ended
        assert in_child(check) == 0, f"killed at step {step}"
        if ended == 0:
            assert step > 1
            return
