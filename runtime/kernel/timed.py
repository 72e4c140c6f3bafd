"""Maintain relations that select by a bound, which moves with the time: by what the bound leaves behind on its way."""

from __future__ import annotations

from .changes import all_derivations, derivations, no_changes, note_resolved, show_versions
from .engine import Engine
from .method_interface import METHODS, Bucket, Finding, Method, Run
from .model import Stratum
from .sql import names, tuple_names, union
from .table_names import TableName


def maintain_timed(run: Run, stratum: Stratum, clock: int) -> int:
    """Select from the changes of what the stratum's only relation selects from, and from what stays of that, the tuples
    for which the condition changes with the bound; return the clock unchanged."""
    engine, relation = run.engine, stratum.relations[0]
    table, columns = relation.tables, names(relation.tuple_columns)
    engine.begin(stratum)
    show_versions(engine, stratum, "insert")
    if run.initial:
        engine.table(table, union(all_derivations(engine, stratum, relation, run.bucket, exits=False)))
        no_changes(engine, relation)
        run.note(stratum.name, "build", 1, engine.rows(table))
        return clock
    rule = stratum.rules[0]
    selected, crossed = rule.deltas
    source, bound = TableName(selected.table), TableName(crossed.table)
    staying, moved = f"SELECT {columns} FROM {source}", engine.rows(bound.change.gained)
    if engine.rows(source.change.gained):
        staying = f"{staying} ANTI JOIN {source.change.gained} USING ({columns})"
    engine.view(source.before, staying)
    before, after = (f"SELECT * FROM {one if moved else bound}" for one in (bound.change.lost, bound.change.gained))
    lost, gained, _ = relation.change
    for changed, of, one, other in (
        (lost, source.change.lost, before, after),
        (gained, source.change.gained, after, before),
    ):
        engine.view(source.delta, f"SELECT {columns} FROM {of}", engine.rows(of))
        engine.view(bound.before, one)
        engine.view(bound.after, other)
        found = [selected.sql] if engine.rows(of) else []
        found += [crossed.sql] if moved else []
        if found:
            engine.table(changed, union(derivations(engine, rule, sql, relation, run.bucket) for sql in found))
        else:
            engine.empty(changed, relation.tuple_columns)
    engine.reduce(table, lost, tuple_names(relation), engine.rows(lost))
    note_resolved(engine, relation)
    run.note(stratum.name, "select", 1, engine.rows(lost) + engine.rows(gained))
    return clock


def recount_timed(engine: Engine, stratum: Stratum, bucket: Bucket) -> list[Finding]:
    """Return queries for tuples that are missing, and for those that are not selected."""
    relation = stratum.relations[0]
    table, columns = relation.tables, names(relation.tuple_columns)
    engine.table(table.recount, union(all_derivations(engine, stratum, relation, bucket, exits=False)))
    return [
        Finding(relation.name, problem, f"SELECT {columns} FROM {one} ANTI JOIN {other} USING ({columns})")
        for problem, one, other in (("missing", table.recount, table), ("not derived", table, table.recount))
    ]


METHODS["timed"] = Method(maintain_timed, recount_timed, 4, follows=True)
