"""SQL trees as text, in the dialects of DuckDB and Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal
from functools import cache

from flintlog.compiler.ir import typed
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.dialects.spark import Spark
from sqlglot.generator import Generator

from .functions import expanded
from .python import WIDTH

_HUGEINT = exp.DataType(this=exp.DType.USERDEFINED, kind="HUGEINT")
_TYPES = {"int": "BIGINT", "float": "DOUBLE", "string": "STRING", "bool": "BOOLEAN", "date": "DATE"}
"""SQL types that both dialects print correctly."""


class Sql:
    """The text of a query in both dialects. ``partial`` head columns may be NULL for lack of a value; ``narrow`` ones
    only where a value does not fit its type."""

    def __init__(
        self,
        duckdb: str,
        spark: str | Callable[[], str],
        partial: tuple[str, ...] = (),
        narrow: tuple[str, ...] = (),
    ) -> None:
        """Keep the text for DuckDB; that for Spark may be printed when it is first read."""
        self.duckdb, self._spark, self.partial, self.narrow = duckdb, spark, partial, narrow

    @property
    def spark(self) -> str:
        """The text for Spark."""
        if not isinstance(self._spark, str):
            self._spark = self._spark()
        return self._spark

    def for_duckdb(self) -> Sql:
        """Return the query as DuckDB alone needs it."""
        return Sql(self.duckdb, self.duckdb, self.partial, self.narrow)


def sql_type(type_: typed.Type) -> exp.DataType:
    """Return a new tree of the SQL type of a column type; timestamps have no zone and are in UTC."""
    return _sql_type(type_).copy()


@cache
def _sql_type(type_: typed.Type) -> exp.DataType:
    """Return the shared tree of an SQL type, which callers must copy."""
    if type_.element is not None:
        return exp.DataType(this=exp.DType.ARRAY, expressions=[sql_type(type_.element)], nested=True)
    if type_.name == "decimal":
        return exp.DataType.build(f"DECIMAL({type_.precision}, {type_.scale})")
    return exp.DataType.build(_TYPES.get(type_.name, "TIMESTAMP_NTZ"))


ORDERED_SUM = "ORDERED_SUM"
"""The name that stands for the sum of floats in the order of their values, which makes it independent of that of
rows."""

_WIDE = "wide"
"""Marks the remainder of integers whose divisor may be -1, which DuckDB rejects for the smallest 64-bit integer. Node
types of our own cannot be had where sqlglot is compiled."""


def wide_remainder(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """Return the remainder of 64-bit integers for any divisor but zero."""
    return exp.Mod(this=left, expression=right, **{_WIDE: True})


_ALIKE = frozenset(
    {exp.Select, exp.From, exp.Join, exp.Where, exp.Table, exp.TableAlias, exp.Column, exp.Identifier, exp.Alias}
    | {exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.And, exp.Not, exp.Is, exp.Null, exp.Boolean, exp.Exists}
    | {exp.Coalesce, exp.Paren}
)
"""Node types that both dialects print alike."""


_PLAIN = _ALIKE | {exp.Literal, exp.Cast, exp.DataType}
"""And those that each dialect prints in its own way, without further changes."""


_CHANGED = frozenset({exp.IntDiv, exp.Mod, exp.Anonymous})
"""And those that may have to be changed for a dialect."""


def print_sql(tree: exp.Expr, partial: tuple[str, ...] = (), narrow: tuple[str, ...] = ()) -> Sql:
    """Print a tree in both dialects; the tree is modified and must not be used again."""
    kinds = _kinds(tree)
    if kinds <= _PLAIN:
        tree = _inlined(tree) if exp.Paren in kinds else tree
        text = _printed(tree, DuckDB)
        return Sql(text, text if kinds <= _ALIKE else lambda: _printed(tree, Spark), partial, narrow)
    changes = not _CHANGED.isdisjoint(kinds)
    found = expanded(tree.copy(), "duckdb")
    text = _printed(_inlined(_bottom_up(found, _for_duckdb) if changes else found), DuckDB)

    def spark() -> str:
        found = expanded(tree, "spark")
        summed = _bottom_up(found, _summed_in_spark) if changes else found
        return _printed(_inlined(summed.transform(_for_spark, copy=False)), Spark)

    return Sql(text, spark, partial, narrow)


def _inlined(tree: exp.Expr) -> exp.Expr:
    """Replace parentheses by tuples of one element, which are printed on one line where there is room."""
    for node in tree.find_all(exp.Paren):
        node.replace(exp.Tuple(expressions=[node.this]))
    return tree


_NOT_A_BREAK = "\ud800"
"""Stands for sqlglot's mark of a line break in strings of programs, which cannot contain lone surrogates."""


def _printed(tree: exp.Expr, dialect: type[DuckDB] | type[Spark]) -> str:
    generator, breaks = _generator(dialect), False
    mark = generator.SENTINEL_LINE_BREAK
    for literal in tree.find_all(exp.Literal):
        breaks = breaks or "\n" in literal.name
        if mark in literal.name:
            literal.set("this", literal.name.replace(mark, _NOT_A_BREAK))
    text = generator.generate(tree, copy=False).replace(_NOT_A_BREAK, mark)
    return text if breaks else _folded(text)


def _folded(text: str) -> str:
    """Return text whose line breaks are all between tokens with each clause on one line if it fits there, which shows
    a query at a glance, and a change of a rule in all its queries as one change of the script."""
    folded: list[str] = []  # The last line first.
    for line in reversed(text.split("\n")):
        margin, inner = _margin(line), 0
        while inner < len(folded) and _margin(folded[-1 - inner]) > margin:
            inner += 1
        clause = folded[len(folded) - inner :][::-1]
        whole = " ".join([line, *map(str.strip, clause)])
        plain = len({*map(_margin, clause)}) == 1 and not any(part.endswith("(") for part in (line, *clause))
        if plain and len(whole) <= WIDTH:
            del folded[len(folded) - inner :]
            line = whole
        folded.append(line)
    return "\n".join(reversed(folded))


def _margin(line: str) -> int:
    return len(line) - len(line.lstrip())


@cache
def _generator(dialect: type[DuckDB] | type[Spark]) -> Generator:
    return dialect().generator(pretty=True, max_text_width=WIDTH)


def _kinds(tree: exp.Expr) -> set[type[exp.Expr]]:
    """Return the node types in a tree, except numbers and casts to ``BIGINT``, which both dialects print alike."""
    kinds: set[type[exp.Expr]] = set()
    waiting: list[object] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += node
        elif isinstance(node, exp.Expr):
            kind = type(node)
            if kind is exp.Column:
                kinds |= {exp.Column, exp.Identifier}
            elif kind is exp.Cast and node.args["to"].this is exp.DType.BIGINT:
                waiting.append(node.this)
            elif kind is not exp.Literal or node.is_string:
                kinds.add(kind)
                waiting += node.args.values()
    return kinds


def facts_sql(facts: Iterable[typed.TypedRule]) -> Sql:
    """Return the VALUES of facts, which are all constants: a row for each, with its label and source place."""
    rows: dict[type[DuckDB] | type[Spark], list[str]] = {DuckDB: [], Spark: []}
    for rule in facts:
        values = [value for value in rule.head.arguments if isinstance(value, typed.Constant)]
        for dialect, texts in rows.items():
            told = [_value_text(value, dialect) for value in values]
            told += [_string_text(text, dialect) for text in (rule.label, str(rule.span))]
            texts.append(f"  ({', '.join(told)})")
    duckdb, spark = ("VALUES\n" + ",\n".join(texts) for texts in rows.values())
    return Sql(duckdb, spark)


def _value_text(value: typed.Constant, dialect: type[DuckDB] | type[Spark]) -> str:
    if value.type == typed.STRING:
        return _string_text(str(value.value), dialect)
    return str(value.value) if value.type == typed.INT else _printed(constant_tree(value), dialect)


def _string_text(text: str, dialect: type[DuckDB] | type[Spark]) -> str:
    plain = text.isascii() and text.isprintable() and "'" not in text and "\\" not in text
    return f"'{text}'" if plain else _printed(exp.Literal.string(text), dialect)


_TRIED: dict[type[exp.Expr], str] = {
    exp.Add: "TRY_ADD",
    exp.Sub: "TRY_SUBTRACT",
    exp.Mul: "TRY_MULTIPLY",
    exp.Div: "TRY_DIVIDE",
    exp.Mod: "TRY_MOD",
}


def constant_tree(constant: typed.Constant) -> exp.Expr:
    """Return a constant of exactly its type, except integers, which columns make 64-bit."""
    value, kind = constant.value, constant.type.name
    if isinstance(value, bool):
        return exp.true() if value else exp.false()
    if kind == "int":
        return exp.Literal.number(str(value)) if int(value) >= 0 else exp.Neg(this=exp.Literal.number(str(-int(value))))
    if kind == "string":
        return exp.Literal.string(str(value))
    if kind == "float":
        return exp.cast(exp.Literal.string(str(value or 0.0)), sql_type(typed.FLOAT))
    text = f"{value:f}" if isinstance(value, Decimal) else str(value)
    return exp.cast(exp.Literal.string(text), sql_type(constant.type))


def _for_duckdb(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.IntDiv):
        return _guarded(node)
    if node.args.get(_WIDE):
        wide = exp.Mod(this=exp.Cast(this=bare(node.this), to=_HUGEINT.copy()), expression=node.expression)
        return exp.Cast(this=wide, to=sql_type(typed.INT))
    if _is_ordered_sum(node):
        (value,) = node.expressions
        return exp.Sum(this=exp.Order(this=value, expressions=[exp.Ordered(this=value.copy())]))
    return node


def _guarded(division: exp.IntDiv) -> exp.Expr:
    """Return a division of integers that checks its divisor.

    Where the columns' statistics exclude a divisor of zero, DuckDB 2.0 chooses a division without a check, and keeps
    that choice when it derives a filter in which another expression, which may be zero, takes the divisor's place: the
    process then dies with SIGFPE. NULLIF has no statistics. By -1, the smallest integer traps likewise.
    """
    divisor = bare(division.expression)
    if divisor == exp.Literal.number(-1):
        return exp.Mul(this=division.this, expression=division.expression)
    if not isinstance(divisor.this if isinstance(divisor, exp.Neg) else divisor, exp.Literal):
        division.set("expression", exp.Nullif(this=divisor, expression=exp.Literal.number(0)))
    return division


def _is_ordered_sum(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name == ORDERED_SUM


def _summed_in_spark(node: exp.Expr) -> exp.Expr:
    if not _is_ordered_sum(node):
        return node
    listed = exp.Anonymous(this="COLLECT_LIST", expressions=node.expressions)
    names = [exp.to_identifier(name) for name in ("total", "value")]
    added = exp.Lambda(this=exp.Add(this=names[0].copy(), expression=names[1].copy()), expressions=names)
    zero = exp.cast(exp.Literal.number(0), sql_type(typed.FLOAT))
    return exp.Anonymous(
        this="AGGREGATE", expressions=[exp.Anonymous(this="ARRAY_SORT", expressions=[listed]), zero, added]
    )


def _for_spark(node: exp.Expr) -> exp.Expr:
    """Replace TRY, which Spark lacks, by versions of the single operations that return NULL."""
    return _try_each(node.this.copy()) if isinstance(node, exp.Try) else node


def _try_each(tree: exp.Expr) -> exp.Expr:
    def tried(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Try):
            tried_already: exp.Expr = node.this
            return tried_already
        if type(node) in _TRIED:
            return exp.Anonymous(this=_TRIED[type(node)], expressions=[bare(node.this), bare(node.expression)])
        if isinstance(node, exp.Neg) and not isinstance(node.this, exp.Literal):
            return exp.Anonymous(this="TRY_SUBTRACT", expressions=[exp.Literal.number(0), bare(node.this)])
        if isinstance(node, exp.IntDiv):
            smallest = exp.Literal.number("-9223372036854775808")
            overflow = exp.and_(
                exp.EQ(this=node.expression.copy(), expression=exp.Literal.number("-1")),
                exp.EQ(this=node.this.copy(), expression=smallest),
            )
            zero = exp.EQ(this=node.expression.copy(), expression=exp.Literal.number(0))
            return exp.Case(ifs=[exp.If(this=exp.not_(exp.or_(zero, overflow)), true=node)])
        if isinstance(node, exp.Cast) and node.is_type(exp.DType.DECIMAL) and not isinstance(node.this, exp.Literal):
            return exp.TryCast(this=node.this, to=node.to, safe=True)
        return node

    return _bottom_up(tree, tried)


def bare(tree: exp.Expr) -> exp.Expr:
    """Return a tree without the parentheses that it needed as an operand."""
    return tree.this if isinstance(tree, exp.Paren) else tree


def _bottom_up(tree: exp.Expr, change: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """Replace every node by the result of ``change``, operands first."""
    # List the operands first: a replacement may contain its operand, which then has another parent.
    for child, key, index in [(child, child.arg_key, child.index) for child in tree.iter_expressions()]:
        changed = _bottom_up(child, change)
        if changed is not child:
            tree.set(key or "", changed, index)
    return change(tree)
