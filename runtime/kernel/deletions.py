"""Deletions in recursive strata, and the ranks and supports that decide about them.

A tuple carries the rank that it entered with and its support: the number of its derivations that use only tuples of
lower rank. Each has at least one, so every tuple has a finite proof, and tuples on a cycle cannot keep each other
alive. Ranks need not be minimal.
"""

from __future__ import annotations

from .changes import all_derivations, arriving, changes_below, no_changes, note_changes, show_versions
from .engine import Engine
from .method_interface import PRICE_OF_ROUND, Bucket, Effect, Finding, Run
from .model import Column, Relation, Stratum
from .recursion import changed_rows, check_round, following
from .sql import names, tuple_names, union
from .strategy import (
    FEW_TUPLES,
    LEAST_FOLLOWED,
    PRICE_OF_SUSPECTS,
    SMALL_PART,
    UNFINISHED,
    TooManySuspects,
    is_comparable,
    is_quick,
    seconds_worked,
)
from .supports import check_supports, matching, support_findings


def with_rank(relation: Relation) -> tuple[Column, ...]:
    """Return the columns that identify a tuple, and its rank."""
    return (*relation.tuple_columns, Column("_rank", "int", "_rank"))


def group_columns(relation: Relation) -> list[Column]:
    """Return the columns of a group: those of a tuple, except the value of its extremum if it has one."""
    columns = relation.tuple_columns
    return [column for column in columns if not relation.best or column.sql != relation.best[1]]


def lose_support(run: Run, stratum: Stratum) -> None:
    """Make the tables that collect what happens to a stratum, then lead from the old state to mid."""
    begin_changes(run, stratum)
    if not run.initial:
        delete_unsupported(run, stratum)


def begin_changes(run: Run, stratum: Stratum) -> None:
    """Make the tables that collect what happens to a stratum: r__dead, r__entered, r__touched, and r__changed of a
    round. The first time, its own tables are empty."""
    for relation in stratum.relations:
        if run.initial:
            run.engine.empty(relation.table, relation.state_columns)
        for table in (relation.tables.dead, relation.tables.entered):
            run.engine.empty(table, relation.tuple_columns)
        gone = Column("_gone", "bool", "_gone")
        run.engine.empty(relation.change.touched, (*relation.tuple_columns, gone))
        run.engine.empty(relation.tables.changed, with_rank(relation))
    run.engine.begin(stratum)


def lost_and_gained(run: Run, stratum: Stratum) -> None:
    """Make r__lost and r__gained by comparing r__dead with r__entered, the tuples that entered or returned."""
    for relation in stratum.relations:
        if run.initial:
            no_changes(run.engine, relation)
        else:
            note_changes(run.engine, relation, relation.tables.dead, relation.tables.entered)


def show_state(engine: Engine, stratum: Stratum, before: str) -> None:
    """Define the versions of a stratum's own relations that its queries read; ``before`` is SQL for the rows before the
    last step, with ``{table}`` and ``{columns}`` to fill in."""
    engine.prepare(stratum.reads, changed_rows(engine, stratum))
    for relation in stratum.relations:
        table, columns = relation.tables, f"{names(relation.tuple_columns)}, _rank"
        changed = engine.rows(table.changed)
        engine.view(table.before, before.format(table=table, columns=columns))
        engine.view(table.delta, f"SELECT {columns} FROM {table.changed}", changed)
        engine.view(table.after, f"SELECT {columns} FROM {table}")


def entering(engine: Engine, relation: Relation, derived: str, clock: int, after: int) -> str:
    """Return SQL for the heads of ``derived`` that are not stored, with the clock as rank and their derivations
    counted; ``after`` is the number of changed rows that ``derived`` starts from."""
    columns = names(relation.tuple_columns)
    heads, parts = engine.meeting(relation, derived, after)
    absent = " ".join(f"ANTI JOIN {part} USING ({columns})" for part in parts)
    return counted(relation, f"SELECT {columns} FROM {heads} AS d {absent}", clock)


def counted(relation: Relation, derived: str, clock: int) -> str:
    """Return SQL for the heads of ``derived``, with the clock as rank and their derivations counted."""
    columns = names(relation.tuple_columns)
    return (
        f"SELECT {columns}, COUNT(*) AS _support, CAST({clock} AS BIGINT) AS _rank "
        f"FROM ({derived}) AS d GROUP BY {columns}"
    )


def check_suspects(run: Run, stratum: Stratum, done: int, seconds: float, statements: int) -> None:
    """Raise TooManySuspects if the strategy is auto and ``done`` rounds of deletions, which took ``seconds`` and
    ``statements``, have cost more than computing the stratum from scratch, or are expected to.

    At first each round costs about the same, since it looks at all tuples, and deletions may go as deep as insertions
    went when the stratum was computed: half as deep on average.
    """
    if run.choice.strategy != "auto":
        return
    stored = sum(run.engine.rows(relation.table) for relation in stratum.relations)
    touched = sum(run.engine.rows(relation.change.touched) for relation in stratum.relations)
    price = PRICE_OF_ROUND * done + PRICE_OF_SUSPECTS * touched / max(1, stored)
    effect = run.choice.effects.get(stratum.name, Effect())
    expected = UNFINISHED * price if price > 1 else 0.0
    if seconds > LEAST_FOLLOWED * effect.seconds > 0:
        expected = max(expected, UNFINISHED * seconds * max(1, effect.built_rounds / 2 / done) / effect.seconds)
    if stored < FEW_TUPLES:
        many = statements > SMALL_PART * effect.built and is_quick(effect, run.engine.seconds_of_statement)
        if many and is_comparable(stratum):
            raise TooManySuspects(
                f"it is small: to compute it takes {effect.built:.0f} statements, deletions took {statements} and were "
                "not at their end",
                expected,
            )
    elif expected > 1:
        raise TooManySuspects(
            f"deletions touched {touched} of {stored} tuples in {done} rounds, and were not at their end", expected
        )


def find_supported(engine: Engine, relation: Relation, derived: str, after: int) -> None:
    """Make r__hit of the stored tuples that ``derived`` supports, with their support without these derivations;
    ``after`` is the number of changed rows that ``derived`` starts from."""
    table, columns = relation.tables, names(relation.tuple_columns)
    row = f"s.{engine.row_id}" if engine.row_id else "NULL"
    heads, parts = engine.meeting(relation, derived, after)
    met = union(
        f"SELECT {names(relation.tuple_columns, 's.')}, s._support, s._rank, {row} AS _row "
        f"FROM {part} AS s JOIN {heads} AS d ON {matching(relation, 's', 'd')} WHERE d._rank < s._rank"
        for part in parts
    )
    engine.table(
        table.hit,
        f"SELECT {columns}, _support - COUNT(*) AS _support, _rank, _row FROM ({met}) AS m "
        f"GROUP BY {columns}, m._support, _rank, _row",
        ("_support = 0", "_support > 0", "_support < 0"),
    )


def take_out(engine: Engine, relation: Relation) -> None:
    """Remove r__hit from r and add it to r__touched, where tuples without support are marked as gone."""
    hit = relation.tables.hit
    check_supports(engine, relation, hit)
    engine.remove(relation.table, hit, tuple_names(relation), engine.rows(hit), numbered=True)
    engine.add(relation.change.touched, hit, f"{names(relation.tuple_columns)}, _support = 0 AS _gone")


def put_back(engine: Engine, relation: Relation, condition: str = "TRUE") -> None:
    """Insert the tuples of r__hit that meet a condition into r."""
    engine.add(relation.table, relation.tables.hit, names(relation.state_columns), condition)


def delete_unsupported(run: Run, stratum: Stratum) -> None:
    """Delete, from the old state to mid, the tuples that lose their support with the lost tuples of relations below."""
    engine = run.engine
    show_versions(engine, stratum, "delete")
    show_state(engine, stratum, "SELECT {columns} FROM {table}")
    lost = {r.table: arriving(engine, stratum, r, "delete", run.bucket) for r in stratum.relations}
    subtract_lost(run, stratum, lost, changes_below(engine, stratum))


def show_leaving(engine: Engine, stratum: Stratum) -> None:
    """Define the versions of a stratum's own relations after r__changed was removed from r in the last step."""
    changed = "SELECT {columns} FROM {table} UNION ALL SELECT {columns} FROM {table.changed}"
    show_state(engine, stratum, changed)


def subtract_lost(run: Run, stratum: Stratum, lost: dict[str, list[str]], after: int) -> None:
    """Subtract the derivations of the queries ``lost``, by table, from the supports; tuples without support die, and
    their derivations are lost too, until no tuple dies. ``after`` is the number of changed rows that these queries
    start from. Where tuples died, make r__dead of all that are gone. Raise TooManySuspects if it becomes too expensive.
    """
    engine = run.engine
    died = dict.fromkeys(lost, 0)
    done, started, before = 0, seconds_worked(engine), engine.statements
    while any(lost.values()):
        check_round(stratum, done, run.max_rounds, deleting=True)
        done += 1
        for relation in stratum.relations:
            if lost[relation.table]:
                find_supported(engine, relation, union(lost[relation.table]), after)
        earlier = sum(died.values())
        for relation in stratum.relations:
            table, columns = relation.tables, names(relation.tuple_columns)
            if not lost[table]:
                engine.empty(table.changed, with_rank(relation))
                continue
            engine.part(table.changed, table.hit, f"{columns}, _rank", "_support = 0")
            if engine.rows(table.hit):
                take_out(engine, relation)
            if engine.rows(table.hit) > engine.rows(table.changed):
                put_back(engine, relation, "_support > 0")
            died[table] += engine.rows(table.changed)
        run.note(stratum.name, "delete", done, sum(died.values()) - earlier)
        show_leaving(engine, stratum)
        lost = {r.table: following(engine, stratum, r) for r in stratum.relations}
        after = changed_rows(engine, stratum)
        if any(lost.values()):
            check_suspects(run, stratum, done, seconds_worked(engine) - started, engine.statements - before)
    for relation in stratum.relations:
        table, columns = relation.tables, names(relation.tuple_columns)
        if died[table]:
            engine.table(table.dead, f"SELECT {columns} FROM {relation.change.touched} WHERE _gone")


def recount_supports(engine: Engine, stratum: Stratum, bucket: Bucket) -> list[list[Finding]]:
    """Return for each relation queries for missing tuples, and for wrong supports by derivations of lower rank."""
    for relation in stratum.relations:
        engine.empty(relation.tables.changed, with_rank(relation))
    show_state(engine, stratum, "SELECT {columns} FROM {table}")
    findings = []
    for relation in stratum.relations:
        derived = union(all_derivations(engine, stratum, relation, bucket, exits=False))
        supports = "COUNT(CASE WHEN d._rank < s._rank THEN 1 END)"
        findings.append(support_findings(engine, relation, derived, ["_rank"], supports))
    return findings
