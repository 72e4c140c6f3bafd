"""The state directory: commits, races, crashes, garbage, damage, other programs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow.parquet as pq
import pytest

from golden_tests.harness import tuples_in
from golden_tests.job import assemble
from golden_tests.nightly import AT_NIGHT, by_day

Write = Callable[[str, str | bytes], str]


@pytest.fixture
def quiet(job: ModuleType) -> Any:
    """A log that says nothing."""
    return job.Log(quiet=True)


@pytest.fixture
def built(job: ModuleType, place: Any, state: str, write: Write, quiet: Any) -> Path:
    """A state with two links."""
    path = write("links/link.csv", "src,dst\n1,2\n2,3\n")
    job.init(place, state, [f"link={path}"], buckets=1, log=quiet)
    return Path(state)


def files_below(root: Path) -> dict[str, bytes]:
    """The contents of all files."""
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def published(root: Path, batch: str, relation: str = "pair") -> list[tuple[Any, ...]]:
    """The published changes of a relation, sorted."""
    folder = root / "published" / relation / "changes" / f"batch={batch}"
    return sorted(tuple(row.values()) for file in folder.iterdir() for row in pq.ParquetFile(file).read().to_pylist())


def manifest_of(root: Path, commit: int) -> dict[str, Any]:
    """A manifest as JSON."""
    manifest: dict[str, Any] = json.loads((root / "manifest" / f"{commit:012d}.json").read_text())
    return manifest


# ---- commits and races ---------------------------------------------------------------------------------------------


def test_what_a_manifest_says(built: Path) -> None:
    """Everything that is needed to read the state, and nothing of the place where it is."""
    manifest = manifest_of(built, 1)
    assert manifest["batch"] == "init" and manifest["batches"] == ["init"] and manifest["older_batches"] == []
    assert manifest["program"]["name"] == "reach"
    assert manifest["program"]["relations"]["link"] == {
        "name": "link",
        "kind": "input",
        "columns": [["src", "int"], ["dst", "int"]],
        "definition": "",
    }
    assert manifest["relations"]["pair"]["rows"] == 2
    assert str(built) not in json.dumps(manifest["relations"])


def test_a_batch_is_committed_and_published(job: ModuleType, place: Any, built: Path, write: Write, quiet: Any) -> None:
    """The state has the new rows, the published folder the net changes."""
    path = write("link.csv", "src,dst,op\n1,2,-\n7,8,+\n7,8,+\n9,9,-\n2,3,+\n")
    result = job.apply(place, str(built), path, batch="first", log=quiet)
    assert result["commit"] == 2 and result["applied"] is True
    assert result["changes"]["pair"] == {"inserted": 1, "deleted": 1}
    assert result["published"] == {"pair": str(built / "published/pair/changes/batch=first")}
    assert published(built, "first") == [("+", 7, 8), ("-", 1, 2)]
    assert sorted(tuples_in(job.relation(place, str(built), "pair"))) == [(2, 3), (7, 8)]


def test_a_batch_is_applied_once(job: ModuleType, place: Any, built: Path, write: Write, quiet: Any) -> None:
    """The second time not even its file is read."""
    path = write("link.csv", "src,dst,op\n7,8,+\n")
    job.apply(place, str(built), path, batch="2024-01-01T00:00:00+00:00", log=quiet)
    before = files_below(built)
    Path(path).unlink()
    again = job.apply(place, str(built), path, batch="2024-01-01T00:00:00+00:00", log=quiet)
    assert again == {"program": "reach", "batch": "2024-01-01T00:00:00+00:00", "commit": 2, "applied": False}
    assert files_below(built) == before
    assert published(built, "2024-01-01T00%3A00%3A00%2B00%3A00") == [("+", 7, 8)]


def test_spark_reads_the_batch_from_the_folder(
    job: ModuleType, spark: Any, built: Path, write: Write, quiet: Any
) -> None:
    """All published changes of a relation are one partitioned data set."""
    for number, batch in enumerate(["a:b/c d", "second"]):
        job.apply(spark, str(built), write("link.csv", f"src,dst,op\n7,{number},+\n"), batch=batch, log=quiet)
    frame = spark.read.parquet(str(built / "published/pair/changes"))
    assert sorted(map(tuple, frame.collect())) == [("+", 7, 0, "a:b/c d"), ("+", 7, 1, "second")]


@pytest.mark.parametrize("batch", ["", "a\nb", "x" * 250])
def test_a_batch_needs_an_id_that_names_a_folder(
    batch: str, job: ModuleType, place: Any, built: Path, write: Write, quiet: Any
) -> None:
    """Refused before anything is read."""
    with pytest.raises(job.JobError, match="cannot be the ID of a batch"):
        job.apply(place, str(built), "nothing", batch=batch, log=quiet)


def test_batch_ids_by_default(job: ModuleType, place: Any, built: Path, write: Write, quiet: Any) -> None:
    """Numbered by commit; a batch without changes is a commit too, and publishes nothing."""
    path = write("link.csv", "src,dst,op\n1,2,+\n")
    assert [job.apply(place, str(built), path, log=quiet)["batch"] for _ in range(2)] == [
        "batch-000002",
        "batch-000003",
    ]
    assert not (built / "published").exists()


def test_a_long_list_of_batches_moves_to_files(
    job: ModuleType, place: Any, built: Path, write: Write, quiet: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And every batch stays known."""
    monkeypatch.setattr(job, "BATCHES_INLINE", 2)
    monkeypatch.setattr(job, "MANIFESTS_KEPT", 3)
    monkeypatch.setattr(job, "COMMITS_KEPT", 2)
    path = write("link.csv", "src,dst,op\n1,2,+\n")
    for number in range(8):
        job.apply(place, str(built), path, batch=str(number), log=quiet)
    manifest = manifest_of(built, 9)
    assert manifest["batches"] == ["5", "6", "7"]
    assert manifest["older_batches"] == ["manifest/batches-000000000005.json", "manifest/batches-000000000008.json"]
    for batch in map(str, range(8)):
        assert job.apply(place, str(built), path, batch=batch, log=quiet)["applied"] is False
    with pytest.raises(job.JobError, match="init is an ID that this state generated for another batch"):
        job.apply(place, str(built), path, batch="init", log=quiet)
    assert sorted(path.name for path in (built / "manifest").glob("0*.json")) == [f"{n:012d}.json" for n in (7, 8, 9)]


def test_of_two_jobs_one_wins(
    job: ModuleType, place: Any, built: Path, write: Write, quiet: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both start from one commit; the other stops, and leaves nothing behind."""
    together = threading.Barrier(2)
    run_stages = job.run_stages

    def run_together(*arguments: Any, **options: Any) -> Any:
        together.wait(60)
        return run_stages(*arguments, **options)

    monkeypatch.setattr(job, "run_stages", run_together)
    outcomes: dict[int, object] = {}

    def run(number: int) -> None:
        path = write(f"{number}/link.csv", f"src,dst,op\n{number},0,+\n")
        try:
            outcomes[number] = job.apply(place, str(built), path, batch=f"batch {number}", log=quiet)["commit"]
        except job.JobError as error:
            outcomes[number] = str(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in (10, 20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = [number for number, outcome in outcomes.items() if outcome == 2]
    (message,) = [outcome for outcome in outcomes.values() if outcome != 2]
    assert message == f"another job has committed to {built} in the meantime; this one changed nothing: run it again"
    assert published(built, f"batch {winner}") == [("+", winner, 0)]
    assert sorted(path.name for path in (built / "published/pair/changes").iterdir()) == [f"batch=batch {winner}"]
    assert len(list((built / "data").iterdir())) == 2
    assert sorted(tuples_in(job.relation(place, str(built), "link"))) == [(1, 2), (2, 3), (winner, 0)]


def test_many_jobs_at_once(job: ModuleType, state: str, write: Write, quiet: Any) -> None:
    """Whatever each of them is at when another commits or cleans up: those that say so are in the state."""
    nothing: dict[str, list[str]] = {"price": [], "sample": [], "go": []}
    job.init(None, state, {"link": write("link.csv", "src,dst\n1,2\n"), **nothing}, buckets=1, log=quiet)
    rows = {(1, 2)}

    def run(number: int, batch: str, outcomes: list[tuple[int, str]]) -> None:
        try:
            job.apply(None, state, {"link": f"{Path(state).parent}/{number}.csv"}, batch=batch, log=quiet)
            outcomes.append((number, ""))
        except job.JobError as refusal:
            outcomes.append((number, str(refusal)))

    for turn in range(15):
        for number in range(4):
            write(f"{number}.csv", f"src,dst,op\n{turn},{number},+\n")
        outcomes: list[tuple[int, str]] = []
        threads = [threading.Thread(target=run, args=(n, f"{turn}.{n}", outcomes)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(outcomes) == 4
        assert all("another job has committed" in error for _, error in outcomes if error)
        rows |= {(turn, number) for number, error in outcomes if not error}
        assert job.stored(state, job.read_manifest(Path(state)), job.PAIR) == rows


def test_a_file_system_without_hard_links(job: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Creates exclusively all the same."""

    def no_links(*_: Any) -> None:
        raise PermissionError("no hard links here")

    monkeypatch.setattr(os, "link", no_links)
    assert job.write_exclusively(tmp_path / "a", "first")
    assert not job.write_exclusively(tmp_path / "a", "second")
    assert (tmp_path / "a").read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


# ---- crashes -------------------------------------------------------------------------------------------------------


class Crash(BaseException):
    """Stands for the end of the process: nothing is cleaned up after it."""


@pytest.mark.parametrize("step", ["stage_inputs", "run_stages", "commit_manifest", "sync"])
def test_a_crash_before_or_at_the_commit(
    step: str,
    job: ModuleType,
    place: Any,
    built: Path,
    write: Write,
    quiet: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The state is that of the last commit, and the batch can be applied again. A commit that was made is there, even
    if the job was interrupted before it knew."""
    path = write("link.csv", "src,dst,op\n7,8,+\n")
    committed = step == "sync"

    def crash(*arguments: Any, **_: Any) -> None:
        if not committed or arguments == (built / "manifest",):
            raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(job, step, crash)
        with pytest.raises(Crash):
            job.apply(place, str(built), path, batch="x", log=quiet)
    assert job.status(str(built))["commit"] == (2 if committed else 1)
    assert job.apply(place, str(built), path, batch="x", log=quiet)["applied"] is not committed
    assert published(built, "x") == [("+", 7, 8)]
    assert sorted(tuples_in(job.relation(place, str(built), "pair"))) == [(1, 2), (2, 3), (7, 8)]


@pytest.mark.parametrize(
    ("step", "way_on"),
    [
        ("finish_publication", "status"),
        ("finish_publication", "rebuild"),
        ("write_renamed", "status"),
        ("write_renamed", "apply"),
        ("write_exclusively", "apply"),
        ("write_exclusively", "verify"),
    ],
)
def test_a_crash_between_commit_and_publication(
    step: str,
    way_on: str,
    job: ModuleType,
    place: Any,
    built: Path,
    write: Write,
    quiet: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next command publishes what was committed, once."""
    path = write("link.csv", "src,dst,op\n7,8,+\n")
    original = getattr(job, step)

    def crash(*arguments: Any) -> Any:
        if step == "write_exclusively" and not arguments[0].name.endswith(".published"):
            return original(*arguments)
        if step == "write_renamed":
            original(*arguments)
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(job, step, crash)
        with pytest.raises(Crash):
            if step == "finish_publication":
                # The one before the batch would be in the way.
                patch.setattr(job, "open_state", lambda program, executor, root: job.read_state(root))
            job.apply(place, str(built), path, batch="x", log=quiet)
    assert job.read_manifest(built).commit == 2
    if way_on == "status":
        assert job.status(str(built))["finished_publication"] is True
        assert job.status(str(built))["finished_publication"] is False
    elif way_on == "apply":
        assert job.apply(place, str(built), path, batch="x", log=quiet)["applied"] is False
    else:
        getattr(job, way_on)(place, str(built), log=quiet)
    assert published(built, "x") == [("+", 7, 8)]
    assert len(list((built / "published/pair/changes/batch=x").iterdir())) == 1


@AT_NIGHT
@pytest.mark.parametrize("apart", [4, pytest.param(1, marks=AT_NIGHT)])
def test_killed_at_every_step(apart: int, tmp_path: Path) -> None:
    """SIGKILL at each step that ``apply`` takes on the file system; by day at some of them."""
    command = [sys.executable, "-m", "golden_tests.job.kill", str(apart)]
    environment = {**os.environ, "PYTHONPATH": str(Path(assemble.__file__).parents[2])}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 50 / apart


def test_what_a_consumer_removed_is_not_published_again(
    job: ModuleType, place: Any, built: Path, write: Write, quiet: Any
) -> None:
    """A folder that is gone was there."""
    job.apply(place, str(built), write("link.csv", "src,dst,op\n7,8,+\n"), batch="x", log=quiet)
    job.shutil.rmtree(built / "published")
    assert job.status(str(built))["finished_publication"] is False
    assert not (built / "published").exists()


def test_a_published_folder_of_another_state_is_in_the_way(
    job: ModuleType, place: Any, built: Path, write: Write, quiet: Any, tmp_path: Path
) -> None:
    """Refused before anything is computed."""
    path = write("link.csv", "src,dst,op\n7,8,+\n")
    write("elsewhere/pair/changes/batch=x/other.parquet", "")
    before = files_below(built)
    with pytest.raises(job.JobError, match=r"batch=x already exists: remove it if .* otherwise publish elsewhere"):
        job.apply(place, str(built), path, batch="x", publish=str(tmp_path / "elsewhere"), log=quiet)
    assert files_below(built) == before


def test_changes_are_published_elsewhere(
    job: ModuleType,
    place: Any,
    built: Path,
    write: Write,
    quiet: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Under the same layout; also by Spark, when they are many."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    path = write("link.csv", "src,dst,op\n7,8,+\n")
    result = job.apply(place, str(built), path, batch="x", publish=str(tmp_path / "out"), log=quiet)
    assert result["published"] == {"pair": str(tmp_path / "out/pair/changes/batch=x")}
    with pytest.raises(job.JobError, match="s3://bucket/out cannot be opened: Unable to locate credentials"):
        job.apply(place, str(built), path, publish="s3://bucket/out", log=quiet)


def test_large_changes_are_published_by_spark(
    job: ModuleType, spark: Any, built: Path, write: Write, quiet: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same files, from tasks."""
    monkeypatch.setattr(job, "SMALL_PUBLICATION", -1)
    job.apply(spark, str(built), write("link.csv", "src,dst,op\n7,8,+\n"), batch="x", log=quiet)
    assert published(built, "x") == [("+", 7, 8)]
    (file,) = (built / "published/pair/changes/batch=x").iterdir()
    assert file.name.startswith(manifest_of(built, 2)["attempt"])


def test_published_names(job: ModuleType, place: Any, built: Path, write: Write, quiet: Any) -> None:
    """The program's names, ``_op`` beside a column ``op``; a relation without columns has nothing else."""
    write("changes/price.csv", "item,op,_op\na,1,+\n")
    folder = Path(write("changes/go.csv", "op\n+\n")).parent
    job.apply(place, str(built), str(folder), batch="x", log=quiet)
    (file,) = (built / "published/priced/changes/batch=x").iterdir()
    assert pq.ParquetFile(file).read().to_pylist() == [{"_op": "+", "item": "a", "op": 1}]
    (file,) = (built / "published/gone/changes/batch=x").iterdir()
    assert pq.ParquetFile(file).read().to_pylist() == [{"op": "+"}]
    assert not (built / "published/pair").exists()


# ---- garbage -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("commits", [2, 3, 10])
def test_garbage_is_collected(
    commits: int, job: ModuleType, place: Any, built: Path, write: Write, quiet: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the last commits do not refer to goes, also what crashes left; what a running job writes stays."""
    monkeypatch.setattr(job, "COMMITS_KEPT", commits)
    write("state/data/000000000001-deadbeef/pair/left.parquet", "x")
    write("state/data/000000000099-deadbeef/pair/running.parquet", "x")
    write("state/manifest/.000000000001.json.deadbeef", "x")
    write("state/published/pair/changes/.batch=old.deadbeef/x.parquet", "x")
    for number in range(3):
        job.apply(place, str(built), write("link.csv", f"src,dst,op\n7,{number},+\n"), log=quiet)
    manifests = [job.read_manifest(built, commit) for commit in range(max(1, 5 - commits), 5)]
    kept = {name for manifest in manifests for name in job.referenced_files(manifest)}
    there = {str(path.relative_to(built)) for path in (built / "data").rglob("*") if path.is_file()}
    assert there == kept | {"data/000000000099-deadbeef/pair/running.parquet"}
    assert not any(path.is_dir() and not any(path.iterdir()) for path in (built / "data").rglob("*"))
    assert not list((built / "manifest").glob(".*"))
    assert not list((built / "published").rglob(".batch*"))


def test_a_reader_of_the_commit_before_can_go_on(
    job: ModuleType, spark: Any, built: Path, write: Write, quiet: Any
) -> None:
    """A frame that was made before a batch still gives what it would have given."""
    frame = job.relation(spark, str(built), "pair")
    job.apply(spark, str(built), write("link.csv", "src,dst,op\n1,2,-\n"), log=quiet)
    assert sorted(map(tuple, frame.collect())) == [(1, 2), (2, 3)]


# ---- damage and other programs -------------------------------------------------------------------------------------


def test_what_a_state_says_when_nobody_knows_of_a_commit(
    job: ModuleType, place: Any, built: Path, write: Write, quiet: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first error is told, and what may be part of a commit stays until a later one removes it."""
    path = write("link.csv", "src,dst,op\n7,8,+\n")

    def fail(*_: object) -> None:
        raise OSError("the first error")

    def unknown(*_: object) -> None:
        raise job.JobError("the second error")

    before = set((built / "data").iterdir())
    with monkeypatch.context() as patch:
        patch.setattr(job, "commit_manifest", fail)
        patch.setattr(job, "is_committed", unknown)
        with pytest.raises(OSError, match="the first error"):
            job.apply(place, str(built), path, batch="x", log=quiet)
    assert len(set((built / "data").iterdir()) - before) == 1
    assert job.apply(place, str(built), path, batch="x", log=quiet)["applied"]
    assert published(built, "x") == [("+", 7, 8)]


@pytest.mark.parametrize(("damage", "words"), [("cut", "is damaged"), ("remove", "is missing")])
def test_a_damaged_file_is_named(
    damage: str, words: str, job: ModuleType, place: Any, built: Path, write: Write, quiet: Any
) -> None:
    """And ``rebuild`` is the way on, if it can be."""
    (file,) = (built / "data").rglob("pair/base.parquet")
    if damage == "cut":
        file.write_bytes(file.read_bytes()[:-7])
    else:
        file.unlink()
    for command in (
        lambda: job.apply(place, str(built), write("link.csv", "src,dst,op\n7,8,+\n"), log=quiet),
        lambda: job.relation(place, str(built), "pair"),
        lambda: job.verify(place, str(built), log=quiet),
    ):
        with pytest.raises(job.JobError) as caught:
            command()
        assert str(caught.value).startswith(f"{file} {words}; `rebuild` recomputes derived relations")
    job.rebuild(place, str(built), log=quiet)
    assert sorted(tuples_in(job.relation(place, str(built), "pair"))) == [(1, 2), (2, 3)]
    (file,) = (built / "data").glob("000000000002-*/link/base.parquet")
    file.unlink()
    with pytest.raises(job.JobError, match=r"link/base.parquet is missing.* pass them again with `rebuild --input`"):
        job.rebuild(place, str(built), log=quiet)


def test_a_damaged_manifest_is_named(job: ModuleType, built: Path, write: Write, quiet: Any) -> None:
    """And how to go on; test_manifests.py does."""
    path = write("state/manifest/000000000002.json", '{"format": 1, ')
    with pytest.raises(job.JobError, match="`recover` returns to commit 1") as caught:
        job.status(str(built))
    assert str(caught.value).startswith(f"{path} is damaged (")
    assert job.recover(str(built), log=quiet)["commit"] == 3
    path = write("state/manifest/000000000004.json", '{"format": 99}')
    for command in (job.status, job.recover):
        with pytest.raises(job.JobError, match=r"4\.json has format 99, and this job reads format 3: use"):
            command(str(built))


def test_files_elsewhere(
    job: ModuleType, place: Any, built: Path, write: Write, quiet: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a task has written on a disk of its own machine is not committed."""
    path = write("link.csv", "src,dst,op\n7,8,+\n")
    before, real = files_below(built), job.run_stages

    def run_elsewhere(*arguments: Any, **options: Any) -> Any:
        outcome = real(*arguments, **options)
        (name,) = outcome.changes["link"]
        (built / name).unlink()
        return outcome

    monkeypatch.setattr(job, "run_stages", run_elsewhere)
    with pytest.raises(job.JobError, match="is not there for the driver: the state must lie where all machines see"):
        job.apply(place, str(built), path, log=quiet)
    assert files_below(built) == before


def test_no_state(job: ModuleType, place: Any, state: str, quiet: Any) -> None:
    """The message says what makes one."""
    for command in (lambda: job.status(state), lambda: job.apply(place, state, "x", log=quiet)):
        with pytest.raises(job.JobError, match=r"there is no state in .*; create one with `init`"):
            command()


def changed(old: str, new: str, definition: str = "") -> str:
    """The program with a difference, and another hash."""
    text = assemble.PROGRAM.replace('"a" * 64', '"b" * 64')
    assert old in text
    return text.replace(old, new) + definition


@by_day(1)
@pytest.mark.parametrize(
    ("program", "difference"),
    [
        (
            changed('name="pair",\n    table="pair"', 'name="couple",\n    table="couple"'),
            "couple is new, pair is gone",
        ),
        (
            changed('("src", "int", "src")', '("src", "string", "src")'),
            "link has different columns, pair has different columns",
        ),
        (changed("reach.dl:1", "reach.dl:99"), "its rules differ"),
    ],
)
def test_a_state_of_another_program(
    program: str, difference: str, place: Any, built: Path, tmp_path: Path, quiet: Any
) -> None:
    """Refused with the relations that differ."""
    other = assemble.load(tmp_path, program, "other_job")
    with pytest.raises(other.JobError) as caught:
        other.apply(place, str(built), "x", log=quiet)
    assert str(caught.value) == (
        f"the state was written by another version of reach: {difference}; `upgrade` recomputes the relations that "
        "this affects"
    )


def test_another_comment_is_not_another_program(
    place: Any, built: Path, write: Write, quiet: Any, tmp_path: Path
) -> None:
    """If the relations say how they are defined, their definitions count, not the text."""
    defined = assemble.PROGRAM.replace("source=", 'definition="so", source=')
    job = assemble.load(tmp_path, defined, "defined_job")
    job.rebuild(place, str(built), log=quiet)
    job = assemble.load(tmp_path, defined.replace('"a" * 64', '"c" * 64'), "commented_job")
    job.apply(place, str(built), write("link.csv", "src,dst,op\n7,8,+\n"), log=quiet)
    text = defined.replace('"a" * 64', '"d" * 64').replace(
        'definition="so", source="reach.dl:2"', 'source="reach.dl:2"'
    )
    job = assemble.load(tmp_path, text, "changed_job")
    with pytest.raises(job.JobError, match="by another version of reach: pair has different rules; `upgrade`"):
        job.relation(place, str(built), "link")
