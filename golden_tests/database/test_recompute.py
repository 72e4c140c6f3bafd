"""``upgrade`` and ``rebuild`` of a state in a file: it becomes what the other program makes of the same inputs, its
outputs get the net changes, and what was before stays readable as far as it can be compared."""

from __future__ import annotations

import contextlib
import csv
import itertools
import random
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import flintlog
import pytest
from click.testing import CliRunner
from flintlog.compiler.cli import main
from flintlog.compiler.pipeline import compile_program
from flintlog.compiler.source import SourceFile
from flintlog.runtime.database import commands, decimals, external
from flintlog.runtime.database.recompute import rebuild_file, upgrade_file
from flintlog.runtime.database.state import open_file_state
from flintlog.runtime.kernel.errors import JobError
from flintlog.runtime.row_kernel import methods
from flintlog.runtime.system.log import Log
from flintlog.targets.database.lower import lower_rows

from golden_tests.checks import REFUSALS, insertions
from golden_tests.database.jobs import write_changes
from golden_tests.faults.test_upgrade import CHANGES, PROGRAM, with_rule
from golden_tests.faults.test_upgrade_inputs import PATHS, VARIANTS
from golden_tests.harness import VERSION, Row, frozen_row
from golden_tests.job.kill import in_child, killing_connect
from golden_tests.nightly import by_day, one_in, seeds
from golden_tests.oracle import batches, evaluate, language
from golden_tests.oracle.random_programs import random_batches, random_inputs
from golden_tests.row_kernel.test_programs import random_text

assert methods and decimals and external, "registered"

QUIET = Log(True)

FURTHER_VARIANTS = {
    "multiset": "input multiset relation e(a: int, b: int)\n",
    "nullable": "input relation e(a: int, b: int?)\n",
}


class FileStates:
    """States of versions of a program, one after the other in one file."""

    def __init__(self, folder: Path, text: str) -> None:
        """Nothing is built."""
        self.folder, self.file = folder, str(folder / "state.db")
        self.numbers = itertools.count()
        self.inputs: batches.Relations = {}
        self.use(text)

    def use(self, text: str) -> None:
        """Go on with another version."""
        compilation = compile_program(SourceFile("test.dl", text))
        self.program, self.language = lower_rows(compilation.plan, VERSION), language.parse(text)

    def files(self, batch: batches.Batch, operations: bool = True) -> list[str]:
        """A batch in files, as arguments."""
        return write_changes(self.program, batch, self.folder / f"batch-{next(self.numbers)}", operations)

    def init(self, batch: batches.Batch) -> None:
        """Build the state."""
        self.inputs = batches.apply({}, batch, self.language)
        commands.init_file(self.program, self.file, self.files(batch, False), log=QUIET)
        self.check()

    def apply(self, batch: batches.Batch, check: bool = True) -> None:
        """Apply a batch."""
        self.inputs = batches.apply(self.inputs, batch, self.language)
        commands.apply_file(self.program, self.file, self.files(batch), log=QUIET)
        if check:
            self.check()

    def stored(self, inputs: bool = False) -> dict[str, set[Row]]:
        """The relations that users see, or the rows that were put into ``inputs``."""
        chosen = [r for r in self.program.relations if (r.kind == "input" if inputs else not r.hidden)]
        with open_file_state(self.program, self.file) as state:
            return {relation.name: {*map(frozen_row, state.rows(relation))} for relation in chosen}

    def columns(self) -> dict[str, Any]:
        """What decides whether changes of relations are kept."""
        return {r.name: (r.columns, r.copy) for r in self.program.relations if not r.hidden}

    def check(self) -> dict[str, set[Row]]:
        """The state is what the program makes of the inputs, and what it recounts; returns the relations."""
        stored = self.stored()
        expected = {**self.inputs, **evaluate.evaluate(self.language, self.inputs)}
        assert stored == {name: expected.get(name, set()) for name in stored}
        assert commands.verify_file(self.program, self.file, log=QUIET)["differences"] == []
        return stored

    def turn(self, text: str, command: Any = upgrade_file, given: Sequence[str] = ()) -> dict[str, Any]:
        """Go on with another version, and check relations, net changes and counts."""
        before, columns = self.stored(), self.columns()
        # With facts or rules besides, the rows that were put in are apart, and those go on in an input.
        put_in, copies = self.stored(inputs=True), {r.name: r.copy for r in self.program.inputs.values()}
        self.use(text)
        rows = {r.name: self.inputs.get(r.name, set()) for r in self.language.inputs}
        self.inputs = {r.name: rows[r.name] if r.is_multiset else set(rows[r.name]) for r in self.language.inputs}
        result: dict[str, Any] = command(self.program, self.file, given, log=QUIET)
        after = self.check()
        if not result["applied"]:
            assert before == after
            return result
        continued = {name for name, found in self.columns().items() if columns.get(name) == found}
        plain = {r.name for r in self.program.inputs.values() if copies.get(r.name) == r.copy and not r.hidden}
        former = before | {name: rows for name, rows in put_in.items() if name in plain}
        expected = batches.diff({n: former[n] for n in continued}, {n: after[n] for n in continued})
        kept = {}
        with open_file_state(self.program, self.file) as state:
            for relation in commands.logged(self.program):
                if relation.hidden:
                    continue
                changes = list(state.stored_changes(relation, result["commit"] - 1, result["commit"]))
                kept[relation.name] = {(op, frozen_row(row)) for _, op, row in changes}
                assert len(changes) == len(kept[relation.name])
        assert kept == {name: expected.get(name, set()) for name in kept}
        counts = {name: [sum(op == sign for op, _ in of) for sign in "+-"] for name, of in expected.items() if of}
        assert {name: [*of.values()] for name, of in result["changes"].items()} == counts
        assert result["rows"] == {name: len(rows) for name, rows in after.items()}
        assert {*result["new"]} == after.keys() - continued
        assert {*result["dropped"]} == before.keys() - after.keys()
        return result


def first(states: FileStates) -> None:
    """A state, and a batch."""
    links: list[batches.Change] = [("+", (node, node + 1)) for node in (1, 2, 3, 5, 6)]
    states.init({"link": links, "mark": [("+", (n, n)) for n in (2, 3, 4, 8)]})
    states.apply({"link": [("-", (2, 3)), ("+", (4, 1))], "mark": [("+", (5, 2))]})


@by_day(1)
@pytest.mark.parametrize("change", CHANGES)
def test_versions(change: str, tmp_path: Path) -> None:
    """There and back again; batches go on."""
    old, new, _, _ = CHANGES[change]
    states = FileStates(tmp_path, PROGRAM)
    first(states)
    for text in (with_rule(old, new), PROGRAM):
        assert states.turn(text)["applied"]
        states.apply({"link": [("+", (2, 3)), ("-", (5, 6))], "mark": [("-", (8, 8))]})
        states.apply({"link": [("-", (2, 3)), ("+", (5, 6))], "mark": [("+", (8, 8))]})


def test_an_unchanged_program(tmp_path: Path) -> None:
    """Another comment changes nothing, unless rows are given or it is rebuilt."""
    states = FileStates(tmp_path, PROGRAM)
    first(states)
    assert not states.turn(f"// Who reaches whom.\n{PROGRAM}")["applied"]
    assert states.turn(PROGRAM, rebuild_file)["batch"] == "rebuild-000003"
    states.inputs["link"] = {(1, 2), (8, 9)}
    given = states.files({"link": [("+", (1, 2)), ("+", (8, 9))]}, False)
    changed = states.stored()["link"] ^ states.inputs["link"]
    result = states.turn(PROGRAM, given=given)
    assert sum(result["changes"]["link"].values()) == len(changed)
    assert commands.revert_file(states.program, states.file, result["batch"], log=QUIET)["changes"]["link"]


WAYS = [*itertools.permutations({**VARIANTS, **FURTHER_VARIANTS}, 2)]


@by_day(5)
@pytest.mark.parametrize("way", one_in(WAYS, 5), ids=" to ".join)
def test_ways_to_declare_an_input(way: tuple[str, str], tmp_path: Path) -> None:
    """The rows that were put in stay, whatever else gives the relation tuples."""
    old, new = way
    variants = {**VARIANTS, **FURTHER_VARIANTS}
    paths = "output relation q(a: int)\nq(X) :- e(X, _).\n" if "nullable" in (old, new) else PATHS
    states = FileStates(tmp_path, variants[old] + paths)

    def there(batch: batches.Batch) -> batches.Batch:
        return {relation.name: batch[relation.name] for relation in states.language.inputs if relation.name in batch}

    rows: list[batches.Change] = [("+", (1, 2)), ("+", (2, 3)), ("+", (5, 1))]
    states.init(there({"e": rows, "s": [("+", (3,)), ("+", (4,))]}))
    states.apply(there({"e": [("-", (1, 2)), ("+", (4, 5))], "s": [("-", (3,))]}))
    if (old, new) == ("nullable", "plain") or (old == "nullable" and new != "derived"):
        states.use(variants[new] + paths)
        with pytest.raises(JobError, match="the columns of e differ from those of its stored rows; pass rows with"):
            upgrade_file(states.program, states.file, log=QUIET)
        return
    states.turn(variants[new] + paths)
    gone: list[batches.Change] = [("-", (2, 3))] if old != "derived" else []
    states.apply(there({"e": [*gone, ("+", (8, 9))], "s": [("+", (3,))]}))


@by_day(1)
@pytest.mark.parametrize("seed", seeds(4, 60))
def test_random_programs(seed: int, tmp_path: Path) -> None:
    """One random program after another, with nasty names and values; inputs with other columns are given anew."""
    rng = random.Random(f"upgrades {seed}")
    states = FileStates(tmp_path, random_text(rng))
    rows = random_inputs(rng, states.language)
    try:
        evaluate.evaluate(states.language, rows)
    except tuple(REFUSALS):
        rows = {}
    states.init(insertions(rows))
    for _ in range(3):
        for batch in random_batches(rng, states.language, states.inputs, 1):
            with contextlib.suppress(*REFUSALS):
                evaluate.evaluate(states.language, batches.apply(states.inputs, batch, states.language))
                states.apply(batch, check=False)
        before = {r.name: (r.columns, r.copy) for r in states.program.inputs.values()}
        text = random_text(rng)
        other = FileStates(tmp_path, text)
        rows = random_inputs(rng, other.language)
        strange = {
            r.name: rows[r.name]
            for r in other.program.inputs.values()
            if r.key or before.get(r.name, (r.columns, r.copy)) != (r.columns, r.copy)
        }
        given = write_changes(
            other.program, insertions(strange), tmp_path / f"given-{next(states.numbers)}", operations=False
        )
        named = {argument.partition("=")[0] for argument in given}
        for name in strange.keys() - named:
            empty = tmp_path / f"empty-{next(states.numbers)}.csv"
            columns = [column.name for column in other.program.inputs[name].columns]
            with empty.open("w", encoding="utf-8", newline="") as file:
                csv.writer(file).writerow(columns)
            given.append(f"{name}={empty}")
        applied = batches.apply({}, insertions(strange), other.language)
        states.inputs |= {name: applied[name] for name in strange}
        command, former = rng.choice([upgrade_file, rebuild_file]), (states.program, states.language)
        try:
            evaluate.evaluate(other.language, {r.name: states.inputs.get(r.name, set()) for r in other.language.inputs})
        except tuple(REFUSALS) as error:
            with pytest.raises(JobError, match="|".join(REFUSALS[type(error)])):
                command(other.program, states.file, given, log=QUIET)
            states.program, states.language = former
            assert commands.verify_file(states.program, states.file, log=QUIET)["differences"] == []
            return
        states.turn(text, command, given)


def test_history(tmp_path: Path) -> None:
    """Changes of relations that both versions have are kept; of others, from the upgrade on."""
    states = FileStates(tmp_path, PROGRAM)
    first(states)
    wider = with_rule("marked(src: int, dst: int)", "marked(src: int, dst: int, more: int)")
    wider = wider.replace("r3: marked(S, D)", "r3: marked(S, D, 1)").replace(
        "marked(S, D), mark", "marked(S, D, _), mark"
    )
    assert states.turn(wider)["new"] == ["marked"]
    with open_file_state(states.program, states.file) as state:
        reachable, marked = map(states.program.relation, ("reachable", "marked"))
        assert [*commands.net_between(state, reachable, 1, None)]
        with pytest.raises(JobError, match="has the changes of marked from commit 3 to 3"):
            next(commands.net_between(state, marked, 2, None))
        assert [record.command for record in state.commits()] == ["init", "apply", "upgrade"]
        assert all("marked" not in record.changes for record in state.commits())
    assert commands.revert_file(states.program, states.file, "batch-000002", log=QUIET)["applied"]
    narrow = PROGRAM.replace("mark(node: int, weight: int)", "mark(node: int, weight: float)")
    narrow = narrow.replace("total(src: int, sum: int)", "total(src: int, sum: float)")
    rows: batches.Relations = {"link": {(1, 2)}, "mark": {(2, 0.5)}}
    given = FileStates(tmp_path / "narrow", narrow).files(insertions(rows), False)
    states.inputs = rows
    states.turn(narrow, given=given)
    with pytest.raises(JobError, match='batch "batch-000002" is commit 2, and commit 5 has dropped mark, or given it'):
        commands.revert_file(states.program, states.file, "batch-000002", log=QUIET)


def test_reverted_where_inputs_were_derived(tmp_path: Path) -> None:
    """What was derived is not put into an input; what was an input and is derived now cannot be undone."""
    derived = "input relation p(a: int)\noutput relation r(a: int)\nr(A) :- p(A).\n"
    given = "input relation p(a: int)\ninput relation r(a: int)\noutput relation q(a: int)\nq(A) :- p(A), r(A).\n"
    states = FileStates(tmp_path, derived)
    states.init({"p": [("+", (1,)), ("+", (2,))]})
    states.apply({"p": [("-", (1,))]})
    states.turn(given)
    for batch, changes in (("batch-000002", {"p": {"inserted": 1, "deleted": 0}}), ("upgrade-000003", {})):
        assert commands.revert_file(states.program, states.file, batch, log=QUIET)["changes"] == changes
    states.inputs["p"] = {(1,), (2,)}
    states.apply({"r": [("+", (1,))]})
    for text in (derived, given):
        states.turn(text)
        with pytest.raises(JobError, match='batch "batch-000006" is commit 6, and commit 7 has dropped r'):
            commands.revert_file(states.program, states.file, "batch-000006", log=QUIET)


def test_an_open_view_notices(tmp_path: Path) -> None:
    """A process that has the former version open can neither read nor write as if nothing had happened."""
    states = FileStates(tmp_path, PROGRAM)
    first(states)
    uses: list[Callable[[flintlog.View], object]] = [
        lambda view: view.apply(link=[("+", 7, 7)]),
        lambda view: view.commit,
        lambda view: view["link"],
        lambda view: view.sql("SELECT * FROM link"),
        lambda view: view.changes(since=1),
        lambda view: view.explain("link(1, 2)"),
        lambda view: view.verify(),
    ]
    with flintlog.open(flintlog.compile(PROGRAM), states.file) as view:
        states.turn(with_rule("link(@S, D).", "link(@S, D), S != D."))
        for use in uses:
            with pytest.raises(JobError, match="was converted to another version of the program; open it again"):
                use(view)
    states.check()


def test_a_new_view_notices(tmp_path: Path) -> None:
    """Also one that has made the file."""
    states = FileStates(tmp_path, with_rule("link(@S, D).", "link(@S, D), S != D."))
    with flintlog.open(flintlog.compile(PROGRAM), states.file) as view:
        upgrade_file(states.program, states.file, log=QUIET)
        with pytest.raises(JobError, match="was converted to another version of the program; open it again"):
            view.apply(link=[("+", 7, 7)])


def test_an_open_view_notices_other_functions(tmp_path: Path) -> None:
    """A view does not go on with functions that the file is no longer of."""
    text = "extern function f(x: int): int\ninput relation a(x: int)\noutput relation b(x: int)\nb(f(X)) :- a(X).\n"
    program, file = lower_rows(compile_program(SourceFile("test.dl", text)).plan, VERSION), str(tmp_path / "state.db")
    functions = [tmp_path / f"functions{number}.py" for number in (1, 2)]
    for number, path in enumerate(functions):
        path.write_text(f"def f(x):\n    return x + {number}\n", encoding="utf-8")
    with flintlog.open(flintlog.compile(text), file, functions=functions[0]) as view:
        view.apply(a=[("+", 1)])
        assert upgrade_file(program, file, functions=str(functions[1]), log=QUIET)["changes"]["b"]["inserted"] == 1
        for use in (lambda: view.apply(a=[("+", 2)]), lambda: view["b"]):
            with pytest.raises(JobError, match="was converted to another version of its functions; open it again"):
                use()


def test_verified_while_others_write(tmp_path: Path) -> None:
    """A recount is compared with the commit that it is of."""
    states = FileStates(tmp_path, PROGRAM)
    first(states)
    with open_file_state(states.program, states.file) as state:
        states.apply({"link": [("+", (7, 8))]})
        assert state.differences() == []


@by_day(10)
@pytest.mark.parametrize("command", [upgrade_file, rebuild_file])
@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("DELETE FROM _settings WHERE name = 'keep'", "its setting keep cannot be read"),
        ("UPDATE _settings SET value = '[1]' WHERE name = 'begun'", "its setting begun cannot be read"),
        ("UPDATE _settings SET value = 'x' WHERE name = 'forgotten'", "its setting forgotten cannot be read"),
        ("UPDATE _settings SET value = replace(value, '\"input\"', '[1]')", "it does not say what its relations are"),
        ("UPDATE _settings SET value = '{}' WHERE name = 'relations'", "has the (table|view|index) .*, which"),
        ("UPDATE _settings SET value = replace(value, '\"dst\"', '\"gone\"')", "has the table .*, which the program"),
        ("UPDATE _commits SET rows = '[]'", "the record of commit 2 cannot be read"),
        ("UPDATE _commits SET time = 'x; y' WHERE number = 2", "the record of commit 2 cannot be read"),
        ("UPDATE _commits SET time = x'00' WHERE number = 2", "the record of commit 2 cannot be read"),
        ("UPDATE _commits SET time = '2026-01-01Z' WHERE number = 2", "the record of commit 2 cannot be read"),
        ("UPDATE _commits SET rows = json_set(rows, '$.link', 'x')", "the record of commit 2 cannot be read"),
        ("REPLACE INTO _settings VALUES ('statistics', '[[1, [], 1, 1, 1]]')", "its setting statistics cannot be read"),
        ("REPLACE INTO _settings VALUES ('statistics', '[[\"x\", [], -1, 1, 1]]')", "its setting statistics cannot be"),
        (
            "REPLACE INTO _settings VALUES ('statistics', replace(hex(zeroblob(99999)), '0', '['))",
            "statistics cannot be",
        ),
        ("UPDATE _commits SET clock = 9223372036854775807", "the record of commit 2 cannot be read"),
        ("UPDATE _commits SET number = 9223372036854775807 WHERE number = 2", "of commit 9223372036854775807 cannot"),
    ],
)
def test_damaged(command: Any, sql: str, said: str, tmp_path: Path) -> None:
    """What a file says of itself is not taken for what it is not."""
    states = FileStates(tmp_path, PROGRAM)
    first(states)
    with sqlite3.connect(states.file) as connection:
        connection.execute(sql)
    connection.close()
    with pytest.raises(JobError, match=said):
        command(states.program, states.file, log=QUIET)


def test_refused(tmp_path: Path) -> None:
    """An upgrade that cannot be done leaves the state to the former program."""
    states = FileStates(tmp_path, PROGRAM)
    first(states)
    content = Path(states.file).read_bytes()
    former = states.program, states.language
    states.use(PROGRAM.replace("mark(node: int, weight: int)", "mark(node: int, weight: int) primary key (weight)"))
    with pytest.raises(JobError, match="two different rows with the primary key weight = 2"):
        upgrade_file(states.program, states.file, log=QUIET)
    states.use(with_rule("link(@S, D).", "link(@S, D), S != D."))
    with pytest.raises(JobError, match="not finished after 1 rounds"):
        upgrade_file(states.program, states.file, max_rounds=1, log=QUIET)
    states.program, states.language = former
    states.check()
    assert Path(states.file).read_bytes() == content


@by_day(4)
@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TRIGGER own AFTER INSERT ON _commits BEGIN DELETE FROM _settings; END",
        "CREATE TABLE other (a)",
        "DROP VIEW reachable; CREATE VIEW reachable (src, dst) AS SELECT 1, 2; CREATE VIEW mine AS SELECT 1",
        "DROP TABLE _rows_of_link; CREATE VIEW _rows_of_link AS SELECT 1 AS src, 2 AS dst",
        "DROP TABLE _rows_of_link",
        "DROP TABLE _rows_of__beginning",
        "CREATE VIEW mine AS SELECT lacking FROM nowhere",
        "DROP VIEW reachable; CREATE TABLE reachable (a)",
        "CREATE TABLE _former_rows_of_link (a)",
        "DROP TABLE _rows_of_link; CREATE TABLE _rows_of_link (src INTEGER, dst INTEGER AS (src + 1))",
        'DROP TABLE _rows_of_link; CREATE TABLE "_rows_of_link" ("src" INTEGER, PRIMARY KEY ("src")) WITHOUT ROWID',
        "DROP TABLE _stored_changes_of_link; CREATE TABLE _stored_changes_of_link (_commit)",
    ],
)
def test_a_file_of_others(sql: str, tmp_path: Path) -> None:
    """What the program has not made is refused, and left alone."""
    states = FileStates(tmp_path, PROGRAM)
    first(states)
    with sqlite3.connect(states.file) as connection:
        connection.executescript(sql)
    connection.close()

    def dump() -> list[str]:
        with sqlite3.connect(states.file) as connection:
            return [*connection.iterdump()]

    there = dump()
    states.use(with_rule("link(@S, D).", "link(@S, D), S != D."))
    for command in (upgrade_file, rebuild_file):
        with pytest.raises(JobError, match="it was changed by another program"):
            command(states.program, states.file, log=QUIET)
    assert dump() == there


@pytest.mark.parametrize("step", one_in(range(0, 4000, 400), 5))
def test_killed(step: int, tmp_path: Path) -> None:
    """An upgrade that is killed has not happened, and happens when it is run again."""
    states = FileStates(tmp_path, PROGRAM)
    first(states)
    former = states.program, states.language
    text = with_rule("link(@S, D).", "link(@S, D), S != D.")
    states.use(text)

    def work() -> None:
        sqlite3.connect = killing_connect(step)
        upgrade_file(states.program, states.file, log=QUIET)

    assert in_child(work) == signal.SIGKILL
    states.program, states.language = former
    states.check()
    states.turn(text)


def test_commands(tmp_path: Path) -> None:
    """By the command line, with the scripts of both versions."""
    scripts = []
    for number, text in enumerate((PROGRAM, with_rule("link(@S, D).", "link(@S, D), S != D."))):
        script = tmp_path / f"steps{number}.py"
        script.write_text(flintlog.compile(text, target="database").files["program.py"], encoding="utf-8")
        scripts.append(script)
    states = FileStates(tmp_path, PROGRAM)
    first(states)
    done = CliRunner().invoke(main, ["job", "history", str(scripts[0]), "--state", states.file])
    assert done.exit_code == 0 and "commit 2: batch-000002" in done.output
    script = subprocess.run([sys.executable, scripts[1], "upgrade"], capture_output=True, text=True, check=False)
    assert script.returncode == 2 and "this script lacks upgrade: run `flintlog job upgrade SCRIPT`" in script.stderr
    done = CliRunner().invoke(main, ["job", "upgrade", str(scripts[1]), "--state", states.file])
    assert done.exit_code == 0, done.output
    assert "batch upgrade-000003 is commit 3" in done.output
    done = CliRunner().invoke(main, ["job", "upgrade", str(scripts[1]), "--state", states.file])
    assert "nothing to do: no definition has changed" in done.output
    done = CliRunner().invoke(main, ["job", "verify", str(scripts[0]), "--state", states.file])
    assert done.exit_code == 1 and "`flintlog job upgrade SCRIPT --state FILE` converts it" in done.output
    done = CliRunner().invoke(main, ["job", "rebuild", str(scripts[1]), "--state", states.file])
    assert "batch rebuild-000004 is commit 4" in done.output


def test_other_indexes(tmp_path: Path) -> None:
    """A file of the same program with other indexes, as another compiler may choose them, is converted."""
    states = FileStates(tmp_path, PROGRAM)
    first(states)
    with sqlite3.connect(states.file) as connection:
        schema = dict(connection.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL"))
        index = next(name for name in schema if re.fullmatch("_rows_of_.*__1", name))
        connection.execute(f'DROP INDEX "{index}"')
        connection.execute('CREATE INDEX "_rows_of_link__9" ON "_rows_of_link" ("dst", "src")')
    connection.close()
    for refused in (states.check, lambda: states.apply({"link": [("+", (7, 8))]})):
        with pytest.raises(JobError, match=r"has other indexes than the program.* upgrade"):
            refused()
    states.inputs["link"].discard((7, 8))
    assert upgrade_file(states.program, states.file, log=QUIET)["changes"] == {}
    states.apply({"link": [("+", (7, 8))]})
    with sqlite3.connect(states.file) as connection:
        assert dict(connection.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL")) == schema
    connection.close()
