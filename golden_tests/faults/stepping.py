"""A process with its two neighbours: one sends what the process makes its step of, the other gets what follows from it.

The neighbours are played by these functions, which run where the process does, in a fork of a :class:`Traced`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from flintlog.compiler.processes import compile_processes
from flintlog.compiler.source import SourceFile
from flintlog.targets import EmitOptions
from flintlog.targets.processes.emit import emit_processes

from golden_tests.harness import VERSION

PROGRAM = """
process A {
  input relation link(x: int, y: int)
  A.link(X, Y) :- link(X, Y).
}
process B {
  input relation closed(node: int)
  B.reach(X, Y) :- A.link(X, Y).
  B.reach(X, Y) :- B.reach(X, Z), A.link(Z, Y), !closed(Z).
}
process C {
  C.seen(X, Y) :- B.reach(X, Y).
}
"""

Links = Iterable[tuple[int, ...]]

#: What the process has before its step; what the step brings: new links, links that go, and a node that is fed.
FIRST = {(1, 2), (2, 3), (5, 6)}
COME, GONE, CLOSED = {(3, 4), (6, 7)}, {(1, 2)}, (6,)
REACH_BEFORE = {(1, 2), (2, 3), (5, 6), (1, 3)}
REACH_AFTER = {(2, 3), (5, 6), (3, 4), (6, 7), (2, 4)}


def write_script(folder: Path) -> Path:
    """The script of the process in the middle."""
    compiled = compile_processes([SourceFile("test.dl", PROGRAM)])
    plans = {name: compilation.plan for name, compilation in compiled.compilations.items()}
    script = folder / "B.py"
    script.write_text(emit_processes(compiled.topology, plans, EmitOptions(VERSION, format=False))["B.py"], "utf-8")
    return script


class Stage:
    """The process and its neighbours in a folder."""

    def __init__(self, module: Any, folder: str) -> None:
        """Start the process, without a thread for its lease; the sender says that it lives."""
        self.module, self.root = module, Path(folder)
        vars(module).update(Beat=QuietBeat)
        self.channels = module.DirectoryChannels(self.root)
        (self.incoming,), (self.outgoing,) = module.PROCESS.receives, module.PROCESS.sends
        self.sender = self.channels.take_incarnation("A")
        self.channels.renew("A", module.Lease(self.sender, 1, running=True, sent={}))
        self.sent = 0
        if self.channels.session(self.outgoing) == module.NO_NUMBER:
            self.channels.open_session(self.outgoing)

    def start(self) -> None:
        """Start the process; the sender answers with all it has."""
        home = self.root / "home"
        # A neighbour that says once that it lives is not gone on a machine that is slow.
        settings = self.module.Settings(self.root, home, lease=3600.0)
        state = self.module.ProcessState(self.module.PROGRAM, self.module.PROCESS, home)
        self.worker = self.module.Worker(state, self.channels, settings, self.module.Log(quiet=True))

    def send(self, kind: str, come: Links, gone: Links = ()) -> None:
        """Send rows to the process."""
        self.sent += 1
        session = self.channels.session(self.incoming)
        message = self.module.Message(self.sender, session, 1, self.sent, kind, True)
        rows = [(1, *row) for row in sorted(come)] + [(-1, *row) for row in sorted(gone)]
        columns = [pa.array([row[i] for row in rows], pa.int64()) for i in range(3)]
        names = self.incoming.columns
        table = self.module.sent_columns(
            pa.table(columns, ["_op", *names]), names, self.worker.inbox.relations[self.incoming.input]
        )
        self.channels.send(self.incoming, message, table)

    def feed(self) -> None:
        """Feed the process."""
        place = self.root / "feeds" / "B" / "closed" / "000001.parquet"
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.exists():
            pq.write_table(pa.table({"op": ["+"], "node": [CLOSED[0]]}), place)

    def rest(self) -> None:
        """Let the process do all there is to do."""
        while self.worker.turn():
            pass

    def reach(self) -> list[tuple[int, ...]]:
        """What the process has."""
        relation = self.module.sent_relation(self.module.PROGRAM, self.outgoing)
        return sorted(self.worker.state.database.rows(relation))

    def received(self) -> dict[tuple[int, ...], int]:
        """What the reader makes of the messages of the last life, with how often it has each."""
        waiting = self.channels.waiting(self.outgoing)
        last = max(message.life for message in waiting)
        messages = sorted(message for message in waiting if message.life == last)
        assert [message.sequence for message in messages] == [*range(1, len(messages) + 1)]
        assert [message.kind for message in messages] == ["snapshot", *["changes"] * (len(messages) - 1)]
        counts: dict[tuple[int, ...], int] = {}
        for message in messages:
            for op, *row in (tuple(r.values()) for r in self.channels.read(self.outgoing, message).to_pylist()):
                counts[tuple(row)] = counts.get(tuple(row), 0) + op
        return {row: count for row, count in counts.items() if count}


def cut_off(root: Path) -> list[str]:
    """The channels on which, as the process says, nothing gets through."""
    return sorted(json.loads((root / "status" / "B.json").read_text())["cut_off"])


class QuietBeat:
    """A lease that is renewed once."""

    def __init__(self, *_: Any) -> None:
        """Nobody asks."""


def build(module: Any, go: Callable[[], None], folder: str) -> int:
    """Begin: the process has taken in the first snapshot."""
    go()
    stage = Stage(module, folder)
    stage.start()
    stage.send("snapshot", FIRST)
    stage.rest()
    assert set(stage.reach()) == REACH_BEFORE
    return 0


def step(module: Any, go: Callable[[], None], folder: str, from_start: bool = False) -> int:
    """Start the process anew, and let it make its step; that is traced, or all of it ``from_start``."""
    if from_start:
        go()
    stage = Stage(module, folder)
    stage.start()
    stage.send("snapshot", FIRST)
    stage.rest()
    stage.send("changes", COME, GONE)
    stage.feed()
    if not from_start:
        go()
    try:
        stage.worker.turn()
    except Exception as error:
        # A process that cannot go on ends, and is started again.
        print(f"serve: {error}", file=sys.stderr)
        return 1
    return 0


def recover(module: Any, go: Callable[[], None], folder: str) -> int:
    """Start the process anew after its step; prints what it has, and what the reader has."""
    go()
    stage = Stage(module, folder)
    stage.start()
    stage.send("snapshot", (FIRST | COME) - GONE)
    stage.feed()
    stage.rest()
    print(json.dumps([stage.reach(), sorted(stage.received().items())]))
    return 0
