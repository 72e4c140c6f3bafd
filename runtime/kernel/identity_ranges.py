"""Keep the identities of base facts that are gone, as ranges: the numbers of a life have no gaps, so there are at most
as many ranges as living identities, and one more for each numbered relation."""

from __future__ import annotations

import re

from .changes import changed_table, no_changes, note_changes, note_touched, show_versions
from .engine import Engine
from .identities import DIGITS
from .method_interface import METHODS, Bucket, Finding, Method, Run
from .model import LIFE, Stratum
from .sql import names, tuple_names, union


def maintain_dead(run: Run, stratum: Stratum, clock: int) -> int:
    """Add the identities that are gone; those of an ended life are dead anyway, and left out. Return the clock
    unchanged."""
    engine, (relation,) = run.engine, stratum.relations
    table, columns = relation.tables, names(relation.tuple_columns)
    engine.begin(stratum)
    no_changes(engine, relation)
    if run.initial:
        engine.empty(table, relation.state_columns)
        return clock
    show_versions(engine, stratum, "insert")
    lost = buried(engine, stratum)
    if not lost and not engine.rows(stratum.guards[0].change.lost):
        return clock
    first, last = tuple_names(relation)
    lives = stratum.guards[0]
    _, life, own = tuple_names(lives)
    all_ranges = union([f"SELECT {columns} FROM {table.was}", *lost])
    split = ", ".join(
        [
            f"LEFT({first}, LENGTH({first}) - {DIGITS}) AS _prefix",
            f"CAST(RIGHT({first}, {DIGITS}) AS BIGINT) AS _from",
            f"CAST(RIGHT({last}, {DIGITS}) AS BIGINT) AS _to",
        ]
    )
    current = f"LEFT({first}, {LIFE}) IN (SELECT {life} FROM {lives.table} WHERE {own})"
    behind = "MAX(_to) OVER (PARTITION BY _prefix ORDER BY _from, _to ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    begins = f"SELECT _prefix, _from, _to, CASE WHEN _from <= {behind} + 1 THEN 0 ELSE 1 END AS _new FROM ranges"
    numbered = (
        "SELECT _prefix, _from, _to, SUM(_new) OVER (PARTITION BY _prefix ORDER BY _from, _to "
        "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS _range FROM begins"
    )
    engine.rename(table, table.was)
    engine.table(
        table,
        f"WITH ranges AS (SELECT {split} FROM ({all_ranges}) AS a WHERE {current}), "
        f"begins AS ({begins}), numbered AS ({numbered}) "
        f"SELECT _prefix || LPAD(CAST(MIN(_from) AS VARCHAR), {DIGITS}, '0') AS {first}, "
        f"_prefix || LPAD(CAST(MAX(_to) AS VARCHAR), {DIGITS}, '0') AS {last} FROM numbered GROUP BY _prefix, _range",
    )
    note_changes(engine, relation, table.was, table)
    note_touched(engine, relation)
    engine.empty(table.was, relation.tuple_columns)
    run.note(stratum.name, "bury", 1, engine.rows(relation.change.gained))
    return clock


def buried(engine: Engine, stratum: Stratum) -> list[str]:
    """Return queries for the ranges that have died: identities of tuples that are gone, and, with each new epoch, those
    of earlier epochs of the same tuple."""
    reads = {relation.table: relation for relation in stratum.reads}
    queries = []
    for kind, phase in (("identities", "delete"), ("epochs", "insert")):
        for delta in (delta for rule in stratum.rules for delta in rule.deltas):
            relation, changed = reads[delta.table], changed_table(delta.change, phase, negated=False)
            if relation.kind == kind and engine.rows(changed):
                # Views would be read with the next phase.
                rows = f"(SELECT {names(relation.tuple_columns)} FROM {changed})"
                queries.append(re.sub(rf"\b{relation.tables.delta}\b", rows, engine.text(delta.sql)))
    return queries


def recount_dead(engine: Engine, stratum: Stratum, bucket: Bucket) -> list[Finding]:
    """Return queries for identities of facts that are there although they are dead."""
    (relation,) = stratum.relations
    first, last = tuple_names(relation)
    return [
        Finding(
            relation.name,
            "there although dead",
            f"SELECT i.{name} FROM {ids.table} AS i JOIN {relation.table} AS d "
            f"ON i.{name} BETWEEN d.{first} AND d.{last}",
        )
        for ids in stratum.reads
        if ids.kind == "identities"
        for name in [tuple_names(ids)[-1]]
    ]


METHODS["dead"] = Method(maintain_dead, recount_dead, 3, follows=True)
