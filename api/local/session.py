"""Programs whose relations are kept in memory, row by row, for sessions and for commands that apply small batches."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from flintlog.runtime.database import decimals, external
from flintlog.runtime.database.explain import explain_stored
from flintlog.runtime.database.state import MEMORY, DatabaseState
from flintlog.runtime.inputs.times import GivenTime, time_changes
from flintlog.runtime.inputs.values import REMOVE_KEY
from flintlog.runtime.kernel.errors import JobError, Refused
from flintlog.runtime.kernel.model import MOST_ENTRIES, MOST_ROUNDS, FunctionSource, Program
from flintlog.runtime.kernel.sql import is_list, is_optional
from flintlog.runtime.kernel.values import hashable, named_values, stored_row
from flintlog.runtime.row_kernel import methods
from flintlog.runtime.row_kernel.encodings import encoded_tuple
from flintlog.runtime.row_kernel.model import RowProgram, RowRelation
from flintlog.runtime.store.extensions import supply
from flintlog.targets.database.lower import lower_rows

if TYPE_CHECKING:
    from flintlog.compiler.pipeline import Compilation
    from flintlog.runtime.local.session import MemoryEngine, Session

assert methods and decimals and external, "registered"

Row = tuple[Any, ...]
"""The values of a row as users see them: None for null."""

Changes = Mapping[str, Any]
"""Per table of an input relation, its changes: pairs of ``+`` or ``-`` and a row in the order of the relation's
columns. ``x`` removes the row that has the key of this one."""

STEPS = 1_000_000
"""After how many instructions SQLite lets Python see that Ctrl-C was pressed."""


MOST_BEHIND = 10
"""How many batches what explains a session may be behind; then it is made anew when it is needed."""


class AnySession(Protocol):
    """The relations of a program, empty at first; the first batch builds them, and every later one maintains them."""

    batches: int
    as_of: GivenTime
    """The time of the next batch, if the program reads it."""

    @property
    def program(self) -> Any:
        """The program."""

    def apply(self, changes: Changes) -> None:
        """Apply a batch; raise JobError if it is refused, and leave everything unchanged."""

    def rows(self, relation: Any) -> Sequence[Row]:
        """Return the tuples of a relation, sorted."""

    def changes(self, relation: Any) -> Sequence[tuple[str, Row]]:
        """Return the net changes of the last batch, sorted by row; the first batch inserted everything."""

    def explain(self, text: str) -> dict[str, Any]:
        """Return why a tuple in program syntax is there or not, like the job's ``explain``."""

    def without(self, relation: Any, row: Row) -> Sequence[tuple[Any, str, Row]] | None:
        """Return how the derived relations would change if a row of an input relation were deleted; None if it is not
        there."""

    def differences(self) -> list[dict[str, Any]]:
        """Recount the relations from the rules and return what is wrong."""

    def arrow(self, relation: Any) -> Any:
        """Return a reader of the tuples of a relation, sorted, as Arrow data; a tuple without columns is ``+``."""

    def close(self) -> None:
        """Discard the relations."""


class MemoryState(DatabaseState):
    """A state in memory, which threads can use in turn."""

    one_thread = False

    def __init__(self, program: RowProgram, supplied: Any | None, max_rounds: int) -> None:
        super().__init__(program, MEMORY, supplied, max_rounds)
        self.keep = "1"
        self.connection.set_progress_handler(lambda: 0, STEPS)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Make what the body does one transaction, or nothing if it fails."""
        try:
            with super().transaction():
                yield
        except sqlite3.OperationalError as error:
            # The functions that rules call raise nothing else than what Ctrl-C does.
            if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT or str(error).startswith("user-defined "):
                raise KeyboardInterrupt from error
            raise


class Undone(Exception):
    """Raised to leave everything as it was."""


class RowSession:
    """A session whose relations are in an SQLite database in memory.

    A session by columns that has the same rows explains them, by the steps of the rules as they are written, and tells
    why a batch is refused, if there is a ``compilation``.
    """

    def __init__(
        self,
        program: RowProgram,
        max_rounds: int = MOST_ROUNDS,
        functions: FunctionSource = None,
        compilation: Compilation | None = None,
    ) -> None:
        """Start with nothing built, not even the program's own facts. ``functions`` is the file with the external
        functions, or a mapping by name."""
        self.program, self.batches = program, 0
        self.as_of: GivenTime = None
        self.limits, self.compilation = (max_rounds, functions), compilation
        self.state = MemoryState(program, supply(program, functions), max_rounds)
        self.explaining: Session | None = None
        self.behind: list[Changes] = []

    def apply(self, changes: Changes) -> None:
        """Apply a batch; raise JobError if it is refused, and leave everything unchanged."""
        inputs = {relation.table: relation for relation in self.program.inputs.values()}
        given = {table: [*rows] for table, rows in changes.items()}
        if self.program.clock is not None:
            times = [time for (time,) in self.rows(self.program.clock)]
            given.setdefault(self.program.clock.table, time_changes(self.as_of, times[0] if times else None))
        stored = {table: [*stored_changes(inputs[table], rows)] for table, rows in given.items()}
        with self.telling(given), self.state.transaction():
            self.state.apply(stored, None)
        self.batches += 1
        if self.explaining is not None:
            self.behind.append(given)
            if len(self.behind) > MOST_BEHIND:
                self.forget()

    @contextlib.contextmanager
    def telling(self, changes: Changes) -> Iterator[None]:
        """If the body refuses changes, say why in the words of columns: these tell more about values, and about what a
        recursion was doing."""
        try:
            yield
        except Refused:
            if columns := self.columns():
                columns.apply(changes)
                # It should have been refused.
                self.forget()
            raise

    def forget(self) -> None:
        """Discard the session by columns."""
        if self.explaining is not None:
            self.explaining.close()
        self.explaining, self.behind = None, []

    def columns(self) -> Session | None:
        """Return a session by columns with the same rows; None without the compilation."""
        if self.compilation is None:
            return None
        if self.explaining is None:
            from flintlog.runtime.local.session import Session
            from flintlog.targets.pyspark.load import load_program

            self.explaining = Session(load_program(self.compilation.plan), *self.limits)
            if self.batches:
                inputs = self.program.inputs.values()
                self.behind = [{r.table: [("+", row[: len(r.columns)]) for row in self.rows(r)] for r in inputs}]
        while self.behind:
            self.explaining.apply(self.behind[0])
            del self.behind[0]
        return self.explaining

    def explain(self, text: str) -> dict[str, Any]:
        """Return why a tuple in program syntax is there or not, like the job's ``explain``."""
        columns = self.columns()
        return columns.explain(text) if columns else explain_stored(self.state, text)

    def without(self, relation: RowRelation, row: Row) -> list[tuple[RowRelation, str, Row]] | None:
        """Return how the derived relations would change if a row of an input relation were deleted; None if it is not
        there."""
        changes, given = None, [("-", row)]
        time = {self.program.clock.table: list[Any]()} if self.program.clock else {}
        with self.telling({**time, relation.table: given}), contextlib.suppress(Undone), self.state.transaction():
            self.state.apply({**time, relation.table: [*stored_changes(relation, given)]}, None)
            if self.state.tables.tables[relation.table].lost:
                changes = [
                    (other, *change)
                    for other in self.program.relations
                    if other.kind != "input" and not other.hidden
                    for change in self.net_changes(other)
                ]
            raise Undone
        return changes

    def differences(self) -> list[dict[str, Any]]:
        """Recount the relations from the rules and return what is wrong."""
        return self.state.differences()

    def changes(self, relation: RowRelation) -> list[tuple[str, Row]]:
        """Return the net changes of the last batch, sorted by row; the first batch inserted everything."""
        return [("+", row) for row in self.rows(relation)] if self.batches == 1 else self.net_changes(relation)

    def net_changes(self, relation: RowRelation) -> list[tuple[str, Row]]:
        """Return the net changes of the last batch, sorted by row."""
        return sorted(self.state.net_changes(relation), key=lambda change: in_order(change[1]))

    def rows(self, relation: RowRelation) -> list[Row]:
        """Return the tuples of a relation, sorted, null first."""
        return sorted_rows(relation, self.state.rows(relation)) if self.batches else []

    def arrow(self, relation: RowRelation) -> Any:
        """Return a reader of the tuples of a relation, sorted, as Arrow data; a tuple without columns is ``+``."""
        from flintlog.runtime.engines.arrow import table_of_rows

        rows = self.rows(relation)
        if not relation.columns:
            return table_of_rows({"op": "string"}, [("+",) for _ in rows]).to_reader()
        return table_of_rows({column.name: column.type for column in relation.columns}, rows).to_reader()

    def close(self) -> None:
        """Discard the relations."""
        self.state.close()
        self.forget()


def sorted_rows(relation: RowRelation, rows: Iterable[Row]) -> list[Row]:
    """Return rows in order, null first."""
    plain = not any(is_optional(column.type) or is_list(column.type) for column in relation.columns)
    return sorted(rows, key=None if plain else in_order)


def in_order(value: Any) -> Any:
    """Return a value by which rows with nulls can be ordered."""
    if isinstance(value, tuple | list):
        return [in_order(item) for item in value]
    return (value is not None, value) if value is not None else (False,)


def stored_changes(relation: RowRelation, changes: Iterable[tuple[str, Row]]) -> Iterator[tuple[str, Row]]:
    """Yield changes as they are stored; raise JobError if a row is both deleted and inserted, unless its copies
    count."""
    ops: dict[Row, str] = {}
    for op, row in changes:
        if not relation.copy and op != REMOVE_KEY and ops.setdefault(hashable([*row]), op) != op:
            values = zip((column.sql for column in relation.columns), stored_row(relation.columns, row), strict=True)
            raise JobError(
                f"{relation.name}: {named_values(relation, dict(values)) or '()'} is both deleted and inserted"
            )
        yield op, encoded_tuple(relation.columns, row)


def session_program(compilation: Compilation, by_rows: bool = True) -> Program | RowProgram:
    """Return a compiled program as sessions run it: ``by_rows`` unless it has derivation sets."""
    if by_rows and compilation.syntax.recursion == "ranks":
        return lower_rows(compilation.plan)
    from flintlog.targets.pyspark.load import load_program

    return load_program(compilation.plan)


def session_of(
    program: Program | RowProgram,
    max_rounds: int,
    functions: FunctionSource,
    max_entries: int = MOST_ENTRIES,
    compilation: Compilation | None = None,
    engine: MemoryEngine | None = None,
) -> AnySession:
    """Return a session of a program, in full words if it has the ``compilation``; one by columns, for which there may
    be an ``engine``, needs DuckDB. Raise JobError if functions are not as they must."""
    if isinstance(program, RowProgram):
        return RowSession(program, max_rounds, functions, compilation)
    from flintlog.runtime.local.session import Session

    return Session(program, max_rounds, functions, max_entries=max_entries, engine=engine)
