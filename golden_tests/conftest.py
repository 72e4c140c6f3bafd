"""Options and fixtures of all tests.

Test modules import helpers as ``golden_tests.oracle.evaluate``: in importlib mode pytest makes the packages from the
root directory on importable under their full names, without the repository on ``sys.path``.
"""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--update-golden``."""
    parser.addoption(
        "--update-golden",
        action="store_true",
        default=False,
        help="write the expected files of golden cases anew instead of comparing with them",
    )


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether expected files are to be written anew."""
    return bool(request.config.getoption("--update-golden"))
