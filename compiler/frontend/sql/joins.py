"""FROM: its items, and how they are joined.

A row of a LEFT JOIN has two cases: another item meets it, or no row of that item does; then the columns of the item are
null.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from ...ir import syntax
from .expressions import FALSE, MOST_CASES, TRUE, SqlExpressions, typed_alike
from .numbering import read_at_most
from .scope import Literals, Row, Source, SqlTable, SqlValue, null_of
from .subqueries import exist
from .text import Unsupported, only, shown_name

if TYPE_CHECKING:
    from .queries import Queried, Queries

Item = tuple[Literals, Source]
"""One way to read an item: what holds, and its columns."""


@dataclass(frozen=True)
class Named:
    """A query of WITH: the names of its columns, if they are given, and what it can read itself."""

    query: exp.Expr
    columns: tuple[str, ...]
    known: Queried


def named(member: exp.CTE, known: Queried) -> Named:
    """Return a member of WITH."""
    columns = tuple(shown_name(column) for column in (member.args["alias"].args.get("columns") or ()))
    return Named(member.this, columns, dict(known))


def rows_of(queries: Queries, node: exp.Select, outer: Row | None, exact: bool) -> tuple[list[Row], Row]:
    """Return the rows of a FROM, and one without its conditions, which has the columns even if there are none."""
    start, empty = node.args.get("from_"), Row((), (), outer)
    if start is None:
        return [empty], empty
    only(start, "this")
    joins = [*(start.this.args.get("joins") or ()), *(node.args.get("joins") or ())]
    for item in (start.this, *(join.this for join in joins)):
        if isinstance(item, exp.Subquery):
            queries.program.most[id(item.this)] = read_at_most(node, item)
    items, columns = _read(queries, start.this, exact)
    rows = [_beside(empty, item) for item in items]
    sample = _beside(empty, ((), columns))
    for join in joins:
        rows, sample = _Join(queries, join, sample, exact).result(rows)
        if len(rows) > MOST_CASES:
            message = f"this FROM has more than {MOST_CASES} cases"
            raise Unsupported("E0792", message, node, "write parts of it as views")
    return rows, sample


def _beside(row: Row, item: Item) -> Row:
    """Return a row with another item."""
    literals, source = item
    if source.alias and source.alias in [known.alias for known in row.sources]:
        message = f"two tables of this FROM are called `{source.alias}`"
        raise Unsupported("E0794", message, None, "write AS and another name")
    return replace(row, literals=(*row.literals, *literals), sources=(*row.sources, source))


def _read(queries: Queries, node: exp.Expr, exact: bool) -> tuple[list[Item], Source]:
    """Return the ways to read an item of a FROM, and its columns."""
    alias, span = node.args.get("alias"), queries.program.span(node)
    names = [shown_name(column) for column in (alias.args.get("columns") or ())] if alias is not None else []
    called = shown_name(alias.this) if alias is not None and alias.this is not None else ""
    if isinstance(node, exp.Table):
        only(node, "this", "alias", "joins", "db")
        if not isinstance(node.this, exp.Identifier):
            raise Unsupported("E0792", f"`{node.this.key}` is not supported as a table", node)
        name = table_name(node)
        found, called = queries.table(name, node), called or name
        if isinstance(found, SqlTable):
            if exact and found.loose:
                message = f"`{name}` keeps the copies of a recursion (UNION ALL), which may have no end"
                raise Unsupported(
                    "E0795", message, node, "write UNION, by which equal rows are one, or select DISTINCT"
                )
            atom, columns = queries.program.read(found, span)
            source = _renamed(Source(called, columns), names, node)
            return [((atom,), source)], source
        result = queries.reading(found.known).result(found.query, None, exact)
        if found.columns:
            result = replace(result, names=checked_names(found.columns, result.names, node))
    elif isinstance(node, exp.Subquery | exp.Values):
        result = queries.result(node, None, exact)
    else:
        raise Unsupported("E0792", f"{node.key.upper()} is not supported in FROM", node)

    def as_source(values: Sequence[SqlValue]) -> Source:
        own = different_names(result.names)
        return _renamed(Source(called, dict(zip(own, values, strict=True))), names, node)

    ways = [(branch.literals, as_source(branch.values)) for branch in queries.counted(result, exact).branches]
    columns_alone = zip(result.names, result.types, strict=True)
    return ways, as_source([queries.program.variable(name, type_, True, span) for name, type_ in columns_alone])


class _Join:
    """A join of the rows of a ``sample`` with another item."""

    def __init__(self, queries: Queries, node: exp.Join, sample: Row, exact: bool) -> None:
        only(node, "this", "on", "using", "side", "kind", "method")
        self.queries, self.node, self.sample, self.exact = queries, node, sample, exact
        self.side, kind, method = (str(node.args.get(part) or "").upper() for part in ("side", "kind", "method"))
        if kind not in ("", "INNER", "CROSS", "OUTER") or method not in ("", "NATURAL"):
            raise Unsupported("E0792", f"{kind or method} JOIN is not supported", node, "write EXISTS or NOT EXISTS")
        if self.side not in ("", "LEFT", "RIGHT", "FULL"):
            raise Unsupported("E0792", f"{self.side} JOIN is not supported", node)
        self.items, self.own = _read(queries, node.this, exact)
        #: The same, where copies do not matter.
        self.loose = _read(queries, node.this, False)[0] if exact and self.side in ("LEFT", "FULL") else self.items
        self.merged = [shown_name(column) for column in (node.args.get("using") or ())]
        if method == "NATURAL":
            self.merged = [n for n in self.own.columns if any(n in s.columns for s in sample.sources)]

    def result(self, rows: Sequence[Row]) -> tuple[list[Row], Row]:
        """Return joined rows, and their sample."""
        found = [row for left in rows for row in self._joined(left)]
        if self.side in ("RIGHT", "FULL"):
            found += [row for item in self.items for row in self._alone(item, rows)]
        sample = _beside(self.sample, ((), self.own))
        return found, replace(sample, merged={**sample.merged, **{n: self.own.columns[n] for n in self.merged}})

    def _joined(self, left: Row) -> list[Row]:
        """Return the rows that one of the left side becomes."""
        found = []
        for item in self.items:
            row = _beside(left, item)
            kept = {n: self._right(row, n) if self.side == "RIGHT" else self._value(left, n) for n in self.merged}
            for literals in self._met(left, row, self.exact):
                found.append(replace(row.where(literals), merged={**left.merged, **kept}))
        if self.side not in ("LEFT", "FULL"):
            return found

        def matches(left: Row) -> list[Literals]:
            return [
                (*item[0], *literals) for item in self.loose for literals in self._met(left, _beside(left, item), False)
            ]

        absent = Source(self.own.alias, {n: null_of(v) for n, v in self.own.columns.items()})
        kept = {n: self._value(left, n) for n in self.merged}
        for literals in exist(self.queries, matches, left, FALSE, self.exact, "match"):
            row = _beside(left.where(literals), ((), absent))
            found.append(replace(row, merged={**left.merged, **kept}))
        return found

    def _alone(self, item: Item, rows: Sequence[Row]) -> list[Row]:
        """Return the rows of a right side that meet none of the left one."""
        literals, source = item

        def matches(right: Row) -> list[Literals]:
            return [
                (*left.literals, *more)
                for left in rows
                for more in self._met(left, replace(right, sources=(*left.sources, *right.sources)), False)
            ]

        absent = [Source(s.alias, {n: null_of(v) for n, v in s.columns.items()}) for s in self.sample.sources]
        kept = {n: source.columns[n] for n in self.merged}
        right = Row(literals, (source,), self.sample.outer)
        return [
            Row((*literals, *more), (*absent, source), self.sample.outer, merged=kept)
            for more in exist(self.queries, matches, right, FALSE, self.exact, "match")
        ]

    def _met(self, left: Row, row: Row, exact: bool) -> list[Literals]:
        """Return when the last item of a row meets the others, which are those of the left side."""
        if self.merged:
            pairs = (typed_alike((self._value(left, n), self._right(row, n))) for n in self.merged)
            span = self.queries.program.span(self.node)
            return [tuple(syntax.ComparisonNode("=", one.expression, two.expression, span) for one, two in pairs)]
        on = self.node.args.get("on")
        return [()] if on is None else SqlExpressions(self.queries, exact).holds(on, row, TRUE)

    def _right(self, row: Row, name: str) -> SqlValue:
        return self._value(replace(row, sources=row.sources[-1:], merged={}, outer=None), name)

    def _value(self, row: Row, name: str) -> SqlValue:
        """Return the value of a column of USING."""
        column = exp.column(exp.to_identifier(name, quoted=True))
        column.this.meta.update(next((part.meta for part in self.node.walk() if "start" in part.meta), {}))
        return row.find(column)[2]


def table_name(node: exp.Table) -> str:
    """Return the name of the relation of a table: that of its schema is part of it."""
    schema = node.args.get("db")
    return f"{shown_name(schema)}_{shown_name(node.this)}" if schema is not None else shown_name(node.this)


def _renamed(source: Source, names: Sequence[str], node: exp.Expr) -> Source:
    """Return a source whose columns have other names, if there are any."""
    if not names:
        return source
    chosen = checked_names(names, tuple(source.columns), node)
    return replace(source, columns=dict(zip(chosen, source.columns.values(), strict=True)))


def checked_names(names: Sequence[str], columns: Sequence[str], node: exp.Expr) -> tuple[str, ...]:
    """Return names for columns; raise Unsupported if there are not as many."""
    if len(names) != len(columns):
        raise Unsupported("E0794", f"{len(names)} names are given for {len(columns)} columns", node)
    return tuple(names)


def different_names(names: Sequence[str]) -> list[str]:
    """Return names of columns that differ: a second one has a number."""
    made: list[str] = []
    for name in names:
        number, chosen = 1, name
        while chosen in made:
            number += 1
            chosen = f"{name}_{number}"
        made.append(chosen)
    return made
