"""The two phases of a batch, the versions of relations that queries read, and changes of inputs.

Deletions lead from the old state to ``mid``, the tuples that are true before and after the batch; insertions lead
from ``mid`` to the new state. In each phase a query reads r__before and r__after of a relation r (the start and the
end of the phase) and r__delta (their difference), or of a negated relation r__absent_before and r__absent_after (the
tuples that make the literal false) and r__absent_delta (those that do so at one end only).

Before a stratum runs, each relation r that it reads is a table of the new state, with its net changes in r__lost and
r__gained. Afterwards the same holds for its own relations, and r__touched has the tuples to write; the first build
writes everything and has no changes. A touched tuple that is still there was removed and inserted again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .engine import Engine
from .errors import UNCHANGED, Refused
from .method_interface import Bucket
from .model import Both, Delta, Relation, Rule, Stratum
from .sql import bucket_number, names, no_rows, tuple_names, union
from .table_names import Change
from .values import named_values

LARGE_TABLE = 50_000
"""Tables with fewer rows are always read as a whole."""

LOOKED_UP_SHARE = 0.1
"""With at most this many changes per row of a table, only the rows that meet them are read, where that is enough."""


def derivations(engine: Engine, rule: Rule, sql: str | Both, relation: Relation, bucket: Bucket) -> str:
    """Return a query of a rule in the engine's dialect; for a filtered rule reduced to the heads in ``bucket``."""
    text = engine.text(sql)
    return in_bucket(engine, text, relation, bucket, relation.bucket_by in rule.partial) if rule.filtered else text


def in_bucket(engine: Engine, sql: str, relation: Relation, bucket: Bucket, partial: bool = False) -> str:
    """Return a query reduced to the tuples of ``relation`` in ``bucket``; if ``partial``, also those without a value in
    the bucket column."""
    if bucket.count == 1:
        return sql
    if not relation.bucket_by:
        return f"SELECT * FROM ({sql}) AS q WHERE {bucket.number} = 0"
    kind = next(column.type for column in relation.tuple_columns if column.sql == relation.bucket_by)
    number = bucket_number(f"q.{relation.bucket_by}", kind, bucket.count, engine.name)
    undefined = f" OR q.{relation.bucket_by} IS NULL" if partial else ""
    return f"SELECT * FROM ({sql}) AS q WHERE {number} = {bucket.number}{undefined}"


def live_rules(engine: Engine, stratum: Stratum, table: str) -> list[Rule]:
    """Return the rules for the relation in ``table`` that may derive something: those that join no relation below
    without tuples, neither now nor before the batch. A query costs as much as the work on many rows. Where tuples have
    proofs, all versions of relations of the stratum are what there is now."""
    empty = {r.table for r in stratum.reads if not engine.rows(r.table) and not engine.rows(r.change.lost)}
    if stratum.kind == "proofs":
        empty |= {relation.table for relation in stratum.relations if not engine.rows(relation.table)}
    return [rule for rule in stratum.rules if rule.head == table and empty.isdisjoint(rule.joined)]


def note_changes(engine: Engine, relation: Relation, before: str, after: str) -> None:
    """Make r__lost and r__gained by comparing table ``before``, of old tuples, with table ``after``, of new ones."""
    columns, change = names(relation.tuple_columns), relation.change
    for table, rows, others in ((change.lost, before, after), (change.gained, after, before)):
        if engine.rows(rows):
            absent = f" ANTI JOIN {others} USING ({columns})" if engine.rows(others) else ""
            engine.table(table, f"SELECT {columns} FROM {rows}{absent}")
        else:
            engine.empty(table, relation.tuple_columns)


def note_differences(engine: Engine, relation: Relation, before: str) -> None:
    """Make r__lost, r__gained and r__touched by comparing table ``before``, of stored rows, with r, which was computed
    again. Touched are also tuples whose hidden columns differ; mostly few are, and only they will be written."""
    table, columns, state = relation.table, names(relation.tuple_columns), names(relation.state_columns)
    lost, gained, touched = relation.change
    if engine.table(touched, f"SELECT {columns} FROM {table} ANTI JOIN {before} USING ({state})"):
        engine.table(gained, f"SELECT {columns} FROM {touched} ANTI JOIN {before} USING ({columns})")
    else:
        engine.empty(gained, relation.tuple_columns)
    if engine.rows(before) > engine.rows(table) - engine.rows(gained):
        engine.table(lost, f"SELECT {columns} FROM {before} ANTI JOIN {table} USING ({columns})")
        engine.add(touched, lost)
    else:
        engine.empty(lost, relation.tuple_columns)


def no_changes(engine: Engine, relation: Relation) -> None:
    """Make r__lost, r__gained and r__touched without rows."""
    for table in relation.change:
        engine.empty(table, relation.tuple_columns)


def note_touched(engine: Engine, relation: Relation) -> None:
    """Make r__touched of r__lost and r__gained; other rows have no hidden columns that might differ."""
    columns, change = names(relation.tuple_columns), relation.change
    touched = union(f"SELECT {columns} FROM {table}" for table in (change.lost, change.gained))
    engine.later(change.touched, touched, changes_of(engine, change))


def show_versions(engine: Engine, stratum: Stratum, phase: str, met: Mapping[str, str] | None = None) -> None:
    """Define the versions of the relations below a stratum that its queries read in phase ``delete`` or ``insert``.
    ``met`` has the tables to read instead of those of whole relations."""
    # Rounds of deletions read mid again and again, and look at all tuples of their own relations.
    repeated = phase == "delete" and any(rule.rounds for rule in stratum.rules)
    most = sum(engine.rows(relation.table) for relation in stratum.relations) if repeated else 0
    for relation in (*stratum.reads, *stratum.negates):
        table, change, columns = relation.tables, relation.change, names(relation.tuple_columns)
        new = f"SELECT {columns} FROM {(met or {}).get(table, table)}"
        lost, gained = (f"SELECT {columns} FROM {change.lost}", f"SELECT {columns} FROM {change.gained}")
        mid = f"{new} ANTI JOIN {change.gained} USING ({columns})" if engine.rows(change.gained) else new
        either = f"{new} UNION ALL {lost}" if engine.rows(change.lost) else new
        if repeated and mid != new and engine.rows(table) <= most:
            staying = engine.rows(table) - engine.rows(change.gained)
            mid = f"SELECT {columns} FROM {engine.snapshot(table.mid, mid, staying)}"
        old = f"{mid} UNION ALL {lost}" if engine.rows(change.lost) else mid
        if relation in stratum.reads:
            before, after, delta = (old, mid, lost) if phase == "delete" else (mid, new, gained)
            engine.view(table.before, before)
            engine.view(table.after, after)
            engine.view(table.delta, delta, engine.rows(changed_table(change, phase, negated=False)))
        if relation in stratum.negates:
            before, after, delta = (old, either, gained) if phase == "delete" else (either, new, lost)
            engine.view(table.absent_before, before)
            engine.view(table.absent_after, after)
            engine.view(table.absent_delta, delta, engine.rows(changed_table(change, phase, negated=True)))


def look_up_below(engine: Engine, stratum: Stratum) -> dict[str, str]:
    """Make r__met for the large relations r below a stratum of which its delta queries need only the tuples that meet
    changes; return the names of these tables by that of r."""
    deltas = [(r, delta) for r in stratum.rules for delta in r.deltas if changes_of(engine, delta.change)]
    least = max(LARGE_TABLE, changes_below(engine, stratum) / LOOKED_UP_SHARE)
    met: dict[str, str] = {}
    for table in {relation.tables: None for relation in (*stratum.reads, *stratum.negates)}:
        readers = [delta for rule, delta in deltas if table in rule.read_beside(delta)]
        if engine.rows(table) >= least and readers and all(table in delta.lookups for delta in readers):
            tests = dict.fromkeys(
                meets(engine, delta.change, equalities) for delta in readers for equalities in delta.lookups[table]
            )
            if engine.look_up(table.met, table, " OR ".join(tests)):
                met[table] = table.met
    return met


def net_changes_sql(relation: Relation) -> str:
    """Return a query for the net changes of a relation, with ``_op`` as the first column."""
    columns, (lost, gained, _) = names(relation.tuple_columns), relation.change
    return f"SELECT '-' AS _op, {columns} FROM {lost} UNION ALL SELECT '+' AS _op, {columns} FROM {gained}"


def changes_of(engine: Engine, change: Change) -> int:
    """Return how many tuples a relation has lost and gained."""
    return engine.rows(change.lost) + engine.rows(change.gained)


def meets(engine: Engine, change: Change, equalities: str) -> str:
    """Return the SQL condition that a ``stored`` tuple meets a ``changed`` one."""
    rows = union(f"SELECT * FROM {table}" for table in (change.lost, change.gained) if engine.rows(table))
    return f"EXISTS (SELECT 1 FROM ({rows}) AS changed WHERE {equalities})"


def changed_table(change: Change, phase: str, negated: bool) -> str:
    """Return the table of the changes that a phase follows; for a ``negated`` literal, lost and gained are swapped."""
    return change.lost if (phase == "delete") != negated else change.gained


def pending(engine: Engine, delta: Delta, phase: str) -> bool:
    """Return whether there are changes for ``delta`` to follow in this phase."""
    return engine.rows(changed_table(delta.change, phase, delta.negated)) > 0


def arriving(engine: Engine, stratum: Stratum, relation: Relation, phase: str, bucket: Bucket) -> list[str]:
    """Return the queries for the derivations of ``relation`` that changed with a relation below, in this phase."""
    engine.prepare(stratum.reads, changes_below(engine, stratum))
    return [
        derivations(engine, rule, delta.sql, relation, bucket)
        for rule in live_rules(engine, stratum, relation.table)
        for delta in rule.deltas
        if pending(engine, delta, phase)
    ]


def changes_below(engine: Engine, stratum: Stratum) -> int:
    """Return how many tuples of the relations below a stratum have changed."""
    below = {r.table: r for r in (*stratum.reads, *stratum.negates)}
    return sum(changes_of(engine, relation.change) for relation in below.values())


def all_derivations(engine: Engine, stratum: Stratum, relation: Relation, bucket: Bucket, exits: bool) -> list[str]:
    """Return the queries for all derivations of ``relation``, which may have no rules. With ``exits``, return only
    those that read no relation of its own stratum, if there are any."""
    rules = live_rules(engine, stratum, relation.table)
    if exits:
        rules = [rule for rule in rules if not rule.rounds]
    elif not rules:
        # What an aggregate derives has other columns than the relation.
        rules = [rule for rule in stratum.rules if rule.head == relation.table][:1]
    queries = [derivations(engine, rule, rule.full, relation, bucket) for rule in rules]
    return queries if queries or exits else [no_rows(relation.tuple_columns, engine.name)]


def check_key(engine: Engine, relation: Relation, initial: bool) -> None:
    """Raise Refused if two tuples of a derived relation share its primary key."""
    if not relation.key:
        return
    key = ", ".join(relation.key)
    # Two tuples can only share a key if one of them is new.
    suspects = relation.table if initial else f"{relation.table} SEMI JOIN {relation.change.gained} USING ({key})"
    twice = engine.first(f"SELECT {key} FROM {suspects} GROUP BY {key} HAVING COUNT(*) > 1", 1)
    if twice:
        raise Refused(
            f"{relation.source}: {relation.name} would have two tuples with the primary key "
            f"{named_values(relation, twice[0])}",
            UNCHANGED,
        )


# Input relations.

REMOVALS = "_op <> '+'"
"""The condition for changes that are not insertions."""


def resolve_input(engine: Engine, relation: Relation) -> None:
    """Apply the changes in r__changes (columns and ``_op``; no row has both ``+`` and ``-``, unless copies count) to
    the input relation r, except those without effect. With a primary key an insertion replaces the row with its key;
    raise Refused if two insertions share one."""
    table, change, columns = relation.tables, relation.change, names(relation.tuple_columns)
    if not engine.rows(table.changes):
        no_changes(engine, relation)
        return
    if relation.copy:
        count_copies(engine, relation)
        note_resolved(engine, relation)
        return
    # With a primary key, a change replaces a row.
    most = engine.rows(table.changes) * (2 if relation.key else 1)
    engine.reduce(table, table.changes, relation.key or tuple_names(relation), most)
    inserted = f"SELECT DISTINCT {columns} FROM {table.changes} WHERE _op = '+'"
    removed = f"SELECT {columns} FROM {table.changes} WHERE _op = '-'"
    removed = f"SELECT {columns} FROM {table} SEMI JOIN ({removed}) AS m USING ({columns})"
    if relation.key:
        key = ", ".join(relation.key)
        named = f"SELECT DISTINCT {columns}, _op FROM {table.changes} WHERE _op IN ('+', 'x')"
        twice = engine.first(f"SELECT {key} FROM ({named}) AS p GROUP BY {key} HAVING COUNT(*) > 1", 1)
        if twice:
            raise Refused(
                f"{relation.name}: two different rows with the primary key {named_values(relation, twice[0])} "
                "in one batch, and their order is unknown",
                "; pass the column that determines it with --order-column",
            )
        # The last change of a key may be `x`: remove whatever row has the key.
        named = f"SELECT {key} FROM {table.changes} WHERE _op IN ('+', 'x')"
        replaced = f"SELECT {columns} FROM {table} SEMI JOIN ({named}) AS k USING ({key})"
        removed = f"{removed} UNION {replaced}"
    engine.table(change.gained, f"SELECT * FROM ({inserted}) AS p ANTI JOIN {table} USING ({columns})")
    if relation.key or engine.counted(table.changes, REMOVALS) != 0:
        engine.table(
            change.lost, f"SELECT {columns} FROM ({removed}) AS q ANTI JOIN ({inserted}) AS p USING ({columns})"
        )
    else:
        engine.empty(change.lost, relation.tuple_columns)
    note_resolved(engine, relation)


def note_resolved(engine: Engine, relation: Relation) -> None:
    """Apply the changes in r__lost and r__gained to an input relation r, and note them in r__touched."""
    lost, gained, _ = relation.change
    note_touched(engine, relation)
    engine.remove(relation.table, lost, tuple_names(relation), engine.rows(lost))
    if engine.rows(gained):
        engine.add(relation.table, gained)


def count_copies(engine: Engine, relation: Relation) -> None:
    """Make r__lost and r__gained of the copies that the changes of a multiset r, taken together, remove and add; the
    last copies are removed first. Raise Refused if it has fewer copies of a row than are deleted."""
    table, columns, copy = relation.tables, names(relation.row_columns), relation.copy
    engine.reduce(table, table.changes, [c.sql for c in relation.row_columns], engine.rows(table.changes))
    signed = "SUM(CASE WHEN _op IN ('+', '>') THEN 1 ELSE -1 END)"
    net = f"SELECT {columns}, {signed} AS _net FROM {table.changes} GROUP BY {columns}"
    touched = f"{table} SEMI JOIN {table.changes} USING ({columns})"
    there = f"SELECT {columns}, COUNT(*) AS _there FROM {touched} GROUP BY {columns}"
    both = f"SELECT {columns}, CAST(_net AS BIGINT) AS _net, COALESCE(_there, 0) AS _there FROM ({net}) AS n"
    engine.table(table.net, f"{both} LEFT JOIN ({there}) AS t USING ({columns}) WHERE _net <> 0")
    for row in engine.first(f"SELECT * FROM {table.net} WHERE _there + _net < 0 ORDER BY {columns}", 1):
        raise few_copies(relation, row)
    lost, gained, _ = relation.change
    for changed, least, most in ((gained, "_there", "_there + _net"), (lost, "_there + _net", "_there")):
        numbers = f"RANGE({least} + 1, {most} + 1)" if engine.name == "duckdb" else f"SEQUENCE({least} + 1, {most})"
        each = f"{'UNNEST' if engine.name == 'duckdb' else 'EXPLODE'}({numbers})"
        engine.table(changed, f"SELECT {columns}, {each} AS {copy} FROM {table.net} WHERE {least} < {most}")


def few_copies(relation: Relation, row: Mapping[str, Any]) -> Refused:
    """Return the error for a row of a multiset of which more copies are deleted than there are."""
    there, deleted = row["_there"], -row["_net"]
    copies = "no copy" if not there else "1 copy" if there == 1 else f"{there:,} copies"
    named = named_values(relation, row)
    start = f"{relation.name}: the batch deletes {deleted:,} {'copy' if deleted == 1 else 'copies'} of the row with "
    rest = f" more than it inserts, and there {'is' if there < 2 else 'are'} {copies}"
    return Refused(f"{start}{named}{rest}", UNCHANGED, about=(relation.table, named, rest))


def lacking(stratum: Stratum, relation: Relation) -> str:
    """Return the SQL condition that a derivation lacks a value that it needs; empty if none can."""
    rules = [rule for rule in stratum.rules if rule.head == relation.table]
    columns = dict.fromkeys(column for rule in rules for column in rule.partial)
    return " OR ".join(f"{column} IS NULL" for column in columns)


def check_defined(engine: Engine, stratum: Stratum, relation: Relation, table: str) -> None:
    """Raise Refused if a derivation in ``table`` needs a value that arithmetic or a function does not give."""
    rules = [rule for rule in stratum.rules if rule.head == relation.table and rule.partial]
    missing = lacking(stratum, relation)
    if not missing or engine.counted(table, missing) == 0:
        return
    # The same row in every engine and order of evaluation, as far as the same rows are there.
    for row in engine.first(f"SELECT * FROM {table} WHERE {missing} ORDER BY ALL", 1):
        named = ", ".join(f"{rule.label} ({rule.source})" for rule in rules)
        values = named_values(relation, row)
        calls = list(dict.fromkeys(call for rule in rules for call in rule.calls))
        unanswered = f", or {' or '.join(calls)} without a value," if calls else ""
        lost = [c for c in relation.columns if c.sql in row and row[c.sql] is None]
        fault = "arithmetic overflow or division by zero"
        if lost and all(c.sql not in {*r.partial} - {*r.narrow} for r in rules for c in lost):
            fault = f"a value that does not fit its type {lost[0].type}, in {lost[0].name},"
        raise Refused(
            f"{fault}{unanswered} in {named}, for a tuple of {relation.name}{f' with {values}' if values else ''}",
            UNCHANGED,
            engine.failed_calls(),
        )
