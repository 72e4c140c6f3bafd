"""Kills ``apply`` of a feed (with SIGKILL) at its steps on the file system, and checks that each range is applied once.

Run as a script in an empty directory, with a number: 1 to kill at each step, 2 at every other one, and so on; prints at
how many steps it killed. The library of Delta tables is used in children only: it does not work after a fork.
"""

from __future__ import annotations

import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import pyarrow.dataset  # noqa: F401  (PyArrow imports it when it first reads: not again in every child)
import pyarrow.parquet as pq

from golden_tests.feeds.world import FeedWorld, append, delete, links, make_table
from golden_tests.job.kill import STEPS, in_child, kill_at

WANTED = {(2, 3), (3, 4), (4, 5)}


def build(world: FeedWorld) -> None:
    """A state up to version 1 of a table that is at version 3, and a second feed with nothing new."""
    table = make_table(world.folder / "lake", links((1, 2)))
    Path("incoming").mkdir()
    Path("incoming/1.csv").write_text("op,id,name\n+,2,b\n")
    assert world.run("connect", f"link=delta:{table}", "person=files:incoming") == world.run("init") == 0
    append(table, (2, 3))
    assert world.run("apply") == 0
    append(table, (3, 4), (4, 5))
    delete(table, "src = 1")


def check(world: FeedWorld) -> None:
    """The range is applied, if need be now, published once, and never applied again."""
    before = world.job.status(str(world.state))["commit"]
    result = world.job.apply(None, str(world.state), log=world.job.Log(quiet=True))
    assert result["applied"] is (before == 2), result
    assert world.manifest.commit == 3
    assert world.manifest.batch == "link@1..3"
    assert world.manifest.feeds["link"].position == {"version": 3}
    world.check(WANTED)
    folder = world.state / "published" / "reachable" / "changes" / "batch=link%401..3"
    rows: list[Any] = [row for file in folder.iterdir() for row in pq.ParquetFile(file).read().to_pylist()]
    gained = {(row["src"], row["dst"]) for row in rows if row["op"] == "+"}
    lost = {(row["src"], row["dst"]) for row in rows if row["op"] == "-"}
    assert (gained, lost) == ({(2, 4), (2, 5), (3, 4), (3, 5), (4, 5)}, {(1, 2), (1, 3)}), rows
    assert len(rows) == 7
    assert not world.job.apply(None, str(world.state), log=world.job.Log(quiet=True))["applied"]


def main() -> None:
    """Kills at one step after the other, until there are no more."""
    world = FeedWorld(Path.cwd())
    assert in_child(lambda: build(world)) == 0
    shutil.copytree(world.state, "built")
    root, apart = str(world.state), int(sys.argv[1])
    for number, step in enumerate(range(1, 10_000, apart)):
        shutil.rmtree(root)
        shutil.copytree("built", root)

        def killed(step: int = step) -> None:
            kill_at(step, lambda event, arguments: event in STEPS and root in str(arguments[0]))
            world.job.apply(None, root, log=world.job.Log(quiet=True))

        ended = in_child(killed)
        assert ended in (0, signal.SIGKILL), ended
        assert in_child(lambda: check(world)) == 0, f"killed at step {step}"
        if ended == 0:
            print(number)
            return


if __name__ == "__main__":
    main()
