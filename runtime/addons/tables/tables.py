"""Bring the tables that output relations are kept as up to a commit: by its net changes if they are at the commit
before it, otherwise by the difference to all tuples. Each commit changes a table at most once."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ...engines.arrow import ROWS_AT_ONCE, arrow_type, plain_array
from ...kernel.errors import JobError
from ...kernel.model import Program, Relation
from ...kernel.sql import plain_column, plain_type
from ...store.batches import batch_lists, has_later
from ...store.data_files import check_files, stored_engine
from ...store.extensions import FURTHER, TABLE_KINDS, TABLE_PARTS, lacking_part
from ...store.manifest import NO_TABLES, Manifest, OutputRecord, OutputTables, Publication, attempt_id, home_at
from ...store.output import Mark, OutputLook, OutputTable, Rows, TableKind, TableMoved, quoted_name, typed_batch
from ...store.published_names import operation_column
from ...store.request import Batch, Request
from ...store.versions import check_program, has_columns_of, recorded_relation
from ...system.machine import available_cores
from ...system.places import bare_location

TRIES = 5
"""At most this many times a table is looked at again because others have changed it meanwhile."""

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
    table_format: TableKind = TABLE_KINDS[kind]
    return table_format


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
        folded: dict[str, str] = {}
        for column in relation.columns:
            other = folded.setdefault(column.name.lower(), column.name)
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


def check_home(root: Path, tables: OutputTables) -> None:
    """Raise JobError if a state is a copy of the one that keeps its relations as tables: both would change them."""
    if not tables.belong_to(root):
        raise JobError(
            f"the tables at {tables.place} belong to the state in {tables.home.place}, and this one, in "
            f"{bare_location(str(root))}, is a copy of it: `connect --publish` another place, or none; if this one is "
            f"to go on in its place, or if it was moved, run `connect --publish {tables.place}`"
        )


COMPARED = ("rebuild", "upgrade", "rollback")
"""Commands that may change relations without telling how."""


def next_tables(
    request: Request,
    before: Manifest | None,
    batch: Batch,
    attempt: str,
    counts: Mapping[str, tuple[int, int]],
    place: str,
) -> OutputTables:
    """Return the record in a commit of the tables at a ``place``, given the numbers of tuples that its ``attempt``
    inserted and deleted by table. If the batch was given the place, a copy of a state may take over the tables of
    that."""
    program, root = request.program, request.root
    tables = before.tables if before else NO_TABLES
    if place != tables.place or (batch.tables is not None and not tables.belong_to(root)):
        tables = OutputTables(place, int(attempt_id(attempt), 16), {}, home_at(root))
    relations = {}
    for relation in output_relations(program):
        former = tables.relations.get(relation.name)
        same = before is not None and has_columns_of(relation, before.program)
        follows = former and same and (relation.table in counts or batch.command not in COMPARED)
        changed = not follows or any(counts.get(relation.table, ()))
        now = attempt if former is None or changed else former.after
        folder = relation.folder or relation.name
        relations[relation.name] = OutputRecord(folder, former.after if former and follows else "", now, bool(former))
    return OutputTables(place, tables.writer, relations, home_at(root) if tables.belong_to(root) else tables.home)


# Bringing them up to a commit


def finish_tables(program: Program, root: Path, manifest: Manifest) -> None:
    """Bring the tables up to the last commit; raise JobError if that fails. Idempotent."""
    check_home(root, manifest.tables)
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
            raise taken_over(table, manifest, "the job of another state")
        if look.mark.writer == mark.writer:
            if look.mark.commit > manifest.commit and has_later(root, manifest):
                return
            if item.known and manifest.command != "recover" and not is_of_state(root, manifest, look.mark):
                raise taken_over(table, manifest, "a copy of this state, or by this one at a commit that it lacks,")
            if look.mark.attempt == item.after and not look.touched:
                if item.after == manifest.attempt:
                    # The command that wrote it may have been killed before this.
                    table.force()
                return
            same = look.mark.attempt == item.before and not look.touched
            if item.before and same and follow(root, manifest, table, look, name, mark):
                table.force()
                return
    compare(program, root, manifest, table, name, mark)
    table.force()


def is_of_state(root: Path, manifest: Manifest, mark: Mark) -> bool:
    """Return whether a mark is that of a commit of this state. If it does not tell the attempt, its number may do."""
    if not mark.attempt:
        return mark.commit <= manifest.commit
    undone = {attempt for _, attempt in manifest.undone}
    identity = attempt_id(mark.attempt)
    return mark.attempt in undone or any(identity in listed.attempts for listed in batch_lists(root, manifest))


def taken_over(table: OutputTable, manifest: Manifest, writer: str) -> JobError:
    """Return the error for a table that somebody else keeps now."""
    return JobError(
        f"{table.name} was written by {writer} since; only one may publish there. To give it back to this one: "
        f"`connect --publish none`, then `connect --publish {manifest.tables.place}`"
    )


def follow(root: Path, manifest: Manifest, table: OutputTable, look: OutputLook, name: str, mark: Mark) -> bool:
    """Apply the net changes of a commit to a table that has the rows before them. Return False if it does not have
    their columns, or did not have these rows."""
    publication = next((one for one in manifest.publish if one.relation == name), None)
    recorded_columns = recorded_relation(manifest.program, name)
    if publication is None or recorded_columns is None:
        return False
    recorded, relation = recorded_columns
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
    """Yield the net changes of a relation, with the numbers of insertions and deletions among them."""
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
    columns, operation = relation.row_columns, operation_column(relation.columns)
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
    check_home=check_home,
    given_tables=given_tables,
    table_place=table_place,
    check_tables=check_tables,
    next_tables=next_tables,
    finish_tables=finish_tables,
)
