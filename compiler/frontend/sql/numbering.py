"""Numbered rows of SQL: row_number, QUALIFY, DISTINCT ON and LIMIT, as the first few of an order.

    SELECT who, row_number() OVER (PARTITION BY team ORDER BY points DESC) AS place FROM game QUALIFY place <= 3

reads a relation of numbered rows:

    v_numbered(team, first<3 by points desc>, who, points) :- game(who, team, points).

Rows that are equal could not be told apart, so a query that may have such rows is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import product
from typing import TYPE_CHECKING, TypeVar, cast

from sqlglot import exp

from ...ir import syntax, typed
from ...source import Span
from .expressions import SqlExpressions, common, converted, function_name, is_widened, may_hold, test
from .functions import COMPARISONS
from .program import is_set, keys_of
from .scope import Branch, Literals, Row, SqlColumn, SqlTable, SqlValue, outside_queries, starred
from .subqueries import bound_around
from .text import NAME, Unsupported, count_of, free_name, only

if TYPE_CHECKING:
    from .queries import Queries

E = TypeVar("E", bound=exp.Expr)

MOST = 2**31 - 1
"""How many rows a group may have if all are numbered."""


@dataclass(frozen=True)
class RowNumbers:
    """How the rows of a query are numbered: the ``place`` is what stands for the number, ``by`` are the groups, and
    only the first ``limit`` rows of each are kept, without as many as are to be ``left_out``."""

    place: exp.Expr
    by: tuple[exp.Expr, ...]
    order: tuple[exp.Ordered, ...]
    limit: int = MOST
    left_out: int = 0


def windows_of(node: exp.Select, most: int) -> list[RowNumbers]:
    """Return how the rows of a SELECT are numbered by its windows. A query around it reads ``most`` of each group."""
    parts = (*node.expressions, *filter(None, [node.args.get("qualify")]))
    found = (part for whole in parts for part in outside_queries(whole) if isinstance(part, exp.Window))
    result = []
    for window in dict.fromkeys(found):
        if not isinstance(window.this, exp.RowNumber):
            message = f"the window {function_name(window.this)} is not supported"
            raise Unsupported("E0792", message, window, "row_number is, and aggregates with GROUP BY")
        only(window, "this", "partition_by", "order", "over")
        inner = window.args.get("order")
        if inner is None:
            raise Unsupported("E0792", "row_number needs an ORDER BY: which row is first is unknown", window)
        result.append(RowNumbers(window, tuple(window.args.get("partition_by") or ()), tuple(inner.expressions)))
    if len(result) == 1:
        result[0] = replace(result[0], limit=min(most, _qualified(node, result[0].place)))
    return result


def first_rows_of(node: exp.Select) -> list[RowNumbers]:
    """Return how the rows of a SELECT are numbered for DISTINCT ON, and for LIMIT and OFFSET."""
    distinct, limit, offset, order = (node.args.get(part) for part in ("distinct", "limit", "offset", "order"))
    on = distinct.args.get("on") if distinct is not None else None
    if order is not None:
        only(order, "expressions")
    ordered = tuple(with_aliases(part, node) for part in order.expressions) if order is not None else ()
    result = []
    if on is not None:
        by = tuple(on.expressions) if isinstance(on, exp.Tuple) else (on.this if isinstance(on, exp.Paren) else on,)
        if not ordered:
            raise Unsupported("E0792", "DISTINCT ON needs an ORDER BY", node)
        result.append(RowNumbers(_FIRST, by, tuple(part for part in ordered if part.this not in by), 1))
    if limit is not None or offset is not None:
        for part in filter(None, (limit, offset)):
            only(part, "expression")
        if not ordered:
            raise Unsupported("E0792", "LIMIT needs an ORDER BY: which rows it keeps is unknown", limit or offset)
        left_out = 0 if offset is None else _count(offset.expression, 0)
        most = MOST if limit is None else min(MOST, _count(limit.expression, 1) + left_out)
        result.append(RowNumbers(_PLACE, (), ordered, most, left_out))
    return result


_FIRST = exp.column("first row")
_PLACE = exp.column("row number")


def with_aliases(condition: E, node: exp.Select) -> E:
    """Return an expression with what is selected in place of its names."""
    named = {name_of(item): item.this for item in node.expressions if isinstance(item, exp.Alias)}

    def written_out(part: exp.Expr) -> exp.Expr:
        alone = isinstance(part, exp.Column) and part.args.get("table") is None
        return named[part.name.lower()].copy() if alone and part.name.lower() in named else part

    return cast(E, condition.copy().transform(written_out))


def _count(node: exp.Expr, least: int) -> int:
    """Return a number of rows, which is ``least`` or more."""
    count = count_of(node)
    if count is None or not least <= count <= MOST:
        raise Unsupported("E0792", "a number of rows must be a positive constant", node)
    return count


def _qualified(node: exp.Select, window: exp.Expr) -> int:
    """Return how many rows QUALIFY keeps at most."""
    qualify = node.args.get("qualify")
    if qualify is None:
        return MOST
    names = [name_of(item) for item in node.expressions if isinstance(item, exp.Alias) and item.this == window]
    return at_most(
        qualify.this,
        lambda part: (
            part == window
            or (isinstance(part, exp.Column) and not part.args.get("table") and part.name.lower() in names)
        ),
    )


def at_most(condition: exp.Expr, is_number: Callable[[exp.Expr], bool]) -> int:
    """Return how many of numbered rows a condition keeps at most."""
    most = MOST
    for part in condition.flatten() if isinstance(condition, exp.And) else [condition]:
        if type(part) in COMPARISONS and is_number(part.this):
            op, count = COMPARISONS[type(part)], count_of(part.expression) or 0
            if op in ("=", "<=", "<") and count - (op == "<") > 0:
                most = min(most, count - (op == "<"))
    return most


def read_at_most(node: exp.Select, query: exp.Subquery) -> int:
    """Return how many of the numbered rows of a query in its FROM a SELECT reads of each group."""
    where, inner = node.args.get("where"), query.this
    if where is None or not isinstance(inner, exp.Select):
        return MOST
    alias = query.alias.lower()
    numbers = [
        name_of(item) for item in inner.expressions if isinstance(item, exp.Alias) and isinstance(item.this, exp.Window)
    ]
    return at_most(
        where.this,
        lambda part: (
            isinstance(part, exp.Column) and part.name.lower() in numbers and part.table.lower() in ("", alias)
        ),
    )


def name_of(item: exp.Alias) -> str:
    """Return the name that an alias gives."""
    return str(item.args["alias"].name).lower()


def numbered(
    queries: Queries,
    node: exp.Select,
    rows: Sequence[Row],
    numbering: RowNumbers,
    later: Sequence[RowNumbers],
    sample: Row,
    unique: bool,
) -> list[Row]:
    """Return the numbered rows of a query, in which what is selected is known, and what they are numbered by
    ``later``; they may be known to be ``unique``."""
    program, span, outer = queries.program, queries.program.span(node), sample.outer
    by = {queries.canonical(key, sample): key for key in numbering.by}
    items = {queries.canonical(item, sample): item for item in _items(queries, node, sample, later)}
    items = {known: item for known, item in items.items() if known not in by}
    parts = [*by.values(), *items.values(), *(part.this for part in numbering.order)]
    raw = [
        Branch((*row.literals, *(one for case in chosen for one in case[0])), tuple(value for _, value in chosen))
        for row in rows
        for chosen in product(*(SqlExpressions(queries, True).values(part, row) for part in parts))
    ]
    around, bounded = bound_around(queries, raw, outer, [value for branch in raw for value in branch.values])
    if not unique and not is_set(
        program, [replace(b, values=(*b.values, *map(program.value_of, around))) for b in raw]
    ):
        help = "select a key of its rows, or write DISTINCT in a query inside"
        raise Unsupported("E0792", "rows that may be equal cannot be numbered", node, help)
    made = [program.simplified(branch, frozenset(around)) for branch in bounded if branch is not None]
    branches = [branch for branch in made if branch is not None]
    loose = SqlExpressions(queries, False)
    samples = [common([value for _, value in loose.values(part, sample)]) for part in parts]
    names = [*around, "place"]
    for part in parts[: len(by) + len(items)]:
        name = (
            part.name.lower()
            if isinstance(part, exp.Column) and NAME.fullmatch(part.name)
            else f"value{len(names) - len(around)}"
        )
        names.append(free_name(name, names))
    names = names[len(around) + 1 :]
    order_names = [f"order{place}" for place in range(len(numbering.order))]
    every = program.columns([*names, *order_names], branches, samples)
    own, rest, orders = every[: len(by)], every[len(by) : len(names)], every[len(names) :]
    outside = [program.column_of(name, branches) for name in around]
    group = frozenset(column.name for column in (*outside, *own))
    keys = [group | ({"place"} if numbering.limit > 1 else set())]
    selected = [Branch(b.literals, (*map(program.value_of, around), *b.values[: len(names)])) for b in branches]
    keys += keys_of(program, [column.name for column in (*outside, *own, *rest)], selected)
    if unique or is_set(program, selected):
        keys.append(group | {column.name for column in rest})
    columns = (*outside, *own, SqlColumn("place", typed.INT, False), *rest)
    table = SqlTable(program.relation_name(f"{queries.name}_numbered"), columns, tuple(keys))
    program.declare(table, why="numbered rows of a view")
    nodes = [program.value_of(name).expression for name in around]
    for branch in branches:
        for tests, values in converted(branch.values, [column.type for column in every]):
            ordered = values[len(names) :]
            for part, value in zip(numbering.order, ordered, strict=True):
                if is_widened(value):
                    message = "decimals cannot be ordered with others, or with integers"
                    raise Unsupported("E0793", message, part, "write CAST(... AS DOUBLE) around each")
            for more, order in _orders(ordered, numbering, [column.nullable for column in orders]):
                if may_hold((*branch.literals, *tests, *more)):
                    first = syntax.AggregateNode("first", None, False, span, numbering.limit, tuple(order))
                    shown = [value.expression for value in values[: len(names)]]
                    arguments = [*nodes, *shown[: len(by)], first, *shown[len(by) :]]
                    program.rule(table.name, arguments, (*branch.literals, *tests, *more), "made for numbers")
    given = [program.variable(c.name, c.type, c.nullable, span) for c in columns[len(around) :]]
    place = given.pop(len(by))
    known = dict(zip((*by, *items), given, strict=True)) | {queries.canonical(numbering.place, sample): place}
    variables = [value.expression for value in (*given[: len(by)], place, *given[len(by) :])]
    literals: Literals = (syntax.AtomNode(table.name, (*nodes, *variables), None, None, span),)
    if numbering.left_out:
        count = syntax.ConstantNode(numbering.left_out, "int", span)
        literals = (*literals, syntax.ComparisonNode(">", place.expression, count, span))
    if numbering.left_out and numbering.limit == numbering.left_out + 1:
        last = syntax.ConstantNode(numbering.limit, "int", span)
        literals = (*literals[:1], syntax.ComparisonNode("=", place.expression, last, span))
    sources = tuple(
        replace(source, columns={n: known.get(exp.column(n, source.alias), v) for n, v in source.columns.items()})
        for source in sample.sources
    )
    return [Row(literals, sources, outer, {**sample.computed, **known}, ungrouped=sample)]


def _items(queries: Queries, node: exp.Select, sample: Row, later: Sequence[RowNumbers]) -> Iterator[exp.Expr]:
    """Yield the expressions that are read of numbered rows."""
    later_parts = (part for one in later for part in (*one.by, *(each.this for each in one.order)))
    for item in (*node.expressions, *later_parts):
        columns = starred(item, sample)
        if columns is not None:
            yield from columns
            continue
        whole = item.this if isinstance(item, exp.Alias) else item
        if isinstance(whole, exp.Window):
            if queries.canonical(whole, sample) in sample.computed:
                yield whole
            continue
        if any(isinstance(part, exp.Window) for part in whole.walk()):
            raise Unsupported(
                "E0792", "a window is not supported in an expression", item, "compute with it in a query around"
            )
        yield whole
    qualify = node.args.get("qualify")
    if qualify is not None:
        names = {item.args["alias"].name.lower() for item in node.expressions if isinstance(item, exp.Alias)}
        for part in qualify.find_all(exp.Column):
            named = not part.table and part.name.lower() in names
            if not named and part.find_ancestor(exp.Window) is None and _is_of(part, sample.base):
                yield part


def _is_of(column: exp.Column, row: Row) -> bool:
    """Return whether a row has a column, which may be part of a query inside."""
    with suppress(Unsupported):
        return row.source_of(column) is not None
    return False


def _orders(
    values: Sequence[SqlValue], numbering: RowNumbers, loose: Sequence[bool]
) -> Iterator[tuple[Literals, list[syntax.OrderNode]]]:
    """Yield what rows are ordered by, and when. What may be null, in any rule, has a number before it."""
    cases: list[list[tuple[Literals, list[syntax.OrderNode]]]] = []
    for value, part, may_be_null in zip(values, numbering.order, loose, strict=True):
        only(part, "this", "desc", "nulls_first")
        descending, node = bool(part.args.get("desc")), value.expression
        if not may_be_null:
            cases.append([((), [syntax.OrderNode(node, descending)])])
            continue
        first = bool(part.args.get("nulls_first"))

        def ordered(
            is_null: bool, value: SqlValue = value, first: bool = first, descending: bool = descending
        ) -> list[syntax.OrderNode]:
            span = value.expression.span
            number = syntax.ConstantNode(int(is_null != first), "int", span)
            some = any_value(value.type, span) if is_null else value.expression
            return [syntax.OrderNode(number, False), syntax.OrderNode(some, descending)]

        if value.is_null or not value.nullable:
            cases.append([((), ordered(value.is_null))])
        else:
            cases.append([((test(value, op),), ordered(op == "=")) for op in ("=", "!=")])
    for chosen in product(*cases):
        yield tuple(one for case in chosen for one in case[0]), [one for case in chosen for one in case[1]]


def any_value(type_: typed.Type, span: Span) -> syntax.Expression:
    """Return a value of a type, whichever it is."""
    if type_.element is not None:
        return syntax.ListNode((), span)
    values: dict[str, int | str | Decimal] = {
        "string": "",
        "date": "2000-01-01",
        "timestamp": "2000-01-01 00:00:00",
        "float": Decimal("0.0"),
    }
    kind = "int" if type_.name == "decimal" else type_.name
    return syntax.ConstantNode(values.get(type_.name, 0), kind, span)
