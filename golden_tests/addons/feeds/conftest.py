"""What tests of feeds share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from golden_tests.addons.feeds.world import FeedWorld, applied


@pytest.fixture
def world(tmp_path: Path) -> Iterator[FeedWorld]:
    """A job without a state."""
    made = FeedWorld(tmp_path)
    yield made
    made.close()


Applied = Callable[..., dict[str, Any]]


@pytest.fixture(name="applied")
def applied_fixture(world: FeedWorld, capsys: pytest.CaptureFixture[str]) -> Applied:
    """Applies what is new, and returns the result."""

    return lambda *arguments: applied(world, capsys, *arguments)
