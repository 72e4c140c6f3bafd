"""A batch on the tables of a program: net changes of inputs in, net changes of all relations out."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from ..kernel.errors import UNCHANGED, Refused
from ..kernel.values import shown
from .deltas import literals, row_derivations
from .encodings import read_stored
from .model import RowProgram, RowRelation, RowRule, RowStratum
from .tables import LAYOUTS, NEW_ROWS, OLD_ROWS, ROW_METHODS, ROW_PARTS, RowTable, RowTables, listed, quoted_sql, same

SQLITE_TYPES = {"int": "INTEGER", "bool": "INTEGER", "float": "REAL"}

BEGINNING = "_beginning"
"""The table whose only row was gained when the state was made: rules without positive literals follow from it."""

RowChanges = Mapping[str, Iterable[tuple[str, tuple[Any, ...]]]]
"""The changes of inputs by table: pairs of an operation and a stored row."""


def row_tables(program: RowProgram, connection: sqlite3.Connection) -> RowTables:
    """Return the tables of a program, which may not be there yet."""
    strata = {relation.table: stratum for stratum in program.strata for relation in stratum.relations}
    orders = dict(program.orders)
    tables = {}
    for relation in program.relations:
        columns = tuple(column.sql for column in relation.tuple_columns)
        stratum = strata.get(relation.table)
        key, hidden = LAYOUTS[stratum.kind](stratum, relation, columns) if stratum else (columns, ())
        types = {c.sql: SQLITE_TYPES.get(c.type, "TEXT") for c in relation.tuple_columns}
        # A null is a blob, and an exact sum may be text.
        types |= {c.sql: "BLOB" for c in relation.tuple_columns if c.type.endswith("?") or c.type.startswith("decimal")}
        types |= {name: "BLOB" for name in hidden if name.startswith("_sum_")}
        tables[relation.table] = RowTable(relation, columns, key, hidden, orders[relation.table], types)
    beginning = RowRelation(BEGINNING, BEGINNING, (), "input", "", hidden=True)
    tables[BEGINNING] = RowTable(beginning, ("_unit",), ("_unit",), (), (("_unit",),), {"_unit": "INTEGER"})
    return RowTables(program, connection, tables)


def definitions(tables: RowTables) -> Iterator[tuple[str, str, str]]:
    """Yield the type, the name and the definition of each stored table and index."""
    for table in tables.tables.values():
        first = [c for c in table.orders[0] if c in table.key]
        key = [*first, *(c for c in table.key if c not in first)]
        columns = [*key, *(c for c in table.state if c not in key)]
        made = f"CREATE TABLE {table.name} ({table.typed(columns)}, PRIMARY KEY ({listed(key)})) WITHOUT ROWID"
        yield "table", table.bare, made
        for number, order in enumerate(table.orders[1:], 1):
            index = f"{table.bare}__{number}"
            yield "index", index, f"CREATE INDEX {quoted_sql(index)} ON {table.name} ({listed(order)})"


def maintain_all(tables: RowTables, changes: RowChanges, initial: bool = False) -> None:
    """Apply the changes of inputs to all relations, ``initial`` ones to empty relations."""
    for table in tables.tables.values():
        table.version, table.lost, table.gained, table.entered = OLD_ROWS, 0, 0, 0
        if initial:
            table.rows = 0
    given = dict(changes)
    if initial:
        given[BEGINNING] = [("+", (1,))]
    for name, rows in given.items():
        resolve(tables, tables.tables[name], rows)
    for stratum in tables.program.strata:
        reads = {*stratum.guards, *(name for rule in stratum.rules for name in literals(rule))}
        if any(tables.tables[name].lost or tables.tables[name].gained for name in reads):
            maintain_stratum(tables, stratum)
    for name in tables.tables:
        tables.move(name, NEW_ROWS)
    for key, (then, values, changed) in tables.statistics.items():
        table = tables.tables[key[0]]
        tables.statistics[key] = then, values, changed + table.gained + table.lost if changed >= 0 else 0


def resolve(tables: RowTables, table: RowTable, changes: Iterable[tuple[str, tuple[Any, ...]]]) -> None:
    """Note what an input relation loses and gains by changes: pairs of an operation and a stored row, whose values
    behind the key may be None where the operation is ``x``, which removes whatever row has the key."""
    relation = table.relation
    columns = tuple(column.sql for column in relation.row_columns)
    given = tables.make(table.work("changes"), f"{table.typed(columns)}, _op TEXT")
    marks = ", ".join("?" * (len(columns) + 1))
    tables.connection.executemany(f"INSERT INTO {given} VALUES ({marks})", ((*row, op) for op, row in changes))
    for suffix in ("lost", "gained"):
        tables.work_table(table, suffix, table.columns)
    if relation.copy:
        ROW_PARTS["copies"](tables, table, given)
    else:
        resolve_rows(tables, table, given)
    table.lost, table.gained = tables.count(table.work("lost")), tables.count(table.work("gained"))


def resolve_rows(tables: RowTables, table: RowTable, given: str) -> None:
    """Note the rows that are lost and gained by changes of a set, or of rows with a primary key."""
    columns, relation = listed(table.columns), table.relation
    if relation.key:
        ROW_PARTS["given key"](tables, table, f"SELECT DISTINCT {columns}, _op FROM {given} WHERE _op IN ('+', 'x')")
    tables.execute(
        f"INSERT OR IGNORE INTO {table.work('gained')} ({columns}) SELECT {columns} FROM {given} AS c WHERE _op = '+' "
        f"AND NOT EXISTS (SELECT 1 FROM {table.name} AS s WHERE {same(table.columns, 's', 'c')})"
    )
    ways = [(f"_op = '-' AND {same(table.columns, 'c', 's')}")]
    if relation.key:
        ways.append(f"_op IN ('+', 'x') AND {same(relation.key, 'c', 's')}")
    for way in ways:
        tables.execute(
            f"INSERT OR IGNORE INTO {table.work('lost')} ({columns}) SELECT {listed(table.columns, 's')} "
            f"FROM {given} AS c CROSS JOIN {table.name} AS s WHERE {way}"
        )
    # What the batch inserts, too, stays.
    tables.execute(
        f"DELETE FROM {table.work('lost')} WHERE ({columns}) IN (SELECT {columns} FROM {given} WHERE _op = '+')"
    )


def maintain_stratum(tables: RowTables, stratum: RowStratum) -> None:
    """Bring the relations of a stratum up to date; raise Refused for a value that is none, or a key that is not."""
    try:
        ROW_METHODS[stratum.kind](tables, stratum)
    except sqlite3.IntegrityError as error:
        raise lacking_value(tables, stratum, str(error)) from error
    for relation in stratum.relations:
        if relation.key:
            tables.move(relation.table, NEW_ROWS)
            ROW_PARTS["derived key"](tables, tables.tables[relation.table])


def lacking_value(tables: RowTables, stratum: RowStratum, error: str) -> Refused:
    """Return the error for a derivation that needs a value which arithmetic or a function does not give, or for a sum;
    ``error`` is SQLite's, which names the work table and the column."""
    names = [relation for relation in stratum.relations if f" _rows_of_{relation.table}__" in error]
    relation = (names or stratum.relations)[0]
    column = error.rpartition(".")[2]
    aggregated = {a.column: a.function for a in stratum.aggregates_of(relation.table)}
    rules = [rule for rule in stratum.rules if rule.head == relation.table]
    found = (values_beside(tables, relation, rule, {*aggregated}) for rule in rules)
    known = next((values for values in found if values is not None), None)
    if known is None and aggregated.get(column) in ("sum", "avg"):
        return Refused(f"{relation.source}: a sum of {relation.name} does not fit its type", UNCHANGED)
    named = ", ".join(f"{rule.label} ({rule.source})" for rule in rules)
    sql = "".join(text for rule in rules for text in (*rule.values, *rule.lacking, *rule.where))
    calls = [function.name for function in tables.program.functions if f'"{function.sql}"(' in sql]
    fault = "arithmetic overflow or division by zero" + (f", or {' or '.join(calls)} without a value," if calls else "")
    return Refused(f"{fault} in {named}, for a tuple of {relation.name}{f' with {known}' if known else ''}", UNCHANGED)


def values_beside(tables: RowTables, relation: RowRelation, rule: RowRule, aggregated: set[str]) -> str | None:
    """Return the other values of a derivation that lacks one, as text; None if there is none."""
    for table in [*(source.table for source in rule.sources), *(absence.table for absence in rule.absences)]:
        tables.move(table, NEW_ROWS)
    found = row_derivations(tables, rule)
    lacks = " OR ".join(f"({value}) IS NULL" for value in (*found.values, *found.lacking))
    for row in tables.execute(f"{replace(found, lacking=()).select(found.values, [f'({lacks})'])} LIMIT 1"):
        values = [(c, v) for c, v in zip(relation.columns, row, strict=False) if v is not None]
        known = [f"{c.name} = {shown(read_stored(v, c.type))}" for c, v in values if c.sql not in aggregated]
        return ", ".join(known)
    return None
