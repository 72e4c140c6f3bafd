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
from .expressions import FALSE, MOST_CASES, TRUE, SqlExpressions, common_of, typed_alike
from .numbering import read_at_most
from .scope import Literals, Row, Source, SqlTable, SqlValue, null_of
from .subqueries import exist
from .text import Unsupported, different_names, only, placed, shown, shown_name

if TYPE_CHECKING:
    from .queries import Queried, Queries


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
    start = node.args.get("from_")
    if start is None:
        return [Row((), (), outer)], Row((), (), outer)
    only(start, "this")
    joins = node.args.get("joins") or ()
    for item in (start.this, *(join.this for join in (*(start.this.args.get("joins") or ()), *joins))):
        if isinstance(item, exp.Subquery):
            queries.program.most[id(item.this)] = read_at_most(node, item)
    rows, sample = _read(queries, start.this, outer, exact)
    return _joined(queries, rows, sample, joins, exact)


def _joined(
    queries: Queries, rows: list[Row], sample: Row, joins: Sequence[exp.Join], exact: bool
) -> tuple[list[Row], Row]:
    """Return rows joined with others, and their sample."""
    for join in joins:
        rows, sample = _Join(queries, join, sample, exact).result(rows)
        if len(rows) > MOST_CASES:
            message = f"this FROM has more than {MOST_CASES} cases"
            raise Unsupported("E0792", message, join, "write parts of it as views")
    return rows, sample


def _beside(left: Row, right: Row) -> Row:
    """Return what two rows are together."""
    for source in right.sources:
        if source.alias and source.alias in [known.alias for known in left.sources]:
            message = f"two tables of this FROM are called `{source.alias}`"
            raise Unsupported("E0794", message, None, "write AS and another name")
    merged = {**left.merged, **right.merged}
    return Row((*left.literals, *right.literals), (*left.sources, *right.sources), left.outer, merged=merged)


def _absent(row: Row) -> Row:
    """Return a row of nulls."""
    return replace(row, literals=()).with_values([null_of(value) for value in row.values])


def _read(queries: Queries, node: exp.Expr, outer: Row | None, exact: bool) -> tuple[list[Row], Row]:
    """Return the rows of an item of a FROM, with those that it is joined with in parentheses, and their sample."""
    if isinstance(node, exp.Subquery) and _is_item(node.this):
        only(node, "this", "joins")
        rows, sample = _read(queries, node.this, outer, exact)
    else:
        rows, sample = _read_alone(queries, node, outer, exact)
    return _joined(queries, rows, sample, node.args.get("joins") or (), exact)


def _is_item(node: exp.Expr) -> bool:
    """Return whether what is in parentheses is an item of a FROM, and no query."""
    nested = isinstance(node, exp.Subquery) and (node.alias or node.args.get("joins") or _is_item(node.this))
    return isinstance(node, exp.Table) or bool(nested)


def _read_alone(queries: Queries, node: exp.Expr, outer: Row | None, exact: bool) -> tuple[list[Row], Row]:
    """Return the rows of a table or a query in FROM, and their sample."""
    alias, span = node.args.get("alias"), queries.program.span(node)
    names = [shown_name(column) for column in (alias.args.get("columns") or ())] if alias is not None else []
    called = shown_name(alias.this) if alias is not None and alias.this is not None else ""

    def as_row(literals: Literals, columns: Sequence[str], values: Sequence[SqlValue]) -> Row:
        own = checked_names(names, columns, node) if names else different_names(columns)
        return Row(literals, (Source(called, dict(zip(own, values, strict=True))),), outer)

    if isinstance(node, exp.Table):
        only(node, "this", "alias", "joins", "db")
        if not isinstance(node.this, exp.Identifier):
            raise Unsupported("E0792", f"{shown(node.this)} is not supported as a table", node)
        name = table_name(node)
        found, called = queries.table(name, node), called or name
        if isinstance(found, SqlTable):
            if exact and found.loose:
                message = f"`{name}` keeps the copies of a recursion (UNION ALL), which may have no end"
                raise Unsupported(
                    "E0795", message, node, "write UNION, by which equal rows are one, or select DISTINCT"
                )
            atom, known = queries.program.read(found, span)
            row = as_row((atom,), [*known], [*known.values()])
            return [row], replace(row, literals=())
        result = queries.reading(found.known).result(found.query, None, exact)
        if found.columns:
            result = replace(result, names=checked_names(found.columns, result.names, node))
    elif isinstance(node, exp.Subquery | exp.Values):
        only(node, "this", "alias", "joins", "expressions")
        result = queries.result(node.this if isinstance(node, exp.Subquery) else node, None, exact)
    else:
        raise Unsupported("E0792", f"{shown(node)} is not supported in FROM", node)
    pairs = zip(result.names, result.types, strict=True)
    examples = [queries.program.variable(name, type_, True, span) for name, type_ in pairs]
    branches = queries.counted(result, exact).branches
    return [as_row(b.literals, result.names, b.values) for b in branches], as_row((), result.names, examples)


class _Join:
    """A join of the rows of a ``sample`` with another item."""

    def __init__(self, queries: Queries, node: exp.Join, sample: Row, exact: bool) -> None:
        only(node, "this", "on", "using", "side", "kind", "method")
        self.queries, self.node, self.sample, self.exact = queries, node, sample, exact
        self.side, self.kind, method = (str(node.args.get(part) or "").upper() for part in ("side", "kind", "method"))
        self.tests = {"SEMI": TRUE, "ANTI": FALSE}.get(self.kind)
        if self.kind not in ("", "INNER", "CROSS", "OUTER", "SEMI", "ANTI") or method not in ("", "NATURAL"):
            raise Unsupported("E0792", f"{method or self.kind} JOIN is not supported", node)
        if self.side not in ("", "LEFT", "RIGHT", "FULL") or (self.tests and self.side not in ("", "LEFT")):
            raise Unsupported("E0792", f"{self.side} {self.kind} JOIN".replace("  ", " ") + " is not supported", node)
        self.items, self.own = _read(queries, node.this, sample.outer, exact and not self.tests)
        #: The same, where copies do not matter.
        twice = exact and self.side in ("LEFT", "FULL") and not self.tests
        self.loose = _read(queries, node.this, sample.outer, False)[0] if twice else self.items
        self.merged = [shown_name(column) for column in (node.args.get("using") or ())]
        if method == "NATURAL":
            every = dict.fromkeys(name for source in self.own.sources for name in source.columns)
            self.merged = [n for n in every if any(n in s.columns for s in sample.sources)]

    def result(self, rows: Sequence[Row]) -> tuple[list[Row], Row]:
        """Return joined rows, and their sample."""
        if self.tests:
            found = [row.where(more) for row in rows for more in self._meets_any(row, self.tests)]
            return found, self.sample
        found = [row for left in rows for row in self._joined(left)]
        if self.side in ("RIGHT", "FULL"):
            found += [row for right in self.items for row in self._alone(right, rows)]
        return found, self._together(self.sample, self.own, self.own)

    def _together(self, left: Row, right: Row, kept: Row) -> Row:
        """Return two rows together; columns of USING are those of one that is ``kept``."""
        row = _beside(left, right)
        return replace(row, merged={**row.merged, **{n: self._value(kept, n) for n in self.merged}})

    def _joined(self, left: Row) -> list[Row]:
        """Return the rows that one of the left side becomes."""
        found = [
            self._together(left, right, right if self.side == "RIGHT" else left).where(literals)
            for right in self.items
            for literals in self._met(left, right, self.exact)
        ]
        if self.side in ("LEFT", "FULL"):
            whole = self._together(left, _absent(self.own), left)
            found += [whole.where(literals) for literals in self._meets_any(left, FALSE)]
        return found

    def _meets_any(self, left: Row, outcome: str) -> list[Literals]:
        """Return when a row of the left side meets any of the others, or none."""

        def matches(left: Row) -> list[Literals]:
            return [(*right.literals, *more) for right in self.loose for more in self._met(left, right, False)]

        return exist(self.queries, matches, left, outcome, self.exact, "match")

    def _alone(self, right: Row, rows: Sequence[Row]) -> list[Row]:
        """Return the rows of a right side that meet none of the left one."""

        def matches(right: Row) -> list[Literals]:
            return [(*left.literals, *more) for left in rows for more in self._met(left, right, False)]

        whole = self._together(_absent(self.sample), right, right)
        return [whole.where(more) for more in exist(self.queries, matches, right, FALSE, self.exact, "match")]

    def _met(self, left: Row, right: Row, exact: bool) -> list[Literals]:
        """Return when two rows meet."""
        if self.merged:
            pairs = [typed_alike((self._value(left, n), self._value(right, n))) for n in self.merged]
            with placed(self.node):
                for one, two in pairs:
                    common_of(one.type, two.type, "cannot be compared")
            span = self.queries.program.span(self.node)
            return [tuple(syntax.ComparisonNode("=", one.expression, two.expression, span) for one, two in pairs)]
        on = self.node.args.get("on")
        return [()] if on is None else SqlExpressions(self.queries, exact).holds(on, _beside(left, right), TRUE)

    def _value(self, row: Row, name: str) -> SqlValue:
        """Return the value of a column of USING."""
        column = exp.column(exp.to_identifier(name, quoted=True))
        column.this.meta.update(next((part.meta for part in self.node.walk() if "start" in part.meta), {}))
        return replace(row, outer=None).find(column)


def table_name(node: exp.Table) -> str:
    """Return the name of the relation of a table: that of its schema is part of it."""
    schema = node.args.get("db")
    return f"{shown_name(schema)}_{shown_name(node.this)}" if schema is not None else shown_name(node.this)


def checked_names(names: Sequence[str], columns: Sequence[str], node: exp.Expr) -> tuple[str, ...]:
    """Return names for columns; raise Unsupported if there are not as many."""
    if len(names) != len(columns):
        raise Unsupported("E0794", f"{len(names)} names are given for {len(columns)} columns", node)
    return tuple(names)
