"""SQL trees as text, in the dialects of DuckDB and Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal
from functools import cache
from typing import Any, ClassVar

from flintlog.compiler.ir import typed
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.dialects.spark import Spark
from sqlglot.generator import Generator
from sqlglot.generators.duckdb import DuckDBGenerator
from sqlglot.generators.spark import SparkGenerator

from .functions import expanded

#: SQL types that both dialects print correctly.
_TYPES = {"int": "BIGINT", "float": "DOUBLE", "string": "STRING", "bool": "BOOLEAN", "date": "DATE"}


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


class OrderedSum(exp.Expression, exp.AggFunc):
    """The sum of floats in the order of their values, which makes it independent of the order of rows."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class WideMod(exp.Mod):
    """The remainder of integers whose divisor may be -1: DuckDB rejects it for the smallest 64-bit integer."""


class _DuckDBPrinter(DuckDBGenerator):
    """Prints DuckDB's SQL, with parentheses on the same line as their content."""

    TRANSFORMS: ClassVar[dict[Any, Any]] = {
        **DuckDBGenerator.TRANSFORMS,
        OrderedSum: lambda self, e: f"SUM({self.sql(e, 'this')} ORDER BY {self.sql(e, 'this')})",
        WideMod: lambda self, e: (
            f"CAST(CAST({self.sql(bare(e.this))} AS HUGEINT) % {self.sql(e, 'expression')} AS BIGINT)"
        ),
        exp.IntDiv: lambda self, e: self.guarded_division(e),
    }

    def guarded_division(self, division: exp.Expr) -> str:
        """Return a division of integers that checks its divisor.

        Where the columns' statistics exclude a divisor of zero, DuckDB 2.0 chooses a division without a check, and
        keeps that choice when it derives a filter in which another expression, which may be zero, takes the divisor's
        place: the process then dies with SIGFPE. NULLIF has no statistics. By -1, the smallest integer traps likewise.
        """
        left, right = self.sql(division, "this"), self.sql(division, "expression")
        divisor = bare(division.expression)
        if divisor == exp.Literal.number(-1):
            return f"{left} * {right}"
        if isinstance(divisor.this if isinstance(divisor, exp.Neg) else divisor, exp.Literal):
            return f"{left} // {right}"
        return f"{left} // NULLIF({self.sql(divisor)}, 0)"

    def paren_sql(self, expression: exp.Paren) -> str:
        """Return an expression in parentheses."""
        return f"({self.sql(expression, 'this')})"


class _SparkPrinter(SparkGenerator):
    """Prints Spark's SQL, with parentheses on the same line as their content."""

    TRANSFORMS: ClassVar[dict[Any, Any]] = {
        **SparkGenerator.TRANSFORMS,
        OrderedSum: lambda self, e: (
            f"AGGREGATE(ARRAY_SORT(COLLECT_LIST({self.sql(e, 'this')})), CAST(0 AS DOUBLE), "
            "(total, value) -> total + value)"
        ),
        WideMod: lambda self, e: self.binary(e, "%"),
    }

    def paren_sql(self, expression: exp.Paren) -> str:
        """Return an expression in parentheses."""
        return f"({self.sql(expression, 'this')})"


class _DuckDB(DuckDB):
    """DuckDB's dialect, in which sqlglot finds its printer by the name ``Generator``."""

    Generator = _DuckDBPrinter


class _Spark(Spark):
    """Spark's dialect."""

    Generator = _SparkPrinter


#: Node types that both dialects print alike.
_ALIKE = frozenset(
    {exp.Select, exp.From, exp.Join, exp.Where, exp.Table, exp.TableAlias, exp.Column, exp.Identifier, exp.Alias}
    | {exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.And, exp.Not, exp.Is, exp.Null, exp.Boolean, exp.Exists}
    | {exp.Coalesce, exp.Paren}
)


#: And those that each dialect prints in its own way, without further changes.
_PLAIN = _ALIKE | {exp.Literal, exp.Cast, exp.DataType}


def print_sql(tree: exp.Expr, partial: tuple[str, ...] = (), narrow: tuple[str, ...] = ()) -> Sql:
    """Print a tree in both dialects; the tree is modified and must not be used again."""
    kinds = _kinds(tree)
    if kinds <= _ALIKE:
        text = _printed(tree, _DuckDB)
        return Sql(text, text, partial, narrow)
    if kinds <= _PLAIN:
        return Sql(_printed(tree, _DuckDB), lambda: _printed(tree, _Spark), partial, narrow)
    text = _printed(expanded(tree.copy(), "duckdb"), _DuckDB)
    return Sql(
        text, lambda: _printed(expanded(tree, "spark").transform(_for_spark, copy=False), _Spark), partial, narrow
    )


def _printed(tree: exp.Expr, dialect: type[DuckDB] | type[Spark]) -> str:
    return _generator(dialect).generate(tree, copy=False)


@cache
def _generator(dialect: type[DuckDB] | type[Spark]) -> Generator:
    return dialect().generator(pretty=True, max_text_width=100)


def _kinds(tree: exp.Expr) -> set[type[exp.Expr]]:
    """Return the node types in a tree, except numbers and casts to ``BIGINT``, which both dialects print alike."""
    found: set[type[exp.Expr]] = set()
    waiting: list[object] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += node
        elif isinstance(node, exp.Expr):
            kind = type(node)
            if kind is exp.Column:
                found |= {exp.Column, exp.Identifier}
            elif kind is exp.Cast and node.args["to"].this is exp.DType.BIGINT:
                waiting.append(node.this)
            elif kind is not exp.Literal or node.is_string:
                found.add(kind)
                waiting += node.args.values()
    return found


def facts_sql(facts: Iterable[typed.TypedRule]) -> Sql:
    """Return the VALUES of facts, which are all constants: a row for each, with its label and source place."""
    rows: dict[type[DuckDB] | type[Spark], list[str]] = {_DuckDB: [], _Spark: []}
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
    WideMod: "TRY_MOD",
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
