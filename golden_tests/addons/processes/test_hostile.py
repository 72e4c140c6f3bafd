"""What processes find that is not as it should be: files that belong nowhere, damaged messages, a system that fails,
homes and channels restored from copies, other columns, and messages that somebody has made up."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from flintlog.compiler.review.report.joblog import run_logs

from golden_tests.addons.processes.model import KeptLog, Stored, World, evaluated
from golden_tests.harness import load_script
from golden_tests.nightly import AT_NIGHT, by_day, one_in
from golden_tests.oracle.language import Row

PAIR = """
process A {
  input relation e(x: int, y: int)
  A.p(X, Y) :- e(X, Y).
}
process B {
  B.p(X, Y) :- A.p(X, Y).
}
"""
CYCLE = """
process A {
  input relation e(x: int, y: int)
  A.p(X, Y) :- e(X, Y).
  A.p(X, Y) :- B.p(Y, X).
}
process B {
  B.p(X, Y) :- A.p(X, Y).
}
"""
SECRET = b"what only these two know"


class Pair:
    """Two processes, of which the first is fed and the second reads of it."""

    def __init__(self, folder: Path, text: str = PAIR) -> None:
        self.world = World(text, folder, random.Random(1))
        self.world.calm = True
        self.rows: set[Row] = set()

    @property
    def root(self) -> Path:
        """The folder that they share."""
        return self.world.folder

    @property
    def module(self) -> Any:
        """The reader's script."""
        return self.world.modules["B"]

    @property
    def channel(self) -> Any:
        """The channel between them."""
        return self.module.PROCESS.receives[0]

    @property
    def messages(self) -> Path:
        """The folder with its messages."""
        return self.root / "channels" / "A.p--B" / "messages"

    def feed(self, *rows: Row) -> None:
        """Feed rows."""
        self.change(*(("+", row) for row in rows))

    def change(self, *changes: tuple[str, Row]) -> None:
        """Feed a file of changes."""
        for op, row in changes:
            (self.rows.add if op == "+" else self.rows.discard)(row)
        self.world.feed("A", "e", ("x", "y"), changes)

    def settle(self) -> None:
        """Run both until all is quiet, in calm."""
        self.world.settle()
        self.world.calm = True

    def check(self) -> None:
        """In the end all is as one process would compute it."""
        self.settle()
        assert self.world.relations() == evaluated(self.world.compiled, {("A", "e"): self.rows})

    def status(self, name: str) -> dict[str, Any]:
        """What a process says of itself."""
        said: dict[str, Any] = json.loads((self.root / "status" / f"{name}.json").read_text(encoding="utf-8"))
        return said

    def shown(self, name: str) -> set[Row]:
        """What a process shows."""
        return self.world.states[name].tuples(f"{name}.p")

    def warned(self, name: str, what: str) -> int:
        """How many warnings of a process have a text in them."""
        return sum(what in warning for warning in self.world.logs[name].warnings)


@pytest.fixture
def made() -> Iterator[list[Pair]]:
    """The worlds of a test, which end with it."""
    pairs: list[Pair] = []
    yield pairs
    for pair in pairs:
        pair.world.close()


@pytest.fixture
def pair(made: list[Pair], tmp_path: Path) -> Pair:
    """Two processes without a secret; none runs yet."""
    made.append(Pair(tmp_path / "root"))
    return made[-1]


def file(place: Path) -> None:
    """A file with some bytes."""
    place.write_bytes(b"\0what is this?")


def circle(place: Path) -> None:
    """A link to itself."""
    place.symlink_to(place)


def dangling(place: Path) -> None:
    """A link to nothing."""
    place.symlink_to(place.parent / "nowhere")


FOLDERS = {
    "incarnations": "processes/A/incarnations",
    "sessions": "channels/A.p--B/sessions",
    "messages": "channels/A.p--B/messages",
    "feeds": "feeds/A/e",
}
STRAY: dict[str, tuple[str, Callable[[Path], object]]] = {
    "hidden": (".nfs0001", file),
    "other": ("Thumbs.db", file),
    "parquet": ("junk.parquet", file),
    "number": ("000999", file),
    "empty number": ("000998", Path.touch),
    "huge number": ("9" * 30, Path.touch),
    "folder": ("000997", Path.mkdir),
    "folder of data": ("folder.parquet", Path.mkdir),
    "dangling link": ("000996", dangling),
    "circle": ("000000.csv", circle),
    "pipe": ("000000.jsonl", os.mkfifo),
    "name": ("\udcff.csv", file),
}


@by_day(1)
@pytest.mark.parametrize("where", FOLDERS)
def test_stray_files(where: str, pair: Pair) -> None:
    """Each is named once, and left aside and where it is."""
    pair.feed((1, 2))
    pair.check()
    folder = pair.root / FOLDERS[where]
    folder.mkdir(parents=True, exist_ok=True)
    strange = []
    for name, make in STRAY.values():
        # A file of data in a feed is food, whatever is in it; a hidden one there is not whole yet.
        if where == "feeds" and name in ("junk.parquet", ".nfs0001"):
            continue
        make(folder / name)
        strange.append(folder / name)
    pair.feed((3, 4))
    pair.check()
    pair.world.kill("A")
    pair.world.kill("B")
    pair.check()
    assert all(map(os.path.lexists, strange))
    ends = [pair.module.path_text(path)[-9:] for path in strange]
    named = [pair.warned("A", end) + pair.warned("B", end) for end in ends]
    assert min(named) >= 1
    assert max(named) <= 2
    if where == "feeds":
        assert pair.status("A")["aside"]["e"] == sorted(path.name for path in strange)
        assert pair.status("A")["caught_up"]


def test_what_is_no_lease(pair: Pair) -> None:
    """A lease that cannot be read is none: who says nothing is taken for gone."""
    pair.feed((1, 2))
    pair.check()
    lease = pair.root / "processes" / "A" / "lease.json"
    pair.world.kill("A")
    for make in (file, Path.touch, circle, dangling, os.mkfifo, Path.mkdir):
        lease.unlink()
        make(lease)
        pair.world.turn("B")
        if make is Path.mkdir:
            lease.rmdir()
    assert pair.shown("B") == {(1, 2)}
    pair.world.pass_time(6.0)
    pair.world.turn("B")
    assert pair.shown("B") == set()
    pair.check()


@by_day(1)
@pytest.mark.parametrize("left", [0, 100, -1])
def test_a_damaged_message(left: int, pair: Pair) -> None:
    """Its reader notices, and asks for everything anew; nothing is lost."""
    pair.feed((1, 2))
    pair.check()
    pair.feed((3, 4))
    pair.world.turn("A")
    (message,) = pair.messages.glob("[0-9]*")
    content = bytearray(message.read_bytes())
    if left < 0:
        content[len(content) // 2] ^= 1
    message.write_bytes(content if left < 0 else content[:left])
    before = pair.status("B")["receives"]["A.p--B"]["session"]
    pair.check()
    assert pair.warned("B", "is damaged") == 1
    assert pair.status("B")["receives"]["A.p--B"]["session"] > before


def test_a_message_that_is_lost(pair: Pair) -> None:
    """It is missed when others have come for as long as a lease."""
    pair.feed((1, 2))
    pair.check()
    pair.feed((3, 4))
    pair.world.turn("A")
    (message,) = pair.messages.glob("[0-9]*")
    message.unlink()
    pair.feed((5, 6))
    pair.world.turn("A")
    pair.world.turn("B")
    assert pair.shown("B") == {(1, 2), (5, 6)}
    pair.world.pass_time(4.0)
    pair.world.pass_time(4.0)
    pair.check()
    assert ("begin_anew", {"channel": "A.p--B", "why": "messages are missing"}) in pair.world.logs["B"].events


def test_a_deletion_that_overtakes_its_insertion(pair: Pair) -> None:
    """Its tuple is shown neither before the insertion has arrived nor afterwards; until then something is missing."""
    pair.feed((1, 2))
    pair.check()
    pair.world.feed("A", "e", ("x", "y"), [("+", (3, 4))])
    pair.world.turn("A")
    (insertion,) = pair.messages.glob("[0-9]*")
    insertion = insertion.rename(pair.root / insertion.name)
    pair.world.feed("A", "e", ("x", "y"), [("-", (3, 4))])
    pair.world.turn("A")
    pair.world.turn("B")
    assert pair.shown("B") == {(1, 2)} and not pair.status("B")["caught_up"]
    insertion.rename(pair.messages / insertion.name)
    pair.world.turn("B")
    assert pair.shown("B") == {(1, 2)} and pair.status("B")["caught_up"]
    pair.check()


@by_day(1)
@pytest.mark.parametrize("number", one_in([errno.ENOSPC, errno.EMFILE, errno.EIO, errno.ESTALE], 2))
@pytest.mark.parametrize("when", ["before", "after", "committed"])
def test_the_system_fails_during_a_step(when: str, number: int, pair: Pair) -> None:
    """It is tried again, after growing pauses, and sent once; the file that was fed is not blamed."""
    pair.settle()
    pair.feed((1, 2))
    state, worker = pair.world.states["A"], pair.world.workers["A"]
    state.faults = [(when, OSError(number, os.strerror(number))) for _ in range(3)]
    pauses = []
    while state.faults:
        busy, pause = worker.try_turn()
        assert not busy
        assert os.strerror(number).lower() in pair.status("A")["trouble"].lower()
        pauses.append(pause)
    assert pauses == [0.2, 0.4, 0.8]
    assert state.steps == (when == "committed")
    pair.check()
    assert state.steps == 1 and worker.sender.totals["A.p--B"].inserted == 1
    assert pair.status("A")["refused"] == []
    assert pair.status("A")["trouble"] == ""


def test_what_is_refused_is_the_inputs(pair: Pair) -> None:
    """Refusals are of the file fed, unless the system had a part in it; it is taken in when it has been changed."""
    world = pair.world
    world.start("A")
    module: Any = world.modules["A"]
    full = module.Passing("no space left on device; nothing was committed")
    wrapped = module.Refused("is damaged")
    wrapped.__cause__ = OSError(errno.EIO, "input/output error")
    world.states["A"].faults = [("before", full), ("before", wrapped), ("before", module.Refused("a row is wrong"))]
    pair.feed((1, 2))
    for _ in range(2):
        world.workers["A"].try_turn()
        assert world.workers["A"].feeds.refused == {}
    world.workers["A"].try_turn()
    assert pair.status("A")["refused"] == ["a row is wrong"]
    assert not pair.status("A")["caught_up"]
    (food,) = (pair.root / "feeds" / "A" / "e").iterdir()
    world.workers["A"].try_turn()
    assert world.workers["A"].feeds.refused
    os.utime(food)
    pair.check()
    assert pair.status("A")["refused"] == []


THREE = """
process A {
  input relation e(x: int)
  input relation f(x: int)
  input relation g(x: int)
  A.p(X) :- e(X).
  A.p(X) :- f(X).
  A.p(X) :- g(X).
}
"""


@by_day(2)
@pytest.mark.parametrize("wrong", one_in([*"efg", "ef", "eg", "fg"], 2))
@pytest.mark.parametrize("killed", [False, True])
def test_only_what_is_wrong_waits(
    wrong: str, killed: bool, tmp_path: Path, made: list[Pair], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of files that were fed together, those are refused that are refused alone; others are taken in."""
    made.append(Pair(tmp_path / "root", THREE))
    world = made[-1].world

    def start() -> list[set[str]]:
        world.start("A")
        tried: list[set[str]] = []

        def refuse(changes: Any, step: str) -> None:
            tried.append({*changes})
            if {*changes} & {*wrong}:
                raise world.modules["A"].Refused(f"{sorted({*changes} & {*wrong})[0]} is wrong")  # type: ignore[attr-defined]

        world.states["A"].instead = refuse
        return tried

    tried = start()
    for place, name in enumerate("efg"):
        world.feed("A", name, ("x",), [("+", (place,))])
    if killed:
        # A step was begun; the next run knows of what was committed.
        monkeypatch.setattr(world.workers["A"].feeds, "refuse", None)
        with contextlib.suppress(TypeError):
            world.turn("A")
        world.kill("A")
        tried = start()
    for _ in range(4):
        world.turn("A")
    assert (killed or tried[0] == {*"efg"}) and {*map(len, tried[1:])} <= {0, 1}
    worker = world.workers["A"]
    assert {name: message for name, (_, _, message) in worker.feeds.refused.items()} == {
        n: f"{n} is wrong" for n in wrong
    }
    assert world.states["A"].tuples("A.p") == {(place,) for place, name in enumerate("efg") if name not in wrong}
    assert {name: len(worker.inbox.files_fed(name)) for name in "efg"} == {n: int(n not in wrong) for n in "efg"}
    # More of them are taken in together again, beside those that wait.
    tried.clear()
    for place, name in enumerate("efg"):
        if name not in wrong:
            world.feed("A", name, ("x",), [("+", (place + 10,))])
    world.turn("A")
    assert tried == [{*"efg"} - {*wrong}]


def test_what_does_not_pass(pair: Pair) -> None:
    """A process ends when another has taken over, and when something is wrong that stays so."""
    world = pair.world
    world.start("A")
    module: Any = world.modules["A"]
    pair.feed((1, 2))
    world.states["A"].faults = [("before", module.JobError("the state is damaged"))]
    with pytest.raises(module.JobError, match="the state is damaged"):
        world.workers["A"].try_turn()
    world.workers["A"].channels.take_incarnation("A")
    with pytest.raises(module.JobError, match="another run of A has taken over"):
        world.workers["A"].try_turn()


def test_a_lease_that_cannot_be_renewed(pair: Pair) -> None:
    """It is renewed when that can be done again, by the same thread."""
    module: Any = load_script(pair.world.scripts["A"])
    channels, log = module.DirectoryChannels(pair.root), KeptLog()
    renewed, fails = threading.Event(), 3

    def renew(process: str, lease: Any) -> None:
        nonlocal fails
        if fails:
            fails -= 1
            raise OSError(errno.ENOSPC, "No space left on device")
        module.DirectoryChannels.renew(channels, process, lease)
        renewed.set()

    channels.renew = renew
    beat = module.Beat(channels, module.PROCESS, channels.take_incarnation("A"), 0.01, log)
    assert renewed.wait(30)
    beat.end()
    assert channels.lease("A").running is False
    assert [name for name, _ in log.events] == ["lease_not_renewed", "lease_renewed"]


@pytest.mark.parametrize("what", ["lost", "older"])
def test_a_home_that_is_lost_or_older(what: str, pair: Pair) -> None:
    """Nothing is lost, or there twice: the process takes in what its home does not know of."""
    world = pair.world
    pair.feed((1, 2), (2, 3))
    pair.check()
    world.kill("A")
    older = world.states["A"].copy()
    for row in ((3, 4), (5, 6)):
        pair.feed(row)
        pair.check()
    world.feed("A", "e", ("x", "y"), [("-", (1, 2))])
    pair.rows.remove((1, 2))
    pair.check()
    world.kill("A")
    world.states["A"].lose(older if what == "older" else None)
    pair.check()
    assert pair.status("A")["caught_up"] and world.states["A"].steps == 4
    world.kill("A")
    pair.check()
    assert world.states["A"].steps == 4 and not world.states["A"].differences()


@pytest.mark.parametrize("part", ["inbox.db", "state"])
def test_a_home_of_an_earlier_version(part: str, pair: Pair) -> None:
    """It is refused, with what to do; moved away, it is fed again."""
    world, module = pair.world, pair.world.modules["A"]
    pair.feed((1, 2))
    pair.check()
    world.kill("A")
    home = pair.root / "homes" / "A-1"
    (home / part).mkdir()
    with pytest.raises(
        module.JobError, match=rf"in an earlier version of Flintlog, with {part}: start it in a new home"
    ):  # type: ignore[attr-defined]
        world.start("A")
    home.rename(pair.root / "away")
    pair.check()


FOREIGN = {
    "trigger": ("CREATE TRIGGER x AFTER INSERT ON _inbox_fed BEGIN DELETE FROM _inbox_lines; END", "has the trigger"),
    "table": ('CREATE TABLE "_received_A_p; DROP TABLE x--" (y)', "has the table"),
    "view": ('CREATE VIEW "e\'--" AS SELECT 1', "has the view"),
    "column": ("ALTER TABLE _inbox_fed ADD COLUMN more", "has the table"),
    "missing": ("DROP TABLE _inbox_seen", "lacks the table"),
    "accumulator": ("DROP INDEX _received_A_p__1", "lacks the index"),
    "origin": ("PRAGMA application_id = 7", "but not the state of a Flintlog program"),
    "version": ("PRAGMA user_version = 99", "written by a newer version"),
    "relations": ("UPDATE _settings SET value = '{}' WHERE name = 'relations'", "start B in a new home"),
    "lines": ("UPDATE _inbox_lines SET line = '[1'", "the line of channel"),
    "process": ("UPDATE _inbox_run SET process = 'A'", 'is the home of "A": start B in its own'),
}


@pytest.mark.parametrize("what", FOREIGN)
def test_a_foreign_home(what: str, pair: Pair) -> None:
    """A file in which somebody has put other things, or which is of somebody else, is refused."""
    world, module = pair.world, pair.world.modules["B"]
    pair.feed((1, 2))
    pair.check()
    world.kill("B")
    change, said = FOREIGN[what]
    with contextlib.closing(sqlite3.connect(world.states["B"].file, isolation_level=None)) as connection:
        connection.execute(change)
    with pytest.raises(module.JobError, match=said) as caught:  # type: ignore[attr-defined]
        world.start("B")
    assert "\n" not in str(caught.value)
    world.states["B"].lose()
    pair.check()


@pytest.mark.parametrize("content", [b"", b"no database at all", b"SQLite format 3\0" + bytes(5000)])
def test_a_home_that_is_no_database(content: bytes, pair: Pair) -> None:
    """An empty file is a new one; others are refused, with what to do."""
    world, module = pair.world, pair.world.modules["A"]
    pair.feed((1, 2))
    pair.check()
    world.kill("A")
    world.states["A"].lose()
    world.states["A"].file.write_bytes(content)
    if content:
        with pytest.raises(module.JobError, match=r"; start A in a new home"):  # type: ignore[attr-defined]
            world.start("A")
        world.states["A"].lose()
    pair.check()


def test_a_home_with_a_folder_for_a_file(pair: Pair) -> None:
    """A folder at the file's name is said, rather than tried again."""
    world, module = pair.world, pair.world.modules["A"]
    pair.check()
    world.kill("A")
    world.states["A"].lose()
    world.states["A"].file.mkdir()
    with pytest.raises(module.JobError, match="is a folder; the state of this program is a file"):  # type: ignore[attr-defined]
        world.start("A")


def test_a_commit_that_fails_and_is_there(pair: Pair) -> None:
    """If forcing the log to disk fails, the step may be there or not; what follows from it reaches the reader."""
    world = pair.world
    pair.feed((1, 2))
    pair.check()
    worker = world.workers["A"]
    transaction = worker.state.database.transaction

    @contextlib.contextmanager
    def failing() -> Iterator[None]:
        with transaction():
            yield
        raise OSError(errno.EIO, "Input/output error")

    worker.state.database.transaction = failing
    pair.feed((3, 4))
    before = worker.state.database.commit.number
    assert worker.try_turn() == (False, 0.2)
    assert worker.state.database.commit.number == before + 1
    pair.check()
    assert pair.shown("B") == {(1, 2), (3, 4)} and worker.state.database.commit.number == before + 1


def test_two_runs_of_one_home(pair: Pair) -> None:
    """The older one writes nothing any more, even if it has not noticed."""
    world, module = pair.world, pair.world.modules["A"]
    pair.feed((1, 2))
    pair.check()
    old = world.workers.pop("A")
    world.start("A")
    pair.feed((3, 4))
    old.check_incarnation = lambda: None
    with pytest.raises(module.JobError, match="another run of A has taken over"):  # type: ignore[attr-defined]
        old.try_turn()
    pair.check()
    old.state.close()


def test_a_new_home_without_its_food(pair: Pair) -> None:
    """Who begins with nothing where files are gone that an earlier run was fed says so."""
    world, module = pair.world, pair.world.modules["A"]
    pair.feed((1, 2))
    pair.check()
    world.kill("A")
    (food,) = (pair.root / "feeds" / "A" / "e").iterdir()
    food.unlink()
    with pytest.raises(module.JobError, match=r"A-2: the home is new, or an older copy, and 1 of the files"):  # type: ignore[attr-defined]
        world.start("A", elsewhere=True)
    (pair.root / "status" / "A.json").unlink()
    pair.rows.clear()
    pair.check()


@by_day(1)
@pytest.mark.parametrize("running", [False, True])
def test_channels_restored_from_a_copy(running: bool, pair: Pair, tmp_path: Path) -> None:
    """Numbers begin again there: who runs ends and says why, and who starts does not take what comes for old."""
    world = pair.world
    pair.feed((1, 2))
    pair.check()
    for part in ("processes", "channels"):
        shutil.copytree(pair.root / part, tmp_path / "copy" / part)
    for _ in range(3):
        world.kill("A")
        world.kill("B")
        pair.check()
    pair.feed((3, 4))
    if not running:
        world.kill("A")
        world.kill("B")
    for part in ("processes", "channels"):
        shutil.rmtree(pair.root / part)
        shutil.copytree(tmp_path / "copy" / part, pair.root / part)
    for name in "AB" if running else "":
        with pytest.raises(world.modules[name].JobError, match="channels were restored from a copy; start the process"):  # type: ignore[attr-defined]
            world.workers[name].try_turn()
        world.kill(name)
    pair.check()


def test_channels_that_are_gone_for_a_moment(pair: Pair, tmp_path: Path) -> None:
    """A folder that is not there is waited for."""
    pair.feed((1, 2))
    pair.check()
    (pair.root / "processes").rename(tmp_path / "away")
    for name in "AB":
        assert pair.world.workers[name].try_turn() == (False, 0.2)
    shutil.rmtree(pair.root / "processes", ignore_errors=True)
    (tmp_path / "away").rename(pair.root / "processes")
    pair.feed((3, 4))
    pair.check()


def send(pair: Pair, columns: list[tuple[str, str]], rows: list[Row], **other: Any) -> None:
    """Send the reader changes as a sender of another version would, with columns of its own."""
    worker = pair.world.workers["A"]
    arrays = [pa.array([1] * len(rows), pa.int64())]
    kinds = {"int": pa.int64(), "string": pa.string()}
    arrays += [pa.array([row[n] for row in rows], kinds[kind]) for n, (_, kind) in enumerate(columns)]
    table = pa.table(arrays, [f"c{n}" for n in range(len(arrays))])
    table = table.replace_schema_metadata({"flintlog.columns": json.dumps(columns)})
    sent = worker.sender.sent["A.p--B"]
    worker.sender.note(pair.channel, sent._replace(messages=sent.messages + 1))
    given = {
        "incarnation": worker.incarnation,
        "session": sent.session,
        "beginning": sent.beginning,
        "sequence": sent.messages + 1,
        "kind": "changes",
        "complete": True,
        **other,
    }
    worker.channels.send(pair.channel, pair.module.Message(**given), table)


def test_columns_in_another_order(pair: Pair) -> None:
    """They are matched by their names."""
    pair.feed((1, 2))
    pair.settle()
    send(pair, [("Y", "int"), ("X", "int")], [(30, 4)])
    pair.world.turn("B")
    assert pair.shown("B") == {(1, 2), (4, 30)}


@by_day(1)
@pytest.mark.parametrize(
    "columns",
    [[("X", "int"), ("Z", "int")], [("X", "int"), ("Y", "string")], [("X", "int")]],
    ids=["name", "type", "number"],
)
def test_other_columns(columns: list[tuple[str, str]], pair: Pair) -> None:
    """The channel is refused, and its reader keeps what it had until the sender sends what is read."""
    pair.feed((1, 2))
    pair.settle()
    kept = {"int": 7, "string": "seven"}
    send(pair, columns, [tuple(kept[kind] for _, kind in columns)])
    for _ in range(3):
        pair.world.turn("B")
    sent = ", ".join(f"{name}: {kind}" for name, kind in columns)
    assert pair.shown("B") == {(1, 2)}
    expected = f"A sends A.p with ({sent}), but B reads it with (X: int, Y: int): they were not compiled"
    assert pair.warned("B", expected) == 1
    assert pair.status("B")["receives"]["A.p--B"]["state"] == "open"
    pair.world.kill("A")
    pair.feed((5, 6))
    pair.check()


def forge(pair: Pair, module: Any, seal: Any) -> None:
    """Do what somebody can do who reaches the folder."""
    channels = module.DirectoryChannels(pair.root, seal)
    channels.take_incarnation("B")
    channels.open_session(pair.channel)
    worker = pair.world.workers["A"]
    life, sent = worker.incarnation, worker.sender.sent["A.p--B"]
    empty = pa.table({"_op": pa.array([], pa.int64()), "X": pa.array([], pa.int64()), "Y": pa.array([], pa.int64())})
    empty = empty.replace_schema_metadata({"flintlog.columns": json.dumps([["X", "int"], ["Y", "int"]])})
    for number in (life.number, life.number + 1, 10**6):
        for beginning in (sent.beginning, sent.beginning + 1):
            whose = (life._replace(number=number), sent.session, beginning)
            channels.send(pair.channel, module.Message(*whose, 1, "snapshot", True), empty)
            channels.send(pair.channel, module.Message(*whose, 99, "changes", True), empty)
    made_up = seal.number_text("incarnation", "A", life._replace(number=777))
    for folder in ("processes/A/incarnations", "channels/A.p--B/sessions"):
        (pair.root / folder / "000777").write_text(made_up, encoding="utf-8")
    channels.renew("A", module.Lease(life, 10**6, False, {}))


def test_what_is_made_up_changes_nothing(pair: Pair) -> None:
    """Without the secret nothing can be said on a channel: no number taken, no lease, no message."""
    pair.world.secrets = {"A": SECRET, "B": SECRET}
    pair.feed((1, 2))
    pair.check()
    forge(pair, pair.module, pair.module.Seal(b"what somebody guessed"))
    before = pair.world.workers["B"].incarnation
    for _ in range(5):
        pair.world.turn("B")
        assert pair.shown("B") == {(1, 2)}
        pair.world.turn("A")
    assert pair.world.workers["B"].incarnation == before
    assert pair.warned("B", "is not a lease with a valid mark") == 1
    assert sum(pair.warned(name, "has no session with a valid mark") for name in "AB") >= 1
    assert pair.warned("B", "was not sent with the secret of this process") >= 1
    pair.feed((3, 4))
    pair.check()


def test_what_is_said_elsewhere_or_again_counts_no_more(pair: Pair) -> None:
    """A mark is one for its place only, and what was said before does not count again."""
    pair.world.secrets = {"A": SECRET, "B": SECRET}
    pair.feed((1, 2))
    pair.settle()
    world, numbers = pair.world, pair.root / "processes" / "A" / "incarnations"
    shutil.copy(numbers / "000001", numbers / "000002")
    shutil.copy(pair.root / "processes" / "B" / "incarnations" / "000001", numbers / "000003")
    sessions = pair.root / "channels" / "A.p--B" / "sessions"
    for number in ("000009", "000010"):
        shutil.copy(sorted(sessions.iterdir())[0], sessions / number)
    pair.feed((3, 4))
    world.turn("A")
    (message,) = pair.messages.glob("[0-9]*")
    again = message.read_bytes()
    _, drawn, session, by_reader, beginning, _, rest = message.name.split("-", 6)
    for number, begun, sequence in (("000001", beginning, 77), ("000001", beginning, 1), ("000002", "000009", 1)):
        name = f"{number}-{drawn}-{session}-{by_reader}-{begun}-{sequence:09d}-{rest}"
        (pair.messages / name).write_bytes(again)
        (pair.messages / name.replace("changes", "snapshot")).write_bytes(again)
    lease = pair.root / "processes" / "A" / "lease.json"
    old = lease.read_bytes()
    pair.check()
    assert world.workers["A"].incarnation.number == 1
    (pair.messages / message.name).write_bytes(again)
    pair.check()
    world.stop("A")
    world.turn("B")
    assert pair.shown("B") == set()
    lease.write_bytes(old)
    world.turn("B")
    assert pair.status("B")["receives"]["A.p--B"]["state"] == "cut"
    pair.check()


def test_another_secret(pair: Pair) -> None:
    """Processes with other secrets hear nothing of each other; with the same one they do at once."""
    pair.world.secrets = {"A": SECRET, "B": b"another than the other"}
    pair.feed((1, 2))
    pair.settle()
    assert pair.shown("B") == set()
    # That of the process, and that of the channel.
    assert pair.warned("B", "is not a lease with a valid mark") == 2
    pair.world.kill("B")
    pair.world.secrets["B"] = SECRET
    pair.check()


def test_the_file_of_a_secret(pair: Pair, tmp_path: Path) -> None:
    """Its line has an end that does not count; a short one is refused, and never shown."""
    path = tmp_path / "secret"
    path.write_bytes(SECRET + b"\r\n")
    assert pair.module.read_secret(str(path)) == SECRET
    path.write_bytes(b"short\n")
    with pytest.raises(pair.module.JobError) as caught:
        pair.module.read_secret(str(path))
    assert "short\n" not in str(caught.value)
    assert "at least 16 bytes" in str(caught.value)


def test_what_a_recursion_has_handled_is_counted(made: list[Pair], tmp_path: Path) -> None:
    """The tuples of its channels count like others."""
    made.append(Pair(tmp_path / "root", CYCLE))
    pair = made[-1]
    pair.feed((1, 2), (3, 4))
    pair.check()
    handled = [fields["handled"] for name, fields in pair.world.logs["B"].events if name == "step"]
    assert sum(int(str(n)) for n in handled) == pair.status("B")["in"] >= 2
    assert pair.status("A")["in"] >= 2


def test_what_is_sent_is_counted_by_channel(pair: Pair) -> None:
    """Messages and tuples of this run, whatever lives its reader began in it."""
    pair.feed((1, 2), (3, 4))
    pair.check()
    pair.world.kill("B")
    pair.check()
    pair.feed((5, 6))
    pair.check()
    said = pair.status("A")["sends"]["A.p--B"]
    events = [fields for name, fields in pair.world.logs["A"].events if name == "sent"]
    assert said["total"] == {
        "messages": len(events),
        "snapshots": [fields["kind"] for fields in events].count("snapshot"),
        "inserted": sum(int(str(fields["inserted"])) for fields in events),
        "deleted": sum(int(str(fields["deleted"])) for fields in events),
    }
    assert said["total"]["snapshots"] >= 2
    assert said["total"]["messages"] > said["messages"]
    assert said["total"]["inserted"] + said["total"]["deleted"] == pair.status("A")["out"] >= 5


def test_nothing_is_written_while_nothing_comes(pair: Pair) -> None:
    """An idle process forces nothing to its disk."""
    pair.feed((1, 2))
    pair.check()
    written: list[str] = []
    pair.world.workers["B"].state.database.connection.set_trace_callback(lambda sql: written.append(sql.split()[0]))
    pair.settle()
    assert "COMMIT" in written and {*written}.isdisjoint(("INSERT", "UPDATE", "DELETE", "REPLACE"))
    pair.feed((3, 4))
    pair.check()
    assert "INSERT" in written


def test_a_file_that_goes_while_it_is_looked_at(pair: Pair) -> None:
    """Between listing and opening, food and messages may go."""
    pair.feed((1, 2))
    pair.check()
    worker = pair.world.workers["B"]
    pair.feed((3, 4))
    pair.world.turn("A")
    told, read = worker.channels.waiting, worker.channels.read

    def gone(channel: Any, message: Any) -> Any:
        worker.channels.read = read
        raise FileNotFoundError(errno.ENOENT, "gone", message.name)

    worker.channels.read = gone
    assert worker.try_turn() == (False, 0.0)
    assert told(pair.channel)
    pair.check()


CHAIN = f"{PAIR}process C {{\n  C.p(X, Y) :- B.p(X, Y).\n}}\n"


def test_channels_away_for_a_turn_of_the_sender(pair: Pair, tmp_path: Path) -> None:
    """What it has applied in the meantime comes when they are back."""
    pair.feed((1, 2))
    pair.settle()
    pair.feed((3, 4))
    (pair.root / "channels").rename(tmp_path / "away")
    pair.world.turn("A")
    assert not (pair.root / "channels").exists()
    (tmp_path / "away").rename(pair.root / "channels")
    pair.check()
    pair.feed((5, 6))
    pair.check()


def unread(pair: Pair, name: str, folder: str, file: str, number: int = errno.EACCES) -> tuple[bool, float]:
    """A turn of a process in which a file cannot be read."""
    module: Any = pair.world.modules[name]
    read = module.read_regular

    def read_regular(path: Path) -> bytes:
        if (path.parent.name, path.name) == (folder, file):
            raise OSError(number, os.strerror(number), str(path))
        content: bytes = read(path)
        return content

    module.read_regular = read_regular
    try:
        turned: tuple[bool, float] = pair.world.workers[name].try_turn()
        return turned
    finally:
        module.read_regular = read


@by_day(1)
@pytest.mark.parametrize("who", ["A", "B"])
@pytest.mark.parametrize(
    "number",
    [errno.EACCES, errno.EIO, *(pytest.param(n, marks=AT_NIGHT) for n in (errno.EPERM, errno.ENOENT, errno.ELOOP))],
)
def test_a_session_that_cannot_be_read_for_a_turn(number: int, who: str, pair: Pair) -> None:
    """Its number seems to fall; no message of the same life has a number that one had before."""
    for row in ((1, 2), (2, 2)):
        pair.feed(row)
        pair.settle()
    pair.world.kill("B")
    pair.settle()
    for row in ((3, 4), (5, 6)):
        pair.feed(row)
        pair.settle()
    pair.feed((6, 6))
    unread(pair, who, "sessions", "000002", number)
    for row in ((7, 8), (9, 9)):
        pair.feed(row)
        pair.check()


def test_an_own_incarnation_that_cannot_be_read_for_a_turn(pair: Pair) -> None:
    """The process waits, and does not end."""
    pair.feed((1, 2))
    pair.settle()
    pair.world.kill("A")
    pair.settle()
    assert unread(pair, "A", "incarnations", "000002") == (False, 0.2)
    assert "Permission denied" in pair.status("A")["trouble"]
    pair.feed((3, 4))
    pair.check()


class Copied:
    """Channels as they were, to be restored."""

    def __init__(self, pair: Pair, folder: Path) -> None:
        self.pair, self.folder = pair, folder
        for part in ("processes", "channels"):
            shutil.copytree(pair.root / part, folder / part)

    def restore(self) -> None:
        """Have them again as they were."""
        for part in ("processes", "channels"):
            shutil.rmtree(self.pair.root / part)
            shutil.copytree(self.folder / part, self.pair.root / part)


@by_day(1)
@pytest.mark.parametrize("restarted", one_in(["", "A", "B", "AB"], 2))
def test_a_copy_of_which_a_session_is_newer(restarted: str, pair: Pair, tmp_path: Path) -> None:
    """The reader began anew since the copy was made; it notices, whoever is started again."""
    pair.feed((1, 2))
    pair.settle()
    copy = Copied(pair, tmp_path / "copy")
    pair.world.now += 6
    pair.world.turn("B")
    pair.settle()
    assert pair.status("B")["receives"]["A.p--B"]["state"] == "open"
    copy.restore()
    for name in restarted:
        pair.world.kill(name)
    pair.feed((3, 4))
    pair.check()
    pair.world.kill("A")
    pair.feed((5, 6))
    pair.check()


@by_day(1)
@pytest.mark.parametrize("times", [1, 3, 4])
def test_a_copy_of_which_an_incarnation_is_newer(times: int, pair: Pair, tmp_path: Path) -> None:
    """The sender began anew since the copy was made, and does again, perhaps with a number that its reader knows."""
    pair.feed((1, 2))
    pair.settle()
    copy = Copied(pair, tmp_path / "copy")
    for _ in range(3):
        pair.world.kill("A")
        pair.settle()
    pair.feed((3, 4))
    pair.settle()
    copy.restore()
    with pytest.raises(pair.world.modules["A"].JobError, match="restored from a copy"):  # type: ignore[attr-defined]
        pair.world.workers["A"].try_turn()
    for _ in range(times):
        pair.world.kill("A")
        pair.world.start("A")
    pair.feed((5, 6))
    pair.check()
    assert pair.status("B")["caught_up"]


def test_a_session_that_an_older_run_opens(pair: Pair) -> None:
    """A run that was stopped in mid-turn goes on when another has taken over, and that opens another session."""
    pair.feed((1, 2))
    pair.settle()
    old = pair.module.DirectoryChannels(pair.root)
    pair.world.kill("B")
    pair.world.start("B")
    old.open_session(pair.channel)
    for row in ((3, 4), (5, 6)):
        pair.feed(row)
        pair.check()


def test_channels_that_are_gone_for_good(pair: Pair) -> None:
    """Their reader says so, and does not pretend to have caught up; started again, it makes them anew."""
    pair.feed((1, 2))
    pair.settle()
    shutil.rmtree(pair.root / "channels")
    pair.feed((3, 4))
    for name in "AB":
        pair.world.turn(name)
    assert "session 1 of A.p--B cannot be found: do the channels still exist?" in pair.status("B")["trouble"]
    assert not pair.status("B")["caught_up"]
    pair.world.kill("B")
    pair.check()
    assert pair.status("B")["caught_up"]


def test_a_leaf_has_not_caught_up_without_its_sender(pair: Pair) -> None:
    """Neither before that was started nor when it is gone."""
    pair.world.start("B")
    pair.world.turn("B")
    assert not pair.status("B")["caught_up"]
    pair.feed((1, 2))
    pair.check()
    assert pair.status("B")["caught_up"]
    pair.world.kill("A")
    pair.world.now += 6
    pair.world.turn("B")
    assert not pair.status("B")["caught_up"]


@pytest.fixture
def chain(made: list[Pair], tmp_path: Path) -> Pair:
    """Three processes, each of which reads of the one before."""
    made.append(Pair(tmp_path / "chain", CHAIN))
    made[-1].feed((1, 2))
    made[-1].settle()
    return made[-1]


def test_what_was_caught_up_in_an_earlier_run(chain: Pair) -> None:
    """Who begins anew as a reader has caught up when its senders have answered."""
    chain.world.kill("B")
    chain.feed((3, 4))
    chain.world.turn("A")
    chain.world.start("B")
    chain.world.turn("B")
    assert not chain.status("B")["caught_up"]
    messages = chain.root / "channels" / "B.p--C" / "messages"
    assert ["snapshot-partial" in path.name for path in messages.glob("*.parquet")] == [True]
    chain.check()
    assert chain.status("B")["caught_up"]


@by_day(1)
@pytest.mark.parametrize("what", ["damaged", "lost", "snapshot lost"])
def test_the_last_message(what: str, chain: Pair) -> None:
    """If it is damaged or lost, its reader has not caught up, and gets all anew."""
    if what == "snapshot lost":
        chain.world.kill("A")
        chain.world.start("A")
    chain.feed((3, 4))
    chain.world.turn("A")
    (message,) = (chain.root / "channels" / "A.p--B" / "messages").glob("[0-9]*")
    if what == "damaged":
        message.write_bytes(b"x")
    else:
        message.unlink()
        chain.world.pass_time(1.0)
    for _ in range(2):
        chain.world.turn("B")
        assert not chain.status("B")["caught_up"]
    for _ in range(3):
        chain.world.pass_time(4.0)
        chain.world.turn("B")
    chain.check()
    assert chain.status("B")["caught_up"]


def test_what_was_recorded_counts_no_more_when_its_number_is_taken_again(pair: Pair) -> None:
    """Somebody without the secret removes the sessions, and puts a message back that was for one of the same number."""
    pair.world.secrets = {"A": SECRET, "B": SECRET}
    pair.feed((1, 2))
    pair.world.start("B")
    pair.world.start("A")
    pair.world.turn("A")
    (message,) = pair.messages.glob("[0-9]*")
    recorded = message.read_bytes()
    pair.settle()
    pair.world.feed("A", "e", ("x", "y"), [("-", (1, 2))])
    pair.rows.clear()
    pair.feed((7, 7))
    pair.settle()
    pair.world.kill("B")
    for session in (pair.root / "channels" / "A.p--B" / "sessions").iterdir():
        session.unlink()
    pair.world.start("B", elsewhere=True)
    message.write_bytes(recorded)
    pair.world.turn("B")
    assert pair.shown("B") == set()
    pair.check()


@pytest.mark.parametrize("option", ["--secret-file", "--channels", "--kafka-settings"])
def test_an_option_that_is_empty(option: str, pair: Pair, capsys: pytest.CaptureFixture[str]) -> None:
    """It does not mean that there is none: a secret that was not found is none to do without."""
    module: Any = load_script(pair.world.scripts["B"])
    module.open_session = module.signal.signal = lambda *_: None

    def begin(*_: Any) -> None:
        raise module.JobError("it has begun")

    module.ProcessState = begin
    with pytest.raises(SystemExit, match="2"):
        module.process_main(module.PROGRAM, module.PROCESS, ["serve", "--root", str(pair.root), option, ""])
    assert f"serve: error: {option} is empty; is a variable not set?" in capsys.readouterr().err


@pytest.mark.parametrize("make", one_in([circle, file], 2))
def test_the_folder_of_a_feed_is_none(make: Callable[[Path], object], made: list[Pair], tmp_path: Path) -> None:
    """It is named, and all else goes on, feeds and channels."""
    two = CYCLE.replace(
        "  A.p(X, Y) :- e", "  input relation f(x: int, y: int)\n  A.p(X, Y) :- f(X, Y).\n  A.p(X, Y) :- e"
    )
    made.append(Pair(tmp_path / "root", two))
    pair = made[-1]
    pair.feed((1, 2))
    pair.settle()
    place = pair.root / "feeds" / "A" / "f"
    make(place)
    pair.feed((5, 6))
    pair.settle()
    assert pair.shown("A") == pair.shown("B") == {(1, 2), (2, 1), (5, 6), (6, 5)}
    said = pair.status("A")
    assert not said["caught_up"] and said["held_up"] == ["f"] and said["trouble"] == ""
    assert len(said["refused"]) == 1 and f"{place} cannot be read (" in said["refused"][0]
    assert pair.warned("A", "cannot be read") == 1
    place.unlink()
    pair.settle()
    said = pair.status("A")
    assert said["caught_up"] and said["held_up"] == said["refused"] == []


@by_day(1)
@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.EACCES])
def test_a_file_fed_that_cannot_be_read_for_a_moment(number: int, pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is taken in when it can be, though nobody has changed it; only permissions are the file's."""
    pair.feed((1, 2))
    pair.world.start("A")
    module: Any = pair.world.modules["A"]

    def closed(path: Any, *more: Any) -> int:
        if "feeds" in Path(path).parts:
            raise OSError(number, os.strerror(number), str(path))
        return os.open(path, *more)

    with monkeypatch.context() as patch:
        other = type(os)("os")
        vars(other).update({**vars(os), "open": closed, "access": lambda *_: False})
        patch.setattr(module, "os", other)
        pair.world.turn("A")
        assert bool(pair.status("A")["refused"]) == (number == errno.EACCES)
        assert not pair.status("A")["caught_up"]
    pair.world.now += 100
    pair.check()
    assert pair.status("A")["refused"] == []


def test_a_refused_file_that_is_removed(pair: Pair) -> None:
    """Nothing is said of it any more."""
    pair.world.start("A")
    pair.feed((1, 2))
    pair.world.states["A"].faults = [("before", pair.world.modules["A"].Refused("a row is wrong"))]  # type: ignore[attr-defined]
    pair.world.turn("A")
    assert pair.status("A")["refused"] == ["a row is wrong"]
    (food,) = (pair.root / "feeds" / "A" / "e").iterdir()
    food.unlink()
    pair.world.turn("A")
    said = pair.status("A")
    assert said["caught_up"] and said["refused"] == said["held_up"] == []


def test_a_home_of_another_version_of_the_program(pair: Pair, made: list[Pair]) -> None:
    """It is refused at once, with the way out."""
    pair.feed((1, 2))
    pair.settle()
    for name in "AB":
        pair.world.kill(name)
    wider = PAIR.replace("A.p(X, Y) :- e(X, Y)", "A.p(X, Y, Z) :- e(X, Y), Z = X").replace(
        "A.p(X, Y).", "A.p(X, Y, Z), Z > 0."
    )
    made.append(Pair(pair.root, wider))
    other = made[-1]
    other.world.lives = {"A": 1, "B": 1}
    other.world.states = {name: Stored(other.world, name, pair.world.home(name)) for name in "AB"}
    with pytest.raises(other.module.JobError, match=r"by another version of it: A.p, B.p differ; start B in"):
        other.world.start("B")


def test_pauses_are_bounded(pair: Pair) -> None:
    """However often in a row something fails, for days."""
    assert [pair.module.pause_after(times) for times in (1, 2, 8, 9, 10**4)] == [0.2, 0.4, 25.6, 30.0, 30.0]
    assert [pair.module.pause_after(times, 1.0) for times in (0, 3, 10**4)] == [1.0, 8.0, 30.0]


def test_the_system_fails_when_a_process_begins(pair: Pair) -> None:
    """That is tried again, as is all that comes later; a mistake is not."""
    module, waited = pair.module, []
    silent = module.Passing("Kafka does not accept messages to a topic: no answer for 30 seconds")
    errors = [OSError(errno.ENOSPC, "full"), OSError(errno.ENOSPC, "full"), silent, None]
    ended = threading.Event()
    ended.wait = waited.append  # type: ignore[method-assign, assignment]

    def make() -> str:
        if error := errors.pop(0):
            raise error
        return "a worker"

    assert module.begun(make, ended, pair.world.logs["B"]) == "a worker"
    assert waited == [0.2, 0.4, 0.8]
    errors[:] = [module.JobError("wrong")]
    with pytest.raises(module.JobError, match="wrong"):
        module.begun(make, ended, pair.world.logs["B"])


def test_an_older_run_does_not_renew_the_lease(pair: Pair) -> None:
    """It has slept in a long turn, and another run has taken over."""
    module: Any = load_script(pair.world.scripts["A"])
    channels = module.DirectoryChannels(pair.root)
    old = module.Beat(channels, module.PROCESS, channels.take_incarnation("A"), 0.01, KeptLog())
    taken = channels.take_incarnation("A")
    old.thread.join(30)
    assert not old.thread.is_alive()
    channels.renew("A", module.Lease(taken, 1, True, {}))
    old.end()
    assert channels.lease("A").incarnation == taken


def test_a_lease_is_not_renewed_in_a_folder_that_is_away(pair: Pair, tmp_path: Path) -> None:
    """Another one in its place would be in its way when it comes back."""
    pair.feed((1, 2))
    pair.settle()
    beat = pair.world.workers["A"].beat
    (pair.root / "processes").rename(tmp_path / "away")
    with contextlib.suppress(OSError):
        beat.renew()
    assert not (pair.root / "processes").exists()
    (tmp_path / "away").rename(pair.root / "processes")
    pair.check()


def test_a_message_that_is_sent_again_says_what_it_said(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be there though sending it has failed, and something more was fed since."""
    pair.feed((1, 2))
    pair.settle()
    module: Any = pair.world.modules["A"]
    pair.feed((3, 4))
    whole = module.write_whole

    def fails(path: Path, content: bytes, forced: bool) -> None:
        whole(path, content, forced)
        if forced:
            raise OSError(errno.ENOSPC, "after the file has got its name")

    with monkeypatch.context() as patch:
        patch.setattr(module, "write_whole", fails)
        assert pair.world.workers["A"].try_turn() == (False, 0.2)
    pair.feed((5, 6))
    pair.world.workers["A"].try_turn()
    assert len({path.name.split(".")[0] for path in pair.messages.glob("*.parquet")}) == 1
    pair.check()


def test_logs_beside_which_there_is_litter(tmp_path: Path) -> None:
    """Of the folder of logs files are read only."""
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "A.log").write_text("event=serving\n", encoding="utf-8")
    for number, make in enumerate((circle, dangling, os.mkfifo, Path.mkdir)):
        make(logs / f"{number}.log")
    assert run_logs(tmp_path) == {"A": "event=serving\n"}


#: Says that it has refused a file, and runs until it is ended.
REFUSING = """
import json, os, signal, sys, time
from pathlib import Path
root = Path(sys.argv[sys.argv.index("--root") + 1])
said = {"pid": os.getpid(), "busy": False, "fed": {"e": []}, "aside": {"e": []}, "held_up": ["e"], "receives": {}}
said |= {"sends": {"A.p--B": {}}, "refused": ["refused:\\n  row 1 is wrong"], "trouble": ""}
(root / "status").mkdir(exist_ok=True)
(root / "status" / "A.json").write_text(json.dumps(said))
signal.signal(signal.SIGTERM, lambda *_: (root / "goodbye").touch() or sys.exit())
(root / "serving").touch()
time.sleep(60)
"""


@pytest.fixture
def jobs(pair: Pair, tmp_path: Path) -> Path:
    """The scripts of two processes."""
    from flintlog.targets import EmitOptions
    from flintlog.targets.processes.emit import emit_processes

    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # So a shell starts what runs in the background, and processes that tests start would ignore it, too.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    plans = {name: compilation.plan for name, compilation in pair.world.compiled.compilations.items()}
    for name, text in emit_processes(pair.world.compiled.topology, plans, EmitOptions("0", format=False)).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


@AT_NIGHT
def test_run_local_ends_its_processes(jobs: Path) -> None:
    """By whatever signal it is told to end; and by itself when all is done but what was refused, which it names."""
    (jobs / "A.py").write_text(REFUSING, encoding="utf-8")
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, None):
        root = jobs / f"root-{number}"
        (root / "feeds" / "A" / "e").mkdir(parents=True)
        (root / "feeds" / "A" / "e" / "1.csv").touch()
        command = [sys.executable, str(jobs / "run_local.py"), "--root", str(root), "--only", "A"]
        command += ["--until-quiet"] if number is None else []
        running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        while running.poll() is None and not (root / "serving").exists():
            time.sleep(0.02)
        if number is not None:
            time.sleep(0.5)
            running.send_signal(number)
        _, said = running.communicate(timeout=30)
        assert said == "A: refused: row 1 is wrong\n"
        assert running.returncode == {None: 1, signal.SIGINT: 0}.get(number, 128 + (number or 0))
        assert (root / "goodbye").exists()


def test_run_local_takes_no_notice_of_litter(jobs: Path, tmp_path: Path) -> None:
    """What is said of a process may be anything."""
    from golden_tests.addons.processes.real import imported

    local: Any = imported(jobs / "run_local.py").Local(tmp_path / "other")
    place = tmp_path / "other" / "status" / "A.json"
    place.parent.mkdir(parents=True)
    for make in (file, Path.touch, circle, dangling, os.mkfifo, lambda p: p.write_text("[1]"), Path.mkdir):
        make(place)
        assert local.status("A") == {}
        assert len(local.table()) == 6
        place.rmdir() if place.is_dir() else place.unlink()
    before = signal.getsignal(signal.SIGINT)
    local.end_all()
    assert signal.getsignal(signal.SIGINT) is before
    (tmp_path / "topology.json").write_text("{")
    with pytest.raises(SystemExit, match="compile the program again"):
        imported(jobs / "run_local.py")


#: Takes no notice of SIGTERM, as in the midst of a long step of Spark's.
BUSY = """
import os, signal, sys, time
from pathlib import Path
root = Path(sys.argv[sys.argv.index("--root") + 1])
signal.signal(signal.SIGTERM, signal.SIG_IGN)
(root / f".{Path(sys.argv[0]).stem}").write_text(str(os.getpid()))
(root / f".{Path(sys.argv[0]).stem}").rename(root / f"{Path(sys.argv[0]).stem}.pid")
time.sleep(60)
"""


@by_day(1)
@pytest.mark.parametrize(
    "numbers",
    [(signal.SIGINT, signal.SIGINT), (signal.SIGHUP, signal.SIGTERM), (signal.SIGTERM,)],
    ids=lambda numbers: "-".join(number.name for number in numbers),
)
def test_run_local_leaves_nothing_behind(numbers: tuple[signal.Signals, ...], jobs: Path) -> None:
    """Whatever its processes do, and however often it is told to end."""
    script = jobs / "run_local.py"
    script.write_text(script.read_text(encoding="utf-8").replace("patience: float = 30.0", "patience: float = 2.0"))
    root = jobs / "root"
    for name in "AB":
        (jobs / f"{name}.py").write_text(BUSY, encoding="utf-8")
    running = subprocess.Popen(
        [sys.executable, str(script), "--root", str(root)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    places = [root / f"{name}.pid" for name in "AB"]
    while running.poll() is None and not all(place.exists() for place in places):
        time.sleep(0.02)
    for number in numbers:
        running.send_signal(number)
        time.sleep(0.5)
    _, said = running.communicate(timeout=45)
    left = [number for number in (int(place.read_text()) for place in places) if Path(f"/proc/{number}").exists()]
    for number in left:
        os.kill(number, signal.SIGKILL)
    assert left == []
    assert "Traceback" not in said
    assert running.returncode == (0 if signal.SIGINT in numbers else 128 + numbers[0])


def test_run_local_of_one_process_only(jobs: Path, tmp_path: Path) -> None:
    """Its sender runs elsewhere: what that says of itself is taken into account, if it can be seen."""
    from golden_tests.addons.processes.real import imported

    root = tmp_path / "elsewhere"
    local: Any = imported(jobs / "run_local.py").Local(root)
    life = [[1, "a"], [1, "b"], 1]
    line = {"state": "open", "life": life, "session": life[1], "messages": 3}
    said = {"pid": 7, "busy": False, "fed": {}, "held_up": [], "aside": {}, "receives": {"A.p--B": line}, "sends": {}}
    (root / "status").mkdir(parents=True)
    (root / "status" / "B.json").write_text(json.dumps(said))
    local.running["B"] = type("Running", (), {"pid": 7})()
    assert local.is_quiet()
    sender = {**said, "pid": 8, "receives": {}, "sends": {"A.p--B": {"life": life, "messages": 4}}}
    (root / "status" / "A.json").write_text(json.dumps(sender))
    assert not local.is_quiet()
    line["messages"] = 4
    (root / "status" / "B.json").write_text(json.dumps(said))
    assert local.is_quiet()
    local.started.add("A")
    assert not local.is_quiet()
