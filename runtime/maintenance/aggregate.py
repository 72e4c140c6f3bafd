"""Maintain aggregates by folding changes into the rows of the groups that they affect.

A group that lost the last derivation of its extremum, or a derivation of one of its first rows, or that adds floats, is
recomputed from all its derivations.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..engines.engine import Engine
from ..errors import Refused
from ..model import Relation, Stratum
from ..printing import named_values
from ..sql import names, tuple_names, union
from .changes import (
    all_derivations,
    arriving,
    check_defined,
    look_up_below,
    no_changes,
    note_changes,
    show_versions,
)
from .run import METHODS, Bucket, Finding, Method, Run


def maintain_aggregate(run: Run, stratum: Stratum, clock: int) -> int:
    """Bring the rows of the affected groups to the new state; return the clock unchanged."""
    engine = run.engine
    relation = stratum.relations[0]
    table, columns, groups = (relation.table, names(relation.tuple_columns), ", ".join(stratum.groups))
    engine.begin(stratum)
    show_versions(engine, stratum, "insert")
    if run.initial:
        derived = all_derivations(engine, stratum, relation, run.bucket, exits=False)
        engine.view(f"{table}__rows", union(derived))
        check_defined(engine, stratum, relation, f"{table}__rows")
        try:
            engine.table(table, stratum.compute)
        except Refused as error:
            # What is added up has a value: only a sum can be out of range, in DuckDB even before it has a type.
            raise sum_out_of_range(relation) from error
        check_range(engine, stratum, table)
        no_changes(engine, relation)
        run.note(stratum.name, "build", 1, engine.rows(table))
        return clock
    if not changed_derivations(run, stratum, relation):
        no_changes(engine, relation)
        return clock
    reached = f"{table}__reached"
    engine.table(reached, f"SELECT {groups} FROM {table}__minus UNION SELECT {groups} FROM {table}__plus")
    if set(stratum.groups) <= set(tuple_names(relation)):
        # Each group has so many rows before and after. An aggregate without groups is one group.
        engine.reduce(table, reached, stratum.groups, 2 * stratum.limit * engine.rows(reached))
    rows = []
    state = names(relation.state_columns)
    if stratum.fold:
        engine.table(f"{table}__folded", stratum.fold)
        engine.table(f"{table}__groups", f"SELECT {groups} FROM {table}__folded WHERE _stale")
        rows.append(f"SELECT {state} FROM {table}__folded WHERE NOT _stale AND _rows > 0")
    else:
        engine.table(f"{table}__groups", f"SELECT {groups} FROM {reached}")
    if engine.rows(f"{table}__groups"):
        show_versions(engine, stratum, "insert")
        engine.view(f"{table}__rows", union(engine.text(rule.returns) for rule in stratum.rules))
        engine.table(f"{table}__computed", stratum.compute)
        rows.append(f"SELECT {state} FROM {table}__computed")
    engine.table(f"{table}__next", union(rows) if rows else f"SELECT {state} FROM {table} WHERE FALSE")
    check_range(engine, stratum, f"{table}__next")
    found, parts = engine.meeting(relation, f"SELECT * FROM {reached}", engine.rows(reached), stratum.groups)
    was = (f"SELECT {state} FROM {part} SEMI JOIN {found} AS g USING ({groups})" for part in parts)
    engine.table(f"{table}__was", union(was))
    note_changes(engine, relation, f"{table}__was", f"{table}__next")
    engine.table(f"{table}__touched", f"SELECT {columns} FROM {table}__was UNION SELECT {columns} FROM {table}__next")
    engine.remove(table, reached, stratum.groups, engine.rows(f"{table}__was"))
    engine.add(table, f"{table}__next")
    run.note(stratum.name, "aggregate", 1, engine.rows(f"{table}__lost") + engine.rows(f"{table}__gained"))
    return clock


def changed_derivations(run: Run, stratum: Stratum, relation: Relation) -> bool:
    """Make r__minus and r__plus of the derivations lost and gained; return whether there are any."""
    engine, table = run.engine, relation.table
    queries = {
        "minus": arriving(engine, stratum, relation, "delete", run.bucket),
        "plus": arriving(engine, stratum, relation, "insert", run.bucket),
    }
    if not any(queries.values()):
        return False
    met = look_up_below(engine, stratum)
    for name, phase in (("minus", "delete"), ("plus", "insert")):
        show_versions(engine, stratum, phase, met)
        if queries[name]:
            engine.table(f"{table}__{name}", union(queries[name]))
            check_defined(engine, stratum, relation, f"{table}__{name}")
        else:
            none = union(all_derivations(engine, stratum, relation, run.bucket, exits=False))
            engine.table(f"{table}__{name}", f"SELECT * FROM ({none}) AS q WHERE FALSE")
    return engine.rows(f"{table}__minus") + engine.rows(f"{table}__plus") > 0


def check_range(engine: Engine, stratum: Stratum, table: str) -> None:
    """Raise Refused if a sum of the stratum in ``table`` does not fit its type."""
    check_ranges(engine, stratum.relations[0], stratum.ranged, stratum.groups, table)


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
    return Refused(
        f"{relation.source}: a sum of {relation.name}{group} does not fit its type; "
        "the batch was refused and the state is unchanged"
    )


def recount_aggregate(engine: Engine, stratum: Stratum, bucket: Bucket) -> list[Finding]:
    """Return queries for the rows of groups that differ from recomputed ones, partial results included."""
    relation = stratum.relations[0]
    table, columns = relation.table, names(relation.tuple_columns)
    state = names(relation.state_columns)
    engine.view(f"{table}__rows", union(all_derivations(engine, stratum, relation, bucket, exits=False)))
    engine.table(f"{table}__next", stratum.compute)
    differing = {"not derived": (table, f"{table}__next"), "missing": (f"{table}__next", table)}
    return [
        Finding(relation.name, what, f"SELECT {columns} FROM {left} ANTI JOIN {right} USING ({state})")
        for what, (left, right) in differing.items()
    ]


METHODS["aggregate"] = Method(maintain_aggregate, recount_aggregate, 12)
