"""Files of the state that were cut off, changed or lost, and input files of that kind: the message names the file and
says how to mend it, and nothing is computed from what is left of it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from golden_tests.faults.world import World
from golden_tests.nightly import AT_NIGHT, by_day

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Damage = Callable[[bytes], bytes | None]

DAMAGES: dict[str, Damage] = {
    "cut at the end": lambda data: data[:-7],
    "cut in the middle": lambda data: data[:20] + data[40:],
    "changed in the middle": lambda data: data[:20] + bytes(255 - byte for byte in data[20:24]) + data[24:],
    "empty": lambda data: b"",
    "missing": lambda data: None,
}


@pytest.fixture(scope="module")
def built(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A state with files of changes over its base files."""
    world = World(tmp_path_factory.mktemp("damage") / "world")
    module: Any = world.module
    log = module.Log(quiet=True)
    module.init(spark, str(world.state), str(world.folder / "batches" / "init"), buckets=1, log=log)
    world.batches["small"] = {"link": [("+", (1, 99))]}
    world.write_batch("small", world.batches["small"])
    module.apply(spark, str(world.state), str(world.folder / "batches" / "small"), batch="small", log=log)
    world.check(finished=True)
    yield world


@pytest.fixture
def world(built: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> World:
    """The same in a copy."""
    shutil.copytree(built.state, tmp_path / "state")
    monkeypatch.setattr(built, "state", tmp_path / "state")
    return built


def stored_file(world: World, relation: str, kind: str) -> Path:
    """A file of the last commit."""
    manifest = world.manifest()
    assert manifest is not None
    if kind == "net":
        return world.state / manifest.changes[relation][0]
    (bucket,) = manifest.relations[relation].buckets.values()
    return world.state / getattr(bucket, kind)[0]


def damage(path: Path, how: str) -> None:
    """Damage a file."""
    data = DAMAGES[how](path.read_bytes())
    path.unlink()
    if data is not None:
        path.write_bytes(data)


def run(world: World, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """A command's exit code and what it says on stderr; it may say nothing of how it is made."""
    capsys.readouterr()
    code = world.module.main([*arguments, "--state", str(world.state)])
    err = capsys.readouterr().err
    assert "Traceback" not in err
    return code, err


def check_refusals(world: World, path: Path, capsys: pytest.CaptureFixture[str], *commands: tuple[str, ...]) -> None:
    """Each command refuses to work with a file, and leaves everything as it is."""
    before = {file: file.stat().st_size for file in world.state.rglob("*") if file.is_file()}
    for command in commands:
        code, err = run(world, capsys, *command, "--quiet")
        assert code == 1, command
        assert err.startswith(f"{command[0]}: {path} is "), err
        assert "`rebuild` recomputes derived relations" in err
    assert {file: file.stat().st_size for file in world.state.rglob("*") if file.is_file()} == before


@by_day(6)
@pytest.mark.parametrize("kind", ["base", "changes"])
@pytest.mark.parametrize("relation", ["reachable", "link"])
@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_file_of_the_state(
    how: str, relation: str, kind: str, world: World, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing reads it. What is derived can be recomputed, rows of an input cannot."""
    path = stored_file(world, relation, kind)
    damage(path, how)
    batch = ("--changes", str(world.folder / "batches" / "init"))
    check_refusals(world, path, capsys, ("apply", *batch), ("show", relation), ("verify",))
    if relation == "link":
        check_refusals(world, path, capsys, ("rebuild",))


@AT_NIGHT
def test_rebuild_mends_what_is_derived(world: World, spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """It publishes nothing of a relation whose old rows are damaged, and says so."""
    paths = [stored_file(world, "reachable", kind) for kind in ("base", "changes")]
    damage(paths[0], "cut at the end")
    damage(paths[1], "missing")
    code, err = run(world, capsys, "rebuild")
    assert code == 0, err
    assert f"the changes of reachable cannot be published: {paths[0]} is damaged" in err
    assert world.check(finished=True) == 3


def test_rows_of_an_input_are_given_again(
    world: World, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """With ``rebuild --input``, as the message says."""
    damage(stored_file(world, "link", "base"), "changed in the middle")
    assert "pass them again with `rebuild --input`" in run(world, capsys, "rebuild")[1]
    rows = sorted(row for _, row in [*world.first["link"], ("+", (1, 99))])
    given = world.folder / "again" / "link.csv"
    given.parent.mkdir(exist_ok=True)
    given.write_text("src,dst\n" + "".join(f"{src},{dst}\n" for src, dst in rows))
    code, err = run(world, capsys, "rebuild", "--input", str(given))
    assert code == 0, err
    assert world.check(finished=True) == 3


@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_a_changed_byte_in_a_large_state(
    engine: str, world: World, spark: SparkSession, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver of a large state does not look at every byte, but for ``verify``; a task does of what it reads."""
    monkeypatch.setattr(world.module, "SMALL_FILES", -1)
    path = stored_file(world, "link", "base")
    damage(path, "changed in the middle")
    check_refusals(world, path, capsys, ("verify", "--engine", engine))
    if engine == "duckdb":
        check_refusals(world, path, capsys, ("apply", "--changes", str(world.folder / "batches" / "init")))


def test_damaged_changes_that_are_not_published_yet(
    world: World, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """``rebuild`` goes on without them, and says so."""
    for mark in world.state.glob("manifest/*2.published"):
        mark.unlink()
    shutil.rmtree(world.state / "published")
    path = stored_file(world, "reachable", "net")
    damage(path, "cut at the end")
    check_refusals(world, path, capsys, ("status",), ("verify",))
    code, err = run(world, capsys, "rebuild")
    assert code == 0
    assert f"warning: the changes of batch small cannot be published: {path} is damaged" in err
    assert run(world, capsys, "verify")[0] == 0


@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_a_damaged_file_of_an_earlier_version(
    engine: str, world: World, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its name does not say what is in it, so damage behind its footer shows only where it is decoded."""
    path = stored_file(world, "link", "base")
    plain = path.with_name("base-all.parquet")
    data = path.read_bytes()
    plain.write_bytes(data[:4] + bytes(60) + data[64:])
    path.unlink()
    manifest = world.state / "manifest" / "000000000002.json"
    record = json.loads(manifest.read_text().replace(path.name, plain.name))
    del record["crc32"]
    manifest.write_text(world.module.sealed(record))
    before = world.manifest()
    batch = ("--changes", str(world.folder / "batches" / "init"))
    code, err = run(world, capsys, "apply", *batch, "--engine", engine, "--quiet")
    assert code == 1
    assert "base-all.parquet" in err
    assert world.manifest() == before


@by_day(2)
@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_input_file(
    how: str, world: World, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is named, and nothing has changed."""
    path = tmp_path / "link.parquet"
    rows = pa.table({"src": list(range(1000, 9000)), "dst": list(range(8000)), "op": ["+"] * 8000})
    pq.write_table(rows, path, compression="zstd", write_page_checksum=True)
    data = path.read_bytes()
    damage(path, how)
    if how == "changed in the middle":
        path.write_bytes(data[:60] + bytes(2000) + data[2060:])
    before = world.check(finished=True)
    code, err = run(world, capsys, "apply", "--changes", f"link={path}", "--quiet")
    assert code == 1
    assert err.startswith("apply: refused, nothing has changed:\n") and str(path) in err
    assert world.check(finished=True) == before
