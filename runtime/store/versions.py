"""Compare a program with the version of it that wrote a state."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, replace

from ..kernel.errors import JobError
from ..kernel.model import Program, Relation, SuppliedFunctions
from ..kernel.table_names import TableName
from .manifest import COPIES, Manifest, ProgramRecord, RelationRecord


def program_record(program: Program) -> ProgramRecord:
    """Return the record of the program in a manifest."""
    return ProgramRecord(
        program.name,
        program.sha256,
        program.compiler,
        {
            relation.table: RelationRecord(relation.name, relation.kind, columns_record(relation), relation.definition)
            for relation in program.relations
        },
        tuple(relation.table for relation in program.relations if relation.hidden),
    )


def columns_record(relation: Relation) -> tuple[tuple[str, str], ...]:
    """Return the record of the columns of a relation in a manifest."""
    columns = tuple((column.name, column.type) for column in relation.columns)
    return (*columns, (relation.copy, COPIES)) if relation.copy else columns


def without_copies(columns: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Return the record of columns without that of the numbers of copies."""
    return columns[:-1] if columns[-1:] and columns[-1][1] == COPIES else columns


def as_stored(relation: Relation, written: ProgramRecord) -> Relation:
    """Return an input relation as a state has it: in another table, with the copies of its rows or without them, or
    with columns that were never null."""
    table = stored_input(relation, written)
    recorded = written.relations[table].columns
    copy = recorded[-1][0] if without_copies(recorded) != recorded else ""
    kinds = dict(recorded)
    columns = tuple(
        replace(column, type=kinds[column.name]) if column.type == f"{kinds.get(column.name)}?" else column
        for column in relation.columns
    )
    return replace(relation, table=table, copy=copy, columns=columns)


def takes_stored(relation: Relation, written: ProgramRecord) -> bool:
    """Return whether an input relation can keep the rows that a state has: its columns are the same, but may be null
    where they were never null."""
    recorded = without_copies(written.relations[stored_input(relation, written)].columns)
    return without_copies(columns_record(as_stored(relation, written))) == recorded


def own_tables(program: Program, written: ProgramRecord) -> tuple[dict[str, str], set[str]]:
    """Return new names for tables of the program that wrote a state, so that relations lie in the tables that this
    program stores them in, and those of the new names that are such tables. Tables are named differently if a relation
    with a similar name is added, and by other compiler versions."""
    stored_as: dict[tuple[str, bool], list[str]] = {}
    for table, stored in written.relations.items():
        stored_as.setdefault((stored.name, table in written.hidden), []).append(table)
    tables: dict[str, str] = {}
    for relation in program.relations:
        tables_before = stored_as.get((relation.name, relation.hidden), [])
        if relation.table not in tables_before and len(tables_before) == 1:
            tables[tables_before[0]] = relation.table
    moved = {*tables.values()}
    # A different relation with such a table name no longer exists in the program: rename its table out of the way.
    return {**tables, **{table: TableName(table).former for table in moved - tables.keys()}}, moved


def renamed_record(written: ProgramRecord, tables: Mapping[str, str]) -> ProgramRecord:
    """Return a record of a program with new names for its tables."""
    relations = {tables.get(table, table): relation for table, relation in written.relations.items()}
    return replace(written, relations=relations, hidden=tuple(tables.get(table, table) for table in written.hidden))


def under_own_tables(program: Program, manifest: Manifest) -> Manifest:
    """Return a commit with its relations under the tables that this program stores them in."""
    tables, _ = own_tables(program, manifest.program)
    relations = {tables.get(table, table): relation for table, relation in manifest.relations.items()}
    return replace(manifest, relations=relations, program=renamed_record(manifest.program, tables))


def stored_input(relation: Relation, written: ProgramRecord) -> str:
    """Return the table with the rows that were put into an input relation, empty if the state has none.

    Rows from outside are kept apart from a relation that is also derived or has facts, so the table differs if the
    relation has become one of these, or is none any more.
    """
    stored = written.relations.items()
    tables = [table for table, record in stored if record.kind == "input" and record.name == relation.name]
    return relation.table if relation.table in tables else next(iter(tables), "")


def recorded_relation(written: ProgramRecord, name: str) -> tuple[str, RelationRecord] | None:
    """Return the table and the record of a relation that users see, None if there was none of this name."""
    records = (item for item in written.relations.items() if item[1].name == name and item[0] not in written.hidden)
    return next(records, None)


def has_columns_of(relation: Relation, written: ProgramRecord) -> bool:
    """Return whether a state has the relation, with the columns that the program declares now."""
    stored = written.relations.get(relation.table)
    return stored is not None and stored.columns == columns_record(relation)


def changed_relations(program: Program, manifest: Manifest) -> list[str]:
    """Return the differences between the program that wrote the state and this one, in words; those of hidden relations
    only if there are no others."""
    tables, moved = own_tables(program, manifest.program)
    written, record = renamed_record(manifest.program, tables), program_record(program)
    before, now = written.relations, record.relations
    internal = {*written.hidden, *record.hidden}
    changes: list[str] = []
    inner: list[str] = []
    for table in sorted({*before, *now}):
        changed = inner if table in internal else changes
        if table not in before:
            changed.append(f"{now[table].name} is new")
        elif table not in now:
            changed.append(f"{before[table].name} is gone")
        elif before[table] != now[table]:
            same_columns = before[table].columns == now[table].columns
            changed.append(f"{now[table].name} has different {'rules' if same_columns else 'columns'}")
        elif table in moved:
            changed.append(f"{now[table].name} is stored under a different name")
    changes = changes or inner
    if not changes:
        # Clocks are stored by the name of the stratum, which lists its relations in the order of declaration.
        strata = (stratum for stage in program.stages for stratum in stage.strata)
        unknown = [stratum.name for stratum in strata if stratum.name not in manifest.clocks]
        changes = [f"{name} is declared in a different order" for name in unknown]
    return list(dict.fromkeys(changes))


def check_program(program: Program, manifest: Manifest) -> None:
    """Raise JobError if another program wrote the state; programs that differ in comments only are the same."""
    writer = manifest.program
    same = (writer.sha256, writer.compiler) == (program.sha256, program.compiler)
    changes = changed_relations(program, manifest)
    if not changes and (same or all(relation.definition for relation in program.relations)):
        return
    raise JobError(
        f"the state was written by another version of {program.name}: "
        f"{', '.join(changes) or 'its rules differ'}; `upgrade` recomputes the relations that this affects"
    )


@dataclass(frozen=True)
class UpgradePlan:
    """The tables to recompute in an upgrade (inputs: to fill again), the tables to keep, the names of relations
    to drop, and the strata to rebuild from scratch."""

    recomputed: tuple[str, ...]
    kept: tuple[str, ...]
    dropped: tuple[str, ...]
    rebuilt: frozenset[str]


def upgrade_plan(
    program: Program,
    written: ProgramRecord,
    strata: Container[str],
    functions: Mapping[str, str],
    given: Container[str],
    supplied: SuppliedFunctions | None,
) -> UpgradePlan:
    """Compare the program that wrote a state, with its ``strata`` and the hashes of its ``functions``, with this one.
    Inputs in ``given`` are given anew. A stratum is rebuilt if its relations or the definition of one of them changed,
    if it reads a relation that cannot be compared with its former version, or if an external function changed."""
    tables, moved = own_tables(program, written)
    written = renamed_record(written, tables)
    was, now = written.relations, program_record(program).relations
    same = {table for table in now if was.get(table) == now[table] and now[table].definition}
    same -= moved
    same -= {relation.table for relation in program.relations if relation.name in given}
    sources = supplied.sources if supplied else {}
    other_functions = any(sources.get(name, sha256) != sha256 for name, sha256 in functions.items())
    inputs = {relation.table for relation in program.relations if relation.kind == "input"}
    strange = {relation.table for relation in program.relations if not has_columns_of(relation, written)}
    strange |= inputs - same
    rebuilt = set()
    for stratum in (stratum for stage in program.stages for stratum in stage.strata):
        own = {relation.table for relation in stratum.relations}
        read = {relation.table for relation in (*stratum.reads, *stratum.negates)}
        if other_functions or stratum.name not in strata or own - same or read & strange:
            rebuilt.add(stratum.name)
            same -= own
    return UpgradePlan(
        tuple(relation.table for relation in program.relations if relation.table not in same),
        tuple(relation.table for relation in program.relations if relation.table in same),
        # States of earlier versions do not record which tables are hidden.
        tuple(sorted({was[table].name for table in was.keys() - now.keys() - {*written.hidden}})),
        frozenset(rebuilt),
    )
