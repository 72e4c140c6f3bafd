"""Groups and aggregates of SQL.

    SELECT city, count(*), max(age) FROM person GROUP BY city

reads a relation of groups, whose head has the aggregates that each derivation has a value for:

    person_groups(city, count<*>) :- person(_, city, _).

An aggregate over values that may be null, or of some rows only, has a relation of its own; groups that are not there
have null, or 0 for a count. A key that may be null is a list in these relations, empty for null, since a null equals
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING

from sqlglot import exp

from ...ir import syntax, typed
from ...type_rules import aggregate_type
from .expressions import (
    TRUE,
    SqlExpressions,
    as_common,
    common,
    converted,
    function_name,
    is_widened,
    may_hold,
    null_or_not,
    sql_name,
    test,
)
from .functions import AGGREGATES
from .scope import (
    Branch,
    Case,
    Literals,
    Row,
    SqlColumn,
    SqlTable,
    SqlValue,
    certain,
    null,
    null_of,
    outside_queries,
    variables,
)
from .subqueries import bound_around
from .text import Unsupported, count_of, free_name, only

if TYPE_CHECKING:
    from .queries import Queries


@dataclass(frozen=True)
class AggregateCall:
    """An aggregate of a query: its function, argument and condition."""

    node: exp.Expr
    function: str
    argument: exp.Expr | None
    distinct: bool
    condition: exp.Expr | None


@dataclass(frozen=True)
class _Derivation:
    """One way to make a row of a group: what holds, and the keys."""

    row: Row
    literals: Literals
    keys: tuple[SqlValue, ...]


class Groups:
    """The groups of a SELECT."""

    def __init__(self, queries: Queries, node: exp.Select) -> None:
        self.queries, self.node = queries, node
        self.program = queries.program
        self.calls = list(self._calls())
        self.keys = list(self._keys())
        #: The places of the sums and the counts that averages are.
        self.averages: dict[int, int] = {}
        #: A row with the columns that may be grouped by.
        self.sources = Row(())

    @property
    def counts(self) -> bool:
        """Whether copies count."""
        return any(call.function in ("count", "sum", "avg") and not call.distinct for call in self.calls)

    @property
    def is_selected(self) -> bool:
        """Whether there are groups, and all keys are selected, so that no rows are equal."""
        if not self.calls and not self.keys:
            return False
        items = (item.this if isinstance(item, exp.Alias) else item for item in self.node.expressions)
        selected = {self._name_of(item) for item in items}
        return all(self._name_of(key) in selected for key in self.keys)

    def _calls(self) -> Iterator[AggregateCall]:
        """Yield the aggregates of the query, not those of queries in it."""
        parts = [*self.node.expressions, self.node.args.get("having")]
        seen: set[exp.Expr] = set()
        for part in filter(None, parts):
            for found in outside_queries(part):
                if isinstance(found, exp.Filter) or type(found) in AGGREGATES:
                    if not isinstance(found.parent, exp.Filter | exp.Window) and found not in seen:
                        seen.add(found)
                        yield self._call(found)
                elif isinstance(found, exp.AggFunc) and not isinstance(found.parent, exp.Window):
                    raise _no_equal(found)

    def _call(self, node: exp.Expr) -> AggregateCall:
        condition, call = None, node
        if isinstance(node, exp.Filter):
            condition, call = node.expression.this, node.this
        if type(call) not in AGGREGATES:
            raise _no_equal(call)
        only(call, "this", "big_int")
        argument, distinct = call.this, False
        if isinstance(argument, exp.Distinct):
            only(argument, "expressions")
            if len(argument.expressions) != 1:
                raise Unsupported("E0792", "an aggregate over several distinct values is not supported", node)
            argument, distinct = argument.expressions[0], True
        for found in () if argument is None else outside_queries(argument):
            if isinstance(found, exp.AggFunc | exp.Window):
                raise Unsupported(
                    "E0792", "an aggregate of aggregates is not supported", node, "aggregate in a view first"
                )
        if isinstance(argument, exp.Star):
            argument = None
        return AggregateCall(node, AGGREGATES[type(call)], argument, distinct, condition)

    def _keys(self) -> Iterator[exp.Expr]:
        """Yield the expressions by which rows are grouped."""
        group = self.node.args.get("group")
        if group is None:
            return
        only(group, "expressions")
        aliases = {str(item.alias).lower(): item.this for item in self.node.expressions if isinstance(item, exp.Alias)}
        for key in group.expressions:
            if isinstance(key, exp.Literal) and not key.is_string:
                place = count_of(key)
                if place is None or not 1 <= place <= len(self.node.expressions):
                    raise Unsupported("E0794", f"there is no column {str(key.this)[:20]} in this SELECT", key)
                item = self.node.expressions[place - 1]
                yield item.this if isinstance(item, exp.Alias) else item
            elif isinstance(key, exp.Column) and key.args.get("table") is None and str(key.name).lower() in aliases:
                named = aliases[str(key.name).lower()]
                yield key if isinstance(named, exp.Column) and named.name == key.name else named
            else:
                yield key

    def refuse(self, where: exp.Expr) -> None:
        """Raise Unsupported for aggregates in a WHERE."""
        for found in outside_queries(where):
            if isinstance(found, exp.AggFunc):
                raise Unsupported("E0792", "an aggregate cannot stand in WHERE", found, "write HAVING")

    # ---- rows ------------------------------------------------------------------------------------------------------

    def rows(self, rows: Sequence[Row], outer: Row | None, sample: Row) -> list[Row]:
        """Return the groups of rows as rows in which keys and aggregates are known. A ``sample`` has the columns."""
        self.sources = sample
        examples = list(self._derivations([sample]))
        derivations = list(self._derivations(rows))
        around, derivations = self._around(derivations, outer)
        types = [common(d.keys[place] for d in derivations or examples) for place in range(len(self.keys))]
        derivations = [
            _Derivation(d.row, (*d.literals, *tests), tuple(keys))
            for d in derivations
            for tests, keys in converted(d.keys, types)
            if may_hold((*d.literals, *tests))
        ]
        parts = [self._values(call, derivations) for call in self.calls]
        for place, (call, found) in enumerate(list(zip(self.calls, parts, strict=True))):
            if call.function not in ("avg", "count") or not any(is_widened(v) for cases in found for _, v in cases):
                continue
            if call.distinct:
                message = "decimals with others, or with integers, cannot be told apart here"
                raise Unsupported("E0793", message, call.node, "write CAST(... AS DOUBLE) around each")
            if call.function == "avg":
                self.averages[place] = len(self.calls)
                self.calls[place] = replace(call, function="sum")
                self.calls.append(replace(call, function="count"))
                parts.append(found)
        plain = [
            place
            for place, found in enumerate(parts)
            if all(
                len(cases) == 1 and not cases[0][0] and not self.program.lacks_value(cases[0][1], d.literals)
                for d, cases in zip(derivations, found, strict=True)
            )
        ]
        coded = len(plain) < len(self.calls) and bool(self.keys)
        columns = [
            *(self.program.column_of(n, [Branch(d.literals, ()) for d in derivations]) for n in around),
            *self._key_columns(derivations or examples, coded, around),
        ]
        samples = [self._values(call, examples) for call in self.calls]
        types = [
            typed.STRING if type_ == typed.NOTHING else type_
            for found, more in zip(parts, samples, strict=True)
            for type_ in [common([value for cases in (*found, *more) for _, value in cases])]
        ]
        for call, type_ in zip(self.calls, types, strict=True):
            numbers = call.function in ("sum", "avg")
            if not (type_.numeric if numbers else type_.ordered or call.function == "count"):
                wanted = "numbers" if numbers else "values with an order"
                message = f"{call.function} takes {wanted}, and this is {sql_name(type_)}"
                raise Unsupported("E0793", message, call.node)
        groups = self._relation(
            "groups",
            columns,
            [self.calls[p] for p in plain],
            [types[p] for p in plain],
            [(d, (), [parts[p][i][0][1] for p in plain]) for i, d in enumerate(derivations)],
            coded,
            around,
        )
        own = {
            place: self._relation(
                self.calls[place].function,
                columns,
                [self.calls[place]],
                [types[place]],
                [
                    (d, literals, [value])
                    for d, cases in zip(derivations, parts[place], strict=True)
                    for literals, value in cases
                    if not value.is_null
                ],
                coded,
                around,
            )
            for place in range(len(self.calls))
            if place not in plain
        }
        return list(self._read(groups, own, plain, columns, types, coded, around, outer))

    def _derivations(self, rows: Sequence[Row]) -> Iterator[_Derivation]:
        expressions = SqlExpressions(self.queries, True)
        for row in rows:
            for chosen in product(*(expressions.values(key, row) for key in self.keys)):
                literals = (*row.literals, *(literal for case in chosen for literal in case[0]))
                yield _Derivation(row, literals, tuple(value for _, value in chosen))

    def _around(self, derivations: Sequence[_Derivation], outer: Row | None) -> tuple[list[str], list[_Derivation]]:
        """Return the variables of queries around this one that the groups depend on, and derivations that bind
        them."""
        branches = [Branch(d.literals, (*d.keys, *d.row.values)) for d in derivations]
        arguments = [value for d in derivations for call in self.calls for value in self._arguments(call, d.row)]
        keys = [value for d in derivations for value in d.keys]
        used, simple = bound_around(self.queries, branches, outer, (*arguments, *keys))
        result, count = [], len(self.keys)
        for d, made in zip(derivations, simple, strict=True):
            if made is not None:
                row = replace(d.row, literals=made.literals).with_values(made.values[count:])
                result.append(_Derivation(row, made.literals, made.values[:count]))
        return used, result

    def _arguments(self, call: AggregateCall, row: Row) -> Iterator[SqlValue]:
        """Yield the values that an aggregate ranges over in a row."""
        if call.argument is not None:
            yield from (value for _, value in SqlExpressions(self.queries, True).values(call.argument, row))

    def _values(self, call: AggregateCall, derivations: Sequence[_Derivation]) -> list[list[Case]]:
        """Return the cases of an aggregate's argument in each derivation; 1 for ``count(*)``."""
        expressions = SqlExpressions(self.queries, True)
        found = []
        for d in derivations:
            span = self.program.span(call.node)
            one: list[Case] = [((), SqlValue(syntax.ConstantNode(1, "int", span), typed.INT))]
            cases = one if call.argument is None else expressions.values(call.argument, d.row)
            if call.condition is not None:
                true = expressions.holds(call.condition, d.row, TRUE)
                type_ = common([value for _, value in cases])
                cases = [((*a, *b), value) for a in true for b, value in cases]
                cases = cases or [((), replace(null(span), type=type_))]
            found.append(cases)
        return found

    def _key_columns(self, derivations: Sequence[_Derivation], coded: bool, around: Sequence[str]) -> list[SqlColumn]:
        columns: list[SqlColumn] = []
        for place, key in enumerate(self.keys):
            given = [d.keys[place] for d in derivations]
            nullable = any(self.program.lacks_value(d.keys[place], d.literals) for d in derivations)
            type_ = common(given)
            type_ = typed.STRING if type_ == typed.NOTHING else type_
            name = (
                str(key.name).lower()
                if isinstance(key, exp.Column) and str(key.name).isidentifier()
                else f"key{place + 1}"
            )
            name = free_name(name, [*around, *(column.name for column in columns)])
            columns.append(SqlColumn(name, type_, nullable))
        if coded:
            columns = [SqlColumn(c.name, typed.list_of(c.type), False) if c.nullable else c for c in columns]
        return columns

    def _relation(
        self,
        hint: str,
        columns: Sequence[SqlColumn],
        calls: Sequence[AggregateCall],
        types: Sequence[typed.Type],
        derivations: Sequence[tuple[_Derivation, Literals, Sequence[SqlValue]]],
        coded: bool,
        around: Sequence[str],
    ) -> SqlTable:
        """Return a relation of groups with some aggregates."""
        program = self.program
        results: list[SqlColumn] = []
        for call, type_ in zip(calls, types, strict=True):
            name = free_name(call.function, [column.name for column in (*columns, *results)])
            results.append(SqlColumn(name, aggregate_type(call.function, type_), False))
        key = frozenset(column.name for column in columns)
        table = SqlTable(program.relation_name(f"{self.queries.name}_{hint}"), (*columns, *results), (key,))
        program.declare(table, why="groups of a view")
        for d, literals, values in derivations:
            keys = [
                *(SqlValue(syntax.VariableNode(n, program.where), program.types[n]) for n in around),
                *d.keys,
            ]
            made = program.simplified(
                Branch(
                    (*d.literals, *literals), (*keys, *(as_common(v, t) for v, t in zip(values, types, strict=True)))
                ),
                frozenset(around),
            )
            if made is None:
                continue
            for tests, heads in self._heads(made.values[: len(columns)], columns, coded, made):
                if not may_hold((*made.literals, *tests)):
                    continue
                arguments = [
                    syntax.AggregateNode(
                        call.function,
                        None if call.argument is None else value.expression,
                        call.distinct,
                        program.span(call.node),
                    )
                    for call, value in zip(calls, made.values[len(columns) :], strict=True)
                ]
                program.rule(table.name, [*heads, *arguments], (*made.literals, *tests), "made for groups")
        return table

    def _heads(
        self, keys: Sequence[SqlValue], columns: Sequence[SqlColumn], coded: bool, made: Branch
    ) -> Iterator[tuple[Literals, list[syntax.Expression]]]:
        """Yield the keys of a head, and when they are so: lists for those that may be null."""
        cases: list[list[tuple[Literals, syntax.Expression]]] = []
        sure = certain(made.literals)
        for value, column in zip(keys, columns, strict=True):
            node, span = value.expression, value.expression.span
            if not coded or not _is_coded(column, value):
                cases.append([((), node)])
            elif value.is_null:
                cases.append([((), syntax.ListNode((), span))])
            elif value.nullable and not {*variables(value)} & sure:
                some = syntax.ListNode((node,), span)
                cases.append([((test(value, "!="),), some), ((test(value, "="),), syntax.ListNode((), span))])
            else:
                cases.append([((), syntax.ListNode((node,), span))])
        for chosen in product(*cases):
            yield tuple(literal for case in chosen for literal in case[0]), [node for _, node in chosen]

    def _read(
        self,
        groups: SqlTable,
        own: dict[int, SqlTable],
        plain: Sequence[int],
        columns: Sequence[SqlColumn],
        types: Sequence[typed.Type],
        coded: bool,
        around: Sequence[str],
        outer: Row | None,
    ) -> Iterator[Row]:
        """Yield the groups as rows."""
        program, span = self.program, self.program.where
        names = [syntax.VariableNode(name, span) for name in around]

        def atom_of(
            table: SqlTable, keys: Sequence[syntax.Expression], results: Sequence[syntax.Expression]
        ) -> syntax.AtomNode:
            return syntax.AtomNode(table.name, (*names, *keys, *results), None, None, span)

        keys = [program.variable(c.name, c.type, c.nullable, span) for c in columns[len(around) :]]
        key_nodes = [key.expression for key in keys]
        found = {
            place: program.variable(
                self.calls[place].function, aggregate_type(self.calls[place].function, types[place]), False, span
            )
            for place in range(len(self.calls))
        }
        literals: list[tuple[Literals, dict[int, SqlValue]]] = [((), {})]
        parts = {groups: list(plain), **{table: [place] for place, table in own.items()}}
        if own and not plain and not self.keys:
            del parts[groups]
        for table, places in parts.items():
            there = atom_of(table, key_nodes, [found[place].expression for place in places])
            wild = [syntax.WildcardNode(span) for _ in places]
            lacks = syntax.NegationNode(atom_of(table, key_nodes, wild), span)
            given = {place: found[place] for place in places}
            nothing = {place: self._nothing(place, types) for place in places}
            cases: list[tuple[Literals, dict[int, SqlValue]]] = [((there,), given), ((lacks,), nothing)]
            if table is groups and self.keys:
                del cases[1:]
            elif not self.keys and not around:
                cases = [self._whole(table, cases)]
            literals = [((*before, *more), {**known, **values}) for before, known in literals for more, values in cases]
        example = Row((), (), outer, ungrouped=self.sources)
        used = [self._is_used(key) for key in self.keys]
        for body, known in literals:
            for tests, decoded in self._decoded(keys, columns[len(around) :], coded, used):
                keyed = dict(zip((self._name_of(key) for key in self.keys), decoded, strict=True))
                for more, values in self._averaged(known):
                    calls = {self._name_of(call.node): values[place] for place, call in enumerate(self.calls)}
                    yield replace(example, literals=(*body, *tests, *more), computed={**keyed, **calls})

    def _averaged(self, known: Mapping[int, SqlValue]) -> Iterator[tuple[Literals, dict[int, SqlValue]]]:
        """Yield what aggregates are, and when, with averages in place of their sums, and of the counts."""
        for chosen in product(*(null_or_not(known[place]) for place in self.averages)):
            values = {**known}
            for (place, count), (_, whole) in zip(self.averages.items(), chosen, strict=True):
                sides = whole.expression, known[count].expression
                quotient = SqlValue(syntax.BinaryNode("/", *sides, self.program.where), typed.FLOAT)
                values[place] = values[count] = null_of(quotient) if whole.is_null else quotient
            yield tuple(literal for tests, _ in chosen for literal in tests), values

    def _whole(
        self, table: SqlTable, cases: Sequence[tuple[Literals, dict[int, SqlValue]]]
    ) -> tuple[Literals, dict[int, SqlValue]]:
        """Return what reads the only row of aggregates over all rows, as a relation has it that always has one."""
        places = [*cases[0][1]]
        names = [column.name for column in table.columns]
        branches = [Branch(literals, tuple(values[place] for place in places)) for literals, values in cases]
        whole = self.program.relation(f"{table.name}_all", names, branches, [frozenset()])
        atom, columns = self.program.read(whole, self.program.where)
        return (atom,), dict(zip(places, columns.values(), strict=True))

    def _name_of(self, node: exp.Expr) -> exp.Expr:
        return self.queries.canonical(node, self.sources)

    def _nothing(self, place: int, types: Sequence[typed.Type]) -> SqlValue:
        """Return the value of an aggregate over no rows."""
        call, span = self.calls[place], self.program.where
        if call.function == "count":
            return SqlValue(syntax.ConstantNode(0, "int", span), typed.INT)
        return replace(null(span), type=aggregate_type(call.function, types[place]))

    def _is_used(self, key: exp.Expr) -> bool:
        """Return whether a key is part of what is selected."""
        given = [*self.node.expressions, *filter(None, [self.node.args.get("having")])]
        wanted = self._name_of(key)
        return any(
            isinstance(part, exp.Query | exp.Star) or self._name_of(part) == wanted
            for whole in given
            for part in whole.walk()
        )

    @staticmethod
    def _decoded(
        keys: Sequence[SqlValue], columns: Sequence[SqlColumn], coded: bool, used: Sequence[bool]
    ) -> Iterator[tuple[Literals, list[SqlValue]]]:
        """Yield the keys as values, as far as they are used, and when they are so."""
        cases: list[list[Case]] = []
        for key, column, needed in zip(keys, columns, used, strict=True):
            if not coded or column.type.element is None or column.type.optional or not needed:
                cases.append([((), key)])
                continue
            span, node = key.expression.span, key.expression
            empty = syntax.ListNode((), span)
            first = syntax.CallNode("element_at", (node, syntax.ConstantNode(1, "int", span)), span)
            cases.append(
                [
                    ((syntax.ComparisonNode("!=", node, empty, span),), SqlValue(first, column.type.element)),
                    ((syntax.ComparisonNode("=", node, empty, span),), replace(null(span), type=column.type.element)),
                ]
            )
        for chosen in product(*cases):
            yield tuple(literal for case in chosen for literal in case[0]), [value for _, value in chosen]


def _no_equal(call: exp.Expr) -> Unsupported:
    """Return what is raised for an aggregate that there is not."""
    ordered = isinstance(call, exp.ArgMax | exp.ArgMin | exp.First | exp.Last)
    help = "write (SELECT ... ORDER BY ... LIMIT 1), or keep the first row by row_number()" if ordered else None
    return Unsupported("E0793", f"the aggregate {function_name(call)} has no equal here", call, help)


def _is_coded(column: SqlColumn, value: SqlValue) -> bool:
    """Return whether a key is a list because it may be null."""
    return column.type.element is not None and column.type != value.type
