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

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ..engines.engine import Engine
from ..errors import Refused
from ..model import Both, Delta, Relation, Rule, Stratum
from ..printing import named_values
from ..sql import bucket_number, names, no_rows, tuple_names, union
from .run import Bucket

LARGE_TABLE = 50_000
"""Tables with fewer rows are always read as a whole."""

LOOKED_UP_SHARE = 0.1
"""With at most so many changes per row of a table, only the rows that meet them are read, where that is enough."""


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


READ = re.compile(
    r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\b(?:FROM|(?P<outer>LEFT |RIGHT |FULL |ANTI )?(?:OUTER )?JOIN)\s+"
    r"(?P<table>\w+)__(?:before|after|delta)\b|\b(?P<other>UNION|GROUP BY)\b"
)
"""Finds the versions of relations that a query of a rule reads, and what it may consist of apart from joins."""


def joined_tables(sql: str) -> tuple[str, ...]:
    """Return the tables of which a query of a rule joins versions: without rows of one of them it has none."""
    found = [match for match in READ.finditer(sql) if match[0][0] not in "'\""]
    if any(match["outer"] or match["other"] for match in found):
        return ()
    return tuple(dict.fromkeys(match["table"] for match in found))


def possible(engine: Engine, stratum: Stratum, queries: Iterable[str]) -> list[str]:
    """Return the queries of rules that may have rows: those that join no relation below without tuples, neither now nor
    before the batch. A query costs as much as the work on many rows. Where tuples have proofs, all versions of
    relations of the stratum are what there is now."""
    below = {relation.table for relation in (*stratum.reads, *stratum.negates)}
    empty = {table for table in below if not engine.rows(table) and not engine.rows(f"{table}__lost")}
    if stratum.kind == "proofs":
        empty |= {relation.table for relation in stratum.relations if not engine.rows(relation.table)}
    return [sql for sql in queries if empty.isdisjoint(joined_tables(sql))] if empty else list(queries)


def note_changes(engine: Engine, relation: Relation, before: str, after: str) -> None:
    """Make r__lost and r__gained by comparing table ``before``, of old tuples, with table ``after``, of new ones."""
    columns = names(relation.tuple_columns)
    for name, left, right in (("lost", before, after), ("gained", after, before)):
        if engine.rows(left):
            absent = f" ANTI JOIN {right} USING ({columns})" if engine.rows(right) else ""
            engine.table(f"{relation.table}__{name}", f"SELECT {columns} FROM {left}{absent}")
        else:
            engine.empty(f"{relation.table}__{name}", relation.tuple_columns)


def note_differences(engine: Engine, relation: Relation, before: str) -> None:
    """Make r__lost, r__gained and r__touched by comparing table ``before``, of stored rows, with r, which was computed
    again. Touched are also tuples whose hidden columns differ; mostly few are, and only they will be written."""
    table, columns = relation.table, names(relation.tuple_columns)
    lost, gained, touched = f"{table}__lost", f"{table}__gained", f"{table}__touched"
    differing = f"SELECT {columns} FROM {table} ANTI JOIN {before} USING ({names(relation.state_columns)})"
    engine.table(touched, differing)
    if engine.rows(touched):
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
    for name in ("lost", "gained", "touched"):
        engine.empty(f"{relation.table}__{name}", relation.tuple_columns)


def show_versions(engine: Engine, stratum: Stratum, phase: str, met: Mapping[str, str] | None = None) -> None:
    """Define the versions of the relations below a stratum that its queries read in phase ``delete`` or ``insert``.
    ``met`` has the tables to read instead of those of whole relations."""
    # Rounds of deletions read mid again and again, and look at all tuples of their own relations.
    repeated = phase == "delete" and any(rule.rounds for rule in stratum.rules)
    most = sum(engine.rows(relation.table) for relation in stratum.relations) if repeated else 0
    for relation in (*stratum.reads, *stratum.negates):
        table, columns = relation.table, names(relation.tuple_columns)
        new = f"SELECT {columns} FROM {(met or {}).get(table, table)}"
        lost, gained = (f"SELECT {columns} FROM {table}__lost", f"SELECT {columns} FROM {table}__gained")
        mid = f"{new} ANTI JOIN {table}__gained USING ({columns})" if engine.rows(f"{table}__gained") else new
        either = f"{new} UNION ALL {lost}" if engine.rows(f"{table}__lost") else new
        if repeated and mid != new and engine.rows(table) <= most:
            left = engine.rows(table) - engine.rows(f"{table}__gained")
            mid = f"SELECT {columns} FROM {engine.snapshot(f'{table}__mid', mid, left)}"
        old = f"{mid} UNION ALL {lost}" if engine.rows(f"{table}__lost") else mid
        if relation in stratum.reads:
            before, after, delta = (old, mid, lost) if phase == "delete" else (mid, new, gained)
            engine.view(f"{table}__before", before)
            engine.view(f"{table}__after", after)
            changes = changed_table(table, phase, negated=False)
            engine.view(f"{table}__delta", delta, engine.rows(changes))
        if relation in stratum.negates:
            before, after, delta = (old, either, gained) if phase == "delete" else (either, new, lost)
            engine.view(f"{table}__absent_before", before)
            engine.view(f"{table}__absent_after", after)
            changes = changed_table(table, phase, negated=True)
            engine.view(f"{table}__absent_delta", delta, engine.rows(changes))


def look_up_below(engine: Engine, stratum: Stratum) -> dict[str, str]:
    """Make r__met for the large relations r below a stratum of which its delta queries need only the tuples that meet
    changes; return the names of these tables by that of r."""
    deltas = [delta for rule in stratum.rules for delta in rule.deltas if changes_of(engine, delta.table)]
    least = max(LARGE_TABLE, changes_below(engine, stratum) / LOOKED_UP_SHARE)
    met = {}
    for table in {relation.table: None for relation in (*stratum.reads, *stratum.negates)}:
        versions = re.compile(rf"\b{table}__(absent_)?(before|after)\b")
        readers = [delta for delta in deltas if versions.search(engine.text(delta.sql))]
        if engine.rows(table) >= least and readers and all(table in delta.lookups for delta in readers):
            tests = dict.fromkeys(meets(engine, delta.table, delta.lookups[table]) for delta in readers)
            if engine.look_up(f"{table}__met", table, " OR ".join(tests)):
                met[table] = f"{table}__met"
    return met


def changes_of(engine: Engine, table: str) -> int:
    """Return how many tuples of a table have changed."""
    return engine.rows(f"{table}__lost") + engine.rows(f"{table}__gained")


def meets(engine: Engine, table: str, condition: str) -> str:
    """Return the SQL condition that a ``stored`` tuple meets a ``changed`` one of a table."""
    changes = (f"{table}__{name}" for name in ("lost", "gained"))
    rows = union(f"SELECT * FROM {name}" for name in changes if engine.rows(name))
    return f"EXISTS (SELECT 1 FROM ({rows}) AS changed WHERE {condition})"


def changed_table(table: str, phase: str, negated: bool) -> str:
    """Return the table of the changes that a phase follows; for a ``negated`` literal, lost and gained are swapped."""
    return f"{table}__{'lost' if (phase == 'delete') != negated else 'gained'}"


def pending(engine: Engine, delta: Delta, phase: str) -> bool:
    """Return whether there are changes for ``delta`` to follow in this phase."""
    return engine.rows(changed_table(delta.table, phase, delta.negated)) > 0


def arriving(engine: Engine, stratum: Stratum, relation: Relation, phase: str, bucket: Bucket) -> list[str]:
    """Return the queries for the derivations of ``relation`` that changed with a relation below, in this phase."""
    engine.prepare(stratum.reads, changes_below(engine, stratum))
    queries = (
        derivations(engine, rule, delta.sql, relation, bucket)
        for rule in stratum.rules
        if rule.head == relation.table
        for delta in rule.deltas
        if pending(engine, delta, phase)
    )
    return possible(engine, stratum, queries)


def changes_below(engine: Engine, stratum: Stratum) -> int:
    """Return how many tuples of the relations below a stratum have changed."""
    below = {r.table for r in (*stratum.reads, *stratum.negates)}
    return sum(changes_of(engine, table) for table in below)


def all_derivations(engine: Engine, stratum: Stratum, relation: Relation, bucket: Bucket, exits: bool) -> list[str]:
    """Return the queries for all derivations of ``relation``, which may have no rules. With ``exits``, return only
    those that read no relation of its own stratum, if there are any."""
    queries = [
        derivations(engine, rule, rule.full, relation, bucket)
        for rule in stratum.rules
        if rule.head == relation.table and not (exits and rule.rounds)
    ]
    found = possible(engine, stratum, queries)
    # What an aggregate derives has other columns than the relation.
    return found if found or exits else queries[:1] or [no_rows(relation.tuple_columns, engine.name)]


def check_key(engine: Engine, relation: Relation, initial: bool) -> None:
    """Raise Refused if two tuples of a derived relation share its primary key."""
    if not relation.key:
        return
    key = ", ".join(relation.key)
    # Two tuples can only share a key if one of them is new.
    suspects = relation.table if initial else f"{relation.table} SEMI JOIN {relation.table}__gained USING ({key})"
    twice = engine.first(f"SELECT {key} FROM {suspects} GROUP BY {key} HAVING COUNT(*) > 1", 1)
    if twice:
        raise Refused(
            f"{relation.source}: {relation.name} would have two tuples with the primary key "
            f"{named_values(relation, twice[0])}; "
            "the batch was refused and the state is unchanged"
        )


# Input relations.

REMOVALS = "_op <> '+'"
"""The condition for changes that are not insertions."""


def resolve_input(engine: Engine, relation: Relation) -> None:
    """Apply the changes in r__changes (columns and ``_op``; no row has both ``+`` and ``-``, unless copies count) to
    the input relation r, except those without effect. With a primary key an insertion replaces the row with its key;
    raise Refused if two insertions share one."""
    table, columns = relation.table, names(relation.tuple_columns)
    if not engine.rows(f"{table}__changes"):
        no_changes(engine, relation)
        return
    if relation.copy:
        count_copies(engine, relation)
        note_resolved(engine, relation)
        return
    # With a primary key, a change replaces a row.
    most = engine.rows(f"{table}__changes") * (2 if relation.key else 1)
    engine.reduce(table, f"{table}__changes", relation.key or tuple_names(relation), most)
    inserted = f"SELECT DISTINCT {columns} FROM {table}__changes WHERE _op = '+'"
    removed = f"SELECT {columns} FROM {table}__changes WHERE _op = '-'"
    removed = f"SELECT {columns} FROM {table} SEMI JOIN ({removed}) AS m USING ({columns})"
    if relation.key:
        key = ", ".join(relation.key)
        named = f"SELECT DISTINCT {columns}, _op FROM {table}__changes WHERE _op IN ('+', 'x')"
        twice = engine.first(f"SELECT {key} FROM ({named}) AS p GROUP BY {key} HAVING COUNT(*) > 1", 1)
        if twice:
            raise Refused(
                f"{relation.name}: two different rows with the primary key {named_values(relation, twice[0])} "
                "in one batch, and their order is unknown; pass the column that determines it with --order-column"
            )
        # The last change of a key may be `x`: remove whatever row has the key.
        named = f"SELECT {key} FROM {table}__changes WHERE _op IN ('+', 'x')"
        replaced = f"SELECT {columns} FROM {table} SEMI JOIN ({named}) AS k USING ({key})"
        removed = f"{removed} UNION {replaced}"
    engine.table(f"{table}__gained", f"SELECT * FROM ({inserted}) AS p ANTI JOIN {table} USING ({columns})")
    if relation.key or engine.counted(f"{table}__changes", REMOVALS) != 0:
        engine.table(
            f"{table}__lost", f"SELECT {columns} FROM ({removed}) AS q ANTI JOIN ({inserted}) AS p USING ({columns})"
        )
    else:
        engine.empty(f"{table}__lost", relation.tuple_columns)
    note_resolved(engine, relation)


def note_resolved(engine: Engine, relation: Relation) -> None:
    """Apply the changes in r__lost and r__gained to an input relation r, and note them in r__touched."""
    table = relation.table
    touched = f"SELECT * FROM {table}__lost UNION ALL SELECT * FROM {table}__gained"
    engine.later(f"{table}__touched", touched, changes_of(engine, table))
    engine.remove(table, f"{table}__lost", tuple_names(relation), engine.rows(f"{table}__lost"))
    if engine.rows(f"{table}__gained"):
        engine.add(table, f"{table}__gained")


def count_copies(engine: Engine, relation: Relation) -> None:
    """Make r__lost and r__gained, the copies by which the changes of a multiset r, taken together, change it: the last
    ones go. Raise Refused if it has fewer copies of a row than are deleted."""
    table, columns, copy = relation.table, names(relation.row_columns), relation.copy
    engine.reduce(table, f"{table}__changes", [c.sql for c in relation.row_columns], engine.rows(f"{table}__changes"))
    signed = "SUM(CASE WHEN _op IN ('+', '>') THEN 1 ELSE -1 END)"
    net = f"SELECT {columns}, {signed} AS _net FROM {table}__changes GROUP BY {columns}"
    touched = f"{table} SEMI JOIN {table}__changes USING ({columns})"
    there = f"SELECT {columns}, COUNT(*) AS _there FROM {touched} GROUP BY {columns}"
    both = f"SELECT {columns}, CAST(_net AS BIGINT) AS _net, COALESCE(_there, 0) AS _there FROM ({net}) AS n"
    engine.table(f"{table}__net", f"{both} LEFT JOIN ({there}) AS t USING ({columns}) WHERE _net <> 0")
    for row in engine.first(f"SELECT * FROM {table}__net WHERE _there + _net < 0 ORDER BY {columns}", 1):
        raise few_copies(relation, row)
    for name, least, most in (("gained", "_there", "_there + _net"), ("lost", "_there + _net", "_there")):
        numbers = f"RANGE({least} + 1, {most} + 1)" if engine.name == "duckdb" else f"SEQUENCE({least} + 1, {most})"
        each = f"{'UNNEST' if engine.name == 'duckdb' else 'EXPLODE'}({numbers})"
        engine.table(f"{table}__{name}", f"SELECT {columns}, {each} AS {copy} FROM {table}__net WHERE {least} < {most}")


def few_copies(relation: Relation, row: Mapping[str, Any]) -> Refused:
    """Return the error for a row of a multiset of which more copies are deleted than there are."""
    there, deleted = row["_there"], -row["_net"]
    copies = "no copy" if not there else "1 copy" if there == 1 else f"{there:,} copies"
    named = named_values(relation, row)
    return Refused(
        f"{relation.name}: the batch deletes {deleted:,} {'copy' if deleted == 1 else 'copies'} of the row with "
        f"{named} more than it inserts, and there {'is' if there < 2 else 'are'} {copies}; the batch was refused and "
        "the state is unchanged",
        about=(relation.table, named),
    )


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
        known = named_values(relation, row)
        calls = list(dict.fromkeys(call for rule in rules for call in rule.calls))
        unanswered = f", or {' or '.join(calls)} without a value," if calls else ""
        lost = [c for c in relation.columns if c.sql in row and row[c.sql] is None]
        fault = "arithmetic overflow or division by zero"
        if lost and all(c.sql not in {*r.partial} - {*r.narrow} for r in rules for c in lost):
            fault = f"a value that does not fit its type {lost[0].type}, in {lost[0].name},"
        raise Refused(
            f"{fault}{unanswered} in {named}, for a tuple of {relation.name}"
            f"{f' with {known}' if known else ''}; the batch was refused and the state is unchanged"
            f"{engine.failed_calls()}"
        )
