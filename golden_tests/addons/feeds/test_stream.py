"""Micro-batches of streaming queries, each applied once."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from golden_tests.addons.feeds.world import FeedWorld
from golden_tests.documentation.pages import ROOT, pieces
from golden_tests.nightly import AT_NIGHT, seeds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHANGES = "op STRING, src BIGINT, dst BIGINT"

Told = Callable[..., dict[str, Any]]


@pytest.fixture
def built(world: FeedWorld) -> FeedWorld:
    """A job with an empty state."""
    assert world.run("init") == 0
    return world


@pytest.fixture
def given(built: FeedWorld, spark: SparkSession) -> Iterator[Told]:
    """Apply a micro-batch with changes of links, as a query would."""
    context = spark.sparkContext

    def apply(query: str, number: int, *rows: tuple[str, int, int], relation: Any = "link") -> dict[str, Any]:
        context.setLocalProperty("sql.streaming.queryId", query)
        frame = spark.createDataFrame(list(rows), CHANGES)
        return told(built, frame, number, relation)

    yield apply
    context._jsc.sc().setLocalProperty("sql.streaming.queryId", None)


def told(world: FeedWorld, frame: DataFrame, number: int, relation: Any = "link", **options: Any) -> dict[str, Any]:
    """Apply a micro-batch without progress."""
    quiet = world.job.Log(quiet=True)
    result: dict[str, Any] = world.job.apply_micro_batch(
        frame, number, str(world.state), relation, log=quiet, **options
    )
    return result


def position(world: FeedWorld, name: str = "link") -> int:
    """The last micro-batch that a relation has had."""
    number: int = world.manifest.feeds[name].position["batch"]
    return number


def test_each_batch_once(built: FeedWorld, given: Told, capsys: pytest.CaptureFixture[str]) -> None:
    """A batch that is run again changes nothing, and the query is part of the state."""
    assert given("q1", 0, ("+", 1, 2))["batch"] == "link@q1.0"
    assert given("q1", 1, ("-", 1, 2), ("+", 2, 3))["applied"]
    for number in (1, 0):
        assert given("q1", number, ("+", 7, 8)) == {
            "program": "net.dl",
            "batch": f"link@q1.{number}",
            "commit": 3,
            "applied": False,
        }
    built.check({(2, 3)})
    capsys.readouterr()
    assert built.run("status") == 0
    assert "link is fed by stream:q1, read up to batch 1" in capsys.readouterr().out


@AT_NIGHT
def test_batches_that_do_not_follow(built: FeedWorld, given: Told) -> None:
    """Another query, missing batches and other ways to change the relation are refused; a way out is named."""
    given("q1", 4, ("+", 1, 2))
    job, root = built.job, str(built.state)
    with pytest.raises(job.JobError, match=r"by the streaming query q1, and this is the query q2.*connect --remove"):
        given("q2", 0, ("+", 1, 2))
    with pytest.raises(job.JobError, match=r"q1 up to 4, and this is number 6: those between are missing"):
        given("q1", 6, ("+", 1, 2))
    with pytest.raises(job.JobError, match="is not the number that foreachBatch passes"):
        given("q1", -1)
    for wrong in ("0", True):
        with pytest.raises(TypeError, match=r"batch_id is ('0'|True); it must be int"):
            given("q1", wrong)  # type: ignore[arg-type]
    with pytest.raises(job.JobError, match="no relation nobody"):
        given("q1", 5, relation="nobody")
    with pytest.raises(job.JobError, match="give a relation"):
        given("q1", 5, relation={})
    file = built.folder / "link.csv"
    file.write_text("op,src,dst\n+,5,6\n")
    with pytest.raises(job.JobError, match="link is fed by stream:q1: change its rows there"):
        job.apply(None, root, str(file))
    with pytest.raises(job.JobError, match="its changes cannot be read again here"):
        job.apply(None, root, resync=["link"])
    with pytest.raises(job.JobError, match="no feed is connected"):
        job.apply(None, root)
    assert built.manifest.commit == 2
    # Where batches were undone, the query must not go on as if they were there.
    given("q1", 5, ("+", 2, 3))
    assert built.run("rollback", "--to", "2") == 0
    with pytest.raises(job.JobError, match=r"up to 4, and this is number 6"):
        given("q1", 6)
    assert given("q1", 5, ("+", 2, 3))["published"]["reachable"].endswith("@5")
    assert built.run("connect", "--remove", "link") == 0
    assert not given("q1", 5, ("+", 7, 8))["applied"]
    assert given("q2", 0, ("+", 3, 4))["applied"]
    built.check({(1, 2), (2, 3), (3, 4)})


def test_rows_that_are_refused(built: FeedWorld, given: Told, spark: SparkSession) -> None:
    """The batch can be applied once what was wrong is mended."""
    with pytest.raises(built.job.Refused, match="unknown operation"):
        given("q1", 0, ("?", 1, 2))
    with pytest.raises(built.job.Refused, match="column op is missing"):
        told(built, spark.createDataFrame([(1, 2)], "src BIGINT, dst BIGINT"), 0)
    assert told(built, spark.createDataFrame([(1, 2)], "src BIGINT, dst BIGINT"), 0, all_inserts=True)["applied"]
    assert position(built) == 0
    built.check({(1, 2)})


def test_other_versions_and_given_rows(built: FeedWorld, given: Told) -> None:
    """A query goes on after `rebuild` and `compact`, also if rows were given anew; other feeds are beside it."""
    given("q1", 0, ("+", 1, 2))
    file = built.folder / "link.csv"
    file.write_text("src,dst\n8,9\n")
    assert built.run("rebuild", "--input", f"link={file}") == built.run("compact") == 0
    (built.folder / "incoming").mkdir()
    (built.folder / "incoming" / "1.csv").write_text("op,id,name\n+,9,nine\n")
    assert built.run("connect", f"person=files:{built.folder}/incoming") == built.run("apply") == 0
    assert not given("q1", 0, ("+", 1, 2))["applied"]
    assert given("q1", 1, ("+", 9, 1))["applied"]
    built.check({(8, 9), (9, 1)})
    assert built.rows("named") == {(8, "nine")}


def test_the_checkpoint_tells_the_query(built: FeedWorld, spark: SparkSession, tmp_path: Path) -> None:
    """Where Spark does not."""
    frame = spark.createDataFrame([("+", 1, 2)], CHANGES)
    with pytest.raises(built.job.JobError, match="pass checkpoint=FOLDER"):
        told(built, frame, 0)
    with pytest.raises(built.job.JobError, match="is not the checkpoint of a streaming query"):
        told(built, frame, 0, checkpoint=str(tmp_path))
    (tmp_path / "metadata").write_text('{"id":"q7"}')
    assert told(built, frame, 0, checkpoint=str(tmp_path))["batch"] == "link@q7.0"


class Queries:
    """Streaming queries that read folders of change files, a file in each micro-batch."""

    def __init__(self, world: FeedWorld, spark: SparkSession) -> None:
        """Begin without files."""
        self.world, self.spark, self.files = world, spark, 0
        for name in ("link", "person"):
            (world.folder / f"new_{name}").mkdir()

    def write(self, name: str, text: str) -> None:
        """Write a file."""
        self.files += 1
        path = self.world.folder / f"new_{name}" / f"{self.files}.csv"
        path.write_text(text)
        os.utime(path, (self.files, self.files))

    def run(self, name: str, relation: Callable[[DataFrame], Any]) -> Any:
        """Start the query of a folder, which ends when it has read all files; return it."""
        schema = "op STRING, a BIGINT, b STRING"
        stream = self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)

        def each(frame: DataFrame, number: int) -> None:
            told(self.world, frame, number, relation(frame))

        writer = stream.csv(f"{self.world.folder}/new_{name}").writeStream.foreachBatch(each)
        started = writer.option("checkpointLocation", str(self.world.folder / f"seen_{name}"))
        return started.trigger(availableNow=True).start()

    def forget(self, name: str) -> None:
        """Remove the last file of the log of commits, as if the query had been killed before it was written."""
        folder = self.world.folder / f"seen_{name}" / "commits"
        last = max((path for path in folder.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
        last.unlink()
        (folder / f".{last.name}.crc").unlink(missing_ok=True)


def links_and_people(frame: DataFrame) -> dict[str, DataFrame]:
    """Frames for two relations in the rows of one stream: people have names."""
    return {
        "link": frame.where("b RLIKE '^[0-9]+$'").selectExpr("op", "a AS src", "CAST(b AS BIGINT) AS dst"),
        "person": frame.where("b NOT RLIKE '^[0-9]+$'").selectExpr("op", "a AS id", "b AS name"),
    }


def test_queries(built: FeedWorld, spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """A query for two relations; its last batch is run again; a second one beside it, at the same time."""
    queries = Queries(built, spark)
    queries.write("link", "+,1,2\n+,2,two\n")
    queries.write("link", "-,1,2\n+,2,3\n+,2,zwei\n")
    queries.run("link", links_and_people).awaitTermination(60)
    built.check({(2, 3)})
    assert built.rows("person") == {(2, "zwei")}
    assert (position(built, "link"), position(built, "person"), built.manifest.commit) == (1, 1, 3)
    queries.forget("link")
    queries.write("link", "+,3,4\n")
    again = queries.run("link", links_and_people)
    again.awaitTermination(60)
    built.check({(2, 3), (3, 4)})
    assert (position(built, "link"), built.manifest.commit) == (2, 4)
    # A new checkpoint is another query.
    other = queries.run("person", lambda frame: {"person": frame.selectExpr("op", "a AS id", "b AS name")})
    assert other.awaitTermination(60)
    queries.write("person", "+,5,five\n")
    other = queries.run("person", lambda frame: {"person": frame.selectExpr("op", "a AS id", "b AS name")})
    with pytest.raises(Exception, match="is changed by the streaming query"):
        other.awaitTermination(60)
    assert built.run("connect", "--remove", "person") == 0
    capsys.readouterr()
    for number in range(2):
        queries.write("link", f"+,{number},7\n")
        queries.write("person", f"+,{number},{number}\n")
    both = [
        queries.run("link", lambda frame: {"link": links_and_people(frame)["link"]}),
        queries.run("person", lambda frame: {"person": frame.selectExpr("op", "a AS id", "b AS name")}),
    ]
    for query in both:
        assert query.awaitTermination(60) is True
        assert query.exception() is None
    built.check({(2, 3), (3, 4), (0, 7), (1, 7)})
    assert built.rows("person") == {(2, "zwei"), (5, "five"), (0, "0"), (1, "1")}


def test_the_recipe(world: FeedWorld, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The script on the page of feeds."""
    page = (ROOT / "docs" / "feeds.md").read_text(encoding="utf-8")
    (recipe,) = (piece.text for piece in pieces(page) if piece.what == "stream.py")
    (world.folder / "arriving").mkdir()
    (world.folder / "arriving" / "1.csv").write_text("op,src,dst\n+,1,2\n+,2,3\n")
    assert world.run("init") == 0
    monkeypatch.chdir(world.folder)
    monkeypatch.setitem(sys.modules, "net", world.job)
    # The JVM of all tests was started elsewhere.
    recipe = re.sub('"(arriving|checkpoint)"', rf'"{world.folder}/\1"', recipe)
    for _ in range(2):
        exec(compile(recipe, "stream.py", "exec"), {})
    world.check({(1, 2), (2, 3)})
    assert (world.manifest.commit, position(world)) == (2, 0)


def test_a_commit_of_another_process_comes_first(
    built: FeedWorld, given: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch is applied after it."""
    (built.folder / "incoming").mkdir()
    own, raced = built.job.run_and_commit, []

    def racing(*given: Any) -> Any:
        if not raced:
            raced.append(True)
            thread = threading.Thread(target=lambda: built.run("connect", f"person=files:{built.folder}/incoming"))
            thread.start()
            thread.join()
        return own(*given)

    monkeypatch.setattr(built.job, "run_and_commit", racing)
    assert given("q1", 0, ("+", 1, 2))["commit"] == 3
    assert set(built.manifest.feeds) == {"link", "person"}
    built.check({(1, 2)})


@AT_NIGHT
@pytest.mark.parametrize("seed", seeds(0, 2))
def test_killed_queries(tmp_path: Path, seed: int) -> None:
    """Two queries are killed at random moments and started again, now and then with the last batch to run again."""
    command = [sys.executable, "-m", "golden_tests.addons.feeds.kill_stream", str(seed), "20"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.splitlines()[-1]) >= 10
