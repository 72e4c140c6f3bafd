"""Lower plans to the rules that methods for rows evaluate."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace

from flintlog.compiler.ir import plan, typed
from flintlog.runtime.kernel import model
from flintlog.runtime.row_kernel.batch import BEGINNING
from flintlog.runtime.row_kernel.model import (
    Absence,
    Aggregated,
    JoinChoice,
    KeyedSource,
    RowGrouping,
    RowProgram,
    RowRanking,
    RowRelation,
    RowRule,
    RowSource,
    RowStratum,
)

from ..pyspark.lower import lower
from ..pyspark.names import Names
from .expressions import SqliteExpressions, quoted
from .guarded import Guarded, proved_group, unproved

KEPT_BY = {"lives": slice(1, 2), "identities": slice(-1), "epochs": slice(-2)}
"""By which columns relations of a recursion across processes are searched, beside what their rules say."""

MOST_ORDERS = 6
"""Between how many orders of joins a rule chooses at most, for each of what they may begin with."""


def lower_rows(program: plan.ProgramPlan, compiler: str = "") -> RowProgram:
    """Return the program of a plan, for rows."""
    columnar = lower(program, compiler, spark=False).program
    names = Names.of(program.program)
    by_table = {relation.table: relation for relation in columnar.relations}
    kept = [field.name for field in fields(RowRelation)]
    relations = {t: RowRelation(**{name: getattr(r, name) for name in kept}) for t, r in by_table.items()}
    inputs = input_names(program)
    guarded = Guarded(program.program, names, by_table)
    strata = [
        guarded.stratum(stratum_of(planned, names, relations, inputs), planned.stratum.relations)
        for stage in program.stages
        for planned in stage.strata
    ]
    return RowProgram(
        columnar.name,
        columnar.sha256,
        columnar.compiler,
        tuple(one for table in relations for one in (relations[table], *guarded.beside.get(table, ()))),
        (*guarded.overlaps(), *strata),
        (*orders_of(program, names, by_table).items(), *guarded.orders()),
        columnar.functions,
    )


def stratum_of(
    planned: plan.StratumPlan, names: Names, relations: Mapping[str, RowRelation], inputs: Inputs
) -> RowStratum:
    """Return a stratum."""
    source = planned.stratum
    own = tuple(relations[names.tables[relation.name]] for relation in source.relations)
    aggregated: dict[str, tuple[Aggregated, ...]] = {}
    if source.kind in ("aggregate", "extremal", "acyclic"):
        for rule in source.rules:
            aggregated[names.tables[rule.head.relation]] = tuple(
                Aggregated(column, argument.function, str(argument.argument.type) if argument.argument else "")
                for column, argument in zip(names.columns[rule.head.relation], rule.head.arguments, strict=True)
                if isinstance(argument, typed.Aggregate) and not argument.limit
            )
    of = {relation.name: relation for relation in source.relations}
    timed = source.kind == "timed"
    rules = tuple(rule_of(rule, names, inputs, searched=by_group(rule, of), timed=timed) for rule in source.rules)
    return RowStratum(
        source.name,
        source.kind,
        own,
        rules,
        tuple(aggregated.items()),
        ranking_of(source.rules[0], names) if source.rules else None,
        tuple(grouping_of(relation, planned, names, inputs) for relation in source.relations if relation.grouped),
        crossing=rule_of(planned.rules[0].arriving[1].rule, names, inputs, timed=True) if timed else None,
    )


def grouping_of(relation: typed.TypedRelation, planned: plan.StratumPlan, names: Names, inputs: Inputs) -> RowGrouping:
    """Return how the groups of a relation depend on others."""
    assert relation.grouped is not None
    table, marks, leads = names.tables[relation.name], [], []
    for rule in planned.rules:
        if rule.rule.head.relation != relation.name:
            continue
        if rule.arriving:
            marks.append(rule_of(rule.arriving[0].rule, names, inputs, table))
        for query in rule.following:
            ends = len(relation.grouped[1]) + len(query.joins[0].atom.terms)
            head = query.rule.head
            lead = replace(query.rule, head=replace(head, arguments=head.arguments[:ends]))
            place = next(i for i, atom in enumerate(lead.atoms) if atom is query.joins[0].literal)
            leads.append((rule_of(lead, names, inputs, table), place))
    groups = tuple(names.columns[relation.name][place] for place in relation.grouped[1])
    return RowGrouping(table, names.tables[relation.grouped[0]], groups, tuple(marks), tuple(leads))


def ranking_of(rule: typed.TypedRule, names: Names) -> RowRanking | None:
    """Return how the relation of a rule has the first rows of each group, if it has."""
    if not rule.head.ranked:
        return None
    columns = names.columns[rule.head.relation]
    place, first = next((i, a) for i, a in enumerate(rule.head.arguments) if isinstance(a, typed.Aggregate))
    order = tuple((str(part.value.type), part.descending) for part in first.order)
    return RowRanking(columns[place], tuple(columns[i] for i in rule.head.ranked), order, first.limit)


def by_group(rule: typed.TypedRule, relations: Mapping[str, typed.TypedRelation]) -> typed.TypedRule:
    """Return a rule whose head has only what wanted heads are searched by: of a tuple with a proof, the proof may be
    another one, and so may the witnesses of an extremum."""
    relation = relations[rule.head.relation]
    if relation.keeps != "proofs":
        return rule
    apart = {len(relation.columns) - 1, *relation.witnesses}
    arguments = (argument for place, argument in enumerate(rule.head.arguments) if place not in apart)
    return replace(rule, head=replace(rule.head, arguments=tuple(arguments)))


def rule_of(
    rule: typed.TypedRule,
    names: Names,
    inputs: Inputs,
    head: str = "",
    searched: typed.TypedRule | None = None,
    timed: bool = False,
) -> RowRule:
    """Return a rule in SQL; ``head`` is the table of a head that is none of the program's relations, ``searched`` the
    rule with what wanted heads are searched by. A ``timed`` rule compares a column, by which rows are searched, also
    where that may be null, which another condition excludes."""
    values: dict[str, str] = {}
    where: list[str] = []
    sources: list[RowSource] = []
    lacking: list[str] = []
    doubtful: set[str] = set()
    seen: dict[str, int] = {}
    expressions = SqliteExpressions(values)

    def alias_of(table: str) -> str:
        seen[table] = seen.get(table, 0) + 1
        return table if seen[table] == 1 else f"{table}__{seen[table]}"

    for literal in rule.body:
        if isinstance(literal, typed.Atom):
            table = names.tables[literal.relation]
            sources.append(RowSource(table, alias_of(table)))
            for column, term in zip(names.columns[literal.relation], literal.terms, strict=True):
                own = f"{quoted(sources[-1].alias)}.{quoted(column)}"
                if isinstance(term, typed.Constant):
                    where.append(f"{own} = {expressions.value(term)}")
                elif isinstance(term, typed.Variable) and term.name in values:
                    where.append(f"{own} = {values[term.name]}")
                elif isinstance(term, typed.Variable):
                    values[term.name] = own
    if not sources:
        sources.append(RowSource(BEGINNING, BEGINNING))
    absences = []
    for literal in rule.body:
        match literal:
            case typed.Assignment(variable=variable, value=typed.Call(arguments=(nullable,))) if timed:
                values[variable.name] = expressions.value(nullable)
            case typed.Assignment(variable=variable, value=value) if variable.name not in values:
                values[variable.name] = expressions.value(value)
                if not certain(value, doubtful):
                    doubtful.add(variable.name)
            case typed.Assignment(variable=variable, value=value):
                where.append(
                    condition(values[variable.name], "=", expressions.value(value), lacking, certain(value, doubtful))
                )
            case typed.Comparison(op=op, left=left, right=right):
                one, other = (expressions.value(side) for side in (left, right))
                if op not in ("=", "!=") and left.type.element is not None:
                    one, other = f"_compare({one}, {other})", "0"
                where.append(condition(one, op, other, lacking, certain(left, doubtful) and certain(right, doubtful)))
            case typed.Negation(atom=atom):
                alias = alias_of(names.tables[atom.relation])
                terms = [
                    (column, expressions.value(term))
                    for column, term in zip(names.columns[atom.relation], atom.terms, strict=True)
                    if not isinstance(term, typed.Wildcard)
                ]
                absences.append(Absence(names.tables[atom.relation], alias, tuple(terms)))
    heads = [head_value(argument, expressions) for argument in rule.head.arguments] or ["1"]
    ordered = [
        expressions.value(part.value)
        for argument in rule.head.arguments
        if isinstance(argument, typed.Aggregate)
        for part in argument.order
    ]
    # What only negated literals read, or a count, or nothing, has to have a value, too.
    read = Counter(variable.name for variable in typed.variables_of(rule))
    read -= Counter(variable.name for negation in rule.negations for variable in typed.variables_of(negation))
    lacking += [values[name] for name in sorted(doubtful) if read[name] == 1]
    lacking += [
        expressions.value(argument.argument)
        for argument in rule.head.arguments
        if isinstance(argument, typed.Aggregate) and argument.function == "count" and argument.argument is not None
        if not certain(argument.argument, doubtful)
    ]
    return RowRule(
        rule.label,
        str(rule.span),
        head or names.tables[rule.head.relation],
        tuple(heads),
        tuple(sources),
        tuple(where),
        tuple(absences),
        tuple(ordered),
        joins_of(searched or rule, inputs),
        rule.text,
        choices_of(searched or rule, names, inputs),
        tuple(lacking),
        tuple(keyed_sources(rule, names, values)) if not head and not lacking else (),
    )


def keyed_sources(rule: typed.TypedRule, names: Names, values: Mapping[str, str]) -> Iterator[KeyedSource]:
    """Yield the literals of a rule of three or more whose first columns are all that the others and conditions need;
    the other columns are for the head, or for nothing."""
    if len(rule.atoms) < 3:
        return
    read = Counter(variable.name for literal in rule.body for variable in typed.variables_of(literal))
    for place, atom in enumerate(rule.atoms):
        needed = [
            isinstance(term, typed.Constant) or (isinstance(term, typed.Variable) and read[term.name] > 1)
            for term in atom.terms
        ]
        width = sum(needed)
        if 0 < width < len(needed) and all(needed[:width]):
            columns = names.columns[atom.relation]
            changed = {
                term.name: f"_changed.{quoted(column)}"
                for term, column in zip(atom.terms[width:], columns[width:], strict=True)
                if isinstance(term, typed.Variable)
            }
            expressions = SqliteExpressions({**values, **changed})
            heads = tuple(head_value(argument, expressions) for argument in rule.head.arguments) or ("1",)
            yield KeyedSource(place, tuple(columns[:width]), heads)


def head_value(argument: typed.Expression | typed.Aggregate, expressions: SqliteExpressions) -> str:
    """Return the value of a head's argument; of an aggregate, that of its argument."""
    if isinstance(argument, typed.Aggregate):
        return expressions.value(argument.argument) if argument.argument is not None else "1"
    return expressions.value(argument)


def condition(left: str, op: str, right: str, lacking: list[str], certain: bool) -> str:
    """Return a comparison; note one that may have no value, which keeps its derivation for the head to be refused."""
    text = f"{left} {'<>' if op == '!=' else op} {right}"
    if certain:
        return text
    lacking.append(text)
    return f"({text}) IS NOT FALSE"


def certain(expression: typed.Expression | typed.Term, doubtful: set[str]) -> bool:
    """Return whether an expression has a value, whatever its variables are; ``doubtful`` ones may have none."""
    match expression:
        case typed.Constant():
            return True
        case typed.Variable():
            return expression.name not in doubtful
        case typed.Binary(op="++") | typed.ListLiteral():
            return all(certain(part, doubtful) for part in typed.parts_of(expression))  # type: ignore[arg-type]
        case typed.Call():
            return not expression.partial and all(certain(part, doubtful) for part in expression.arguments)
    return False


def orders_of(
    program: plan.ProgramPlan, names: Names, by_table: Mapping[str, model.Relation]
) -> dict[str, tuple[tuple[str, ...], ...]]:
    """Return the orders of columns by which each table is searched; that of its primary key is the first.

    Joins go from what is known to the literal with the most columns bound. Each search needs an order that begins with
    the columns bound, in any order of their own: the fewest orders that serve all searches of a table are a minimum
    cover by chains of the sets of columns (Subotić et al., VLDB 2018), which a greedy search finds here.
    """
    inputs = input_names(program)
    needs: dict[str, set[frozenset[int]]] = {table: set() for table in by_table}
    for table, relation in by_table.items():
        places = {column.sql: place for place, column in enumerate(relation.tuple_columns)}
        needs[table] |= {frozenset(places[column] for column in relation.key)} if relation.key else set()
        if relation.kind == "proofs" and proved_group(relation):
            needs[table].add(frozenset(places[column] for column in proved_group(relation)))
    of = {relation.name: relation for relation in program.program.relations}
    for name, kept in of.items():
        if kept.keeps in KEPT_BY:
            needs[names.tables[name]].add(frozenset(range(len(kept.columns))[KEPT_BY[kept.keeps]]))
    for stage in program.stages:
        for planned in stage.strata:
            if planned.stratum.kind == "timed":
                source, column = timed_column(planned.stratum.rules[0])
                needs[names.tables[source]].add(frozenset([column]))
                continue
            for rule in (by_group(rule, of) for rule in planned.stratum.rules):
                for start in starts_of(rule):
                    # What is only numbered or buried is never wanted.
                    apart = start is None and planned.stratum.kind in ("identities", "epochs", "dead")
                    for literal, bound in searches(rule, start, inputs):
                        if bound and not apart:
                            needs[names.tables[literal.relation]].add(bound)
    return {table: chosen_orders(by_table[table], needs[table]) for table in by_table}


def timed_column(rule: typed.TypedRule) -> tuple[str, int]:
    """Return the relation from which a rule selects by a bound, and the place of the column that is compared."""
    source, _ = rule.atoms
    compared = rule.body[-1]
    assert isinstance(compared, typed.Comparison)
    given = {x.variable.name: str(typed.parts_of(x.value)[0]) for x in rule.body if isinstance(x, typed.Assignment)}
    return source.relation, [*map(str, source.terms)].index(given.get(str(compared.left), str(compared.left)))


def starts_of(rule: typed.TypedRule) -> list[typed.Atom | None]:
    """Return what the joins of a rule may begin with: a changed literal, the positive ones first, or wanted heads."""
    return [*rule.atoms, *(negation.atom for negation in rule.negations), None]


def joins_of(rule: typed.TypedRule, inputs: Inputs) -> tuple[tuple[int, ...], ...]:
    """Return the order in which the positive literals of a rule are joined, for each of what it may begin with; of a
    rule without any, that of the one table that it has instead."""
    places = {id(atom): place for place, atom in enumerate(rule.atoms)}
    if not places:
        return ((), *((0,) for _ in starts_of(rule)))
    return tuple(
        tuple(places[id(atom)] for atom, _ in join_orders(rule, start, inputs)[0]) for start in starts_of(rule)
    )


def choices_of(rule: typed.TypedRule, names: Names, inputs: Inputs) -> tuple[JoinChoice, ...]:
    """Return the orders between which a rule chooses, for those of what it may begin with that leave a choice."""
    places = {id(atom): place for place, atom in enumerate(rule.atoms)}
    choices = []
    for place, start in enumerate(starts_of(rule)):
        if len(orders := join_orders(rule, start, inputs)) > 1:
            searches = (
                tuple(
                    (places[id(atom)], tuple(names.columns[atom.relation][i] for i in sorted(columns)))
                    for atom, columns in order
                )
                for order in orders
            )
            choices.append(JoinChoice(place if start else -1, tuple(searches)))
    return tuple(choices)


Inputs = frozenset[str]
"""The names of the input relations."""


def input_names(program: plan.ProgramPlan) -> Inputs:
    """Return the names of the input relations of a program."""
    return frozenset(relation.name for relation in program.program.relations if relation.role == "input")


Searches = list[tuple[typed.Atom, frozenset[int]]]
"""Literals of a rule in the order of their joins, each with the places of the columns that are bound."""


def join_orders(rule: typed.TypedRule, start: typed.Atom | None, inputs: Inputs) -> list[Searches]:
    """Return the orders in which the positive literals of a rule may be joined behind the one at the start.

    The first goes on with the literal that has the most columns bound. Others, whose searches differ, go on with
    another one that has a column bound: which finds fewer rows only statistics tell. Behind wanted heads, which are
    few, that one is an input: these orders need more indexes, and derived relations are large.
    """
    head = () if start is not None else rule.head.arguments
    known = {term.name for term in (start.terms if start else head) if isinstance(term, typed.Variable)}
    equal = [*equalities(rule)]

    def bound(atom: typed.Atom, known: set[str]) -> frozenset[int]:
        alike = known | {name for name, needed in equal if needed <= known}
        return frozenset(
            place
            for place, term in enumerate(atom.terms)
            if isinstance(term, typed.Constant) or (isinstance(term, typed.Variable) and term.name in alike)
        )

    def continued(waiting: list[typed.Atom], known: set[str]) -> Iterator[Searches]:
        if not waiting:
            yield []
        for literal in rule.body:
            if isinstance(literal, typed.Assignment) and known >= {v.name for v in typed.variables_of(literal.value)}:
                known = known | {literal.variable.name}
        searched = {id(atom): bound(atom, known) for atom in waiting}
        best_first = sorted(waiting, key=lambda atom: (-len(searched[id(atom)]), len(atom.terms)))
        for atom in best_first:
            if atom is not best_first[0] and not (searched[id(atom)] and (start or atom.relation in inputs)):
                continue
            others = [other for other in waiting if other is not atom]
            for rest in continued(others, known | {variable.name for variable in typed.variables_of(atom)}):
                yield [(atom, searched[id(atom)]), *rest]
            if len(searched[id(atom)]) == len(atom.terms):
                break

    orders = itertools.islice(continued([atom for atom in rule.atoms if atom is not start], known), MOST_ORDERS)
    apart: dict[frozenset[tuple[int, frozenset[int]]], Searches] = {}
    for order in orders:
        apart.setdefault(frozenset((id(atom), columns) for atom, columns in order), order)
    return [*apart.values()]


def searches(
    rule: typed.TypedRule, start: typed.Atom | None, inputs: Inputs
) -> Iterator[tuple[typed.Atom, frozenset[int]]]:
    """Yield the literals of a rule, each with the places of columns that are bound, in all orders of joins: the
    positive ones without that at the start, then negated ones."""
    yield from itertools.chain.from_iterable(join_orders(rule, start, inputs))
    for negation in rule.negations:
        if negation.atom is not start:
            places = enumerate(negation.atom.terms)
            yield negation.atom, frozenset(place for place, term in places if not isinstance(term, typed.Wildcard))


def equalities(rule: typed.TypedRule) -> Iterator[tuple[str, set[str]]]:
    """Yield the variables that equal a certain expression by a comparison, each with the variables of that."""
    for literal in rule.body:
        if isinstance(literal, typed.Comparison) and literal.op == "=":
            for one, other in ((literal.left, literal.right), (literal.right, literal.left)):
                if isinstance(one, typed.Variable) and certain(other, set()):
                    yield one.name, {variable.name for variable in typed.variables_of(other)}


def chosen_orders(relation: model.Relation, needs: Iterable[frozenset[int]]) -> tuple[tuple[str, ...], ...]:
    """Return the orders of a table's columns that serve searches by these sets of columns."""
    columns = [column.sql for column in relation.tuple_columns]
    key = [i for i, name in enumerate(columns) if name not in unkeyed(relation)]
    chains: list[list[frozenset[int]]] = []
    for need in sorted(needs, key=lambda need: (len(need), sorted(need))):
        chain = next((chain for chain in chains if chain[-1] <= need), None)
        if chain is None:
            chains.append([need])
        else:
            chain.append(need)
    # The primary key must serve one chain within the columns of the key.
    chains.sort(key=lambda chain: (not chain[-1] <= {*key}, -len(chain)))
    orders = []
    for chain in chains:
        order: list[int] = []
        for need in chain:
            order += sorted(need - {*order})
        orders.append(order)
    first = orders.pop(0) if orders and {*orders[0]} <= {*key} else []
    first += [i for i in key if i not in first]
    others = [order for order in orders if order != first[: len(order)]]
    return tuple(tuple(columns[i] for i in order) for order in (first, *others))


def unkeyed(relation: model.Relation) -> tuple[str, ...]:
    """Return the columns of a relation that its primary key leaves out: those that an aggregate computes, and a proof
    of the others."""
    if relation.kind == "proofs":
        return (relation.columns[-1].sql,) if relation.witnesses else unproved(relation)
    if relation.best:
        return (relation.best[1], *relation.witnesses)
    return relation.aggregated if relation.kind == "aggregate" and not relation.witnesses else ()
