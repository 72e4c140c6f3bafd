"""Feeds and tables of outputs in S3, as a server on this machine speaks it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import pytest
from deltalake import DeltaTable, write_deltalake

from golden_tests.addons.feeds.world import RECORDED, FeedWorld, links, refusal
from golden_tests.nightly import AT_NIGHT

OPTIONS = {"AWS_ALLOW_HTTP": "true"}


@pytest.fixture(scope="module")
def s3() -> Iterator[Any]:
    """A client of a server in a process of its own, which libraries find by the environment: they may wait for it
    without letting Python go on."""
    pytest.importorskip("moto.server", reason="moto is not installed")
    boto3 = pytest.importorskip("boto3", reason="the extra s3 is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    settings = {
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
    }
    try:
        for _ in range(300):
            with socket.socket() as tried:
                if tried.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        with mock.patch.dict(os.environ, settings):
            client = boto3.client("s3")
            client.create_bucket(Bucket="lake")
            yield client
    finally:
        server.kill()
        server.wait()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[FeedWorld]:
    """A job without a state."""
    made = FeedWorld(tmp_path)
    yield made
    made.close()


def test_delta_tables(s3: Any, world: FeedWorld) -> None:
    """A Delta table is a feed, and the views are Delta tables, each commit one version."""
    write_deltalake("s3://lake/link", links((1, 2), (5, 6)), configuration=RECORDED, storage_options=OPTIONS)
    assert world.run("connect", "link=delta:s3://lake/link") == 0
    assert world.run("init", "--publish", "delta:s3://lake/views") == 0
    write_deltalake("s3://lake/link", links((2, 3)), mode="append", storage_options=OPTIONS)
    DeltaTable("s3://lake/link", storage_options=OPTIONS).delete("src = 5")
    assert world.run("apply") == 0
    assert world.run("apply") == 0
    world.check([(1, 2), (2, 3)])
    view = DeltaTable("s3://lake/views/reachable", storage_options=OPTIONS)
    assert view.version() == 1
    assert {tuple(row.values()) for row in view.to_pyarrow_table().to_pylist()} == world.rows("reachable")


def test_a_table_written_anew(s3: Any, world: FeedWorld, capsys: pytest.CaptureFixture[str]) -> None:
    """The version that was read is told from another one with its number."""
    write_deltalake("s3://lake/again", links((1, 2)), configuration=RECORDED, storage_options=OPTIONS)
    write_deltalake("s3://lake/again", links((2, 3)), mode="append", storage_options=OPTIONS)
    assert world.run("connect", "link=delta:s3://lake/again") == world.run("init") == 0
    s3.delete_object(Bucket="lake", Key="again/_delta_log/00000000000000000001.json")
    for pair in ((7, 8), (8, 9)):
        write_deltalake("s3://lake/again", links(pair), mode="append", storage_options=OPTIONS)
    assert "has another version 1" in refusal(world, capsys)
    assert world.run("apply", "--resync", "link") == 0
    world.check([(1, 2), (7, 8), (8, 9)])


def test_a_version_that_another_writer_took(s3: Any, world: FeedWorld) -> None:
    """The store refuses a version that exists, so nobody overwrites it; the table is compared and follows."""
    body = b"op,src,dst\n+,1,2\n"
    s3.put_object(Bucket="lake", Key="turns/1.csv", Body=body)
    assert world.run("connect", "link=files:s3://lake/turns") == 0
    assert world.run("init", "--publish", "delta:s3://lake/raced") == 0
    s3.put_object(Bucket="lake", Key="turns/2.csv", Body=body.replace(b"1,2", b"2,3"))
    real, calls = DeltaTable.merge, []

    def interrupted(table: DeltaTable, *given: Any, **named: Any) -> Any:
        if not calls:
            calls.append(1)
            DeltaTable("s3://lake/raced/reachable", storage_options=OPTIONS).delete("src = 1")
        return real(table, *given, **named)

    s3.put_object(Bucket="lake", Key="turns/3.csv", Body=body.replace(b"+,1,2", b"-,1,2"))
    with mock.patch.object(DeltaTable, "merge", interrupted):
        assert world.run("apply") == 0
    assert calls
    world.check([(2, 3)])
    view = DeltaTable("s3://lake/raced/reachable", storage_options=OPTIONS)
    assert [tuple(row.values()) for row in view.to_pyarrow_table().to_pylist()] == [(2, 3)]


def test_files(s3: Any, world: FeedWorld, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of change files is a feed, and the state may be in the store, too. Tags tell that files are the same."""
    s3.put_object(Bucket="lake", Key="changes/1.csv", Body=b"op,src,dst\n+,1,2\n")
    state = ("--state", "s3://lake/state", "--quiet")
    job = world.job
    assert job.main(["connect", *state, "link=files:s3://lake/changes"]) == 0
    assert job.main(["init", *state]) == 0
    s3.put_object(Bucket="lake", Key="changes/2.csv", Body=b"op,src,dst\n+,2,3\n")
    assert job.main(["apply", *state]) == 0
    assert job.relation(None, "s3://lake/state", "reachable").num_rows == 3
    hashed: list[str] = []
    real = job.hash_of_file
    monkeypatch.setattr(job, "hash_of_file", lambda path, stamp: hashed.append(path) or real(path, stamp))
    assert job.main(["apply", *state]) == 0
    assert hashed == []
    s3.put_object(Bucket="lake", Key="changes/1.csv", Body=b"op,src,dst\n+,1,3\n")
    assert job.main(["apply", *state]) == 1
    assert "1.csv has other contents in its 17 bytes" in capsys.readouterr().err
    s3.put_object(Bucket="lake", Key="changes/1.csv", Body=b"op,src,dst\n+,1,2\n")
    assert job.main(["apply", *state]) == 0


def test_rows_set_aside(s3: Any, world: FeedWorld, tmp_path: Path) -> None:
    """The state is in the store, and bad rows are set aside in a folder outside; a command that fails before its commit
    leaves none there."""
    aside, state, job = tmp_path / "aside", ("--state", "s3://lake/aside", "--quiet"), world.job
    given = ("--input", f"link={tmp_path}/link.csv", "--quarantine", str(aside))
    (tmp_path / "link.csv").write_text("src,dst\n1,2\n1,x\n")
    assert job.main(["init", *state, *given]) == 0
    (shown,) = aside.rglob("*.jsonl")
    (tmp_path / "link.csv").write_text("op,src,dst\n+,2,3\n+,y,3\n")
    given = ("--changes", f"link={tmp_path}/link.csv", "--quarantine", str(aside), "--batch", "b")
    with mock.patch.object(job, "commit_manifest", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        job.main(["apply", *state, *given])
    assert [*aside.rglob("*.jsonl")] == [shown]
    # Killed there, it can remove nothing: the next command does.
    with (
        mock.patch.object(job, "commit_manifest", side_effect=KeyboardInterrupt),
        mock.patch.object(job, "is_committed", side_effect=OSError),
        pytest.raises(KeyboardInterrupt),
    ):
        job.main(["apply", *state, *given])
    assert len([*aside.rglob("*.jsonl")]) == 2
    (tmp_path / "link.csv").write_text("op,src,dst\n+,2,3\n")
    assert job.main(["apply", *state, "--changes", f"link={tmp_path}/link.csv"]) == 0
    assert [*aside.rglob("*.jsonl")] == [shown]
    assert job.relation(None, "s3://lake/aside", "reachable").num_rows == 3


@contextmanager
def iceberg_lake(folder: Path) -> Iterator[Any]:
    """A catalog of tables in the store, which is configured as users do it: without the store's address and keys."""
    import pyiceberg.catalog
    from pyiceberg.utils.config import Config

    settings = {
        "PYICEBERG_CATALOG__LAKE__URI": f"sqlite:///{folder}/catalog.db",
        "PYICEBERG_CATALOG__LAKE__WAREHOUSE": "s3://lake/warehouse",
    }
    with (
        mock.patch.dict(os.environ, settings),
        mock.patch.object(pyiceberg.catalog, "_ENV_CONFIG", Config()),
    ):
        yield pyiceberg.catalog.load_catalog(
            "lake", **{"s3.endpoint": os.environ["AWS_ENDPOINT_URL"], "s3.region": "us-east-1"}
        )


def test_iceberg_tables(s3: Any, world: FeedWorld, tmp_path: Path) -> None:
    """An Iceberg table of a catalog, and one without a catalog, are feeds."""
    with iceberg_lake(tmp_path) as catalog:
        catalog.create_namespace("db")
        table = catalog.create_table("db.link", links((1, 2)).schema)
        table.append(links((1, 2)))
        assert world.run("connect", "link=iceberg:lake/db.link") == 0
        assert world.run("init") == 0
        table.append(links((2, 3)))
        assert world.run("apply") == 0
        world.check([(1, 2), (2, 3)])
        place = f"iceberg:{table.refresh().metadata_location}"
    assert json.loads(s3.get_object(Bucket="lake", Key=place.partition("lake/")[2])["Body"].read())
    world.state = tmp_path / "other"
    assert world.run("connect", f"link={place}") == 0
    assert world.run("init") == 0
    world.check([(1, 2), (2, 3)])


@AT_NIGHT
def test_iceberg_views(s3: Any, world: FeedWorld, tmp_path: Path) -> None:
    """Views are Iceberg tables in the store, each commit one snapshot, also after somebody has removed one. Another job
    has them as a feed, and other readers find their files by a catalog, or without one."""
    reader = FeedWorld(tmp_path)
    reader.state = tmp_path / "reader"

    def change(number: int, *rows: str) -> None:
        body = "op,src,dst\n" + "".join(f"{row}\n" for row in rows)
        s3.put_object(Bucket="lake", Key=f"seen/{number}.csv", Body=body.encode())

    def seen() -> set[tuple[int, ...]]:
        with duckdb.connect() as connection:
            files = [task.file.file_path for task in catalog.load_table("views.reachable").scan().plan_files()]
            found: set[tuple[int, ...]] = set()
            for file in files:
                assert file.startswith("s3://lake/warehouse/")
                body = s3.get_object(Bucket="lake", Key=file.removeprefix("s3://lake/"))["Body"].read()
                (tmp_path / "file.parquet").write_bytes(body)
                found |= {*connection.execute(f"SELECT src, dst FROM '{tmp_path}/file.parquet'").fetchall()}
            return found

    def check(*pairs: tuple[int, int]) -> None:
        world.check(pairs)
        assert seen() == world.rows("reachable")
        assert reader.run("apply") == 0
        assert reader.rows("link") == world.rows("reachable")

    with iceberg_lake(tmp_path) as catalog:
        change(1, "+,1,2", "+,2,3")
        assert world.run("connect", "link=files:s3://lake/seen") == 0
        assert world.run("init", "--publish", "iceberg:lake.views") == 0
        assert reader.run("connect", "link=iceberg:lake/views.reachable") == 0
        assert reader.run("init") == 0
        check((1, 2), (2, 3))
        change(2, "+,3,4", "-,1,2")
        assert world.run("apply") == 0
        check((2, 3), (3, 4))
        change(3, "+,4,5")
        assert world.run("apply") == 0
        assert world.run("apply") == 0
        check((2, 3), (3, 4), (4, 5))
        snapshots = catalog.load_table("views.reachable").snapshots()
        assert [item.summary.additional_properties["flintlog.commit"] for item in snapshots] == ["1", "2", "3"]
        catalog.drop_table("views.reachable")
        change(4, "-,3,4")
        assert world.run("apply") == 0
        assert seen() == world.rows("reachable") == {(2, 3), (4, 5)}
        assert reader.run("apply") == 1
        assert reader.run("apply", "--resync", "link") == 0
        check((2, 3), (4, 5))
        place = catalog.load_table("views.reachable").metadata_location
        assert world.run("connect", "--publish", "none") == 0
        change(5, "+,5,6")
        assert world.run("apply") == 0
        assert seen() == {(2, 3), (4, 5)} != world.rows("reachable")
    reader.state = tmp_path / "other"
    assert reader.run("connect", f"link=iceberg:{place}") == 0
    assert reader.run("init") == 0
    assert reader.rows("link") == {(2, 3), (4, 5)}
    reader.close()
