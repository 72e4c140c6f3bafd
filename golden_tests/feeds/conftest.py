"""What tests of feeds share."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from golden_tests.feeds.world import FeedWorld


@pytest.fixture
def world(tmp_path: Path) -> Iterator[FeedWorld]:
    """A job without a state."""
    made = FeedWorld(tmp_path)
    yield made
    made.close()


Applied = Callable[..., dict[str, Any]]


@pytest.fixture
def applied(world: FeedWorld, capsys: pytest.CaptureFixture[str]) -> Applied:
    """Applies what is new, and returns the result."""

    def apply(*arguments: str) -> dict[str, Any]:
        capsys.readouterr()
        assert world.run("apply", "--json", *arguments) == 0
        result: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
        return result

    return apply
