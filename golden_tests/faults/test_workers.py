"""A Python worker that dies alone, as when the system takes the memory of a process that has much."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from golden_tests.faults.world import World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_worker_that_is_killed(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Spark gives up where it does not try again: the command fails, says so, and nothing was committed."""
    world = World(tmp_path / "world")
    module: Any = world.module
    log = module.Log(quiet=True)
    module.init(spark, str(world.state), str(world.folder / "batches" / "init"), buckets=1, log=log)
    batch = world.new_batch()
    arguments = ["apply", "--state", str(world.state), "--changes", str(world.folder / "batches" / batch)]
    found = module.local_folder
    # The command itself goes on; what is killed is the worker, which asks for a folder too.
    alone = f"__import__('os').getpid() == {os.getpid()}"
    killed = "__import__('os').kill(__import__('os').getpid(), 9)"
    module.local_folder = functools.partial(eval, f"{found()!r} if {alone} else {killed}")
    capsys.readouterr()
    assert module.main([*arguments, "--batch", batch, "--quiet"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("apply: Spark failed: ") and len(err.splitlines()) == 1, err
    assert "Python worker exited unexpectedly" in err
    assert world.check(finished=True) == 1
    assert len(list((world.state / "data").iterdir())) == 1
    module.local_folder = found
    assert module.main([*arguments, "--batch", batch, "--quiet"]) == 0
    assert world.check(finished=True) == 2
