"""SQL for aggregates: compute a group from all derivations, or fold changes into its old row.

Besides the published values, a stored row holds the number of derivations (``_rows``), exact sums (``_sum_X``, with
38 digits) and the number of derivations that reach an extremum (``_ties_X``). With these, a change is folded into
the row without reading the other derivations of the group, unless the last derivation that reached the extremum is
gone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

import sqlglot
from flintlog.compiler.ir import typed
from flintlog.runtime.kernel.table_names import TableName

from .print_sql import ORDERED_SUM, Sql, print_sql

EXACT_FLOATS = 2**53
"""Up to here, floats represent all integers."""

MOST_DIGITS_OF_UNITS = 18
"""With more digits after the point, the number of the last one's units in 1 is not a 64-bit integer."""


@dataclass(frozen=True)
class AggregateColumn:
    """A head column that an aggregate computes, with its SQL ``name``."""

    name: str
    aggregate: typed.Aggregate

    @property
    def function(self) -> str:
        """Return the aggregate function: min, max, sum, count or avg."""
        return self.aggregate.function

    @property
    def summed(self) -> bool:
        """Return whether an exact sum is stored."""
        return self.function in ("sum", "avg") and not self.floating

    @property
    def floating(self) -> bool:
        """Return whether floats are added: in the order of their values, so a stored sum cannot be updated."""
        argument = self.aggregate.argument
        return self.function in ("sum", "avg") and argument is not None and argument.type.name == "float"

    @property
    def ranged(self) -> bool:
        """Return whether the value may be out of range."""
        return self.floating or self.decimal or (self.summed and self.function == "sum")

    @property
    def extreme(self) -> bool:
        """Return whether the value is an extremum."""
        return self.function in ("min", "max")

    @property
    def decimal(self) -> bool:
        """Return whether decimals are added, whose sum may need more than 38 digits."""
        argument = self.aggregate.argument
        return self.summed and argument is not None and argument.type.name == "decimal"

    @property
    def scale(self) -> int:
        """Return the number of fractional digits of the exact sum."""
        argument = self.aggregate.argument
        return argument.type.scale if self.decimal and argument is not None else 0

    def extra(self) -> Iterable[tuple[str, str]]:
        """Yield the names and types of the additional columns that are stored."""
        if self.summed:
            yield f"_sum_{self.name}", f"decimal(38,{self.scale})"
        if self.extreme:
            yield f"_ties_{self.name}", "int"

    def value(self, rows: str, total: str) -> str:
        """Return SQL for the published value, given SQL for the row count and the exact sum; NULL if out of range."""
        if self.function == "count":
            return rows
        if self.function == "sum":
            kind = "BIGINT" if self.aggregate.type.name == "int" else f"DECIMAL(38, {self.scale})"
            return f"TRY_CAST({total} AS {kind})"
        return self._average(rows, total)

    def _average(self, rows: str, total: str) -> str:
        """Return SQL for an average. Sums become floats by way of text: DuckDB 2.0 does not round large integers to the
        nearest float. A sum of decimals that is exact as a float if its last digit counts as one is divided so, or the
        average of 0.10, 0.10 and 0.10 would not be 0.1."""
        count = f"CAST({rows} AS DOUBLE)"
        rounded = f"CAST(CAST({total} AS TEXT) AS DOUBLE) / {count}"
        if not 0 < self.scale <= MOST_DIGITS_OF_UNITS:
            return rounded
        limit, power = Decimal(EXACT_FLOATS).scaleb(-self.scale), 10**self.scale
        return (
            f"CASE WHEN ABS({total}) <= {limit:f} "
            f"THEN CAST({total} * {power} AS DOUBLE) / ({count} * CAST({power} AS DOUBLE)) ELSE {rounded} END"
        )


@dataclass(frozen=True)
class Group:
    """An aggregate relation in SQL: its table, the columns that it groups by, and those that it computes."""

    table: TableName
    groups: tuple[str, ...]
    columns: tuple[AggregateColumn, ...]

    @property
    def extra(self) -> tuple[tuple[str, str], ...]:
        """Return the names and types of the stored columns that are not published."""
        unit = (("_unit", "bool"),) if self.groups == ("_unit",) else ()
        return (*unit, ("_rows", "int"), *(pair for column in self.columns for pair in column.extra()))

    @property
    def limit(self) -> int:
        """Return how many rows a group has at most."""
        return 1

    @property
    def ranged(self) -> tuple[str, ...]:
        """Return the columns whose values may be out of range."""
        return tuple(column.name for column in self.columns if column.ranged)

    def compute(self) -> Sql:
        """Return the query for rows of groups from all their derivations, in ``TABLE__rows``."""
        extremes = [column for column in self.columns if column.extreme]
        source = f"{self.table.rows} AS q"
        if extremes:
            groups = columns_of(self.groups, "r.")
            best = ", ".join(
                f"{c.function.upper()}(r.{c.name}) OVER (PARTITION BY {groups}) AS _best_{c.name}" for c in extremes
            )
            source = f"(SELECT r.*, {best} FROM {self.table.rows} AS r) AS q"
        parts = [f"q.{name}" for name in self.groups]
        hidden = ["COUNT(*) AS _rows"]
        for column in self.columns:
            value = f"q.{column.name}"
            total = f"SUM(CAST({value} AS DECIMAL(38, {column.scale})))"
            if column.extreme:
                parts.append(f"{column.function.upper()}({value}) AS {column.name}")
                hidden.append(f"COUNT(CASE WHEN {value} = q._best_{column.name} THEN 1 END) AS _ties_{column.name}")
            elif column.floating:
                total = f"{ORDERED_SUM}({value})"
                for infinity in ("Infinity", "-Infinity"):
                    total = f"NULLIF({total}, CAST('{infinity}' AS DOUBLE))"
                parts.append(f"{total if column.function == 'sum' else f'{total} / COUNT(*)'} AS {column.name}")
            else:
                parts.append(f"{column.value('COUNT(*)', total)} AS {column.name}")
                hidden += [f"{total} AS _sum_{column.name}"] if column.summed else []
        text = f"SELECT {', '.join([*parts, *hidden])} FROM {source} GROUP BY {columns_of(self.groups, 'q.')}"
        return printed(text)

    def fold(self) -> Sql | None:
        """Return the query for rows of the groups in ``TABLE__reached``, from their old rows and the derivations lost
        and gained (``TABLE__minus`` and ``TABLE__plus``); ``_stale`` marks groups to recompute. None if all groups
        have to be, as with sums of floats."""
        if any(column.floating for column in self.columns):
            return None
        table, keys = self.table, columns_of(self.groups)
        extremes = [column for column in self.columns if column.extreme]
        sums = [column for column in self.columns if column.summed]
        lost = ["COUNT(*) AS _rows"]
        lost += [f"SUM(CAST(d.{c.name} AS DECIMAL(38, {c.scale}))) AS _sum_{c.name}" for c in sums]
        gained = list(lost)
        lost += [f"COUNT(CASE WHEN d.{c.name} = s.{c.name} THEN 1 END) AS _ties_{c.name}" for c in extremes]
        gained += [f"COUNT(CASE WHEN d.{c.name} = b.{c.name} THEN 1 END) AS _ties_{c.name}" for c in extremes]
        gained += [f"MIN(b.{c.name}) AS {c.name}" for c in extremes]
        best = ", ".join([keys, *(f"{c.function.upper()}({c.name}) AS {c.name}" for c in extremes)])
        joined = f" JOIN (SELECT {best} FROM {table.plus} GROUP BY {keys}) AS b USING ({keys})" if extremes else ""
        old = f" JOIN {table} AS s USING ({keys})" if extremes else ""
        return printed(
            f"WITH _lost AS (SELECT {columns_of(self.groups, 'd.')}, {', '.join(lost)} FROM {table.minus} AS d{old} "
            f"GROUP BY {columns_of(self.groups, 'd.')}), "
            f"_gained AS (SELECT {columns_of(self.groups, 'd.')}, {', '.join(gained)} FROM {table.plus} AS d{joined} "
            f"GROUP BY {columns_of(self.groups, 'd.')}), "
            f"_folded AS (SELECT {self._folded()} FROM {table.reached} AS k "
            f"LEFT JOIN {table} AS s ON {matches(self.groups, 's')} "
            f"LEFT JOIN _lost AS l ON {matches(self.groups, 'l')} "
            f"LEFT JOIN _gained AS p ON {matches(self.groups, 'p')}) "
            f"SELECT {self._published()} FROM _folded AS f"
        )

    def _folded(self) -> str:
        """Return the select list with new row counts and sums, and for extrema the old and gained values and ties."""
        parts = [f"k.{name}" for name in self.groups]
        parts.append("COALESCE(s._rows, 0) - COALESCE(l._rows, 0) + COALESCE(p._rows, 0) AS _rows")
        for column in self.columns:
            name = column.name
            if column.summed:
                # Beside a plain 0, Spark leaves ten digits before the point.
                zero = f"CAST(0 AS DECIMAL(38, {column.scale}))" if column.scale > 28 else "0"
                total = " ".join(
                    f"{sign} COALESCE({alias}._sum_{name}, {zero})"
                    for sign, alias in (("", "s"), ("-", "l"), ("+", "p"))
                )
                total = f"CAST({total} AS DECIMAL(38, {column.scale}))"
                parts.append(f"{f'TRY({total})' if column.decimal else total} AS _sum_{name}")
            if column.extreme:
                parts += [
                    f"s.{name} AS _old_{name}",
                    f"COALESCE(s._ties_{name}, 0) - COALESCE(l._ties_{name}, 0) AS _held_{name}",
                    f"p.{name} AS _new_{name}",
                    f"COALESCE(p._ties_{name}, 0) AS _came_{name}",
                ]
        return ", ".join(parts)

    def _published(self) -> str:
        """Return the select list with the columns of the relation, its hidden columns and ``_stale``."""
        parts = [f"f.{name}" for name in self.groups]
        hidden = ["f._rows"]
        stale = []
        for column in self.columns:
            name = column.name
            if not column.extreme:
                rows = "f._rows" if column.function == "count" else "NULLIF(f._rows, 0)"
                parts.append(f"{column.value(rows, f'f._sum_{name}')} AS {name}")
                hidden += [f"f._sum_{name}"] if column.summed else []
                continue
            better = "<" if column.function == "min" else ">"
            replaced = f"(f._old_{name} IS NULL OR f._new_{name} {better} f._old_{name})"
            joined = f"f._new_{name} = f._old_{name}"
            replaces = f"f._new_{name} IS NOT NULL AND {replaced}"
            parts.append(f"CASE WHEN {replaces} THEN f._new_{name} ELSE f._old_{name} END AS {name}")
            hidden.append(
                f"CASE WHEN {replaces} THEN f._came_{name} "
                f"WHEN {joined} THEN f._held_{name} + f._came_{name} ELSE f._held_{name} END AS _ties_{name}"
            )
            stale.append(f"f._held_{name} = 0 AND (f._new_{name} IS NULL OR NOT ({replaced} OR {joined}))")
        outdated = " OR ".join(stale) or "FALSE"
        return ", ".join([*parts, *hidden, f"f._rows > 0 AND ({outdated}) AS _stale"])


def columns_of(names: Iterable[str], prefix: str = "") -> str:
    """Return names as a select list, each with a prefix."""
    return ", ".join(prefix + name for name in names)


def matches(groups: Iterable[str], alias: str) -> str:
    """Return the condition that a row is of the group ``k``."""
    return " AND ".join(f"{alias}.{name} = k.{name}" for name in groups)


def printed(text: str) -> Sql:
    """Parse DuckDB SQL and print it in both dialects."""
    return print_sql(sqlglot.parse_one(text, dialect="duckdb"))
