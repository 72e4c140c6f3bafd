"""Programs whose relations are kept in memory, row by row, for commands that apply small batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from flintlog.embedded import in_order
from flintlog.runtime.database.state import MEMORY, open_file_state
from flintlog.runtime.kernel.errors import JobError
from flintlog.runtime.kernel.model import MOST_ENTRIES, MOST_ROUNDS, FunctionSource, Program
from flintlog.runtime.kernel.values import hashable, named_values
from flintlog.runtime.row_kernel.encodings import encoded_tuple
from flintlog.runtime.row_kernel.model import RowProgram, RowRelation
from flintlog.runtime.store.extensions import supply
from flintlog.targets.database.lower import lower_rows

if TYPE_CHECKING:
    from flintlog.compiler.pipeline import Compilation

Row = tuple[Any, ...]
"""The values of a row as users see them: None for null."""

Changes = Mapping[str, Iterable[tuple[str, Row]]]
"""Per table of an input relation, its changes: ``+`` or ``-``, and a row in the order of the relation's columns."""


class AnySession(Protocol):
    """The relations of a program, empty at first; the first batch builds them, and every later one maintains them."""

    @property
    def program(self) -> Any:
        """The program."""

    def apply(self, changes: Changes) -> None:
        """Apply a batch; raise JobError if it is refused, and leave everything unchanged."""

    def rows(self, relation: Any) -> Sequence[Row]:
        """Return the tuples of a relation, sorted."""

    def changes(self, relation: Any) -> Sequence[tuple[str, Row]]:
        """Return the net changes of the last batch, sorted by row; the first batch inserted everything."""

    def close(self) -> None:
        """Discard the relations."""


class RowSession:
    """A session whose relations are in an SQLite database in memory."""

    def __init__(self, program: RowProgram, max_rounds: int = MOST_ROUNDS, functions: FunctionSource = None) -> None:
        """Start with nothing built, not even the program's own facts. ``functions`` is the file with the external
        functions, or a mapping by name."""
        self.program, self.batches = program, 0
        self.state = open_file_state(program, MEMORY, supply(program, functions), max_rounds, new=True)
        self.state.keep = "1"

    def apply(self, changes: Changes) -> None:
        """Apply a batch; raise JobError if it is refused, and leave everything unchanged."""
        inputs = {relation.table: relation for relation in self.program.inputs.values()}
        stored = {table: [*stored_changes(inputs[table], rows)] for table, rows in changes.items()}
        with self.state.transaction():
            self.state.apply(stored, None)
        self.batches += 1

    def changes(self, relation: RowRelation) -> list[tuple[str, Row]]:
        """Return the net changes of the last batch, sorted by row; the first batch inserted everything."""
        if self.batches == 1:
            return [("+", row) for row in self.rows(relation)]
        return sorted(self.state.net_changes(relation), key=lambda change: in_order(change[1]))

    def rows(self, relation: RowRelation) -> list[Row]:
        """Return the tuples of a relation, sorted, null first."""
        return sorted(self.state.rows(relation), key=in_order) if self.batches else []

    def close(self) -> None:
        """Discard the relations."""
        self.state.close()


def stored_changes(relation: RowRelation, changes: Iterable[tuple[str, Row]]) -> Iterator[tuple[str, Row]]:
    """Yield changes as they are stored; raise JobError if a row is both deleted and inserted, unless its copies
    count."""
    ops: dict[Row, str] = {}
    for op, row in changes:
        if ops.setdefault(hashable([*row]), op) != op and not relation.copy:
            values = dict(zip((column.sql for column in relation.columns), row, strict=True))
            raise JobError(f"{relation.name}: {named_values(relation, values) or '()'} is both deleted and inserted")
        yield op, encoded_tuple(relation.columns, row)


def session_program(compilation: Compilation) -> Program | RowProgram:
    """Return a compiled program as sessions run it."""
    if compilation.syntax.recursion == "ranks":
        return lower_rows(compilation.plan)
    from flintlog.targets.pyspark.load import load_program

    return load_program(compilation.plan)


def session_of(
    program: Program | RowProgram, max_rounds: int, functions: FunctionSource, max_entries: int = MOST_ENTRIES
) -> AnySession:
    """Return a session of a program; one with derivation sets needs DuckDB. Raise JobError if functions are not as they
    must."""
    if isinstance(program, RowProgram):
        return RowSession(program, max_rounds, functions)
    from flintlog.runtime.local.session import Session

    return Session(program, max_rounds, functions, max_entries=max_entries)
