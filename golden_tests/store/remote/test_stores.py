"""The same commands in stores: S3, as a server on this machine speaks it, and HDFS, by name nodes and by the mount
tables of viewfs."""

from __future__ import annotations

import json
import os
import pickle
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from flintlog.runtime.kernel.errors import JobError, failure
from flintlog.runtime.system.places import given_place, input_place, write_exclusively

from golden_tests.harness import compile_text, load_script
from golden_tests.nightly import AT_NIGHT
from golden_tests.oracle import language
from golden_tests.oracle.evaluate import evaluate
from golden_tests.store.remote.cluster import Cluster, running_cluster

HERE = Path(__file__).parent
BUCKET = "flintlog-state"

Rows = dict[str, set[tuple[int, ...]]]


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """HDFS on this machine."""
    pytest.importorskip("hdfs_native", reason="the extra hdfs is not installed")
    pytest.importorskip("upath", reason="universal-pathlib is not installed")
    with running_cluster(tmp_path_factory.mktemp("hdfs") / "cluster") as cluster:
        yield cluster


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
        """All relations after a number of batches."""
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
    world: World, state: str, settings: dict[str, str] | None, environment: dict[str, str], engine: str = "auto"
) -> dict[str, Any]:
    """Go through the commands in a process of its own, with a Spark session unless its settings are None; returns what
    they said."""
    command = [
        sys.executable,
        "-m",
        "golden_tests.store.remote.walk",
        str(world.script),
        state,
        str(world.script.parent),
    ]
    done = subprocess.run(
        [*command, json.dumps(settings), engine],
        env={**os.environ, **environment, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(HERE.parents[2])},
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
    assert {*said["referenced"]} <= {*said["files"]}
    # Nothing is left behind but what commits need that are kept.
    folders = {name.split("/")[1] for name in said["files"]}
    assert folders == {name.split("/")[1] for name in said["referenced"]}


PLACES = pytest.mark.parametrize(
    "settings", [pytest.param(None, id="here"), pytest.param({}, id="spark", marks=AT_NIGHT)]
)


@PLACES
def test_s3(settings: dict[str, str] | None, tmp_path: Path, s3: dict[str, str]) -> None:
    """Tasks open a store themselves, here and in Spark, which has no connector for it."""
    world = World(tmp_path)
    state = f"s3://{BUCKET}/some folder/state {len(str(settings))}"
    said = walk(world, state, settings, s3)
    check(world, said, "duckdb")
    for problem, words in {
        "cut off": "is damaged (it has",
        "changed": "its bytes are not",
        "gone": "is missing",
    }.items():
        assert words in said[problem], problem
        assert f"{state}/data/" in said[problem], problem


@AT_NIGHT
@PLACES
def test_hdfs(settings: dict[str, str] | None, tmp_path: Path, hdfs: Cluster) -> None:
    """Tasks open HDFS as they open any store."""
    world = World(tmp_path)
    state = f"hdfs://{hdfs.host}/some folder/state#{len(str(settings))}?"
    said = walk(world, state, settings, {})
    check(world, said, "duckdb")
    for problem, words in {
        "cut off": "is damaged (it has",
        "changed": "its bytes are not",
        "gone": "is missing",
    }.items():
        assert words in said[problem] and f"{state}/data/" in said[problem], said[problem]


@AT_NIGHT
def test_viewfs_with_sparks_engine(tmp_path: Path, hdfs: Cluster) -> None:
    """Spark opens the files with its own client, which reads the same settings."""
    world = World(tmp_path)
    table = "fs.viewfs.mounttable.Cluster"
    mounted = {f"{table}.link./data": f"hdfs://{hdfs.host}/mounted", f"{table}.linkFallback": f"hdfs://{hdfs.host}/"}
    settings = settings_folder(tmp_path / "conf", mounted)
    hdfs.place("/mounted").mkdir()
    # Spark's local mode does not offer a core again to tasks that wait for another host, that of the blocks.
    said = walk(world, "viewfs://Cluster/data/state", {"spark.locality.wait": "0s"}, settings, "spark")
    check(world, said, "spark")
    assert said["without DuckDB"] == said["third"]
    # Spark names these files itself, so that nothing is known of their bytes.
    for problem, words in (("cut off", "is damaged"), ("gone", "is missing")):
        assert words in said[problem] and "viewfs://Cluster/data/state/data/" in said[problem], said[problem]


def settings_folder(folder: Path, settings: dict[str, str]) -> dict[str, str]:
    """The environment in which clients of Hadoop find these settings."""
    folder.mkdir()
    properties = (f"<property><name>{k}</name><value>{v}</value></property>" for k, v in settings.items())
    text = f"<configuration>{''.join(properties)}</configuration>"
    (folder / "core-site.xml").write_text(text, encoding="utf-8")
    return {"HADOOP_CONF_DIR": str(folder)}


@AT_NIGHT
def test_default_file_system(tmp_path: Path, hdfs: Cluster) -> None:
    """A URI without a host names the file system of the settings; copies of its files stay in the folder for copies."""
    code = """
import sys
from flintlog.runtime.system.places import local_copy, place_of
place = place_of("hdfs:///of the settings/rows.parquet")
place.parent.mkdir(parents=True)
place.write_text("PAR1")
assert str(place) == "hdfs:///of the settings/rows.parquet"
assert local_copy(sys.argv[1], str(place)) == f"{sys.argv[1]}/read/of the settings/rows.parquet"
"""
    settings = settings_folder(tmp_path / "conf", {"fs.defaultFS": f"hdfs://{hdfs.host}"})
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], env={**os.environ, **settings}, check=True)
    assert hdfs.place("/of the settings/rows.parquet").read_text() == "PAR1"
    assert (tmp_path / "read" / "of the settings" / "rows.parquet").read_text(encoding="utf-8") == "PAR1"


@AT_NIGHT
def test_races_in_hdfs(hdfs: Cluster) -> None:
    """Of jobs that create the same file one succeeds, and a file with this name is whole whenever somebody looks."""
    texts = [str(number) * 100_000 for number in range(4)]
    for place in (hdfs.place(f"/races/{number}") for number in range(5)):
        done = threading.Event()

        def look(place: Path = place, done: threading.Event = done) -> set[str]:
            seen = set()
            while not done.is_set():
                with suppress(FileNotFoundError):
                    seen.add(place.read_text("utf-8"))
            return seen

        with ThreadPoolExecutor(5) as pool:
            looking = pool.submit(look)
            created = [*pool.map(write_exclusively, [place] * 4, texts)]
            done.set()
        assert sorted(created) == [False, False, False, True]
        (text,) = (text for text, own in zip(texts, created, strict=True) if own)
        assert place.read_text("utf-8") == text and looking.result() <= {text}
    assert sorted(path.name for path in hdfs.place("/races").iterdir()) == [str(number) for number in range(5)]


@AT_NIGHT
def test_lost_reply_in_hdfs(hdfs: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rename that is repeated because the reply was lost does not find the file; another job's file is no success."""
    place = hdfs.place("/lost/reply")
    rename = type(place.fs).mv  # type: ignore[attr-defined]

    def repeated(*arguments: Any) -> None:
        rename(*arguments)
        rename(*arguments)

    monkeypatch.setattr(type(place.fs), "mv", repeated)  # type: ignore[attr-defined]
    assert write_exclusively(place, "one") is True
    assert write_exclusively(place, "two") is False
    assert place.read_text("utf-8") == "one"


@AT_NIGHT
def test_places_in_hdfs_are_sent_to_tasks(hdfs: Cluster) -> None:
    """A process that has opened none yet can use one."""
    place = hdfs.place("/sent/from here")
    code = "import pickle, sys; pickle.load(sys.stdin.buffer).joinpath('x').write_text('there')"
    place.mkdir(parents=True)
    subprocess.run([sys.executable, "-c", code], input=pickle.dumps(place), check=True)
    assert (place / "x").read_text() == "there"


@AT_NIGHT
def test_closed_files_in_hdfs_are_on_disk(hdfs: Cluster) -> None:
    """Every block of a file is forced, by hdfs-native as each is full, and the last one when the file is closed; a file
    of Hadoop's own client is not."""
    blocks, forced = hdfs.forced()
    with hdfs.place("/large").open("wb") as file:
        for _ in range(3):
            file.write(bytes(100 << 20))
    after = hdfs.forced()
    assert after[0] - blocks == 3 and after[1] - forced >= 3


def test_hdfs_that_cannot_be_opened() -> None:
    """The message names the URI, and no stack of Java's follows."""
    pytest.importorskip("hdfs_native", reason="the extra hdfs is not installed")
    with pytest.raises(JobError) as refused:
        given_place("hdfs://no-such-host.invalid/state")
    assert str(refused.value) == (
        'hdfs://no-such-host.invalid/state cannot be opened: InvalidArgument("No NameNode hosts found")'
    )


def test_errors_of_hdfs(hdfs: Cluster) -> None:
    """They are no bugs, whatever class they have."""
    folder = hdfs.place("/errors/folder")
    folder.mkdir(parents=True)
    for write in (lambda: write_exclusively(folder, ""), lambda: hdfs.place("/errors/folder/x/y").iterdir().__next__()):
        with pytest.raises((RuntimeError, OSError)) as raised:
            write()
        assert "\n" not in failure(raised.value) and r"\tat" not in failure(raised.value), failure(raised.value)


def test_schemes() -> None:
    """A state needs exclusive creation; rows may come from anywhere that fsspec opens."""
    pytest.importorskip("upath", reason="universal-pathlib is not installed")
    with pytest.raises(
        JobError, match=r"dbfs://x/y cannot hold a state .*: give a folder .* or a URI of s3, .*, viewfs"
    ):
        given_place("dbfs://x/y")
    input_place("memory://rows/link.csv").write_text("src,dst\n1,2\n")
    assert input_place("memory://rows/link.csv").read_bytes() == b"src,dst\n1,2\n"
    for uri in ("wasb://x@y/link.csv", "oss://x/link.csv"):
        with pytest.raises(JobError, match=rf"{uri} cannot be read: .*; pass rows that only Spark can read as"):
            input_place(uri)


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
