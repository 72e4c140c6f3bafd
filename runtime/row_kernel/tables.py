"""The tables of a program in SQLite: relations that are changed in place, and work tables of a batch.

A stored relation is one table without row IDs: its tuples, and what is kept with them. In a batch a relation has three
versions: ``old``, ``mid`` (without what is lost) and ``new`` (with what is gained). The table itself is one of them at
a time; it moves to another by the few rows that tell them apart.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..kernel.errors import Refused
from ..kernel.model import MOST_ENTRIES, MOST_ROUNDS
from .model import RowProgram, RowRelation, RowStratum

OLD_ROWS, MID_ROWS, NEW_ROWS = "old", "mid", "new"


def quoted_sql(name: str) -> str:
    """Return a name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def stored(table: str) -> str:
    """Return the name of the table of a relation in SQL."""
    return quoted_sql(f"_rows_of_{table}")


def listed(columns: Iterable[str], alias: str = "") -> str:
    """Return columns, of a table with an alias, as a list in SQL."""
    before = f"{alias}." if alias else ""
    return ", ".join(before + quoted_sql(column) for column in columns)


def same(columns: Iterable[str], one: str, other: str) -> str:
    """Return the condition that rows of two tables agree in columns."""
    return " AND ".join(f"{one}.{quoted_sql(c)} = {other}.{quoted_sql(c)}" for c in columns) or "TRUE"


def better_value(relation: RowRelation, one: str, other: str, equal: bool = False) -> str:
    """Return the condition that one value of the extremum of a relation, in SQL, is better than another, or, if
    ``equal``, as good."""
    assert relation.best is not None
    function, name = relation.best
    op = ("<" if function == "MIN" else ">") + "=" * equal
    kind = next(column.type for column in relation.columns if column.sql == name)
    if kind.startswith("list<") or kind.endswith("?"):
        return f"_compare({one}, {other}) {op} 0"
    return f"{one} {op} {other}"


@dataclass
class RowTable:
    """A relation's table: its columns, those that identify a row (``key``), and those kept with a tuple; how many rows
    it had before the batch, in which version it is, how many rows were lost and gained, and how many have ``entered``
    in rounds that go on."""

    relation: RowRelation
    columns: tuple[str, ...]
    key: tuple[str, ...]
    hidden: tuple[str, ...]
    orders: tuple[tuple[str, ...], ...]
    types: dict[str, str]
    rows: int = 0
    version: str = OLD_ROWS
    lost: int = 0
    gained: int = 0
    entered: int = 0

    @property
    def bare(self) -> str:
        """The name of the table."""
        return f"_rows_of_{self.relation.table}"

    @property
    def name(self) -> str:
        """The name of the table in SQL."""
        return stored(self.relation.table)

    @property
    def state(self) -> tuple[str, ...]:
        """All columns."""
        return (*self.columns, *self.hidden)

    @property
    def rows_now(self) -> int:
        """About how many rows the table has."""
        gained = self.gained if self.version == NEW_ROWS else self.entered
        return self.rows + gained - (self.lost if self.version != OLD_ROWS else 0)

    def work(self, suffix: str) -> str:
        """Return the name of a work table of the relation in SQL."""
        return f"temp.{quoted_sql(f'_rows_of_{self.relation.table}__{suffix}')}"

    def typed(self, columns: Iterable[str]) -> str:
        """Return the definitions of columns; a key without a value is refused."""
        return ", ".join(f"{quoted_sql(c)} {self.types.get(c, 'INTEGER')}" for c in columns)


@dataclass
class RowTables:
    """The tables of a program behind a connection, in one batch. A recursion that has not ended after ``max_rounds``
    rounds, or has more than ``max_entries`` proofs or derivation sets, is refused. ``statistics`` have, by tables and
    columns, how many rows there were and how many values, and how many rows have changed since."""

    program: RowProgram
    connection: sqlite3.Connection
    tables: dict[str, RowTable]
    made: set[str] = field(default_factory=set)
    clock: int = 1
    max_rounds: int = MOST_ROUNDS
    max_entries: int = MOST_ENTRIES
    statistics: dict[tuple[str, tuple[str, ...]], tuple[int, int, int]] = field(default_factory=dict)

    def execute(self, sql: str, values: Sequence[object] = ()) -> sqlite3.Cursor:
        """Execute a statement."""
        return self.connection.execute(sql, values)

    def work_table(
        self, table: RowTable, suffix: str, columns: Sequence[str], extra: str = "", key: Sequence[str] = ()
    ) -> str:
        """Make an empty work table, or empty it; return its name in SQL."""
        key_columns = f"PRIMARY KEY ({listed(key or columns)})"
        return self.make(table.work(suffix), f"{table.typed(columns)}{extra}, {key_columns}", "WITHOUT ROWID")

    def make(self, name: str, columns: str, options: str = "") -> str:
        """Make an empty work table, whose columns and options are given in SQL, or empty it; return its name."""
        if name in self.made:
            self.execute(f"DELETE FROM {name}")
        else:
            self.made.add(name)
            self.execute(f"CREATE TEMP TABLE {name.removeprefix('temp.')} ({columns}) {options}")
        return name

    def count(self, name: str) -> int:
        """Return the number of rows of a table."""
        return int(self.execute(f"SELECT COUNT(*) FROM {name}").fetchone()[0])

    def has_rows(self, name: str) -> bool:
        """Return whether a table has rows."""
        return self.execute(f"SELECT 1 FROM {name} LIMIT 1").fetchone() is not None

    def check_round(self, stratum: str, done: int) -> None:
        """Raise Refused if a recursion has run as many rounds as it may without an end."""
        if done >= self.max_rounds:
            raise Refused(
                f"{stratum}: not finished after {self.max_rounds} rounds; if the recursion needs more, "
                "raise --max-rounds; nothing was changed"
            )

    # ---- versions --------------------------------------------------------------------------------------------------

    def move(self, name: str, to: str) -> None:
        """Change a table to another version."""
        table = self.tables[name]
        was, table.version = table.version, to
        lost, gained = table.work("lost"), table.work("gained")
        if was == to:
            return
        if was == NEW_ROWS and table.gained:
            self.remove(table, gained)
        if was == OLD_ROWS and table.lost:
            self.remove(table, lost)
        if to == OLD_ROWS and table.lost:
            self.put(table, lost)
        if to == NEW_ROWS and table.gained:
            self.put(table, gained)

    def put(self, table: RowTable, of: str) -> None:
        """Insert the rows of a work table, which has all columns."""
        columns = listed(table.state)
        self.execute(f"INSERT INTO {table.name} ({columns}) SELECT {columns} FROM {of}")

    def remove(self, table: RowTable, of: str) -> None:
        """Delete the rows whose key is that of a row of a work table."""
        key = listed(table.key)
        self.execute(f"DELETE FROM {table.name} WHERE ({key}) IN (SELECT {key} FROM {of})")

    def absent_from(self, name: str, version: str) -> list[str]:
        """Return the tables that must not have a row which is absent from a version. From mid is absent what is neither
        in the old nor in the new version."""
        table = self.tables[name]
        others = []
        if table.lost and table.version != OLD_ROWS and version != NEW_ROWS:
            others.append(table.work("lost"))
        if table.gained and table.version != NEW_ROWS and version != OLD_ROWS:
            others.append(table.work("gained"))
        return [table.name, *others]


ROW_PARTS: dict[str, Callable[..., Any]] = {}
"""What only programs with primary keys (``given key``, ``derived key``, ``later changes``), multisets (``copies``),
rules that choose between joins (``join order``) or kinds of strata (``recount KIND``) need; these register it."""

ROW_METHODS: dict[str, Callable[[RowTables, RowStratum], None]] = {}
"""How strata are maintained, by their kinds; the module for each kind registers its own."""

LAYOUTS: dict[str, Callable[[RowStratum, RowRelation, tuple[str, ...]], tuple[tuple[str, ...], tuple[str, ...]]]] = {}
"""Which of the columns identify a row of a relation, and what is kept with it, by the kinds of strata; registered
likewise."""

RECOMPUTED: dict[str, Callable[[RowTables, RowStratum, RowTable], None]] = {}
"""What fills r__next with the rows that a table should have, by the kinds of strata that compute groups."""
