"""Recursive queries of WITH."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from ...ir import syntax, typed
from ...type_rules import common_type
from .expressions import met_types, sql_name
from .joins import Named, checked_names, named
from .program import SqlProgram, determined
from .scope import Branch, Row, SqlColumn, SqlTable, SqlValue, atoms, is_null_test, variables
from .text import Unsupported, only, shown_name

if TYPE_CHECKING:
    from .queries import Queried, Queries, Result


def recursive(queries: Queries, node: exp.With, known: dict[str, Named | SqlTable], outer: Row | None) -> Queried:
    """Return what can be read behind WITH RECURSIVE: members that read themselves, or each other, are relations."""
    members = {shown_name(member.args["alias"].this): member for member in node.expressions}
    reads = {name: _reads(member.this) & members.keys() for name, member in members.items()}
    for group in _groups(reads):
        if len(group) == 1 and group[0] not in reads[group[0]]:
            known[group[0]] = named(members[group[0]], known)
            continue
        if outer is not None and outer.sources:
            raise Unsupported(
                "E0795", "a recursive query inside of a condition is not supported", node, "make it a view"
            )
        _recursion(queries, {name: members[name] for name in group}, known)
    return known


def _recursion(queries: Queries, members: dict[str, exp.CTE], known: dict[str, Named | SqlTable]) -> None:
    """Make relations of members that read each other."""
    program = queries.program
    tables: dict[str, SqlTable] = {}
    bases = {name: [part for part in parts(m.this) if not _reads(part) & members.keys()] for name, m in members.items()}
    for name, member in members.items():
        _check(member, name)
        if not bases[name]:
            raise Unsupported(
                "E0795", f"`{name}` has no part that does not read it", member, "begin with rows of a table"
            )
        results = [queries.reading(known).result(part, None, False) for part in bases[name]]
        names = [shown_name(c) for c in (member.args["alias"].args.get("columns") or ())] or [*results[0].names]
        for result in results:
            checked_names(names, result.names, member)
        branches = [branch for result in results for branch in result.branches]
        columns = program.columns(names, branches, results[0].types)
        relation = program.relation_name(name if name not in queries.program.views else f"{queries.name}_{name}")
        tables[name] = SqlTable(relation, columns)
    found: dict[str, list[Branch]] = {}
    for _ in range(2 + sum(len(table.columns) for table in tables.values())):
        start = len(program.statements)
        program.tables |= {table.name: table for table in tables.values()}
        translators = {name: queries.reading({**known, **tables}) for name in members}
        found = {
            name: [
                branch
                for part in parts(member.this)
                for branch in _rows(translators[name].result(part, None, False), tables[name], part)
            ]
            for name, member in members.items()
        }
        again = {
            name: SqlTable(
                table.name, _widened(table.columns, program.columns([c.name for c in table.columns], found[name]))
            )
            for name, table in tables.items()
        }
        if again == tables:
            break
        tables = again
        del program.statements[start:]
        program.made.clear()
    made = program.statements[start:]
    del program.statements[start:]
    for table in tables.values():
        program.declare(table)
    program.statements += made
    for name, table in tables.items():
        program.add_rules(table, found[name])
        key = _key(program, table, found[name]) if len(tables) == 1 else None
        loose = key is None and _keeps_copies(members[name].this)
        keys = () if key is None else (frozenset([table.columns[key].name]),)
        known[name] = program.tables[table.name] = replace(table, keys=keys, loose=loose)


def _rows(result: Result, table: SqlTable, node: exp.Expr) -> tuple[Branch, ...]:
    """Return the rows of a part of a member; raise Unsupported if there are more or fewer columns."""
    checked_names([column.name for column in table.columns], result.names, node)
    for column, type_ in zip(table.columns, result.types, strict=True):
        met = common_type(column.type, type_)
        if met is not None and (met.name, met.scale) != (column.type.name, column.type.scale):
            first, others = sql_name(column.type), sql_name(type_)
            message = f"`{column.name}` is {first} in the first rows, and {others} in those that follow"
            raise Unsupported("E0795", message, node, "write CAST in the first SELECT")
    return result.branches


def _widened(columns: tuple[SqlColumn, ...], others: tuple[SqlColumn, ...]) -> tuple[SqlColumn, ...]:
    """Return columns that may be null if one of both may, with the type that both have."""
    pairs = list(zip(columns, others, strict=True))
    types = met_types([one.type for one, _ in pairs], [other.type for _, other in pairs])
    return tuple(
        SqlColumn(one.name, type_, one.nullable or other.nullable)
        for (one, other), type_ in zip(pairs, types, strict=True)
    )


def _check(member: exp.CTE, name: str) -> None:
    """Raise Unsupported for a recursion that would not be one of sets."""
    query = member.this
    only(member, "this", "alias", "materialized")
    if not isinstance(query, exp.Union):
        raise Unsupported(
            "E0795", f"`{name}` reads itself without a UNION", query, "write rows to begin with, and UNION"
        )


def _keeps_copies(query: exp.Expr) -> bool:
    """Return whether a part of a UNION keeps copies."""
    return isinstance(query, exp.Union) and (
        query.args.get("distinct") is False or _keeps_copies(query.this) or _keeps_copies(query.expression)
    )


def _key(program: SqlProgram, table: SqlTable, branches: Sequence[Branch]) -> int | None:
    """Return the place of a column that is a key of a recursion down a tree, None if none is known.

    Each row of such a recursion has the key of a row of a table. The first rows are those without a parent, and the
    others have the only parent of theirs in the recursion: so no row has two derivations.
    """
    for key in range(len(table.columns)):
        steps = [_step(program, table, branch, key) for branch in branches]
        parents = {place for _, _, place in filter(None, steps) if place is not None}
        known = [step for step in steps if step is not None]
        if len(known) < len(steps) or len(steps) != 2 or len(parents) != 1 or len({of for of, _, _ in known}) > 1:
            continue
        (parent,) = parents
        roots = [(branch, own) for branch, (_, own, place) in zip(branches, known, strict=True) if place is None]
        if len(roots) == 1 and _is_root(roots[0][0], roots[0][1].arguments[parent]):
            return key
    return None


def _step(
    program: SqlProgram, table: SqlTable, branch: Branch, key: int
) -> tuple[str, syntax.AtomNode, int | None] | None:
    """Return the table whose key a branch has at a place, its atom, and where this has the key of the row before, None
    if there is none. Return None if it has no such key, or other rows are not determined."""
    (before, *more), node = [*atoms(branch.literals, table.name), None], branch.values[key].expression
    if more[:-1] or not isinstance(node, syntax.VariableNode):
        return None
    for own in atoms(branch.literals):
        of = program.tables[own.relation]
        names = [column.name for column in of.columns]
        keys = [names.index(next(iter(one))) for one in of.keys if len(one) == 1]
        if own is before or not any(_name(own.arguments[place]) == node.name for place in keys):
            continue
        given = [*own.arguments, *(before.arguments if before is not None else ())]
        values = tuple(SqlValue(one, typed.NOTHING) for one in given)
        rest = [atom for atom in atoms(branch.literals) if atom is not before]
        if not determined(program, Branch(branch.literals, values), range(len(values)), rest):
            return None
        if before is None:
            return own.relation, own, None
        same = [place for place, one in enumerate(own.arguments) if _name(one) == _name(before.arguments[key]) != ""]
        return (own.relation, own, same[0]) if same else None
    return None


def _is_root(branch: Branch, parent: syntax.Expression) -> bool:
    """Return whether a branch demands that a value is null."""
    tests = (literal for literal in branch.literals if isinstance(literal, syntax.ComparisonNode))
    return any(test.op == "=" and is_null_test(test) and _name(parent) in variables(test) for test in tests)


def _name(node: syntax.Expression) -> str:
    return node.name if isinstance(node, syntax.VariableNode) else ""


def parts(node: exp.Expr) -> list[exp.Expr]:
    """Return the queries of a UNION."""
    if isinstance(node, exp.Union):
        return [*parts(node.this), *parts(node.expression)]
    if isinstance(node, exp.Subquery):
        return parts(node.this)
    return [node]


def _reads(node: exp.Expr) -> set[str]:
    """Return the names of tables in a query."""
    return {str(table.name).lower() for table in node.find_all(exp.Table) if table.args.get("db") is None}


def _groups(reads: dict[str, set[str]]) -> list[list[str]]:
    """Return the names of members that read each other, behind what they read."""
    reached = {name: set(found) for name, found in reads.items()}
    for middle in reads:
        for name in reads:
            if middle in reached[name]:
                reached[name] |= reached[middle]
    groups: list[list[str]] = []
    rest = list(reads)
    while rest:
        ready = next(
            name for name in rest if all(other not in rest or name in reached[other] for other in reached[name])
        )
        group = [name for name in rest if name == ready or (name in reached[ready] and ready in reached[name])]
        groups.append(group)
        rest = [name for name in rest if name not in group]
    return groups
