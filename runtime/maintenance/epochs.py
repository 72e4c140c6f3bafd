"""Count how often each tuple of a relation has appeared, for a recursion across processes that negates the relation.

The absence of a tuple is a base fact, too. Its identity is made of the tuple and its epoch, the number of times that
the tuple has appeared in this life of the process: it lasts until the tuple appears again. Tuples that never appeared
are in epoch 0, and not stored.
"""

from __future__ import annotations

from ..engines.engine import Engine
from ..model import Relation, Stratum
from ..sql import names, tuple_names, union
from .changes import no_changes, note_changes
from .identities import DIGITS
from .run import METHODS, Bucket, Finding, Method, Run


def maintain_epochs(run: Run, stratum: Stratum, clock: int) -> int:
    """Begin an epoch for each tuple that has appeared, in a new life only for those that are there. Return the clock
    unchanged."""
    engine, (relation,) = run.engine, stratum.relations
    lives, counted = stratum.guards[0], counted_relation(stratum)
    table, columns = relation.table, names(relation.tuple_columns)
    engine.begin(stratum)
    if run.initial:
        engine.empty(table, relation.state_columns)
    no_changes(engine, relation)
    own = tuple_names(lives)[2]
    other_life = any(
        engine.rows(f"{lives.table}__{name}")
        and engine.first(f"SELECT 1 AS one FROM {lives.table}__{name} WHERE {own}", 1)
        for name in ("lost", "gained")
        if not run.initial
    )
    *known, epoch, last = tuple_names(relation)
    listed = "".join(f"{name}, " for name in known)
    first = f"{listed}{padded('1')} AS {epoch}, {padded('0')} AS {last}"
    present = "".join(f"{theirs.sql} AS {own_name}, " for theirs, own_name in zip(counted.columns, known, strict=True))
    if run.initial or other_life:
        engine.rename(table, f"{table}__was")
        engine.table(table, f"SELECT {first} FROM (SELECT {present}TRUE AS _unit FROM {counted.table}) AS q")
        if not run.initial:
            note_changes(engine, relation, f"{table}__was", table)
        engine.empty(f"{table}__was", relation.tuple_columns)
    elif engine.rows(f"{counted.table}__gained"):
        gained = f"(SELECT {present}TRUE AS _unit FROM {counted.table}__gained) AS g"
        same = " AND ".join(f"s.{name} = g.{name}" for name in known) or "TRUE"
        engine.table(
            f"{table}__lost", f"SELECT {names(relation.tuple_columns, 's.')} FROM {table} AS s JOIN {gained} ON {same}"
        )
        following = f"CAST(s.{epoch} AS BIGINT)"
        engine.table(
            f"{table}__gained",
            f"SELECT {''.join(f'g.{name}, ' for name in known)}{padded(f'COALESCE({following}, 0) + 1')} AS {epoch}, "
            f"{padded(f'COALESCE({following}, 0)')} AS {last} FROM {gained} LEFT JOIN {table}__lost AS s ON {same}",
        )
        engine.remove(table, f"{table}__lost", tuple_names(relation), engine.rows(f"{table}__lost"))
        engine.add(table, f"{table}__gained")
    if not run.initial:
        changes = union(f"SELECT {columns} FROM {table}__{name}" for name in ("lost", "gained"))
        engine.snapshot(f"{table}__touched", changes, engine.rows(f"{table}__lost") + engine.rows(f"{table}__gained"))
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
    known = tuple_names(relation)[: len(counted.columns)]
    same = " AND ".join(f"s.{own} = c.{c.sql}" for own, c in zip(known, counted.columns, strict=True)) or "TRUE"
    columns = names(counted.tuple_columns, "c.")
    return [
        Finding(
            relation.name,
            "missing",
            f"SELECT {columns} FROM {counted.table} AS c ANTI JOIN {relation.table} AS s ON {same}",
        )
    ]


METHODS["epochs"] = Method(maintain_epochs, recount_epochs, 3, follows=True)
