"""What ``upgrade`` of a script does to the state that another version of its program has left.

A script decides this by comparing what the state says of the program that wrote it with itself: see ``upgrade_plan`` in
``templates/pyspark/support/commands.py.jinja``. Here the same is compared before there is a script, or a state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from flintlog.compiler.diagnostics import listed
from flintlog.compiler.ir import plan

from .view import Viewer


@dataclass(frozen=True)
class StoredRelation:
    """What a state says of a relation; ``name`` is the one that users know, ``definition`` a hash."""

    table: str
    name: str
    kind: str
    columns: tuple[tuple[str, str], ...]
    definition: str
    hidden: bool


@dataclass(frozen=True)
class StoredStratum:
    """A stratum with the tables that it computes, and earlier ones that it reads."""

    name: str
    tables: tuple[str, ...]
    reads: tuple[str, ...]


@dataclass(frozen=True)
class StoredProgram:
    """What a state says of the program that wrote it, and the strata in the order of evaluation."""

    relations: Mapping[str, StoredRelation]
    strata: tuple[StoredStratum, ...]

    def under_tables_of(self, other: StoredProgram) -> tuple[StoredProgram, frozenset[str]]:
        """The same with the tables that ``other`` stores relations of these names in, and those of these tables that
        had other names: names that are much alike are told apart by numbers."""
        known: dict[tuple[str, bool], list[str]] = {}
        for table, relation in self.relations.items():
            known.setdefault((relation.name, relation.hidden), []).append(table)
        tables: dict[str, str] = {}
        for table, relation in other.relations.items():
            found = known.get((relation.name, relation.hidden), [])
            if table not in found and len(found) == 1:
                tables[found[0]] = table
        moved = frozenset(tables.values())
        tables |= {table: f"{table}__former" for table in moved - tables.keys()}
        relations = {tables.get(t, t): replace(r, table=tables.get(t, t)) for t, r in self.relations.items()}
        strata = tuple(
            replace(
                stratum,
                tables=tuple(tables.get(t, t) for t in stratum.tables),
                reads=tuple(tables.get(t, t) for t in stratum.reads),
            )
            for stratum in self.strata
        )
        return StoredProgram(relations, strata), moved

    @property
    def inputs(self) -> tuple[StoredRelation, ...]:
        """The relations that are filled from outside."""
        return tuple(relation for relation in self.relations.values() if relation.kind == "input")


@dataclass(frozen=True)
class UpgradePlan:
    """What an upgrade does: the tables that it ``recomputes`` (inputs: fills again), each with the clauses that say
    why, those that it ``keeps``, and the names of relations whose rows it drops.

    Of the inputs (by name): ``given`` ones have to be given, ``empty`` ones start empty unless they are given,
    ``refilled`` ones are filled again from their stored rows, and those of ``forgotten`` ones are dropped.
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
        """Whether there is anything to do."""
        return bool(self.recomputes or self.drops)


def stored_program(program: plan.Program) -> StoredProgram:
    """What the state of a program says of it: what ``program_record`` of its script gives."""
    viewer = Viewer(program, ())
    tables = viewer.names.tables
    relations = {
        tables[relation.name]: StoredRelation(
            tables[relation.name],
            relation.public or relation.name,
            viewer.kept_as(relation),
            tuple((column.name, str(column.type)) for column in relation.columns),
            viewer.definition(relation),
            relation.hidden,
        )
        for relation in program.program.relations
    }
    strata = []
    for stratum in (planned.stratum for stage in program.stages for planned in stage.strata):
        reads = dict.fromkeys(atom.relation for rule in stratum.rules for atom in rule.read)
        strata.append(
            StoredStratum(
                stratum.name,
                tuple(tables[relation.name] for relation in stratum.relations),
                tuple(tables[name] for name in reads if name not in stratum.members),
            )
        )
    return StoredProgram(relations, tuple(strata))


def upgrade_plan(was: StoredProgram, now: StoredProgram) -> UpgradePlan:
    """What an upgrade of a state of ``was`` to ``now`` does, if it is given the inputs that it needs, and no others,
    and the same functions."""
    was, moved = was.under_tables_of(now)
    # What is put into a relation that is derived too, or has facts, lies in a table of its own.
    old_inputs = {relation.name: relation for relation in was.inputs}
    given, empty, refilled = [], [], []
    for relation in now.inputs:
        before = old_inputs.get(relation.name)
        if before is None:
            empty.append(relation.name)
        elif before.columns != relation.columns:
            given.append(relation.name)
        elif before != relation or relation.table in moved:
            refilled.append(relation.name)
    reasons: dict[str, list[str]] = {}
    for table, relation in now.relations.items():
        before = was.relations.get(table)
        if before is None:
            reasons[table] = ["it is new"]
        elif before.columns != relation.columns:
            reasons[table] = ["it has other columns"]
        elif (before.name, before.kind, before.definition) != (relation.name, relation.kind, relation.definition):
            reasons[table] = ["it is defined otherwise"]
        elif relation.name in given:
            reasons[table] = ["its input has to be given"]
        elif table in moved:
            reasons[table] = ["it is stored under another name"]
    new_inputs = {relation.table for relation in now.inputs}
    strange = {table for table in reasons if table in new_inputs}
    strange |= {t for t, r in now.relations.items() if t not in was.relations or was.relations[t].columns != r.columns}
    known = {stratum.name for stratum in was.strata}
    together = [{*stratum.tables} for stratum in was.strata if stratum.name not in {s.name for s in now.strata}]
    for stratum in now.strata:
        others = [table for table in stratum.tables if table in reasons]
        read = [table for table in stratum.reads if table in strange]
        if not (others or read or stratum.name not in known):
            continue
        why = []
        if read:
            names = listed(f"`{now.relations[table].name}`" for table in read)
            why.append(f"it reads {names}, whose tuples cannot be compared with those that were there")
        if {*stratum.tables} in together:
            why.append("it and the relations that it is computed with are declared in another order")
        elif stratum.name not in known and any(table in was.relations for table in stratum.tables):
            why.append("it is computed together with others than before")
        for table in stratum.tables:
            if table not in others:
                mates = listed(f"`{now.relations[other].name}`" for other in others)
                reasons[table] = [*why, *([f"it is computed together with {mates}"] if others else [])]
    old = {table for table, relation in was.relations.items() if not relation.hidden}
    return UpgradePlan(
        {table: tuple(reasons[table]) for table in now.relations if table in reasons},
        tuple(table for table in now.relations if table not in reasons),
        tuple(sorted({was.relations[table].name for table in old - now.relations.keys()})),
        tuple(given),
        tuple(empty),
        tuple(refilled),
        tuple(sorted(old_inputs.keys() - {relation.name for relation in now.inputs})),
    )
