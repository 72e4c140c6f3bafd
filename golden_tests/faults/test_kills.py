"""SIGKILL for whole jobs (on Spark: the driver, its JVM, its Python workers) at any moment of a command.

``apply``, ``init`` and ``rebuild`` are killed at steps of the driver on the file system, at SQL statements of tasks,
and at random moments. Then another process goes on from what it finds. Whatever the moment: the state is that of the
last commit, a batch is in it once, its changes are published once, and never those of a batch that is not in it.
"""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from golden_tests.faults.runner import Kill
from golden_tests.faults.world import Runner, World, class_archive
from golden_tests.nightly import AT_NIGHT, START, by_day

KILLS = 10

#: Kills that every run makes, since they are where it hurts: the command, settings of the script, and when.
CHOSEN: list[tuple[str, dict[str, Any], Kill | None]] = [
    ("init", {}, Kill("driver", 1, ".json")),  # with a manifest that has no place yet
    ("apply", {}, Kill("driver", 0, "os.link")),  # before the commit
    ("apply", {}, Kill("driver", 1, "os.link")),  # after the commit
    ("apply", {}, Kill("driver", 1, "os.rename")),  # between two publications, or behind the last
    ("apply", {}, Kill("driver", 2, "os.remove /data")),  # while cleaning up
    ("apply", {}, Kill("task", 40)),
    ("apply", {"FEW_ROWS": 0}, Kill("task", 80)),  # with two stages, between their files
    ("apply", {}, None),
    ("rebuild", {}, None),
]


@pytest.fixture(scope="module")
def archive(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Classes for the JVMs."""
    scratch = tmp_path_factory.mktemp("archive")
    cache = getattr(request.config, "cache", None)
    folder = cache.mkdir("jvm") if cache else scratch
    return class_archive(folder, scratch / "world")


@pytest.fixture(scope="module", params=["here", pytest.param("spark", marks=AT_NIGHT)])
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A state to be built, and runners; the tests go on where the one before ended. At night also on Spark."""
    folder = tmp_path_factory.mktemp("kills") / "world"
    on = request.param
    made = World(folder, archive=request.getfixturevalue("archive") if on == "spark" else None, on=on)
    yield made
    made.close()
    shutil.rmtree(folder, ignore_errors=True)


class Killer:
    """Runs commands on a world and kills them, and brings each to its end in another process."""

    def __init__(self, world: World, seed: int = 0) -> None:
        """Nothing has been killed."""
        self.world, self.rng = world, random.Random(seed)
        self.kills: list[str] = []
        self.seconds: dict[str, float] = {}
        self.steps: dict[tuple[str, str], int] = {}

    def ask(self, command: str, batch: str, settings: dict[str, Any], kill: Kill | None, timed: bool) -> bool:
        """Run a command, to be killed at a step or (``timed``) at some moment; False if it was killed."""
        kind = f"{command} {settings}"
        limit = self.rng.uniform(0, self.seconds.get(kind, 2.0)) if timed else None
        # Now and then the rest of the family is left to find out.
        alone = timed and self.rng.random() < 0.3
        runner = self.world.runner()
        started = time.monotonic()
        answer = runner.ask(self.world.request(command, batch, kill, **settings), limit, alone)
        if answer is None:
            self.kills.append(f"{kind} {kill or f'after {limit:.3f} s'}{', alone' if alone else ''}")
            return False
        assert answer["code"] == 0, answer
        self.seconds[kind] = time.monotonic() - started
        self.steps[kind, "driver"], self.steps[kind, "task"] = len(answer["steps"]), answer["statements"]
        return True

    def kill(self, command: str, settings: dict[str, Any], kill: Kill | None) -> None:
        """Kill a command, check what it leaves, run it again, check that."""
        world = self.world
        if command == "init":
            world.start_again()
        batch = world.new_batch() if command == "apply" else ""
        commit = world.check(finished=True)
        done = self.ask(command, batch, settings, kill, timed=kill is None)
        while not done:
            before, commit = commit, world.check(finished=False)
            assert commit in (before, before + 1)
            if command == "init" and commit:
                break  # init does not build over a state
            # Now and then the second attempt is killed too.
            done = self.ask(command, batch, settings, None, timed=self.rng.random() < 0.15)
        world.check(finished=done)
        manifest = world.manifest()
        assert manifest is not None and manifest.batch.startswith(batch or command), manifest.batch

    def random_kill(self) -> None:
        """Kill any command at any point of it."""
        command = self.rng.choices(["apply", "init", "rebuild"], [8, 1, 1])[0]
        engines = [{"engine": "spark"}] if self.world.on == "spark" else []
        settings = self.rng.choice([{}, {"FEW_ROWS": 0}, *engines])
        place = self.rng.choice(["driver", "task", "any"])
        steps = self.steps.get((f"{command} {settings}", place), 0)
        self.kill(command, settings, Kill(place, self.rng.randrange(steps)) if steps else None)


@by_day(1)
def test_killed_at_any_moment(world: World, request: pytest.FixtureRequest) -> None:
    """The chosen kills."""
    killer = Killer(world)
    for kill in CHOSEN:
        killer.kill(*kill)
    # What was to be killed may have been done before.
    while len(killer.kills) < KILLS:
        killer.kill("apply", {}, None)
    if cache := getattr(request.config, "cache", None):
        cache.set("flintlog/kills", killer.kills)


@AT_NIGHT
@pytest.mark.parametrize("part", range(10))
def test_killed_at_random(part: int, world: World) -> None:
    """Three kills of any command at any step of it."""
    killer = Killer(world, START + part)
    if world.manifest() is None:
        killer.kill("init", {}, None)
    while len(killer.kills) < 3:
        killer.random_kill()


#: Kills of one process of several on Spark: the command, and when. By day there is one, in ``test_workers``.
ALONE = [
    ("apply", Kill("task", 40, victim="worker")),
    ("apply", Kill("task", 40, victim="jvm")),
    ("apply", Kill("driver", 0, "os.link", victim="jvm")),
    ("apply", Kill("driver", 1, "os.link", victim="jvm")),
    ("init", Kill("task", 10, victim="worker")),
    ("init", Kill("task", 10, victim="jvm")),
    ("rebuild", Kill("task", 30, victim="jvm")),
]


@pytest.fixture(scope="module")
def on_spark(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A state whose runners have sessions; other commands on it run here."""
    folder = tmp_path_factory.mktemp("kills") / "world"
    made = World(folder, archive=archive, on="spark")
    yield made
    made.close()
    shutil.rmtree(folder, ignore_errors=True)


def run_here(world: World, command: str, batch: str = "") -> None:
    """Run a command in this process."""
    request = world.request(command, batch)
    assert world.module.main([*request["arguments"], "--state", request["state"], "--on", "here", "--quiet"]) == 0


@AT_NIGHT
@pytest.mark.parametrize(("command", "kill"), ALONE)
def test_one_process_of_several_is_killed(command: str, kill: Kill, on_spark: World) -> None:
    """The driver lives, says what happened and ends with 1; nothing is committed, or all of it. The next run works."""
    world = on_spark
    if command == "init":
        world.start_again()
    elif world.manifest() is None:
        run_here(world, "init")
    batch = world.new_batch() if command == "apply" else ""
    before = world.check(finished=True)
    runner = world.only_runner()
    answer = runner.ask(world.request(command, batch, kill))
    assert answer is not None
    after = world.check(finished=False)
    if kill.victim == "jvm":
        runner.kill()
    if answer["code"] == 0:
        # Java had nothing to do any more.
        assert kill.place == "driver" and after == before + 1
    else:
        # What stands above may be PySpark's, which prints the traceback of a thread.
        said = answer["err"].splitlines()[-1]
        assert answer["code"] == 1 and said.startswith(f"{command}: Spark failed: "), answer["err"]
        ends = "is committed" if after > before else "nothing was committed, the state is unchanged"
        assert ends in said, answer["err"]
    if after == before:
        run_here(world, command, batch)
    assert world.check(finished=True) == before + 1


@by_day(1)
def test_two_jobs_at_once(world: World) -> None:
    """Two processes apply batches to one state; one of the two is killed in one of the rounds. Whoever does not win is
    told so, and every batch is there once in the end."""
    if world.manifest() is None:
        run_here(world, "init")
    left = [world.new_batch() for _ in range(6)]
    for turn in range(12):
        runners = world.alive_runners(2)
        for runner in runners:
            runner.wait_until_ready()
        now = left[:2]
        said: dict[str, dict[str, Any] | None] = {}

        def work(runner: Runner, batch: str, limit: float | None, said: dict[str, Any] = said) -> None:
            said[batch] = runner.ask(world.request("apply", batch), limit)

        limits = [0.3, None] if turn == 1 else [None, None]
        arguments = zip(runners, now, limits, strict=False)
        threads = [threading.Thread(target=work, args=each) for each in arguments]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for batch in now:
            answer = said[batch]
            if answer is not None and answer["code"] == 0:
                left.remove(batch)
            elif answer is not None:
                assert "another job has committed" in answer["err"], answer
        world.check(finished=None not in said.values())
        if not left:
            break
    assert not left


def test_what_is_left_is_exact_and_tidy(world: World) -> None:
    """After all this ``verify`` finds nothing, and two batches later no file is there that is not referred to."""
    for runner in world.runners:
        runner.kill_orphans()
    if world.manifest() is None:
        run_here(world, "init")
    runner = world.runner()
    for request in (*(world.request("apply", world.new_batch()) for _ in range(2)), world.request("verify")):
        answer = runner.ask(request)
        assert answer is not None and answer["code"] == 0, answer
    world.check(finished=True)
    world.check_tidy()
