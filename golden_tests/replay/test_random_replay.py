"""Random programs, their batches written as random commands: what is printed is what the oracle comes to.

At night there are a hundred times as many, each time others.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any

import pytest
from flintlog.compiler.diagnostics import CompileError
from flintlog.compiler.pipeline import compile_program
from flintlog.compiler.source import SourceFile
from flintlog.local.dat.printer import record_text
from flintlog.local.dat.reader import Reader
from flintlog.local.dat.replay import Replay
from flintlog.local.session import RowSession
from flintlog.runtime.kernel.errors import JobError
from flintlog.targets.database.lower import lower_rows

from golden_tests.checks import REFUSALS
from golden_tests.nightly import by_day, seeds
from golden_tests.oracle.batches import Batch, Changes, diff, key_of
from golden_tests.oracle.evaluate import evaluate
from golden_tests.oracle.language import Relation, Row, parse
from golden_tests.oracle.random_programs import Scenario
from golden_tests.random_search import scenario_of

State = Mapping[str, Set[Row]]


class Author:
    """Writes batches as commands in one of the ways there are, and keeps what the input relations hold then."""

    def __init__(self, text: str, rng: random.Random) -> None:
        """Nothing is written yet."""
        self.program = parse(text)
        self.rng = rng
        self.lines: list[str] = []
        #: Per relation, the rows by key, or by themselves.
        self.rows: dict[str, dict[Row, Row]] = {relation.name: {} for relation in self.program.inputs}

    @property
    def inputs(self) -> dict[str, set[Row]]:
        """What the input relations hold."""
        return {name: set(rows.values()) for name, rows in self.rows.items()}

    def transaction(self, batch: Batch) -> None:
        """Write the changes in some order, each on its own or in queues."""
        self.lines.append("start;")
        updates = []
        for name, changes in batch.items():
            relation = self.program.relations[name]
            if self.rng.random() < 0.05:
                self.lines.append(f"clear {name};")
                self.rows[name].clear()
            ordered = [change for change in changes for _ in range(self.rng.choice((1, 1, 1, 2)))]
            self.rng.shuffle(ordered)
            for op, row in ordered:
                update = self.update(relation, op, row)
                updates += [update] if update else []
        ends = [self.rng.choice(",;") for _ in updates]
        if self.rng.random() < 0.7:
            ends[-1:] = ";" * bool(ends)
        self.lines += [f"{update}{end}" for update, end in zip(updates, ends, strict=True)]

    def update(self, relation: Relation, op: str, row: Row) -> str:
        """A command for a change, empty if there is nothing to change in a relation with a key."""
        rows, key = self.rows[relation.name], key_of(relation, row)
        old = rows.get(key)
        if not relation.key:
            word = "insert" if op == "+" else "delete"
        elif op == "+":
            word = self.rng.choice(("insert_or_update", "insert" if old is None else "modify"))
        elif old is None:
            return ""
        else:
            word = "delete" if old == row and self.rng.random() < 0.5 else "delete_key"
        if op == "+":
            rows[key] = row
        else:
            rows.pop(key, None)
        if word not in ("modify", "delete_key"):
            return f"{word} {self.record(relation, row)}"
        value = self.value(key[0]) if len(key) == 1 else f"({', '.join(map(self.value, key))})"
        if word == "delete_key":
            return f"{word} {relation.name} {value}"
        assert relation.columns and old is not None
        fields = [
            f".{column.name} = {self.value(new)}"
            for column, new, before in zip(relation.columns, row, old, strict=True)
            if new != before or self.rng.random() < 0.3
        ]
        return f"{word} {relation.name} {value} <- {relation.name}{{{', '.join(fields)}}}"

    def record(self, relation: Relation, row: Row) -> str:
        """A record in one of its forms."""
        values = list(map(self.value, row))
        name, positional = relation.name, ", ".join(values)
        fields = [f".{c.name} = {v}" for c, v in zip(relation.columns or (), values, strict=True)]
        self.rng.shuffle(fields)
        return self.rng.choice(
            (
                f"{name}({positional})",
                f"{name}({positional})",
                f"{name}({', '.join(fields)})",
                f"{name}[{name}{{{positional}}}]",
                f"{name}[({positional})]" if row else f"{name}()",
            )
        )

    def value(self, value: Any) -> str:
        """A value as text, whole numbers in one of their forms."""
        match value:
            case str():
                return f'"{value}"'
            case tuple():
                return f"[{', '.join(map(self.value, value))}]"
            case float():
                return repr(value)
        return self.rng.choice((str(value), hex(value), f"{value}_"))


def check(scenario: Scenario, rng: random.Random, path: Path) -> list[str]:
    """What is wrong with what a replay prints: the changes of every transaction, and all relations in the end."""
    session = RowSession(lower_rows(compile_program(SourceFile("test.dl", scenario.text)).plan))
    relations = {r.name: r for r in session.program.relations if not r.hidden}
    author = Author(scenario.text, rng)

    def changes_text(changes: Changes) -> str:
        found = []
        for name in sorted(relation.name for relation in author.program.outputs if relation.name in changes):
            columns = [column.name for column in relations[name].columns]
            ordered = sorted((row, op) for op, row in changes[name])
            found.append("\n".join([f"{name}:", *(f"{record_text(name, columns, r)}: {op}1" for r, op in ordered)]))
        return "\n".join(found)

    def state_text(state: State, name: str) -> str:
        columns = [column.name for column in relations[name].columns]
        return "\n".join(record_text(name, columns, row) for row in sorted(state.get(name, ())))

    try:
        state: State = evaluate(author.program, {})
    except tuple(REFUSALS):
        with pytest.raises(JobError):
            Replay(session, Reader("none", []), print)
        return []
    expected = [changes_text(diff({}, state))]
    start: Batch = {name: [("+", row) for row in sorted(rows, key=repr)] for name, rows in scenario.inputs.items()}
    for number, batch in enumerate([start, *scenario.batches]):
        kept = {name: dict(rows) for name, rows in author.rows.items()}
        if rng.random() < 0.3:
            author.transaction(scenario.batches[-number])
            if not author.lines[-1].endswith(","):
                author.lines.append("rollback;")
                author.rows = {name: dict(rows) for name, rows in kept.items()}
                author.transaction(batch)
        else:
            author.transaction(batch)
        author.lines += ["commit dump_changes;", f"echo after {number};"]
        try:
            after = evaluate(author.program, author.inputs)
        except tuple(REFUSALS):
            author.rows = kept
            expected.append("E0906")
        else:
            expected.append(changes_text(diff(state, after)))
            state = after
        expected.append(f"after {number}")
    whole = {**author.inputs, **state}
    for name in relations:
        author.lines.append(f"dump {name};")
        expected.append(state_text(whole, name))
    path.write_text("\n".join(author.lines) + "\n", encoding="utf-8")

    printed: list[str] = []
    with path.open("rb") as lines:
        reader = Reader(path.name, lines)
        running = Replay(session, reader, printed.append)

        def refused(error: CompileError) -> bool:
            printed.extend(item.code if item.code == "E0906" else str(error) for item in error.diagnostics)
            return True

        running.run_all(refused)
    wanted = "\n".join(text for text in expected if text)
    found = "\n".join(printed)
    return [] if found == wanted else [f"{path.read_text()}\nexpected:\n{wanted}\nfound:\n{found}"]


@by_day(3)
@pytest.mark.parametrize("seed", seeds(10, 19))
def test_seeds(seed: int, tmp_path: Path) -> None:
    """Programs of every kind, some of whose transactions are refused."""
    scenario = scenario_of(seed)
    assert check(scenario, random.Random(seed), tmp_path / "changes.dat") == [], scenario.text
