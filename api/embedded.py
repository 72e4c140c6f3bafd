"""Views in one SQLite file or in memory, kept exact in this process: ``flintlog.open``."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flintlog.runtime.database import clock
from flintlog.runtime.database.explain import explain_stored
from flintlog.runtime.database.reading import GivenChanges, RowReading, StoredChange, input_named
from flintlog.runtime.database.schema import logged
from flintlog.runtime.database.state import (
    MEMORY,
    CommitRecord,
    DatabaseState,
    NoState,
    StateExists,
    open_file_state,
    telling_errors,
)
from flintlog.runtime.explain.proofs import MOST_PROOF_TUPLES
from flintlog.runtime.inputs.records import Problems
from flintlog.runtime.inputs.times import GivenTime
from flintlog.runtime.kernel.errors import JobError
from flintlog.runtime.kernel.model import MOST_ROUNDS
from flintlog.runtime.row_kernel.model import RowProgram, RowRelation
from flintlog.runtime.store.extensions import supply
from flintlog.runtime.store.published_names import check_batch
from flintlog.runtime.store.retention import checked_keep
from flintlog.targets.database.lower import lower_rows

from .evaluation import Change, Functions, Rows
from .local.session import sorted_rows
from .programs import Program, compilation_of

if TYPE_CHECKING:
    from flintlog.compiler import Compiled

assert clock, "registered"

RelationChanges = Mapping[str, Iterable[Sequence[Any]]]
"""Changes by relation: rows, each behind its operation: ``+`` or ``-``."""


def open(
    program: Program | Compiled,
    path: str | Path = MEMORY,
    *,
    functions: Functions | None = None,
    max_rounds: int = MOST_ROUNDS,
    keep: str | int | None = None,
    include_path: Sequence[str | Path] = (),
    dialect: str = "",
    as_of: GivenTime = None,
) -> View:
    """Open the state of a program in an SQLite file, or in memory, and keep its relations exact in this process.

    A file that is not there is made, without rows. Scripts of ``--target database`` have states of the same kind, and
    both can take turns on one file. ``keep`` says how many commits a new state keeps the changes of, or for how long,
    such as ``7d``; ``as_of`` is its time, if the program reads ``now``, by default that of the clock. The other
    parameters are those of :class:`Session`.

    Raises :class:`~flintlog.JobError` for a file that is no state of this program.
    """
    lowered = lower_rows(compilation_of(program, "ranks", include_path, dialect).plan)
    given = functions if functions is None or isinstance(functions, Mapping) else str(functions)
    supplied, kept, place = supply(lowered, given), checked_keep(keep), str(path)
    if not Path(place).is_dir():
        # Another process may do the same at any time.
        with contextlib.suppress(NoState):
            return View(open_file_state(lowered, place, supplied, max_rounds))
        with contextlib.suppress(StateExists):
            return View(make_file_state(lowered, place, supplied, max_rounds, kept, as_of))
    return View(open_file_state(lowered, place, supplied, max_rounds))


def make_file_state(
    program: RowProgram, path: str, supplied: Any | None, max_rounds: int, keep: str | None, as_of: GivenTime
) -> DatabaseState:
    """Return a new state in a file, without rows; raise StateExists if there is one."""
    state = open_file_state(program, path, supplied, max_rounds, new=True)
    try:
        state.keep, state.as_of = keep or state.keep, as_of
        with state.transaction():
            state.apply({}, None, "init")
    except BaseException:
        state.close()
        raise
    return state


class Applied(dict[str, Change]):
    """The net changes of the output relations that a batch has changed, by their names; the number of its ``commit``,
    and the ID of the ``batch``."""

    def __init__(self, changes: Mapping[str, Change], record: CommitRecord) -> None:
        """Take the changes of a commit."""
        super().__init__(changes)
        self.commit, self.batch = record.number, record.batch


class View:
    """The relations of a program in an SQLite file or in memory. It can be used in a ``with`` statement.

    It belongs to the thread that has opened it: as of a connection of :mod:`sqlite3`, a use in another thread is an
    error. Each thread can open a view of its own on the same file; their batches wait for each other.
    """

    def __init__(self, state: DatabaseState) -> None:
        """Take a state, which is closed with the view."""
        self._state = state
        self._listeners: list[tuple[str, Callable[[Change], None]]] = []

    def __enter__(self) -> View:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._state.close()

    @property
    def commit(self) -> int:
        """The number of the last commit, also of another process."""
        with telling_errors(self._state.path):
            self._state.refresh()
        return self._state.commit.number

    def apply(
        self,
        changes: RelationChanges | None = None,
        /,
        *,
        batch: str | None = None,
        as_of: GivenTime = None,
        **further: Iterable[Sequence[Any]],
    ) -> Applied:
        """Apply a batch, which is durable when this returns, and return the net changes of the output relations that
        changed. ``changes``, or keywords, are rows by relation, each behind its operation:
        ``view.apply(link=[("+", 1, 2), ("-", 2, 3)])``. A ``batch`` whose ID the state has changes nothing: its commit
        is returned, without changes. ``as_of`` is its time, if the program reads ``now``, by default that of the clock.

        Raises :class:`~flintlog.JobError` for a batch that is refused; the state is as before then.
        """
        state, program = self._state, self._state.program
        given = {**(changes or {}), **further}
        problems = Problems()
        rows = {}
        for name, of in given.items():
            relation = input_named(program, name)
            rows[relation.table] = checked_changes(relation, of, problems)
        problems.refuse()
        if batch is not None:
            check_batch(batch)
        state.as_of = as_of
        with state.transaction():
            if known := state.known_batch(batch):
                return Applied({}, known)
            state.check_order(rows)
            record = state.apply(state.unfed(rows), batch)
        net = {
            relation.name: self._change(relation, state.net_changes(relation))
            for relation in program.relations
            if relation.output and not relation.hidden
        }
        for name, listener in self._listeners:
            if net[name]:
                listener(net[name])
        return Applied({name: change for name, change in net.items() if change}, record)

    def on_change(self, name: str, listener: Callable[[Change], None]) -> None:
        """Call ``listener`` with the net changes of an output relation, behind each batch of this view that changes
        it."""
        relation = self._state.program.relation(name)
        if not relation.output:
            raise JobError(f"{name} is not an output relation")
        self._listeners.append((name, listener))

    def __getitem__(self, name: str) -> Rows:
        """Return the rows of a relation."""
        relation = self._state.program.relation(name)
        with self._state.reading():
            return rows_of_relation(relation, self._state.rows(relation))

    def sql(self, query: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query of SQLite's SQL, in which relations are views with their names. A query cannot
        change anything."""
        connection = self._state.connection
        with self._state.reading():
            connection.execute("PRAGMA query_only = ON")
            try:
                return connection.execute(query, parameters).fetchall()
            finally:
                connection.execute("PRAGMA query_only = OFF")

    def changes(self, since: int) -> Iterator[tuple[int, str, str, tuple[Any, ...]]]:
        """Yield the changes of inputs and outputs in the commits behind a number: the commit, the relation, the
        operation and the row. Raises :class:`~flintlog.JobError` if they are not kept."""
        state = self._state
        with state.reading():
            oldest = max(map(state.kept_from, logged(state.program)), default=1)
            if since < oldest:
                raise JobError(f"changes are kept from commit {oldest} on")
            found = [
                (commit, relation.name, op, row[: len(relation.columns)])
                for relation in logged(state.program)
                for commit, op, row in state.stored_changes(relation, since, state.commit.number)
            ]
        return iter(sorted(found, key=lambda change: change[0]))

    def explain(self, asked: str, limit: int = MOST_PROOF_TUPLES) -> dict[str, Any]:
        """Return why a tuple, in program syntax such as ``reachable(1, 3)``, is there or not: what ``flintlog job
        explain --json`` prints, with a proof of at most ``limit`` tuples."""
        return explain_stored(self._state, asked, limit)

    def verify(self) -> list[dict[str, Any]]:
        """Recount all relations from the rules and return what is wrong, which is nothing."""
        return self._state.differences()

    @staticmethod
    def _change(relation: RowRelation, changes: Iterable[tuple[str, tuple[Any, ...]]]) -> Change:
        """Return the net changes of a relation."""
        sides: dict[str, list[tuple[Any, ...]]] = {"+": [], "-": []}
        for op, row in changes:
            sides[op].append(row)
        return Change(rows_of_relation(relation, sides["+"]), rows_of_relation(relation, sides["-"]))


def checked_changes(relation: RowRelation, rows: Iterable[Sequence[Any]], problems: Problems) -> list[StoredChange]:
    """Return net changes as they are stored; add what is wrong with them."""
    given, width = GivenChanges(relation, RowReading().shape(relation), problems), len(relation.columns)
    lacking = f"it must have an operation and {width} values"
    nested = any("<" in column.type for column in relation.columns)
    records = (
        lacking
        if isinstance(row, str) or len(row) != width + 1
        else [*(map(listed_items, row[1:]) if nested else row[1:]), row[0]]
        for row in rows
    )
    given.take(records, f"the changes of {relation.name}", False)
    return given.net()


def listed_items(value: Any) -> Any:
    """Return a value with tuples as lists."""
    return [listed_items(item) for item in value] if isinstance(value, list | tuple) else value


def rows_of_relation(relation: RowRelation, rows: Iterable[tuple[Any, ...]]) -> Rows:
    """Return rows in order, null first."""
    width = len(relation.columns)
    return Rows(relation, sorted_rows(relation, (row[:width] for row in rows)))
