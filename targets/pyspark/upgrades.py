"""Predict what the command ``upgrade`` of a script does to the state of another version of its program, and say why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flintlog.compiler.diagnostics import listed
from flintlog.runtime.kernel.model import Program, Stratum
from flintlog.runtime.store.versions import (
    columns_record,
    has_columns_of,
    own_tables,
    program_record,
    renamed_record,
    stored_input,
    upgrade_plan,
    without_copies,
)

DEFINED_DIFFERENTLY = "it is defined differently"
"""The reason in whose place a comparison gives what differs."""


@dataclass(frozen=True)
class ExpectedUpgrade:
    """The tables that an upgrade recomputes (or refills, for inputs), each with the reasons as clauses, the tables that
    it keeps, and the names of relations that it drops.

    Of the inputs, by name: ``given`` ones must be given, ``empty`` ones start empty unless given, ``refilled`` ones
    are filled from their stored rows, and the rows of ``forgotten`` ones are dropped.
    """

    recomputes: Mapping[str, tuple[str, ...]]
    keeps: tuple[str, ...]
    drops: tuple[str, ...]
    given: tuple[str, ...]
    empty: tuple[str, ...]
    refilled: tuple[str, ...]
    forgotten: tuple[str, ...]

    @property
    def needed(self) -> bool:
        """Return whether there is anything to do."""
        return bool(self.recomputes or self.drops)


def strata_of(program: Program) -> list[Stratum]:
    """Return the strata of a program in the order of evaluation."""
    return [stratum for stage in program.stages for stratum in stage.strata]


def tables_read(stratum: Stratum) -> dict[str, None]:
    """Return the tables of earlier strata that a stratum reads."""
    return dict.fromkeys(relation.table for relation in (*stratum.reads, *stratum.negates))


def expected_upgrade(old: Program, new: Program) -> ExpectedUpgrade:
    """Return what an upgrade from ``old`` to ``new`` does if it is given exactly the inputs that it needs, and the same
    external functions."""
    written = program_record(old)
    inputs = [relation for relation in new.relations if relation.kind == "input"]
    stored = {relation.name: stored_input(relation, written) for relation in inputs}
    empty = tuple(relation.name for relation in inputs if not stored[relation.name])
    changed = tuple(
        relation.name
        for relation in inputs
        if (table := stored[relation.name])
        and without_copies(written.relations[table].columns) != without_copies(columns_record(relation))
    )
    plan = upgrade_plan(new, written, {stratum.name for stratum in strata_of(old)}, {}, changed, None)
    refilled = tuple(
        relation.name
        for relation in inputs
        if relation.table in plan.recomputed and relation.name not in (*empty, *changed)
    )
    before = {table.name for table in written.relations.values() if table.kind == "input"}
    return ExpectedUpgrade(
        reasons(old, new, plan.recomputed, changed),
        plan.kept,
        plan.dropped,
        changed,
        empty,
        refilled,
        tuple(sorted(before - {relation.name for relation in inputs})),
    )


def reasons(
    old: Program, new: Program, recomputed: tuple[str, ...], given: tuple[str, ...]
) -> dict[str, tuple[str, ...]]:
    """Return why an upgrade recomputes each of these tables."""
    tables, moved = own_tables(new, program_record(old))
    was, now = renamed_record(program_record(old), tables), program_record(new)
    why_recomputed: dict[str, tuple[str, ...]] = {}
    for relation in new.relations:
        table = relation.table
        if table not in was.relations:
            why_recomputed[table] = ("it is new",)
        elif not has_columns_of(relation, was):
            why_recomputed[table] = ("it has different columns",)
        elif was.relations[table] != now.relations[table]:
            why_recomputed[table] = (DEFINED_DIFFERENTLY,)
        elif relation.name in given:
            why_recomputed[table] = ("its input has to be given",)
        elif table in moved:
            why_recomputed[table] = ("it is stored under a different name",)
    strange = {r.table for r in new.relations if r.kind == "input" and r.table in why_recomputed}
    strange |= {relation.table for relation in new.relations if not has_columns_of(relation, was)}
    old_strata = {stratum.name for stratum in strata_of(old)}
    together = [
        {tables.get(relation.table, relation.table) for relation in stratum.relations}
        for stratum in strata_of(old)
        if stratum.name not in {other.name for other in strata_of(new)}
    ]
    for stratum in strata_of(new):
        own = [relation.table for relation in stratum.relations]
        others = [table for table in own if table in why_recomputed]
        read = [table for table in tables_read(stratum) if table in strange]
        why = []
        if read:
            names = listed(f"`{now.relations[table].name}`" for table in read)
            why.append(f"it reads {names}, whose tuples cannot be compared with those that were there")
        if {*own} in together:
            why.append("it and the relations that it is computed with are declared in a different order")
        elif stratum.name not in old_strata and any(table in was.relations for table in own):
            why.append("it is computed together with different relations than before")
        if others:
            mates = listed(f"`{now.relations[other].name}`" for other in others)
            why.append(f"it is computed together with {mates}")
        why_recomputed |= {table: tuple(why) for table in own if table not in others}
    return {table: why_recomputed[table] for table in recomputed}
