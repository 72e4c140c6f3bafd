"""The operations that the maintenance algorithms need of an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

from .errors import UNCHANGED, Refused
from .model import Both, Column, ExternalFunction, Relation, Stratum


class Engine(Protocol):
    """An engine as the maintenance algorithms see it. Table and column names are those of the program's SQL."""

    name: str
    row_id: str
    """The expression for the identity of a row, by which it can be removed later; empty if the engine has none."""
    rounds_before_leaps: int
    """How many rounds of a transitive closure run before leaps are tried."""
    most_rows_to_leap: float
    """The number of rows of a relation above which there are no leaps."""
    statements: int
    """The number of statements that have changed tables."""
    seconds_of_statement: float
    """How many seconds a statement takes, however few rows it works on."""
    failed_calls: Callable[[], str]
    """Returns what external functions reported when they failed, to be appended to a message."""

    def begin(self, stratum: Stratum) -> None:
        """Prepare to maintain a stratum."""

    def table(self, name: str, sql: str | Both, counts: Sequence[str] = ()) -> int:
        """Run a query now and keep its rows as table ``name``; return their number. ``counts`` are the conditions that
        ``counted`` will be asked about."""

    def part(self, name: str, of: str, columns: str, condition: str) -> int:
        """Make table ``name`` from the rows of table ``of`` that meet a condition; return their number."""

    def later(
        self, name: str, sql: str, rows: int, selected: Callable[[str], str] | None = None, reducible: int = 0
    ) -> None:
        """Define table ``name`` as the ``rows`` rows of a query over files, which are read if the table is used;
        ``selected`` returns a query for the rows, called ``stored``, that meet a condition. Of the rows only the number
        is needed, apart from those that are to be changed, if these are at most ``reducible``."""

    def files(self, paths: Sequence[str], columns: Sequence[Column] = ()) -> str:
        """Return a FROM item for the rows of Parquet files; ``columns`` must be given if their columns differ."""

    def lay_over(
        self, name: str, base: tuple[str, int], changes: tuple[str, int], columns: Sequence[str], rows: int
    ) -> bool:
        """Define table ``name`` as the rows of ``base``, a query over files, with ``changes`` laid over them, where an
        engine gains by that; return whether it does. Both come with the number of their rows. The table then has
        ``rows`` rows: those that agree with one of ``changes`` in ``columns`` are removed, and the changes that are
        ``_present`` are added."""

    def write(
        self, sql: str, bucket: str, order: Sequence[str], state: Path, folder: str, buckets: int
    ) -> tuple[Path, dict[int, list[Path]]]:
        """Write the rows of a query to Parquet files, sorted by ``order``: one for each of the ``buckets`` or more, by
        the number that the SQL ``bucket`` gives. Return the place that they are below as they will be below ``state``,
        in ``folder`` or called so, and the files by bucket."""

    def define(self, declared: ExternalFunction, call: Callable[..., Any]) -> None:
        """Let queries call a function."""

    def look_up(self, name: str, of: str, condition: str) -> bool:
        """Make table ``name`` from the rows of table ``of``, called ``stored``, that meet a condition, if ``of`` is
        still to be read and would not be kept for the next batch; return whether it was made."""

    def reduce(self, name: str, changes: str, columns: Sequence[str], most: int) -> None:
        """Read only those rows of table ``name`` that agree with a row of table ``changes`` in ``columns``, if these
        are all rows to be changed, at most ``most`` in number, and ``later`` was told that no others are needed. The
        columns are not hidden ones. It has no effect on a table that is read already, or would be kept for the next
        batch."""

    def empty(self, name: str, columns: Iterable[Column]) -> None:
        """Make table ``name`` without rows."""

    def view(self, name: str, sql: str, rows: int | None = None) -> None:
        """Define ``name`` as a view of a query over tables, which returns ``rows`` rows if that is known."""

    def snapshot(self, name: str, sql: str, rows: int) -> str:
        """Return a FROM item for the ``rows`` rows of a query over tables that stay as they are while it is used. An
        engine that reads them faster from a table makes it, called ``name``."""

    def worked(self) -> float:
        """Return how many seconds the engine has worked, from any start; without reading files, which are read whatever
        is done with them."""

    def rows(self, name: str) -> int:
        """Return the number of rows of a table."""

    def counted(self, name: str, condition: str) -> int | None:
        """Return how many rows of a table meet a condition, or None if they were not counted when it was made."""

    def add(self, name: str, of: str, columns: str = "*", condition: str = "TRUE") -> None:
        """Append the rows of table ``of`` that meet a condition to table ``name``, with columns of the same names."""

    def insert(self, name: str, sql: str) -> None:
        """Append the rows of a query to table ``name``, which has columns of the same names."""

    def remove(
        self, name: str, keys: str, columns: Sequence[str], count: int | None = None, numbered: bool = False
    ) -> None:
        """Remove the rows of table ``name`` that agree with a row of table ``keys`` in ``columns``: ``count`` rows, if
        known. If ``numbered``, each key is one row of the table and has its ``row_id`` in ``_row``."""

    def rename(self, name: str, to: str) -> None:
        """Rename table ``name`` to ``to``, replacing the table of that name."""

    def since_read(self, name: str) -> str:
        """Return a FROM item with at least the rows inserted into table ``name`` since it was read from files."""

    def holds(self, name: str, source: object) -> bool:
        """Return whether table ``name`` was kept since an earlier batch, with the rows of ``source``."""

    def prepare(self, relations: Iterable[Relation], rows: int) -> None:
        """Prepare for queries that join ``rows`` rows with these relations."""

    def meeting(
        self, relation: Relation, derived: str, after: int, columns: Sequence[str] = ()
    ) -> tuple[str, list[str]]:
        """Return FROM items: the rows of ``derived``, a query that derives tuples of ``relation``, and the parts of its
        table whose rows may agree with them in ``columns`` (default: all that identify a tuple). ``after`` is the
        number of changed rows that ``derived`` starts from."""

    def text(self, sql: str | Both) -> str:
        """Return a query in the engine's dialect."""

    def first(self, sql: str, limit: int) -> list[dict[str, Any]]:
        """Return the first ``limit`` rows of a query, for messages."""


def out_of_range(error: Exception) -> Refused:
    """Return the error for arithmetic that fails, such as a sum with more digits than either engine supports."""
    return Refused(f"arithmetic overflow or division by zero, {error}", UNCHANGED)
