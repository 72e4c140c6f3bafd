"""Queries as SQL: one sqlglot tree per query, printed in the dialects of DuckDB and Spark.

An expression without a value (overflow, division by zero, the first element of an empty list) is NULL, in both
engines and wherever an optimizer evaluates it. A derivation with a NULL in its head stops the batch
(``check_defined`` in the runtime). An error is therefore raised if and only if a derivation needs the value,
whatever the join order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache, reduce

from flintlog.compiler.ir import typed
from flintlog.compiler.ir.delta import Version, Versioned
from flintlog.compiler.ir.plan import Query
from sqlglot import exp

from .dialects import Sql, bare, constant_tree, print_sql, sql_type, wide_remainder
from .functions import call_tree
from .names import Names


def table(name: str, alias: str) -> exp.Table:
    """Return a table with an alias."""
    return exp.Table(this=_identifier(name), alias=exp.TableAlias(this=_identifier(alias)))


def column_of(name: str, alias: str) -> exp.Expr:
    """Return a column of the table with an alias; ``exp.column`` is too slow for hundreds of thousands of calls."""
    return exp.Column(this=_identifier(name), table=_identifier(alias))


def again(value: exp.Expr) -> exp.Expr:
    """A value for another place of a tree; of a column ``copy`` would make much ado."""
    return exp.Column(**value.args) if type(value) is exp.Column else value.copy()


def _identifier(name: str) -> exp.Identifier:
    return exp.Identifier(this=name, quoted=_is_quoted(name))


@cache
def _is_quoted(name: str) -> bool:
    return bool(exp.to_identifier(name).args["quoted"])


#: The placeholder for the facts of a query, until their text replaces it; no other text has braces.
FACTS = "{facts}"
#: Columns of facts after their values: the label and the source place of the rule.
FACT_RULE, FACT_PLACE = "_rule", "_at"


COMPARISONS: dict[str, type[exp.Binary]] = {
    "=": exp.EQ,
    "!=": exp.NEQ,
    "<": exp.LT,
    "<=": exp.LTE,
    ">": exp.GT,
    ">=": exp.GTE,
}
_ARITHMETIC: dict[str, type[exp.Binary]] = {"+": exp.Add, "-": exp.Sub, "*": exp.Mul, "%": exp.Mod}


#: The names of the columns that a ``first`` orders by.
ORDERED_BY = "_by_{}"


class QueryBuilder:
    """Builds the SQL of a query in a stratum of ``kind`` with relations ``members``. ``pivot`` is the head column that
    determines the bucket, where the bucket must be known even if a condition of the rule has no value; ``beside`` are
    the head columns that do not identify what derivations are listed by: witnesses of an extremum, or values."""

    def __init__(
        self,
        query: Query,
        names: Names,
        kind: str,
        members: frozenset[str],
        pivot: int | None = None,
        beside: Sequence[int] = (),
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
        # The table that lists the wanted heads: dead tuples, or groups.
        self.list = "dead" if kind in ("ranked", "proofs") else "groups"
        self.listed = unlike(self.list, self.aliases)
        #: The arguments of the head by which derivations are listed, with their places; of a tuple with a proof, the
        #: proof may be another one, and so may the witnesses of an extremum.
        apart = {*beside, *self.head.ranked}
        if kind == "proofs":
            apart.add(len(self.head.arguments) - 1)
        self.listing = tuple(pair for pair in enumerate(self.head.arguments) if pair[0] not in apart)

    @property
    def returning(self) -> bool:
        """Return whether only the derivations of listed heads are wanted."""
        return self.query.purpose == "returning"

    def build(self) -> Sql:
        """Return the query: joins in the planned order, then conditions and absences, then the head."""
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
        """Return a column of a joined table."""
        return column_of(self.names.columns[relation][index], alias)

    def table_name(self, versioned: Versioned) -> str:
        """Return the name of the table that holds a literal's relation in its version."""
        version = {Version.BEFORE: "before", Version.DELTA: "delta", Version.AFTER: "after"}[versioned.version]
        return f"{self.names.tables[versioned.atom.relation]}__{'absent_' if versioned.negated else ''}{version}"

    def join_listed(self) -> None:
        """Start from the table of dead heads, or of groups of an aggregate, whose derivations are wanted."""
        matches: list[exp.Expr] = []
        for index, argument in self.listing:
            if isinstance(argument, typed.Variable):
                column = self.column(self.listed, self.head.relation, index)
                if argument.name in self.values:
                    matches.append(exp.EQ(this=column, expression=again(self.values[argument.name])))
                else:
                    self.values[argument.name] = column
        name = f"{self.names.tables[self.head.relation]}__{self.list}"
        self.tables.append((table(name, self.listed), matches))

    def join_facts(self) -> str:
        """Join the table of facts on the known head variables, and return its alias."""
        alias = unlike("facts", (self.listed,))
        columns = self.names.columns[self.head.relation]
        matches: list[exp.Expr] = []
        for name, argument in zip(columns, self.head.arguments, strict=True):
            assert isinstance(argument, typed.Variable)
            given = column_of(name, alias)
            if argument.name in self.values:
                matches.append(exp.EQ(this=given, expression=again(self.values[argument.name])))
            else:
                # Engines infer the narrowest type that holds the values.
                self.values[argument.name] = exp.cast(given, sql_type(argument.type))
        known = [_identifier(name) for name in (*columns, *self.fact_columns)]
        named = exp.TableAlias(this=_identifier(alias), columns=known)
        self.tables.append((exp.Table(this=exp.Identifier(this=FACTS, quoted=False), alias=named), matches))
        return alias

    @property
    def fact_columns(self) -> tuple[str, str]:
        """Return the names of the columns with the labels and the places of facts."""
        columns = self.names.columns[self.head.relation]
        return unlike(FACT_RULE, columns), unlike(FACT_PLACE, columns)

    def match_computed(self) -> None:
        """Compare the listed heads with computed head arguments."""
        for index, argument in self.listing:
            if not isinstance(argument, typed.Variable | typed.Aggregate):
                column = self.column(self.listed, self.head.relation, index)
                self.conditions.append(exp.EQ(this=column, expression=self.tried(argument)))

    def join(self, versioned: Versioned, alias: str) -> None:
        """Join a literal on its constants and bound variables, and bind the others."""
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
        """Bind the variable of an assignment, or add a comparison.

        A derivation whose comparison has no value is kept, so that its head is rejected: see ``required``.
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
        # Wrap each side in TRY, not the comparison: DuckDB turns X + 1 < Y into X < Y - 1, which hides an overflow.
        sides = self.tried(condition.left), self.tried(condition.right)
        comparison: exp.Expr = COMPARISONS[condition.op](this=sides[0], expression=sides[1])
        if isinstance(condition.left, typed.Call) and condition.op == "=" and isinstance(sides[1], exp.Boolean):
            comparison = sides[0] if sides[1].this else exp.Not(this=sides[0])
        if not (self.is_uncertain(condition.left) or self.is_uncertain(condition.right)):
            if condition.left.type.name == "list":
                # DuckDB 2.0 would merge two such comparisons into BETWEEN, which it then rejects for lists.
                comparison = exp.Coalesce(this=comparison, expressions=[exp.false()])
            self.conditions.append(comparison)
        elif self.returning and self.kind == "ranked":
            self.conditions.append(comparison)
        else:
            self.conditions.append(exp.Coalesce(this=comparison, expressions=[exp.true()]))
            self.required.append(comparison.copy())
            self.fits_required = False

    def absence(self, versioned: Versioned) -> exp.Expr:
        """Return the condition that no tuple matches a negated literal."""
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
        """Return the select list for the head, and its ``partial`` and ``narrow`` columns (see :class:`Sql`)."""
        relation = self.head.relation
        columns: list[exp.Expr] = []
        partial: list[str] = []
        narrow: list[str] = []
        #: The places of columns that can say that a condition has no value, where the pivot has to be known.
        spare: list[int] = []
        ranked = self.head.ranked
        if all(isinstance(a, typed.Aggregate) or place in ranked for place, a in enumerate(self.head.arguments)):
            columns.append(exp.alias_(exp.true(), "_unit"))
        for index, argument in enumerate(self.head.arguments):
            name = self.names.columns[relation][index]
            wanted = argument.argument if isinstance(argument, typed.Aggregate) else argument
            for made, by in self.ordered(argument):
                columns.append(exp.alias_(_typed(self.tried(by), by.type), made))
                if self.is_uncertain(by):
                    partial.append(made)
                    narrow += [made] if self.only_fits(by) else []
            if wanted is None:
                continue
            value = _typed(self.tried(wanted), wanted.type)
            if isinstance(wanted, typed.Constant) and not isinstance(value, exp.Cast):
                value = exp.cast(value, sql_type(wanted.type))
            if self.is_uncertain(wanted) and not (self.returning and self.kind == "ranked"):
                partial.append(name)
                if self.only_fits(wanted):
                    narrow.append(name)
            if index != self.pivot and not isinstance(argument, typed.Aggregate):
                spare.append(len(columns))
            columns.append(exp.alias_(value, name))
        if self.required and not (self.returning and self.kind == "ranked"):
            # In other buckets than its own what a rule finds absent may be there, so its pivot has to be known.
            place = next(iter(spare), 0) if self.pivot is not None else 0
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

    def ordered(self, argument: typed.Expression | typed.Aggregate) -> list[tuple[str, typed.Expression]]:
        """Return the values by which a ``first`` orders, with the names of their columns."""
        order = argument.order if isinstance(argument, typed.Aggregate) else ()
        return [(ORDERED_BY.format(number), part.value) for number, part in enumerate(order, 1)]

    def rank(self) -> exp.Expr:
        """Return the rank of the derivation: the highest among its tuples of the same stratum, 0 if there are none."""
        if not self.ranks:
            return exp.cast(exp.Literal.number(0), sql_type(typed.INT))
        return self.ranks[0] if len(self.ranks) == 1 else exp.Anonymous(this="GREATEST", expressions=self.ranks)

    def is_uncertain(self, expression: typed.Expression | typed.Term) -> bool:
        """Return whether an expression may have no value."""
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
        """Return whether an expression lacks a value only if one does not fit its type: exact decimal arithmetic."""
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
        """Return an expression that is NULL where it has no value."""
        tree = self.expression(expression)
        return exp.Try(this=tree) if self.is_uncertain(expression) else tree

    def expression(self, expression: typed.Expression | typed.Term) -> exp.Expr:
        """Return an expression that may raise the errors of the engine."""
        match expression:
            case typed.Variable():
                return self.values[expression.name].copy()
            case typed.Constant():
                return constant_tree(expression)
            case typed.Convert():
                given = self.expression(expression.operand)
                if expression.type == typed.FLOAT and _is_large_integer(expression.operand.type):
                    given = exp.cast(given, sql_type(typed.STRING))
                # Not exp.cast, which treats decimals of all sizes as one type.
                return exp.Cast(this=given, to=sql_type(expression.type))
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
        """Return a tree that is NULL if one of its uncertain parts is, as lists and functions need not be."""
        there: list[exp.Expr] = [
            exp.Is(this=_grouped(part.copy(), "*", right=True), expression=exp.Not(this=exp.Null()))
            for source, part in zip(parts, trees, strict=True)
            if self.is_uncertain(source)
        ]
        return exp.Case(ifs=[exp.If(this=all_of(there), true=tree)]) if there else tree

    def binary(self, expression: typed.Binary) -> exp.Expr:
        """Return an operation of exactly its type. Floats that are not finite become NULL, and -0.0 becomes 0.0."""
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
            result = wide_remainder(left, right)
        else:
            if expression.op == "*" and _is_narrow(expression):
                left = exp.cast(bare(left), exp.DataType.build(f"DECIMAL(19, {expression.left.type.scale})"))
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


def _is_large_integer(type_: typed.Type) -> bool:
    """Return whether a type has integers of over 64 bits, which DuckDB 2.0 does not round to the nearest float."""
    return type_.name == "decimal" and type_.scale == 0 and type_.precision > 18


def _zero() -> exp.Expr:
    """Return the float 0, which added to -0.0 makes 0.0: the two are equal but print differently."""
    return exp.Literal.number("0E0")


def _one() -> exp.Expr:
    """Return the number of copies of a derivation that uses no entries."""
    return exp.cast(exp.Literal.number(1), sql_type(typed.INT))


def _is_positive(expression: typed.Expression) -> bool:
    """Return whether an expression is a positive integer literal."""
    return isinstance(expression, typed.Constant) and isinstance(expression.value, int) and expression.value > 0


def _is_narrowing(conversion: typed.Convert) -> bool:
    """Return whether a conversion is to a decimal with too few integer digits for some numbers."""
    wanted, given = conversion.type, conversion.operand.type
    digits = 19 if given == typed.INT else given.precision - given.scale
    return wanted.name == "decimal" and wanted.precision - wanted.scale < digits


def _is_narrow(product: typed.Binary) -> bool:
    """Return whether DuckDB would compute a product of decimals in 18 digits although it may have more."""
    digits = (product.left.type.precision, product.right.type.precision)
    return product.type.name == "decimal" and max(digits) <= 18 < sum(digits)


_CHAINED = (exp.Add, exp.Sub, exp.Mul)


def _adds_constant(tree: exp.Expr) -> bool:
    """Return whether a tree is a number literal, or a sum, difference or product with one."""
    tree = bare(tree.this if isinstance(tree, exp.Cast | exp.Neg) else tree)
    if isinstance(tree, _CHAINED):
        return _adds_constant(tree.expression) or _adds_constant(tree.this)
    return isinstance(tree, exp.Literal)


def _tried_apart(tree: exp.Expr) -> exp.Expr:
    """Return an operand in a TRY of its own: DuckDB would turn (X + 1) + 2 into X + 3, which overflows elsewhere."""
    inner = bare(tree.this if isinstance(tree, exp.Cast | exp.Neg) else tree)
    return exp.Try(this=bare(tree)) if isinstance(inner, _CHAINED) else tree


def unlike(alias: str, taken: Iterable[str]) -> str:
    """Return ``alias`` with as many underscores as make it differ from all ``taken``, ignoring case."""
    return _unlike(alias, {name.lower() for name in taken})


def _unlike(alias: str, known: set[str]) -> str:
    while alias.lower() in known:
        alias += "_"
    return alias


def _aliases(tables: list[str]) -> list[str]:
    """Return an alias for each joined table: its name, numbered if a table is joined several times."""
    times, seen = Counter(tables), Counter[str]()
    known = {name.lower() for name in tables}
    aliases: list[str] = []
    for name in tables:
        seen[name] += 1
        aliases.append(_unlike(f"{name}_{seen[name]}", known) if times[name] > 1 else name)
        known.add(aliases[-1].lower())
    return aliases


def _typed(tree: exp.Expr, type_: typed.Type) -> exp.Expr:
    """Return an expression, cast to 64 bits if it has only integer literals, for which engines would take 32."""
    literals = type_ == typed.INT and not tree.find(exp.Column, exp.Cast)
    return exp.cast(tree, sql_type(type_)) if literals else tree


def all_of(conditions: list[exp.Expr]) -> exp.Expr:
    """Return the conjunction of conditions, without parentheses."""
    return reduce(lambda left, right: exp.And(this=left, expression=right), conditions)


def _grouped(tree: exp.Expr, op: str, right: bool) -> exp.Expr:
    """Return a tree as an operand of ``op``, in parentheses if it binds less tightly."""
    additive = isinstance(tree, exp.Add | exp.Sub | exp.DPipe)
    tight = op in ("*", "/", "%")
    multiplicative = isinstance(tree, exp.Mul | exp.Div | exp.IntDiv | exp.Mod)
    loose = (additive and (tight or right)) or (multiplicative and tight) or isinstance(tree, exp.Neg)
    return exp.paren(tree, copy=False) if loose else tree
