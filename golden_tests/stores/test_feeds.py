"""Feeds and tables of outputs in S3, as a server on this machine speaks it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from deltalake import DeltaTable, write_deltalake

from golden_tests.feeds.world import RECORDED, FeedWorld, links

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


def test_files(s3: Any, world: FeedWorld) -> None:
    """A folder of change files is a feed, and the state may be in the store, too."""
    s3.put_object(Bucket="lake", Key="changes/1.csv", Body=b"op,src,dst\n+,1,2\n")
    state = ("--state", "s3://lake/state", "--quiet")
    job = world.job
    assert job.main(["connect", *state, "link=files:s3://lake/changes"]) == 0
    assert job.main(["init", *state]) == 0
    s3.put_object(Bucket="lake", Key="changes/2.csv", Body=b"op,src,dst\n+,2,3\n")
    assert job.main(["apply", *state]) == 0
    assert job.relation(None, "s3://lake/state", "reachable").num_rows == 3


def test_iceberg_tables(s3: Any, world: FeedWorld, tmp_path: Path) -> None:
    """An Iceberg table of a catalog, and one without a catalog, are feeds."""
    import pyiceberg.catalog
    from pyiceberg.utils.config import Config

    settings = {
        "PYICEBERG_CATALOG__LAKE__URI": f"sqlite:///{tmp_path}/catalog.db",
        "PYICEBERG_CATALOG__LAKE__WAREHOUSE": "s3://lake/warehouse",
    }
    with (
        mock.patch.dict(os.environ, settings),
        mock.patch.object(pyiceberg.catalog, "_ENV_CONFIG", Config()),
    ):
        catalog = pyiceberg.catalog.load_catalog(
            "lake", **{"s3.endpoint": os.environ["AWS_ENDPOINT_URL"], "s3.region": "us-east-1"}
        )
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
