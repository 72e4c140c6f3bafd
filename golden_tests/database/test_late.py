"""Late changes of states in files: a dictionary says what the rows are, as for states in folders."""

from __future__ import annotations

import itertools
import json
import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import flintlog
import pytest
from click.testing import CliRunner
from flintlog.compiler.cli import main
from flintlog.compiler.pipeline import compile_program
from flintlog.compiler.source import SourceFile
from flintlog.runtime.database import commands, decimals, job_commands
from flintlog.runtime.database.recompute import rebuild_file, upgrade_file
from flintlog.runtime.database.state import open_file_state
from flintlog.runtime.database.vacuum import vacuum_file
from flintlog.runtime.kernel.errors import JobError
from flintlog.runtime.row_kernel import methods
from flintlog.runtime.system.log import Log
from flintlog.targets.database.lower import lower_rows

from golden_tests.harness import VERSION
from golden_tests.job.kill import in_child, killing_connect
from golden_tests.job.test_late import COLUMNS, POINTS, PROGRAM, Change, Contradiction, Truth, Written, history
from golden_tests.nightly import NIGHTLY, seeds

assert methods and decimals and job_commands, "registered"

QUIET = Log(True)
HEADER = ",".join((*COLUMNS, "op", "seq"))


def program_of(text: str = PROGRAM) -> Any:
    """A program, for rows."""
    return lower_rows(compile_program(SourceFile("late.dl", text)).plan, VERSION)


class World:
    """A state in a file, and changes of hosts, a line each: key, name, load, operation and sequence."""

    def __init__(self, folder: Path, *first: str, text: str = PROGRAM) -> None:
        """Build the state from rows."""
        self.folder, self.state, self.program = folder, str(folder / "state.db"), program_of(text)
        self.numbers = itertools.count()
        rows = [
            f"host={self.file('_last,zone,_order,load', *(f'{row},' for row in first))}",
            f"link={self.file('src,dst', '1,1', '2,2')}",
        ]
        commands.init_file(self.program, self.state, rows, log=QUIET)

    def file(self, *lines: str) -> str:
        """A file."""
        path = self.folder / f"{next(self.numbers)}.csv"
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return str(path)

    def apply(self, *lines: str, batch: str | None = None, order_column: str | None = "seq", **options: Any) -> Any:
        """Apply a batch."""
        changes = f"host={self.file(HEADER, *lines)}"
        options = {"order_column": order_column, "log": QUIET, **options}
        return commands.apply_file(self.program, self.state, changes, batch, **options)

    def refused(self, *lines: str, **options: Any) -> str:
        """What is said when a batch is refused, which changes nothing."""
        before = self.dump()
        with pytest.raises(JobError) as refused:
            self.apply(*lines, **options)
        assert self.dump() == before
        return str(refused.value)

    def dump(self) -> list[str]:
        """All that the file has."""
        with sqlite3.connect(self.state) as connection:
            return [*connection.iterdump()]

    @property
    def rows(self) -> set[tuple[Any, ...]]:
        """The hosts."""
        with open_file_state(self.program, self.state) as database:
            return {*database.rows(self.program.relation("host"))}

    @property
    def names(self) -> set[tuple[int, str]]:
        """The key and the name of each host."""
        return {(row[0], row[2]) for row in self.rows}

    @property
    def status(self) -> Any:
        """What the state keeps of sequences."""
        return commands.status_file(self.program, self.state).get("sequences")

    def check(self) -> None:
        """The state is exact."""
        assert commands.verify_file(self.program, self.state, log=QUIET)["differences"] == []

    def vacuum(self, **options: Any) -> Any:
        """Remove sequences; return how many."""
        return vacuum_file(self.program, self.state, **options)["removed"]["sequences"]


def play(world: World, truth: Truth, files: list[str], batch: Sequence[Change]) -> bool:
    """Apply a batch to a state and to the truth; return whether both take it."""
    given = [f"host={file}" for file in files]
    try:
        late = truth.apply(batch)
    except Contradiction:
        with pytest.raises(JobError, match="same seq"):
            commands.apply_file(world.program, world.state, given, order_column="seq", log=QUIET)
        return False
    done = commands.apply_file(world.program, world.state, given, order_column="seq", log=QUIET)
    assert done.get("late", {}) == ({"host": late} if late else {})
    assert world.rows == truth.table
    assert world.status["host"]["keys"] == len(truth.known)
    return True


@pytest.mark.parametrize("seed", seeds(3, 30))
def test_any_order(seed: int, tmp_path: Path) -> None:
    """Many batches, divided arbitrarily, with reverts and conversions between them, give the table of one batch."""
    rng = random.Random(f"late in a file {seed}")
    changes = history(rng, POINTS[rng.choice([*POINTS])])
    (tmp_path / "once").mkdir()
    (tmp_path / "files").mkdir()
    world, written = World(tmp_path, "0,b,first", "5,b,first"), Written(tmp_path / "files", rng)
    first = [(0, "b", "first", None), (5, "b", "first", None)]
    truth, applied = Truth(rows=first), list[Sequence[Change]]()
    while changes:
        size = rng.randint(1, 12)
        batch, changes = changes[:size], changes[size:]
        before = truth.copy()
        if not play(world, truth, written.files(batch), batch):
            continue
        applied.append(batch)
        step = rng.random()
        if step < 0.3:
            last = commands.history_file(world.program, world.state, 1)["commits"][0]["batch"]
            commands.revert_file(world.program, world.state, last, log=QUIET)
            truth = before
            applied.pop()
            if step < 0.1:
                # The inverse of that is as if it had not been.
                last = commands.history_file(world.program, world.state, 1)["commits"][0]["batch"]
                commands.revert_file(world.program, world.state, last, log=QUIET)
                truth.apply(batch)
                applied.append(batch)
        elif step < 0.4:
            rebuild_file(world.program, world.state, log=QUIET)
        elif step < 0.5:
            world.vacuum()
        assert world.rows == truth.table
        world.check()
    whole = [change for batch in applied for change in batch]
    rng.shuffle(whole)
    once = World(tmp_path / "once", "0,b,first", "5,b,first")
    if whole:
        play(once, Truth(rows=first), written.files(whole), whole)
    assert once.rows == world.rows


def test_a_deletion_overtakes_an_insertion(tmp_path: Path) -> None:
    """It is told what was ignored."""
    world = World(tmp_path, "1,a,first")
    world.apply("1,a,,,-,9", "2,a,new,,+,-3")
    assert world.names == {(2, "new")}
    log = tmp_path / "log"
    lines = ("1,a,late,,+,5", "1,a,late,,-,8", "2,a,older,,u,-4", "2,a,new,,+,-3", "2,a,x,,-,-3")
    done = world.apply(*lines, log=Log(True, file=str(log)))
    assert world.names == {(2, "new")} and (done["late"], done["changes"]) == ({"host": 4}, {})
    assert "event=late" in log.read_text() and "relation=host rows=4" in log.read_text()
    assert world.status == {"host": {"column": "seq", "keys": 2, "pruned": None}}
    assert world.apply("1,a,again,,+,9")["changes"]["host"] == {"inserted": 1, "deleted": 0}
    assert "late" not in world.apply("1,a,again,,+,9", "2,a,new,,+,-3")


def test_ties_between_batches(tmp_path: Path) -> None:
    """The same row again changes nothing; another one is refused, unless something newer decides."""
    world = World(tmp_path)
    world.apply("1,a,x,,+,5", "2,a,y,,+,5", "3,a,z,,+,5")
    assert world.refused("1,a,other,,+,5", "3,a,z,1.00,+,5", "2,a,y,,+,5") == (
        'refused, nothing has changed:\n  host: an earlier batch had another row with _last = 1, zone = "a" and the '
        'same seq\n  host: an earlier batch had another row with _last = 3, zone = "a" and the same seq'
    )
    assert 'two rows with _last = 7, zone = "a" and the same seq' in world.refused("7,a,x,,+,5", "7,a,y,,+,5")
    assert "late" not in world.apply("1,a,other,,+,5", "1,a,newer,,+,6")
    assert world.names == {(1, "newer"), (2, "y"), (3, "z")}


def test_beginning_and_ending(tmp_path: Path) -> None:
    """Rows without a sequence are older than all; a relation that has sequences takes no changes without."""
    world = World(tmp_path, "1,a,first", "2,a,first")
    world.apply("2,a,second,,+,0", order_column=None)
    assert world.status is None
    world.apply("1,a,third,,+,-5")
    assert world.names == {(1, "third"), (2, "second")}
    for column in (None, "load"):
        said = world.refused("2,a,x,1,+,0", order_column=column)
        assert said.startswith("host keeps the sequence of each key, by the order column seq: pass --order-column seq")
    links = f"link={world.file('src,dst,op', '1,3,+')}"
    assert commands.apply_file(world.program, world.state, links, log=QUIET)["applied"]
    assert world.vacuum(forget_sequences=["host"]) == {"host": 1}
    world.apply("1,a,fourth,,+,0", order_column=None)
    assert world.names == {(1, "fourth"), (2, "second")} and world.status is None
    with pytest.raises(JobError, match="host keeps no sequences; these relations do: none"):
        world.vacuum(forget_sequences=["host"])


def test_tombstones(tmp_path: Path) -> None:
    """Those that are far behind are removed; after that, rows of unknown keys are late up to there, others are not."""
    world = World(tmp_path, "9,a,first")
    world.apply("1,a,,,-,10", "2,a,,,-,60", "3,a,x,,+,7", "4,a,y,,+,100")
    with pytest.raises(JobError, match="is no distance"):
        world.vacuum(tombstones=["host=-1"])
    assert world.vacuum(tombstones={"host": 90}) == {"host": 0}
    assert world.vacuum(tombstones=["host=50"]) == {"host": 1}
    assert world.status == {"host": {"column": "seq", "keys": 3, "pruned": 11}}
    # Key 1 is dead and forgotten, 2 is dead, 3 lives with a sequence, 9 without one; 5 is new.
    done = world.apply("1,a,late,,+,10", "2,a,late,,+,59", "3,a,z,,+,8", "9,a,second,,+,-1", "5,a,late,,+,10")
    assert done["late"] == {"host": 3} and world.names == {(3, "z"), (4, "y"), (9, "second")}
    world.apply("1,a,now,,+,11", "9,a,,,-,0")
    assert world.names == {(1, "now"), (3, "z"), (4, "y")}
    assert world.apply("9,a,late,,+,-1")["late"] == {"host": 1}
    # Key 2 died at 60, and 9 long before what was removed already.
    assert world.vacuum(tombstones=["host=40"]) == {"host": 1} and world.status["host"]["pruned"] == 11
    assert world.vacuum(tombstones=["host=39"]) == {"host": 1} and world.status["host"]["pruned"] == 61
    assert world.apply("2,a,late,,+,60", "9,a,late,,+,60")["late"] == {"host": 2}
    world.check()


def test_revert_and_later_changes(tmp_path: Path) -> None:
    """A batch whose keys were changed since, even to the same rows, is not reverted."""
    world = World(tmp_path)
    world.apply("1,a,x,,+,5", "2,a,x,,+,5", batch="one")
    world.apply("1,a,x,,+,7", batch="two")
    with pytest.raises(JobError, match="later batches have changed rows that batch one changed"):
        commands.revert_file(world.program, world.state, "one", log=QUIET)
    commands.revert_file(world.program, world.state, "two", log=QUIET)
    assert world.apply("1,a,y,,+,6")["changes"]["host"]["inserted"] == 1
    assert world.names == {(1, "y"), (2, "x")}


def test_nulls(tmp_path: Path) -> None:
    """A row that is left out for a null removes its key, with its sequence; deletions need the key only."""
    world = World(tmp_path)
    world.apply("1,a,x,,+,5", "2,a,x,,+,5")
    done = world.apply("1,a,,,+,7", "2,a,,,-,6", "3,a,,,+,1", nulls="skip")
    assert done["left_out"] == {"host": 2} and world.names == set()
    assert world.apply("1,a,y,,+,6", "3,a,y,,+,2")["late"] == {"host": 1} and world.names == {(3, "y")}
    assert "same seq" in world.refused("1,a,z,,+,7")
    assert "column zone: null" in world.refused("1,,,,-,7")
    assert "column _order: null" in world.refused("1,a,,,+,8")
    assert "column load" in world.refused("1,a,x,1.234,-,8")
    assert "column seq" in world.refused("1,a,x,1,-,tomorrow")
    assert "column seq" in world.refused("1,a,x,1,-,")
    lacking = world.folder / "host.jsonl"
    lacking.write_text('{"_last": 3, "zone": "a", "op": "-", "seq": "2026-11-29"}\n', encoding="utf-8")
    commands.apply_file(world.program, world.state, str(lacking), order_column="seq", log=QUIET)
    assert world.names == set()


def test_without_a_key(tmp_path: Path) -> None:
    """The last change of each row counts, in its batch; copies are counted in any order."""
    text = (
        "input relation e(a: int, b: string)\ninput multiset relation m(a: int)\noutput p.\np(A, B) :- e(A, B), m(A)."
    )
    program, state = program_of(text), str(tmp_path / "state.db")
    (tmp_path / "e.csv").write_text("a,b,op,at\n1,x,-,3\n1,x,+,2\n2,y,-,5\n2,y,+,5\n3,z,+,1\n3,z,-,4\n4,w,+,9\n")
    (tmp_path / "m.csv").write_text("a,op,at\n2,+,2\n2,+,1\n2,-,7\n4,+,1\n")
    commands.init_file(program, state, log=QUIET)
    given = [str(tmp_path / "e.csv"), str(tmp_path / "m.csv")]
    assert "late" not in commands.apply_file(program, state, given, order_column="at", log=QUIET)
    with open_file_state(program, state) as database:
        assert {*database.rows(program.relation("p"))} == {(2, "y"), (4, "w")}
    with pytest.raises(JobError, match="--net cannot be combined with --order-column"):
        commands.apply_file(program, state, given, order_column="at", net="insert", log=QUIET)


def test_new_versions(tmp_path: Path) -> None:
    """Sequences stay when other rules change, and when the key is the same; they go with it, or with new rows."""
    world, warned = World(tmp_path, "1,a,first"), list[str]()
    log = Log(True)
    log.warn = warned.append  # type: ignore[method-assign]
    world.apply("1,a,,,-,9")
    with pytest.raises(JobError, match="another version"):
        commands.status_file(program_of(PROGRAM + "output all.\nall(H) :- host(H, _, _, _)."), world.state)
    world.program = program_of(PROGRAM + "output idle.\nidle(H) :- host(H, _, _, _), !link(H, _).")
    upgrade_file(world.program, world.state, log=log)
    assert world.apply("1,a,late,,+,8")["late"] == {"host": 1}
    rows = [f"host={world.file('_last,zone,_order,load', '1,a,anew,')}"]
    rebuild_file(world.program, world.state, rows, log=log)
    assert warned == ["host no longer keeps the sequences of its keys, since its rows are given anew"]
    assert world.status is None
    world.apply("1,a,,,-,9")
    world.program = program_of(PROGRAM.replace("(_last, zone)", "(_last)"))
    upgrade_file(world.program, world.state, log=log)
    assert warned[1:] == [
        "host no longer keeps the sequences of its keys, since it has another primary key, or is no input any more"
    ]
    world.check()


def test_verify_and_a_file_of_others(tmp_path: Path) -> None:
    """Sequences that do not fit the rows are found; a file whose records are no such is refused."""
    world = World(tmp_path, "5,a,first")
    world.apply("1,a,x,,+,5", "2,a,x,,+,5", "3,a,,,-,5")
    with sqlite3.connect(world.state) as connection:
        connection.execute("UPDATE _sequences_of_host SET _sequence = 'x' WHERE last_ = 2")
    with pytest.raises(JobError, match='is damaged: "x" is no sequence of a key'):
        world.apply("2,a,x,,+,6")
    with sqlite3.connect(world.state) as connection:
        connection.execute("UPDATE _sequences_of_host SET _sequence = '5' WHERE last_ = 2")
        connection.execute("UPDATE _sequences_of_host SET _last = '-' WHERE last_ = 1")
        connection.execute("UPDATE _sequences_of_host SET _last = '+' WHERE last_ = 3")
    found = commands.verify_file(world.program, world.state, log=QUIET)["differences"]
    assert [(one["problem"].partition(";")[0], one["tuples"]) for one in found] == [
        ("a key was inserted by its last change, and has no row", [{"_last": 3, "zone": "a"}]),
        ("a key was removed by its last change, and has a row", [{"_last": 1, "zone": "a"}]),
    ]
    world.vacuum(forget_sequences=["host"])
    world.check()
    for text, said in (
        ('{"host": {"column": "seq", "pruned": "1.5"}}', "setting sequences cannot be read"),
        ('{"host": {"column": 7, "pruned": ""}}', "setting sequences cannot be read"),
        ('{"host": {"column": "seq", "pruned": ""}}', "lacks the table"),
        ('["host"]', "setting sequences cannot be read"),
    ):
        with sqlite3.connect(world.state) as connection:
            connection.execute("REPLACE INTO _settings VALUES ('sequences', ?)", (text,))
        with pytest.raises(JobError, match=said):
            commands.status_file(world.program, world.state)


def test_killed(tmp_path: Path) -> None:
    """Whenever a batch is killed, its rows and its sequences are there, or neither."""
    (tmp_path / "built").mkdir()
    built = World(tmp_path / "built", "1,a,first", "4,a,first")
    built.apply("1,a,,,-,9", "2,a,x,,+,3")
    content = Path(built.state).read_bytes()
    ended, kills, steps = int(signal.SIGKILL), 0, 100
    while ended:
        kills, steps = kills + 1, int(steps * (1.02 if NIGHTLY else 1.2))
        Path(built.state).write_bytes(content)

        def killed(steps: int = steps) -> None:
            sqlite3.connect = killing_connect(steps)  # type: ignore[assignment]
            built.apply("1,a,late,,+,8", "2,a,y,,+,4", "3,a,z,,+,1", "4,a,,,-,0", batch="two")

        ended = in_child(killed)
        assert ended in (0, signal.SIGKILL), ended
        there = commands.status_file(built.program, built.state)["batch"] == "two"
        assert built.names == ({(2, "y"), (3, "z")} if there else {(2, "x"), (4, "first")})
        assert built.status["host"]["keys"] == (4 if there else 2)
        built.check()
    assert kills > 10


def test_commands(tmp_path: Path) -> None:
    """The script has the option if an input has a primary key; `flintlog job` has it always, and removes sequences."""
    files = flintlog.compile(PROGRAM, target="database", format=False).files
    (tmp_path / "late.py").write_text(next(iter(files.values())), encoding="utf-8")
    (tmp_path / "host.csv").write_text(f"{HEADER}\n1,a,x,1.5,+,2026-11-29 12:00:00+01:00\n2,a,,,-,2026-11-29T10:30Z\n")

    def run(*arguments: str) -> str:
        command = [sys.executable, "late.py", *arguments, "--state", "state.db"]
        return subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    run("init")
    assert "host: 1 tuple" in run("apply", "--changes", "host.csv", "--order-column", "seq")
    assert "  host keeps 2 sequences by seq\n" in run("status")
    assert json.loads(run("status", "--json"))["sequences"]["host"]["keys"] == 2
    script = str(tmp_path / "late.py")
    called = CliRunner().invoke(main, ["job", "vacuum", script, "--state", str(tmp_path / "state.db")])
    assert called.exit_code == 0, called.output
    arguments = ["--state", str(tmp_path / "state.db"), "--tombstones", "host=20m"]
    called = CliRunner().invoke(main, ["job", "vacuum", script, *arguments])
    assert called.exit_code == 0 and "removed 1 sequence of host" in called.output
    assert run("show", "host", "--format", "csv") == "_last,zone,_order,load\n1,a,x,1.50\n"
