"""Programs whose relations are in an SQLite database in memory, as the checks take them."""

from __future__ import annotations

import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from flintlog.compiler.pipeline import Compilation
from flintlog.runtime.database import decimals, external
from flintlog.runtime.database.state import MEMORY, DatabaseState, open_file_state
from flintlog.runtime.inputs.external_functions import Supplied
from flintlog.runtime.kernel.errors import JobError
from flintlog.runtime.row_kernel import methods
from flintlog.runtime.row_kernel.encodings import decoded_row, encoded_row
from flintlog.runtime.row_kernel.tables import listed
from flintlog.targets.database.lower import lower_rows

from golden_tests.harness import Changes, Row, frozen_row, named

assert methods and decimals and external, "registered"


class RowsJob:
    """A program on rows; its manifest is the number of batches applied, None before the first."""

    net = ""

    def __init__(self, compilation: Compilation, functions: Path | None = None, path: str = MEMORY) -> None:
        """Make the empty relations, in memory or in a file."""
        self.program = lower_rows(compilation.plan)
        self.supplied = Supplied(self.program, str(functions)) if functions else None
        self.state: DatabaseState = open_file_state(self.program, path, self.supplied, new=True)
        self.module = types.SimpleNamespace(JobError=JobError)
        self.changes: dict[str, set[tuple[str, Row]]] = {}

    @property
    def manifest(self) -> int | None:
        """Something that changes with every batch."""
        return self.state.last.number if self.state.last else None

    def close(self) -> None:
        """Discard the database."""
        self.state.close()

    def limit_entries(self, most: int) -> None:
        """Refuse recursions with more than ``most`` derivation sets."""
        self.state.tables.max_entries = most

    def run(self, changes: Changes) -> dict[str, set[tuple[str, Row]]]:
        """Apply a batch; returns the net changes of the published relations."""
        inputs = {r.name: r for r in self.program.relations if r.kind == "input"}
        stored = {
            relation.table: [(op, encoded_row(relation.columns, row) or (1,)) for op, row in changes[name]]
            for name, relation in inputs.items()
            if name in changes
        }
        with self.state.transaction():
            self.state.apply(stored, f"batch {self.manifest or 0}")
        self.changes = {}
        for relation in self.program.relations:
            net = [(op, frozen_row(row)) for op, row in self.state.net_changes(relation)]
            assert len(net) == len(set(net)), f"{relation.name} publishes a change twice"
            self.changes[relation.table] = set(net)
        return {r.name: self.changes[r.table] for r in self.program.relations if r.output}

    def relation(self, name: str) -> Any:
        """The relation that users know as ``name``, also a hidden one."""
        return named(self.program, name)

    def tuples(self, relation: Any) -> set[Row]:
        """The tuples of a relation."""
        rows = list(map(frozen_row, self.state.rows(relation)))
        assert len(rows) == len(set(rows)), f"{relation.name} holds a tuple twice"
        return set(rows)

    def rows(self, name: str) -> set[Row]:
        """The tuples of the relation that users know as ``name``."""
        return self.tuples(self.relation(name))

    def supports(self, relation: Any) -> dict[Row, tuple[int, int]]:
        """The support and rank of each tuple of a ranked relation."""
        return dict(self._kept(relation, ("_support", "_rank")))

    def counts(self, relation: Any) -> dict[Row, int]:
        """The number of derivations of each tuple of a counted relation."""
        return {row: kept[0] for row, kept in self._kept(relation, ("_support",))}

    def _kept(self, relation: Any, columns: Sequence[str]) -> Iterator[tuple[Row, Any]]:
        """The tuples of a relation, each with what is kept with it in columns."""
        table = self.state.tables.tables[relation.table]
        width = len(relation.term_columns)
        for row in self.state.connection.execute(f"SELECT {listed((*table.columns, *columns))} FROM {table.name}"):
            yield frozen_row(decoded_row(relation.term_columns, row[:width])), row[-len(columns) :]

    def differences(self) -> list[dict[str, Any]]:
        """What the recount finds."""
        return self.state.differences()
