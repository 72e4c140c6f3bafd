"""Maintain recursive strata whose relations keep the least or greatest value of each group.

Of each group only the best value is stored, with its rank and the number of derivations of lower rank that give
exactly this value. In a relation without an extremum each tuple is a group. Extrema outside of recursions are the task
of :mod:`.aggregate`. After deletions a batch has three steps:
1. Improve: better values replace worse ones until no rule gives a better one. This only finds the best values, and
   its changes are undone.
2. Leave: the tuples whose value was improved are removed, and all that was derived from them alone.
3. Enter: tuples derived from the state enter; of relations with an extremum, only the best values. What has entered
   never leaves again, so every tuple has a finite proof.
"""

from __future__ import annotations

from collections.abc import Mapping

from .algebra import best_by_matrices
from .changes import all_derivations, arriving, changes_below, lacking, show_versions
from .deletions import (
    entering,
    group_columns,
    lose_support,
    lost_and_gained,
    recount_supports,
    show_leaving,
    show_state,
    subtract_lost,
    with_rank,
)
from .engine import Engine
from .errors import Refused
from .insertions import insert_supported
from .method_interface import METHODS, Bucket, Finding, Method, Run
from .model import Relation, Stratum
from .recursion import changed_rows, check_round, following
from .sql import names, tuple_names, union


def maintain_extremal(run: Run, stratum: Stratum, clock: int) -> int:
    """Delete unsupported tuples, find the best values and replace worse ones with them; return the new clock."""
    lose_support(run, stratum)
    if not best_by_matrices(run, stratum):
        undo(run, stratum, clock, find_best(run, stratum, clock))
    if not run.initial:
        let_leave(run, stratum)
    clock = insert_supported(run, stratum, clock)
    for relation in stratum.relations:
        check_reached(run.engine, relation, run.initial)
    lost_and_gained(run, stratum)
    return clock


def find_best(run: Run, stratum: Stratum, start: int) -> dict[str, int]:
    """Replace values by better ones and insert tuples of relations without an extremum until no value improves; return
    how many rows entered each table. Their supports are not valid, their ranks are ``start`` plus the round.

    Better values lead only to better ones, so tuples derived from worse ones do no harm meanwhile. Makes r__replaced of
    the tuples from before whose value was improved, and r__groups of the groups of r__dead.
    """
    engine, done = run.engine, 0
    entered = dict.fromkeys((relation.table for relation in stratum.relations), 0)
    show_versions(engine, stratum, "insert")
    show_state(engine, stratum, "SELECT {columns} FROM {table}")
    for relation in stratum.relations:
        engine.empty(relation.tables.replaced, with_rank(relation))
        list_groups(engine, relation)
    derived = {r.table: first_derivations(run, stratum, r) for r in stratum.relations}
    after = changes_below(engine, stratum) if not run.initial else 0
    after += sum(engine.rows(relation.tables.groups) for relation in stratum.relations)
    while any(derived.values()):
        check_round(stratum, done, run.max_rounds)
        done += 1
        for relation in stratum.relations:
            table = relation.tables
            if derived[table]:
                find_better(engine, stratum, relation, derived[table], start, done, after)
            else:
                engine.empty(table.entering, relation.state_columns)
        for relation in stratum.relations:
            engine.rename(relation.tables.entering, relation.tables.changed)
            replace_worse(engine, relation, start)
            entered[relation.table] += engine.rows(relation.tables.changed)
        after = changed_rows(engine, stratum)
        run.note(stratum.name, "improve", done, after)
        show_state(engine, stratum, f"SELECT {{columns}} FROM {{table}} WHERE _rank < {start + done}")
        derived = {r.table: following(engine, stratum, r) for r in stratum.relations}
    return entered


def list_groups(engine: Engine, relation: Relation) -> None:
    """Make r__groups of the groups of r__dead."""
    table, groups = relation.tables, group_columns(relation)
    if engine.rows(table.dead):
        engine.table(table.groups, f"SELECT {names(groups)} FROM {table.dead}")
    else:
        engine.empty(table.groups, groups)


def first_derivations(run: Run, stratum: Stratum, relation: Relation) -> list[str]:
    """Return the queries for the derivations of r__groups and for those gained with the relations below."""
    engine, bucket = run.engine, run.bucket
    if run.initial:
        return all_derivations(engine, stratum, relation, bucket, exits=True)
    derived = arriving(engine, stratum, relation, "insert", bucket)
    if engine.rows(relation.tables.groups):
        own = (rule for rule in stratum.rules if rule.head == relation.table)
        derived += [engine.text(rule.returns) for rule in own]
    columns = names(relation.tuple_columns)
    return [f"SELECT {columns} FROM ({query}) AS q" for query in derived]


def defined(stratum: Stratum, relation: Relation) -> str:
    """Return the SQL condition that a derivation has all values that it needs."""
    missing = lacking(stratum, relation)
    return f"NOT ({missing})" if missing else "TRUE"


BETTERED = "_stored IS NOT NULL"
"""The condition for rows of r__entering that replace a worse value."""


def find_better(
    engine: Engine, stratum: Stratum, relation: Relation, derived: list[str], start: int, done: int, after: int
) -> None:
    """Make r__entering of what derivations bring to the state in round ``done``: tuples that are not stored, or the
    best values of groups that are not stored or have a worse value, which is then in ``_worse`` and its rank in
    ``_stored``. ``after`` is the number of changed rows that the derivations start from."""
    entering_table, columns = relation.tables.entering, names(relation.tuple_columns)
    candidates = f"SELECT {columns} FROM ({union(derived)}) AS f WHERE {defined(stratum, relation)}"
    if not relation.best:
        engine.table(entering_table, entering(engine, relation, candidates, start + done, after))
        return
    function, value = relation.best
    groups = names(group_columns(relation))
    best = f"SELECT {groups}, {function}({value}) AS {value} FROM ({candidates}) AS v GROUP BY {groups}"
    engine.table(
        entering_table,
        f"SELECT {names(relation.tuple_columns, 'd.')}, CAST(0 AS BIGINT) AS _support, "
        f"CAST({start + done} AS BIGINT) AS _rank, s.{value} AS _worse, s._rank AS _stored "
        f"FROM {better_than_stored(engine, relation, best, after)}",
        (BETTERED, f"_stored <= {start}"),
    )


def better_than_stored(engine: Engine, relation: Relation, found: str, after: int) -> str:
    """Return a FROM and a WHERE clause for the rows d of ``found`` whose group is not stored, or is stored with a worse
    value, in row s; ``after`` is the number of changed rows that ``found`` starts from."""
    groups = group_columns(relation)
    rows, parts = engine.meeting(relation, found, after, [column.sql for column in groups])
    stored = union(f"SELECT * FROM {part}" for part in parts)
    same = " AND ".join(f"d.{column.sql} = s.{column.sql}" for column in groups)
    better = f"s.{groups[0].sql} IS NULL"
    if relation.best:
        function, value = relation.best
        better = f"{better} OR d.{value} {'<' if function == 'MIN' else '>'} s.{value}"
    return f"{rows} AS d LEFT JOIN ({stored}) AS s ON {same} WHERE {better}"


def replace_worse(engine: Engine, relation: Relation, start: int) -> None:
    """Put r__changed into r in place of worse values; add those of rank ``start`` or below to r__replaced."""
    table, changed = relation.tables, relation.tables.changed
    if not engine.rows(changed):
        return
    if relation.best:
        groups, value = group_columns(relation), relation.best[1]
        worse = f"{names(groups)}, _worse AS {value}, _stored AS _rank"
        engine.add(table.replaced, changed, worse, f"_stored <= {start}")
        keys = [column.sql for column in groups]
        engine.remove(table, changed, keys, engine.counted(changed, BETTERED))
    engine.add(table, changed, names(relation.state_columns))


def undo(run: Run, stratum: Stratum, start: int, entered: Mapping[str, int]) -> None:
    """Remove the rows that entered above rank ``start``, as many as ``entered`` says by table; make r__best of them."""
    engine = run.engine
    for relation in stratum.relations:
        table, columns, best = relation.tables, relation.tuple_columns, relation.tables.best
        if run.initial:
            engine.rename(table, best)
            engine.empty(table, relation.state_columns)
        elif entered[table]:
            engine.table(best, f"SELECT {names(columns)} FROM {engine.since_read(table)} AS q WHERE _rank > {start}")
            engine.remove(table, best, tuple_names(relation), engine.rows(best))
        else:
            engine.empty(best, columns)


def let_leave(run: Run, stratum: Stratum) -> None:
    """From mid, without r__replaced, remove what was derived from r__replaced alone; add all of it to r__dead. Add
    tuples that leave without having been improved to r__best, and their groups to r__groups."""
    engine = run.engine
    if not any(engine.rows(relation.tables.replaced) for relation in stratum.relations):
        return
    for relation in stratum.relations:
        table, columns = relation.tables, names(relation.tuple_columns)
        engine.rename(table.dead, table.deleted)
        engine.empty(table.dead, relation.tuple_columns)
        engine.part(table.changed, table.replaced, f"{columns}, _rank", "TRUE")
        if engine.rows(table.changed):
            engine.add(relation.change.touched, table.changed, f"{columns}, TRUE AS _gone")
    show_versions(engine, stratum, "delete")
    show_leaving(engine, stratum)
    lost = {r.table: following(engine, stratum, r) for r in stratum.relations}
    subtract_lost(run, stratum, lost, changed_rows(engine, stratum))
    for relation in stratum.relations:
        table, columns = relation.tables, names(relation.tuple_columns)
        if engine.rows(table.dead):
            others = (f"ANTI JOIN {other} USING ({columns})" for other in (table.deleted, table.replaced))
            unbettered = f"SELECT {columns} FROM {table.dead} {' '.join(others)}"
            if engine.table(table.left, unbettered):
                engine.add(table.groups, table.left, names(group_columns(relation)))
                engine.add(table.best, table.left)
        elif engine.rows(relation.change.touched):
            engine.table(table.dead, f"SELECT {columns} FROM {relation.change.touched} WHERE _gone")


def check_reached(engine: Engine, relation: Relation, initial: bool) -> None:
    """Raise Refused if a best value has not entered because it has no finite proof from best values."""
    entered = relation.table if initial else relation.tables.entered
    if relation.best and engine.rows(entered) < engine.rows(relation.tables.best):
        raise Refused(
            f"{relation.source}: some of the best values of {relation.name} only follow from each other: one "
            "function bounds a value that another one betters; such a recursion cannot be maintained"
        )


def better_groups(engine: Engine, stratum: Stratum, relation: Relation, table: str) -> str:
    """Return a query for the groups of derivations in ``table`` that are not stored, or stored with a worse value."""
    candidates = f"SELECT * FROM {table} WHERE {defined(stratum, relation)}"
    better = better_than_stored(engine, relation, candidates, engine.rows(table))
    return f"SELECT {names(group_columns(relation), 'd.')} FROM {better}"


def recount_extremal(engine: Engine, stratum: Stratum, bucket: Bucket) -> list[Finding]:
    """Return queries for groups whose value is missing or not the best, and for wrong supports."""
    findings = []
    for relation, (_, wrong) in zip(stratum.relations, recount_supports(engine, stratum, bucket), strict=True):
        groups = better_groups(engine, stratum, relation, relation.tables.recount)
        findings += [Finding(relation.name, "missing or not the best", groups), wrong]
    return findings


METHODS["extremal"] = Method(maintain_extremal, recount_extremal, 16)
