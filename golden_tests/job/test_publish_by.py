"""Published changes that are cut by location: a folder for each, whatever its name; complete and once, like others."""

from __future__ import annotations

import random
import signal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from flintlog.compiler.pipeline import compile_program
from flintlog.compiler.source import SourceFile
from flintlog.runtime.addons.operations.rebuild import rebuild_state
from flintlog.runtime.addons.operations.recover import recover_state
from flintlog.runtime.job.apply import apply_batch
from flintlog.runtime.job.init import init_state
from flintlog.runtime.job.job import run_command
from flintlog.runtime.job.status import state_status
from flintlog.runtime.kernel.errors import JobError
from flintlog.runtime.kernel.model import Program
from flintlog.runtime.store import publish
from flintlog.runtime.store.executors import LocalExecutor
from flintlog.runtime.store.manifest import read_state
from flintlog.runtime.store.published_names import LONGEST_LOCATION, is_location, location_folder
from flintlog.runtime.system.log import Log
from flintlog.targets.pyspark.load import load_program

from golden_tests.job.kill import in_child, kill_at
from golden_tests.nightly import AT_NIGHT, by_day

ODD = ["a/b", "..", ".", "", "'", '"', "a,b", "é", "日本", "%2F", "a=b", "A", "a", "x" * 300, "é" * 200, "\n", " ", "^"]
ODD += [
    "__HIVE_DEFAULT_PARTITION__",
    "%5F_HIVE_DEFAULT_PARTITION__",
    "007",
    "7",
    "null",
    "*?[]{}\\",
    "\x7f\x01",
    "~",
    "C:",
]

TEXT = """
input relation link(@src: string, dst: string)
input output relation size(@Location: int, location: int)
output relation near(@src: string, op: string)
output relation count(n: int)
near(@S, D) :- link(@S, D).
count(count<D>) :- link(_, D).
"""


def program(text: str = TEXT) -> Program:
    """Return a compiled program."""
    return load_program(compile_program(SourceFile("test.dl", text)).plan)


PROGRAM = program()


class Job:
    """A state of the program, empty at first."""

    def __init__(self, folder: Path, made: Program = PROGRAM) -> None:
        """Build the state."""
        self.folder, self.state, self.program = folder, folder / "state", made
        init_state(made, LocalExecutor(), str(self.state), {}, buckets=2, log=Log(quiet=True))

    def apply(self, batch: str, by: str | None = "location", **rows: list[tuple[Any, ...]]) -> dict[str, Any]:
        """Apply a batch of rows that begin with an operation."""
        inputs = {}
        for name, found in rows.items():
            relation = self.program.relation(name)
            columns = ["op", *(c.name for c in relation.columns)]
            table = pa.table([pa.array(values) for values in zip(*found, strict=True)], names=columns)
            path = self.folder / f"{name}-{batch}.parquet"
            pq.write_table(table, path)
            inputs[name] = str(path)
        return apply_batch(
            self.program, LocalExecutor(), str(self.state), inputs, batch, publish_by=by, log=Log(quiet=True)
        )

    def changes(self, relation: str, batch: str) -> dict[str, list[tuple[Any, ...]]]:
        """The published changes of a batch by folder."""
        folder = self.state / "published" / relation / "changes" / f"batch={batch}"
        found: dict[str, list[tuple[Any, ...]]] = {}
        for path in sorted(folder.rglob("*.parquet")):
            rows = [tuple(row.values()) for row in pq.ParquetFile(path).read().to_pylist()]
            found.setdefault(path.parent.name, []).extend(rows)
        return {name: sorted(rows) for name, rows in found.items()}


def test_odd_locations(tmp_path: Path) -> None:
    """Each has a folder of its own, and files have all columns; relations without a location are not cut."""
    job = Job(tmp_path)
    job.apply("one", link=[("+", place, str(number)) for number, place in enumerate(ODD)], size=[("+", -1, 2)])
    found = job.changes("near", "one")
    assert len(found) == len({name.encode() for name in found}) == len(ODD)
    assert sorted(row for rows in found.values() for row in rows) == sorted(("+", s, str(n)) for n, s in enumerate(ODD))
    assert all(len(rows) == 1 and is_location(name) and len(name.encode()) < 255 for name, rows in found.items())
    expected = {
        "a/b": "location=a%2Fb",
        "..": "location=..",
        "": "location=__HIVE_DEFAULT_PARTITION__",
        "é": "location=é",
    }
    for place, name in expected.items():
        assert found[name] == [("+", place, str(ODD.index(place)))]
    assert list(job.changes("count", "one")) == ["batch=one"]
    # Columns are called like the partition column, but for case.
    assert job.changes("size", "one") == {"_location=-1": [("+", -1, 2)]}
    job.apply("two", link=[("-", place, str(number)) for number, place in enumerate(ODD)][:3])
    assert sorted(job.changes("near", "two")) == ["location=.", "location=..", "location=a%2Fb"]
    # Without the option, changes are not cut.
    job.apply("three", None, link=[("+", "a", "b")])
    assert job.changes("near", "three") == {"batch=three": [("+", "a", "b")]}


def test_constant_locations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is at one location has its folder, though no column says so; a program may have nothing else to cut."""
    text = 'input relation up(@a: string)  output relation ready@"n/1"  output relation on@7  output relation gone@"" '
    made = program(text + 'ready@"n/1" :- up(@"x").  on@7 :- up(@"y").  gone@"" :- up(@"x").')
    job = Job(tmp_path, made)
    job.apply("one", up=[("+", "x"), ("+", "y")])
    assert job.changes("ready", "one") == {"location=n%2F1": [("+",)]}
    assert job.changes("on", "one") == {"location=7": [("+",)]}
    assert job.changes("gone", "one") == {"location=__HIVE_DEFAULT_PARTITION__": [("+",)]}
    job.apply("two", None, up=[("-", "x")])
    assert job.changes("ready", "two") == {"batch=two": [("-",)]}
    assert job.changes("on", "two") == {}
    folder = job.state / "published" / "ready" / "changes" / "batch=one"
    other = program("input relation ready  output p.  p :- ready.")
    reader = Job(tmp_path / "second", other)
    apply_batch(
        other, LocalExecutor(), str(reader.state), {"ready": str(folder)}, "one", op_column="op", log=Log(quiet=True)
    )
    assert reader.changes("p", "one") == {"batch=one": [("+",)]}
    for at, code in (("7", 0), ("8", 1)):
        assert run_command(made, ["show", "on", "--state", str(job.state), "--at", at]) == code
    assert 'on is at 7 only, not at "8"' in capsys.readouterr().err


def test_readers_of_hive_folders(tmp_path: Path) -> None:
    """DuckDB reads locations as a partition column: as they are, unless they are empty or too long."""
    job = Job(tmp_path)
    job.apply("one", link=[("+", place, "x") for place in ODD])
    sql = (
        "SELECT src, location, batch FROM read_parquet(?, hive_partitioning = true, hive_types_autocast = false) "
        "ORDER BY src"
    )
    folder = job.state / "published" / "near" / "changes"
    files = [str(path) for path in folder.rglob("*.parquet")]
    rows = duckdb.connect().execute(sql, [files]).fetchall()
    assert {(place, location) for place, location, _ in rows if place not in ("", "x" * 300, "é" * 200)} == {
        (place, place) for place in ODD if place and len(place) < 200
    }
    (location,) = {location for place, location, _ in rows if place == ""}
    assert location in (None, "__HIVE_DEFAULT_PARTITION__")
    assert {batch for _, _, batch in rows} == {"one"}


@AT_NIGHT
def test_spark_reads_them(spark: Any, tmp_path: Path) -> None:
    """As a partition column, of all batches, beside the exact values in the files."""
    job = Job(tmp_path)
    job.apply("one", link=[("+", place, "x") for place in ODD])
    job.apply("two", link=[("-", "a/b", "x")])
    reading = spark.read.option("basePath", str(job.state / "published" / "near" / "changes"))
    inferred = "spark.sql.sources.partitionColumnTypeInference.enabled"
    spark.conf.set(inferred, "false")
    try:
        frame = reading.parquet(str(job.state / "published" / "near" / "changes"))
        rows = {(row["src"], row["location"], row["batch"]) for row in frame.collect()}
    finally:
        spark.conf.unset(inferred)
    assert {row[0] for row in rows} == set(ODD) and len(rows) == len(ODD) + 1
    assert ("a/b", "a/b", "two") in rows and ("", None, "one") in rows
    short = [row for row in rows if 0 < len(row[0]) < 200]
    assert all(place == location for place, location, _ in short), short


def test_names_of_folders() -> None:
    """Long names are cut, but not within an escape, and differ from all short ones."""
    for length in range(LONGEST_LOCATION - 4, LONGEST_LOCATION + 4):
        name = location_folder((), "/" * 10 + "y" * (length - 30) + "/////")
        assert "%^" not in name and "%2^" not in name and len(name.encode()) <= 255
    long = location_folder((), "z" * 500)
    assert location_folder((), long.removeprefix("location=")) != long
    assert location_folder(["Location", "_location"], 3) == "__location=3"
    assert location_folder([], True) == "location=true"
    assert not is_location("relocation=1") and is_location("_location=")


def test_many_locations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file for each, written one after the other, also where rows of one are in several batches of rows."""
    from flintlog.runtime.store import cut_by_value

    monkeypatch.setattr(cut_by_value, "ROWS_CUT_AT_ONCE", 100)
    monkeypatch.setattr(publish, "ROWS_CUT_AT_ONCE", 100)
    job = Job(tmp_path)
    rng = random.Random(1)
    rows = [("+", f"n{number}", str(rng.random())) for number in range(1500) for _ in range(number % 3 + 1)]
    rows += [("+", "hub", str(number)) for number in range(5000)]
    rng.shuffle(rows)
    job.apply("one", link=rows)
    found = job.changes("near", "one")
    assert len(found) == 1501 and len(found["location=hub"]) == 5000
    assert sorted(row for some in found.values() for row in some) == sorted(rows)
    folder = job.state / "published" / "near" / "changes" / "batch=one"
    assert all(len([*place.iterdir()]) == 1 for place in folder.iterdir())


def test_names_that_a_file_system_takes_for_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file replaces another."""
    monkeypatch.setattr(publish, "location_folder", lambda columns, value: f"location={str(value).lower()}")
    job = Job(tmp_path)
    job.apply("one", link=[("+", "A", "1"), ("+", "a", "2")])
    assert job.changes("near", "one") == {"location=a": [("+", "A", "1"), ("+", "a", "2")]}


def test_jobs_read_what_is_cut(tmp_path: Path) -> None:
    """Published changes are changes for another job, whether they are cut or not."""
    job = Job(tmp_path / "first")
    job.apply("one", link=[("+", place, "x") for place in ODD])
    job.apply("two", link=[("-", place, "x") for place in ODD[2:]])
    other = program("input relation near(@src: string, op: string)  output p.  p(@S) :- near(@S, _).")
    reader = Job(tmp_path / "second", other)
    for batch in ("one", "two"):
        folder = job.state / "published" / "near" / "changes" / f"batch={batch}"
        apply_batch(
            other,
            LocalExecutor(),
            str(reader.state),
            {"near": str(folder)},
            batch,
            op_column="_op",
            log=Log(quiet=True),
        )
    found = [row for rows in reader.changes("p", "two").values() for row in rows]
    assert sorted(found) == sorted(("-", place) for place in ODD[2:])
    # Any other subfolder is refused, as ever.
    (tmp_path / "other" / "x").mkdir(parents=True)
    with pytest.raises(JobError, match=r"contains a folder, x"):
        apply_batch(other, LocalExecutor(), str(reader.state), {"near": str(tmp_path / "other")}, log=Log(quiet=True))


def test_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By anything else, or without a location."""
    job = Job(tmp_path)
    with pytest.raises(JobError, match=r'changes can be published by location, not by "src"'):
        job.apply("one", "src", link=[("+", "a", "b")])
    plain = program("input relation e(x: int)  output p.  p(X) :- e(X).")
    with pytest.raises(JobError, match=r"no output relation of test.dl has a location \(@\) to publish changes by"):
        apply_batch(plain, LocalExecutor(), str(tmp_path / "none"), {}, publish_by="location")
    changes = tmp_path / "link.csv"
    changes.write_text("op,src,dst\n+,a,b\n")
    arguments = ["--state", str(job.state), "--changes", str(changes), "--batch", "x", "--publish-by", "location"]
    assert run_command(PROGRAM, ["apply", *arguments]) == 0
    assert job.changes("near", "x") == {"location=a": [("+", "a", "b")]}
    assert "near/changes/batch=x" in capsys.readouterr().out


def test_files_of_others(tmp_path: Path) -> None:
    """What systems leave in folders is no publication."""
    batch = tmp_path / "batch=1"
    for place in (
        ".DS_Store",
        "a.parquet",
        ".nfs0001",
        "location=x/b.parquet",
        "location=x/.nfs0002",
        "note/c.parquet",
    ):
        (batch / place).parent.mkdir(parents=True, exist_ok=True)
        (batch / place).write_text("")
    assert [str(path.relative_to(batch)) for path in publish.published_files(batch)] == [
        "a.parquet",
        "location=x/b.parquet",
    ]


def test_rebuild_and_recover(tmp_path: Path) -> None:
    """They cut what they publish, and remove what a lost commit has published."""
    job = Job(tmp_path)
    job.apply("one", link=[("+", "a", "b")])
    job.apply("two", link=[("+", "c", "d")])
    manifest = job.state / "manifest" / f"{read_state(job.state).commit:012d}.json"
    manifest.write_bytes(manifest.read_bytes()[:-9] + b'00000000"}')
    assert recover_state(PROGRAM, str(job.state), log=Log(quiet=True))["unpublished"] != []
    assert job.changes("near", "two") == {}
    assert job.changes("near", "one") == {"location=a": [("+", "a", "b")]}
    given = tmp_path / "link.csv"
    given.write_text("src,dst\nq,r\n")
    result = rebuild_state(
        PROGRAM, LocalExecutor(), str(job.state), {"link": str(given)}, publish_by="location", log=Log(quiet=True)
    )
    assert job.changes("near", result["batch"]) == {"location=a": [("-", "a", "b")], "location=q": [("+", "q", "r")]}


def killed_at(step: int, job: Job) -> bool:
    """Apply a batch in a fork that is killed before its ``step``-th access to files that are published."""

    def work() -> None:
        kill_at(step, published)
        job.apply("two", link=[("+", place, "x") for place in "abcde"])

    ended = in_child(work, seconds=60)
    assert ended in (0, signal.SIGKILL)
    return ended != 0


def published(event: str, arguments: tuple[object, ...]) -> bool:
    """Whether a step concerns files that are published."""
    return event in ("open", "os.rename", "os.mkdir", "os.link") and "/near/" in str(arguments)


@by_day(1)
@pytest.mark.parametrize("stride", [41, pytest.param(1, marks=AT_NIGHT)])
def test_kills(stride: int, tmp_path: Path) -> None:
    """Killed before any access to the published files, the next command publishes all of them, once."""
    killed, step = True, 1
    expected = {f"location={place}": [("+", place, "x")] for place in "abcde"}
    while killed:
        job = Job(tmp_path / str(step))
        job.apply("one", link=[("+", "first", "x")])
        killed = killed_at(step, job)
        partial = job.changes("near", "two")
        assert partial in ({}, expected), step
        if "two" in read_state(job.state).batches:
            state_status(PROGRAM, str(job.state))
        else:
            job.apply("two", link=[("+", place, "x") for place in "abcde"])
        assert job.changes("near", "two") == expected, step
        job.apply("three", link=[("+", "last", "x")])
        left = [path.name for path in (job.state / "published" / "near" / "changes").iterdir()]
        assert sorted(left) == ["batch=one", "batch=three", "batch=two"], step
        step += stride
    assert step > 10
