"""What names stand for: tables with columns, and the values of a row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlglot import exp

from ...ir import syntax, typed
from ...ir.syntax_printer import literal_text
from ...source import Span
from .text import Unsupported, only

Literals = tuple[syntax.Literal, ...]
"""A conjunction."""


@dataclass(frozen=True)
class SqlValue:
    """An expression, and its type. One that is ``nullable`` is a variable, or null itself."""

    expression: syntax.Expression
    type: typed.Type
    nullable: bool = False

    @property
    def is_null(self) -> bool:
        """Whether the value is null."""
        return isinstance(self.expression, syntax.ConstantNode) and self.expression.kind == "null"


Case = tuple[Literals, SqlValue]
"""A value, and when an expression has it. The cases of an expression exclude each other."""


@dataclass(frozen=True)
class SqlColumn:
    """A column of a table."""

    name: str
    type: typed.Type
    nullable: bool


@dataclass(frozen=True)
class SqlTable:
    """A table or view that is a relation: each of its ``keys`` has a row at most once. One that is a ``multiset`` may
    have equal rows. Of a ``loose`` one, the rows are known, and how many copies each has is not."""

    name: str
    columns: tuple[SqlColumn, ...]
    keys: tuple[frozenset[str], ...] = ()
    multiset: bool = False
    loose: bool = False


@dataclass(frozen=True)
class Source:
    """The columns of one item of a FROM, by name."""

    alias: str
    columns: Mapping[str, SqlValue]


@dataclass(frozen=True)
class Row:
    """One way to make a row of the items of a FROM: what holds, and the values. Names that are not there are looked up
    in the row ``outer`` of the query around this one. Of a group, ``computed`` has the values of expressions, whose
    columns are those of a row ``ungrouped``. Columns that were ``merged`` by USING are unambiguous."""

    literals: Literals
    sources: tuple[Source, ...] = ()
    outer: Row | None = None
    computed: Mapping[exp.Expr, SqlValue] = field(default_factory=dict)
    merged: Mapping[str, SqlValue] = field(default_factory=dict)
    ungrouped: Row | None = None

    def where(self, literals: Iterable[syntax.Literal]) -> Row:
        """Return the row with more that holds."""
        return replace(self, literals=(*self.literals, *literals))

    def find(self, column: exp.Column) -> SqlValue:
        """Return the value of a column; raise Unsupported if there is none, or several."""
        row: Row | None = self
        while row is not None:
            base = row.base
            source = base.source_of(column)
            if source is not None and base is row:
                return source.columns[fold(column.this)]
            if source is not None:
                known = row.computed.get(exp.column(fold(column.this), source.alias or None))
                if known is None:
                    message = f"`{fold(column.this)}` is neither grouped by nor aggregated"
                    raise Unsupported("E0794", message, column, "add it to GROUP BY, or aggregate it")
                return known
            row = row.outer
        if column.args.get("table") is not None:
            raise Unsupported("E0794", f"there is no table `{fold(column.args['table'])}` in this FROM", column)
        names = [known for source in self.sources for known in source.columns]
        help = f"there are {', '.join(names)}" if names else None
        raise Unsupported("E0794", f"there is no column `{fold(column.this)}`", column, help)

    @property
    def base(self) -> Row:
        """The row that has the columns of a FROM."""
        return self if self.ungrouped is None else self.ungrouped.base

    def source_of(self, column: exp.Column) -> Source | None:
        """Return the source of a column, which may be the columns that were merged; None if there is none. Raise
        Unsupported if there are several, or if the table that is named has no such column."""
        name, table = fold(column.this), column.args.get("table")
        if table is None and name in self.merged:
            return Source("", self.merged)
        wanted = None if table is None else fold(table)
        here = [source for source in self.sources if wanted in (None, source.alias)]
        found = [source for source in here if name in source.columns]
        if len(found) > 1:
            message = f"`{name}` is ambiguous: {', '.join(source.alias for source in found)} have it"
            raise Unsupported("E0794", message, column, f"write {found[0].alias}.{name}")
        if here and not found and wanted is not None:
            help = f"it has {', '.join(here[0].columns)}"
            raise Unsupported("E0794", f"`{wanted}` has no column `{name}`", column, help)
        return found[0] if found else None

    @property
    def values(self) -> tuple[SqlValue, ...]:
        """The values of all columns, and those that were merged."""
        return (*(v for source in self.sources for v in source.columns.values()), *self.merged.values())

    def with_values(self, values: Sequence[SqlValue]) -> Row:
        """Return the row with other ``values``."""
        rest = iter(values)
        sources = tuple(replace(s, columns={name: next(rest) for name in s.columns}) for s in self.sources)
        return replace(self, sources=sources, merged={name: next(rest) for name in self.merged})

    def with_value(self, name: str, value: SqlValue) -> Row:
        """Return the row with another value for a variable."""

        def changed(known: Mapping[Any, SqlValue]) -> dict[Any, SqlValue]:
            return {key: value if is_variable(old, name) else old for key, old in known.items()}

        sources = tuple(replace(source, columns=changed(source.columns)) for source in self.sources)
        outer = self.outer and self.outer.with_value(name, value)
        return replace(self, sources=sources, computed=changed(self.computed), merged=changed(self.merged), outer=outer)


class Split(Exception):
    """Raised where a variable of a query around another may be null, so that both cases have to be told apart."""

    def __init__(self, name: str) -> None:
        """Store the variable."""
        super().__init__(name)
        self.name = name


def is_variable(value: SqlValue, name: str) -> bool:
    """Return whether a value is a variable of this name."""
    return isinstance(value.expression, syntax.VariableNode) and value.expression.name == name


def fold(identifier: exp.Expr | str) -> str:
    """Return a name as it is compared: in lower case unless it is quoted."""
    if isinstance(identifier, str):
        return identifier
    return str(identifier.this) if identifier.args.get("quoted") else str(identifier.this).lower()


def starred(item: exp.Expr, row: Row) -> list[exp.Column] | None:
    """Return the columns that ``*`` stands for in a row, None if an item of a SELECT is something else."""
    star = item.this if isinstance(item, exp.Column) else item
    if not isinstance(star, exp.Star):
        return None
    only(star)
    wanted = fold(item.args["table"]) if isinstance(item, exp.Column) and item.args.get("table") else None
    found = [source for source in row.sources if wanted in (None, source.alias)]
    if not found:
        raise Unsupported("E0794", "`*` has no columns here", item)
    merged = row.merged if wanted is None else {}
    pairs = [*((name, "") for name in merged)]
    pairs += [(name, source.alias) for source in found for name in source.columns if name not in merged]
    columns = []
    for name, alias in pairs:
        table = exp.to_identifier(alias, quoted=True) if alias else None
        column = exp.column(exp.to_identifier(name, quoted=True), table)
        column.this.meta.update(star.meta)
        columns.append(column)
    return columns


def outside_queries(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield a node and its parts, but not those of queries in it."""
    yield node
    for part in node.iter_expressions():
        if not isinstance(part, exp.Query):
            yield from outside_queries(part)


@dataclass(frozen=True)
class Branch:
    """One way to make a row of a query: what holds, and the values; ``span`` is where the SELECT stands."""

    literals: Literals
    values: tuple[SqlValue, ...]
    span: Span | None = None


# ---- literals ------------------------------------------------------------------------------------------------------


def atoms(literals: Iterable[syntax.Literal], relation: str = "") -> Iterator[syntax.AtomNode]:
    """Yield the positive atoms, perhaps of one relation."""
    for literal in literals:
        if isinstance(literal, syntax.AtomNode) and relation in ("", literal.relation):
            yield literal


def variables(node: object) -> Iterator[str]:
    """Yield the variables in expressions and literals, each as often as it occurs."""
    match node:
        case syntax.VariableNode():
            yield node.name
        case syntax.Unary():
            yield from variables(node.operand)
        case syntax.BinaryNode() | syntax.ComparisonNode():
            yield from variables(node.left)
            yield from variables(node.right)
        case syntax.CallNode() | syntax.AtomNode():
            for argument in node.arguments:
                yield from variables(argument)
        case syntax.ListNode():
            for item in node.items:
                yield from variables(item)
        case syntax.AggregateNode():
            yield from variables(node.argument)
            for part in node.order:
                yield from variables(part.value)
        case syntax.NegationNode():
            yield from variables(node.atom)
        case tuple() | list():
            for part in node:
                yield from variables(part)
        case SqlValue():
            yield from variables(node.expression)


def bound(literals: Iterable[syntax.Literal]) -> set[str]:
    """Return the variables that positive atoms bind."""
    return {
        argument.name
        for atom in atoms(literals)
        for argument in atom.arguments
        if isinstance(argument, syntax.VariableNode)
    }


def substituted(node: Any, names: Mapping[str, syntax.Expression]) -> Any:
    """Return an expression, a literal or a value with others in place of variables."""
    match node:
        case syntax.VariableNode():
            return names.get(node.name, node)
        case syntax.Unary():
            return replace(node, operand=substituted(node.operand, names))
        case syntax.BinaryNode() | syntax.ComparisonNode():
            return replace(node, left=substituted(node.left, names), right=substituted(node.right, names))
        case syntax.CallNode() | syntax.AtomNode():
            return replace(node, arguments=substituted(node.arguments, names))
        case syntax.ListNode():
            return replace(node, items=substituted(node.items, names))
        case syntax.AggregateNode():
            order = tuple(replace(part, value=substituted(part.value, names)) for part in node.order)
            return replace(node, argument=substituted(node.argument, names), order=order)
        case syntax.NegationNode():
            return replace(node, atom=substituted(node.atom, names))
        case tuple():
            return tuple(substituted(part, names) for part in node)
        case SqlValue():
            return replace(node, expression=substituted(node.expression, names))
    return node


def certain(literals: Sequence[syntax.Literal]) -> set[str]:
    """Return the variables that cannot be null where the literals hold."""
    seen: list[str] = []
    sure = set()
    for literal in literals:
        match literal:
            case syntax.AtomNode():
                seen += variables(literal)
            case syntax.ComparisonNode(op="="):
                sides = (literal.left, literal.right)
                if not any(isinstance(side, syntax.ConstantNode) and side.kind == "null" for side in sides):
                    sure |= {*variables(literal)}
            case syntax.ComparisonNode():
                sure |= {*variables(literal)}
    return sure | {name for name in seen if seen.count(name) > 1}


def null(span: Span) -> SqlValue:
    """Return the value null."""
    return SqlValue(syntax.ConstantNode("null", "null", span), typed.NOTHING, True)


def null_of(value: SqlValue) -> SqlValue:
    """Return null, of the type of a value."""
    return replace(null(value.expression.span), type=value.type)


def is_null_test(literal: syntax.Literal) -> bool:
    """Return whether a literal compares with null."""
    return isinstance(literal, syntax.ComparisonNode) and any(
        isinstance(side, syntax.ConstantNode) and side.kind == "null" for side in (literal.left, literal.right)
    )


def without_repeats(literals: Literals) -> Literals:
    """Return literals without tests that occur before. Atoms count each time."""
    seen: set[str] = set()
    kept = []
    for literal in literals:
        text = literal_text(literal)
        if text not in seen or isinstance(literal, syntax.AtomNode):
            kept.append(literal)
        seen.add(text)
    return tuple(kept)
