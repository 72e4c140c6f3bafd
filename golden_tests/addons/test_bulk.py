"""States that are built by columns are those that are built row by row, in every table of the file."""

from __future__ import annotations

import contextlib
import functools
import json
import random
import re
import signal
import sqlite3
import subprocess
import sys
import threading
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from flintlog.compiler.cli import main
from flintlog.compiler.pipeline import Compilation, compile_program
from flintlog.compiler.source import SourceFile
from flintlog.runtime.addons import bulk
from flintlog.runtime.addons.bulk import init_by_counts
from flintlog.runtime.database.commands import apply_file, init_file, verify_file
from flintlog.runtime.kernel.errors import JobError
from flintlog.runtime.row_kernel.tables import RowTables, listed, stored
from flintlog.runtime.system.log import Log
from flintlog.targets.database.lower import lower_rows
from flintlog.targets.pyspark.load import load_program, load_script
from flintlog.targets.signature import MARK, signed

from golden_tests.batch_files import read_batches
from golden_tests.checks import insertions
from golden_tests.database.jobs import NUMBERS, write_changes
from golden_tests.harness import Changes
from golden_tests.language.test_cases import CASES, by_name, compiled, functions_of
from golden_tests.nightly import by_day, seeds
from golden_tests.oracle.language import parse
from golden_tests.oracle.random_programs import random_batches, random_inputs
from golden_tests.oracle.random_sums import sum_scenario
from golden_tests.row_kernel.test_join_orders import NEAR
from golden_tests.row_kernel.test_programs import random_text


class Events(Log):
    """A log that keeps the names of events."""

    def __init__(self) -> None:
        """Nothing has happened."""
        super().__init__(quiet=True)
        self.names: list[str] = []

    def event(self, name: str, **fields: object) -> None:
        """Keep a name."""
        self.names.append(name)


def contents(file: Path) -> dict[str, Any]:
    """All that is in a file, but for times and for the statistics, which depend on what was asked when."""
    found: dict[str, Any] = {}
    with contextlib.closing(sqlite3.connect(file)) as connection:
        found["schema"] = sorted(connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema").fetchall())
        for kind, name, *_ in found["schema"]:
            if kind == "table":
                rows = connection.execute(f'SELECT * FROM "{name}"').fetchall()
                if name == "_commits":
                    rows = [(*row[:5], *row[6:]) for row in rows]
                if name == "_settings":
                    rows = [row for row in rows if row[0] != "statistics"]
                # 1 is not 1.0, and text is no blob.
                found[name] = sorted(map(repr, rows))
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA journal_mode").fetchall() == [("wal",)]
    return found


class Twins:
    """A program with two states: one built by rows, one by columns; batches are applied to both by rows."""

    counted = 0

    def __init__(self, compilation: Compilation, folder: Path, functions: Path | None = None) -> None:
        """Nothing is built."""
        self.rows, self.columns = lower_rows(compilation.plan), load_program(compilation.plan)
        self.folder, self.functions = folder, str(functions) if functions else None
        self.files = folder / "rows.db", folder / "columns.db"

    def build(self, log: Log) -> Any:
        """How the second one is built."""

        def by_columns(database: Any, given: Any, *arguments: Any) -> Any:
            how = functools.partial(init_by_counts, lambda: self.columns, self.functions)
            return how(database, given._replace(log=log), *arguments)

        return by_columns

    def init(self, changes: Changes) -> bool:
        """Build both, one of them by columns; returns whether they were built."""
        given = write_changes(self.rows, changes, self.folder / f"batch-{next(NUMBERS)}", False)
        events = Events()
        done = [
            self.tried(init_file, self.rows, str(file), given, functions=self.functions, log=events, **how)
            for file, how in zip(self.files, ({}, {"build": self.build(events)}), strict=True)
        ]
        assert done[0] == done[1]
        built = isinstance(done[0], dict)
        assert not built or ("columns" in events.names and "rows" not in events.names)
        self.compare(built)
        if built:
            self.check_statistics()
        return built

    def check_statistics(self) -> None:
        """Check what joins are chosen by: as it is, not as it was when rows first asked."""
        with contextlib.closing(sqlite3.connect(self.files[1])) as connection:
            told = connection.execute("SELECT value FROM _settings WHERE name = 'statistics'").fetchall()
            for name, columns, rows, values, changed in json.loads(told[0][0]) if told else ():
                each = f"SELECT DISTINCT {listed(columns)} FROM {stored(name)}" if columns else "SELECT 1"
                counts = (f"SELECT COUNT(*) FROM {of}" for of in (stored(name), f"({each})"))
                assert [rows, values, changed] == [*(connection.execute(one).fetchone()[0] for one in counts), 0]
                Twins.counted += 1

    def apply(self, changes: Changes) -> None:
        """Apply a batch to both."""
        given = write_changes(self.rows, changes, self.folder / f"batch-{next(NUMBERS)}")
        done = [
            self.tried(apply_file, self.rows, str(file), given, functions=self.functions, log=Log(True))
            for file in self.files
        ]
        assert done[0] == done[1]
        self.compare()

    @staticmethod
    def tried(command: Any, *arguments: Any, **options: Any) -> dict[str, Any] | str:
        """The result of a command without its duration, or why it is refused."""
        try:
            result: dict[str, Any] = command(*arguments, **options)
        except JobError as error:
            return str(error)
        del result["seconds"]
        return result

    def compare(self, built: bool = True) -> None:
        """Check that both files are the same."""
        if built:
            one, other = map(contents, self.files)
            for name in one.keys() | other.keys():
                assert one.get(name) == other.get(name), name
            assert not verify_file(self.rows, str(self.files[1]), self.functions, Log(True))["differences"]


PROGRAM = """
include "links.dl"
input multiset relation cost(src: int, price: decimal(38, 2)?)
output relation reach(src: int, dst: int)
output relation costs(src: int, price: decimal(38, 2))
reach(S, D) :- link(S, D).
reach(S, D) :- link(S, Z), reach(Z, D).
costs(S, sum<P>) :- cost(S, P), P != null.
"""
LINKS = "input relation link(src: int, dst: int)\n"


class World:
    """A script with a folder, run by ``flintlog job``."""

    def __init__(self, folder: Path, rows: str = "1,2 2,3 3,1") -> None:
        """Compile the program, and write its inputs."""
        self.folder, self.state = folder, folder / "s.db"
        (folder / "main.dl").write_text(PROGRAM, encoding="utf-8")
        (folder / "links.dl").write_text(LINKS, encoding="utf-8")
        made = CliRunner().invoke(main, ["compile", str(folder / "main.dl"), "--target", "database", "-o", str(folder)])
        assert made.exit_code == 0, made.output
        (folder / "facts").mkdir()
        (folder / "facts" / "link.csv").write_text("\n".join(["src,dst", *rows.split(), ""]), encoding="utf-8")
        (folder / "facts" / "cost.csv").write_text("src,price\n1,2.50\n1,2.50\n2,\n", encoding="utf-8")

    def job(self, command: str, *arguments: str) -> Any:
        """Run a command."""
        given = [str(self.folder / "main.py"), "--state", str(self.state), *arguments]
        return CliRunner().invoke(main, ["job", command, *given])

    def init(self, *arguments: str) -> Any:
        """Build the state."""
        return self.job("init", "--input", str(self.folder / "facts"), *arguments)

    def by_rows(self) -> dict[str, Any]:
        """What the script itself makes of the same inputs."""
        file = self.folder / f"{next(NUMBERS)}.db"
        program = load_script(self.folder / "main.py", "init").program
        init_file(program, str(file), str(self.folder / "facts"), log=Log(True))  # type: ignore[arg-type]
        return contents(file)


@pytest.fixture(autouse=True)
def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns compute everything, and rows are loaded in small pieces."""
    monkeypatch.setattr(bulk, "BYTES_FOR_COLUMNS", 0)
    monkeypatch.setattr(bulk, "ROWS_LOADED", 7)
    monkeypatch.setattr(bulk, "ROWS_OF_STATEMENT", 3)


@by_day(6)
@pytest.mark.parametrize("case", [pytest.param(case, id=by_name(case)) for case in CASES])
def test_cases(case: Path, tmp_path: Path) -> None:
    """Golden cases, with their batches."""
    twins = Twins(compiled(case), tmp_path, functions_of(case))
    built = False
    for batch in read_batches(case / "batches.dat", twins.rows).values():
        if built:
            twins.apply(batch)
        else:
            built = twins.init(batch)


@by_day(2)
@pytest.mark.parametrize("seed", seeds(4, 100))
def test_programs(seed: int, tmp_path: Path) -> None:
    """Random programs."""
    for number in range(5):
        rng = random.Random(f"bulk {seed} {number}")
        text = random_text(rng)
        folder = tmp_path / str(number)
        folder.mkdir()
        twins = Twins(compile_program(SourceFile("test.dl", text)), folder)
        program = parse(text)
        inputs: Any = random_inputs(rng, program)
        if twins.init(insertions(inputs)):
            for batch in random_batches(rng, program, inputs, 2):
                twins.apply(batch)


@by_day(2)
@pytest.mark.parametrize("seed", seeds(4, 40))
def test_sums(seed: int, tmp_path: Path) -> None:
    """Recursions with sums, which order their groups."""
    scenario = sum_scenario(seed)
    twins = Twins(compile_program(SourceFile("test.dl", scenario.text)), tmp_path)
    if twins.init(insertions(scenario.inputs)):
        for batch in scenario.batches[:2]:
            twins.apply(batch)


BIG = "9" * 36
VALUES: dict[str, list[str]] = {
    "int": ["0", "-1", "9223372036854775807", "-9223372036854775808"],
    "float": ["-0.0", "0.0", "5e-324", "-1.7976931348623157e308", "0.1", "1e22", "3"],
    "bool": ["true", "false"],
    "string": [
        *('""', '" "', '"a\\u0000b"', '"\U0001f600\uffff"', '"[1]"', '"O\'x\\"\\\\"'),
        *('"\\n"', '"1"', '"é"', '"e\\u0301"'),
    ],
    "date": ['"0001-01-01"', '"9999-12-31"', '"1969-12-31"'],
    "timestamp": [
        *('"0001-01-01 00:00:00"', '"9999-12-31 23:59:59.999999"'),
        *('"2000-02-29 00:00:00.5"', '"1969-12-31 23:59:59.000001"'),
    ],
    "decimal(38, 2)": [f"{BIG}.99", f"-{BIG}.99", "0", "-0.01"],
    "decimal(38, 38)": [f"0.99{BIG}", "-0." + "0" * 37 + "1"],
    "decimal(38, 0)": [f"99{BIG}", f"-99{BIG}", "-1"],
    "decimal(18, 18)": ["0." + "9" * 18, "-0." + "9" * 18, "0"],
    "decimal(18, 0)": ["9" * 18, "-1"],
    "decimal(5, 2)": ["0.05", "-0.05", "-999.99"],
}


@by_day(3)
@pytest.mark.parametrize("kind", VALUES)
def test_values(kind: str, tmp_path: Path) -> None:
    """Values of all types, alone, in lists, optional, in keys, groups and copies."""
    lines, rows, values = [], {}, VALUES[kind]
    kinds = {"a": (kind, values), "b": (f"list<{kind}>", ["[]", f"[{', '.join(values)}]", f"[{values[0]}]"])}
    kinds["c"] = (f"list<list<{kind}>>", ["[]", "[[]]", f"[[{values[-1]}], []]"])
    kinds["d"] = (f"{kind}?", ["null", *values])
    for letter, (whole, texts) in kinds.items():
        name = f"{letter}_"
        lines += [
            f"input multiset relation {name}(v: {whole}, n: int)",
            f"output relation {name}_x(n: int, v: {whole})",
            f"output relation {name}_y(v: {whole}, k: int)",
            f"output relation {name}_r(v: {whole}, n: int)",
            f"{name}_x(N, V) :- {name}(V, N), {name}(V, _).",
            f"{name}_y(V, count<*>) :- {name}(V, _).",
            f"{name}_r(V, N) :- {name}(V, N).",
            f"{name}_r(V, N) :- {name}_r(V, M), {name}(V, N), N > M.",
        ]
        if letter != "d" and kind != "bool":
            lines += [f"output relation {name}_z(k: int, v: {whole})", f"{name}_z(K, max<V>) :- {name}_y(V, K)."]
        if letter == "a" and kind.startswith(("decimal", "int", "float")):
            lines += [f"output relation {name}_s(n: int, s: {summed(kind)}, m: float)"]
            lines += [f"{name}_s(N, sum<V>, avg<V>) :- {name}(V, N)."]
        rows[name] = [
            f'{{"v": {text}, "n": {n}}}' for n, text in enumerate(texts) for _ in range(1 + (n % 2 and letter > "a"))
        ]
    twins = Twins(compile_program(SourceFile("test.dl", "\n".join(lines))), tmp_path)
    (tmp_path / "facts").mkdir()
    for name, of in rows.items():
        (tmp_path / "facts" / f"{name}.jsonl").write_text("\n".join(of), encoding="utf-8")
    events = Events()
    done = [
        twins.tried(init_file, twins.rows, str(file), str(tmp_path / "facts"), log=events, **how)
        for file, how in zip(twins.files, ({}, {"build": twins.build(events)}), strict=True)
    ]
    assert done[0] == done[1] and isinstance(done[0], dict), done
    assert "columns" in events.names and "rows" not in events.names
    twins.compare()


def summed(kind: str) -> str:
    """The type of a sum."""
    return re.sub(r"\(\d+,", "(38,", kind)


def test_statistics(tmp_path: Path) -> None:
    """Where rules choose between joins, values are counted."""
    before, rng = Twins.counted, random.Random(1)
    twins = Twins(compile_program(SourceFile("near.dl", NEAR)), tmp_path)
    rows = {name: {("+", (rng.randrange(9), rng.randrange(3))) for _ in range(20)} for name in twins.rows.inputs}
    assert twins.init(rows) and Twins.counted > before


def test_command(tmp_path: Path) -> None:
    """By the command line, from the sources in the script; with what is said meanwhile."""
    world = World(tmp_path)
    done = world.init()
    assert done.exit_code == 0, done.output
    assert "event=columns" in done.output and "event=loading" in done.output and "event=rows" not in done.output
    assert "batch init is commit 1" in done.output and "  reach: 9 tuples  +9 -0\n" in done.output
    assert contents(world.state) == world.by_rows()
    again = world.init()
    assert again.exit_code == 1 and f"there is a database in {world.state} already" in again.output
    assert world.job("verify").exit_code == 0
    # As it is between the commit and the end.
    with contextlib.closing(sqlite3.connect(world.state)) as connection:
        assert connection.execute("PRAGMA journal_mode = DELETE").fetchall() == [("delete",)]
    assert world.job("status").exit_code == 0
    assert contents(world.state) == world.by_rows()


def test_options(tmp_path: Path) -> None:
    """Rows are left out, or set aside, as they are by rows; and a state that keeps fewer commits says so."""
    twins = Twins(compile_program(SourceFile("test.dl", PROGRAM.replace('include "links.dl"', LINKS))), tmp_path)
    import_module("flintlog.runtime.addons.file_quarantine")
    (tmp_path / "link.jsonl").write_text('{"src": 1, "dst": 2}\n{"src": null, "dst": 2}\n{"src": "x", "dst": 2}\n')
    given, keep = f"link={tmp_path / 'link.jsonl'}", "7d"
    for options in ({"nulls": "skip", "quarantine": str(tmp_path / "aside")}, {"nulls": "skip"}, {}):
        done = []
        for file, how in zip(twins.files, ({}, {"build": twins.build(Events())}), strict=True):
            done.append(
                twins.tried(init_file, twins.rows, str(file), given, log=Log(True), keep=keep, **options, **how)
            )
        if isinstance(done[0], dict) and isinstance(done[1], dict):
            assert done[0]["left_out"] == {"link": 1} and done[0]["set_aside"] == {"link": 1}
            for one in done:
                (aside,) = one.pop("quarantine").values()
                assert '"row": 3' in Path(aside).read_text(encoding="utf-8")
            twins.compare()
            for file in twins.files:
                file.unlink()
        else:
            assert isinstance(done[0], str) and "row 3" in done[0]
        assert done[0] == done[1]


def test_few_rows_with_many_tuples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows begin, and columns go on if that takes long."""
    monkeypatch.setattr(bulk, "BYTES_FOR_COLUMNS", 10_000)
    world = World(tmp_path, " ".join(f"{n},{n + 1}" for n in range(40)))
    assert "event=columns" not in world.init().output
    by_rows = contents(world.state)
    world.state.unlink()
    monkeypatch.setattr(bulk, "STEPS_AT_ONCE", 100)
    assert "event=columns" in world.init().output
    assert contents(world.state) == by_rows
    # A statement that something else interrupts is no reason to begin again.
    connection = sqlite3.connect(":memory:")
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT MAX(i) FROM n"
    monkeypatch.setattr(bulk, "STEPS_OF_ROWS", 10**9)
    threading.Timer(0.1, connection.interrupt).start()
    with pytest.raises(KeyboardInterrupt), bulk.few_steps(connection):
        connection.execute(endless)


def test_without_duckdb(tmp_path: Path) -> None:
    """Rows do it."""
    world = World(tmp_path)
    code = "import sys; sys.modules['duckdb'] = None; from flintlog.compiler.cli import main; main()"
    given = ["job", "init", str(tmp_path / "main.py"), "--state", str(world.state), "--input", str(tmp_path / "facts")]
    done = subprocess.run([sys.executable, "-c", code, *given], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "event=columns" not in done.stderr
    assert contents(world.state) == world.by_rows()


def test_rules_about_time(tmp_path: Path) -> None:
    """Rows build what depends on the time."""
    text = "input relation e(n: int, t: timestamp)\noutput relation late(n: int)\nlate(N) :- e(N, T), now(S), T < S.\n"
    twins = Twins(compile_program(SourceFile("test.dl", text)), tmp_path)
    (tmp_path / "e.jsonl").write_text('{"n": 1, "t": "2026-01-01 00:00:00"}\n{"n": 2, "t": "2027-01-01 00:00:00"}\n')
    given, events = f"e={tmp_path / 'e.jsonl'}", Events()
    for file, how in zip(twins.files, ({}, {"build": twins.build(events)}), strict=True):
        init_file(twins.rows, str(file), given, as_of="2026-06-01 00:00:00", log=Log(True), **how)
    assert "columns" not in events.names
    twins.compare()


def test_without_sources(tmp_path: Path) -> None:
    """Rows do it if the program cannot be compiled from what the script says it was made from."""
    world = World(tmp_path)
    script = tmp_path / "main.py"
    text = script.read_text(encoding="utf-8")
    assert "reach(S, D) :- link(S, D).\n" in text
    other = text.replace("\nreach(S, D) :- link(S, D).\n", "\nreach(S, D) :- link(D, S).\n")
    script.write_text(signed(re.sub("This text is [0-9a-f]{16}, unless it was edited.", MARK, other, count=1)))
    done = world.init()
    assert done.exit_code == 0 and "event=columns" not in done.output, done.output
    assert contents(world.state) == world.by_rows()


def test_an_sqlite_that_guards_its_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It sorts the entries of indexes itself."""
    guarded = []

    def execute(self: RowTables, sql: str, values: Any = ()) -> Any:
        if sql.startswith("UPDATE sqlite_schema"):
            guarded.append(sql)
            raise sqlite3.OperationalError("table sqlite_master may not be modified")
        return self.connection.execute(sql, values)

    world = World(tmp_path)
    monkeypatch.setattr(RowTables, "execute", execute)
    assert "event=columns" in world.init().output and guarded
    assert contents(world.state) == world.by_rows()


def test_another_init(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two processes that build the same state, the second finds that of the first, or waits and gives up."""
    world, load = World(tmp_path), bulk.ColumnState.load

    def slow(self: bulk.ColumnState, tables: RowTables, *given: Any) -> None:
        with contextlib.closing(sqlite3.connect(world.state, 0.01)) as other, pytest.raises(sqlite3.OperationalError):
            other.execute("BEGIN IMMEDIATE")
        load(self, tables, *given)

    monkeypatch.setattr(bulk.ColumnState, "load", slow)
    staged = bulk.staged_rows

    def overtaken(*given: Any) -> Any:
        found = staged(*given)
        if not (world.folder / "overtaken").exists():
            (world.folder / "overtaken").touch()
            assert world.init().exit_code == 0
        return found

    monkeypatch.setattr(bulk, "staged_rows", overtaken)
    done = world.init()
    assert done.exit_code == 1 and "there is a database in" in done.output
    assert contents(world.state) == world.by_rows()


KILLED = """
import os, signal, sqlite3, sys
from flintlog.compiler.cli import main
from flintlog.runtime.addons import bulk

steps, load, connect, loading = iter(range(int(sys.argv.pop(1)))), bulk.ColumnState.load, sqlite3.connect, []

def step():
    if loading and next(steps, None) is None:
        os.kill(os.getpid(), signal.SIGKILL)

def watched(*arguments, **named):
    connection = connect(*arguments, **named)
    connection.set_progress_handler(step, 1)
    return connection

def loaded(*arguments):
    loading.append(True)
    load(*arguments)

bulk.BYTES_FOR_COLUMNS, bulk.ColumnState.load, sqlite3.connect = 0, loaded, watched
main()
"""


@by_day(1)
@pytest.mark.parametrize("steps", [500, *range(10, 1100, 60)])
def test_killed(steps: int, tmp_path: Path) -> None:
    """The state is there as a whole or not at all, and can be built then."""
    world = World(tmp_path)
    given = ["job", "init", str(tmp_path / "main.py"), "--state", str(world.state), "--input", str(tmp_path / "facts")]
    done = subprocess.run([sys.executable, "-c", KILLED, str(steps), *given], capture_output=True, check=False)
    assert done.returncode in (() if steps == 500 else (0,)) + (-signal.SIGKILL,), done.stderr
    if done.returncode:
        there = world.job("status")
        assert there.exit_code == 1 and "there is no state" in there.output
        assert world.init().exit_code == 0
    assert contents(world.state) == world.by_rows()
