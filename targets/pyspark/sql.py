"""Queries as SQL: one sqlglot tree per query, printed in the dialects of DuckDB and Spark.

An expression that has no value (overflow, division by zero, the first element of an empty list) is NULL here, in both
engines and wherever an optimizer evaluates it; a derivation whose head would hold a NULL stops the batch
(``check_defined`` in the script). So an error arises exactly if a derivation needs the value, whatever the order of
joins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from typing import Any, ClassVar

from flintlog.compiler.ir import typed
from flintlog.compiler.ir.delta import Version, Versioned
from flintlog.compiler.ir.plan import Query
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.dialects.spark import Spark
from sqlglot.generator import Generator
from sqlglot.generators.duckdb import DuckDBGenerator
from sqlglot.generators.spark import SparkGenerator

from .functions import call_tree, expanded
from .names import Names

#: SQL types that both dialects print right.
_TYPES = {"int": "BIGINT", "float": "DOUBLE", "string": "STRING", "bool": "BOOLEAN", "date": "DATE"}


@dataclass(frozen=True)
class Sql:
    """A query's text in both dialects, and the head columns that may be NULL for want of a value; those that are
    ``narrow`` only where it does not fit its type."""

    duckdb: str
    spark: str
    partial: tuple[str, ...] = ()
    narrow: tuple[str, ...] = ()


def sql_type(type_: typed.Type) -> exp.DataType:
    """The SQL type of a column type; timestamps are without zone, in UTC."""
    return _sql_type(type_).copy()


@cache
def _sql_type(type_: typed.Type) -> exp.DataType:
    """The same, parsed once, to be copied."""
    if type_.element is not None:
        return exp.DataType(this=exp.DType.ARRAY, expressions=[sql_type(type_.element)], nested=True)
    if type_.name == "decimal":
        return exp.DataType.build(f"DECIMAL({type_.precision}, {type_.scale})")
    return exp.DataType.build(_TYPES.get(type_.name, "TIMESTAMP_NTZ"))


class OrderedSum(exp.Expression, exp.AggFunc):
    """The sum of floats in the order of their values, so that it does not depend on the order of rows."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class WideMod(exp.Mod):
    """The remainder of integers whose divisor may be -1: DuckDB refuses that of the smallest integer in 64 bits."""


class _DuckDB(DuckDB):
    """DuckDB's dialect, parentheses on the line of what they hold."""

    class Generator(DuckDBGenerator):
        """Prints DuckDB's SQL."""

        TRANSFORMS: ClassVar[dict[Any, Any]] = {
            **DuckDBGenerator.TRANSFORMS,
            OrderedSum: lambda self, e: f"SUM({self.sql(e, 'this')} ORDER BY {self.sql(e, 'this')})",
            WideMod: lambda self, e: (
                f"CAST(CAST({self.sql(_bare(e.this))} AS HUGEINT) % {self.sql(e, 'expression')} AS BIGINT)"
            ),
        }

        def paren_sql(self, expression: exp.Paren) -> str:
            """Print parentheses."""
            return f"({self.sql(expression, 'this')})"


class _Spark(Spark):
    """Spark's dialect, parentheses on the line of what they hold."""

    class Generator(SparkGenerator):
        """Prints Spark's SQL."""

        TRANSFORMS: ClassVar[dict[Any, Any]] = {
            **SparkGenerator.TRANSFORMS,
            OrderedSum: lambda self, e: (
                f"AGGREGATE(ARRAY_SORT(COLLECT_LIST({self.sql(e, 'this')})), CAST(0 AS DOUBLE), "
                "(total, value) -> total + value)"
            ),
            WideMod: lambda self, e: self.binary(e, "%"),
        }

        def paren_sql(self, expression: exp.Paren) -> str:
            """Print parentheses."""
            return f"({self.sql(expression, 'this')})"


#: Parts of a tree that both dialects print alike.
_ALIKE = frozenset(
    {exp.Select, exp.From, exp.Join, exp.Where, exp.Table, exp.TableAlias, exp.Column, exp.Identifier, exp.Alias}
    | {exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.And, exp.Not, exp.Is, exp.Null, exp.Boolean, exp.Exists}
    | {exp.Coalesce, exp.Paren}
)
#: And parts that each prints as they are.
_PLAIN = _ALIKE | {exp.Literal, exp.Cast, exp.DataType}


def print_sql(tree: exp.Expr, partial: tuple[str, ...] = (), narrow: tuple[str, ...] = ()) -> Sql:
    """Print a tree, which is used up, in both dialects."""
    kinds = _kinds(tree)
    if kinds <= _ALIKE:
        text = _printed(tree, _DuckDB)
        return Sql(text, text, partial, narrow)
    if kinds <= _PLAIN:
        return Sql(_printed(tree, _DuckDB), _printed(tree, _Spark), partial, narrow)
    spark = expanded(tree.copy(), "spark").transform(_for_spark, copy=False)
    return Sql(
        _printed(expanded(tree, "duckdb"), _DuckDB),
        _printed(spark, _Spark),
        partial,
        narrow,
    )


def _printed(tree: exp.Expr, dialect: type[DuckDB] | type[Spark]) -> str:
    return _generator(dialect).generate(tree, copy=False)


@cache
def _generator(dialect: type[DuckDB] | type[Spark]) -> Generator:
    return dialect().generator(pretty=True, max_text_width=100)


def _kinds(tree: exp.Expr) -> set[type[exp.Expr]]:
    """The kinds of the parts of a tree, without numbers and casts to ``BIGINT``, which both dialects print alike."""
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


def table(name: str, alias: str) -> exp.Table:
    """A table under an alias."""
    return exp.Table(this=_identifier(name), alias=exp.TableAlias(this=_identifier(alias)))


def column_of(name: str, alias: str) -> exp.Expr:
    """A column of the table under an alias; ``exp.column``, which is asked for it hundreds of thousands of times, is
    slower."""
    return exp.Column(this=_identifier(name), table=_identifier(alias))


def again(value: exp.Expr) -> exp.Expr:
    """A value for another place of a tree; of a column ``copy`` would make much ado."""
    return exp.Column(**value.args) if type(value) is exp.Column else value.copy()


def _identifier(name: str) -> exp.Identifier:
    return exp.Identifier(this=name, quoted=_is_quoted(name))


@cache
def _is_quoted(name: str) -> bool:
    return bool(exp.to_identifier(name).args["quoted"])


#: The table that stands for the facts of a query, until their text takes its place; no other text has braces.
FACTS = "{facts}"
#: Columns of that table behind the values of facts: the label of the rule, and its place.
FACT_RULE, FACT_PLACE = "_rule", "_at"


def facts_sql(facts: Iterable[typed.Rule]) -> Sql:
    """The values of facts, constants all, a row for each, with its label and place."""
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
    return str(value.value) if value.type == typed.INT else _printed(_constant(value), dialect)


def _string_text(text: str, dialect: type[DuckDB] | type[Spark]) -> str:
    plain = text.isascii() and text.isprintable() and "'" not in text and "\\" not in text
    return f"'{text}'" if plain else _printed(exp.Literal.string(text), dialect)


def query_sql(query: Query, names: Names, kind: str, members: frozenset[str], pivot: int | None = None) -> Sql:
    """The SQL of a query of a stratum of ``kind`` whose relations are ``members``. ``pivot`` is the column of the head
    that tells its bucket, where that has to be known even if a condition of the rule has no value."""
    return QueryBuilder(query, names, kind, members, pivot).build()


COMPARISONS: dict[str, type[exp.Binary]] = {
    "=": exp.EQ,
    "!=": exp.NEQ,
    "<": exp.LT,
    "<=": exp.LTE,
    ">": exp.GT,
    ">=": exp.GTE,
}
_ARITHMETIC: dict[str, type[exp.Binary]] = {"+": exp.Add, "-": exp.Sub, "*": exp.Mul, "%": exp.Mod}
_TRIED: dict[type[exp.Expr], str] = {
    exp.Add: "TRY_ADD",
    exp.Sub: "TRY_SUBTRACT",
    exp.Mul: "TRY_MULTIPLY",
    exp.Div: "TRY_DIVIDE",
    exp.Mod: "TRY_MOD",
    WideMod: "TRY_MOD",
}


class QueryBuilder:
    """Builds the tree of one query."""

    def __init__(
        self, query: Query, names: Names, kind: str, members: frozenset[str], pivot: int | None = None
    ) -> None:
        self.query, self.names, self.kind, self.members, self.pivot = query, names, kind, members, pivot
        self.head = query.rule.head
        self.values: dict[str, exp.Expr] = {}
        self.uncertain: set[str] = set()
        self.assigned: dict[str, typed.Expression] = {}
        self.fits_required = True
        self.ranks: list[exp.Expr] = []
        self.copies: list[exp.Expr] = []
        self.tables: list[tuple[exp.Expr, list[exp.Expr]]] = []
        self.conditions: list[exp.Expr] = []
        self.required: list[exp.Expr] = []
        self.aliases = _aliases([names.tables[versioned.atom.relation] for versioned in query.joins])
        self.ranked = kind in ("ranked", "extremal")
        # What a rule returns is asked for tuple by tuple, or group by group.
        self.list = "dead" if kind == "ranked" else "groups"
        self.listed = unlike(self.list, self.aliases)

    @property
    def returning(self) -> bool:
        """Whether only the derivations of listed heads are wanted."""
        return self.query.purpose == "returning"

    def build(self) -> Sql:
        """The query: joins in the planned order, then conditions and absences, then the head."""
        if self.returning:
            self.join_listed()
        if self.query.facts:
            self.join_facts()
        for versioned, alias in zip(self.query.joins, self.aliases, strict=True):
            self.join(versioned, alias)
        for condition in self.query.conditions:
            self.add_condition(condition)
        if self.returning:
            self.match_computed()
        for versioned in self.query.negations:
            self.conditions.append(self.absence(versioned))
        columns, partial, narrow = self.select_list()
        select = exp.select(*columns, copy=False)
        if self.tables:
            (first, matches), *others = self.tables
            select.set("from_", exp.From(this=first))
            self.conditions = [*matches, *self.conditions]
            kinds = ({"on": all_of(matches)} if matches else {"kind": "CROSS"} for _, matches in others)
            select.set("joins", [exp.Join(this=of, **kind) for (of, _), kind in zip(others, kinds, strict=True)])
        if self.conditions:
            select.set("where", exp.Where(this=all_of(self.conditions)))
        return print_sql(select, partial, narrow)

    def column(self, alias: str, relation: str, index: int) -> exp.Expr:
        """A column of a joined table."""
        return column_of(self.names.columns[relation][index], alias)

    def table_name(self, versioned: Versioned) -> str:
        """The table of a literal in its version."""
        version = {Version.BEFORE: "before", Version.DELTA: "delta", Version.AFTER: "after"}[versioned.version]
        return f"{self.names.tables[versioned.atom.relation]}__{'absent_' if versioned.negated else ''}{version}"

    def join_listed(self) -> None:
        """Start from the dead heads, or the groups of an aggregate, whose derivations are wanted."""
        matches: list[exp.Expr] = []
        for index, argument in enumerate(self.head.arguments):
            if isinstance(argument, typed.Variable):
                column = self.column(self.listed, self.head.relation, index)
                if argument.name in self.values:
                    matches.append(exp.EQ(this=column, expression=again(self.values[argument.name])))
                else:
                    self.values[argument.name] = column
        name = f"{self.names.tables[self.head.relation]}__{self.list}"
        self.tables.append((table(name, self.listed), matches))

    def join_facts(self) -> str:
        """Join the table of facts, on what is known of the head; the alias of that table."""
        alias = unlike("facts", (self.listed,))
        columns = self.names.columns[self.head.relation]
        matches: list[exp.Expr] = []
        for name, argument in zip(columns, self.head.arguments, strict=True):
            assert isinstance(argument, typed.Variable)
            given = column_of(name, alias)
            if argument.name in self.values:
                matches.append(exp.EQ(this=given, expression=again(self.values[argument.name])))
            else:
                # Engines take the narrowest type that holds the values.
                self.values[argument.name] = exp.cast(given, sql_type(argument.type))
        known = [_identifier(name) for name in (*columns, *self.fact_columns)]
        named = exp.TableAlias(this=_identifier(alias), columns=known)
        self.tables.append((exp.Table(this=exp.Identifier(this=FACTS, quoted=False), alias=named), matches))
        return alias

    @property
    def fact_columns(self) -> tuple[str, str]:
        """The names of the columns with labels and places of facts."""
        columns = self.names.columns[self.head.relation]
        return unlike(FACT_RULE, columns), unlike(FACT_PLACE, columns)

    def match_computed(self) -> None:
        """Compare the listed heads with head arguments that are computed."""
        for index, argument in enumerate(self.head.arguments):
            if not isinstance(argument, typed.Variable | typed.Aggregate):
                column = self.column(self.listed, self.head.relation, index)
                self.conditions.append(exp.EQ(this=column, expression=self.tried(argument)))

    def join(self, versioned: Versioned, alias: str) -> None:
        """Join a literal, on what is known of its columns."""
        relation = versioned.atom.relation
        matches: list[exp.Expr] = []
        for index, term in enumerate(versioned.atom.terms):
            column = self.column(alias, relation, index)
            if isinstance(term, typed.Constant):
                matches.append(exp.EQ(this=column, expression=self.expression(term)))
            elif isinstance(term, typed.Variable) and term.name in self.values:
                matches.append(exp.EQ(this=column, expression=again(self.values[term.name])))
            elif isinstance(term, typed.Variable):
                self.values[term.name] = column
        if relation in self.members and self.ranked:
            self.ranks.append(column_of("_rank", alias))
        if relation in self.members and self.kind == "entries":
            self.copies.append(column_of("_support", alias))
        self.tables.append((table(self.table_name(versioned), alias), matches))

    def add_condition(self, condition: typed.Assignment | typed.Comparison) -> None:
        """Note the value of an assignment, or add a comparison.

        A comparison without a value lets the derivation pass, to be refused for its head: ``required``.
        """
        if isinstance(condition, typed.Assignment):
            name = condition.variable.name
            if name in self.values:
                matches = exp.EQ(this=self.values[name].copy(), expression=self.tried(condition.value))
                self.conditions.append(matches)
                return
            self.values[name] = _typed(self.expression(condition.value), condition.value.type)
            if self.is_uncertain(condition.value):
                self.uncertain.add(name)
                self.assigned[name] = condition.value
                if not any(isinstance(a, typed.Variable) and a.name == name for a in self.head.arguments):
                    value = exp.Try(this=self.values[name].copy())
                    self.required.append(exp.Is(this=value, expression=exp.Not(this=exp.Null())))
                    self.fits_required = self.fits_required and self.only_fits(condition.value)
            return
        # Each side is tried, not the comparison: DuckDB would compare with X - 1 where X + 1 has no value.
        sides = self.tried(condition.left), self.tried(condition.right)
        comparison: exp.Expr = COMPARISONS[condition.op](this=sides[0], expression=sides[1])
        if isinstance(condition.left, typed.Call) and condition.op == "=" and isinstance(sides[1], exp.Boolean):
            comparison = sides[0] if sides[1].this else exp.Not(this=sides[0])
        if not (self.is_uncertain(condition.left) or self.is_uncertain(condition.right)):
            if condition.left.type.name == "list":
                # DuckDB 2.0 would make BETWEEN of two, which it then refuses for lists.
                comparison = exp.Coalesce(this=comparison, expressions=[exp.false()])
            self.conditions.append(comparison)
        elif self.returning and self.kind == "ranked":
            self.conditions.append(comparison)
        else:
            self.conditions.append(exp.Coalesce(this=comparison, expressions=[exp.true()]))
            self.required.append(comparison.copy())
            self.fits_required = False

    def absence(self, versioned: Versioned) -> exp.Expr:
        """The condition that no tuple of a negated literal matches."""
        alias = unlike("absent", (*self.aliases, self.listed))
        inner = exp.Select(
            expressions=[exp.Literal.number(1)], from_=exp.From(this=table(self.table_name(versioned), alias))
        )
        matches: list[exp.Expr] = []
        for index, term in enumerate(versioned.atom.terms):
            assert not isinstance(term, typed.Wildcard), "project_negations leaves no wildcards"
            column = self.column(alias, versioned.atom.relation, index)
            matches.append(exp.EQ(this=column, expression=self.tried(term)))
        if matches:
            inner.set("where", exp.Where(this=all_of(matches)))
        return exp.Not(this=exp.Exists(this=inner))

    def select_list(self) -> tuple[list[exp.Expr], tuple[str, ...], tuple[str, ...]]:
        """The head's columns, which of them may be NULL for want of a value, and which of these only for a value that
        does not fit."""
        relation = self.head.relation
        columns: list[exp.Expr] = []
        partial: list[str] = []
        narrow: list[str] = []
        if not any(not isinstance(a, typed.Aggregate) for a in self.head.arguments):
            columns.append(exp.alias_(exp.true(), "_unit"))
        for index, argument in enumerate(self.head.arguments):
            name = self.names.columns[relation][index]
            wanted = argument.argument if isinstance(argument, typed.Aggregate) else argument
            if wanted is None:
                continue
            value = _typed(self.tried(wanted), wanted.type)
            if isinstance(wanted, typed.Constant) and not isinstance(value, exp.Cast):
                value = exp.cast(value, sql_type(wanted.type))
            if self.is_uncertain(wanted) and not (self.returning and self.kind == "ranked"):
                partial.append(name)
                if self.only_fits(wanted):
                    narrow.append(name)
            columns.append(exp.alias_(value, name))
        if self.required and not (self.returning and self.kind == "ranked"):
            # In other buckets than its own what a rule finds absent may be there, so its pivot has to be known.
            pivot = None if self.pivot is None else self.names.columns[relation][self.pivot]
            plain = [
                self.names.columns[relation][index]
                for index, argument in enumerate(self.head.arguments)
                if not isinstance(argument, typed.Aggregate)
            ]
            spare = (place for place, c in enumerate(columns) if c.alias != pivot and c.alias in plain)
            place = next(spare, 0) if pivot is not None else 0
            first = columns[place]
            guarded = exp.Case(ifs=[exp.If(this=all_of(self.required), true=first.this)])
            columns[place] = exp.alias_(guarded, first.alias)
            if not self.fits_required:
                narrow = [name for name in narrow if name != first.alias]
            elif first.alias not in partial:
                narrow.append(first.alias)
            partial = list(dict.fromkeys([first.alias, *partial]))
        if self.ranked and not self.returning:
            columns.append(exp.alias_(self.rank(), "_rank"))
        if self.kind == "entries":
            times = reduce(lambda left, right: exp.Mul(this=left, expression=right), self.copies or [_one()])
            columns.append(exp.alias_(times, "_copies"))
        return columns, tuple(partial), tuple(narrow)

    def rank(self) -> exp.Expr:
        """The rank of the derivation: the highest among its tuples of the same stratum, 0 if there are none."""
        if not self.ranks:
            return exp.cast(exp.Literal.number(0), sql_type(typed.INT))
        return self.ranks[0] if len(self.ranks) == 1 else exp.Anonymous(this="GREATEST", expressions=self.ranks)

    def is_uncertain(self, expression: typed.Expression | typed.Term) -> bool:
        """Whether an expression may have no value."""
        match expression:
            case typed.Binary(op="++"):
                return self.is_uncertain(expression.left) or self.is_uncertain(expression.right)
            case typed.ListLiteral():
                return any(map(self.is_uncertain, expression.items))
            case typed.Call():
                return expression.partial or any(map(self.is_uncertain, expression.arguments))
            case typed.Binary() | typed.Negate():
                return True
            case typed.Convert():
                return self.is_uncertain(expression.operand) or _is_narrowing(expression)
            case typed.Variable():
                return expression.name in self.uncertain
            case _:
                return False

    def only_fits(self, expression: typed.Expression | typed.Term) -> bool:
        """Whether an expression has no value only where one does not fit its type: exact arithmetic of decimals."""
        match expression:
            case typed.Variable() if expression.name in self.assigned:
                return self.only_fits(self.assigned[expression.name])
            case typed.Convert():
                return self.only_fits(expression.operand)
            case typed.Binary(op="+" | "-" | "*") if expression.type.name == "decimal":
                return self.only_fits(expression.left) and self.only_fits(expression.right)
            case typed.Negate() if expression.type.name == "decimal":
                return self.only_fits(expression.operand)
        return not self.is_uncertain(expression)

    def tried(self, expression: typed.Expression | typed.Term) -> exp.Expr:
        """An expression that is NULL where it has no value."""
        tree = self.expression(expression)
        return exp.Try(this=tree) if self.is_uncertain(expression) else tree

    def expression(self, expression: typed.Expression | typed.Term) -> exp.Expr:
        """An expression as the engine would compute it, errors and all."""
        match expression:
            case typed.Variable():
                return self.values[expression.name].copy()
            case typed.Constant():
                return _constant(expression)
            case typed.Convert():
                # Not exp.cast, which takes decimals of all sizes for one type.
                return exp.Cast(this=self.expression(expression.operand), to=sql_type(expression.type))
            case typed.Negate() if expression.type.name == "float":
                return exp.Sub(this=_zero(), expression=_grouped(self.expression(expression.operand), "-", right=True))
            case typed.Negate():
                return exp.Neg(this=_grouped(self.expression(expression.operand), "*", right=True))
            case typed.Binary():
                return self.binary(expression)
            case typed.ListLiteral():
                items = [_typed(self.expression(item), item.type) for item in expression.items]
                made: exp.Expr = exp.Array(expressions=items)
                if not items:
                    made = exp.cast(made, sql_type(expression.type))
                return self.with_values(made, expression.items, items)
            case typed.Call():
                arguments = [_typed(self.expression(part), part.type) for part in expression.arguments]
                call = call_tree(expression, arguments, self.names.functions)
                if expression.type.name == "decimal":
                    call = exp.Cast(this=call, to=sql_type(expression.type))
                return self.with_values(call, expression.arguments, arguments)
        raise AssertionError(expression)

    def with_values(self, tree: exp.Expr, parts: Sequence[typed.Expression], trees: Sequence[exp.Expr]) -> exp.Expr:
        """A tree that is NULL where one of its parts is, which a list or a function need not be by itself."""
        there: list[exp.Expr] = [
            exp.Is(this=_grouped(part.copy(), "*", right=True), expression=exp.Not(this=exp.Null()))
            for source, part in zip(parts, trees, strict=True)
            if self.is_uncertain(source)
        ]
        return exp.Case(ifs=[exp.If(this=all_of(there), true=tree)]) if there else tree

    def binary(self, expression: typed.Binary) -> exp.Expr:
        """An operation, its result of exactly its type; a float that is not finite is no value, -0.0 is 0.0."""
        left, right = self.expression(expression.left), self.expression(expression.right)
        if not right.find(exp.Column, exp.Cast):
            left = _typed(left, expression.left.type)
        if expression.type == typed.INT and (_adds_constant(left) or _adds_constant(right)):
            left, right = _tried_apart(left), _tried_apart(right)
        left = _grouped(left, expression.op, right=False)
        right = _grouped(right, expression.op, right=True)
        if expression.op == "++":
            return exp.DPipe(this=left, expression=right)
        if expression.op == "/":
            if expression.type.name == "int":
                return exp.IntDiv(this=left, expression=right)
            result: exp.Expr = exp.Div(this=left, expression=right)
        elif expression.op == "%" and expression.type.name == "int" and not _is_positive(expression.right):
            result = WideMod(this=left, expression=right)
        else:
            if expression.op == "*" and _is_narrow(expression):
                left = exp.cast(_bare(left), exp.DataType.build(f"DECIMAL(19, {expression.left.type.scale})"))
            result = _ARITHMETIC[expression.op](this=left, expression=right)
        if expression.type.name == "decimal":
            return exp.Cast(this=result, to=sql_type(expression.type))
        if expression.type.name == "float":
            if expression.op in ("*", "/", "%"):
                result = exp.Add(this=result, expression=_zero())
            for outside in ("Infinity", "-Infinity", "NaN"):
                value = exp.cast(exp.Literal.string(outside), sql_type(typed.FLOAT))
                result = exp.Nullif(this=result, expression=value)
        return result


def _zero() -> exp.Expr:
    """The float that makes 0.0 of -0.0 when it is added: two equal values that print differently."""
    return exp.Literal.number("0E0")


def _one() -> exp.Expr:
    """The number of copies of a derivation that uses no entries."""
    return exp.cast(exp.Literal.number(1), sql_type(typed.INT))


def _is_positive(expression: typed.Expression) -> bool:
    """Whether an expression is a positive number literal."""
    return isinstance(expression, typed.Constant) and isinstance(expression.value, int) and expression.value > 0


def _is_narrowing(conversion: typed.Convert) -> bool:
    """Whether there are numbers that the wanted type, a decimal, has not enough digits for."""
    wanted, given = conversion.type, conversion.operand.type
    digits = 19 if given == typed.INT else given.precision - given.scale
    return wanted.name == "decimal" and wanted.precision - wanted.scale < digits


def _is_narrow(product: typed.Binary) -> bool:
    """Whether DuckDB would compute a product of decimals in 18 digits though it may have more."""
    digits = (product.left.type.precision, product.right.type.precision)
    return product.type.name == "decimal" and max(digits) <= 18 < sum(digits)


_CHAINED = (exp.Add, exp.Sub, exp.Mul)


def _adds_constant(tree: exp.Expr) -> bool:
    """Whether a tree is a constant, or a sum, difference or product with one."""
    tree = _bare(tree.this if isinstance(tree, exp.Cast | exp.Neg) else tree)
    if isinstance(tree, _CHAINED):
        return _adds_constant(tree.expression) or _adds_constant(tree.this)
    return isinstance(tree, exp.Literal)


def _tried_apart(tree: exp.Expr) -> exp.Expr:
    """An operand as an expression of its own: of (X + 1) + 2 DuckDB would make X + 3, which has a value for other X."""
    inner = _bare(tree.this if isinstance(tree, exp.Cast | exp.Neg) else tree)
    return exp.Try(this=_bare(tree)) if isinstance(inner, _CHAINED) else tree


def unlike(alias: str, taken: Iterable[str]) -> str:
    """``alias``, or ``alias`` with underscores that make it differ from all ``taken`` in engines that ignore case."""
    return _unlike(alias, {name.lower() for name in taken})


def _unlike(alias: str, known: set[str]) -> str:
    while alias.lower() in known:
        alias += "_"
    return alias


def _aliases(tables: list[str]) -> list[str]:
    """An alias for each joined table: its name, numbered where a table is joined several times."""
    times, seen = Counter(tables), Counter[str]()
    known = {name.lower() for name in tables}
    aliases: list[str] = []
    for name in tables:
        seen[name] += 1
        aliases.append(_unlike(f"{name}_{seen[name]}", known) if times[name] > 1 else name)
        known.add(aliases[-1].lower())
    return aliases


def _typed(tree: exp.Expr, type_: typed.Type) -> exp.Expr:
    """An expression of integer literals in 64 bits, where engines would take 32; others as they are."""
    literals = type_ == typed.INT and not tree.find(exp.Column, exp.Cast)
    return exp.cast(tree, sql_type(type_)) if literals else tree


def all_of(conditions: list[exp.Expr]) -> exp.Expr:
    """The conjunction, without parentheses."""
    return reduce(lambda left, right: exp.And(this=left, expression=right), conditions)


def _grouped(tree: exp.Expr, op: str, right: bool) -> exp.Expr:
    """A tree as an operand of ``op``, in parentheses where it binds less tightly."""
    additive = isinstance(tree, exp.Add | exp.Sub | exp.DPipe)
    tight = op in ("*", "/", "%")
    multiplicative = isinstance(tree, exp.Mul | exp.Div | exp.IntDiv | exp.Mod)
    loose = (additive and (tight or right)) or (multiplicative and tight) or isinstance(tree, exp.Neg)
    return exp.paren(tree, copy=False) if loose else tree


def _constant(constant: typed.Constant) -> exp.Expr:
    """A constant of exactly its type, but for integers, which every column makes 64-bit."""
    value, kind = constant.value, constant.type.name
    if isinstance(value, bool):
        return exp.true() if value else exp.false()
    if kind == "int":
        return exp.Literal.number(str(value)) if int(value) >= 0 else exp.Neg(this=exp.Literal.number(str(-int(value))))
    if kind == "string":
        return exp.Literal.string(str(value))
    if kind == "float":
        return exp.cast(exp.Literal.string(str(value or 0.0)), sql_type(typed.FLOAT))
    return exp.cast(exp.Literal.string(str(value)), sql_type(constant.type))


def _for_spark(node: exp.Expr) -> exp.Expr:
    """Spark has no TRY around an expression: its operations are tried one by one."""
    return _try_each(node.this.copy()) if isinstance(node, exp.Try) else node


def _try_each(tree: exp.Expr) -> exp.Expr:
    def tried(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Try):
            tried_already: exp.Expr = node.this
            return tried_already
        if type(node) in _TRIED:
            return exp.Anonymous(this=_TRIED[type(node)], expressions=[_bare(node.this), _bare(node.expression)])
        if isinstance(node, exp.Neg) and not isinstance(node.this, exp.Literal):
            return exp.Anonymous(this="TRY_SUBTRACT", expressions=[exp.Literal.number(0), _bare(node.this)])
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


def _bare(tree: exp.Expr) -> exp.Expr:
    """A tree without the parentheses it needed as an operand."""
    return tree.this if isinstance(tree, exp.Paren) else tree


def _bottom_up(tree: exp.Expr, change: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """Replace every node by what ``change`` makes of it, operands first."""
    # What is made of an operand may hold the operand, which then has another parent.
    for child, key, index in [(child, child.arg_key, child.index) for child in tree.iter_expressions()]:
        changed = _bottom_up(child, change)
        if changed is not child:
            tree.set(key or "", changed, index)
    return change(tree)
