"""Insertions in recursive strata: dead tuples that have support after all return, and new ones enter.

Of a relation with an extremum only the best values enter, which are known at that point.
"""

from __future__ import annotations

from collections.abc import Mapping

from .changes import all_derivations, arriving, check_defined, lacking, show_versions
from .deletions import counted, entering, group_columns, put_back, show_state, take_out
from .engine import Engine
from .method_interface import Run
from .model import Relation, Stratum
from .recursion import changed_rows, check_round, following
from .sql import names, tuple_names, union
from .supports import matching

SMALL_LEAP = 1000


def insert_supported(run: Run, stratum: Stratum, clock: int) -> int:
    """Lead from mid to the new state: dead tuples with a derivation return, new ones enter; return the new clock."""
    engine, start = run.engine, clock
    show_versions(engine, stratum, "insert")
    show_state(engine, stratum, "SELECT {columns} FROM {table}")
    clock += 1
    for relation in stratum.relations:
        enter_first(run, stratum, relation, clock)
    entered = dict.fromkeys((relation.tables for relation in stratum.relations), 0)
    done = 0
    while changed_rows(engine, stratum):
        check_round(stratum, done, run.max_rounds)
        done += 1
        for table in entered:
            if engine.rows(table.changed):
                engine.add(table, table.changed)
        derived = {r.table: following(engine, stratum, r) for r in stratum.relations}
        if stratum.closure and done > engine.rounds_before_leaps:
            derived, clock = leap(engine, stratum, derived, clock)
        changed = {table: engine.rows(table.changed) for table in entered}
        entered = {table: number + changed[table] for table, number in entered.items()}
        run.note(stratum.name, "insert", done, sum(changed.values()))
        show_state(engine, stratum, f"SELECT {{columns}} FROM {{table}} WHERE _rank < {clock}")
        clock += 1
        enter_next(engine, stratum, derived, clock)
    for relation in stratum.relations if not run.initial else ():
        table, columns = relation.tables, names(relation.tuple_columns)
        if entered[table]:
            engine.table(table.entered, f"SELECT {columns} FROM {engine.since_read(table)} AS q WHERE _rank > {start}")
            engine.add(relation.change.touched, table.entered, "*, FALSE AS _gone")
    return clock


def enter_next(engine: Engine, stratum: Stratum, derived: Mapping[str, list[str]], clock: int) -> None:
    """Make r__changed of what ``derived``, the queries that use the previous r__changed, bring in."""
    # If there are several relations, each has to read the last r__changed of the others.
    several, after = len(stratum.relations) > 1, changed_rows(engine, stratum)
    for relation in stratum.relations:
        new = relation.tables.entering if several else relation.tables.changed
        if derived[relation.table]:
            admitted = admissible(engine, stratum, relation, union(derived[relation.table]))
            rows = entering(engine, relation, admitted, clock, after)
            engine.table(new, rows, [*filter(None, [lacking(stratum, relation)])])
        else:
            engine.empty(new, relation.state_columns)
    for relation in stratum.relations:
        check_defined(engine, stratum, relation, relation.tables.entering if several else relation.tables.changed)
        if several:
            engine.rename(relation.tables.entering, relation.tables.changed)


def leap(
    engine: Engine, stratum: Stratum, derived: dict[str, list[str]], clock: int
) -> tuple[dict[str, list[str]], int]:
    """Join paths of r__changed, which has just entered, with known paths, and add the results to r and r__changed,
    unless there are too many; return the derivations that use r__changed then, and the clock.

    A deep closure thus takes few rounds. Its rules extend a path by one step at one end, where the known path is
    joined. That path was made by such steps itself; in the order of its rank they make the joined path, too, which is
    therefore ranked by it. A bucket has all it needs: whole paths, since the other end stays.
    """
    (relation,) = stratum.relations
    table, columns = relation.tables, names(relation.tuple_columns)
    if engine.rows(table) > engine.most_rows_to_leap:
        return derived, clock
    first, last = tuple_names(relation)
    if stratum.closure == "end":
        meet, start, end = (last, first), f"d.{first}", f"s.{last}"
    else:
        meet, start, end = (first, last), f"s.{first}", f"d.{last}"
    pairs = (
        f"SELECT SUM(d._pairs * s._pairs) AS _pairs FROM "
        f"(SELECT {meet[0]}, COUNT(*) AS _pairs FROM {table.changed} GROUP BY {meet[0]}) AS d JOIN "
        f"(SELECT {meet[1]}, COUNT(*) AS _pairs FROM {table} GROUP BY {meet[1]}) AS s "
        f"ON d.{meet[0]} = s.{meet[1]}"
    )
    expected = engine.first(pairs, 1)[0]["_pairs"] or 0
    if not 0 < expected <= max(engine.rows(table), SMALL_LEAP):
        return derived, clock
    joined = (
        f"SELECT {start} AS {first}, {end} AS {last}, MIN(s._rank) AS _behind FROM {table.changed} AS d "
        f"JOIN {table} AS s ON d.{meet[0]} = s.{meet[1]} GROUP BY {start}, {end}"
    )
    engine.table(
        table.leapt,
        f"SELECT {columns}, {clock} + DENSE_RANK() OVER (ORDER BY _behind) AS _rank "
        f"FROM ({joined}) AS q ANTI JOIN {table} USING ({columns})",
    )
    if not engine.rows(table.leapt):
        return derived, clock
    engine.insert(table.changed, f"SELECT {columns}, CAST(0 AS BIGINT) AS _support, _rank FROM {table.leapt}")
    show_state(engine, stratum, "SELECT {columns} FROM {table}")
    engine.table(table.arrived, union(derived[table]))
    heads = names(relation.tuple_columns, "s.")
    engine.insert(
        table,
        f"SELECT {heads}, COUNT(*) AS _support, s._rank FROM {table.leapt} AS s JOIN {table.arrived} AS d "
        f"ON {matching(relation, 's', 'd')} WHERE d._rank < s._rank GROUP BY {heads}, s._rank",
    )
    last_rank = engine.first(f"SELECT MAX(_rank) AS _rank FROM {table.leapt}", 1)[0]["_rank"]
    return {table: [f"SELECT * FROM {table.arrived}"]}, int(last_rank)


def enter_first(run: Run, stratum: Stratum, relation: Relation, clock: int) -> None:
    """Make r__changed of the first round of insertions, and add the support that surviving tuples gained."""
    engine, bucket = run.engine, run.bucket
    table, columns = relation.tables, names(relation.tuple_columns)
    if run.initial:
        derived = all_derivations(engine, stratum, relation, bucket, exits=True)
        if derived:
            admitted = admissible(engine, stratum, relation, union(derived))
            engine.table(table.changed, entering(engine, relation, admitted, clock, 0))
            check_defined(engine, stratum, relation, table.changed)
        else:
            engine.empty(table.changed, relation.state_columns)
        return
    # Dead tuples return if they have any derivation; other heads enter if they are not in the state.
    derivations = []
    listed = table.groups if stratum.kind == "extremal" else table.dead
    queries = arriving(engine, stratum, relation, "insert", bucket)
    gained = 0
    if queries:
        gained = engine.table(table.arrived, f"SELECT {columns}, _rank FROM ({union(queries)}) AS q")
    if gained:
        new = find_arrived(engine, relation)
        if engine.rows(listed):
            keys = names(group_columns(relation))
            new = f"SELECT * FROM ({new}) AS n ANTI JOIN {listed} USING ({keys})"
        derivations.append(new)
    if engine.rows(listed):
        derivations += [
            f"SELECT {columns} FROM ({engine.text(rule.returns)}) AS q" for rule in stratum.rules if rule.head == table
        ]
    if derivations:
        admitted = admissible(engine, stratum, relation, union(derivations))
        engine.table(table.changed, counted(relation, admitted, clock))
    else:
        engine.empty(table.changed, relation.state_columns)
    if gained and engine.rows(table.hit):
        take_out(engine, relation)
        put_back(engine, relation)
    check_defined(engine, stratum, relation, table.changed)


def admissible(engine: Engine, stratum: Stratum, relation: Relation, derived: str) -> str:
    """Return SQL for the derivations that may insert a tuple; with an extremum, those that give a value of r__best."""
    if not relation.best:
        return derived
    table, columns = relation.tables, names(relation.tuple_columns)
    missing = lacking(stratum, relation)
    if missing:
        engine.table(table.found, derived, [missing])
        check_defined(engine, stratum, relation, table.found)
        derived = f"SELECT * FROM {table.found}"
    return f"SELECT {columns} FROM ({derived}) AS f SEMI JOIN {table.best} USING ({columns})"


def find_arrived(engine: Engine, relation: Relation) -> str:
    """Make r__hit of the stored tuples that the derivations in r__arrived support, with their new support; return SQL
    for the heads that are not stored."""
    table, columns = relation.tables, names(relation.tuple_columns)
    row = engine.row_id or "NULL"
    heads, parts = engine.meeting(relation, f"SELECT * FROM {table.arrived}", engine.rows(table.arrived))
    stored = (f"SELECT *, {row} AS _row FROM {part}" for part in parts)
    engine.table(
        table.met,
        f"SELECT {names(relation.tuple_columns, 'd.')}, d._rank AS _behind, s._support, s._rank, s._row "
        f"FROM {heads} AS d LEFT JOIN ({union(stored)}) AS s ON {matching(relation, 'd', 's')}",
    )
    engine.table(
        table.hit,
        f"SELECT {columns}, _support + COUNT(*) AS _support, _rank, _row FROM {table.met} "
        f"WHERE _behind < _rank GROUP BY {columns}, _support, _rank, _row",
    )
    return f"SELECT {columns} FROM {table.met} WHERE _rank IS NULL"
