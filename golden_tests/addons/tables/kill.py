"""Kills ``apply`` (with SIGKILL) of a job whose views are tables, and of a job that reads these tables.

Run as a script in an empty directory, with two numbers, a seed and how often to kill, and with the kind of tables:
``delta``, or ``iceberg``, whose catalog is that of ``lake.settings``. The first job applies batches that change random
links, and the second what is new in the first one's tables. Either is killed at some moment, in Python or in the
library of tables, then goes on. The libraries are used in children only: they do not work after a fork.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.dataset  # noqa: F401  (PyArrow imports it when it first reads: not again in every child)
import pyiceberg.catalog.sql  # noqa: F401

from golden_tests.addons.feeds.world import FeedWorld
from golden_tests.addons.tables.lakes import other_lake
from golden_tests.job.kill import in_child

FIRST = """
input relation link(src: int, dst: int)
output relation reachable(src: int, dst: int)
output relation degree(src: int, n: int)
reachable(S, D) :- link(S, D).
reachable(S, D) :- link(S, Z), reachable(Z, D).
degree(S, count<D>) :- link(S, D).
"""

SECOND = """
input relation reachable(src: int, dst: int)
input relation degree(src: int, n: int) primary key (src)
output relation both(a: int, b: int, n: int)
both(A, B, N) :- reachable(A, B), reachable(B, A), degree(A, N).
"""

NODES = 7

Links = set[tuple[int, int]]


class Chain:
    """Two jobs, the second of which reads the tables of the first."""

    def __init__(self, folder: Path, kind: str) -> None:
        """Compile both, without states."""
        self.lake = other_lake(kind, folder, "lake")
        for name in ("first", "second"):
            (folder / name).mkdir(exist_ok=True)
        self.first = FeedWorld(folder / "first", FIRST)
        self.second = FeedWorld(folder / "second", SECOND)

    def build(self) -> None:
        """Build both states, of no links."""
        assert self.first.run("init", "--publish", self.lake.place) == 0
        feeds = [f"{name}={self.lake.feed(name)}" for name in ("reachable", "degree")]
        assert self.second.run("connect", *feeds) == 0
        assert self.second.run("init") == 0

    def apply(self, number: int, links: Links, new: Links) -> None:
        """Apply a batch to the first job that makes of its links ``new`` ones."""
        changes = [("-", *link) for link in links - new] + [("+", *link) for link in new - links]
        file = self.first.folder / "changes.csv"
        file.write_text("op,src,dst\n" + "".join(f"{op},{a},{b}\n" for op, a, b in changes), encoding="utf-8")
        assert self.first.run("apply", "--batch", f"b{number}", "--changes", f"link={file}") == 0

    def check(self, links: Links) -> None:
        """All that was applied has arrived at the end of the chain, and no table tells a change twice."""
        assert self.second.run("apply") == 0
        pairs, degrees = closure(links), Counter(a for a, _ in links)
        assert self.first.rows("reachable") == pairs
        for name, rows in (("reachable", pairs), ("degree", set(degrees.items()))):
            feed = self.lake.changes(name, None).to_pylist()
            net: Counter[tuple[Any, ...]] = Counter()
            # In the order of versions, no row comes that is there, and none goes that is not.
            for version in sorted({row["_commit_version"] for row in feed}):
                for row in feed:
                    if row["_commit_version"] == version:
                        *values, _, sign = row.values()
                        net[tuple(values)] += sign
                assert set(net.values()) <= {0, 1}, (name, version, net)
            assert {row for row, count in net.items() if count} == rows, name
            assert self.second.rows(name) == rows
        assert self.second.rows("both") == {(a, b, degrees[a]) for a, b in pairs if (b, a) in pairs}


def closure(links: Links) -> Links:
    """The pairs that are connected."""
    pairs = set(links)
    while more := {(a, d) for a, b in pairs for c, d in links if b == c} - pairs:
        pairs |= more
    return pairs


def killed_after(seconds: float) -> None:
    """Ends this process after a time, whatever it is doing."""

    def kill() -> None:
        time.sleep(seconds)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=kill, daemon=True).start()


def main() -> None:
    """Kills one of the jobs again and again."""
    rng, times = random.Random(int(sys.argv[1])), int(sys.argv[2])
    chain, links, kills = Chain(Path.cwd(), sys.argv[3]), set[tuple[int, int]](), 0
    assert in_child(chain.build) == 0
    longest = 0.2
    for number in range(times):
        chosen = rng.sample([(a, b) for a in range(NODES) for b in range(NODES)], 3)
        new = links ^ set(chosen)
        for job in ("first", "second"):
            after = rng.uniform(0, longest)

            def work(
                job: str = job, after: float = after, old: Links = links, new: Links = new, number: int = number
            ) -> None:
                killed_after(after)
                if job == "first":
                    chain.apply(number, old, new)
                else:
                    assert chain.second.run("apply") == 0

            started = time.monotonic()
            ended = in_child(work)
            assert ended in (0, signal.SIGKILL), ended
            kills += ended != 0
            # Half of the commands are to end before they are killed.
            longest = longest * 1.2 if ended else 1.5 * (time.monotonic() - started)
            if job == "first":
                # The batch is repeated, as a scheduler would.
                assert in_child(lambda: chain.apply(number, links, new)) == 0  # noqa: B023
        links = new
        if number % 4 == 3 or number + 1 == times:
            assert in_child(lambda: chain.check(links)) == 0, f"batch {number}"  # noqa: B023
    print(kills)


if __name__ == "__main__":
    main()
