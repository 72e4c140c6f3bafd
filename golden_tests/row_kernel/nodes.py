"""Nodes whose relations are in SQLite databases in memory, as the simulated network takes them."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flintlog.compiler.ir import plan
from flintlog.compiler.pipeline import Compilation
from flintlog.runtime.addons.processes import simulation
from flintlog.runtime.database.state import MEMORY, DatabaseState, open_file_state
from flintlog.runtime.kernel.model import MOST_ENTRIES, MOST_ROUNDS, Program, Relation
from flintlog.runtime.local.session import Changes, Session
from flintlog.runtime.row_kernel import methods
from flintlog.runtime.row_kernel.encodings import encoded_tuple
from flintlog.runtime.row_kernel.model import RowProgram, RowRelation
from flintlog.targets.database.lower import lower_rows
from flintlog.targets.pyspark.load import load_program

from golden_tests.addons.nodes import test_simulation
from golden_tests.harness import MemoryJob, Row, frozen_row

assert methods, "registered"


class RowsState:
    """The relations of a node in a database."""

    def __init__(self, program: RowProgram, max_rounds: int, max_entries: int, path: str = MEMORY) -> None:
        self.program, self.batches = program, 0
        new = path == MEMORY or not Path(path).exists()
        self.state: DatabaseState = open_file_state(program, path, max_rounds=max_rounds, new=new)
        self.state.tables.max_entries = max_entries
        self.relations = {relation.table: relation for relation in program.relations}
        #: The tuples after the last batch.
        self.known: dict[tuple[str, str], set[Row]] = {}

    def apply(self, changes: Changes) -> None:
        """Apply a batch."""
        given = {
            table: [(op, encoded_tuple(self.relations[table].columns, row)) for op, row in rows]
            for table, rows in changes.items()
        }
        with self.state.transaction():
            self.state.apply(given, None)
        self.batches += 1

    def rows(self, relation: Relation | RowRelation) -> Iterator[Row]:
        """Yield the tuples of a relation."""
        return self.state.rows(self.relations[relation.table])

    def changes(self, relation: Relation | RowRelation) -> Iterator[tuple[str, Row]]:
        """Yield the net changes of a relation in the last batch."""
        return self.state.net_changes(self.relations[relation.table])

    def compare(self, columns: Any) -> None:
        """Compare with a session in columns to which the same batches were applied."""
        for relation in columns.program.relations:
            rows, found = (without_proofs(state.rows(relation), relation) for state in (columns, self))
            assert found == rows, (relation.name, found - rows, rows - found)
            for name, state in (("columns", columns), ("rows", self)):
                net = list(map(frozen_change, state.changes(relation)))
                assert len(net) == len(set(net)), relation.name
                gone, come = ({row for op, row in net if op == sign} for sign in "-+")
                known = self.known.get((name, relation.table), set())
                now = self.known[name, relation.table] = set(map(frozen_row, state.rows(relation)))
                # What columns have first are no changes.
                if self.batches > 1 or state is self:
                    assert (now - known, known - now) == (come, gone), (name, relation.name)
        assert self.state.differences() == []

    def close(self) -> None:
        """Discard the database."""
        self.state.close()


class RowSession:
    """What a simulated node needs of a session, on rows alone."""

    def __init__(self, rows: RowProgram, program: Program, max_rounds: int, functions: Any, **options: Any) -> None:
        self.program, self.rows_state = program, RowsState(rows, max_rounds, options["max_entries"])
        #: What is closed in the end.
        self.engine = self.rows_state

    def apply(self, changes: Changes) -> None:
        """Apply a batch."""
        self.rows_state.apply(changes)

    def rows(self, relation: Relation) -> Iterator[Row]:
        """Yield the tuples of a relation."""
        return self.rows_state.rows(relation)

    def changes(self, relation: Relation) -> Iterator[tuple[str, Row]]:
        """Yield the net changes of a relation in the last batch."""
        return self.rows_state.changes(relation)

    def differences(self) -> list[dict[str, Any]]:
        """What the recount finds."""
        return self.rows_state.state.differences()


class TwinSession(Session):
    """A session that applies each batch to rows, too, and compares."""

    def __init__(self, rows: RowProgram, program: Program, *given: Any, **options: Any) -> None:
        super().__init__(program, *given, **options)
        self.twin = RowsState(rows, self.max_rounds, self.max_entries)

    def apply(self, changes: Changes) -> None:
        """Apply a batch to both."""
        given = {table: list(rows) for table, rows in changes.items()}
        super().apply(given)
        self.twin.apply(given)
        self.twin.compare(self)


class TwinJob(MemoryJob):
    """A job that applies each batch to rows, too, and compares."""

    def __init__(self, compilation: Compilation) -> None:
        super().__init__(compilation)
        self.twin = RowsState(lower_rows(compilation.plan), MOST_ROUNDS, MOST_ENTRIES)

    def run(self, changes: Any) -> dict[str, set[tuple[str, Row]]]:
        """Apply a batch to both."""
        published = super().run(changes)
        inputs = {relation.name: relation for relation in self.program.relations if relation.kind == "input"}
        self.twin.apply({inputs[name].table: rows for name, rows in changes.items()})
        self.twin.compare(self.session)
        return published

    def close(self) -> None:
        """Discard both."""
        self.twin.close()
        super().close()


def without_proofs(rows: Iterator[Row], relation: Relation | RowRelation) -> set[Row]:
    """Rows without the proofs in their last column: which one is kept does not matter."""
    found = map(frozen_row, rows)
    return {row[:-1] for row in found} if relation.kind == "proofs" else set(found)


def frozen_change(change: tuple[str, Any]) -> tuple[str, Row]:
    """A change whose row can be in a set."""
    return change[0], frozen_row(change[1])


def use_sessions(monkeypatch: pytest.MonkeyPatch, kind: type[RowSession | TwinSession]) -> None:
    """Let simulated nodes have sessions of a kind."""

    def loaded(program: plan.ProgramPlan) -> Program:
        monkeypatch.setattr(simulation, "Session", functools.partial(kind, lower_rows(program)))
        return load_program(program)

    monkeypatch.setattr(test_simulation, "load_program", loaded)
