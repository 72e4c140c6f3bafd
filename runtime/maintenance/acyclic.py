"""Maintain recursions with sums, counts and averages, by computing groups in the order of their dependencies.

A group depends on the groups that its rows are computed from. Which groups there may be, and what they depend on, does
not depend on values: another stratum has computed the groups, and the leads of a rule say which depend on which. Of a
batch, the groups are affected in which derivations change, and all that depend on them. Each is computed once, from all
its derivations, when no group that it depends on is still to be computed. If none is left that can be, they depend on
each other in a cycle, and the batch is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ..engines.engine import Engine
from ..errors import Refused
from ..inputs.values import hashable
from ..model import Column, Delta, Grouping, Relation, Rule, Stratum
from ..sql import names, union
from ..tuples import sql_constant, tuple_text
from .aggregate import check_ranges, sum_out_of_range
from .changes import (
    all_derivations,
    changes_below,
    check_defined,
    in_bucket,
    lacking,
    no_changes,
    note_changes,
    pending,
    possible,
    show_versions,
)
from .run import METHODS, Bucket, Finding, Method, Run

STEPS_LISTED = 20
"""How many steps of a cycle a message lists."""


def maintain_acyclic(run: Run, stratum: Stratum, clock: int) -> int:
    """Compute the affected groups again, each after those that it depends on; return the clock unchanged."""
    engine = run.engine
    engine.begin(stratum)
    for grouping in stratum.groupings:
        relation, table = grouped_relation(stratum, grouping), grouping.table
        if run.initial:
            engine.empty(table, relation.state_columns)
        engine.empty(f"{table}__old", relation.tuple_columns)
        engine.empty(f"{table}__computed", relation.state_columns)
    for grouping in stratum.groupings:
        mark_groups(run, stratum, grouping)
    show_versions(engine, stratum, "insert")
    if not run.initial:
        for grouping in stratum.groupings:
            drop_groups(engine, stratum, grouping)
    find_dependencies(run, stratum)
    compute_in_order(run, stratum)
    for grouping in stratum.groupings:
        relation, table = grouped_relation(stratum, grouping), grouping.table
        if run.initial:
            no_changes(engine, relation)
            continue
        note_changes(engine, relation, f"{table}__old", f"{table}__computed")
        columns = names(relation.tuple_columns)
        both = f"SELECT {columns} FROM {table}__old UNION SELECT {columns} FROM {table}__computed"
        engine.table(f"{table}__touched", both)
    return clock


def grouped_relation(stratum: Stratum, grouping: Grouping) -> Relation:
    """Return the relation of a grouping."""
    return next(relation for relation in stratum.relations if relation.table == grouping.table)


def key_columns_of(stratum: Stratum, grouping: Grouping) -> list[Column]:
    """Return the columns that identify a group."""
    return [c for c in grouped_relation(stratum, grouping).tuple_columns if c.sql in grouping.groups]


def rules_for(stratum: Stratum, grouping: Grouping) -> Iterator[Rule]:
    """Yield the rules that derive the relation of a grouping."""
    return (rule for rule in stratum.rules if rule.head == grouping.table)


def there_may_be(stratum: Stratum, grouping: Grouping) -> str:
    """Return a query for all groups that there may be, with the names that the columns have in the relation."""
    of = next(relation for relation in stratum.reads if relation.table == grouping.of)
    pairs = zip(of.tuple_columns, grouping.groups, strict=True)
    return f"SELECT {', '.join(f'{column.sql} AS {name}' for column, name in pairs)} FROM {grouping.of}"


def mark_groups(run: Run, stratum: Stratum, grouping: Grouping) -> None:
    """Make r__marked of the groups in which derivations change with relations below; the first time, of all."""
    engine, relation, marked = run.engine, grouped_relation(stratum, grouping), f"{grouping.table}__marked"
    if run.initial:
        engine.table(marked, in_bucket(engine, there_may_be(stratum, grouping), relation, run.bucket))
        return
    engine.prepare(stratum.reads, changes_below(engine, stratum))
    engine.empty(marked, key_columns_of(stratum, grouping))
    keys = ", ".join(grouping.groups)
    for phase in ("delete", "insert"):
        deltas = (delta for rule in rules_for(stratum, grouping) for delta in rule.deltas)
        texts = (engine.text(delta.sql) for delta in deltas if pending(engine, delta, phase))
        queries = possible(engine, stratum, texts)
        if queries:
            show_versions(engine, stratum, phase)
            found = in_bucket(engine, union(queries), relation, run.bucket)
            known = f" ANTI JOIN {marked} USING ({keys})" if engine.rows(marked) else ""
            engine.table(f"{marked}_now", f"SELECT DISTINCT {keys} FROM ({found}) AS f{known}")
            engine.add(marked, f"{marked}_now")


def drop_groups(engine: Engine, stratum: Stratum, grouping: Grouping) -> None:
    """Remove the rows of marked groups from r, and note them in r__old; leave groups that there may be in r__marked."""
    table, keys = grouping.table, ", ".join(grouping.groups)
    if not engine.rows(f"{table}__marked"):
        return
    gone = f"SELECT {keys} FROM {table}__marked ANTI JOIN ({there_may_be(stratum, grouping)}) AS g USING ({keys})"
    if engine.table(f"{table}__gone", gone):
        remove_groups(engine, stratum, grouping, f"{table}__gone")
        left = f"SELECT {keys} FROM {table}__marked ANTI JOIN {table}__gone USING ({keys})"
        engine.table(f"{table}__left", left)
        engine.rename(f"{table}__left", f"{table}__marked")


def remove_groups(engine: Engine, stratum: Stratum, grouping: Grouping, groups: str) -> None:
    """Remove the rows of the groups in a table from r, and note them in r__old."""
    relation, table, keys = grouped_relation(stratum, grouping), grouping.table, ", ".join(grouping.groups)
    found, parts = engine.meeting(relation, f"SELECT * FROM {groups}", engine.rows(groups), grouping.groups)
    columns = names(relation.tuple_columns)
    was = union(f"SELECT {columns} FROM {part} SEMI JOIN {found} AS g USING ({keys})" for part in parts)
    if engine.table(f"{table}__leaving", was):
        engine.add(f"{table}__old", f"{table}__leaving")
        engine.remove(table, groups, grouping.groups, engine.rows(f"{table}__leaving"))


# ---- dependencies ----------------------------------------------------------------------------------------------------


def leads_from(stratum: Stratum, of: Grouping) -> Iterator[tuple[Rule, Delta, Grouping]]:
    """Yield the leads from the groups of a relation, with their rules and the groupings that these derive."""
    for grouping in stratum.groupings:
        for rule in rules_for(stratum, grouping):
            yield from ((rule, delta, grouping) for delta in rule.rounds if delta.table == of.of)


def named_ends(end: str, grouping: Grouping) -> str:
    """Return the columns of leads for one end of a dependency, named as in the relation of that end."""
    return ", ".join(f"_{end}_{place} AS {name}" for place, name in enumerate(grouping.groups, 1))


def end_columns(stratum: Stratum, grouping: Grouping, of: Grouping) -> list[Column]:
    """Return the columns of the dependencies of one relation's groups on those of another."""
    both = (("to", key_columns_of(stratum, grouping)), ("from", key_columns_of(stratum, of)))
    named = ((f"_{end}_{place}", column) for end, columns in both for place, column in enumerate(columns, 1))
    return [replace(column, sql=name) for name, column in named]


def show_changed(engine: Engine, stratum: Stratum, grouping: Grouping, table: str) -> None:
    """Let leads start from the groups in a table."""
    of = next(relation for relation in stratum.reads if relation.table == grouping.of)
    pairs = zip(grouping.groups, of.tuple_columns, strict=True)
    renamed = ", ".join(f"{name} AS {column.sql}" for name, column in pairs)
    engine.view(f"{grouping.of}__delta", f"SELECT {renamed} FROM {table}", engine.rows(table))


def dependencies(grouping: Grouping, of: Grouping) -> str:
    """Return the name of the table of the dependencies of one relation's groups on those of another."""
    return f"{grouping.table}__on_{of.table}"


def find_dependencies(run: Run, stratum: Stratum) -> None:
    """Add all groups to r__marked that depend on a marked one, and make r__on_s of the dependencies, once for each
    derivation, of groups of r on marked groups of s: columns ``_to_1``, ... and ``_from_1``, ..."""
    engine, done = run.engine, 0
    for of in stratum.groupings:
        engine.part(f"{of.table}__wave", f"{of.table}__marked", ", ".join(of.groups), "TRUE")
        for grouping in stratum.groupings:
            engine.empty(dependencies(grouping, of), end_columns(stratum, grouping, of))
    while any(engine.rows(f"{of.table}__wave") for of in stratum.groupings):
        done += 1
        reached: dict[str, list[str]] = {grouping.table: [] for grouping in stratum.groupings}
        for of in stratum.groupings:
            if not engine.rows(f"{of.table}__wave"):
                continue
            show_changed(engine, stratum, of, f"{of.table}__wave")
            for grouping in stratum.groupings:
                queries = [engine.text(delta.sql) for _, delta, onto in leads_from(stratum, of) if onto is grouping]
                queries = possible(engine, stratum, queries)
                if queries:
                    table = dependencies(grouping, of)
                    columns = names(end_columns(stratum, grouping, of))
                    engine.table(f"{table}__now", union(f"SELECT {columns} FROM ({query}) AS q" for query in queries))
                    engine.add(table, f"{table}__now")
                    reached[grouping.table].append(f"SELECT {named_ends('to', grouping)} FROM {table}__now")
        for grouping in stratum.groupings:
            table, keys = grouping.table, ", ".join(grouping.groups)
            if reached[table] and not run.initial:
                found = f"SELECT DISTINCT {keys} FROM ({union(reached[table])}) AS r"
                engine.table(f"{table}__wave", f"{found} ANTI JOIN {table}__marked USING ({keys})")
                engine.add(f"{table}__marked", f"{table}__wave")
            else:
                # The first time, all groups are marked.
                engine.empty(f"{table}__wave", key_columns_of(stratum, grouping))
        affected = sum(engine.rows(f"{grouping.table}__wave") for grouping in stratum.groupings)
        run.note(stratum.name, "affect", done, affected)


# ---- values ----------------------------------------------------------------------------------------------------------


def compute_in_order(run: Run, stratum: Stratum) -> None:
    """Compute all marked groups, each after those that it depends on, and put them into r and r__computed. Raise
    Refused if they depend on each other in a cycle."""
    engine, done = run.engine, 0
    engine.prepare(stratum.reads, sum(engine.rows(f"{grouping.table}__marked") for grouping in stratum.groupings))
    for grouping in stratum.groupings:
        count_dependencies(engine, stratum, grouping)
    while any(engine.rows(f"{grouping.table}__groups") for grouping in stratum.groupings):
        done += 1
        show_values(engine, stratum)
        computed = sum(compute_groups(run, stratum, grouping) for grouping in stratum.groupings)
        run.note(stratum.name, "compute", done, computed)
        for grouping in stratum.groupings:
            count_down(engine, stratum, grouping)
        for grouping in stratum.groupings:
            engine.rename(f"{grouping.table}__next", f"{grouping.table}__groups")
    for grouping in stratum.groupings:
        if engine.rows(f"{grouping.table}__waiting"):
            raise cyclic(engine, stratum, grouping)


def show_values(engine: Engine, stratum: Stratum) -> None:
    """Let the rules of a stratum read its own relations as they are now."""
    for relation in stratum.relations:
        engine.view(f"{relation.table}__after", f"SELECT {names(relation.tuple_columns)} FROM {relation.table}")


def count_dependencies(engine: Engine, stratum: Stratum, grouping: Grouping) -> None:
    """Make r__waiting of the marked groups that depend on marked ones, with the number of dependencies in ``_n``, and
    r__groups of the others."""
    table, keys = grouping.table, ", ".join(grouping.groups)
    on = [dependencies(grouping, of) for of in stratum.groupings]
    rows = union(f"SELECT {named_ends('to', grouping)} FROM {name}" for name in on)
    engine.table(f"{table}__waiting", f"SELECT {keys}, COUNT(*) AS _n FROM ({rows}) AS q GROUP BY {keys}")
    ready = f"SELECT {keys} FROM {table}__marked ANTI JOIN {table}__waiting USING ({keys})"
    engine.table(f"{table}__groups", ready)


def count_down(engine: Engine, stratum: Stratum, grouping: Grouping) -> None:
    """Take the dependencies on r__groups of all relations from the groups in r__waiting of one; make r__next of those
    that depend on none any more."""
    table, keys = grouping.table, ", ".join(grouping.groups)
    met = []
    for of in stratum.groupings:
        on = dependencies(grouping, of)
        if engine.rows(on) and engine.rows(f"{of.table}__groups"):
            same = " AND ".join(f"d._from_{place} = g.{name}" for place, name in enumerate(of.groups, 1))
            met.append(f"SELECT {named_ends('to', grouping)} FROM {on} AS d JOIN {of.table}__groups AS g ON {same}")
    if not met:
        engine.empty(f"{table}__next", key_columns_of(stratum, grouping))
        return
    engine.table(f"{table}__met", f"SELECT {keys}, COUNT(*) AS _met FROM ({union(met)}) AS q GROUP BY {keys}")
    left = f"SELECT {keys}, _n - _met AS _n FROM {table}__waiting JOIN {table}__met USING ({keys})"
    engine.table(f"{table}__left", left)
    engine.remove(f"{table}__waiting", f"{table}__met", grouping.groups, engine.rows(f"{table}__met"))
    engine.add(f"{table}__waiting", f"{table}__left", "*", "_n > 0")
    engine.part(f"{table}__next", f"{table}__left", keys, "_n = 0")


def compute_groups(run: Run, stratum: Stratum, grouping: Grouping) -> int:
    """Compute r__groups from all their derivations, and put them into r in place of their old rows; return how many
    rows they have. Raise Refused if a derivation lacks a value, or a sum is out of range."""
    engine, table, relation = run.engine, grouping.table, grouped_relation(stratum, grouping)
    if not engine.rows(f"{table}__groups"):
        return 0
    if not run.initial:
        remove_groups(engine, stratum, grouping, f"{table}__groups")
    texts = (engine.text(rule.returns) for rule in rules_for(stratum, grouping))
    queries = possible(engine, stratum, texts)
    if not queries:
        return 0
    rows, missing = union(queries), lacking(stratum, relation)
    if missing:
        engine.table(f"{table}__found", rows, [missing])
        check_defined(engine, stratum, relation, f"{table}__found")
        rows = f"SELECT * FROM {table}__found"
    engine.view(f"{table}__rows", rows)
    try:
        engine.table(f"{table}__fresh", grouping.compute)
    except Refused as error:
        raise sum_out_of_range(relation) from error
    check_ranges(engine, relation, grouping.ranged, grouping.groups, f"{table}__fresh")
    engine.add(table, f"{table}__fresh", names(relation.state_columns))
    if not run.initial:
        engine.add(f"{table}__computed", f"{table}__fresh", names(relation.state_columns))
    return engine.rows(f"{table}__fresh")


# ---- cycles ----------------------------------------------------------------------------------------------------------

Group = tuple[Grouping, tuple[Any, ...]]
"""A group: its relation, and the values that identify it."""


def cyclic(engine: Engine, stratum: Stratum, grouping: Grouping) -> Refused:
    """Return the error for groups that depend on each other; one in r__waiting does, or depends on such groups."""
    keys = ", ".join(grouping.groups)
    (first,) = engine.first(f"SELECT {keys} FROM {grouping.table}__waiting ORDER BY {keys}", 1)
    at: Group = (grouping, tuple(hashable(first[name]) for name in grouping.groups))
    path = {(grouping.table, at[1]): at}
    while True:
        at = needed_group(engine, stratum, at)
        known = (at[0].table, at[1])
        if known in path:
            break
        path[known] = at
    cycle = [*path.values()][[*path].index(known) :]
    steps = [step_text(engine, stratum, one, other) for one, other in zip(cycle, [*cycle[1:], cycle[0]], strict=True)]
    more = [f"and {len(steps) - STEPS_LISTED:,} more steps"] if len(steps) > STEPS_LISTED else []
    relation = grouped_relation(stratum, cycle[0][0])
    listed = "".join(f"\n  {step}" for step in (*steps[:STEPS_LISTED], *more))
    return Refused(
        f"{relation.source}: {group_text(stratum, cycle[0])} depends on itself, so its value has no order in which it "
        f"could be computed; the batch was refused and the state is unchanged{listed}"
    )


def needed_group(engine: Engine, stratum: Stratum, group: Group) -> Group:
    """Return a group that a waiting one depends on, and that waits, too."""
    grouping, values = group
    kinds = [column.type for column in key_columns_of(stratum, grouping)]
    constants = [sql_constant(value, kind, engine.name) for value, kind in zip(values, kinds, strict=True)]
    same = " AND ".join(f"_to_{place} = {value}" for place, value in enumerate(constants, 1))
    for of in stratum.groupings:
        on, keys = dependencies(grouping, of), ", ".join(of.groups)
        found = f"SELECT {named_ends('from', of)} FROM {on} WHERE {same}"
        rows = f"SELECT * FROM ({found}) AS f SEMI JOIN {of.table}__waiting USING ({keys}) ORDER BY {keys}"
        for row in engine.first(rows, 1):
            return of, tuple(hashable(row[name]) for name in of.groups)
    raise AssertionError("a waiting group depends on one that waits")


def group_text(stratum: Stratum, group: Group) -> str:
    """Return a group as a tuple with ``_`` for its values."""
    grouping, values = group
    relation, given = grouped_relation(stratum, grouping), dict(zip(grouping.groups, values, strict=True))
    return tuple_text(relation, [given.get(column.sql) for column in relation.term_columns])


def step_text(engine: Engine, stratum: Stratum, group: Group, on: Group) -> str:
    """Return why a group depends on another one: by which rule, with which tuples."""
    text = f"{group_text(stratum, group)} depends on {group_text(stratum, on)}"
    (onto, values), (of, given) = group, on
    made = f"{of.table}__wave"
    engine.table(made, f"SELECT {constants_of(engine, stratum, of, given, '{} AS {}', ', ')}")
    show_changed(engine, stratum, of, made)
    same = constants_of(engine, stratum, onto, values, "{} = {}", " AND ", "_to_")
    for rule, delta, grouping in leads_from(stratum, of):
        if grouping is onto:
            for row in engine.first(f"SELECT * FROM ({engine.text(delta.sql)}) AS q WHERE {same} ORDER BY ALL", 1):
                tuples = [other_text(stratum, table, number, row) for number, table in enumerate(delta.others, 1)]
                told = f" with {' and '.join(tuples)}" if tuples else ""
                return f"{text} by {rule.label} ({rule.source}){told}"
    raise AssertionError("a dependency follows from a rule")


def constants_of(
    engine: Engine, stratum: Stratum, grouping: Grouping, values: tuple[Any, ...], form: str, between: str, to: str = ""
) -> str:
    """Return SQL with each value of a group as a constant and the name of its column: that of the relation, or ``to``
    and its number."""
    columns = zip(values, key_columns_of(stratum, grouping), strict=True)
    return between.join(
        form.format(sql_constant(value, column.type, engine.name), f"{to}{place}" if to else column.sql)
        for place, (value, column) in enumerate(columns, 1)
    )


def other_text(stratum: Stratum, table: str, number: int, row: Mapping[str, Any]) -> str:
    """Return tuple ``number`` of a lead, of a relation below or of groups."""
    relation = next(relation for relation in stratum.reads if relation.table == table)
    values = tuple(hashable(row[f"_{number}_{place}"]) for place, _ in enumerate(relation.term_columns, 1))
    groups = {grouping.of: grouping for grouping in stratum.groupings}
    return group_text(stratum, (groups[table], values)) if table in groups else tuple_text(relation, values)


def recount_acyclic(engine: Engine, stratum: Stratum, bucket: Bucket) -> list[Finding]:
    """Return queries for the rows of groups that differ from those that all derivations give. There is no cycle among
    the groups, so this proves all of them right."""
    findings = []
    show_values(engine, stratum)
    for grouping in stratum.groupings:
        relation, table = grouped_relation(stratum, grouping), grouping.table
        engine.view(f"{table}__rows", union(all_derivations(engine, stratum, relation, bucket, exits=False)))
        engine.table(f"{table}__next", grouping.compute)
        columns, state = names(relation.tuple_columns), names(relation.state_columns)
        differing = {"not derived": (table, f"{table}__next"), "missing": (f"{table}__next", table)}
        findings += [
            Finding(relation.name, what, f"SELECT {columns} FROM {left} ANTI JOIN {right} USING ({state})")
            for what, (left, right) in differing.items()
        ]
    return findings


METHODS["acyclic"] = Method(maintain_acyclic, recount_acyclic, 24)
