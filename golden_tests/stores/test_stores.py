"""The same commands in a store (S3, as a server on this machine speaks it) and on a file system that only
Spark opens (Hadoop's viewfs, mounted on a folder)."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from golden_tests.harness import compile_text, load_script
from golden_tests.nightly import AT_NIGHT
from golden_tests.oracle import language
from golden_tests.oracle.evaluate import evaluate

HERE = Path(__file__).parent
BUCKET = "flintlog-state"

Rows = dict[str, set[tuple[int, ...]]]


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, str]]:
    """A server that speaks S3, with a bucket; gives the environment by which clients find it."""
    pytest.importorskip("s3fs", reason="the extra s3 is not installed")
    server_module = pytest.importorskip("moto.server", reason="moto is not installed")
    import boto3

    server = server_module.ThreadedMotoServer(port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        settings = {
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        }
        with ExitStack() as changed:
            patch = changed.enter_context(pytest.MonkeyPatch.context())
            for name, value in settings.items():
                patch.setenv(name, value)
            boto3.client("s3").create_bucket(Bucket=BUCKET)
        yield settings
    finally:
        server.stop()


class World:
    """The program, its rows at first and after each batch, and what relations hold then."""

    def __init__(self, folder: Path) -> None:
        """Write rows and batches into a folder."""
        text = (HERE / "program.dl").read_text(encoding="utf-8")
        _, script = compile_text(text)
        self.language = language.parse(text)
        self.script = folder / "stored.py"
        self.script.write_text(script, encoding="utf-8")
        draw = random.Random(4)
        self.states: list[Rows] = [
            {
                "link": {(draw.randrange(8), draw.randrange(8)) for _ in range(9)},
                "road": {(draw.randrange(1, 9), draw.randrange(1, 9), draw.randrange(1, 9)) for _ in range(10)},
            }
        ]
        # Roads elsewhere, beside which a batch is small: it is written as files of changes.
        self.states[0]["road"] |= {(100 + place, 101 + place, 1) for place in range(100)}
        write(folder / "rows", {name: sorted(("", *row) for row in rows) for name, rows in self.states[0].items()})
        for name in ("one", "two", "three"):
            before = self.states[-1]
            gone = {
                table: set(draw.sample(sorted(row for row in rows if row[0] < 100), 3))
                for table, rows in before.items()
            }
            come: Rows = {
                "link": {(draw.randrange(8), draw.randrange(8)) for _ in range(2)},
                "road": {(draw.randrange(1, 9), draw.randrange(1, 9), draw.randrange(1, 9)) for _ in range(2)},
            }
            # A row that is both deleted and inserted is refused.
            come = {table: rows - gone[table] for table, rows in come.items()}
            changes = {
                table: [("-", *row) for row in sorted(gone[table])] + [("+", *row) for row in sorted(come[table])]
                for table in before
            }
            write(folder / name, changes)
            self.states.append({table: before[table] - gone[table] | come[table] for table in before})

    def expected(self, place: int) -> dict[str, list[list[int]]]:
        """All relations after so many batches."""
        state = self.states[place]
        found: dict[str, Any] = {**state, **evaluate(self.language, state)}
        return {name: sorted(map(list, rows)) for name, rows in found.items()}


COLUMNS = {"link": ["src", "dst"], "road": ["src", "dst", "length"]}


def write(folder: Path, tables: dict[str, list[tuple[Any, ...]]]) -> None:
    """A CSV file per relation; rows begin with their operation, if they have one."""
    folder.mkdir()
    for name, rows in tables.items():
        header = ",".join(["op", *COLUMNS[name]])
        lines = [",".join(map(str, (row[0] or "+", *row[1:]))) for row in rows]
        (folder / f"{name}.csv").write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")


def walk(
    world: World, state: str, settings: dict[str, str], environment: dict[str, str], engine: str = "auto"
) -> dict[str, Any]:
    """Go through the commands in a process of its own; returns what they said."""
    command = [sys.executable, "-m", "golden_tests.stores.walk", str(world.script), state, str(world.script.parent)]
    done = subprocess.run(
        [*command, json.dumps(settings), engine],
        env={**os.environ, **environment, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(HERE.parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return said


def check(world: World, said: dict[str, Any], engine: str) -> None:
    """Compare everything with the oracle, whatever the state lies on."""
    assert said["first"] == world.expected(0)
    assert said["second"] == world.expected(1)
    assert said["third"] == world.expected(2)
    assert said["again"]["applied"] is False
    assert said["apply"]["applied"] is True
    assert {step["engine"] for step in said["apply"]["steps"]} == {engine}
    for name, changes in said["published"].items():
        before, after = ({tuple(row) for row in world.expected(place)[name]} for place in (0, 1))
        lost, gained = [["-", *row] for row in before - after], [["+", *row] for row in after - before]
        assert changes == sorted([*lost, *gained]), name
    assert set(said["published"]) == {
        name for name in ("reachable", "reached", "distance") if world.expected(0)[name] != world.expected(1)[name]
    }
    assert "another job has committed" in said["race"]
    assert said["verify"]["differences"] == []
    assert said["verify two"]["differences"] == []
    assert said["status"]["rows"] == {name: len(rows) for name, rows in said["third"].items()}
    assert said["compact"]["applied"] is True
    assert said["status"]["commit"] == said["apply two"]["commit"] == 4
    now, before = said["referenced"]
    assert {*now, *before} <= {*said["files"]}
    # Nothing is left behind but what was only just replaced.
    folders = {name.split("/")[1] for name in said["files"]}
    assert folders == {name.split("/")[1] for name in (*now, *before)}


def test_s3(tmp_path: Path, s3: dict[str, str]) -> None:
    """Tasks open a store themselves; Spark has no connector for it here."""
    world = World(tmp_path)
    state = f"s3://{BUCKET}/some folder/state"
    said = walk(world, state, {}, s3)
    check(world, said, "duckdb")
    for problem, words in {
        "cut off": "is damaged (it has",
        "changed": "its bytes are not",
        "gone": "is missing",
    }.items():
        assert words in said[problem], problem
        assert f"{state}/data/" in said[problem], problem


@AT_NIGHT
def test_viewfs(tmp_path: Path) -> None:
    """What only Spark opens is maintained by Spark's engine, and the driver commits through Hadoop's interface."""
    pytest.importorskip("upath", reason="universal-pathlib is not installed")
    world = World(tmp_path)
    (tmp_path / "mounted").mkdir()
    settings = {"spark.hadoop.fs.viewfs.mounttable.cluster.link./data": f"file://{tmp_path}/mounted"}
    said = walk(world, "viewfs://cluster/data/state", settings, {})
    check(world, said, "spark")
    # Spark names these files itself, so that nothing is known of their bytes.
    for problem, words in (("cut off", "is damaged"), ("gone", "is missing")):
        assert words in said[problem] and "viewfs://cluster/data/state/data/" in said[problem], said[problem]


def test_missing_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names what is to be installed, and where."""
    _, script = compile_text("input relation e(x: int).  output p.  p(X) :- e(X).")
    module = load_script(script)
    try:
        monkeypatch.setitem(sys.modules, "gcsfs", None)
        with pytest.raises(
            module.JobError, match="gs://bucket/x needs the Python packages universal-pathlib and gcsfs"
        ):
            module.status("gs://bucket/x")
    finally:
        del sys.modules[module.__name__]
