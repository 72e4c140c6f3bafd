"""Queries as SQL: one sqlglot tree per query, printed in the dialects of DuckDB and Spark.

An expression without a value (overflow, division by zero, the first element of an empty list) is NULL, in both
engines and wherever an optimizer evaluates it. A derivation with a NULL in its head stops the batch
(``check_defined`` in the runtime). An error is therefore raised if and only if a derivation needs the value,
whatever the join order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import cache, reduce
from itertools import product

from flintlog.compiler.ir import typed
from flintlog.compiler.ir.delta import Version, Versioned
from flintlog.compiler.ir.plan import Query
from flintlog.runtime.kernel.table_names import TableName
from sqlglot import exp

from .expressions import ExpressionBuilder, all_of, with_type
from .functions import item_tree
from .names import Names
from .print_sql import Sql, print_sql, sql_type


def table(name: str, alias: str) -> exp.Table:
    """Return a table with an alias."""
    return exp.Table(this=_identifier(name), alias=exp.TableAlias(this=_identifier(alias)))


def column_of(name: str, alias: str) -> exp.Expr:
    """Return a column of the table with an alias; ``exp.column`` is too slow for hundreds of thousands of calls."""
    return exp.Column(this=_identifier(name), table=_identifier(alias))


def again(value: exp.Expr) -> exp.Expr:
    """Return a value for another place of a tree. Copying a column by ``copy`` is slow."""
    return exp.Column(**value.args) if type(value) is exp.Column else value.copy()


def _identifier(name: str) -> exp.Identifier:
    return exp.Identifier(this=name, quoted=_is_quoted(name))


@cache
def _is_quoted(name: str) -> bool:
    return bool(exp.to_identifier(name).args["quoted"])


FACTS = "{facts}"
"""The placeholder for the facts of a query, until their text replaces it; no other text has braces."""

FACT_RULE, FACT_PLACE = "_rule", "_at"
"""Columns of facts after their values: the label and the source place of the rule."""


COMPARISONS: dict[str, type[exp.Binary]] = {
    "=": exp.EQ,
    "!=": exp.NEQ,
    "<": exp.LT,
    "<=": exp.LTE,
    ">": exp.GT,
    ">=": exp.GTE,
}


MOST_DOUBTS = 3
"""The most doubtful equalities that are split: for each of them, the number of queries doubles."""

Select = tuple[exp.Expr, tuple[str, ...], tuple[str, ...]]
"""The tree of a query for a head, and its ``partial`` and ``narrow`` columns (see :class:`Sql`)."""

ORDERED_BY = "_by_{}"
"""The names of the columns that a ``first`` orders by."""


class QueryBuilder(ExpressionBuilder):
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
        super().__init__(names.functions, query.conditions)
        self.query, self.names, self.kind, self.members = query, names, kind, members
        self.pivot, self.beside = pivot, beside
        self.head = query.rule.head
        self.fits_required = True
        self.ranks: list[exp.Expr] = []
        self.copies: list[exp.Expr] = []
        self.tables: list[tuple[exp.Expr, list[exp.Expr]]] = []
        self.conditions: list[exp.Expr] = []
        self.required: list[exp.Expr] = []
        #: The places of equalities that may lack a value among the conditions, with those among the required ones.
        self.doubtful: dict[int, int] = {}
        # In a subquery, Spark takes the name of a column for the column, whatever tables around it are called.
        inner = {column.lower() for negated in query.negations for column in names.columns[negated.atom.relation]}
        self.aliases = _aliases([names.tables[versioned.atom.relation] for versioned in query.joins], inner)
        self.ranked = kind in ("ranked", "extremal")
        # The table that lists the wanted heads: dead tuples, or groups.
        self.list = "dead" if kind in ("ranked", "proofs") else "groups"
        self.listed = unlike(self.list, (*self.aliases, *inner))
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
        """Return the query.

        Engines cannot hash an equality that also holds where a side has no value. If no other one connects its tables,
        it holds only between values here, and a further query finds the derivations in which a side has none.
        """
        self.collect()
        apart = self.unconnected()[:MOST_DOUBTS]
        outcomes = product(*map(self.outcomes, apart))
        selects = [self.given(dict(zip(apart, outcome, strict=True))) for outcome in outcomes]
        trees: list[exp.Expr] = [tree for tree, _, _ in selects]
        _, partial, narrow = selects[-1]
        united = reduce(lambda one, other: exp.Union(this=one, expression=other, distinct=False), trees)
        return print_sql(united, partial, narrow)

    def outcomes(self, place: int) -> list[str]:
        """Return what may become of a doubtful equality: it holds, which is empty, or one of its sides has no value."""
        sides = self.conditions[place].this.args
        return ["", *(side for side in ("this", "expression") if isinstance(sides[side], exp.Try))]

    def given(self, outcomes: Mapping[int, str]) -> Select:
        """Return the query for the derivations with these outcomes of doubtful equalities, by their places."""
        if not outcomes:
            return self.select()
        builder = QueryBuilder(self.query, self.names, self.kind, self.members, self.pivot, self.beside)
        builder.collect()
        for place, side in outcomes.items():
            equality = builder.conditions[place].this
            lacking = exp.Is(this=equality.args[side], expression=exp.Null()) if side else None
            builder.conditions[place] = lacking or equality
        if not any(outcomes.values()):
            certain = {self.doubtful[place] for place in outcomes}
            builder.required = [needed for place, needed in enumerate(builder.required) if place not in certain]
        return builder.select()

    def collect(self) -> None:
        """Collect the joins in the planned order, then conditions and absences."""
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

    def select(self) -> Select:
        """Return the query for the head. Equalities stand where the last of their tables is joined."""
        columns, partial, narrow = self.select_list()
        tables = {source.alias: (source, list[exp.Expr]()) for source in self.ordered_tables()}
        conditions: list[exp.Expr] = []
        joins = [(source.alias, match) for source, matches in self.tables for match in matches]
        for own, condition in (*joins, *(("", condition) for condition in self.conditions)):
            joined = _tables_of(condition) if isinstance(condition, exp.EQ | exp.Is) else set[str]()
            if isinstance(condition, exp.Is):
                # Not in WHERE, to which DuckDB 2.0 does not come before it has joined all for an absence of lists.
                joined |= set(list(tables)[:2])
            if len(joined) > 1:
                own = next(alias for alias in reversed(tables) if alias in joined)
            (tables[own][1] if own else conditions).append(condition)
        select = exp.select(*columns, copy=False)
        if tables:
            (first, matches), *others = tables.values()
            select.set("from_", exp.From(this=first))
            conditions = [*matches, *conditions]
            kinds = ({"on": all_of(matches)} if matches else {"kind": "CROSS"} for _, matches in others)
            select.set("joins", [exp.Join(this=of, **kind) for (of, _), kind in zip(others, kinds, strict=True)])
        if conditions:
            select.set("where", exp.Where(this=all_of(conditions)))
        return select, partial, narrow

    def ordered_tables(self) -> list[exp.Expr]:
        """Return the tables in the planned order, but each behind those that equalities connect it with: where DuckDB
        finds no better order, it keeps this one. The first one is the one behind which the fewest tables have no
        equality, and these as late as can be."""
        planned = {source.alias: source for source, _ in self.tables}
        keys: dict[str, list[set[str]]] = {alias: [] for alias in planned}
        for one, other in map(_sides, self.equalities()):
            for table, others in ((one, other), (other, one)):
                if len(table) == 1 and others and not table & others:
                    keys[next(iter(table))].append(others)
        best, fewest = list(planned), (len(planned), 0)
        for first in planned:
            order, products = [first], list[int]()
            waiting = [alias for alias in planned if alias != first]
            while waiting:
                ready = (alias for alias in waiting if any(others.issubset(order) for others in keys[alias]))
                chosen = next(ready, None)
                if chosen is None:
                    products.append(-len(order))
                order.append(chosen or waiting[0])
                waiting.remove(order[-1])
            best, fewest = min((best, fewest), (order, (len(products), sum(products[:1]))), key=lambda pair: pair[1])
            if not products:
                break
        return [planned[alias] for alias in best]

    def equalities(self) -> list[exp.EQ]:
        """Return the equalities that hold in every derivation."""
        conditions = [*(match for _, matches in self.tables for match in matches), *self.conditions]
        return [condition for condition in conditions if isinstance(condition, exp.EQ)]

    def unconnected(self) -> list[int]:
        """Return the places of the doubtful equalities without which no equality would connect some of the tables."""
        if not self.doubtful:
            return []
        equalities = self.equalities()
        cut_off: list[int] = []
        groups = _connected([{source.alias} for source, _ in self.tables], equalities)
        doubtful = {place: self.conditions[place].this for place in self.doubtful}
        while connecting := [place for place, e in doubtful.items() if len(_connected(groups, [e])) < len(groups)]:
            cut_off.append(connecting[0])
            equalities.append(doubtful[connecting[0]])
            groups = _connected(groups, equalities)
        return cut_off

    def column(self, alias: str, relation: str, index: int) -> exp.Expr:
        """Return a column of a joined table."""
        return column_of(self.names.columns[relation][index], alias)

    def table_name(self, versioned: Versioned) -> str:
        """Return the name of the table that holds a literal's relation in its version."""
        version = {Version.BEFORE: "before", Version.DELTA: "delta", Version.AFTER: "after"}[versioned.version]
        return TableName(self.names.tables[versioned.atom.relation]).beside(f"{'absent_' * versioned.negated}{version}")

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
        name = TableName(self.names.tables[self.head.relation]).beside(self.list)
        self.tables.append((table(name, self.listed), matches))

    def join_facts(self) -> str:
        """Join the table of facts on the known head variables, and return its alias."""
        alias = unlike("facts", (self.listed,))
        columns = self.names.columns[self.head.relation]
        matches: list[exp.Expr] = []
        for name, argument in zip(columns, self.head.arguments, strict=True):
            assert isinstance(argument, typed.Variable)
            fact_value = column_of(name, alias)
            if argument.name in self.values:
                matches.append(exp.EQ(this=fact_value, expression=again(self.values[argument.name])))
            else:
                # Engines infer the narrowest type that holds the values.
                self.values[argument.name] = exp.cast(fact_value, sql_type(argument.type))
        aliases = [_identifier(name) for name in (*columns, *self.fact_columns)]
        named = exp.TableAlias(this=_identifier(alias), columns=aliases)
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
                if condition.variable.type.name == "list" and not self.is_uncertain(condition.value):
                    self.conditions += self.equal_lists(condition.variable, condition.value)
                else:
                    matches = exp.EQ(this=self.expression(condition.variable), expression=self.tried(condition.value))
                    self.conditions.append(matches)
                return
            self.values[name] = self.shared(with_type(self.tree(condition.value), condition.value.type))
            if self.is_uncertain(condition.value):
                self.uncertain.add(name)
                self.assigned[name] = condition.value
                if not any(isinstance(a, typed.Variable) and a.name == name for a in self.head.arguments):
                    value = exp.Try(this=self.expression(condition.variable))
                    self.required.append(exp.Is(this=value, expression=exp.Not(this=exp.Null())))
                    self.fits_required = self.fits_required and self.only_fits(condition.value)
            return
        certain = not (self.is_uncertain(condition.left) or self.is_uncertain(condition.right))
        if certain and condition.op == "=" and condition.left.type.name == "list":
            self.conditions += self.equal_lists(condition.left, condition.right)
            return
        # Wrap each side in TRY, not the comparison: DuckDB turns X + 1 < Y into X < Y - 1, which hides an overflow.
        sides = self.tried(condition.left), self.tried(condition.right)
        comparison: exp.Expr = COMPARISONS[condition.op](this=sides[0], expression=sides[1])
        if isinstance(condition.left, typed.Call) and condition.op == "=" and isinstance(sides[1], exp.Boolean):
            comparison = sides[0] if sides[1].this else exp.Not(this=sides[0])
        if certain:
            if condition.left.type.name == "list" and condition.op != "!=":
                # DuckDB 2.0 would merge two such comparisons into BETWEEN, which it then rejects for lists.
                comparison = exp.Coalesce(this=comparison, expressions=[exp.false()])
            self.conditions.append(comparison)
        elif self.returning and self.kind == "ranked":
            self.conditions.append(comparison)
        else:
            if isinstance(comparison, exp.EQ):
                self.doubtful[len(self.conditions)] = len(self.required)
            self.conditions.append(exp.Coalesce(this=comparison, expressions=[exp.true()]))
            self.required.append(comparison.copy())
            self.fits_required = False

    def equal_lists(self, left: typed.Expression, right: typed.Expression) -> list[exp.Expr]:
        """Return the conditions that two lists, neither without a value, are equal. Items are compared where these are
        better keys for joins: the one item of an optional value, and items from several tables."""
        for literal, other in ((left, right), (right, left)):
            if isinstance(literal, typed.ListLiteral) and literal.items:
                items = [self.expression(item) for item in literal.items]
                if literal.type.optional:
                    value = typed.Call(typed.VALUE, (other,), literal.items[0].type, literal.span)
                    return [exp.EQ(this=self.expression(value), expression=items[0])]
                if len(set[str]().union(*map(_tables_of, items))) > 1:
                    size = typed.Call("size", (other,), typed.INT, literal.span)
                    sizes = exp.EQ(this=self.expression(size), expression=exp.Literal.number(len(items)))
                    other_items = [item_tree(self.expression(other), place) for place, _ in enumerate(items, 1)]
                    pairs = zip(other_items, items, strict=True)
                    return [sizes, *(exp.EQ(this=one, expression=item) for one, item in pairs)]
        return [exp.EQ(this=self.expression(left), expression=self.expression(right))]

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
            operand = argument.argument if isinstance(argument, typed.Aggregate) else argument
            for order, by in self.ordered(argument):
                columns.append(exp.alias_(with_type(self.tried(by), by.type), order))
                if self.is_uncertain(by):
                    partial.append(order)
                    narrow += [order] if self.only_fits(by) else []
            if operand is None:
                continue
            value = with_type(self.tried(operand), operand.type)
            if isinstance(operand, typed.Constant) and not isinstance(value, exp.Cast):
                value = exp.cast(value, sql_type(operand.type))
            if self.is_uncertain(operand) and not (self.returning and self.kind == "ranked"):
                partial.append(name)
                if self.only_fits(operand):
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


def _tables_of(tree: exp.Expr) -> set[str]:
    """Return the aliases of the tables whose columns a tree has."""
    return {column.table for column in tree.find_all(exp.Column) if column.table}


def _sides(equality: exp.EQ) -> tuple[set[str], set[str]]:
    """Return the aliases of the tables on each side of an equality."""
    return _tables_of(equality.this), _tables_of(equality.expression)


def _connected(groups: list[set[str]], equalities: Sequence[exp.EQ]) -> list[set[str]]:
    """Return groups of tables, merged where an equality compares a value of one with a value of another."""
    for equality in equalities:
        ends = [group for side in _sides(equality) for group in groups if side and side <= group]
        if len(ends) == 2 and ends[0] is not ends[1]:
            groups = [group for group in groups if group not in ends] + [ends[0] | ends[1]]
            return _connected(groups, equalities)
    return groups


def _one() -> exp.Expr:
    """Return the number of copies of a derivation that uses no entries."""
    return exp.cast(exp.Literal.number(1), sql_type(typed.INT))


def unlike(alias: str, taken: Iterable[str]) -> str:
    """Return ``alias`` with as many underscores as make it differ from all ``taken``, ignoring case."""
    return _unlike(alias, {name.lower() for name in taken})


def _unlike(alias: str, known: set[str]) -> str:
    while alias.lower() in known:
        alias += "_"
    return alias


def _aliases(tables: list[str], taken: Set[str]) -> list[str]:
    """Return an alias for each joined table: its name, numbered if a table is joined several times or the name is
    ``taken``, which names of columns in subqueries are."""
    times, seen = Counter(tables), Counter[str]()
    known = {name.lower() for name in tables} | taken
    aliases: list[str] = []
    for name in tables:
        seen[name] += 1
        plain = times[name] == 1 and name.lower() not in taken
        aliases.append(name if plain else _unlike(f"{name}_{seen[name]}", known))
        known.add(aliases[-1].lower())
    return aliases
