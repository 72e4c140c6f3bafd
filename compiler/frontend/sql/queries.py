"""Queries of SQL, as alternatives of what holds and the values of a row.

    SELECT p.name, b.name FROM part p LEFT JOIN brand b ON p.brand = b.id

has the branches

    part(id, name, brand), brand(brand, name_2)              name, name_2
    part(id, name, brand), !brand(brand, _)                  name, null

A query around another is a row ``outer`` of that. If ``exact``, each copy of a row of the query has one derivation;
otherwise copies do not matter. Queries in FROM are written out where they stand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from sqlglot import exp

from ...ir import syntax, typed
from ...ir.syntax_printer import literal_text
from . import subqueries
from .expressions import (
    FALSE,
    MOST_CASES,
    MOST_LISTED,
    TRUE,
    SqlExpressions,
    common,
    compared,
    may_hold,
    met_types,
    null_or_not,
    test,
)
from .grouping import Groups
from .joins import Named, named, rows_of
from .numbering import MOST, first_rows_of, numbered, windows_of, with_aliases
from .program import SqlProgram
from .recursion import recursive
from .scope import Branch, Case, Literals, Row, SqlTable, SqlValue, fold, starred
from .subqueries import exist, variables_around
from .text import Unsupported, different_names, only, placed, shown, shown_name
from .types import SqlTypes


@dataclass(frozen=True)
class Result:
    """The rows of a query: the names of its columns, and branches; these as they were first made are ``raw``. If
    ``distinct``, equal rows are one; if ``unique``, there are none. Columns have ``types`` also without branches."""

    names: tuple[str, ...]
    branches: tuple[Branch, ...]
    raw: tuple[Branch, ...]
    types: tuple[typed.Type, ...]
    distinct: bool = False
    unique: bool = False


Queried = Mapping[str, Named | SqlTable]
"""What names of WITH stand for: a query, or a relation."""


class Queries:
    """Translates the queries of a statement. ``known`` are the names of WITH that it can read; what relations are made
    of them is called after ``name``."""

    def __init__(self, program: SqlProgram, name: str, known: Queried) -> None:
        self.program, self.name, self.known = program, name, known
        self.types = SqlTypes(program.dialect)

    def reading(self, known: Queried) -> Queries:
        """Return what translates a query that can read these names of WITH."""
        return Queries(self.program, self.name, known)

    def table(self, name: str, node: exp.Expr) -> Named | SqlTable:
        """Return what a name stands for; raise Unsupported if there is no such table."""
        named = {n: table for n, table in self.program.tables.items() if n in self.program.named_by_users}
        found = self.known.get(name) or named.get(name)
        if found is not None:
            return found
        if name in self.program.views:
            return Named(self.program.views[name], (), {})
        if name in self.program.broken:
            raise Unsupported("", "", node)
        known = ", ".join(sorted({*self.known, *named, *self.program.views})) or "none"
        raise Unsupported("E0794", f"there is no table `{name}`", node, f"tables and views so far: {known}")

    def result(self, node: exp.Expr, outer: Row | None, exact: bool) -> Result:
        """Return the rows of a query."""
        if isinstance(node, exp.Subquery):
            only(node, "this", "alias")
            return self.result(node.this, outer, exact)
        if node.args.get("with_") is not None:
            inner = self.reading(self.with_known(node.args["with_"], outer))
            plain = node.copy()
            plain.set("with_", None)
            return inner.result(plain, outer, exact)
        with placed(node):
            match node:
                case exp.Select():
                    return self._select(node, outer, exact)
                case exp.Union() | exp.Except() | exp.Intersect():
                    return self._combined(node, outer, exact)
                case exp.Values():
                    return self._values(node)
        raise Unsupported("E0792", f"{shown(node)} is not supported as a query", node)

    def with_known(self, node: exp.With, outer: Row | None) -> Queried:
        """Return what can be read behind a WITH."""
        known = dict(self.known)
        only(node, "expressions", "recursive")
        for member in node.expressions:
            only(member, "this", "alias", "materialized")
        if node.args.get("recursive"):
            return recursive(self, node, known, outer)
        for member in node.expressions:
            known[shown_name(member.args["alias"].this)] = named(member, known)
        return known

    def _select(self, node: exp.Select, outer: Row | None, exact: bool) -> Result:
        """Return the rows of a SELECT."""
        parts = (
            "expressions",
            "from_",
            "joins",
            "where",
            "group",
            "having",
            "distinct",
            "qualify",
            "order",
            "limit",
            "offset",
        )
        only(node, *parts, "operation_modifiers", "kind")
        first = first_rows_of(node)
        # What a query around reads of each group does not tell what LIMIT keeps.
        windows = windows_of(node, MOST if first else self.program.most.get(id(node), MOST))
        if node.args.get("order") is not None and not first:
            message = "ORDER BY without LIMIT has no effect: a view has no order"
            self.program.diagnostics.report("W0813", message, self.program.span(node.args["order"]))
        distinct = node.args.get("distinct")
        if distinct is not None and distinct.args.get("on") is not None:
            distinct = None
        exact = exact and distinct is None
        grouping = Groups(self, node)
        copies = exact or grouping.counts or bool(windows or first)
        rows, sample = rows_of(self, node, outer, copies)
        where = node.args.get("where")
        if where is not None:
            grouping.refuse(where)
            rows = self.filtered(rows, where.this, copies)
        if grouping.calls or grouping.keys or node.args.get("having") is not None:
            rows = grouping.rows(rows, outer, sample)
            sample = rows[0]
            if node.args.get("having") is not None:
                rows = self.filtered(rows, node.args["having"].this, exact)
        steps = [*windows, *first]
        for place, numbering in enumerate(steps):
            rows = numbered(self, node, rows, numbering, steps[place + 1 :], sample, grouping.is_selected)
            sample = rows[0]
            if place == len(windows) - 1 and node.args.get("qualify") is not None:
                rows = self.filtered(rows, with_aliases(node.args["qualify"].this, node), True)
        branches: list[Branch] = []
        for row in rows:
            items = list(self._items(node, row))
            expressions = SqlExpressions(self, exact)
            for chosen in product(*(expressions.values(item, row) for _, item in items)):
                literals = (*row.literals, *(literal for case in chosen for literal in case[0]))
                if not may_hold(literals):
                    continue
                branches.append(Branch(literals, tuple(value for _, value in chosen), self.program.span(node)))
            if len(branches) > MOST_CASES:
                help = "write parts of it as views with DISTINCT"
                raise Unsupported("E0792", f"this query has more than {MOST_CASES} cases", node, help)
        items = list(self._items(node, sample))
        names = [name for name, _ in items]
        loose = SqlExpressions(self, False)
        types = [common([value for _, value in loose.values(item, sample)]) for _, item in items]
        return Result(
            tuple(names),
            tuple(self.simplified(branches, outer)),
            tuple(branches),
            tuple(types),
            distinct is not None,
            not windows and not first and grouping.is_selected,
        )

    def simplified(self, branches: Sequence[Branch], outer: Row | None) -> Iterator[Branch]:
        """Yield branches in few words, without those that have no rows."""
        around = frozenset(variables_around(outer))
        for branch in branches:
            made = self.program.simplified(branch, around)
            if made is not None:
                yield made

    def _items(self, node: exp.Select, row: Row) -> Iterator[tuple[str, exp.Expr]]:
        """Yield the names and expressions of a SELECT, with columns in place of ``*``."""
        for place, item in enumerate(node.expressions):
            columns = starred(item, row)
            if columns is None:
                yield self._name(item, place), item.this if isinstance(item, exp.Alias) else item
            for column in columns or ():
                yield column.name, column

    def _name(self, item: exp.Expr, place: int) -> str:
        """Return the name of a column of a SELECT."""
        if isinstance(item, exp.Alias):
            return shown_name(item.args["alias"])
        if isinstance(item, exp.Column):
            return shown_name(item.this)
        if isinstance(item, exp.AggFunc | exp.Cast | exp.Coalesce | exp.Case):
            return item.key
        return f"column{place + 1}"

    def filtered(self, rows: Sequence[Row], condition: exp.Expr, exact: bool) -> list[Row]:
        """Return the rows for which a condition is true."""
        expressions = SqlExpressions(self, exact)
        return [row.where(literals) for row in rows for literals in expressions.holds(condition, row, TRUE)]

    def _combined(self, node: exp.SetOperation, outer: Row | None, exact: bool) -> Result:
        """Return the rows of a UNION, EXCEPT or INTERSECT."""
        only(node, "this", "expression", "distinct")
        distinct = node.args.get("distinct") is not False
        if isinstance(node, exp.Union):
            copies = exact and not distinct
            left, right = (
                self.counted(self.result(side, outer, copies), copies) for side in (node.this, node.expression)
            )
            self._check_widths(left, right, node)
            return Result(
                left.names,
                (*left.branches, *right.branches),
                (*left.raw, *right.raw),
                met_types(left.types, right.types),
                distinct,
            )
        if not distinct:
            raise Unsupported("E0792", f"{node.key.upper()} ALL is not supported", node, f"write {node.key.upper()}")
        left, right = (self.result(side, outer, False) for side in (node.this, node.expression))
        self._check_widths(left, right, node)
        branches: list[Branch] = []
        for whole in left.branches:
            for chosen in product(*map(null_or_not, whole.values)):
                tests = tuple(one for more, _ in chosen for one in more)
                branch = Branch((*whole.literals, *tests), tuple(value for _, value in chosen))
                if not may_hold(branch.literals):
                    continue

                def same(row: Row, branch: Branch = branch) -> list[Literals]:
                    found: list[Literals] = []
                    for other in right.branches:
                        pairs = zip(branch.values, other.values, strict=True)
                        for literals in product(*(equal_or_null(*pair) for pair in pairs)):
                            found.append((*other.literals, *(one for part in literals for one in part)))
                    return found

                outcome = FALSE if isinstance(node, exp.Except) else TRUE
                for literals in exist(self, same, Row(branch.literals, (), outer), outcome, False, "other"):
                    branches.append(Branch((*branch.literals, *literals), branch.values))
        types = met_types(left.types, right.types)
        return Result(left.names, tuple(self.simplified(branches, outer)), tuple(branches), types, True)

    def counted(self, result: Result, exact: bool) -> Result:
        """Return a result whose copies are right where they count."""
        return self.read(result) if exact and result.distinct else result

    def read(self, result: Result) -> Result:
        """Return a result that reads a relation with the rows of another."""
        names = different_names(result.names)
        table = self.program.relation(f"{self.name}_part", names, result.branches, types=result.types)
        atom, columns = self.program.read(table, self.program.where)
        branches = (Branch((atom,), tuple(columns.values())),)
        return Result(result.names, branches, branches, result.types)

    def _check_widths(self, left: Result, right: Result, node: exp.Expr) -> None:
        if len(left.names) != len(right.names):
            message = f"one side has {len(left.names)} columns, the other {len(right.names)}"
            raise Unsupported("E0794", message, node)

    def _values(self, node: exp.Values) -> Result:
        """Return the rows of VALUES."""
        only(node, "expressions", "alias")
        expressions, branches = SqlExpressions(self, True), list[Branch]()
        for item in node.expressions:
            items = item.expressions if isinstance(item, exp.Tuple) else [item]
            cases = [expressions.values(one, Row(())) for one in items]
            if any(len(case) > 1 for case in cases) or (branches and len(cases) != len(branches[0].values)):
                raise Unsupported("E0792", "VALUES takes constants, as many in each row", item)
            branches.append(Branch((), tuple(case[0][1] for case in cases)))
        names = tuple(f"column{place + 1}" for place in range(len(branches[0].values)))
        types = tuple(common(branch.values[place] for branch in branches) for place in range(len(names)))
        result = Result(names, tuple(branches), tuple(branches), types)
        if len(branches) <= MOST_LISTED:
            return result
        # Equal rows are told apart by a number.
        span = self.program.where
        rows = [syntax.AtomNode("", tuple(v.expression for v in b.values), None, None, span) for b in branches]
        texts = {literal_text(row) for row in rows}
        twice = len(texts) < len(branches)
        numbers = [SqlValue(syntax.ConstantNode(n, "int", span), typed.INT) for n in range(len(branches))]
        pairs = zip(branches, numbers, strict=True)
        given = [Branch((), (*branch.values, number)) for branch, number in pairs] if twice else branches
        read = self.read(Result((*names, "row") if twice else names, tuple(given), (), (*types, typed.INT)))
        kept = tuple(replace(branch, values=branch.values[: len(names)]) for branch in read.branches)
        return Result(names, kept, kept, types)

    def scalar(self, node: exp.Expr, row: Row, exact: bool) -> list[Case]:
        """Return the cases of a query as a value."""
        return subqueries.scalar(self, node, row, exact)

    def exists(self, query: exp.Expr, row: Row, outcome: str, exact: bool) -> list[Literals]:
        """Return when a query has rows, or none."""
        return subqueries.exists(self, query, row, outcome, exact)

    def among(
        self, node: exp.Expr, query: exp.Expr, row: Row, outcome: str, exact: bool, op: str = "="
    ) -> list[Literals]:
        """Return when a value is among the rows of a query, or compares with any of them."""
        return subqueries.among(self, node, query, row, outcome, exact, op)

    def canonical(self, node: exp.Expr, row: Row) -> exp.Expr:
        """Return an expression in which columns have the names of their tables."""

        def named_column(part: exp.Expr) -> exp.Expr:
            if isinstance(part, exp.Column) and not isinstance(part.this, exp.Star):
                table = part.args.get("table")
                return exp.column(fold(part.this), fold(table) if table is not None else self._owner(part, row.base))
            return part

        plain = node.this if isinstance(node, exp.Paren) else node
        return plain.copy().transform(named_column)

    @staticmethod
    def _owner(column: exp.Column, row: Row) -> str | None:
        name = fold(column.this)
        owners = [source.alias for source in row.sources if name in source.columns]
        return owners[0] if owners and name not in row.merged else None


def equal_or_null(left: SqlValue, right: SqlValue) -> list[Literals]:
    """Return when two values are the same, or both null."""
    found = compared("=", left, right, TRUE)
    if left.nullable and right.nullable:
        found.append(tuple(test(value, "=") for value in (left, right) if not value.is_null))
    return found
