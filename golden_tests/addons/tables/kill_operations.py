"""Kills commands for operators (with SIGKILL) at their steps on the file system, on a state that has a feed and output
tables, and checks that each is done once, in the state, in what it publishes and in the tables.

Run as a script in an empty directory, with a number: 1 to kill at each step, 2 at every other one, and so on, at night
from another one on each time, with the kind of tables, ``delta`` or ``iceberg``, whose catalog is that of
``lake.settings``, and with names of commands; prints at how many steps it killed. The libraries of tables are used in
children only: they do not work after a fork.
"""

from __future__ import annotations

import shutil
import signal
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.dataset  # noqa: F401  (PyArrow imports it when it first reads: not again in every child)
import pyarrow.parquet as pq
import pyiceberg.catalog.sql
import pyiceberg.io.pyarrow  # noqa: F401

from golden_tests.addons.feeds.kill import copy
from golden_tests.addons.feeds.world import FeedWorld, append, delete, links, make_table
from golden_tests.addons.tables.lakes import OutputLake, other_lake
from golden_tests.job.kill import STEPS, in_child, kill_at
from golden_tests.nightly import START

Rows = set[tuple[Any, ...]]

#: What is beside the state, and what commands make.
LAKE, ARCHIVE, MADE, COPY = "lake", "a.tar", "made.tar", "copy"
BESIDE = ("state", "views", "others", "warehouse", "catalog.db", LAKE, MADE, COPY)

#: The outputs of the first commit.
FIRST: dict[str, list[tuple[Any, ...]]] = {"reachable": [(1, 2)], "named": [(1, "b")]}

#: The links that the feed has in the end, and what one batch has made of persons.
LAST = {(2, 3), (3, 4), (4, 5)}
BEFORE, AFTER = {(2, "b"), (3, "c")}, {(2, "x"), (4, "d")}


class Operated:
    """A state of four commits, the last of which is from its feed, and its tables."""

    def __init__(self, kind: str) -> None:
        """Compile the program."""
        self.world = FeedWorld(Path.cwd())
        self.views: OutputLake = other_lake(kind, Path.cwd(), "views")
        self.others: OutputLake = other_lake(kind, Path.cwd(), "others")

    def build(self) -> None:
        """Build the state, its tables, and an archive of it."""
        make_table(Path(LAKE), links((1, 2)))
        Path("person.csv").write_text("id,name\n2,b\n3,c\n")
        Path("changes.csv").write_text("op,id,name\n-,2,b\n+,2,x\n-,3,c\n+,4,d\n")
        self.go("connect", f"link=delta:{LAKE}")
        self.go("init", "--input", "person=person.csv", "--publish", self.views.place)
        append(LAKE, (2, 3))
        self.go("apply")
        self.go("apply", "--changes", "person=changes.csv", "--batch", "a")
        append(LAKE, (3, 4), (4, 5))
        delete(LAKE, "src = 1")
        self.go("apply")
        assert self.world.job.main(["export", "--state", str(self.world.state), "--to", ARCHIVE]) == 0
        self.check_tables(reachable=3, named=4)

    def go(self, *arguments: str) -> None:
        """Run a command that succeeds."""
        assert self.world.run(*arguments) == 0, arguments

    def published(self, name: str) -> Rows:
        """What consumers have who began with the state as it was built, and read every published batch."""
        found: Counter[tuple[Any, ...]] = Counter(FIRST[name])
        files = (self.world.state / "published" / name / "changes").glob("batch=*/*.parquet")
        for file in sorted(files, key=lambda path: path.name):
            for op, *row in (row.values() for row in pq.ParquetFile(file).read().to_pylist()):
                found[tuple(row)] += 1 if op == "+" else -1
            assert {*found.values()} <= {0, 1}, (name, file)
        return {row for row, count in found.items() if count}

    def check_tables(self, **versions: int) -> None:
        """The tables have the rows of their relations, each once, and were changed so often."""
        for name, count in versions.items():
            found = [tuple(row.values()) for row in self.views.rows(name).to_pylist()]
            assert len(found) == len(set(found))
            assert set(found) == self.world.rows(name), name
            assert len(self.views.versions(name)) == count, (name, self.views.versions(name))

    def check(self, persons: Rows, links: Rows, published: bool = True) -> None:
        """The state has these persons and links, and published what follows from them."""
        assert self.world.rows("person") == persons
        self.world.check(links)
        assert self.world.rows("named") == {(s, n) for s, d in links for i, n in persons if d == i}
        for name in ("reachable", "named") if published else ():
            assert self.published(name) == self.world.rows(name), name


# ---- commands, and what they lead to ---------------------------------------------------------------------------------


def rollback(one: Operated) -> None:
    """To before the batch of persons, and before the last one of the feed."""
    one.go("rollback", "--to", "2", "--batch", "undo")


def rolled_back(one: Operated) -> None:
    """The feed is read again from where it was then."""
    one.check(BEFORE, {(1, 2), (2, 3)})
    one.check_tables(reachable=4, named=5)
    one.go("apply")
    one.check(BEFORE, LAST)
    one.check_tables(reachable=5, named=6)


def revert(one: Operated) -> None:
    """The batch of persons."""
    one.go("revert", "a", "--batch", "undo")


def reverted(one: Operated) -> None:
    """The links stay as they are, and so does the feed."""
    one.check(BEFORE, LAST)
    one.check_tables(reachable=3, named=5)


def vacuum(one: Operated) -> None:
    """All that can go."""
    one.go("vacuum", "--keep", "2")


def vacuumed(one: Operated) -> None:
    """Nothing changes but what is kept."""
    one.check(AFTER, LAST, published=False)
    one.check_tables(reachable=3, named=4)
    state = one.world.state
    kept = {file for m in one.world.job.recorded_commits(state) for file in one.world.job.referenced_files(m)}
    assert {f"data/{name}" for name in one.world.job.files_under(state / "data")} <= kept


def export(one: Operated) -> None:
    """Into a file that is not there yet."""
    if not Path(MADE).exists():
        assert one.world.job.main(["export", "--state", str(one.world.state), "--to", MADE]) == 0


def exported(one: Operated) -> None:
    """The archive is a state that goes on with the feed and the tables."""
    moved_on(one, MADE)


def import_(one: Operated) -> None:
    """Into a folder of its own."""
    place = Path(COPY)
    if not list(place.glob("manifest/0*.json")):
        assert one.world.job.main(["import", "--state", str(place), ARCHIVE]) == 0


def imported(one: Operated) -> None:
    """The state goes on with the feed and the tables."""
    moved_on(one, "")


def moved_on(one: Operated, archive: str) -> None:
    """A state from an archive takes the place of the one that was exported."""
    one.go("connect", "--publish", "none")
    if archive:
        assert one.world.job.main(["import", "--state", COPY, archive]) == 0
    one.world.state = Path(COPY).resolve()
    one.go("connect", "--publish", one.views.place)
    one.go("apply")
    one.check(AFTER, LAST, published=False)
    # One version more says whose they are now.
    one.check_tables(reachable=4, named=5)


def rebuild(one: Operated) -> None:
    """All relations, from the inputs."""
    one.go("rebuild", "--buckets", "2")


def compact(one: Operated) -> None:
    """All relations."""
    one.go("compact")


def unchanged(one: Operated) -> None:
    """No relation has changed, and no table."""
    one.check(AFTER, LAST)
    one.check_tables(reachable=3, named=4)


def connect(one: Operated) -> None:
    """With tables elsewhere."""
    one.go("connect", "--publish", one.others.place)


def connected(one: Operated) -> None:
    """The tables there are made once, and follow."""
    one.check(AFTER, LAST)
    one.check_tables(reachable=3, named=4)
    one.views = one.others
    one.check_tables(reachable=1, named=1)


def init(one: Operated) -> None:
    """Another state, with the same feed and with tables elsewhere."""
    one.world.state = Path(COPY).resolve()
    if list(one.world.state.glob("manifest/0*.json")):
        one.go("status")
        return
    one.go("connect", f"link=delta:{LAKE}")
    one.go("init", "--input", "person=person.csv", "--publish", one.others.place)


def initialized(one: Operated) -> None:
    """The rows that the feed had are there once."""
    one.views = one.others
    one.check(BEFORE, LAST, published=False)
    one.check_tables(reachable=1, named=1)
    one.go("connect", f"link=delta:{LAKE}")


Command = Callable[[Operated], None]

COMMANDS: dict[str, tuple[Command, Command]] = {
    "rollback": (rollback, rolled_back),
    "revert": (revert, reverted),
    "vacuum": (vacuum, vacuumed),
    "export": (export, exported),
    "import": (import_, imported),
    "rebuild": (rebuild, unchanged),
    "compact": (compact, unchanged),
    "connect": (connect, connected),
    "init": (init, initialized),
}


def restore() -> None:
    """Put everything back that is beside the state, as it was built."""
    for name in BESIDE:
        place, kept = Path(name), Path("built") / name
        if kept.exists():
            copy(kept, place)
        elif place.is_dir():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)


def kill(one: Operated, name: str, step: int) -> bool:
    """Kill a command at a step, and check what comes after; return whether there was such a step."""
    command, check = COMMANDS[name]
    watched = [str(Path(place).resolve()) for place in BESIDE]
    restore()

    def killed() -> None:
        kill_at(step, lambda event, found: event in STEPS and any(place in str(found[0]) for place in watched))
        command(one)

    def go_on() -> None:
        command(one)
        check(one)
        # And so does the feed.
        append(LAKE, (5, 2))
        one.go("apply")
        one.world.check({*LAST, (5, 2)})
        one.check_tables(reachable=len(one.views.versions("reachable")), named=len(one.views.versions("named")))

    ended = in_child(killed)
    assert ended in (0, signal.SIGKILL), ended
    assert in_child(go_on) == 0, f"{name} was killed at step {step}"
    return ended != 0


def main() -> None:
    """Kills at one step after the other, until there are no more."""
    apart, kind, names = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    one, number = Operated(kind), 0
    assert in_child(one.build) == 0
    for name in BESIDE:
        if Path(name).exists():
            copy(Path(name), Path("built") / name)
    for name in names:
        step = 1 + START % apart
        while kill(one, name, step):
            step += apart
            number += 1
    print(number)


if __name__ == "__main__":
    main()
