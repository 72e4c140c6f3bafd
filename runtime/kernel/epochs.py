"""Count how often each tuple of a relation has appeared, for a recursion across processes that negates the relation.

The absence of a tuple is a base fact, too. Its identity is made of the tuple and its epoch, the number of times that
the tuple has appeared in this life of the process: it lasts until the tuple appears again. Tuples that never appeared
are in epoch 0, and not stored.
"""

from __future__ import annotations

from .changes import no_changes, note_changes, note_touched
from .engine import Engine
from .identities import DIGITS
from .method_interface import METHODS, Bucket, Finding, Method, Run
from .model import Relation, Stratum
from .sql import names, tuple_names


def maintain_epochs(run: Run, stratum: Stratum, clock: int) -> int:
    """Begin an epoch for each tuple that has appeared, in a new life only for those that are there. Return the clock
    unchanged."""
    engine, (relation,) = run.engine, stratum.relations
    lives, counted = stratum.guards[0], counted_relation(stratum)
    table, change = relation.tables, relation.change
    engine.begin(stratum)
    if run.initial:
        engine.empty(table, relation.state_columns)
    no_changes(engine, relation)
    own = tuple_names(lives)[2]
    other_life = any(
        engine.rows(changed) and engine.first(f"SELECT 1 AS one FROM {changed} WHERE {own}", 1)
        for changed in (lives.change.lost, lives.change.gained)
        if not run.initial
    )
    *keys, epoch, last = tuple_names(relation)
    listed = "".join(f"{name}, " for name in keys)
    first = f"{listed}{padded('1')} AS {epoch}, {padded('0')} AS {last}"
    present = "".join(f"{theirs.sql} AS {own_name}, " for theirs, own_name in zip(counted.columns, keys, strict=True))
    if run.initial or other_life:
        engine.rename(table, table.was)
        engine.table(table, f"SELECT {first} FROM (SELECT {present}TRUE AS _unit FROM {counted.table}) AS q")
        if not run.initial:
            note_changes(engine, relation, table.was, table)
        engine.empty(table.was, relation.tuple_columns)
    elif engine.rows(counted.change.gained):
        gained = f"(SELECT {present}TRUE AS _unit FROM {counted.change.gained}) AS g"
        same = " AND ".join(f"s.{name} = g.{name}" for name in keys) or "TRUE"
        engine.table(
            change.lost, f"SELECT {names(relation.tuple_columns, 's.')} FROM {table} AS s JOIN {gained} ON {same}"
        )
        following = f"CAST(s.{epoch} AS BIGINT)"
        engine.table(
            change.gained,
            f"SELECT {''.join(f'g.{name}, ' for name in keys)}{padded(f'COALESCE({following}, 0) + 1')} AS {epoch}, "
            f"{padded(f'COALESCE({following}, 0)')} AS {last} FROM {gained} LEFT JOIN {change.lost} AS s ON {same}",
        )
        engine.remove(table, change.lost, tuple_names(relation), engine.rows(change.lost))
        engine.add(table, change.gained)
    if not run.initial:
        note_touched(engine, relation)
    return clock


def padded(number: str) -> str:
    """Return SQL for a number as identities end in it."""
    return f"LPAD(CAST({number} AS VARCHAR), {DIGITS}, '0')"


def counted_relation(stratum: Stratum) -> Relation:
    """Return the relation whose tuples are counted."""
    return next(relation for relation in stratum.reads if relation not in stratum.guards)


def recount_epochs(engine: Engine, stratum: Stratum, bucket: Bucket) -> list[Finding]:
    """Return a query for tuples that are there without an epoch."""
    (relation,), counted = stratum.relations, counted_relation(stratum)
    keys = tuple_names(relation)[: len(counted.columns)]
    same = " AND ".join(f"s.{own} = c.{c.sql}" for own, c in zip(keys, counted.columns, strict=True)) or "TRUE"
    columns = names(counted.tuple_columns, "c.")
    return [
        Finding(
            relation.name,
            "missing",
            f"SELECT {columns} FROM {counted.table} AS c ANTI JOIN {relation.table} AS s ON {same}",
        )
    ]


METHODS["epochs"] = Method(maintain_epochs, recount_epochs, 3, follows=True)
