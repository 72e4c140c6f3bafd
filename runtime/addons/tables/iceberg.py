"""Iceberg tables as outputs, by the package pyiceberg, without a JVM."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from ...engines.arrow import ROWS_AT_ONCE
from ...engines.duckdb import DuckEngine
from ...kernel.errors import JobError, reason
from ...store.extensions import TABLE_KINDS
from ...store.output import FILE_SIZE, Mark, OutputLook, Rows, TableKind, TableMoved, quoted_name, typed_batch
from ...system.machine import available_cores
from ...system.places import sync, without_scheme
from ..feeds.feed import needed_library
from ..feeds.iceberg import iceberg_catalog

MARK_PROPERTIES = ("flintlog.writer", "flintlog.commit", "flintlog.attempt")
"""Properties of a snapshot that say which commit of which state made it. The first two are properties of the table,
too, for when the snapshots have expired."""

COMPACTION = "replace"
"""The operation of snapshots that change no row."""

MISSING_TABLES = ("NoSuchTableError", "NoSuchNamespaceError", "NoSuchIcebergTableError")

MOVED_TABLES = ("CommitFailedException", "TableAlreadyExistsError", "NoSuchTableError", "ValidationException")
"""Errors for a table that is not what it was when it was looked at."""


class IcebergOutput:
    """An Iceberg table without partitions, unless others have given it some."""

    def __init__(self, place: str, relation: str) -> None:
        """Find the library, and the catalog."""
        self.name, self.relation = f"iceberg:{place}", relation
        for module in ("pyiceberg.catalog", "pyiceberg.table", "pyiceberg.io.pyarrow"):
            needed_library(module, "pyiceberg[pyarrow]", f"the table {self.name}")
        catalog, _, name = place.partition("/")
        namespace, _, table = name.rpartition(".")
        self.namespace, self.identifier = namespace, (*namespace.split("."), table)
        self.catalog = self._tried("opened", lambda: iceberg_catalog(catalog))
        self.opened: Any = None

    def look(self) -> OutputLook | None:
        """Return columns and last writer of the present snapshot of the main branch."""
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        try:
            table = self.opened = self.catalog.load_table(self.identifier)
            return OutputLook(schema_to_pyarrow(table.schema(), include_field_ids=False), *self._mark())
        except Exception as error:
            if type(error).__name__ in MISSING_TABLES:
                self.opened = None
                return None
            raise JobError(f"{self.name} cannot be opened: {reason(error)}") from error

    def _mark(self) -> tuple[Mark | None, bool]:
        """Return the mark of the last snapshot that has one, and whether another may have changed rows since."""
        from pyiceberg.table.snapshots import ancestors_of

        writer, commit, attempt = MARK_PROPERTIES
        table, touched = self.opened, False
        for snapshot in ancestors_of(table.current_snapshot(), table.metadata):
            summary = snapshot.summary
            properties = summary.additional_properties if summary else {}
            if writer in properties:
                return Mark(int(properties[writer]), int(properties[commit]), properties[attempt]), touched
            touched = touched or summary is None or summary.operation.value != COMPACTION
        if writer in table.properties:
            return Mark(int(table.properties[writer]), int(table.properties[commit]), ""), True
        return None, True

    def rows(self, columns: list[str]) -> Any:
        """Return a reader of the rows of the snapshot that was looked at."""
        return self._tried("read", lambda: self.opened.scan(selected_fields=tuple(columns)).to_arrow_batch_reader())

    def write(self, rows: Rows, mark: Mark) -> None:
        """Make the table, or a snapshot with none but these rows."""
        self._tried("written", lambda: self._write(rows, mark))

    def _write(self, rows: Rows, mark: Mark) -> None:
        """Make the table, or a snapshot with none but these rows."""
        if self.opened is None:
            self.catalog.create_namespace_if_not_exists(self.namespace)
            creation = self.catalog.create_table_transaction(
                self.identifier,
                rows.schema,
                properties={"write.target-file-size-bytes": str(FILE_SIZE), "flintlog.relation": self.relation},
            )
            self._commit(creation, mark, rows.reader())
            return
        transaction, old = self.opened.transaction(), self._tasks()
        self._give_columns(transaction, rows.schema)
        self._commit(transaction, mark, rows.reader(), [task.file for task in old])

    def change(self, rows: Rows, mark: Mark) -> bool:
        """Append rows, or write the files again that have rows to delete."""
        return bool(self._tried("written", lambda: self._change(rows, mark)))

    def _change(self, rows: Rows, mark: Mark) -> bool:
        """Append rows, or write the files again that have rows to delete. Return False, and change nothing, if the
        table does not have just the rows to delete."""
        transaction = self.opened.transaction()
        if not rows.deleted:
            self._commit(transaction, mark, rows.inserted_only().reader() if rows.inserted else None)
            return True
        plain = rows.inserted_only().schema
        with scratch_database() as connection:
            connection.register("given", rows.reader())
            connection.execute("CREATE TEMP TABLE given__rows AS SELECT * FROM given")
            operation = quoted_name(rows.operation)
            columns = ", ".join(map(quoted_name, plain.names))
            connection.execute(
                f"CREATE TEMP TABLE gone__rows AS SELECT {columns} FROM given__rows WHERE {operation} = '-'"
            )
            connection.execute(f"DELETE FROM given__rows WHERE {operation} = '-'")
            deleted, replaced, has_kept = 0, [], False
            for task in self._tasks(self._bounds(connection, plain)):
                connection.register("old", self._task_reader(task, plain))
                connection.execute("CREATE OR REPLACE TEMP TABLE old__rows AS SELECT * FROM old")
                same = " AND ".join(f"o.{name} IS NOT DISTINCT FROM g.{name}" for name in columns.split(", "))
                (count,) = connection.execute(
                    f"SELECT COUNT(*) FROM old__rows AS o SEMI JOIN gone__rows AS g ON {same}"
                ).fetchall()[0]
                if count:
                    kept = f"SELECT {columns} FROM old__rows AS o ANTI JOIN gone__rows AS g ON {same}"
                    into = "INSERT INTO kept__rows" if has_kept else "CREATE TEMP TABLE kept__rows AS"
                    connection.execute(f"{into} {kept}")
                    deleted, has_kept = deleted + count, True
                    replaced.append(task.file)
            if deleted != rows.deleted:
                return False
            query = f"SELECT {columns} FROM given__rows"
            query += f" UNION ALL SELECT {columns} FROM kept__rows" if has_kept else ""
            (rest,) = connection.execute(f"SELECT COUNT(*) FROM ({query})").fetchall()[0]
            reader = Rows(plain, batches_of(connection, query, plain)).reader() if rest else None
            self._commit(transaction, mark, reader, replaced)
        return True

    def _tasks(self, condition: Any = None) -> list[Any]:
        """Return the data files of the table, those that may have rows for which a condition holds."""
        scan = self.opened.scan() if condition is None else self.opened.scan(row_filter=condition)
        return list(scan.plan_files())

    def _bounds(self, connection: Any, schema: Any) -> Any:
        """Return a condition that all rows to delete fulfil, by columns whose bounds files tell."""
        import pyarrow as pa

        expressions: Any = importlib.import_module("pyiceberg.expressions")
        condition: Any = expressions.AlwaysTrue()
        for item in schema:
            if not any(test(item.type) for test in (pa.types.is_integer, pa.types.is_date, pa.types.is_string)):
                continue
            name = quoted_name(item.name)
            asked = f"SELECT MIN({name}), MAX({name}), COUNT(*) - COUNT({name}) FROM gone__rows"
            least, most, nulls = connection.execute(asked).fetchall()[0]
            if not nulls:
                bounds = expressions.GreaterThanOrEqual(item.name, least), expressions.LessThanOrEqual(item.name, most)
                condition = expressions.And(condition, *bounds)
        return condition

    def _task_reader(self, task: Any, schema: Any) -> Any:
        """Return a reader of the rows of a data file that are not deleted."""
        from pyiceberg.expressions import AlwaysTrue
        from pyiceberg.io.pyarrow import ArrowScan

        table = self.opened
        scan = ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue())
        batches = (typed_batch(batch.columns, schema) for batch in scan.to_record_batches([task]))
        return Rows(schema, batches).reader()

    def _give_columns(self, transaction: Any, schema: Any) -> None:
        """Give the table these columns, if it has others. Those of the same name and type stay the same fields."""
        from pyiceberg.schema import Schema, assign_fresh_schema_ids

        updates: Any = importlib.import_module("pyiceberg.table.update")
        now = transaction.table_metadata
        old_fields = {item.name: item for item in now.schema().fields}
        numbers = itertools.count(now.last_column_id + 1)
        new_schema = assign_fresh_schema_ids(self.catalog._convert_schema_if_needed(schema), numbers.__next__)
        fields: list[Any] = []
        for item in new_schema.fields:
            old = old_fields.get(item.name)
            same = old is not None and not old.required and str(old.field_type) == str(item.field_type)
            fields.append(old if same else item)
        if fields != list(now.schema().fields):
            merged = Schema(*fields, schema_id=max(item.schema_id for item in now.schemas) + 1)
            transaction._apply(
                (updates.AddSchemaUpdate(schema_=merged), updates.SetCurrentSchemaUpdate(schema_id=-1)),
                (
                    updates.AssertCurrentSchemaId(current_schema_id=now.current_schema_id),
                    updates.AssertLastAssignedFieldId(last_assigned_field_id=now.last_column_id),
                ),
            )

    def _commit(self, transaction: Any, mark: Mark, reader: Any, replaced: Iterable[Any] = ()) -> None:
        """Commit a transaction with a snapshot that has the rows of a reader in place of the ``replaced`` files. If the
        table was changed since it was looked at, the catalog refuses it; the library itself would try again."""
        from pyiceberg.io.pyarrow import _dataframe_to_data_files
        from pyiceberg.table import CreateTableTransaction
        from pyiceberg.table.update import AssertCreate, AssertTableUUID

        mark_properties = dict(zip(MARK_PROPERTIES, (str(mark.writer), str(mark.commit), mark.attempt), strict=True))
        transaction.set_properties({name: mark_properties[name] for name in MARK_PROPERTIES[:2]})
        metadata, table, removed = transaction.table_metadata, transaction._table, list(replaced)
        if reader is not None and not metadata.spec().is_unpartitioned():
            whole = reader.read_all()
            reader = whole if whole.num_rows else None
        files = [] if reader is None else list(_dataframe_to_data_files(metadata, reader, table.io))
        update = transaction.update_snapshot(snapshot_properties=mark_properties)
        with update.overwrite() if removed else update.merge_append() as snapshot:
            for file in removed:
                snapshot.delete_data_file(file)
            for file in files:
                snapshot.append_data_file(file)
        if isinstance(transaction, CreateTableTransaction):
            requirements: tuple[Any, ...] = (AssertCreate(),)
        else:
            requirements = (*transaction._requirements, AssertTableUUID(uuid=metadata.table_uuid))
        self.catalog.commit_table(table, requirements, transaction._updates)

    def _tried(self, what: str, work: Callable[[], Any]) -> Any:
        """Return what a call of the library returns; raise TableMoved or JobError if it fails."""
        try:
            return work()
        except JobError:
            raise
        except Exception as error:
            if type(error).__name__ in MOVED_TABLES:
                raise TableMoved(f"{self.name} was changed meanwhile: {reason(error)}") from error
            raise JobError(f"{self.name} cannot be {what}: {reason(error)}") from error

    def force(self) -> None:
        """Force the files of the present snapshot that it added, its metadata and their folders to disk."""
        table = self._tried("opened", lambda: self.catalog.load_table(self.identifier))
        snapshot = table.current_snapshot()
        if snapshot is None or without_scheme(table.metadata_location) is None:
            return
        folders = set()
        for name in (*snapshot_files(table, snapshot), table.metadata_location):
            file = Path(without_scheme(name) or name)
            if not file.exists():
                raise JobError(
                    f"{self.name} lacks files of its newest snapshot, such as {file.name}: remove it, and the next "
                    "command makes it again"
                )
            sync(file)
            folders |= {file.parent, file.parent.parent}
        for folder in sorted(folders, key=str):
            sync(folder)


def snapshot_files(table: Any, snapshot: Any) -> Iterator[str]:
    """Yield the locations of files that a snapshot added: its list of manifests, its manifests, and data files."""
    yield snapshot.manifest_list
    try:
        for manifest in snapshot.manifests(table.io):
            if manifest.added_snapshot_id == snapshot.snapshot_id:
                yield manifest.manifest_path
                for entry in manifest.fetch_manifest_entry(table.io):
                    if entry.snapshot_id == snapshot.snapshot_id:
                        yield entry.data_file.file_path
    except FileNotFoundError as error:
        # The one that is missing.
        yield str(error.filename or error)


@contextlib.contextmanager
def scratch_database() -> Iterator[Any]:
    """Yield a connection of DuckDB to an empty database."""
    with contextlib.closing(DuckEngine(threads=available_cores())) as engine:
        yield engine.connection


def batches_of(connection: Any, query: str, schema: Any) -> Iterator[Any]:
    """Yield the rows of a query as batches with the types of a schema."""
    for batch in connection.sql(query).to_arrow_reader(ROWS_AT_ONCE):
        yield typed_batch(batch.columns, schema)


# Where they are


def iceberg_place(place: str) -> str:
    """Return a place ``CATALOG.NAMESPACE`` as it is recorded; raise JobError for any other."""
    parts = re.fullmatch(r"([^./:\s]+)[./]([^/:\s]+)", place)
    if not parts or "" in parts[2].split("."):
        raise JobError(
            f"iceberg:{place} is no place for tables: give iceberg:CATALOG.NAMESPACE, with a catalog that pyiceberg is "
            "configured for"
        )
    return f"{parts[1]}.{parts[2]}"


def iceberg_output_place(place: str, folder: str) -> str:
    """Return where the table of a relation is, as a feed calls it: its name has no dots."""
    catalog, _, namespace = place.partition(".")
    return f"{catalog}/{namespace}.{folder.replace('.', '__')}"


TABLE_KINDS["iceberg"] = TableKind(IcebergOutput, iceberg_place, iceberg_output_place)
