"""SQL for ``first``: rank a group from all derivations, or its old rows and what it gained.

Besides the published columns, a stored row holds the values that it is ordered by (``_by_1``, ``_by_2``, ...). As long
as no stored row of a group loses a derivation, its first rows are among the stored ones and those gained.
"""

from __future__ import annotations

from dataclasses import dataclass

from flintlog.runtime.kernel.table_names import TableName

from .aggregates import columns_of, matches, printed
from .print_sql import Sql


@dataclass(frozen=True)
class OrderColumn:
    """A column that a relation is ordered by: its SQL name, its type, and its direction."""

    name: str
    type: str
    descending: bool

    def __str__(self) -> str:
        return f"{self.name} DESC" if self.descending else self.name


@dataclass(frozen=True)
class Ranking:
    """A relation with the first rows of each group in SQL: its table, the columns that it groups by, that of the place,
    those that are ranked, those that it is ordered by, and the number of rows that a group has at most."""

    table: TableName
    groups: tuple[str, ...]
    place: str
    ranked: tuple[str, ...]
    order: tuple[OrderColumn, ...]
    limit: int
    ranged: tuple[str, ...] = ()

    @property
    def extra(self) -> tuple[tuple[str, str], ...]:
        """Return the names and types of the stored columns that are not published."""
        unit = (("_unit", "bool"),) if self.groups == ("_unit",) else ()
        return (*unit, *((column.name, column.type) for column in self.order))

    @property
    def competing(self) -> tuple[str, ...]:
        """Return the columns by which rows of a group differ."""
        return (*(column.name for column in self.order), *self.ranked)

    def compute(self) -> Sql:
        """Return the query for rows of groups from all their derivations, in ``TABLE__rows``."""
        rows = f"SELECT DISTINCT {columns_of((*self.groups, *self.competing))} FROM {self.table.rows}"
        return printed(f"SELECT {self._stored('r.')} FROM ({self._placed(rows)}) AS r WHERE {self._first}")

    def fold(self) -> Sql:
        """Return the query for rows of the groups in ``TABLE__reached``, from their old rows and the derivations gained
        (``TABLE__plus``); ``_stale`` marks a row for each group of which a stored row lost a derivation
        (``TABLE__minus``)."""
        table = self.table
        every = (*self.groups, *self.competing)
        lost = " AND ".join(f"s.{name} = d.{name}" for name in every)
        kept = f"SELECT {columns_of(every, 's.')} FROM {table} AS s JOIN {table.reached} AS k ON "
        kept += f"{matches(self.groups, 's')} UNION SELECT {columns_of(every)} FROM {table.plus}"
        fresh = f"SELECT {columns_of(every, 'f.')} FROM ({kept}) AS f LEFT JOIN _lost AS k ON "
        fresh += f"{matches(self.groups, 'f')} WHERE k.{self.groups[0]} IS NULL"
        return printed(
            f"WITH _lost AS (SELECT DISTINCT {columns_of(self.groups, 's.')} FROM {table} AS s "
            f"JOIN {table.minus} AS d ON {lost}) "
            f"SELECT {self._stored('r.')}, 1 AS _rows, FALSE AS _stale FROM ({self._placed(fresh)}) AS r "
            f"WHERE {self._first} UNION ALL "
            f"SELECT {self._stored('s.')}, 1 AS _rows, TRUE AS _stale FROM {table} AS s "
            f"JOIN _lost AS k ON {matches(self.groups, 's')} WHERE s.{self.place} = 1"
        )

    @property
    def _first(self) -> str:
        return f"r.{self.place} <= {self.limit}"

    def _stored(self, prefix: str) -> str:
        unit = [] if self.groups == ("_unit",) else [*self.groups]
        names = [*unit, self.place, *self.ranked, *(name for name, _ in self.extra)]
        return columns_of(names, prefix)

    def _placed(self, rows: str) -> str:
        """Return a query for rows with their places."""
        order = ", ".join(["q." + str(column) for column in self.order] + [f"q.{name}" for name in self.ranked])
        return (
            f"SELECT q.*, CAST(ROW_NUMBER() OVER (PARTITION BY {columns_of(self.groups, 'q.')} ORDER BY {order}) "
            f"AS BIGINT) AS {self.place} FROM ({rows}) AS q"
        )
