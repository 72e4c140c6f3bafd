"""``--openlineage``: each batch is a run that starts, and ends as the batch did, with the datasets that it has."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from golden_tests.addons.feeds.world import FeedWorld, append, links, make_table
from golden_tests.nightly import by_day

#: Variables by which the client is configured, all of which a test must not have from elsewhere.
VARIABLES = ("CONFIG", "URL", "NAMESPACE", "PARENT_ID", "DISABLED", "API_KEY")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FeedWorld]:
    """A job in the present folder, and a client that appends events to a file."""
    for name in VARIABLES:
        monkeypatch.delenv(f"OPENLINEAGE_{name}", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "config.yml"
    path.write_text(f"transport:\n  type: file\n  log_file_path: {tmp_path}/events\n  append: true\n")
    monkeypatch.setenv("OPENLINEAGE_CONFIG", str(path))
    made = FeedWorld(tmp_path)
    yield made
    made.close()


def events(folder: Path) -> list[dict[str, Any]]:
    """Return the events since the last call."""
    path = folder / "events"
    found = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    path.unlink(missing_ok=True)
    return found


def tags(event: dict[str, Any]) -> dict[str, str]:
    """Return the tags of a run."""
    found = {tag["key"]: tag["value"] for tag in event["run"]["facets"]["tags"]["tags"]}
    return {name: value for name, value in found.items() if not name.startswith("openlineage")}


def names(event: dict[str, Any], side: str) -> list[tuple[str, str]]:
    """Return the names of the datasets on one side."""
    return [(one["namespace"], one["name"]) for one in event[side]]


def test_batches(world: FeedWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files: what is read and published, and how each batch ends."""
    rows, changes = tmp_path / "link.csv", tmp_path / "changes"
    rows.write_text("src;dst\n1;2\n")
    assert world.run("init", "--input", f"link={rows}?delimiter=;") == 0
    assert events(tmp_path) == []
    monkeypatch.setenv("OPENLINEAGE_NAMESPACE", "night")
    monkeypatch.setenv("OPENLINEAGE_PARENT_ID", "airflow/dag.a/b/01890a5d-ac96-774b-bcce-b302099a8057")
    changes.mkdir()
    (changes / "link.csv").write_text("op,src,dst\n+,2,3\n")
    (changes / "person.csv").write_text("op,id,name\n+,3,Ann\n")
    assert world.run("apply", "--changes", "changes", "--batch", "x", "--openlineage") == 0
    start, end = events(tmp_path)
    assert [one["eventType"] for one in (start, end)] == ["START", "COMPLETE"]
    assert start["run"]["runId"] == end["run"]["runId"]
    assert start["eventTime"] < end["eventTime"]
    for one in (start, end):
        assert (one["job"]["namespace"], one["job"]["name"]) == ("night", "net.apply")
        assert names(one, "inputs") == [("file", str(changes / "link.csv")), ("file", str(changes / "person.csv"))]
        published = str(world.state / "published")
        expected = [("file", f"{published}/{name}/changes") for name in ("reachable", "named")]
        assert names(one, "outputs") == expected
        fields = one["inputs"][0]["facets"]["schema"]["fields"]
        assert [(field["name"], field["type"]) for field in fields] == [("src", "int"), ("dst", "int")]
        assert one["run"]["facets"]["parent"]["job"]["name"] == "dag.a/b"
        assert one["producer"].startswith("urn:flintlog:")
    assert tags(end) == {**tags(start), "commit": "2"} == {"batch": "x", "state": str(world.state), "commit": "2"}
    assert [one["outputFacets"]["outputStatistics"]["rowCount"] for one in end["outputs"]] == [2, 1]
    # Applied before: there is no batch.
    assert world.run("apply", "--changes", "changes", "--batch", "x", "--openlineage") == 0
    assert events(tmp_path) == []
    (changes / "link.csv").write_text("op,src,dst\n+,2,x\n")
    assert world.run("apply", "--changes", "changes", "--batch", "y", "--openlineage") == 1
    start, end = events(tmp_path)
    assert (start["eventType"], end["eventType"]) == ("START", "FAIL")
    assert 'column dst: "x" is not an int' in end["run"]["facets"]["errorMessage"]["message"]
    assert world.run("rollback", "--to", "1", "--openlineage") == 0
    assert [(one["eventType"], one["job"]["name"], one["inputs"]) for one in events(tmp_path)] == [
        ("START", "net.rollback", []),
        ("COMPLETE", "net.rollback", []),
    ]
    with monkeypatch.context() as patch:

        def interrupted(*_: Any, **__: Any) -> None:
            raise KeyboardInterrupt

        patch.setattr(world.job, "run_stages", interrupted)
        (changes / "link.csv").write_text("op,src,dst\n+,2,3\n")
        with pytest.raises(KeyboardInterrupt):
            world.run("apply", "--changes", "changes", "--openlineage")
        assert events(tmp_path)[-1]["eventType"] == "ABORT"
    (tmp_path / "batches").mkdir()
    changes.rename(tmp_path / "batches" / "z")
    assert world.run("apply", "--batches", "batches", "--openlineage") == 0
    assert [tags(one)["batch"] for one in events(tmp_path)] == ["z", "z"]


def test_feeds_and_tables(world: FeedWorld, tmp_path: Path) -> None:
    """A feed is an input if it has moved on, and a table that a relation is kept as an output."""
    table = make_table(tmp_path / "lake", links((1, 2)))
    assert world.run("connect", f"link=delta:{table}") == 0
    assert world.run("init", "--publish", f"delta:{tmp_path}/views", "--openlineage") == 0
    _, end = events(tmp_path)
    assert (end["eventType"], end["job"]["name"], names(end, "inputs")) == ("COMPLETE", "net.init", [("file", table)])
    assert ("file", f"{tmp_path}/views/reachable") in names(end, "outputs")
    assert world.run("apply", "--openlineage") == 0
    assert events(tmp_path) == []
    append(table, (2, 3))
    assert world.run("apply", "--openlineage") == 0
    start, _ = events(tmp_path)
    assert (tags(start)["batch"], names(start, "inputs")) == ("link@0..1", [("file", table)])
    assert ("file", f"{tmp_path}/views/reachable") in names(start, "outputs")


def test_a_batch_that_is_none(world: FeedWorld, tmp_path: Path) -> None:
    """A table that is compared again and again starts a run only if something differs."""
    job = world.job
    log = job.Log(quiet=True)
    lineage = job.Lineage(job.PROGRAM, log)
    record = job.FeedRecord("table:db.link", position={"reads": 2})
    request = job.Request(job.PROGRAM, job.LocalExecutor(), tmp_path, log)
    about = (request, None, job.Batch("link@1..2", feeds={"link": record}))
    lineage.begin(*about)
    lineage.fail(job.NothingDiffers())
    lineage.close()
    assert events(tmp_path) == []
    lineage = job.Lineage(job.PROGRAM, log)
    lineage.begin(*about)
    lineage.fail(job.JobError("refused"))
    lineage.close()
    start, end = events(tmp_path)
    assert (start["eventType"], end["eventType"]) == ("START", "FAIL")
    assert start["eventTime"] < end["eventTime"]
    assert names(start, "inputs") == [("spark", "db.link")]


def test_a_server_that_does_not_answer(
    world: FeedWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No batch waits for it, the command only for some time; what waits is bounded."""
    job, release, taken = world.job, threading.Event(), []
    log = job.Log(quiet=True)
    lineage, request = job.Lineage(job.PROGRAM, log), job.Request(job.PROGRAM, job.LocalExecutor(), tmp_path, log)

    def emit(event: Any) -> None:
        taken.append(event)
        release.wait(60)

    monkeypatch.setattr(lineage.client, "emit", emit)
    monkeypatch.setattr(job, "SECONDS_TO_SEND", 0.1)
    for _ in range(job.EVENTS_WAITING):
        lineage.begin(request, None, job.Batch("x"))
        lineage.fail(job.JobError("refused"))
    threading.Timer(0.5, release.set).start()
    lineage.close()
    said = f"OpenLineage does not answer; events about batches that were not sent: {2 * job.EVENTS_WAITING - 1}\n"
    assert said in capsys.readouterr().err
    assert len(taken) == 1


@by_day(4)
@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("/a/b.csv", ("file", "/a/b.csv")),
        ("file:///a/b", ("file", "/a/b")),
        ("s3://bucket/a/b/", ("s3://bucket", "a/b")),
        ("s3://key:secret@bucket/a?delimiter=tab", ("s3://bucket", "a")),
        ("files:/in?null=NA", ("file", "/in")),
        ("delta:s3://bucket/lake", ("s3://bucket", "lake")),
        ("iceberg:lake/db.person", ("iceberg://lake", "db.person")),
        ("kafka-debezium://broker:9092/db.orders?complete=true", ("kafka://broker:9092", "db.orders")),
        ("table:db.link", ("spark", "db.link")),
        ("stream:1234", ("spark-stream", "1234")),
    ],
)
def test_names(world: FeedWorld, source: str, expected: tuple[str, str]) -> None:
    """Datasets have the names that others give them, without keys."""
    assert list(world.job.datasets([source, object()])) == [expected]


def test_what_is_missing(
    world: FeedWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client, its configuration, or the place that events go to: only the first two are errors."""
    assert world.run("init") == 0
    change = tmp_path / "link.csv"
    change.write_text("op,src,dst\n+,2,3\n")

    def said(code: int = 1) -> str:
        capsys.readouterr()
        assert world.run("apply", "--changes", str(change), "--openlineage") == code
        return " ".join(capsys.readouterr().err.split())

    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "openlineage.client", None)
        assert "run `pip install openlineage-python`" in said()
    with monkeypatch.context() as patch:
        patch.delenv("OPENLINEAGE_CONFIG")
        assert "set OPENLINEAGE_URL to the address of a server, or OPENLINEAGE_CONFIG to a file" in said()
        patch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "pigeon")
        assert "the client of OpenLineage cannot be configured: " in said()
        patch.setenv("OPENLINEAGE_DISABLED", "true")
        assert said(0) == ""
    with monkeypatch.context() as patch:
        patch.setenv("OPENLINEAGE_PARENT_ID", "airflow/dag/7")
        assert 'OPENLINEAGE_PARENT_ID is "airflow/dag/7"; it should be NAMESPACE/JOB/ID, and the ID a UUID' in said()
    change.write_text("op,src,dst\n-,2,3\n")
    (tmp_path / "events").mkdir()
    assert "warning: an event about this batch was not sent to OpenLineage: Failed to write" in said(0)
    assert world.rows("link") == set()
