"""Options and fixtures of all tests.

Test modules import helpers as ``golden_tests.oracle.evaluate``: in importlib mode pytest makes the packages from the
root directory on importable under their full names, without the repository on ``sys.path``.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from golden_tests import nightly, quick

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from golden_tests.addons.processes.real import RealWorld


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of golden files and of quick tests."""
    parser.addoption(
        "--update-golden",
        action="store_true",
        default=False,
        help="write the expected files of golden cases anew instead of comparing with them",
    )
    parser.addoption("--quick", action="store_true", default=False, help="leave out the tests that slow.txt names")
    parser.addoption("--update-slow", action="store_true", default=False, help="write slow.txt anew after the run")


IN_MEMORY = Path("/dev/shm")
ENOUGH = 6 * 2**30


def pytest_configure(config: pytest.Config) -> None:
    """Register the marks: of tests that run at night only, and of those that one worker runs. Let temporary folders be
    in memory where there is enough of it: jobs force many small files to the disk, and tests have thousands of jobs."""
    with contextlib.suppress(OSError):
        room = os.statvfs(IN_MEMORY)
        if os.access(IN_MEMORY, os.W_OK) and room.f_bavail * room.f_frsize >= ENOUGH:
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(IN_MEMORY))
    if config.getoption("--update-slow") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(quick.Times())
    config.addinivalue_line("markers", "night: runs in `make nightly` only")
    config.addinivalue_line("markers", "by_day(count): at most this many of its cases run by day")
    config.addinivalue_line("markers", "xdist_group(name): run by one worker, together with others of that name")


def pytest_report_header() -> str:
    """Say by which random numbers the tests of the night run."""
    return nightly.header()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what does not run now; let one worker run all tests that share something."""
    nightly.select(config, items)
    quick.select(config, items)
    quick.slowest_first(items)
    for item in items:
        if isinstance(item, pytest.Function) and not item.get_closest_marker("xdist_group"):
            shared = group_of(item)
            if shared:
                item.add_marker(pytest.mark.xdist_group(shared))


SPARK = "spark"
"""The group of the tests that share the Spark session."""


def group_of(item: pytest.Function) -> str:
    """The group of a test that uses the Spark session or a fixture of its module; empty if any worker may run it."""
    if SPARK in item.fixturenames:
        return SPARK
    used = item._fixtureinfo.name2fixturedefs
    shares = any(found[-1].scope == "module" for name, found in used.items() if name in item.fixturenames)
    return item.nodeid.partition("::")[0] if shares else ""


def uses_spark(item: pytest.Item) -> bool:
    """Whether a test has asked for the Spark session."""
    group = item.get_closest_marker("xdist_group")
    return group is not None and group.args == (SPARK,)


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether expected files are to be written anew."""
    return bool(request.config.getoption("--update-golden"))


#: Of a session that lives for minutes and runs each query once: to compile takes longer than to interpret. A whole
#: night, or one share in four of it, has sessions as users have them.
SHORT_LIVED = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The Spark session that all tests share; tests that need none do not start it."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    as_users = nightly.NIGHTLY and (nightly.SHARE is None or nightly.SHARE[0] % 4 == 0)
    settings = {} if as_users else SHORT_LIVED
    settings = settings | {
        # One session runs hundreds of programs.
        "spark.driver.memory": "2g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.session.timeZone": "America/New_York",
    }
    builder = SparkSession.builder.master("local[2]").appName("golden tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def no_session_of_others(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the session that other tests have opened from tests that ask for none: what they start runs here."""
    sql = sys.modules.get("pyspark.sql")
    if sql is not None and not uses_spark(request.node):
        monkeypatch.setattr(sql.SparkSession, "getActiveSession", lambda: None)


@pytest.fixture(params=["here", pytest.param(SPARK, marks=[nightly.AT_NIGHT, pytest.mark.xdist_group(SPARK)])])
def place(request: pytest.FixtureRequest) -> SparkSession | None:
    """Where the commands of a job run, their first argument: here, and at night also on Spark."""
    if request.param == "here":
        return None
    session: SparkSession = request.getfixturevalue(SPARK)
    return session


@pytest.fixture
def worlds() -> Iterator[list[RealWorld]]:
    """The worlds of real processes that a test has started; they end with it."""
    made: list[RealWorld] = []
    yield made
    for world in made:
        world.close()
