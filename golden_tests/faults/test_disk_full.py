"""A full disk: the state is unchanged whatever was being written, or the message says that the batch is in it."""

from __future__ import annotations

import functools
import os
import re
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from golden_tests.faults.world import World
from golden_tests.harness import compile_text, load_script
from golden_tests.nightly import AT_NIGHT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = 4096
NOTHING_COMMITTED = "; nothing was committed, the state is unchanged\n"
COMMITTED = "is committed, and the next command publishes the rest of it\n"

Run = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A small file system."""
    place = tmp_path_factory.mktemp("disk")
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)]
    if os.geteuid() or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("a small file system can only be mounted by root")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.fixture(scope="module")
def world(disk: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A state there."""
    made = World(tmp_path_factory.mktemp("full") / "world")
    made.state = disk / "state"
    module: Any = made.module
    folder = str(made.folder / "batches" / "init")
    module.init(None, str(made.state), folder, buckets=2, log=module.Log(quiet=True))
    yield made


@pytest.fixture
def run(world: World, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command; returns its exit code and what it says on stderr."""

    def run_command(*arguments: str) -> tuple[int, str]:
        capsys.readouterr()
        code = world.module.main([*arguments, "--state", str(world.state), "--quiet"])
        return code, "".join(capsys.readouterr().err.splitlines(keepends=True)[-1:])

    return run_command


def leave(disk: Path, pages: int) -> None:
    """Fill a file system until a number of pages are left."""
    (disk / "filler").unlink(missing_ok=True)
    free = os.statvfs(disk)
    (disk / "filler").write_bytes(b"x" * (free.f_bfree * free.f_bsize - pages * PAGE))


def give_back(disk: Path) -> None:
    """Make room again."""
    (disk / "filler").unlink()


ON_SPARK = [AT_NIGHT, pytest.mark.xdist_group("spark")]


@AT_NIGHT
@pytest.mark.parametrize(
    ("on", "engine", "step"),
    [
        ("here", "duckdb", 1),
        pytest.param("spark", "duckdb", 1, marks=ON_SPARK),
        pytest.param("spark", "spark", 20, marks=ON_SPARK),
    ],
)
def test_a_disk_that_is_full_sooner_or_later(
    on: str, engine: str, step: int, world: World, disk: Path, run: Run, request: pytest.FixtureRequest
) -> None:
    """With no page left, with one left, and so on, until there is room for all of the batch. It fails in each of the
    ways there are: staging, in tasks, writing the manifest, publishing."""
    if on == "spark":
        request.getfixturevalue("spark")
    batch = world.new_batch()
    options = ("--batch", batch, "--engine", engine, "--on", on)
    arguments = ("apply", "--changes", str(world.folder / "batches" / batch), *options)
    commit = world.check(finished=True)
    places: list[str] = []
    outcomes = set()
    for pages in range(0, 200, step):
        leave(disk, pages)
        code, err = run(*arguments)
        give_back(disk)
        if code == 0:
            break
        assert err.startswith("apply: no space left on device while writing "), err
        assert str(disk) in err
        assert err.endswith((NOTHING_COMMITTED, COMMITTED)), err
        # Such as /data/N-N/reachable/base-all-N.parquet; empty where the system does not say.
        places.append(re.sub(r"[0-9a-f]{8,}", "N", err.partition(str(world.state))[2].partition(";")[0]))
        outcomes.add(err.endswith(COMMITTED))
        assert world.check(finished=False) == commit + err.endswith(COMMITTED)
        if err.endswith(COMMITTED):
            assert run("status")[0] == 0
            assert world.check(finished=True) == commit + 1
            batch = world.new_batch()
            arguments = (*arguments[:2], str(world.folder / "batches" / batch), "--batch", batch, *options[2:])
            commit += 1
    assert code == 0
    assert len(places) > 1
    if step == 1:
        assert any(place.startswith("/data/N-N/reachable/") for place in places), places
        assert outcomes == {True, False}
    assert world.check(finished=True) == commit + 1
    assert run("verify")[0] == 0


def test_nothing_can_be_published_while_there_is_no_room(world: World, disk: Path, run: Run) -> None:
    """Commands that publish say so; those that only read go on."""
    batch = world.new_batch()
    manifest = world.manifest()
    assert manifest is not None
    assert run("apply", "--changes", str(world.folder / "batches" / batch), "--batch", batch)[0] == 0
    made = world.manifest()
    assert made is not None
    for publication in made.publish:
        shutil.rmtree(world.state / publication.folder)
    for mark in world.state.glob(f"manifest/*{manifest.commit + 1}.published"):
        mark.unlink()
    leave(disk, 0)
    for command in ("status", "verify"):
        code, err = run(command)
        assert code == 1
        assert f"no space left on device while writing {world.state}" in err
        assert err.endswith(f"; batch {batch} {COMMITTED}")
    assert run("show", "degree")[0] == 0
    give_back(disk)
    assert run("verify")[0] == 0
    world.check(finished=True)


def test_no_room_to_build_a_state(world: World, disk: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """``init`` can be run again elsewhere, or there."""
    monkeypatch.setattr(world, "state", disk / "another")
    arguments = ("init", "--input", str(world.folder / "batches" / "init"))
    leave(disk, 4)
    code, err = run(*arguments)
    give_back(disk)
    assert code == 1 and err.startswith("init: no space left on device") and err.endswith(NOTHING_COMMITTED)
    assert not list((world.state / "data").iterdir())
    assert run(*arguments)[0] == 0


def test_no_room_for_what_does_not_fit_into_memory(disk: Path, place: SparkSession | None, tmp_path: Path) -> None:
    """DuckDB spills in a task."""
    text = "input relation n(i: int)\noutput relation pair(i: int, j: int)\npair(I, J) :- n(I), n(J).\n"
    module: Any = load_script(compile_text(text)[1])
    (tmp_path / "n.csv").write_text("i\n" + "".join(f"{i}\n" for i in range(700)))
    module.local_folder = functools.partial(str, str(disk))
    log = module.Log(quiet=True)
    leave(disk, 100)
    with pytest.raises(module.JobError) as refused:
        module.init(place, str(tmp_path / "state"), str(tmp_path / "n.csv"), buckets=1, memory_limit="16MB", log=log)
    give_back(disk)
    said = str(refused.value) + "\n"
    assert said.startswith("no space left on device while writing what does not fit into memory")
    assert said.endswith(NOTHING_COMMITTED)


@pytest.mark.parametrize(("size", "words"), [(100, NOTHING_COMMITTED), (1200, NOTHING_COMMITTED)])
def test_files_of_the_driver_that_become_too_large(
    size: int, words: str, place: SparkSession | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bound on the size of files is met like a full disk: by staged rows, by the manifest."""
    world = World(tmp_path / "world")
    module: Any = world.module
    batch = world.new_batch()
    log = module.Log(quiet=True)
    module.init(place, str(world.state), str(world.folder / "batches" / "init"), buckets=1, log=log)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    capsys.readouterr()
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        arguments = ["apply", "--changes", str(world.folder / "batches" / batch), "--state", str(world.state)]
        code = module.main([*arguments, "--quiet"])
        err = capsys.readouterr().err
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert code == 1
    assert err.startswith(f"apply: file too large while writing {world.state}") and err.endswith(words), err
    assert world.check(finished=True) == 1
