"""Number the base facts of a recursion across processes: each gets an identity each time it appears.

An identity is the prefix that the rule of the relation gives, which begins with the life of the process, and a number.
The numbers of a prefix are never used again, and have no gaps.
"""

from __future__ import annotations

from .changes import all_derivations, arriving, no_changes, note_touched, show_versions
from .engine import Engine
from .method_interface import METHODS, Bucket, Finding, Method, Run
from .model import Relation, Stratum
from .sql import names, tuple_names, union

DIGITS = 12
"""The length of the number at the end of an identity; with leading zeros, so that identities have the order of their
numbers."""


def maintain_identities(run: Run, stratum: Stratum, clock: int) -> int:
    """Drop the identities of facts that are gone, and number new ones; return the last number."""
    engine, (relation,) = run.engine, stratum.relations
    table, change, columns = relation.table, relation.change, names(relation.tuple_columns)
    identity = relation.tuple_columns[-1].sql
    engine.begin(stratum)
    if run.initial:
        engine.empty(table, relation.state_columns)
    no_changes(engine, relation)
    show_versions(engine, stratum, "delete")
    lost = [] if run.initial else arriving(engine, stratum, relation, "delete", run.bucket)
    if lost:
        engine.table(
            change.lost,
            f"SELECT {names(relation.tuple_columns, 's.')} FROM {table} AS s SEMI JOIN ({union(lost)}) AS d "
            f"ON {same_fact(relation, 's', 'd')}",
        )
        engine.remove(table, change.lost, tuple_names(relation), engine.rows(change.lost))
    show_versions(engine, stratum, "insert")
    new = (
        all_derivations(engine, stratum, relation, run.bucket, exits=False)
        if run.initial
        else arriving(engine, stratum, relation, "insert", run.bucket)
    )
    if new:
        facts = "".join(f"{column.sql}, " for column in relation.tuple_columns[:-1])
        number = f"LPAD(CAST({clock} + ROW_NUMBER() OVER (ORDER BY {columns}) AS VARCHAR), {DIGITS}, '0')"
        clock += engine.table(
            change.gained, f"SELECT {facts}{identity} || {number} AS {identity} FROM ({union(new)}) AS d"
        )
        engine.add(table, change.gained)
    if run.initial:
        no_changes(engine, relation)
    else:
        note_touched(engine, relation)
    run.note(stratum.name, "number", 1, engine.rows(table))
    return clock


def same_fact(relation: Relation, stored: str, derived: str) -> str:
    """Return the SQL condition that a stored row is that of a derived fact, whose identity is only a prefix."""
    *facts, identity = tuple_names(relation)
    prefix = f"LEFT({stored}.{identity}, LENGTH({stored}.{identity}) - {DIGITS}) = {derived}.{identity}"
    return " AND ".join([*(f"{stored}.{name} = {derived}.{name}" for name in facts), prefix])


def recount_identities(engine: Engine, stratum: Stratum, bucket: Bucket) -> list[Finding]:
    """Return queries for facts without an identity, for identities of no fact, and for those that two facts have."""
    (relation,) = stratum.relations
    table, columns, identity = relation.tables, names(relation.tuple_columns), tuple_names(relation)[-1]
    facts = union(all_derivations(engine, stratum, relation, bucket, exits=False))
    same = same_fact(relation, "s", "d")
    several = f"SELECT {identity} FROM {table} GROUP BY {identity} HAVING COUNT(*) > 1"
    return [
        Finding(relation.name, "missing", f"SELECT {columns} FROM ({facts}) AS d ANTI JOIN {table} AS s ON {same}"),
        Finding(relation.name, "left over", f"SELECT {columns} FROM {table} AS s ANTI JOIN ({facts}) AS d ON {same}"),
        Finding(relation.name, "used twice", several),
    ]


METHODS["identities"] = Method(maintain_identities, recount_identities, 3, follows=True)
