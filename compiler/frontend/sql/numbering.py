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
from .expressions import SqlExpressions, as_common, common, function_name, is_widened, may_hold, test
from .functions import COMPARISONS
from .grouping import outside_queries
from .program import is_set
from .scope import Branch, Literals, Row, SqlColumn, SqlTable, SqlValue, starred
from .text import NAME, Unsupported, count_of, only

if TYPE_CHECKING:
    from .queries import Queries

E = TypeVar("E", bound=exp.Expr)

MOST = 2**31 - 1
"""How many rows a group may have if all are numbered."""


@dataclass(frozen=True)
class RowNumbers:
    """How the rows of a query are numbered: the ``place`` is what stands for the number, ``by`` are the groups, and
    only the first ``limit`` rows of each are kept."""

    place: exp.Expr
    by: tuple[exp.Expr, ...]
    order: tuple[exp.Ordered, ...]
    limit: int = MOST


def numbering_of(node: exp.Select, most: int) -> RowNumbers | None:
    """Return how the rows of a SELECT are numbered, None if they are not. A query around it reads ``most`` of each
    group."""
    windows = [
        found
        for whole in (*node.expressions, *filter(None, [node.args.get("qualify")]))
        for found in outside_queries(whole)
        if isinstance(found, exp.Window)
    ]
    distinct, limit = node.args.get("distinct"), node.args.get("limit")
    on = distinct.args.get("on") if distinct is not None else None
    order = node.args.get("order")
    if order is not None:
        only(order, "expressions")
    ordered = tuple(with_aliases(part, node) for part in order.expressions) if order is not None else ()
    if (bool(windows) + (on is not None) + (limit is not None)) > 1:
        raise Unsupported(
            "E0792", "one of row_number, DISTINCT ON and LIMIT is supported in a query", node, "write a query around"
        )
    if on is not None:
        by = tuple(on.expressions) if isinstance(on, exp.Tuple) else (on.this if isinstance(on, exp.Paren) else on,)
        rest = tuple(part for part in ordered if part.this not in by)
        if not order:
            raise Unsupported("E0792", "DISTINCT ON needs an ORDER BY", node)
        return RowNumbers(_PLACE, by, rest, 1)
    if limit is not None:
        only(limit, "expression")
        if not ordered:
            raise Unsupported("E0792", "LIMIT needs an ORDER BY: which rows it keeps is unknown", limit)
        return RowNumbers(_PLACE, (), ordered, _count(limit.expression))
    if not windows:
        return None
    first = windows[0]
    if any(window != first for window in windows):
        raise Unsupported("E0792", "one window is supported in a query", windows[1], "write another query around")
    if not isinstance(first.this, exp.RowNumber):
        raise Unsupported(
            "E0792",
            f"the window {function_name(first.this)} is not supported",
            first,
            "row_number is, and aggregates with GROUP BY",
        )
    only(first, "this", "partition_by", "order", "over")
    inner = first.args.get("order")
    if inner is None:
        raise Unsupported("E0792", "row_number needs an ORDER BY: which row is first is unknown", first)
    by = tuple(first.args.get("partition_by") or ())
    return RowNumbers(first, by, tuple(inner.expressions), min(most, _qualified(node, first)))


_PLACE = exp.column("row number")


def with_aliases(condition: E, node: exp.Select) -> E:
    """Return an expression with what is selected in place of its names."""
    named = {name_of(item): item.this for item in node.expressions if isinstance(item, exp.Alias)}

    def written_out(part: exp.Expr) -> exp.Expr:
        alone = isinstance(part, exp.Column) and part.args.get("table") is None
        return named[part.name.lower()].copy() if alone and part.name.lower() in named else part

    return cast(E, condition.copy().transform(written_out))


def _count(node: exp.Expr) -> int:
    """Return the number of rows that a LIMIT keeps."""
    count = count_of(node)
    if count is None or not 0 < count <= MOST:
        raise Unsupported("E0792", "a number of rows must be a positive constant", node)
    return count


def _qualified(node: exp.Select, window: exp.Window) -> int:
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
    queries: Queries, node: exp.Select, rows: Sequence[Row], numbering: RowNumbers, sample: Row, unique: bool
) -> list[Row]:
    """Return the numbered rows of a query, in which what is selected is known; they may be known to be ``unique``."""
    program, span = queries.program, queries.program.span(node)
    grouped_by = [queries.canonical(key, sample) for key in numbering.by]
    items = [
        item
        for item in dict.fromkeys(_items(queries, node, sample, numbering))
        if queries.canonical(item, sample) not in grouped_by
    ]
    expressions = SqlExpressions(queries, True)
    branches, raw = list[Branch](), list[Branch]()
    for row in rows:
        parts = [*numbering.by, *(part.this for part in numbering.order), *items]
        for chosen in product(*(expressions.values(part, row) for part in parts)):
            literals = (*row.literals, *(one for case in chosen for one in case[0]))
            raw.append(Branch(literals, tuple(value for _, value in chosen)))
            made = program.simplified(raw[-1])
            if made is not None:
                branches.append(made)
                orders = made.values[len(numbering.by) : len(numbering.by) + len(numbering.order)]
                for part, value in zip(numbering.order, orders, strict=True):
                    if is_widened(value):
                        message = "decimals cannot be ordered with others, or with integers"
                        raise Unsupported("E0793", message, part, "write CAST(... AS DOUBLE) around each")
    if not unique and not is_set(program, raw):
        help = "select a key of its rows, or write DISTINCT in a query inside"
        raise Unsupported("E0792", "rows that may be equal cannot be numbered", node, help)
    groups, count = len(numbering.by), len(numbering.order)
    samples = [
        common([value for _, value in SqlExpressions(queries, False).values(part, sample)])
        for part in (*numbering.by, *(part.this for part in numbering.order), *items)
    ]

    def column(place: int, name: str) -> SqlColumn:
        (made,) = program.columns([name], [Branch(b.literals, (b.values[place],)) for b in branches], [samples[place]])
        return made

    names = ["place"]
    for part in (*numbering.by, *items):
        name = part.name.lower() if isinstance(part, exp.Column) and NAME.fullmatch(part.name) else f"value{len(names)}"
        while name in names:
            name += "_"
        names.append(name)
    own = [column(place, name) for place, name in enumerate(names[1 : groups + 1])]
    rest = [column(groups + count + place, name) for place, name in enumerate(names[groups + 1 :])]
    keys = [frozenset(c.name for c in own) | ({"place"} if numbering.limit > 1 else set())]
    selected = [Branch(b.literals, (*b.values[:groups], *b.values[groups + count :])) for b in branches]
    if unique or is_set(program, selected):
        keys.append(frozenset(c.name for c in (*own, *rest)))
    table = SqlTable(
        program.relation_name(f"{queries.name}_numbered"),
        (*own, SqlColumn("place", typed.INT, False), *rest),
        tuple(keys),
    )
    program.declare(table)
    ordered = [[(b.values[groups + place], b.literals) for b in branches] for place in range(count)]
    loose = [any(program.lacks_value(*each) for each in found) for found in ordered]
    for branch in branches:
        values = branch.values
        for tests, order in _orders(typed_values(values[groups : groups + count], samples[groups:]), numbering, loose):
            if may_hold((*branch.literals, *tests)):
                first = syntax.AggregateNode("first", None, False, span, numbering.limit, tuple(order))
                before = [as_common(v, c.type).expression for v, c in zip(values[:groups], own, strict=True)]
                others = [as_common(v, c.type).expression for v, c in zip(values[groups + count :], rest, strict=True)]
                program.rule(table.name, [*before, first, *others], (*branch.literals, *tests), "made for numbers")
    atom, columns = program.read(table, span)
    given = list(columns.values())
    known = dict(zip(grouped_by, given[:groups], strict=True))
    known |= dict(zip((queries.canonical(item, sample) for item in items), given[groups + 1 :], strict=True))
    known[queries.canonical(numbering.place, sample)] = given[groups]
    outer = rows[0].outer if rows else None
    shown = tuple(
        replace(source, columns={n: known.get(exp.column(n, source.alias), v) for n, v in source.columns.items()})
        for source in sample.sources
    )
    return [Row((atom,), shown, outer, known, ungrouped=sample)]


def _items(queries: Queries, node: exp.Select, sample: Row, numbering: RowNumbers) -> Iterator[exp.Expr]:
    """Yield the expressions besides the number that are read of numbered rows."""
    for item in node.expressions:
        columns = starred(item, sample)
        if columns is not None:
            yield from columns
            continue
        whole = item.this if isinstance(item, exp.Alias) else item
        if whole == numbering.place:
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


def typed_values(values: Sequence[SqlValue], types: Sequence[typed.Type]) -> list[SqlValue]:
    """Return values of which nulls have types."""
    return [replace(v, type=type_) if v.is_null else v for v, type_ in zip(values, types, strict=False)]


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
