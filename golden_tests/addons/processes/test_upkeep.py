"""What processes keep does not grow without need: messages that were seen, published changes, and feeds."""

from __future__ import annotations

import random
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from golden_tests.addons.processes import test_hostile
from golden_tests.addons.processes.model import KeptLog, Stored, World
from golden_tests.addons.processes.test_hostile import Pair
from golden_tests.nightly import by_day

made, pair = test_hostile.made, test_hostile.pair

TYPES = """
process A {
  input relation e(op: int, s: string, d: decimal(9,2), t: timestamp, l: list<int>) primary key (op)
  input relation go()
  A.p(X, S, D, T, L) :- e(X, S, D, T, L), go().
}
process B {
  B.p(X, S) :- A.p(X, S, _, _, _).
}
"""


def fed(pair: Pair) -> list[str]:
    """The files of the feed."""
    return sorted(path.name for path in (pair.root / "feeds" / "A" / "e").glob("[!.]*"))


def compact(pair: Pair, *options: str) -> int:
    """Run the command of the script."""
    module: Any = pair.world.modules["A"]
    code: int = module.process_main(
        module.PROGRAM, module.PROCESS, ["compact-feeds", "--root", str(pair.root), *options]
    )
    return code


def test_messages_that_were_seen(pair: Pair) -> None:
    """Only those behind a missing one are listed; none is taken in again."""
    pair.change(("+", (0, 0)))
    pair.check()
    world, inbox = pair.world, pair.world.workers["B"].inbox
    kept = pair.root.parent / "kept"
    kept.mkdir()
    for number in range(1, 13):
        pair.change(("+", (number, 0)), ("-", (number - 1, 0)))
        world.turn("A")
    for message in pair.messages.glob("*.parquet"):
        shutil.copy(message, kept)
    first = min(pair.messages.glob("*.parquet"))
    first.unlink()
    world.turn("B")
    assert inbox.run("SELECT COUNT(*) FROM _inbox_seen") == [(11,)]
    shutil.copy(kept / first.name, pair.messages)
    world.turn("B")
    assert inbox.run("SELECT COUNT(*) FROM _inbox_seen") == [(0,)]
    assert inbox.lines["A.p--B"].through == 13
    for message in kept.iterdir():
        shutil.copy(message, pair.messages)
    pair.check()
    assert pair.shown("B") == {(12, 0)}
    assert inbox.lines["A.p--B"].through == inbox.lines["A.p--B"].messages


def test_feeds_are_compacted(pair: Pair, capsys: pytest.CaptureFixture[str]) -> None:
    """One file remains of those that were read. It changes nothing for who has read them, and is all to who starts
    over."""
    assert compact(pair) == 0
    pair.change(("+", (1, 2)), ("+", (3, 4)))
    pair.change(("-", (1, 2)), ("+", (5, 6)))
    assert compact(pair) == 0
    assert fed(pair) == ["000001.parquet", "000002.parquet"]
    assert capsys.readouterr().out == "e: no files to compact that A has read\n"
    pair.check()
    pair.change(("+", (7, 8)))
    assert compact(pair) == 0
    assert re.fullmatch(r"e: 2 files became snapshot-[0-9a-f]{16}.parquet \(2 rows\)\n", capsys.readouterr().out)
    assert len(fed(pair)) == 2
    steps = pair.world.states["A"].steps
    pair.check()
    assert pair.world.states["A"].steps == steps + 1
    pair.change(("-", (3, 4)))
    pair.check()
    assert compact(pair, "e") == 0
    assert len(fed(pair)) == 1 and pair.status("A")["caught_up"]
    pair.change(("-", (5, 6)))
    pair.check()
    pair.world.kill("A")
    pair.world.start("A", elsewhere=True)
    pair.check()
    assert pair.shown("B") == pair.rows == {(7, 8)}
    with pytest.raises(SystemExit):
        compact(pair, "other")


@by_day(1)
@pytest.mark.parametrize("later", [0, 1])
def test_who_has_read_half_of_a_feed(later: int, pair: Pair) -> None:
    """A process with an older home, which has read some files that a snapshot covers, and perhaps one that it does
    not, has what the feed says."""
    world = pair.world
    pair.change(("+", (1, 2)), ("+", (3, 4)))
    pair.change(("+", (9, 9)))
    pair.check()
    world.kill("A")
    old = world.states["A"].copy()
    # This comes late, before a file that was read.
    pair.change(("-", (1, 2)), ("-", (9, 9)), ("+", (5, 6)))
    folder = pair.root / "feeds" / "A" / "e"
    if later:
        (folder / "000003.parquet").rename(folder / "0000015.parquet")
        pair.rows.add((9, 9))
    world.start("A")
    world.turn("A")
    module: Any = world.modules["A"]
    read = {"000001.parquet", "0000015.parquet" if later else "000002.parquet", "000003.parquet"}
    module.compact_feed(module.PROGRAM, "e", folder, read)
    world.kill("A")
    world.states["A"].lose(old)
    pair.check()
    pair.change(("+", (7, 8)))
    pair.check()
    assert pair.shown("B") == pair.rows


def test_a_compaction_that_is_killed(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the snapshot has its name nothing has happened; afterwards the files that it covers do not count."""
    pair.change(("+", (1, 2)), ("+", (3, 4)))
    pair.change(("-", (1, 2)))
    pair.check()
    module: Any = pair.world.modules["A"]
    with monkeypatch.context() as patched:
        patched.setattr(module, "write_snapshot", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            compact(pair)
    (pair.root / "feeds" / "A" / "e" / ".snapshot-0.parquet").touch()
    assert fed(pair) == ["000001.parquet", "000002.parquet"]
    with monkeypatch.context() as patched:
        patched.setattr(module, "remove_files", lambda _, files: files and (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            compact(pair)
    assert len(fed(pair)) == 3
    pair.check()
    pair.world.kill("A")
    pair.world.start("A", elsewhere=True)
    pair.check()
    pair.change(("+", (5, 6)))
    pair.check()
    assert compact(pair) == 0
    assert len(list((pair.root / "feeds" / "A" / "e").iterdir())) == 2
    pair.world.kill("A")
    pair.world.start("A", elsewhere=True)
    pair.check()


def test_a_file_that_is_compacted_before_it_is_read(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a process that has an older home: it goes on without the file, and takes the snapshot in instead."""
    pair.change(("+", (1, 2)))
    pair.check()
    world, module = pair.world, pair.world.modules["A"]
    world.kill("A")
    older = world.states["A"].copy()
    pair.change(("-", (1, 2)), ("+", (3, 4)))
    pair.check()
    world.kill("A")
    world.states["A"].lose(older)
    world.start("A")
    read = module.changes_in  # type: ignore[attr-defined]

    def compacted(*given: Any) -> Any:
        monkeypatch.setattr(module, "changes_in", read)
        module.compact_feed(module.PROGRAM, "e", pair.root / "feeds" / "A" / "e", {"000001.parquet", "000002.parquet"})
        return read(*given)

    monkeypatch.setattr(module, "changes_in", compacted)
    world.turn("A")
    assert len(fed(pair)) == 1
    pair.check()
    assert pair.shown("B") == {(3, 4)} and not pair.warned("A", "read again")


def test_a_snapshot_that_is_damaged(pair: Pair) -> None:
    """It is named, and nothing after it is read by who needs it."""
    pair.change(("+", (1, 2)))
    pair.check()
    assert compact(pair) == 0
    (snapshot,) = fed(pair)
    path = pair.root / "feeds" / "A" / "e" / snapshot
    whole = path.read_bytes()
    path.write_bytes(whole[:-40])
    pair.world.kill("A")
    with pytest.raises(pair.world.modules["A"].JobError, match="it is not known which files it stands for"):  # type: ignore[attr-defined]
        pair.world.start("A", elsewhere=True)
    (pair.root / "status" / "A.json").unlink()
    pair.world.start("A", elsewhere=True)
    pair.change(("+", (3, 4)))
    for _ in range(3):
        pair.world.turn("A")
    said = pair.status("A")
    assert "is damaged, so it is not known which files it stands for" in said["refused"][0]
    assert not said["caught_up"] and not pair.shown("A")
    path.write_bytes(whole)
    pair.check()


def test_a_process_with_files(tmp_path: Path) -> None:
    """Snapshots hold rows of all types and keys; a burst that deletes and inserts a row is refused, with the places of
    both."""
    world = World(TYPES, tmp_path / "root", random.Random(1))
    module: Any = world.modules["A"]
    feeds = tmp_path / "root" / "feeds" / "A"

    def started(home: str) -> Any:
        settings = module.Settings(tmp_path / "root", tmp_path / home)
        world.states["A"] = Stored(world, "A", tmp_path / home)
        state = module.ProcessState(module.PROGRAM, module.PROCESS, tmp_path / home)
        channels = module.Channels(tmp_path / "root", module.Seal(b""), print)
        return module.Worker(state, channels, settings, KeptLog())

    def write(name: str, *lines: str) -> None:
        path = feeds / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def rows(worker: Any, name: str) -> list[Any]:
        relation = next(r for r in module.PROGRAM.relations if r.name == name)
        return sorted(worker.state.database.rows(relation), key=repr)

    world.calm = True
    world.start("B")
    one = '{"_op": "+", "op": 1, "s": "a\'b,\\"c", "d": 1.25, "t": "2026-01-02T03:04:05.678901", "l": [1, 2]}'
    write("e/1.jsonl", one, one.replace('"op": 1', '"op": 2'))
    write("e/2.jsonl", one.replace("1.25", "7.5"), one.replace('"op": 1', '"op": 3').replace("[1, 2]", "[]"))
    write("go/1.csv", "op", "+")
    worker = started("one")
    for _ in range(4):
        worker.try_turn()
    assert [(row[0], str(row[2]), row[4]) for row in rows(worker, "e")] == [
        (1, "7.50", [1, 2]),
        (2, "1.25", [1, 2]),
        (3, "1.25", []),
    ]
    assert not worker.troubles.last and len(rows(worker, "A.p")) == 3
    write("e/3.jsonl", one.replace('"_op": "+"', '"_op": "-"'), one)
    worker.try_turn()
    (said,) = [message for _, _, message in worker.feeds.refused.values()]
    assert "is both deleted (" in said and "e/3.jsonl, row 1) and inserted (" in said and "e/3.jsonl, row 2)" in said
    assert "--order-column" not in said
    command = ["compact-feeds", "--root", str(tmp_path / "root")]
    assert module.process_main(module.PROGRAM, module.PROCESS, command) == 0
    assert len(list((feeds / "e").glob("[!.]*"))) == 2 and len(list((feeds / "go").glob("[!.]*"))) == 1
    write("e/3.jsonl", one.replace('"_op": "+"', '"_op": "-"').replace("1.25", "7.5"))
    write("go/2.csv", "op", "-")
    worker.try_turn()
    known = rows(worker, "e"), rows(worker, "go"), rows(worker, "A.p")
    assert len(known[0]) == 2 and not known[1]
    worker.state.close()
    again = started("two")
    for _ in range(4):
        again.try_turn()
    assert (rows(again, "e"), rows(again, "go"), rows(again, "A.p")) == known
    assert not again.troubles.last and not again.feeds.refused
    again.state.close()
    world.close()
