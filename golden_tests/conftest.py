"""Options and fixtures of all tests.

Test modules import helpers as ``golden_tests.oracle.evaluate``: in importlib mode pytest makes the packages from the
root directory on importable under their full names, without the repository on ``sys.path``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from golden_tests import nightly

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--update-golden``."""
    parser.addoption(
        "--update-golden",
        action="store_true",
        default=False,
        help="write the expected files of golden cases anew instead of comparing with them",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark of tests that run at night only."""
    config.addinivalue_line("markers", "night: runs in `make nightly` only")


def pytest_report_header() -> str:
    """Say by which random numbers the tests of the night run."""
    return nightly.header()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what does not run now."""
    nightly.select(config, items)


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether expected files are to be written anew."""
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The Spark session that all tests share; tests that need none do not start it."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
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
