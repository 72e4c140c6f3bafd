"""Readers whose commit is removed while they read: they begin again from a newer one, or say so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from golden_tests.job import assemble
from golden_tests.job.stalls import PROGRAM, Race

FAKES = assemble.FAKES.replace('"pair": "link", "priced": "price", "gone": "go"', '"pair": "link"')


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """A job of two relations."""
    return assemble.load(tmp_path_factory.mktemp("script"), PROGRAM, "reader_job", FAKES)


@pytest.fixture
def race(job: ModuleType, tmp_path: Path) -> Race:
    """A state with two commits."""
    race = Race(job, tmp_path / "race", 20)
    race.begin()
    return race


def overtaken(race: Race, name: str, patch: pytest.MonkeyPatch, times: int) -> Callable[[], int]:
    """Let a function of the job be overtaken by two commits the first times it is called; gives how often it was."""
    real, calls = getattr(race.job, name), 0

    def go(*arguments: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls <= times:
            for number in range(2):
                # Both files of changes are new each time.
                assert race.apply(race.state, f"{name} {calls} {number}", 10 * calls + number) == ""
        return real(*arguments, **more)

    patch.setattr(race.job, name, go)
    return lambda: calls


def test_status(race: Race, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what the newer commit holds."""
    calls = overtaken(race, "stored_bytes", monkeypatch, 1)
    said = race.job.status(str(race.state))
    assert (said["commit"], said["rows"]["pair"], calls()) == (4, 4, 2)


def test_it_ends(race: Race, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that is slower than all that is applied says so."""
    calls = overtaken(race, "stored_bytes", monkeypatch, 100)
    with pytest.raises(race.job.JobError, match="did not keep the commit that was read during any of 5 attempts"):
        race.job.status(str(race.state))
    assert calls() == 5


def test_what_is_damaged_is_no_newer_commit(race: Race) -> None:
    """A reader that fails for another reason does not begin again."""
    for path in (race.state / "data").rglob("*.parquet"):
        path.unlink()
    with pytest.raises(FileNotFoundError):
        race.job.status(str(race.state))


def test_a_writer_is_told_of_the_other_commit(race: Race, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not that files are missing."""
    overtaken(race, "relation_sources", monkeypatch, 1)
    assert race.apply(race.state, "late", 90).startswith("another job has committed to")


def test_show_and_relation(
    race: Race, spark: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before the first row they begin again; a frame that is evaluated after its commit is gone gives Spark's error."""
    monkeypatch.setattr(race.job, "open_session", lambda name: spark)
    with monkeypatch.context() as patch:
        overtaken(race, "relation_frame", patch, 1)
        frame = race.job.relation(spark, str(race.state), "pair")
        assert {tuple(row) for row in frame.collect()} == {(n, n) for n in (1, 2, 10, 11)}
    with monkeypatch.context() as patch:
        overtaken(race, "shown_lines", patch, 1)
        capsys.readouterr()
        assert race.job.main(["show", "pair", "--state", str(race.state), "--format", "csv"]) == 0
        assert len(capsys.readouterr().out.splitlines()) in (5, 7)
    for number in (70, 71):
        assert race.apply(race.state, f"more {number}", number) == ""
    with pytest.raises(Exception, match=r"(?i)file"):
        frame.collect()


def test_verify(race: Race, monkeypatch: pytest.MonkeyPatch) -> None:
    """It verifies the newer commit."""
    calls = overtaken(race, "verify_stages", monkeypatch, 1)
    said = race.job.verify(None, str(race.state), log=race.log)
    assert (said["commit"], said["differences"], calls()) == (4, [], 2)


def test_show_that_has_begun_to_print(race: Race, capsys: pytest.CaptureFixture[str]) -> None:
    """It cannot begin again, and says that what is printed is not all."""

    def read(manifest: dict[str, Any]) -> None:
        print("a row")
        for number in range(2):
            assert race.apply(race.state, str(number), 10 + number) == ""
        raise FileNotFoundError("gone")

    with pytest.raises(
        race.job.JobError,
        match=r"commit 2 was removed by later commits while it was printed.* incomplete: run the command again",
    ):
        race.job.from_last_commit(race.state, read, lambda: True)
    assert capsys.readouterr().out == "a row\n"
