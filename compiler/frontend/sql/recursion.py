"""Recursive queries of WITH."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from ...ir import typed
from .joins import Named, checked_names, named
from .scope import Branch, Row, SqlColumn, SqlTable
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
                branch for part in parts(member.this) for branch in translators[name].result(part, None, False).branches
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
    known.update(tables)


def _rows(result: Result, table: SqlTable, node: exp.Expr) -> tuple[Branch, ...]:
    """Return the rows of a part of a member; raise Unsupported if there are more or fewer columns."""
    checked_names([column.name for column in table.columns], result.names, node)
    return result.branches


def _widened(columns: tuple[SqlColumn, ...], others: tuple[SqlColumn, ...]) -> tuple[SqlColumn, ...]:
    """Return columns that may be null if one of both may, with the first type that is known."""
    return tuple(
        SqlColumn(one.name, other.type if one.type == typed.NOTHING else one.type, one.nullable or other.nullable)
        for one, other in zip(columns, others, strict=True)
    )


def _check(member: exp.CTE, name: str) -> None:
    """Raise Unsupported for a recursion that would not be one of sets."""
    query = member.this
    only(member, "this", "alias", "materialized")
    if not isinstance(query, exp.Union):
        raise Unsupported(
            "E0795", f"`{name}` reads itself without a UNION", query, "write rows to begin with, and UNION"
        )
    while isinstance(query, exp.Union):
        if query.args.get("distinct") is False:
            raise Unsupported(
                "E0795",
                f"`{name}` keeps the copies of a recursion (UNION ALL), which has no end where data has cycles",
                query,
                "write UNION: equal rows are one",
            )
        query = query.this


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
