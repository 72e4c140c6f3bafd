"""Maintain a recursion across processes with one live proof for each tuple.

A proof is a set of identities of base facts that suffices to derive a tuple; it is live while none of them is dead. A
tuple is there if a rule gives a live proof of it, and one is kept: as long as it is live, no other is looked at. After
a batch, tuples whose proofs have died are removed, and derived again if they still can be. Nothing else follows from
that, since a tuple whose own proof is live stays. No cycle can keep itself alive: proofs contain base facts only.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..engines.engine import Engine
from ..model import Column, Relation, Stratum
from ..sql import names, tuple_names, union
from .changes import all_derivations, arriving, check_defined, no_changes, show_versions
from .identities import LIFE
from .recursion import changed_rows, check_round, following
from .run import METHODS, Bucket, Finding, Method, Run


def maintain_proofs(run: Run, stratum: Stratum, clock: int) -> int:
    """Drop proofs that have died, and find live ones for tuples without; return the clock unchanged."""
    engine = run.engine
    engine.begin(stratum)
    for relation in stratum.relations:
        if run.initial:
            engine.empty(relation.table, relation.state_columns)
        for name in ("left", "entered"):
            engine.empty(f"{relation.table}__{name}", relation.tuple_columns)
        drop_dead(run, stratum, relation)
    show_versions(engine, stratum, "insert")
    show_proofs(engine, stratum)
    derived = {relation.table: first_derivations(run, stratum, relation) for relation in stratum.relations}
    done = 0
    while any(derived.values()):
        check_round(stratum, done, run.max_rounds)
        done += 1
        for relation in stratum.relations:
            find_proofs(engine, stratum, relation, derived[relation.table])
        for relation in stratum.relations:
            enter(engine, relation)
        run.note(stratum.name, "prove", done, changed_rows(engine, stratum))
        derived = {r.table: following(engine, stratum, r) for r in stratum.relations}
    for relation in stratum.relations:
        settle(run, relation)
    return clock


def facts(relation: Relation) -> tuple[Column, ...]:
    """Return the columns of a tuple without its proof."""
    return relation.columns[:-1]


def proof(relation: Relation) -> str:
    """Return the column of the proof."""
    return relation.columns[-1].sql


def same_tuple(relation: Relation, left: str, right: str) -> str:
    """Return the SQL condition that two rows hold the same tuple, whatever their proofs."""
    return " AND ".join(f"{left}.{column.sql} = {right}.{column.sql}" for column in facts(relation)) or "TRUE"


def dead_ids(engine: Engine, stratum: Stratum, table: str, column: str, gained: bool) -> str:
    """Return a query for the dead ones of the identities in the proofs of a table. If ``gained``, only changes of this
    batch are looked at, since none was dead before."""
    lives, *dead = stratum.guards
    life = tuple_names(lives)[1]
    parts = [f"LEFT(u.id, {LIFE}) NOT IN (SELECT {life} FROM {lives.table})"]
    for relation in dead:
        of = f"{relation.table}__gained" if gained else relation.table
        if engine.rows(of):
            first, last = tuple_names(relation)
            parts.append(f"EXISTS (SELECT 1 FROM {of} AS d WHERE u.id BETWEEN d.{first} AND d.{last})")
    ids = f"SELECT DISTINCT UNNEST({column}) AS id FROM {table}"
    return f"SELECT u.id FROM ({ids}) AS u WHERE {' OR '.join(parts)}"


def drop_dead(run: Run, stratum: Stratum, relation: Relation) -> None:
    """Remove the tuples whose proof has died from r, and add them to r__left; make r__dead of them, without proofs."""
    engine, table = run.engine, relation.table
    columns = names(relation.tuple_columns)
    lives, *dead = stratum.guards
    died = not run.initial and (
        engine.rows(f"{lives.table}__lost") or any(engine.rows(f"{r.table}__gained") for r in dead)
    )
    listed = names(facts(relation)) or "TRUE AS _unit"
    known = facts(relation) or (Column("_unit", "bool", "_unit"),)
    if died and engine.rows(table):
        of = dead_ids(engine, stratum, table, proof(relation), gained=True)
        if engine.table(f"{table}__ids", of):
            gone = f"LIST_HAS_ANY({proof(relation)}, (SELECT LIST(id) FROM {table}__ids))"
            if engine.table(f"{table}__left", f"SELECT {columns} FROM {table} WHERE {gone}"):
                engine.remove(table, f"{table}__left", keys(relation), engine.rows(f"{table}__left"))
                engine.table(f"{table}__dead", f"SELECT {listed} FROM {table}__left")
                return
    engine.empty(f"{table}__dead", known)


def keys(relation: Relation) -> list[str]:
    """Return the columns that identify a row: those of the tuple, or the proof if it has none."""
    return [column.sql for column in facts(relation) or relation.columns]


def first_derivations(run: Run, stratum: Stratum, relation: Relation) -> list[str]:
    """Return the queries for proofs from what is new below, and for proofs of tuples that have lost theirs. Proofs with
    identities of lives that were unknown are looked at again once these are known."""
    engine = run.engine
    if run.initial:
        return all_derivations(engine, stratum, relation, run.bucket, exits=True)
    lives, *dead = stratum.guards
    if engine.rows(f"{lives.table}__gained") or any(engine.rows(f"{r.table}__lost") for r in dead):
        return all_derivations(engine, stratum, relation, run.bucket, exits=False)
    derived = arriving(engine, stratum, relation, "insert", run.bucket)
    if engine.rows(f"{relation.table}__dead"):
        derived += [engine.text(rule.returns) for rule in stratum.rules if rule.head == relation.table]
    return derived


def show_proofs(engine: Engine, stratum: Stratum) -> None:
    """Define the versions of the stratum's tuples that the queries of a round read."""
    for relation in stratum.relations:
        table, columns = relation.table, names(relation.state_columns)
        engine.empty(f"{table}__changed", relation.tuple_columns)
        for version in ("before", "after"):
            engine.view(f"{table}__{version}", f"SELECT {columns} FROM {table}")
        engine.view(f"{table}__delta", f"SELECT {columns} FROM {table}__changed")


def find_proofs(engine: Engine, stratum: Stratum, relation: Relation, derived: Sequence[str]) -> None:
    """Make r__entering of the tuples among the derived ones that are not in r, each with the shortest live proof."""
    table, columns = relation.table, names(relation.tuple_columns)
    if not derived:
        engine.empty(f"{table}__entering", relation.tuple_columns)
        return
    known = f"ANTI JOIN {table} AS s ON {same_tuple(relation, 's', 'd')}" if engine.rows(table) else ""
    found = f"SELECT {names(relation.tuple_columns, 'd.')} FROM ({union(derived)}) AS d {known}"
    if not engine.table(f"{table}__found", found):
        engine.empty(f"{table}__entering", relation.tuple_columns)
        return
    check_defined(engine, stratum, relation, f"{table}__found")
    engine.table(f"{table}__ids", dead_ids(engine, stratum, f"{table}__found", proof(relation), gained=False))
    live = "TRUE"
    if engine.rows(f"{table}__ids"):
        live = f"NOT LIST_HAS_ANY({proof(relation)}, (SELECT LIST(id) FROM {table}__ids))"
    partition = f"PARTITION BY {names(facts(relation))} " if facts(relation) else ""
    order = f"ORDER BY LEN({proof(relation)}), {proof(relation)}"
    engine.table(
        f"{table}__entering",
        f"SELECT {columns} FROM {table}__found WHERE {live} QUALIFY ROW_NUMBER() OVER ({partition}{order}) = 1",
    )


def enter(engine: Engine, relation: Relation) -> None:
    """Add r__entering to r and to r__entered; it becomes r__changed."""
    table = relation.table
    if engine.rows(f"{table}__entering"):
        engine.add(table, f"{table}__entering")
        engine.add(f"{table}__entered", f"{table}__entering")
    engine.rename(f"{table}__entering", f"{table}__changed")


def settle(run: Run, relation: Relation) -> None:
    """Make r__lost, r__gained and r__touched; a proof that has died cannot have entered again."""
    engine, table, columns = run.engine, relation.table, names(relation.tuple_columns)
    if run.initial or not engine.rows(f"{table}__left") + engine.rows(f"{table}__entered"):
        no_changes(engine, relation)
        return
    engine.rename(f"{table}__left", f"{table}__lost")
    engine.rename(f"{table}__entered", f"{table}__gained")
    engine.table(f"{table}__touched", union(f"SELECT {columns} FROM {table}__{n}" for n in ("lost", "gained")))


def recount_proofs(engine: Engine, stratum: Stratum, bucket: Bucket) -> list[Finding]:
    """Return queries for tuples without a proof although rules give a live one, and for proofs that are dead."""
    show_proofs(engine, stratum)
    findings = []
    for relation in stratum.relations:
        table, columns = relation.table, names(relation.tuple_columns)
        engine.table(f"{table}__found", union(all_derivations(engine, stratum, relation, bucket, exits=False)))
        for name in (table, f"{table}__found"):
            engine.table(f"{name}__ids", dead_ids(engine, stratum, name, proof(relation), gained=False))
        has_dead = f"LIST_HAS_ANY({proof(relation)}, COALESCE((SELECT LIST(id) FROM {{}}__ids), []))"
        missing = f"SELECT {columns} FROM {table}__found AS d ANTI JOIN {table} AS s ON {same_tuple(relation, 's', 'd')}"
        findings += [
            Finding(relation.name, "missing", f"{missing} WHERE NOT {has_dead.format(f'{table}__found')}"),
            Finding(relation.name, "dead proof", f"SELECT {columns} FROM {table} WHERE {has_dead.format(table)}"),
        ]
        if facts(relation):
            grouped = names(facts(relation))
            several = f"SELECT {grouped} FROM {table} GROUP BY {grouped} HAVING COUNT(*) > 1"
            findings.append(Finding(relation.name, "several proofs", several))
    return findings


METHODS["proofs"] = Method(maintain_proofs, recount_proofs, 8, follows=True)
