"""Maintain recursions with sums, counts and averages, by computing groups in the order of their dependencies.

A group depends on the groups that its rows are computed from. Which groups there may be, and what they depend on, does
not depend on values: another stratum has computed the groups, and the leads of a rule say which depend on which. A
batch affects the groups in which derivations change, and all groups that depend on these. Each is computed once, from
all its derivations, when no group that it depends on is still to be computed. Groups that are left because each waits
for another one depend on each other in a cycle; then the batch is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from .aggregate import check_ranges, recount_groups, sum_out_of_range
from .changes import (
    changes_below,
    check_defined,
    in_bucket,
    lacking,
    live_rules,
    no_changes,
    note_changes,
    pending,
    show_versions,
)
from .engine import Engine
from .errors import UNCHANGED, Refused
from .method_interface import METHODS, Bucket, Finding, Method, Run
from .model import Column, Delta, Grouping, Relation, Rule, Stratum
from .sql import names, union
from .table_names import TableName
from .values import hashable, sql_constant, tuple_text

STEPS_LISTED = 20
"""How many steps of a cycle a message lists."""


def maintain_acyclic(run: Run, stratum: Stratum, clock: int) -> int:
    """Compute the affected groups again, each after those that it depends on; return the clock unchanged."""
    engine = run.engine
    engine.begin(stratum)
    for grouping in stratum.groupings:
        relation, table = grouped_relation(stratum, grouping), grouping.tables
        if run.initial:
            engine.empty(table, relation.state_columns)
        engine.empty(table.old, relation.tuple_columns)
        engine.empty(table.computed, relation.state_columns)
    for grouping in stratum.groupings:
        mark_groups(run, stratum, grouping)
    show_versions(engine, stratum, "insert")
    if not run.initial:
        for grouping in stratum.groupings:
            drop_groups(engine, stratum, grouping)
    find_dependencies(run, stratum)
    compute_in_order(run, stratum)
    for grouping in stratum.groupings:
        relation, table = grouped_relation(stratum, grouping), grouping.tables
        if run.initial:
            no_changes(engine, relation)
            continue
        note_changes(engine, relation, table.old, table.computed)
        columns = names(relation.tuple_columns)
        both = f"SELECT {columns} FROM {table.old} UNION SELECT {columns} FROM {table.computed}"
        engine.table(relation.change.touched, both)
    return clock


def grouped_relation(stratum: Stratum, grouping: Grouping) -> Relation:
    """Return the relation of a grouping."""
    return next(relation for relation in stratum.relations if relation.table == grouping.table)


def key_columns_of(stratum: Stratum, grouping: Grouping) -> list[Column]:
    """Return the columns that identify a group."""
    return [c for c in grouped_relation(stratum, grouping).tuple_columns if c.sql in grouping.groups]


def there_may_be(stratum: Stratum, grouping: Grouping) -> str:
    """Return a query for all possible groups, with the names that the columns have in the relation."""
    of = next(relation for relation in stratum.reads if relation.table == grouping.of)
    pairs = zip(of.tuple_columns, grouping.groups, strict=True)
    return f"SELECT {', '.join(f'{column.sql} AS {name}' for column, name in pairs)} FROM {grouping.of}"


def mark_groups(run: Run, stratum: Stratum, grouping: Grouping) -> None:
    """Make r__marked of the groups in which derivations change with relations below; the first time, of all."""
    engine, relation, marked = run.engine, grouped_relation(stratum, grouping), grouping.tables.marked
    if run.initial:
        engine.table(marked, in_bucket(engine, there_may_be(stratum, grouping), relation, run.bucket))
        return
    engine.prepare(stratum.reads, changes_below(engine, stratum))
    engine.empty(marked, key_columns_of(stratum, grouping))
    keys = ", ".join(grouping.groups)
    for phase in ("delete", "insert"):
        deltas = (delta for rule in live_rules(engine, stratum, grouping.table) for delta in rule.deltas)
        queries = [engine.text(delta.sql) for delta in deltas if pending(engine, delta, phase)]
        if queries:
            show_versions(engine, stratum, phase)
            changed = in_bucket(engine, union(queries), relation, run.bucket)
            unmarked = f" ANTI JOIN {marked} USING ({keys})" if engine.rows(marked) else ""
            engine.table(marked.now, f"SELECT DISTINCT {keys} FROM ({changed}) AS f{unmarked}")
            engine.add(marked, marked.now)


def drop_groups(engine: Engine, stratum: Stratum, grouping: Grouping) -> None:
    """Remove the rows of marked groups from r, and note them in r__old; leave groups that there may be in r__marked."""
    table, keys = grouping.tables, ", ".join(grouping.groups)
    if not engine.rows(table.marked):
        return
    gone = f"SELECT {keys} FROM {table.marked} ANTI JOIN ({there_may_be(stratum, grouping)}) AS g USING ({keys})"
    if engine.table(table.gone, gone):
        remove_groups(engine, stratum, grouping, table.gone)
        engine.table(table.left, f"SELECT {keys} FROM {table.marked} ANTI JOIN {table.gone} USING ({keys})")
        engine.rename(table.left, table.marked)


def remove_groups(engine: Engine, stratum: Stratum, grouping: Grouping, groups: str) -> None:
    """Remove the rows of the groups in a table from r, and note them in r__old."""
    relation, table, keys = grouped_relation(stratum, grouping), grouping.tables, ", ".join(grouping.groups)
    listed, parts = engine.meeting(relation, f"SELECT * FROM {groups}", engine.rows(groups), grouping.groups)
    columns = names(relation.tuple_columns)
    was = union(f"SELECT {columns} FROM {part} SEMI JOIN {listed} AS g USING ({keys})" for part in parts)
    if engine.table(table.leaving, was):
        engine.add(table.old, table.leaving)
        engine.remove(table, groups, grouping.groups, engine.rows(table.leaving))


# ---- dependencies ----------------------------------------------------------------------------------------------------


def leads_from(rules: Iterable[Rule], of: Grouping) -> Iterator[tuple[Rule, Delta]]:
    """Yield the leads of rules from the groups of a relation, each with its rule."""
    return ((rule, lead) for rule in rules for lead in rule.rounds if lead.table == of.of)


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
    engine.view(TableName(grouping.of).delta, f"SELECT {renamed} FROM {table}", engine.rows(table))


def dependencies(grouping: Grouping, of: Grouping) -> TableName:
    """Return the name of the table of the dependencies of one relation's groups on those of another."""
    return grouping.tables.beside(f"on_{of.table}")


def find_dependencies(run: Run, stratum: Stratum) -> None:
    """Add all groups to r__marked that depend on a marked one, and make r__on_s of the dependencies, once for each
    derivation, of groups of r on marked groups of s: columns ``_to_1``, ... and ``_from_1``, ..."""
    engine, done = run.engine, 0
    for of in stratum.groupings:
        engine.part(of.tables.wave, of.tables.marked, ", ".join(of.groups), "TRUE")
        for grouping in stratum.groupings:
            engine.empty(dependencies(grouping, of), end_columns(stratum, grouping, of))
    while any(engine.rows(of.tables.wave) for of in stratum.groupings):
        done += 1
        reached: dict[str, list[str]] = {grouping.table: [] for grouping in stratum.groupings}
        for of in stratum.groupings:
            if not engine.rows(of.tables.wave):
                continue
            show_changed(engine, stratum, of, of.tables.wave)
            for grouping in stratum.groupings:
                leads = leads_from(live_rules(engine, stratum, grouping.table), of)
                queries = [engine.text(lead.sql) for _, lead in leads]
                if queries:
                    table = dependencies(grouping, of)
                    columns = names(end_columns(stratum, grouping, of))
                    engine.table(table.now, union(f"SELECT {columns} FROM ({query}) AS q" for query in queries))
                    engine.add(table, table.now)
                    reached[grouping.table].append(f"SELECT {named_ends('to', grouping)} FROM {table.now}")
        for grouping in stratum.groupings:
            table, keys = grouping.tables, ", ".join(grouping.groups)
            if reached[table] and not run.initial:
                dependent = f"SELECT DISTINCT {keys} FROM ({union(reached[table])}) AS r"
                engine.table(table.wave, f"{dependent} ANTI JOIN {table.marked} USING ({keys})")
                engine.add(table.marked, table.wave)
            else:
                # The first time, all groups are marked.
                engine.empty(table.wave, key_columns_of(stratum, grouping))
        affected = sum(engine.rows(grouping.tables.wave) for grouping in stratum.groupings)
        run.note(stratum.name, "affect", done, affected)


# ---- values ----------------------------------------------------------------------------------------------------------


def compute_in_order(run: Run, stratum: Stratum) -> None:
    """Compute all marked groups, each after those that it depends on, and put them into r and r__computed. Raise
    Refused if they depend on each other in a cycle."""
    engine, done = run.engine, 0
    engine.prepare(stratum.reads, sum(engine.rows(grouping.tables.marked) for grouping in stratum.groupings))
    for grouping in stratum.groupings:
        count_dependencies(engine, stratum, grouping)
    while any(engine.rows(grouping.tables.groups) for grouping in stratum.groupings):
        done += 1
        show_values(engine, stratum)
        computed = sum(compute_groups(run, stratum, grouping) for grouping in stratum.groupings)
        run.note(stratum.name, "compute", done, computed)
        for grouping in stratum.groupings:
            count_down(engine, stratum, grouping)
        for grouping in stratum.groupings:
            engine.rename(grouping.tables.next, grouping.tables.groups)
    for grouping in stratum.groupings:
        if engine.rows(grouping.tables.waiting):
            raise cyclic(engine, stratum, grouping)


def show_values(engine: Engine, stratum: Stratum) -> None:
    """Let the rules of a stratum read its own relations as they are now."""
    for relation in stratum.relations:
        engine.view(relation.tables.after, f"SELECT {names(relation.tuple_columns)} FROM {relation.table}")


def count_dependencies(engine: Engine, stratum: Stratum, grouping: Grouping) -> None:
    """Make r__waiting of the marked groups that depend on marked ones, with the number of dependencies in ``_n``, and
    r__groups of the others."""
    table, keys = grouping.tables, ", ".join(grouping.groups)
    on = [dependencies(grouping, of) for of in stratum.groupings]
    rows = union(f"SELECT {named_ends('to', grouping)} FROM {name}" for name in on)
    engine.table(table.waiting, f"SELECT {keys}, COUNT(*) AS _n FROM ({rows}) AS q GROUP BY {keys}")
    engine.table(table.groups, f"SELECT {keys} FROM {table.marked} ANTI JOIN {table.waiting} USING ({keys})")


def count_down(engine: Engine, stratum: Stratum, grouping: Grouping) -> None:
    """Subtract the dependencies on r__groups of all relations from the counts in r__waiting of one relation; make
    r__next of the groups that no longer depend on any."""
    table, keys = grouping.tables, ", ".join(grouping.groups)
    met = []
    for of in stratum.groupings:
        on = dependencies(grouping, of)
        if engine.rows(on) and engine.rows(of.tables.groups):
            same = " AND ".join(f"d._from_{place} = g.{name}" for place, name in enumerate(of.groups, 1))
            met.append(f"SELECT {named_ends('to', grouping)} FROM {on} AS d JOIN {of.tables.groups} AS g ON {same}")
    if not met:
        engine.empty(table.next, key_columns_of(stratum, grouping))
        return
    engine.table(table.met, f"SELECT {keys}, COUNT(*) AS _met FROM ({union(met)}) AS q GROUP BY {keys}")
    engine.table(table.left, f"SELECT {keys}, _n - _met AS _n FROM {table.waiting} JOIN {table.met} USING ({keys})")
    engine.remove(table.waiting, table.met, grouping.groups, engine.rows(table.met))
    engine.add(table.waiting, table.left, "*", "_n > 0")
    engine.part(table.next, table.left, keys, "_n = 0")


def compute_groups(run: Run, stratum: Stratum, grouping: Grouping) -> int:
    """Compute r__groups from all their derivations, and put them into r in place of their old rows; return how many
    rows they have. Raise Refused if a derivation lacks a value, or a sum is out of range."""
    engine, table, relation = run.engine, grouping.tables, grouped_relation(stratum, grouping)
    if not engine.rows(table.groups):
        return 0
    if not run.initial:
        remove_groups(engine, stratum, grouping, table.groups)
    queries = [engine.text(rule.returns) for rule in live_rules(engine, stratum, table)]
    if not queries:
        return 0
    rows, missing = union(queries), lacking(stratum, relation)
    if missing:
        engine.table(table.found, rows, [missing])
        check_defined(engine, stratum, relation, table.found)
        rows = f"SELECT * FROM {table.found}"
    engine.view(table.rows, rows)
    try:
        engine.table(table.fresh, grouping.compute)
    except Refused as error:
        raise sum_out_of_range(relation) from error
    check_ranges(engine, relation, grouping.ranged, grouping.groups, table.fresh)
    engine.add(table, table.fresh, names(relation.state_columns))
    if not run.initial:
        engine.add(table.computed, table.fresh, names(relation.state_columns))
    return engine.rows(table.fresh)


# ---- cycles ----------------------------------------------------------------------------------------------------------

Group = tuple[Grouping, tuple[Any, ...]]
"""A group: its relation, and the values that identify it."""


def cyclic(engine: Engine, stratum: Stratum, grouping: Grouping) -> Refused:
    """Return the error for groups that depend on each other; one in r__waiting does, or depends on such groups."""
    keys = ", ".join(grouping.groups)
    (first,) = engine.first(f"SELECT {keys} FROM {grouping.tables.waiting} ORDER BY {keys}", 1)
    at: Group = (grouping, tuple(hashable(first[name]) for name in grouping.groups))
    path = {(grouping.table, at[1]): at}
    while True:
        at = needed_group(engine, stratum, at)
        key = (at[0].table, at[1])
        if key in path:
            break
        path[key] = at
    cycle = [*path.values()][[*path].index(key) :]
    steps = [step_text(engine, stratum, one, other) for one, other in zip(cycle, [*cycle[1:], cycle[0]], strict=True)]
    more = [f"and {len(steps) - STEPS_LISTED:,} more steps"] if len(steps) > STEPS_LISTED else []
    relation = grouped_relation(stratum, cycle[0][0])
    listed = "".join(f"\n  {step}" for step in (*steps[:STEPS_LISTED], *more))
    return Refused(
        f"{relation.source}: {group_text(stratum, cycle[0])} depends on itself, so its value has no order in which it "
        "could be computed",
        UNCHANGED,
        listed,
    )


def needed_group(engine: Engine, stratum: Stratum, group: Group) -> Group:
    """Return a group that a waiting one depends on, and that waits, too."""
    grouping, values = group
    kinds = [column.type for column in key_columns_of(stratum, grouping)]
    constants = [sql_constant(value, kind, engine.name) for value, kind in zip(values, kinds, strict=True)]
    same = " AND ".join(f"_to_{place} = {value}" for place, value in enumerate(constants, 1))
    for of in stratum.groupings:
        on, keys = dependencies(grouping, of), ", ".join(of.groups)
        needed = f"SELECT {named_ends('from', of)} FROM {on} WHERE {same}"
        rows = f"SELECT * FROM ({needed}) AS f SEMI JOIN {of.tables.waiting} USING ({keys}) ORDER BY {keys}"
        for row in engine.first(rows, 1):
            return of, tuple(hashable(row[name]) for name in of.groups)
    raise AssertionError("a waiting group depends on one that waits")


def group_text(stratum: Stratum, group: Group) -> str:
    """Return a group as a tuple with ``_`` for its values."""
    grouping, values = group
    relation, value_of = grouped_relation(stratum, grouping), dict(zip(grouping.groups, values, strict=True))
    return tuple_text(relation, [value_of.get(column.sql) for column in relation.term_columns])


def step_text(engine: Engine, stratum: Stratum, group: Group, on: Group) -> str:
    """Return why a group depends on another one: by which rule, with which tuples."""
    text = f"{group_text(stratum, group)} depends on {group_text(stratum, on)}"
    (onto, values), (of, needed) = group, on
    engine.table(of.tables.wave, f"SELECT {constants_of(engine, stratum, of, needed, '{} AS {}', ', ')}")
    show_changed(engine, stratum, of, of.tables.wave)
    same = constants_of(engine, stratum, onto, values, "{} = {}", " AND ", "_to_")
    for rule, lead in leads_from((rule for rule in stratum.rules if rule.head == onto.table), of):
        for row in engine.first(f"SELECT * FROM ({engine.text(lead.sql)}) AS q WHERE {same} ORDER BY ALL", 1):
            tuples = [other_text(stratum, table, number, row) for number, table in enumerate(lead.others, 1)]
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
    show_values(engine, stratum)
    findings: list[Finding] = []
    for grouping in stratum.groupings:
        findings += recount_groups(engine, stratum, grouped_relation(stratum, grouping), grouping.compute, bucket)
    return findings


METHODS["acyclic"] = Method(maintain_acyclic, recount_acyclic, 24)
