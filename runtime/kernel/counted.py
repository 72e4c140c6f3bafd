"""Maintain strata without recursion by counting derivations (Nigam et al. 2012, section 3)."""

from __future__ import annotations

from .changes import all_derivations, arriving, changes_of, check_defined, look_up_below, no_changes, show_versions
from .engine import Engine
from .method_interface import METHODS, Bucket, Finding, Method, Run
from .model import Relation, Stratum
from .sql import names, tuple_names, union
from .supports import check_supports, matching, support_findings

GONE, NEW = "_was > 0 AND _support = 0", "_was = 0"


def maintain_counted(run: Run, stratum: Stratum, clock: int) -> int:
    """Add gained derivations of the stratum's only relation, subtract lost ones; return the clock unchanged."""
    engine, bucket = run.engine, run.bucket
    relation = stratum.relations[0]
    table, columns = relation.tables, names(relation.tuple_columns)
    engine.begin(stratum)
    show_versions(engine, stratum, "insert")
    if run.initial:
        derived = union(all_derivations(engine, stratum, relation, bucket, exits=False))
        engine.table(table, f"SELECT {columns}, COUNT(*) AS _support FROM ({derived}) AS q GROUP BY {columns}")
        check_defined(engine, stratum, relation, table)
        no_changes(engine, relation)
        run.note(stratum.name, "build", 1, engine.rows(table))
        return clock
    changes = signed_arrivals(run, stratum, relation, "1")
    if not changes:
        no_changes(engine, relation)
        return clock
    engine.table(
        table.counts,
        f"SELECT {columns}, CAST(SUM(_copies) AS BIGINT) AS _change FROM ({union(changes)}) AS q "
        f"GROUP BY {columns} HAVING SUM(_copies) <> 0",
    )
    add_counts(engine, stratum, relation)
    run.note(stratum.name, "count", 1, changes_of(engine, relation.change))
    return clock


def signed_arrivals(run: Run, stratum: Stratum, relation: Relation, copies: str) -> list[str]:
    """Make r__minus and r__plus of the derivations lost and gained with the relations below; ``_copies`` is the SQL
    ``copies``, negated for lost ones. Return queries for those of the two tables that have rows."""
    engine, changes = run.engine, []
    met = look_up_below(engine, stratum)
    for phase, sign, changed in (("delete", "-", relation.tables.minus), ("insert", "", relation.tables.plus)):
        queries = arriving(engine, stratum, relation, phase, run.bucket)
        if queries:
            show_versions(engine, stratum, phase, met)
            signed = f"{names(relation.tuple_columns)}, {sign}{copies} AS _copies"
            if engine.table(changed, f"SELECT {signed} FROM ({union(queries)}) AS q"):
                changes.append(f"SELECT * FROM {changed}")
    return changes


def add_counts(engine: Engine, stratum: Stratum, relation: Relation) -> None:
    """Add r__counts, the changes (``_change``) of derivation counts, to r; make r__lost, r__gained and r__touched."""
    table, columns = relation.tables, names(relation.tuple_columns)
    engine.reduce(table, table.counts, tuple_names(relation), engine.rows(table.counts))
    heads, parts = engine.meeting(relation, f"SELECT * FROM {table.counts}", engine.rows(table.counts))
    stored = union(f"SELECT * FROM {part}" for part in parts)
    outcome = table.next
    engine.table(
        outcome,
        f"SELECT {names(relation.tuple_columns, 'c.')}, COALESCE(s._support, 0) AS _was, "
        f"COALESCE(s._support, 0) + c._change AS _support "
        f"FROM {heads} AS c LEFT JOIN ({stored}) AS s ON {matching(relation, 'c', 's')}",
        (GONE, NEW, "_was > 0", "_support > 0", "_support < 0"),
    )
    check_supports(engine, relation, outcome)
    check_defined(engine, stratum, relation, outcome)
    for changed, condition in zip(relation.change, (GONE, NEW, "TRUE"), strict=True):
        engine.part(changed, outcome, columns, condition)
    engine.remove(table, outcome, tuple_names(relation), engine.counted(outcome, "_was > 0"))
    engine.add(table, outcome, f"{columns}, _support", "_support > 0")


def recount_counted(engine: Engine, stratum: Stratum, bucket: Bucket) -> list[Finding]:
    """Return queries for missing tuples and wrong derivation counts."""
    relation = stratum.relations[0]
    derived = union(all_derivations(engine, stratum, relation, bucket, exits=False))
    return support_findings(engine, relation, derived, [], "COUNT(d._one)")


METHODS["counted"] = Method(maintain_counted, recount_counted, 8)
