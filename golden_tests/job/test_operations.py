"""Commands for operators: what is kept, and what becomes of it when a command is killed."""

from __future__ import annotations

import datetime
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset  # noqa: F401  (as in golden_tests/job/kill.py)
import pyarrow.parquet as pq
import pytest

from golden_tests.harness import compile_text, load_script, tuples_in
from golden_tests.job.kill import STEPS, in_child, kill_at
from golden_tests.nightly import AT_NIGHT, by_day

PROGRAM = """
input relation link(src: int, dst: int)
input relation host(node: int, name: string) primary key (node)
output reachable.
reachable(X, Y) :- link(X, Y).
reachable(X, Y) :- reachable(X, Z), link(Z, Y).
output named.
named(N) :- host(X, N), reachable(X, _).
"""

Rows = set[tuple[Any, ...]]


@pytest.fixture(scope="module")
def job() -> Iterator[Any]:
    """The script."""
    module: Any = load_script(compile_text(PROGRAM, "net.dl")[1])
    yield module
    del sys.modules[module.__name__]


class World:
    """A state, and batches for it."""

    def __init__(self, job: Any, folder: Path, keep: str | None = None) -> None:
        """Build the state."""
        self.job, self.folder, self.log = job, folder, job.Log(quiet=True)
        self.state = str(folder / "state")
        rows = {"link": self.file("link", "src,dst", "1,2", "2,3"), "host": self.file("host", "node,name", "1,a")}
        job.init(None, self.state, rows, buckets=1, keep=keep, log=self.log)

    def file(self, name: str, *lines: str) -> str:
        """A file of rows or changes."""
        path = self.folder / f"{name}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return str(path)

    def apply(self, batch: str, *changes: str, host: tuple[str, ...] = ()) -> dict[str, Any]:
        """Apply a batch of links, and of hosts."""
        files = {"link": self.file("changes", "src,dst,op", *changes)}
        files |= {"host": self.file("hosts", "node,name,op", *host)} if host else {}
        done: dict[str, Any] = self.job.apply(None, self.state, files, batch=batch, log=self.log)
        return done

    def rows(self, name: str = "link", as_of: int | None = None, state: str = "") -> Rows:
        """The rows of a relation."""
        return set(map(tuple, tuples_in(self.job.relation(None, state or self.state, name, as_of=as_of))))

    def published(self, name: str = "reachable") -> Rows:
        """What consumers have, who began with the state as it was built."""
        found: Rows = {(1, 2), (2, 3), (1, 3)}
        places = (Path(self.state) / "published" / name / "changes").glob("batch=*/*.parquet")
        for path in sorted(places, key=lambda path: path.name):
            for sign, *row in (r.values() for r in pq.ParquetFile(path).read().to_pylist()):
                (found.remove if sign == "-" else found.add)(tuple(row))
        return found

    def refusal(self, go: Callable[[], object]) -> str:
        """Why a command is refused."""
        with pytest.raises(self.job.JobError) as refused:
            go()
        return str(refused.value)


@pytest.fixture
def world(job: Any, tmp_path: Path) -> World:
    """A state of three commits."""
    world = World(job, tmp_path)
    world.apply("a", "3,4,+", host=("1,b,+",))
    world.apply("b", "1,2,-", "4,5,+")
    return world


def test_history(world: World, job: Any) -> None:
    """Each commit with what it did; what was undone is said, and is not when it is there again."""
    job.rollback(None, world.state, 2, log=world.log)
    said = job.history(world.state)
    assert [(c["commit"], c["batch"], c["command"], c["undone"], c.get("restores")) for c in said["commits"]] == [
        (4, "rollback-000004", "rollback", False, 2),
        (3, "b", "apply", True, None),
        (2, "a", "apply", False, None),
        (1, "init", "init", False, None),
    ]
    assert said["commits"][2]["in"] == {"link": {"inserted": 1, "deleted": 0}, "host": {"inserted": 1, "deleted": 1}}
    assert said["commits"][0]["out"]["reachable"] == {"inserted": 3, "deleted": 3}
    assert [c["time"] for c in said["commits"]] == sorted((c["time"] for c in said["commits"]), reverse=True)
    job.rollback(None, world.state, 3, log=world.log)
    assert [c["commit"] for c in job.history(world.state)["commits"] if c["undone"]] == [4]
    assert "  in: link +1 -0" in "\n".join(job.report_history(job.history(world.state)))
    assert len(job.history(world.state, limit=2)["commits"]) == 2


def test_an_attempt_that_was_undone_is_known(world: World, job: Any) -> None:
    """A job that was suspended after its commit does not take the manifest away again."""
    root = Path(world.state)
    attempt = job.read_manifest(root, 3).attempt
    job.rollback(None, world.state, 1, log=world.log)
    assert job.is_committed(root, attempt, "b") is True
    assert job.is_committed(root, attempt.replace(attempt[-8:], "00000000"), "b") is False


def test_rolling_back_is_idempotent(world: World, job: Any) -> None:
    """A scheduler may try again, with an ID or without."""
    for batch in (None, "undo"):
        assert job.rollback(None, world.state, 1, batch=batch, log=world.log)["applied"] is (batch is None)
    assert job.rollback(None, world.state, 3, batch="redo", log=world.log)["applied"]
    world.apply("c", "7,8,+")
    assert not job.rollback(None, world.state, 1, batch="redo", log=world.log)["applied"]
    assert world.published() == world.rows("reachable")


def test_a_key_that_was_changed_later(world: World, job: Any) -> None:
    """Nobody knows which row was meant."""
    world.apply("c", host=("1,c,+", "2,d,+"))
    assert "with the primary key node = 1" in world.refusal(lambda: job.revert(None, world.state, "a", log=world.log))
    job.revert(None, world.state, "c", log=world.log)
    job.revert(None, world.state, "a", log=world.log)
    assert world.rows("host") == {(1, "a")} and (3, 4) not in world.rows()
    assert "no commit that is recorded" in world.refusal(lambda: job.revert(None, world.state, "x", log=world.log))
    assert "is commit 1, and the state before it" in world.refusal(
        lambda: job.revert(None, world.state, "init", log=world.log)
    )


def test_feeds_are_read_on_from_where_they_were(world: World, job: Any) -> None:
    """The same files again, under the same ID, and published in a folder of their own."""
    folder = world.folder / "fed"
    folder.mkdir()
    job.connect(None, world.state, [f"link=files:{folder}"], log=world.log)
    for number in range(2):
        world.file(f"fed/{number}", "src,dst,op", f"5,{number + 6},+")
        first = job.apply(None, world.state, log=world.log)
        assert first["applied"]
    rows = world.rows()
    assert "is fed by" in world.refusal(lambda: job.revert(None, world.state, first["batch"], log=world.log))
    job.rollback(None, world.state, first["commit"] - 1, log=world.log)
    assert world.rows() == rows - {(5, 7)} and world.published() == world.rows("reachable")
    again = job.apply(None, world.state, log=world.log)
    assert again["batch"] == first["batch"] and world.rows() == rows and world.published() == world.rows("reachable")
    assert again["published"]["reachable"] == f"{first['published']['reachable']}@{again['commit']}"
    assert job.history(world.state)["commits"][0]["feeds"] == job.status(world.state)["feeds"]


@pytest.mark.parametrize("keep", ["", "1", "0", "7w", "d", "-3", "2.5", "7d ", "٣"])
def test_what_does_not_say_how_long(keep: str, job: Any, tmp_path: Path) -> None:
    """It is refused before anything is done."""
    with pytest.raises(job.JobError, match="does not say how long to keep commits"):
        World(job, tmp_path, keep)


def test_commits_of_some_time(job: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit is kept as long as it was the last one within that time; a clock that goes back does no harm."""
    times = iter(["2026-01-01T00", "2026-01-01T10", "2026-01-01T05", "2026-01-02T00", "2026-01-02T23", "2026-02-01T00"])
    told: list[str] = []

    def moment(earlier: str) -> str:
        told.append(max(earlier, next(times) + ":00:00.000Z"))
        return told[-1]

    monkeypatch.setattr(job, "moment_after", moment)
    world = World(job, tmp_path, "1d")
    for number in range(2, 6):
        world.apply(f"b{number}", f"{number},9,+")
    manifests = [job.read_manifest(Path(world.state), number) for number in range(1, 6)]
    assert [manifest.kept_from for manifest in manifests] == [1, 1, 1, 1, 3]
    assert told[2] == told[1]
    monkeypatch.setattr(job, "moment_after", lambda earlier: "2026-02-01T00:00:00.000Z")
    done = job.vacuum(world.state, log=world.log)
    assert (done["commit"], done["kept_from"], done["keep"], done["applied"]) == (6, 5, "1d", True)
    assert done["removed"]["data"] > 0 and done["removed"]["published"] > 0
    assert not job.vacuum(world.state, log=world.log)["applied"]
    assert "has the states of commits 5 to 6" in world.refusal(lambda: world.rows(as_of=4))
    assert world.rows(as_of=5) == world.rows()


class Clock(datetime.datetime):
    """The time, a number of hours later."""

    hours = 0

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:
        """The time in a time zone."""
        return datetime.datetime.now(tz) + datetime.timedelta(hours=cls.hours)


@pytest.fixture
def clock(job: Any, monkeypatch: pytest.MonkeyPatch) -> type[Clock]:
    """The clock of the job."""
    monkeypatch.setattr(job, "datetime", Clock)
    monkeypatch.setattr(Clock, "hours", 0)
    return Clock


@by_day(1)
@pytest.mark.parametrize("hours", [101 * 24, 40_000, -2, -40_000])
def test_a_clock_far_from_the_last_commit(hours: int, job: Any, clock: type[Clock], tmp_path: Path) -> None:
    """It is refused before it gives up earlier commits, or keeps later ones; one may say that it is right."""
    world = World(job, tmp_path, "90m")
    world.apply("a", "3,4,+")
    clock.hours = hours
    for go in (lambda: world.apply("b", "4,5,+"), lambda: job.vacuum(world.state, log=world.log)):
        said = world.refusal(go)
        assert said.startswith("the clock of this machine says ") and "one of them is wrong" in said
    far = said.split("--max-clock-jump ")[1].split("`")[0]
    assert far == {101 * 24: "102d", 40_000: "1667d", -2: "2h", -40_000: "1667d"}[hours]
    assert job.status(world.state)["commit"] == 2 and not list(Path(world.state, "data").glob("000000000003-*"))
    job.compact(None, world.state, log=world.log)
    assert "one of them is wrong" in world.refusal(lambda: job.vacuum(world.state, max_clock_jump="1h", log=world.log))
    done = job.vacuum(world.state, max_clock_jump=far, log=world.log)
    assert (done["applied"], done["kept_from"]) == (True, 2)
    for number in range(4):
        clock.hours += 1
        world.apply(f"c{number}", f"{number},9,+")
    manifest = job.read_manifest(Path(world.state))
    assert manifest.time == max(manifest.time, job.read_manifest(Path(world.state), 3).time)
    assert manifest.kept_from == manifest.commit - 2
    assert job.verify(None, world.state)["differences"] == []


def test_clocks_that_do_no_harm(job: Any, clock: type[Clock], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small differences, months without batches, other time zones, and commits that are not kept for some time."""
    world = World(job, tmp_path, "7d")
    for number, hours in enumerate((0, -0.9, 99 * 24)):
        clock.hours = hours  # type: ignore[assignment]
        world.apply(f"b{number}", f"{number},9,+")
    for zone in ("Pacific/Kiritimati", "Pacific/Pago_Pago"):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        world.apply(zone, "5,6,+")
    monkeypatch.undo()
    time.tzset()
    times = [job.read_manifest(Path(world.state), number).time for number in range(1, 7)]
    assert times == sorted(times)
    counted = World(job, tmp_path / "counted", "3")
    clock.hours = 40_000
    monkeypatch.setattr(job, "datetime", Clock)
    assert counted.apply("a", "3,4,+")["applied"]
    monkeypatch.setattr(job, "datetime", datetime.datetime)
    assert counted.apply("b", "3,4,-")["applied"]
    assert "one of them is wrong" in counted.refusal(lambda: job.vacuum(counted.state, keep="7d", log=counted.log))


@by_day(3)
@pytest.mark.parametrize("jump", ["", "0d", "-1d", "7", "inf", "1e9d", "99999999999d", "7d\n"])
def test_what_is_no_distance_in_time(jump: str, job: Any, world: World) -> None:
    """It is refused."""
    assert "is not a distance in time" in world.refusal(
        lambda: job.vacuum(world.state, max_clock_jump=jump, log=world.log)
    )


def test_an_upgrade_is_undone_by_the_script_before(world: World, job: Any) -> None:
    """Its state is the one before; what other versions of the program published is taken back."""
    other: Any = load_script(compile_text(PROGRAM.replace("link(Z, Y).", "link(Z, Y), X != Y."), "net.dl")[1])
    try:
        world.apply("c", "5,4,+")
        before = world.rows("reachable")
        other.upgrade(None, world.state, log=other.Log(quiet=True))
        assert world.refusal(lambda: world.rows("reachable")).startswith("the state was written by another version")
        job.rollback(None, world.state, 4, log=world.log)
        assert world.rows("reachable") == before == world.published()
        assert job.verify(None, world.state, log=world.log)["differences"] == []
    finally:
        del sys.modules[other.__name__]


def test_published_changes_are_kept_if_asked(world: World, job: Any) -> None:
    """And those of kept commits in any case."""
    for number in range(6):
        world.apply(f"n{number}", f"{number},50,+")
    folder = Path(world.state) / "published" / "reachable" / "changes"
    (folder / "batch=foreign").mkdir()
    names = {path.name for path in folder.iterdir()}
    assert job.vacuum(world.state, "3", keep_published=True, log=world.log)["removed"]["published"] == 0
    assert {path.name for path in folder.iterdir()} == names
    assert job.vacuum(world.state, log=world.log)["removed"]["published"] > 0
    assert {path.name for path in folder.iterdir()} == {"batch=n4", "batch=n5", "batch=foreign"}


# ---- archives --------------------------------------------------------------------------------------------------------


def test_an_archive_is_a_state(world: World, job: Any, tmp_path: Path) -> None:
    """With its batches; what it published is not published again."""
    archive, copy = str(tmp_path / "a.tar"), str(tmp_path / "copy")
    assert job.export(world.state, archive)["commit"] == 3
    assert job.import_archive(copy, archive)["commit"] == 3
    assert world.rows("reachable", state=copy) == world.rows("reachable")
    assert job.verify(None, copy, log=world.log)["differences"] == []
    assert job.status(copy)["finished_publication"] is False and not (Path(copy) / "published").exists()
    files = {"link": world.file("changes", "src,dst,op", "8,9,+")}
    assert not job.apply(None, copy, files, batch="b", log=world.log)["applied"]
    assert job.apply(None, copy, files, batch="c", log=world.log)["applied"]
    assert "is not kept" in world.refusal(lambda: job.rollback(None, copy, 2, log=world.log))
    job.rollback(None, copy, 3, log=world.log)
    job.vacuum(copy, log=world.log)
    assert world.rows("reachable", state=copy) == world.rows("reachable")
    assert "exists already" in world.refusal(lambda: job.export(world.state, archive))
    assert "there is a state in" in world.refusal(lambda: job.import_archive(copy, archive))


def test_a_damaged_archive(world: World, job: Any, tmp_path: Path) -> None:
    """Whatever is cut off or changed: nothing is imported."""
    archive, copy = tmp_path / "a.tar", tmp_path / "copy"
    job.export(world.state, str(archive))
    whole = archive.read_bytes()
    end = whole.rindex(b'"crc32"') + 20
    damaged = [whole[:length] for length in range(0, end, 1536)]
    damaged += [whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :] for at in range(0, end, 397) if whole[at]]
    for content in damaged:
        archive.write_bytes(content)
        try:
            job.import_archive(str(copy), str(archive))
        except job.JobError as error:
            assert "is damaged, or no archive of a state" in str(error)
            assert not list(copy.rglob("*.*"))
        else:
            # A changed byte may mean nothing to a tar file, such as the time of a file.
            assert world.rows("reachable", state=str(copy)) == world.rows("reachable")
            shutil.rmtree(copy)


def test_archives_are_whole_while_jobs_run(job: Any, tmp_path: Path) -> None:
    """Each is a commit as it was, although batches and commands remove files meanwhile."""
    world, ended, wrong = World(job, tmp_path, "2"), threading.Event(), []

    def work() -> None:
        for number in range(12):
            world.apply(f"b{number}", f"{number},{number + 100},+")
        ended.set()

    worker = threading.Thread(target=work)
    worker.start()
    number = 0
    while not ended.is_set() or not number:
        archive, copy = str(tmp_path / f"{number}.tar"), str(tmp_path / f"copy-{number}")
        try:
            commit = job.export(world.state, archive)["commit"]
        except job.JobError as error:
            assert "did not keep the commit that was read" in str(error)
            continue
        job.import_archive(copy, archive)
        wanted = {(1, 2), (2, 3), *((n, n + 100) for n in range(commit - 1))}
        wrong += [number] if world.rows(state=copy) != wanted else []
        number += 1
    worker.join()
    assert not wrong and number


# ---- kills -----------------------------------------------------------------------------------------------------------


def rollback(world: World) -> None:
    """To the state as it was built."""
    world.job.rollback(None, world.state, 1, batch="undo", log=world.log)


def revert(world: World) -> None:
    """The first batch."""
    world.job.revert(None, world.state, "a", batch="undo", log=world.log)


def vacuum(world: World) -> None:
    """All that can go."""
    world.job.vacuum(world.state, "2", log=world.log)


def imported(world: World) -> None:
    """Into another folder."""
    copy = str(world.folder / "state" / "copy")
    if not Path(copy, "manifest").exists() or not list(Path(copy, "manifest").glob("*.json")):
        world.job.import_archive(copy, str(world.folder / "a.tar"))


def exported(world: World) -> None:
    """Beside the state."""
    if not (world.folder / "state" / "b.tar").exists():
        world.job.export(world.state, str(world.folder / "state" / "b.tar"))


EXPECTED: dict[Callable[[World], None], Rows] = {
    rollback: {(1, 2), (2, 3)},
    revert: {(2, 3), (4, 5)},
    vacuum: {(2, 3), (3, 4), (4, 5)},
    imported: {(2, 3), (3, 4), (4, 5)},
    exported: {(2, 3), (3, 4), (4, 5)},
}


@by_day(1)
@pytest.mark.parametrize("command", EXPECTED)
@pytest.mark.parametrize("apart", [137, pytest.param(1, marks=AT_NIGHT)])
def test_killed(command: Callable[[World], None], apart: int, job: Any, tmp_path: Path) -> None:
    """At whatever step: the same command brings it to its end, and a batch after it is applied and published."""
    built = tmp_path / "built"

    def build() -> None:
        world = World(job, built)
        world.apply("a", "3,4,+", host=("1,b,+",))
        world.apply("b", "1,2,-", "4,5,+")
        job.export(world.state, str(built / "a.tar"))

    assert in_child(build) == 0
    for step in range(1, 10_000, apart):
        folder = tmp_path / "now"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(built, folder)
        world = object.__new__(World)
        world.job, world.folder, world.log, world.state = job, folder, job.Log(quiet=True), str(folder / "state")

        def killed(world: World = world, step: int = step) -> None:
            kill_at(step, lambda event, found: event in STEPS and world.state in str(found[0]))
            command(world)

        def check(world: World = world) -> None:
            command(world)
            assert world.rows() == EXPECTED[command]
            if command is imported:
                assert world.rows(state=f"{world.state}/copy") == EXPECTED[command]
                shutil.rmtree(f"{world.state}/copy")
            elif command is exported:
                job.import_archive(f"{world.state}/copy", f"{world.state}/b.tar")
                assert world.rows(state=f"{world.state}/copy") == EXPECTED[command]
                shutil.rmtree(f"{world.state}/copy")
            elif command is not vacuum:
                assert world.published() == world.rows("reachable")
            done = world.apply("c", "3,4,+", "9,1,+")
            assert done["applied"] and world.rows() == EXPECTED[command] | {(3, 4), (9, 1)}
            if command is not vacuum:
                assert world.published() == world.rows("reachable")
            job.vacuum(world.state, log=world.log)
            manifests = job.recorded_commits(Path(world.state))
            first = job.read_manifest(Path(world.state)).kept_from
            kept = {f for m in manifests if m.commit >= first for f in job.referenced_files(m)}
            assert {f"data/{name}" for name in job.files_under(Path(world.state) / "data")} == kept
            assert not list((Path(world.state) / "manifest").glob(".*"))
            assert not list((Path(world.state) / "published").rglob(".batch*"))
            assert job.verify(None, world.state, log=world.log)["differences"] == []

        ended = in_child(killed)
        assert ended in (0, signal.SIGKILL), ended
        assert in_child(check) == 0, f"killed at step {step}"
        if ended == 0:
            assert step > 1
            return
