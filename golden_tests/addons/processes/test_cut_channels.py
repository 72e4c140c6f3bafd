"""Single channels that are cut while both ends live: like a sender that is gone, for this channel alone."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from golden_tests.addons.processes.model import World, evaluated
from golden_tests.nightly import AT_NIGHT, by_day, one_in
from golden_tests.oracle.language import Row

THREE = """
process A {
  input relation e(x: int, y: int)
  A.p(X, Y) :- e(X, Y).
}
process B {
  B.p(X, Y) :- A.p(X, Y).
}
process C {
  C.p(X, Y) :- A.p(X, Y).
}
"""
#: Two recursions over the same processes.
ROUND = """
process A {
  input relation e(x: int, y: int)
  A.p(X, Y) :- e(X, Y).
  A.p(X, Z) :- e(X, Y), B.p(Y, Z).
  A.q(X, Y) :- e(Y, X).
  A.q(X, Y) :- C.q(X, Y).
}
process B {
  input relation e(x: int, y: int)
  B.p(X, Y) :- e(X, Y).
  B.p(X, Z) :- e(X, Y), A.p(Y, Z).
  B.p(X, Z) :- C.p(X, Y), e(Y, Z).
  B.q(X, Y) :- A.q(X, Y).
}
process C {
  C.p(X, Y) :- A.p(X, Y).
  C.q(X, Y) :- B.q(X, Y).
}
"""


class Three:
    """Three processes, and what they were fed."""

    def __init__(self, text: str, folder: Path, hold: float = 0.0) -> None:
        """Start them."""
        self.world = World(text, folder, random.Random(1), hold)
        self.world.calm = True
        self.inputs: dict[tuple[str, str], set[Row]] = {
            (feed.reader, feed.relation): set() for feed in self.world.compiled.topology.feeds
        }
        self.world.start_all()

    def feed(self, process: str, *changes: tuple[str, Row]) -> None:
        """Feed changes."""
        for op, row in changes:
            known = self.inputs[process, "e"]
            (known.add if op == "+" else known.discard)(row)
        self.world.feed(process, "e", ("x", "y"), changes)

    def turns(self, seconds: int) -> None:
        """Let everything run, cut as it is."""
        for _ in range(seconds):
            self.world.pass_time(1.0)
            for name in self.world.names:
                self.world.turn(name)

    def check(self) -> None:
        """Without cuts, all is as one process would compute it."""
        self.world.settle()
        self.world.calm = True
        assert self.world.relations() == evaluated(self.world.compiled, self.inputs)
        assert self.world.says_all()

    def line(self, channel: str) -> Any:
        """What the reader of a channel knows of it."""
        return self.world.workers[channel.rpartition("--")[2]].inbox.lines[channel]

    def shown(self, relation: str) -> set[Row]:
        """The tuples of a relation."""
        return self.world.states[relation[0]].tuples(relation)


@pytest.fixture
def made() -> Iterator[list[Three]]:
    """What a test has made, which ends with it."""
    found: list[Three] = []
    yield found
    for three in found:
        three.world.close()


@by_day(1)
@pytest.mark.parametrize("how", ["lost", "refused"])
def test_one_of_two_readers(how: str, made: list[Three], tmp_path: Path) -> None:
    """Its tuples are deleted after a lease; others are served meanwhile, and it gets a snapshot when it is mended."""
    made.append(Three(THREE, tmp_path / "root"))
    three = made[-1]
    three.feed("A", ("+", (1, 2)), ("+", (3, 4)))
    three.check()
    three.world.severed["A.p--B"] = how
    three.turns(4)
    assert three.shown("B.p") == {(1, 2), (3, 4)}
    three.feed("A", ("-", (1, 2)), ("+", (5, 6)))
    three.turns(3)
    assert (three.line("A.p--B").state, three.line("A.p--C").state) == ("cut", "open")
    assert three.shown("B.p") == set()
    assert three.shown("C.p") == {(3, 4), (5, 6)}
    assert not three.world.says_all()
    three.feed("A", ("+", (1, 2)), ("-", (5, 6)))
    three.turns(20)
    assert three.shown("B.p") == set()
    three.world.severed.clear()
    three.turns(40)
    assert three.line("A.p--B").state == "open"
    assert three.shown("B.p") == three.shown("C.p") == {(1, 2), (3, 4)}
    three.check()


@pytest.mark.parametrize("how", [pytest.param("lost", marks=AT_NIGHT), "refused"])
def test_ends_that_start_while_a_channel_is_cut(how: str, made: list[Three], tmp_path: Path) -> None:
    """A reader with its home deletes what it had, after a lease; a sender does not wait for the channel."""
    made.append(Three(THREE, tmp_path / "root"))
    three = made[-1]
    three.feed("A", ("+", (1, 2)))
    three.check()
    three.world.severed["A.p--B"] = how
    for name in "BA":
        three.world.kill(name)
        three.feed("A", ("+", (ord(name), 0)))
        three.world.start(name)
        three.turns(2)  # Twice, that is less than a lease.
        assert (1, 2) in three.shown("B.p")
    three.turns(5)
    assert three.shown("B.p") == set()
    assert three.shown("C.p") == {(1, 2), (65, 0), (66, 0)}
    three.check()


@by_day(1)
@pytest.mark.parametrize(
    ("how", "hold"),
    [
        ("unseen", 0.0),
        pytest.param("unseen", 10.0, marks=AT_NIGHT),
        pytest.param("dropped", 0.0, marks=AT_NIGHT),
        ("dropped", 10.0),
    ],
)
def test_a_session_without_an_answer(how: str, hold: float, made: list[Three], tmp_path: Path) -> None:
    """A reader that starts again trusts what it had for a lease. It then deletes that, though the lease of the channel
    gets through, if its sender cannot see the new session, or if what it answers is lost."""
    made.append(Three(THREE, tmp_path / "root", hold))
    three = made[-1]
    three.feed("A", ("+", (1, 2)))
    three.check()
    three.world.severed["A.p--B"] = how
    three.world.kill("B")
    three.feed("A", ("-", (1, 2)), ("+", (3, 4)))
    three.world.start("B")
    three.turns(4)
    assert three.shown("B.p") == {(1, 2)}
    three.turns(30)
    assert three.shown("B.p") == set() and three.line("A.p--B").state == "cut"
    assert three.shown("C.p") == {(3, 4)}
    assert three.line("A.p--B").session.number < 10
    three.world.severed.clear()
    three.turns(40)
    assert three.shown("B.p") == {(3, 4)}
    three.check()


def test_a_sender_that_is_busy(made: list[Three], tmp_path: Path) -> None:
    """A reader that starts again keeps what it had while its sender works on a batch, for longer than a lease."""
    made.append(Three(THREE, tmp_path / "root"))
    three = made[-1]
    three.feed("A", ("+", (1, 2)))
    three.check()
    three.world.kill("B")
    three.world.start("B")
    for _ in range(20):
        three.world.pass_time(1.0)
        for name in "BC":
            three.world.turn(name)
    assert three.line("A.p--B").state == "open" and three.shown("B.p") == {(1, 2)}
    three.check()
    assert not [event for event, _ in three.world.logs["B"].events if event == "cut"]


def test_tuples_are_held(made: list[Three], tmp_path: Path) -> None:
    """With --hold, what came through a channel that is cut stays for so long."""
    made.append(Three(THREE, tmp_path / "root", hold=20.0))
    three = made[-1]
    three.feed("A", ("+", (1, 2)))
    three.check()
    three.world.severed["A.p--B"] = "refused"
    three.feed("A", ("+", (3, 4)))
    three.turns(10)
    assert three.line("A.p--B").state == "held" and three.shown("B.p") == {(1, 2)}
    three.turns(20)
    assert three.line("A.p--B").state == "cut" and not three.shown("B.p")
    three.check()


def test_senders_of_an_older_version(made: list[Three], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They do not renew leases of channels, which are never considered cut for that."""
    made.append(Three(THREE, tmp_path / "root"))
    three = made[-1]
    three.feed("A", ("+", (1, 2)))
    three.check()
    three.world.kill("A")
    with monkeypatch.context() as patched:
        kind = three.world.modules["A"].Channels
        patched.setattr(kind, "renew_channel", lambda *_: None)
        three.world.start("A")
        three.turns(30)
        assert three.line("A.p--B").state == "open" and three.shown("B.p") == {(1, 2)}
    three.check()


@AT_NIGHT
@pytest.mark.parametrize("what", one_in(["facts", "deaths", "deaths of one"], 3))
def test_live_proofs(what: str, made: list[Three], tmp_path: Path) -> None:
    """Who does not hear which base facts of a process are dead trusts none of them, whoever sends them; they count
    again when the channel is mended, though the process has lived on."""
    made.append(Three(ROUND, tmp_path / "root"))
    three = made[-1]
    three.feed("A", ("+", (1, 2)), ("+", (3, 1)), ("+", (2, 9)))
    three.feed("B", ("+", (2, 3)), ("+", (9, 7)))
    three.check()
    before = three.world.relations()
    channels = [c for c in three.world.modules["B"].PROCESS.receives if c.sender == "A" and c.dead == (what != "facts")]
    assert len(channels) == 2
    for channel in channels[: 1 if what == "deaths of one" else 2]:
        three.world.severed[channel.name] = "refused"
    three.turns(12)
    if what == "facts":
        # C tells B of what A derives, with proofs of A.
        assert three.world.relations() == before
    else:
        assert three.shown("B.p") == {(2, 3), (9, 7)} and three.shown("B.q") == set()
    three.feed("A", ("-", (3, 1)), ("+", (7, 2)))
    three.turns(3)
    assert (3, 1) not in three.shown("A.p")
    three.feed("A", ("+", (3, 1)), ("-", (7, 2)))
    three.turns(8)
    three.world.severed.clear()
    three.turns(40)
    assert three.world.relations() == before
    three.check()
