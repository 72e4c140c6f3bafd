"""Evaluate programs in this process, and maintain their relations while facts change."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from flintlog.runtime.explain.proofs import report_explanation
from flintlog.runtime.inputs.records import Problems, input_relation
from flintlog.runtime.inputs.times import GivenTime
from flintlog.runtime.inputs.values import left_out_counts
from flintlog.runtime.kernel.errors import JobError
from flintlog.runtime.kernel.model import MOST_ENTRIES, MOST_ROUNDS, Relation
from flintlog.runtime.local.session import refusal
from flintlog.runtime.row_kernel.model import RowRelation
from flintlog.runtime.store.set_aside import LeftOut
from flintlog.runtime.system.printing import table_lines

from .programs import Program, compilation_of

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    from flintlog.compiler import Compiled

Facts = Mapping[str, Any]
"""Rows by relation: each a DataFrame of pandas or Polars, a PyArrow table, or an iterable of tuples or dicts."""

Functions = Mapping[str, Callable[..., Any]] | str | Path
"""External functions: callables by name, or the path of a Python file that defines them."""

FEW_ROWS = 1000
"""Of facts with at most so many rows, a program is evaluated row by row, since DuckDB would take longer to start."""

SHOWN = 20
"""How many rows ``repr`` shows."""


class Rows(Sequence[tuple[Any, ...]]):
    """Rows of a relation, sorted, as a sequence of tuples; values of list columns are Python lists.

    ``name`` is the relation, ``columns`` are the names of its columns and ``types`` their types in the program.
    """

    def __init__(self, relation: Relation | RowRelation, rows: Sequence[tuple[Any, ...]]) -> None:
        """Store the rows, which have a value for each column."""
        self.name = relation.name
        self.columns = tuple(column.name for column in relation.columns)
        self.types = tuple(column.type for column in relation.columns)
        self._rows = tuple(rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self._rows)

    @overload
    def __getitem__(self, place: int) -> tuple[Any, ...]: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[tuple[Any, ...]]: ...

    def __getitem__(self, place: int | slice) -> tuple[Any, ...] | Sequence[tuple[Any, ...]]:
        return self._rows[place]

    def __repr__(self) -> str:
        lines = list(table_lines(list(self.columns), iter(self._rows[:SHOWN]))) if self.columns else []
        more = [f"... and {len(self) - SHOWN:,} more"] if len(self) > SHOWN else []
        return "\n".join([f"{self.name} ({len(self):,} row{'' if len(self) == 1 else 's'})", *lines, *more])

    def to_list(self) -> list[tuple[Any, ...]]:
        """Return the rows as a list of tuples."""
        return list(self._rows)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return the rows as dicts by column."""
        return [dict(zip(self.columns, row, strict=True)) for row in self._rows]

    def to_arrow(self) -> pyarrow.Table:
        """Return the rows as a PyArrow table."""
        import pyarrow as pa
        from flintlog.runtime.engines.arrow import table_of_rows

        if not self.columns:
            return pa.table({"row": pa.nulls(len(self))}).select([])
        return table_of_rows(dict(zip(self.columns, self.types, strict=True)), self._rows)

    def to_pandas(self) -> pandas.DataFrame:
        """Return the rows as a DataFrame of pandas."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """Return the rows as a DataFrame of Polars."""
        import polars

        frame = polars.from_arrow(self.to_arrow())
        assert isinstance(frame, polars.DataFrame)
        return frame


@dataclass(frozen=True)
class Change:
    """The net changes of a relation: rows that were not there before, and rows that are not there any more. It is false
    if there are none."""

    inserted: Rows
    deleted: Rows

    def __bool__(self) -> bool:
        return bool(self.inserted or self.deleted)


def evaluate(
    program: Program | Compiled,
    facts: Facts | None = None,
    *,
    functions: Functions | None = None,
    max_rounds: int = MOST_ROUNDS,
    recursion: str = "ranks",
    max_entries: int = MOST_ENTRIES,
    include_path: Sequence[str | Path] = (),
    nulls: str = "refuse",
    dialect: str = "",
    as_of: GivenTime = None,
) -> dict[str, Rows]:
    """Evaluate a program once, and return the rows of its output relations.

    The parameters and the exceptions are those of :class:`Session`.
    """
    few = sum(len(rows) if isinstance(rows, Sized) else FEW_ROWS + 1 for rows in (facts or {}).values()) <= FEW_ROWS
    with (Session if few else _ColumnSession)(
        program,
        facts,
        functions=functions,
        max_rounds=max_rounds,
        recursion=recursion,
        max_entries=max_entries,
        include_path=include_path,
        nulls=nulls,
        dialect=dialect,
        as_of=as_of,
    ) as session:
        return session.outputs()


class Session:
    """A program whose relations are kept in this process, and maintained while facts change.

    ``program`` is the text of a program, a path, or the result of :func:`flintlog.compile`; ``recursion``,
    ``include_path`` and ``dialect`` are as in the latter, and without effect on a compiled program. ``facts`` has the
    rows of all input relations; without it, all are empty. A recursion that takes more than ``max_rounds`` rounds, or
    has more than ``max_entries`` derivation sets, is stopped. If ``nulls`` is ``"skip"``, rows with nulls in columns
    that are never null are left out, and counted by relation in the attribute ``left_out``. ``as_of`` is the time of
    the facts, if the program reads ``now``; by default that of the clock.

    Raises :class:`~flintlog.CompileError` if the program has errors, :class:`~flintlog.JobError` if facts are refused
    or the rules have no result for them, OSError if a file cannot be read, and ImportError without DuckDB or PyArrow.
    """

    _by_rows = True

    def __init__(
        self,
        program: Program | Compiled,
        facts: Facts | None = None,
        *,
        functions: Functions | None = None,
        max_rounds: int = MOST_ROUNDS,
        recursion: str = "ranks",
        max_entries: int = MOST_ENTRIES,
        include_path: Sequence[str | Path] = (),
        nulls: str = "refuse",
        dialect: str = "",
        as_of: GivenTime = None,
    ) -> None:
        """Evaluate the program."""
        for module, name in (("duckdb", "DuckDB"), ("pyarrow", "PyArrow")):
            if importlib.util.find_spec(module) is None:
                raise ImportError(f"{name} is not installed: pip install duckdb pyarrow numpy")
        from .local.session import session_of, session_program

        compilation = compilation_of(program, recursion, include_path, dialect)
        loaded = session_program(compilation, self._by_rows)
        if loaded.functions and functions is None:
            listed = ", ".join(map(str, loaded.functions))
            raise JobError(f"{loaded.name} declares external functions; pass functions=, with {listed}")
        with _refusing():
            self._left_out = left_out_counts(nulls)
            supplied = str(functions) if isinstance(functions, Path) else functions
            self._session = session_of(loaded, max_rounds, supplied, max_entries, compilation)
        self._visible = {r.name: r for r in loaded.relations if not r.hidden}
        self._inputs = [r.name for r in loaded.relations if r.kind == "input" and not r.clock]
        missing = [name for name in self._inputs if facts is not None and name not in facts]
        if missing:
            raise JobError(f"{', '.join(missing)}: no facts are given; give [] for a relation without rows")
        self._apply(facts or {}, {}, as_of)

    def apply(
        self, *, insert: Facts | None = None, delete: Facts | None = None, as_of: GivenTime = None
    ) -> dict[str, Change]:
        """Insert and delete rows of input relations, and return the net changes of the output relations.

        Inserting a row that exists, or deleting one that does not, changes nothing; in a relation with a primary key,
        an inserted row replaces the one with its key. ``as_of`` is the time of the batch, if the program reads ``now``,
        by default that of the clock; it does not go back. If a :class:`~flintlog.JobError` is raised, nothing changes.
        """
        self._apply(insert or {}, delete or {}, as_of)
        return {relation.name: self._change(relation) for relation in self._outputs()}

    def outputs(self) -> dict[str, Rows]:
        """Return the rows of the output relations."""
        return {relation.name: self[relation.name] for relation in self._outputs()}

    def __getitem__(self, name: str) -> Rows:
        """Return the rows of any relation of the program; raise KeyError if there is no such relation."""
        if name not in self._visible:
            raise KeyError(f"there is no relation {name}; there are {', '.join(sorted(self._visible))}")
        return Rows(self._visible[name], self._session.rows(self._visible[name]))

    @property
    def left_out(self) -> dict[str, int]:
        """How many rows with nulls were left out so far, by relation."""
        return dict(self._left_out or {})

    def explain(self, fact: str) -> str:
        """Return why a tuple, written as in a program, is in its relation, or why not."""
        with _refusing():
            return "\n".join(report_explanation(self._session.explain(fact)))

    def close(self) -> None:
        """Discard the relations."""
        self._session.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _outputs(self) -> list[Relation | RowRelation]:
        return sorted((r for r in self._visible.values() if r.output), key=lambda relation: relation.name)

    def _apply(self, insert: Facts, delete: Facts, as_of: GivenTime) -> None:
        """Read rows, all of them before anything is refused, and apply them."""
        problems = Problems()
        left_out = None if self._left_out is None else LeftOut()
        initial = not self._session.batches
        changes: dict[str, list[Any]] = {}
        with _refusing():
            for given, sign in ((insert, "+"), (delete, "-")):
                for name, rows in given.items():
                    relation = input_relation(self._session.program, name)
                    called = name if sign == "+" else f"{name}, deleted"
                    read = self._read(relation, rows, called, problems, sign, left_out, initial)
                    changes.setdefault(relation.table, []).append(read)
            problems.refuse()
            self._session.as_of = as_of
            self._session.apply({table: _joined(parts) for table, parts in changes.items()})
        if self._left_out is not None:
            self._left_out += left_out or {}

    def _read(self, relation: Relation | RowRelation, *given: Any) -> Any:
        """Return rows as changes, for a session by columns as an Arrow table."""
        if isinstance(relation, RowRelation):
            from .local.given import given_changes

            return given_changes(relation, *given)
        from flintlog.runtime.local.objects import given_rows

        return given_rows(relation, *given)

    def _change(self, relation: Relation | RowRelation) -> Change:
        found = self._session.changes(relation)
        inserted, deleted = ([row for sign, row in found if sign == wanted] for wanted in "+-")
        return Change(Rows(relation, inserted), Rows(relation, deleted))


class _ColumnSession(Session):
    """A session that begins with many facts."""

    _by_rows = False


def _joined(parts: Sequence[Any]) -> Any:
    """Return changes of a relation, given in parts, together."""
    if isinstance(parts[0], list):
        return [change for part in parts for change in part]
    import pyarrow as pa

    return pa.concat_tables(parts)


@contextlib.contextmanager
def _refusing() -> Iterator[None]:
    """Raise a JobError of the body without what it says for jobs only."""
    try:
        yield
    except JobError as error:
        # Without the error itself, whose message differs only in advice for jobs.
        raise JobError(refusal(error)) from None
