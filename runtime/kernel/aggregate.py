"""Maintain aggregates by folding changes into the rows of the groups that they affect.

A group that lost the last derivation of its extremum, or a derivation of one of its first rows, or that adds floats, is
recomputed from all its derivations. The queries that add and subtract are made by the compiler (``targets``).
"""

from __future__ import annotations

from collections.abc import Sequence

from .changes import (
    all_derivations,
    arriving,
    changes_of,
    check_defined,
    look_up_below,
    no_changes,
    note_changes,
    show_versions,
)
from .engine import Engine
from .errors import UNCHANGED, Refused
from .method_interface import METHODS, Bucket, Finding, Method, Run
from .model import Both, Relation, Stratum
from .sql import names, tuple_names, union
from .values import named_values


def maintain_aggregate(run: Run, stratum: Stratum, clock: int) -> int:
    """Bring the rows of the affected groups to the new state; return the clock unchanged."""
    engine = run.engine
    relation = stratum.relations[0]
    table, columns, groups = (relation.tables, names(relation.tuple_columns), ", ".join(stratum.groups))
    engine.begin(stratum)
    show_versions(engine, stratum, "insert")
    if run.initial:
        derived = all_derivations(engine, stratum, relation, run.bucket, exits=False)
        engine.view(table.rows, union(derived))
        check_defined(engine, stratum, relation, table.rows)
        try:
            engine.table(table, stratum.compute)
        except Refused as error:
            # What is added up has a value: only a sum can be out of range, in DuckDB even before it has a type.
            raise sum_out_of_range(relation) from error
        check_ranges(engine, relation, stratum.ranged, stratum.groups, table)
        no_changes(engine, relation)
        run.note(stratum.name, "build", 1, engine.rows(table))
        return clock
    if not changed_derivations(run, stratum, relation):
        no_changes(engine, relation)
        return clock
    reached = table.reached
    engine.table(reached, f"SELECT {groups} FROM {table.minus} UNION SELECT {groups} FROM {table.plus}")
    if set(stratum.groups) <= set(tuple_names(relation)):
        # Each group has at most ``limit`` rows before and after. An aggregate without groups is one group.
        engine.reduce(table, reached, stratum.groups, 2 * stratum.limit * engine.rows(reached))
    rows = []
    state = names(relation.state_columns)
    if stratum.fold:
        engine.table(table.folded, stratum.fold)
        engine.table(table.groups, f"SELECT {groups} FROM {table.folded} WHERE _stale")
        rows.append(f"SELECT {state} FROM {table.folded} WHERE NOT _stale AND _rows > 0")
    else:
        engine.table(table.groups, f"SELECT {groups} FROM {reached}")
    if engine.rows(table.groups):
        show_versions(engine, stratum, "insert")
        engine.view(table.rows, union(engine.text(rule.returns) for rule in stratum.rules))
        engine.table(table.computed, stratum.compute)
        rows.append(f"SELECT {state} FROM {table.computed}")
    engine.table(table.next, union(rows) if rows else f"SELECT {state} FROM {table} WHERE FALSE")
    check_ranges(engine, relation, stratum.ranged, stratum.groups, table.next)
    affected, parts = engine.meeting(relation, f"SELECT * FROM {reached}", engine.rows(reached), stratum.groups)
    was = (f"SELECT {state} FROM {part} SEMI JOIN {affected} AS g USING ({groups})" for part in parts)
    engine.table(table.was, union(was))
    note_changes(engine, relation, table.was, table.next)
    engine.table(relation.change.touched, f"SELECT {columns} FROM {table.was} UNION SELECT {columns} FROM {table.next}")
    engine.remove(table, reached, stratum.groups, engine.rows(table.was))
    engine.add(table, table.next)
    run.note(stratum.name, "aggregate", 1, changes_of(engine, relation.change))
    return clock


def changed_derivations(run: Run, stratum: Stratum, relation: Relation) -> bool:
    """Make r__minus and r__plus of the derivations lost and gained; return whether there are any."""
    engine, table = run.engine, relation.tables
    queries = {phase: arriving(engine, stratum, relation, phase, run.bucket) for phase in ("delete", "insert")}
    if not any(queries.values()):
        return False
    met = look_up_below(engine, stratum)
    for phase, changed in (("delete", table.minus), ("insert", table.plus)):
        show_versions(engine, stratum, phase, met)
        if queries[phase]:
            engine.table(changed, union(queries[phase]))
            check_defined(engine, stratum, relation, changed)
        else:
            none = union(all_derivations(engine, stratum, relation, run.bucket, exits=False))
            engine.table(changed, f"SELECT * FROM ({none}) AS q WHERE FALSE")
    return engine.rows(table.minus) + engine.rows(table.plus) > 0


def check_ranges(engine: Engine, relation: Relation, ranged: Sequence[str], groups: Sequence[str], table: str) -> None:
    """Raise Refused if a sum of a relation in ``table``, in one of the columns ``ranged``, does not fit its type."""
    if not ranged:
        return
    missing = " OR ".join(f"{column} IS NULL" for column in ranged)
    for row in engine.first(f"SELECT * FROM {table} WHERE {missing}", 1):
        group = named_values(relation, {name: row[name] for name in groups})
        raise sum_out_of_range(relation, f" for {group}" if group else "")


def sum_out_of_range(relation: Relation, group: str = "") -> Refused:
    """Return the error for a sum that does not fit its type."""
    return Refused(f"{relation.source}: a sum of {relation.name}{group} does not fit its type", UNCHANGED)


def recount_aggregate(engine: Engine, stratum: Stratum, bucket: Bucket) -> list[Finding]:
    """Return queries for the rows of groups that differ from recomputed ones, partial results included."""
    return recount_groups(engine, stratum, stratum.relations[0], stratum.compute, bucket)


def recount_groups(
    engine: Engine, stratum: Stratum, relation: Relation, compute: str | Both, bucket: Bucket
) -> list[Finding]:
    """Return queries for the rows of groups of a relation that differ from those that ``compute`` makes of all
    derivations."""
    table, columns, state = relation.tables, names(relation.tuple_columns), names(relation.state_columns)
    engine.view(table.rows, union(all_derivations(engine, stratum, relation, bucket, exits=False)))
    engine.table(table.next, compute)
    differing = {"not derived": (table, table.next), "missing": (table.next, table)}
    return [
        Finding(relation.name, problem, f"SELECT {columns} FROM {rows} ANTI JOIN {others} USING ({state})")
        for problem, (rows, others) in differing.items()
    ]


METHODS["aggregate"] = Method(maintain_aggregate, recount_aggregate, 12)
