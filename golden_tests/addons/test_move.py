"""States that are moved between a file and a folder go on with the same rows, changes, batches and feeds."""

from __future__ import annotations

import contextlib
import random
import re
import shutil
import signal
import sqlite3
from pathlib import Path
from typing import Any

import flintlog
import pytest
from click.testing import CliRunner
from flintlog.compiler.cli import main
from flintlog.compiler.pipeline import Compilation, compile_program
from flintlog.compiler.source import SourceFile
from flintlog.runtime.addons import move
from flintlog.runtime.addons.move import file_from_folder, folder_from_file
from flintlog.runtime.addons.operations.changes import read_changes
from flintlog.runtime.addons.operations.recover import recover_state
from flintlog.runtime.addons.operations.rollback import rollback_state
from flintlog.runtime.addons.operations.vacuum import vacuum_state
from flintlog.runtime.database.commands import apply_file, init_file, verify_file
from flintlog.runtime.job.apply import apply_batch
from flintlog.runtime.job.verify import verify_state
from flintlog.runtime.kernel.errors import JobError, Passing
from flintlog.runtime.store.executors import LocalExecutor
from flintlog.runtime.store.manifest import load_manifest, read_state
from flintlog.runtime.store.retention import oldest_kept
from flintlog.runtime.system.log import Log
from flintlog.targets.database.lower import lower_rows
from flintlog.targets.pyspark.load import load_program

from golden_tests.addons.feeds.test_folder import put
from golden_tests.addons.feeds.world import PROGRAM as FED
from golden_tests.addons.feeds.world import FileWorld, applied
from golden_tests.checks import insertions
from golden_tests.database.jobs import NUMBERS, FileJob, script_text, write_changes
from golden_tests.database.test_programs import OutputsChecked
from golden_tests.harness import Changes
from golden_tests.job.kill import STEPS, in_child, kill_at, killing_connect
from golden_tests.nightly import AT_NIGHT, by_day, one_in, seeds
from golden_tests.oracle.random_programs import random_batches, random_inputs
from golden_tests.row_kernel.test_programs import random_text

QUIET = Log(True)

PROGRAM = """
input relation link(src: int, dst: int)
input multiset relation cost(src: int, price: decimal(38, 2)?)
output relation reach(src: int, dst: int)
output relation costs(src: int, price: decimal(38, 2))
reach(S, D) :- link(S, D).
reach(S, D) :- link(S, Z), reach(Z, D).
costs(S, sum<P>) :- cost(S, P), P != null.
"""


class WalkingJob(FileJob):
    """A program whose state is in a file, and now and then in a folder for a batch."""

    def __init__(self, compilation: Compilation, folder: Path, rng: random.Random) -> None:
        """Nothing is built yet."""
        super().__init__(script_text(compilation), folder)
        self.rows_program, self.columns = lower_rows(compilation.plan), load_program(compilation.plan)
        self.rng = rng
        self.moves = 0

    def apply(self, changes: Changes) -> int:
        """Apply a batch; returns the number of its commit."""
        if not self.commits or (self.moves and self.rng.random() < 0.4):
            return super().apply(changes)
        place = self.folder / f"folder-{next(NUMBERS)}"
        given = write_changes(self.program, changes, self.folder / f"batch-{next(NUMBERS)}")
        try:
            with self.executor() as executor:
                folder_from_file(self.columns, executor, str(place), str(self.file), log=QUIET)
                done = apply_batch(self.columns, executor, str(place), given, log=QUIET)
        except JobError as error:
            raise self.job.JobError(str(error)) from error
        file = self.folder / f"{next(NUMBERS)}.db"
        file_from_folder(self.rows_program, str(file), str(place), log=QUIET)
        self.file = file
        self.moves += 1
        return int(done["commit"])

    def executor(self) -> LocalExecutor:
        """Where the state in a folder is made and changed."""
        return LocalExecutor()


@by_day(1)
@pytest.mark.parametrize("seed", seeds(3, 100))
def test_random_walks(seed: int, tmp_path: Path) -> None:
    """Random programs, whose batches are applied to files and to folders in turn."""
    rng = random.Random(f"walk {seed}")
    text = random_text(rng)
    compilation = compile_program(SourceFile("test.dl", text))
    job = WalkingJob(compilation, tmp_path, rng)
    job.module = job.job  # type: ignore[assignment]
    checked = OutputsChecked(job, text, compilation)  # type: ignore[arg-type]
    inputs = random_inputs(rng, checked.program)
    for batch in [insertions(inputs), *random_batches(rng, checked.program, inputs, 5)]:
        assert not checked.apply(batch), text
        if not job.commits:
            # The first rows are refused, and there is nothing to delete from.
            break
    assert job.moves or not job.commits
    job.close()


class States:
    """A program with states in files and in folders."""

    def __init__(self, folder: Path, text: str = PROGRAM) -> None:
        """Nothing is built."""
        compilation = compile_program(SourceFile("test.dl", text))
        self.folder, self.rows, self.columns = folder, lower_rows(compilation.plan), load_program(compilation.plan)

    def place(self, name: str) -> str:
        """The path of a state or of changes."""
        return name if "://" in name else str(self.folder / name)

    def changes(self, name: str, **rows: str) -> list[str]:
        """Changes in files, as arguments."""
        (self.folder / name).mkdir()
        for relation, lines in rows.items():
            (self.folder / name / f"{relation}.csv").write_text("\n".join([*lines.split(), ""]), encoding="utf-8")
        return [self.place(name)]

    def file(self, name: str) -> str:
        """A state in a file, with five commits."""
        file = self.place(name)
        given = self.changes("first", link="src,dst 1,2 2,3", cost="src,price 1,5 1,5 2,")
        init_file(self.rows, file, given, log=QUIET)
        big, least = "999999999999999999999999999999999999.99", "-9223372036854775808"
        steps = [
            self.changes("second", link="op,src,dst +,3,1 -,1,2", cost=f"op,src,price -,1,5 +,{least},{big}"),
            self.changes("third", link=f"op,src,dst +,{least},3", cost="op,src,price +,2, +,2, -,1,5"),
            self.changes("empty", link="op,src,dst +,2,3"),
            self.changes("fourth", link="op,src,dst +,1,2", cost="op,src,price -,2, +,1,5"),
        ]
        for batch, changes in zip(("b 1/é", None, "x'\"", None), steps, strict=True):
            apply_file(self.rows, file, changes, batch, log=QUIET)
        return file

    def to_folder(self, name: str, former: str, **options: Any) -> str:
        """A state in a folder, from one in a file."""
        with LocalExecutor() as executor:
            folder_from_file(self.columns, executor, self.place(name), former, log=QUIET, **options)
            assert verify_state(self.columns, executor, self.place(name), log=QUIET)["differences"] == []
        return self.place(name)

    def to_file(self, name: str, former: str, **options: Any) -> str:
        """A state in a file, from one in a folder."""
        file_from_folder(self.rows, self.place(name), former, log=QUIET, **options)
        assert verify_file(self.rows, self.place(name), log=QUIET)["differences"] == []
        return self.place(name)

    def apply(self, folder: str, changes: list[str], **options: Any) -> dict[str, Any]:
        """Apply a batch to a state in a folder."""
        with LocalExecutor() as executor:
            return apply_batch(self.columns, executor, folder, changes, log=QUIET, **options)

    def known(self, folder: str, file: str) -> list[str]:
        """Check that both states know the batches of :meth:`file`; returns changes that neither has."""
        more = self.changes("more", link="op,src,dst +,7,8")
        for batch in ("b 1/é", "x'\""):
            assert not self.apply(folder, more, batch=batch)["applied"]
            assert not apply_file(self.rows, file, more, batch, log=QUIET)["applied"]
        with pytest.raises(JobError, match="batch-000003"):
            self.apply(folder, more, batch="batch-000003")
        with pytest.raises(JobError, match="batch-000003"):
            apply_file(self.rows, file, more, "batch-000003", log=QUIET)
        return more


def contents(file: str) -> dict[str, Any]:
    """The rows of the tables of a file, the commits without what the methods of a file count."""
    found = {}
    with contextlib.closing(sqlite3.connect(file)) as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            columns = "number, batch, generated, command, time, rows" if name == "_commits" else "*"
            if name.startswith(("_commits", "_rows", "_stored_changes")):
                found[name] = sorted(connection.execute(f'SELECT {columns} FROM "{name}"').fetchall(), key=repr)
    return found


def folder_contents(columns: Any, folder: str) -> dict[str, Any]:
    """The commits that a folder keeps, and the net changes of all relations in each."""
    found: dict[str, Any] = {}
    root = Path(folder)
    last = read_state(root)
    for number in range(oldest_kept(last), last.commit + 1):
        manifest = load_manifest(root, number)
        found[str(number)] = (manifest.batch, manifest.batch in manifest.generated, manifest.command, manifest.time)
        for relation in columns.relations if number > oldest_kept(last) else ():
            if not relation.hidden:
                table = read_changes(columns, LocalExecutor(), folder, relation.name, number - 1, number)
                found[f"{number} {relation.name}"] = table.to_pylist()
    return found


def test_there_and_back(tmp_path: Path) -> None:
    """Rows, commits and changes are the same, and all batches are known."""
    states = States(tmp_path)
    file = states.file("a.db")
    folder = states.to_folder("folder", file)
    again = states.to_file("b.db", folder)
    assert contents(again) == contents(file)
    assert folder_contents(states.columns, states.to_folder("folder2", again)) == folder_contents(
        states.columns, folder
    )
    more = states.known(folder, again)
    assert states.apply(folder, more)["batch"] == apply_file(states.rows, again, more, log=QUIET)["batch"]


def test_kept(tmp_path: Path) -> None:
    """The new state keeps as many commits as it is told to; it knows the batches before."""
    states = States(tmp_path)
    file = states.file("a.db")
    folder = states.to_folder("folder", file, keep="2")
    assert [key for key in folder_contents(states.columns, folder) if key.isdigit()] == ["4", "5"]
    again = states.to_file("b.db", folder, keep="2")
    for name, rows in contents(file).items():
        if name.startswith("_stored_changes"):
            assert contents(again)[name] == [row for row in rows if row[0] == 5]
    more = states.known(folder, again)
    assert states.apply(folder, more)["commit"] == apply_file(states.rows, again, more, log=QUIET)["commit"] == 6
    # What was moved is moved again.
    third = states.to_file("c.db", states.to_folder("folder2", again))
    assert not apply_file(states.rows, third, more, "b 1/é", log=QUIET)["applied"]


def test_feeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Feeds go on after what the former state has read."""
    world, states = FileWorld(tmp_path), States(tmp_path, FED)
    put(tmp_path / "incoming", "a.csv", "+1,2")
    assert world.run("connect", f"link=files:{tmp_path / 'incoming'}") == world.run("apply") == 0
    folder = states.to_folder("folder", str(world.state))
    put(tmp_path / "incoming", "b.csv", "-1,2", "+2,3")
    told = apply_fed(states.columns, folder)
    assert told["changes"]["link"] == {"inserted": 1, "deleted": 1}
    world.state = Path(states.to_file("back.db", folder))
    put(tmp_path / "incoming", "c.csv", "+3,4")
    assert applied(world, capsys)["changes"]["link"] == {"inserted": 1, "deleted": 0}
    world.check({(2, 3), (3, 4)})
    world.close()


def apply_fed(columns: Any, folder: str) -> dict[str, Any]:
    """Apply what is new in the feeds of a state in a folder."""
    with LocalExecutor() as executor:
        return apply_batch(columns, executor, folder, log=QUIET)


def test_refused(tmp_path: Path) -> None:
    """What cannot be moved is refused, and nothing is left of the attempt."""
    states = States(tmp_path)
    file = states.file("a.db")
    folder = states.to_folder("folder", file)
    (tmp_path / "taken").mkdir()
    (tmp_path / "half.moving").mkdir()
    other = States(tmp_path, PROGRAM.replace("reach(Z, D).", "reach(Z, D), S != D."))
    before = sorted(path.name for path in tmp_path.iterdir())
    for name, former, made, said in (
        ("taken", file, states.to_folder, "is there already"),
        ("a.db", folder, states.to_file, "is there already"),
        ("half", file, states.to_folder, "half.moving is there: remove it"),
        ("half", folder, states.to_file, "half.moving is there: remove it"),
        ("s3://bucket/state", file, states.to_folder, "a place on this machine"),
        ("new", str(tmp_path / "none"), states.to_folder, "there is no state"),
        ("new", str(tmp_path / "none"), states.to_file, "there is no state"),
        ("new", folder, states.to_folder, "is a folder"),
        ("new", file, states.to_file, "is a file"),
        ("new", file, other.to_folder, "another version of the program"),
        ("new", folder, other.to_file, "version"),
    ):
        with pytest.raises(JobError, match=said):
            made(name, former)
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_damaged_file(tmp_path: Path) -> None:
    """Derived tuples that do not follow from the inputs are noticed by their number."""
    states = States(tmp_path)
    file = states.file("a.db")
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("DELETE FROM _rows_of_link WHERE src = 2")
    with pytest.raises(JobError, match="link, reach had other numbers of tuples"):
        states.to_folder("folder", file)
    assert not [*tmp_path.glob("folder*")]


@by_day(1)
@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
def test_what_a_former_database_left(suffix: str, tmp_path: Path) -> None:
    """A log beside the place would be applied to the new file."""
    states = States(tmp_path)
    folder = states.to_folder("folder", states.file("a.db"))
    (tmp_path / f"b.db{suffix}").write_bytes(b"log")
    with pytest.raises(JobError, match=f"b.db{suffix} is there, of a database that was at"):
        states.to_file("b.db", folder)
    assert sorted(path.name for path in tmp_path.glob("b.db*")) == [f"b.db{suffix}"]


def test_feeds_after_a_rollback(tmp_path: Path) -> None:
    """No commit is there to go back to that had read less of the feeds."""
    world, states = FileWorld(tmp_path), States(tmp_path, FED)
    put(tmp_path / "incoming", "a.csv", "+1,2")
    assert world.run("connect", f"link=files:{tmp_path / 'incoming'}") == world.run("apply") == 0
    put(tmp_path / "incoming", "b.csv", "+2,3")
    assert world.run("apply") == 0
    changes = tmp_path / "person.csv"
    changes.write_text("op,id,name\n+,3,x\n", encoding="utf-8")
    assert world.run("apply", "--changes", str(changes)) == 0
    folder = states.to_folder("folder", str(world.state))
    with LocalExecutor() as executor:
        with pytest.raises(JobError, match="commit 2 is not kept"):
            rollback_state(states.columns, executor, folder, 2, log=QUIET)
        rollback_state(states.columns, executor, folder, 3, log=QUIET)
        assert not apply_batch(states.columns, executor, folder, log=QUIET)["applied"]
    world.state = Path(states.to_file("back.db", folder))
    world.check({(1, 2), (2, 3)})
    world.close()


def test_other_functions(tmp_path: Path) -> None:
    """What was computed with other functions is not what follows from these."""
    text = "extern function f(x: int): int\ninput relation e(x: int)\noutput p.\np(X, f(X)) :- e(X).\n"
    states = States(tmp_path, text)
    for name in ("one", "two"):
        (tmp_path / f"{name}.py").write_text(f"def f(x):\n    return x + len('{name}' * {len(name)})\n# {name}\n")
    one, two = states.place("one.py"), states.place("two.py")
    init_file(states.rows, states.place("a.db"), states.changes("a", e="x 1"), functions=one, log=QUIET)
    with LocalExecutor() as executor:
        for functions, said in ((two, "another version of f"), (None, "f")):
            with pytest.raises(JobError, match=said):
                folder_from_file(
                    states.columns, executor, states.place("b"), states.place("a.db"), functions=functions, log=QUIET
                )
        folder_from_file(states.columns, executor, states.place("b"), states.place("a.db"), functions=one, log=QUIET)
    with pytest.raises(JobError, match="another version of f"):
        file_from_folder(states.rows, states.place("c.db"), states.place("b"), functions=two, log=QUIET)
    file_from_folder(states.rows, states.place("c.db"), states.place("b"), functions=one, log=QUIET)
    assert contents(states.place("c.db")) == contents(states.place("a.db"))


def test_after_recover(tmp_path: Path) -> None:
    """Commits before the one that `recover` made are not read."""
    states = States(tmp_path)
    folder = states.to_folder("folder", states.file("a.db"))
    (tmp_path / "folder" / "manifest" / "000000000005.json").write_text("{", encoding="utf-8")
    recover_state(states.columns, folder, log=QUIET)
    states.apply(folder, states.changes("more", link="op,src,dst +,7,8"))
    moved = contents(states.to_file("b.db", folder))
    assert {row[0] for row in moved["_commits"]} >= {6, 7}
    again = folder_contents(states.columns, states.to_folder("again", states.place("b.db")))
    assert [key for key in again if key.isdigit()] == ["6", "7"]


def test_commits_that_go_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that others change while it is read is not called damaged."""
    states = States(tmp_path)
    folder = states.to_folder("folder", states.file("a.db"), keep="2")
    read = move.changed_tuples

    def slowly(*arguments: Any) -> Any:
        monkeypatch.setattr(move, "changed_tuples", read)
        for number in range(4):
            states.apply(folder, states.changes(f"more {number}", link=f"op,src,dst +,7,{number}"))
        vacuum_state(states.columns, folder, log=QUIET)
        return read(*arguments)

    monkeypatch.setattr(move, "changed_tuples", slowly)
    with pytest.raises(Passing, match="did not keep commit 4 while it was read"):
        states.to_file("b.db", folder)
    states.to_file("b.db", folder)


def test_states_of_other_kinds(tmp_path: Path) -> None:
    """What a file has no place for, and scripts for the other direction."""
    states = States(tmp_path)
    file = states.file("a.db")
    folder = states.to_folder("folder", file)
    with pytest.raises(JobError, match="is a folder: move it with the script of --target database"):
        states.to_folder("b", folder)
    with pytest.raises(JobError, match="is a file: move it with a script of another target"):
        states.to_file("b", file)
    compiled = compile_program(SourceFile("test.dl", PROGRAM), recursion="derivation-sets")
    states.columns = load_program(compiled.plan)
    with pytest.raises(JobError, match="keeps derivation sets"):
        states.to_folder("b", file)
    for column, text in (("forgotten", "99"),):
        with contextlib.closing(sqlite3.connect(file)) as connection, connection:
            connection.execute("UPDATE _settings SET value = ? WHERE name = ?", (text, column))
        with pytest.raises(JobError, match="is damaged"):
            States(tmp_path).to_folder("b", file)
    assert not [*tmp_path.glob("b*")]


@by_day(1)
@pytest.mark.parametrize("step", one_in(range(1, 500, 40), 3))
def test_killed(step: int, tmp_path: Path) -> None:
    """A state that was being built when the command was killed is not there, and can be built again."""
    states = States(tmp_path)
    file = states.file("a.db")
    folder = states.to_folder("folder", file)

    def to_folder() -> None:
        kill_at(step, lambda event, arguments: event in STEPS and "new" in str(arguments[0]))
        states.to_folder("new", file)

    def to_file() -> None:
        sqlite3.connect = killing_connect(step * 100)
        states.to_file("new.db", folder)

    for name, work in (("new", to_folder), ("new.db", to_file)):
        ended = in_child(work)
        assert ended in (0, signal.SIGKILL), ended
        place, beside = tmp_path / name, tmp_path / f"{name}.moving"
        if not place.exists():
            assert ended
            for left in tmp_path.glob(f"{beside.name}*"):
                shutil.rmtree(left) if left.is_dir() else left.unlink()
            (states.to_folder if name == "new" else states.to_file)(name, file if name == "new" else folder)
        assert not beside.exists()
    assert folder_contents(states.columns, states.place("new")) == folder_contents(states.columns, folder)
    assert contents(states.place("new.db")) == contents(file)


def test_command(tmp_path: Path) -> None:
    """By the command line, with both scripts of a program."""
    for target in ("pyspark", "database"):
        for name, text in flintlog.compile(PROGRAM, target=target, format=False).files.items():
            (tmp_path / f"{target}-{name}").write_text(text, encoding="utf-8")
    states = States(tmp_path)
    init_file(states.rows, states.place("a.db"), states.changes("a", link="src,dst 1,2"), log=QUIET)
    for script, place, former in (("pyspark", "folder", "a.db"), ("database", "b.db", "folder")):
        command = ["job", "move", states.place(f"{script}-program.py"), "--state", states.place(place)]
        done = CliRunner().invoke(main, [*command, "--from", states.place(former), "--quiet"])
        assert done.exit_code == 0, done.output
        assert "commit 1, batch init: 2 tuples; 1 commit moved" in done.output
    assert contents(states.place("b.db")) == contents(states.place("a.db"))


@AT_NIGHT
def test_on_spark(spark: Any, tmp_path: Path) -> None:
    """A state is moved on Spark, and changed there."""
    states = States(tmp_path)
    file = states.file("a.db")
    folder_from_file(states.columns, spark, states.place("folder"), file, log=QUIET)
    changes = states.changes("more", link="op,src,dst +,3,4 -,1,2", cost="op,src,price +,2,0.01")
    apply_batch(states.columns, spark, states.place("folder"), changes, "more", log=QUIET)
    again = states.to_file("b.db", states.place("folder"))
    apply_file(states.rows, file, changes, "more", log=QUIET)
    for name, rows in contents(file).items():
        assert [*map(without_time, contents(again)[name])] == [*map(without_time, rows)]


def without_time(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row without what is a time."""
    return tuple(value for value in row if not re.match(r"20..-..-..T", str(value)))
