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
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from flintlog.compiler.report.joblog import run_logs

from golden_tests.harness import load_script
from golden_tests.oracle.language import Row
from golden_tests.processes.model import KeptLog, World, evaluated

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
        self.rows.update(rows)
        self.world.feed("A", "e", ("x", "y"), [("+", row) for row in rows])

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


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EMFILE, errno.ESTALE])
@pytest.mark.parametrize("when", ["before", "after"])
def test_the_system_fails_during_a_step(when: str, number: int, pair: Pair) -> None:
    """It is tried again, after growing pauses; the file that was fed is not blamed."""
    pair.feed((1, 2))
    pair.world.start("A")
    state, worker = pair.world.states["A"], pair.world.workers["A"]
    # A step that was applied is not applied again.
    times = 3 if when == "before" else 1
    state.faults = [(when, OSError(number, os.strerror(number))) for _ in range(times)]
    pauses = []
    while state.faults:
        busy, pause = worker.try_turn()
        assert not busy
        assert os.strerror(number).lower() in pair.status("A")["trouble"].lower()
        pauses.append(pause)
    assert pauses == [0.2, 0.4, 0.8][: len(pauses)]
    pair.check()
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
        assert world.workers["A"].refused == {}
    world.workers["A"].try_turn()
    assert pair.status("A")["refused"] == ["a row is wrong"]
    assert not pair.status("A")["caught_up"]
    (food,) = (pair.root / "feeds" / "A" / "e").iterdir()
    world.workers["A"].try_turn()
    assert world.workers["A"].refused
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


@pytest.mark.parametrize("wrong", [*"efg", "ef", "eg", "fg"])
@pytest.mark.parametrize("killed", [False, True])
def test_only_what_is_wrong_waits(
    wrong: str, killed: bool, tmp_path: Path, made: list[Pair], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of files that were fed together, those are refused that are refused alone; others are taken in."""
    made.append(Pair(tmp_path / "root", THREE))
    world = made[-1].world

    def start() -> list[set[str]]:
        world.start("A")
        state, tried = world.states["A"], []
        taken = state.apply

        def refuse(step: Any) -> Any:
            tried.append({*step.files})
            if {*step.files} & {*wrong}:
                raise world.modules["A"].Refused(f"{sorted({*step.files} & {*wrong})[0]} is wrong")
            return taken(step)

        monkeypatch.setattr(state, "apply", refuse)
        return tried

    tried = start()
    for place, name in enumerate("efg"):
        world.feed("A", name, ("x",), [("+", (place,))])
    if killed:
        # A step was begun, and is found by the next run as it was left.
        monkeypatch.setattr(world.workers["A"].inbox, "leave_out", world.workers["A"].inbox.end_holds)
        with contextlib.suppress(TypeError):
            world.turn("A")
        world.kill("A")
        tried = start()
    for _ in range(4):
        world.turn("A")
    assert tried[0] == {*"efg"} and {*map(len, tried[1:])} <= {0, 1}
    worker = world.workers["A"]
    assert {name: message for name, (_, _, message) in worker.refused.items()} == {n: f"{n} is wrong" for n in wrong}
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
    beat = module.Beat(channels, "A", 1, 0.01, log)
    assert renewed.wait(30)
    beat.end()
    assert channels.lease("A").running is False
    assert [name for name, _ in log.events] == ["lease_not_renewed", "lease_renewed"]


@pytest.mark.parametrize("what", ["state", "older state", "inbox", "older inbox"])
def test_a_home_of_several_ages(what: str, pair: Pair, tmp_path: Path) -> None:
    """Nothing is lost, or there twice: the process begins anew, and takes in again what it was fed."""
    world = pair.world
    home = pair.root / "homes" / "A-1"
    pair.feed((1, 2), (2, 3))
    pair.check()
    world.kill("A")
    shutil.copy(home / "inbox.duckdb", tmp_path / "older.duckdb")
    for row in ((3, 4), (5, 6)):
        pair.feed(row)
        pair.check()
    world.feed("A", "e", ("x", "y"), [("-", (1, 2))])
    pair.rows.remove((1, 2))
    pair.check()
    world.kill("A")
    if "inbox" in what:
        (home / "inbox.duckdb").unlink()
        with contextlib.suppress(FileNotFoundError):
            (home / "inbox.duckdb.wal").unlink()
        if "older" in what:
            shutil.copy(tmp_path / "older.duckdb", home / "inbox.duckdb")
    else:
        known = world.states["A"]
        world.states["A"] = known.as_after(2 if "older" in what else 0, world.compiled.compilations["A"])
        known.job.close()
    pair.check()
    assert pair.warned("A", "the state and the inbox are not of the same moment") == 1
    assert pair.status("A")["caught_up"]
    if what != "inbox":
        assert list(home.glob("inbox.duckdb.aside-*"))
    world.kill("A")
    pair.check()
    assert pair.warned("A", "not of the same moment") == 1


def test_a_home_that_cannot_begin_anew(pair: Pair) -> None:
    """Without the files that it was fed it does not pretend to have caught up; the ways out that it names are ones."""
    world, module = pair.world, pair.world.modules["A"]
    for row in ((1, 2), (3, 4)):
        pair.feed(row)
        pair.check()
    world.kill("A")
    world.states["A"] = world.states["A"].as_after(1, world.compiled.compilations["A"])
    food = sorted((pair.root / "feeds" / "A" / "e").iterdir())[1]
    food.rename(pair.root / food.name)
    status, inbox = pair.root / "status" / "A.json", pair.root / "homes" / "A-1" / "inbox.duckdb"
    with pytest.raises(module.JobError) as caught:  # type: ignore[attr-defined]
        world.start("A")
    assert str(caught.value).endswith(
        f"1 of the files that A was fed are not there to be taken in again: {food}; put them back, or, to do without "
        f"their rows, remove {status} and {inbox}"
    )
    (pair.root / food.name).rename(food)
    pair.check()
    world.kill("A")
    world.states["A"] = world.states["A"].as_after(1, world.compiled.compilations["A"])
    food.unlink()
    status.unlink()
    inbox.unlink()
    pair.rows.remove((3, 4))
    pair.check()


def test_a_new_home_without_its_food(pair: Pair) -> None:
    """Who begins with nothing where files are gone that an earlier run was fed says so."""
    world, module = pair.world, pair.world.modules["A"]
    pair.feed((1, 2))
    pair.check()
    world.kill("A")
    (food,) = (pair.root / "feeds" / "A" / "e").iterdir()
    food.unlink()
    with pytest.raises(module.JobError, match=r"A-2: it is a new or an older one, and 1 of the files"):  # type: ignore[attr-defined]
        world.start("A", elsewhere=True)
    (pair.root / "status" / "A.json").unlink()
    pair.rows.clear()
    pair.check()


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
        with pytest.raises(world.modules[name].JobError, match="they were restored from a copy; start the process"):  # type: ignore[attr-defined]
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
    worker.sequences["A.p--B"] += 1
    given = {
        "incarnation": worker.incarnation,
        "session": worker.sessions["A.p--B"],
        "sequence": worker.sequences["A.p--B"],
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
    assert pair.warned("B", f"A sends A.p with ({sent}), B reads it with (X: int, Y: int): they were not compiled") == 1
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
    life, line = worker.incarnation, pair.world.workers["B"].inbox.lines["A.p--B"]
    empty = pa.table({"_op": pa.array([], pa.int64()), "X": pa.array([], pa.int64()), "Y": pa.array([], pa.int64())})
    empty = empty.replace_schema_metadata({"flintlog.columns": json.dumps([["X", "int"], ["Y", "int"]])})
    for incarnation in (life, life + 1, 10**6):
        channels.send(pair.channel, module.Message(incarnation, line.session, 1, "snapshot", True), empty)
        channels.send(pair.channel, module.Message(incarnation, line.session, 99, "changes", True), empty)
    for folder in ("processes/A/incarnations", "channels/A.p--B/sessions"):
        (pair.root / folder / "000777").write_text(seal.mark(("incarnation", "A", 777)), encoding="utf-8")
    channels.renew("A", module.Lease(life, 10**6, False))


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
    assert pair.warned("B", "is no lease with a right mark") == 1
    assert sum(pair.warned(name, "is no session with a right mark") for name in "AB") >= 1
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
    for other in ("000001-000001-000000077-", "000001-000001-000000001-", "000002-000001-000000001-"):
        name = other + message.name.split("-", 3)[3]
        (pair.messages / name).write_bytes(again)
        (pair.messages / name.replace("changes", "snapshot")).write_bytes(again)
    lease = pair.root / "processes" / "A" / "lease.json"
    old = lease.read_bytes()
    pair.check()
    assert world.workers["A"].incarnation == 1
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
    assert pair.warned("B", "is no lease with a right mark") == 1
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
    assert "16 bytes or more" in str(caught.value)


def test_what_a_recursion_has_handled_is_counted(made: list[Pair], tmp_path: Path) -> None:
    """The tuples of its channels count like others."""
    made.append(Pair(tmp_path / "root", CYCLE))
    pair = made[-1]
    pair.feed((1, 2), (3, 4))
    pair.check()
    handled = [fields["handled"] for name, fields in pair.world.logs["B"].events if name == "step"]
    assert sum(int(str(n)) for n in handled) == pair.status("B")["in"] >= 2
    assert pair.status("A")["in"] >= 2


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

    plans = {name: compilation.plan for name, compilation in pair.world.compiled.compilations.items()}
    for name, text in emit_processes(pair.world.compiled.topology, plans, EmitOptions("0", format=False)).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


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
    from golden_tests.processes.real import imported

    local: Any = imported(jobs / "run_local.py").Local(tmp_path / "other")
    place = tmp_path / "other" / "status" / "A.json"
    place.parent.mkdir(parents=True)
    for make in (file, Path.touch, circle, dangling, os.mkfifo, lambda p: p.write_text("[1]"), Path.mkdir):
        make(place)
        assert local.status("A") == {}
        assert len(local.table()) == 6
        place.rmdir() if place.is_dir() else place.unlink()
    (tmp_path / "topology.json").write_text("{")
    with pytest.raises(SystemExit, match="compile the program again"):
        imported(jobs / "run_local.py")
