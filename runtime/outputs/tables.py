"""Bring the tables that output relations are kept as up to a commit: by its net changes if they are at the commit
before it, otherwise by the difference to all tuples. Each commit changes a table at most once."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..arrow import arrow_type, plain_array
from ..batches import has_later
from ..errors import JobError
from ..executors import available_cores
from ..inputs.records import operation_column
from ..inputs.tables import ROWS_AT_ONCE
from ..manifest import NO_TABLES, Manifest, OutputRecord, OutputTables, Publication, attempt_id
from ..model import Program, Relation
from ..parts import FURTHER, TABLE_KINDS, TABLE_PARTS, lacking_part
from ..places import bare_location
from ..sql import plain_column, plain_type
from ..stored import check_files, stored_engine
from ..versions import check_program, has_columns_of, recorded_relation
from .output import Mark, OutputLook, OutputTable, Rows, TableKind, TableMoved, quoted_name, typed_batch

TRIES = 5
"""How often a table is looked at again because others have changed it meanwhile."""

UNIT = "_unit"
"""The column of a table of a relation without columns."""


# Where they are


def given_tables(place: str) -> str:
    """Return the place of output tables as it is recorded, without keys, empty for ``none``; raise JobError for any
    other that is not one."""
    if place == "none":
        return ""
    kind, _, rest = place.partition(":")
    if kind not in TABLE_PARTS or not rest:
        kinds = " or ".join(f"{name}:..." for name in TABLE_PARTS)
        raise JobError(f"{place} is no place for tables: give {kinds}, or none")
    return bare_location(f"{kind}:{table_kind(kind).recorded(rest)}")


def table_kind(kind: str) -> TableKind:
    """Return a format of tables; raise JobError if the script lacks it."""
    if kind not in TABLE_KINDS:
        raise lacking_part(kind, f"writing tables of the kind {kind}")
    found: TableKind = TABLE_KINDS[kind]
    return found


def table_place(place: str, folder: str) -> str:
    """Return where the table of a relation is, given where all are."""
    kind, _, rest = place.partition(":")
    return f"{kind}:{table_kind(kind).joined(rest, folder)}"


def open_output(place: str, folder: str, relation: str) -> OutputTable:
    """Return the table of a relation at a place."""
    kind, _, rest = table_place(place, folder).partition(":")
    return table_kind(kind).open(rest, relation)


def output_relations(program: Program) -> list[Relation]:
    """Return the relations that have tables."""
    return [relation for relation in program.relations if relation.output and not relation.hidden]


def tables_at(program: Program, place: str) -> dict[str, str]:
    """Return the tables of output relations at a place, none if that is empty."""
    return {r.name: table_place(place, r.folder or r.name) for r in output_relations(program)} if place else {}


def check_tables(program: Program, place: str) -> None:
    """Raise JobError if tables at a place cannot be read, were not written by a job, or cannot have the columns of
    their relations. Without a place there are none."""
    tables: dict[str, str] = {}
    for relation in output_relations(program) if place else ():
        own = table_place(place, relation.folder or relation.name)
        if tables.setdefault(own, relation.name) != relation.name:
            raise JobError(f"{tables[own]} and {relation.name} would both be {own}: rename one of them")
        known: dict[str, str] = {}
        for column in relation.columns:
            other = known.setdefault(column.name.lower(), column.name)
            if other != column.name:
                raise JobError(
                    f"the columns {other} and {column.name} of {relation.name} differ only in case, which tables do "
                    "not tell apart: rename one of them"
                )
        table = open_output(place, relation.folder or relation.name, relation.name)
        look = table.look()
        if look is not None and look.mark is None:
            raise foreign_table(table)


def foreign_table(table: OutputTable) -> JobError:
    """Return the error for a table that no job wrote."""
    return JobError(
        f"{table.name} exists, and no job of Flintlog wrote it: remove it, or choose another place with "
        "`connect --publish`"
    )


def next_tables(
    program: Program,
    before: Manifest | None,
    attempt: str,
    counts: Mapping[str, tuple[int, int]],
    place: str,
    compared: bool,
) -> OutputTables:
    """Return what a commit records of the tables at a ``place``, given the numbers of tuples that its ``attempt``
    inserted and deleted by table. ``compared``: relations without numbers may have changed."""
    known = before.tables if before else NO_TABLES
    if place != known.place:
        known = OutputTables(place, int(attempt_id(attempt), 16), {})
    relations = {}
    for relation in output_relations(program):
        former = known.relations.get(relation.name)
        same = before is not None and has_columns_of(relation, before.program)
        follows = former and same and (relation.table in counts or not compared)
        changed = not follows or any(counts.get(relation.table, ()))
        now = attempt if former is None or changed else former.after
        folder = relation.folder or relation.name
        relations[relation.name] = OutputRecord(folder, former.after if former and follows else "", now, bool(former))
    return OutputTables(place, known.writer, relations)


# Bringing them up to a commit


def finish_tables(program: Program, root: Path, manifest: Manifest) -> None:
    """Bring the tables up to the last commit; raise JobError if that fails. Idempotent."""
    for name, item in manifest.tables.relations.items():
        table = open_output(manifest.tables.place, item.folder, name)
        for tries_left in reversed(range(TRIES)):
            try:
                bring(program, root, manifest, table, name, item)
                break
            except TableMoved:
                if not tries_left:
                    raise


def bring(program: Program, root: Path, manifest: Manifest, table: OutputTable, name: str, item: OutputRecord) -> None:
    """Bring a table up to a commit, unless a later commit has taken it over."""
    look, mark = table.look(), Mark(manifest.tables.writer, manifest.commit, item.after)
    if look is not None:
        if look.mark is None:
            raise foreign_table(table)
        if item.known and look.mark.writer != mark.writer:
            raise JobError(
                f"{table.name} was written by the job of another state since; only one may publish there. To give it "
                f"back to this one: `connect --publish none`, then `connect --publish {manifest.tables.place}`"
            )
        if look.mark.writer == mark.writer:
            if look.mark.commit > manifest.commit and has_later(root, manifest):
                return
            if look.mark.attempt == item.after:
                if item.after == manifest.attempt:
                    # The command that wrote it may have been killed before this.
                    table.force()
                return
            if item.before and look.mark.attempt == item.before and follow(root, manifest, table, look, name, mark):
                table.force()
                return
    compare(program, root, manifest, table, name, mark)
    table.force()


def follow(root: Path, manifest: Manifest, table: OutputTable, look: OutputLook, name: str, mark: Mark) -> bool:
    """Apply the net changes of a commit to a table that has the rows before them. Return False if it does not have
    their columns, or did not have these rows."""
    publication = next((one for one in manifest.publish if one.relation == name), None)
    found = recorded_relation(manifest.program, name)
    if publication is None or found is None:
        return False
    recorded, relation = found
    kinds = dict(relation.columns) or {UNIT: "bool"}
    if columns_in(look.schema) != columns_in(schema_of(kinds)):
        return False
    check_files(root, publication.files)
    with net_rows(root, publication, kinds, manifest.counts.get(recorded, (0, 0))) as rows:
        return table.change(rows, mark)


def columns_in(schema: Any) -> list[tuple[str, str]]:
    """Return the columns of an Arrow schema, strings and lists in the usual layout."""
    return [(item.name, str(usual(item.type))) for item in schema]


def usual(kind: Any) -> Any:
    """Return an Arrow type in the usual layout."""
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_list_view(kind):
        return pa.list_(usual(kind.value_type))
    return kind


def schema_of(kinds: Mapping[str, str], operation: str = "") -> Any:
    """Return the Arrow schema of a table, given the types of its columns, or of its changes with their operations."""
    fields = [(name, arrow_type(plain_type(kind))) for name, kind in kinds.items()]
    return pa.schema([(operation, pa.string()), *fields] if operation else fields)


@contextlib.contextmanager
def net_rows(root: Path, publication: Publication, kinds: Mapping[str, str], counts: tuple[int, int]) -> Iterator[Rows]:
    """Yield the net changes of a relation, of which so many are insertions and deletions."""
    names = {old: new for old, new in publication.columns.items() if old != "_op"} or {UNIT: UNIT}
    operation = publication.columns["_op"]
    schema = schema_of(kinds, operation)
    with contextlib.ExitStack() as opened:
        contents = [pq.ParquetFile(opened.enter_context((root / name).open("rb"))) for name in publication.files]

        def batches() -> Iterator[Any]:
            for content in contents:
                for batch in content.iter_batches(columns=["_op", *names]):
                    plain = (plain_array(batch.column(old), kinds[new]) for old, new in names.items())
                    yield typed_batch([batch.column("_op"), *plain], schema)

        yield Rows(schema, batches(), operation, *counts)


def compare(program: Program, root: Path, manifest: Manifest, table: OutputTable, name: str, mark: Mark) -> None:
    """Give a table all tuples of a relation as of a commit, by their difference to its rows where it has the columns
    and each row once."""
    check_program(program, manifest)
    relation, look = program.relation(name), table.look()
    columns, operation = relation.row_columns, operation_column(relation)
    kinds = {column.name: column.type for column in columns}
    schema = schema_of(kinds)
    with stored_engine(root, [manifest], relation, available_cores()) as (engine, (stored,)):
        connection = engine.connection
        plain = ", ".join(f"{plain_column(column, column.sql)} AS c{number}" for number, column in enumerate(columns))
        connection.execute(f"CREATE TEMP TABLE view__now AS SELECT {plain} FROM ({stored}) AS q")

        def rows_of(sql: str, schema: Any) -> Iterator[Any]:
            for batch in connection.sql(sql).to_arrow_reader(ROWS_AT_ONCE):
                yield typed_batch(batch.columns, schema)

        def numbers(sql: str) -> tuple[int, ...]:
            return tuple(connection.execute(sql).fetchall()[0])

        if look is not None and columns_in(look.schema) == columns_in(schema):
            listed = ", ".join(f"r.{quoted_name(item.name)} AS c{number}" for number, item in enumerate(schema))
            connection.register("rows", table.rows(schema.names))
            connection.execute(f"CREATE TEMP TABLE table__now AS SELECT {listed} FROM rows AS r")
            copies = "SELECT count(*) - (SELECT count(*) FROM (SELECT DISTINCT * FROM table__now)) FROM table__now"
            if numbers(copies) == (0,):
                connection.execute(
                    "CREATE TEMP TABLE changes__now AS "
                    "SELECT '-' AS op, * FROM (SELECT * FROM table__now EXCEPT SELECT * FROM view__now) UNION ALL "
                    "SELECT '+' AS op, * FROM (SELECT * FROM view__now EXCEPT SELECT * FROM table__now)"
                )
                counts = numbers("SELECT count(*) FILTER (op = '+'), count(*) FILTER (op = '-') FROM changes__now")
                signed = schema_of(kinds, operation)
                if not table.change(Rows(signed, rows_of("FROM changes__now", signed), operation, *counts), mark):
                    raise JobError(
                        f"{table.name} did not take the difference to {name}: remove it; the next command "
                        "makes it again"
                    )
                return
        table.write(Rows(schema, rows_of("FROM view__now", schema)), mark)


FURTHER.update(
    given_tables=given_tables,
    table_place=table_place,
    check_tables=check_tables,
    next_tables=next_tables,
    finish_tables=finish_tables,
)
