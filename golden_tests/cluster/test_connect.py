"""The same commands through Spark Connect, which has no SparkContext and no JVM to reach into."""

from __future__ import annotations

from pathlib import Path

import pytest

from golden_tests.nightly import AT_NIGHT
from golden_tests.store.remote.test_stores import World, check, walk


@AT_NIGHT
@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_connect(engine: str, tmp_path: Path) -> None:
    """A server of its own, as ``--remote local`` starts one."""
    pytest.importorskip("grpc", reason="what Spark Connect needs is not installed")
    world = World(tmp_path)
    said = walk(world, str(tmp_path / "state"), {"spark.remote": "local[2]"}, {}, engine)
    check(world, said, engine)
    assert "is damaged" in said["changed"]
