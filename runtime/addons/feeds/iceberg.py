"""Iceberg tables: the feed ``iceberg:``, by the package pyiceberg."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from ...inputs.records import refused
from ...kernel.errors import JobError, reason
from .feed import Delivery, FeedRequest, Look, Position, iceberg_options, needed_library, way_out
from .kinds import FEED_KINDS


class IcebergFeed:
    """An Iceberg table, read at one snapshot of its main branch. Its changes are the difference of two snapshots, of
    whatever branch: data files that are in both, with the same deletes, have the same rows and are not read, and rows
    that are in the others of both cancel each other."""

    def __init__(self, request: FeedRequest) -> None:
        """Find the library."""
        self.request = request
        self.name = f"iceberg:{request.place}"
        for module in ("pyiceberg.catalog", "pyiceberg.table", "pyiceberg.io.pyarrow"):
            needed_library(module, "pyiceberg[pyarrow]", f"the feed {self.name}")
        self.opened: Any = None

    def look(self) -> Look:
        """Return identity, snapshot, columns and number of rows of the table. The type of a column tells which field it
        is: one that was dropped and added again has other values."""
        try:
            table = self.opened = iceberg_table(self.request.place)
            snapshot = table.current_snapshot()
            rows = live_rows(snapshot.manifests(table.io)) if snapshot else 0
            mapped = table.name_mapping()
            other_names = {item.field_id: list(item.names) for item in mapped.root} if mapped else {}
        except Exception as error:
            raise JobError(f"{self.name} cannot be opened: {reason(error)}") from error
        columns = {}
        for column in table.schema().fields:
            columns[column.name] = f"{column.field_type} (field {column.field_id})"
            # The names of the column in files without the numbers of fields.
            if other_names.get(column.field_id, [column.name]) != [column.name]:
                columns[column.name] += f" named {' or '.join(other_names[column.field_id])}"
        return Look(str(table.metadata.table_uuid), {"snapshot": snapshot and snapshot.snapshot_id}, columns, rows)

    def rows(self, until: Look) -> Delivery:
        """Return the rows of the snapshot that was looked at."""
        number = until.position["snapshot"]
        return self._delivery([], self._planned(self._manifests(number)), f"snapshot {number}", False)

    def changes(self, since: Position, until: Look) -> Delivery | None:
        """Return the changes from one snapshot to another."""
        old, new = since["snapshot"], until.position["snapshot"]
        what = f"the changes from snapshot {old} to {new}"
        if old is not None and self.opened.metadata.snapshot_by_id(old) is None:
            return self._delivery([], self._appended(old, new), what, True)
        before, after = self._manifests(old), self._manifests(new)
        if not any(map(has_deletes, (*before, *after))):
            # Manifests do not change, so the files of those in both snapshots are in both.
            common = {item.manifest_path for item in before} & {item.manifest_path for item in after}
            before, after = ([item for item in side if item.manifest_path not in common] for side in (before, after))
        gone, added = self._planned(before), self._planned(after)
        return self._delivery(without_tasks(gone, added), without_tasks(added, gone), what, True)

    def _appended(self, old: int, new: int) -> list[Any]:
        """Return the data files that were added after a snapshot which has expired, if all later ones are there and did
        nothing but append."""
        from pyiceberg.table.snapshots import Operation, ancestors_of

        metadata = self.opened.metadata
        chain = list(ancestors_of(metadata.snapshot_by_id(new), metadata))
        parents = [snapshot.parent_snapshot_id for snapshot in chain]
        later = chain[: parents.index(old) + 1] if old in parents else []
        if later and all(snapshot.summary and snapshot.summary.operation == Operation.APPEND for snapshot in later):
            scan = self.opened.incremental_append_scan(from_snapshot_id_exclusive=old, to_snapshot_id_inclusive=new)
            return list(scan.plan_files())
        raise refused(
            f"{self.name}: snapshot {old}, up to which {self.request.relation.name} was read, has expired, so what has "
            f"changed until snapshot {new} cannot be told",
            way_out(self.request),
        )

    def _manifests(self, number: int | None) -> list[Any]:
        """Return the manifests of a snapshot, none if there is no snapshot."""
        if number is None:
            return []
        try:
            return list(self.opened.metadata.snapshot_by_id(number).manifests(self.opened.io))
        except Exception as error:
            raise self._explained(error, f"snapshot {number}") from error

    def _planned(self, manifests: list[Any]) -> list[Any]:
        """Return the data files of manifests, each with the files that delete rows of it."""
        from pyiceberg.table import ManifestGroupPlanner

        try:
            return list(ManifestGroupPlanner(self.opened.metadata, self.opened.io).plan_files(manifests))
        except Exception as error:
            raise self._explained(error, "its list of files") from error

    def _delivery(self, gone: list[Any], added: list[Any], what: str, signed: bool) -> Delivery:
        """Return the rows of data files: those that are gone as deletions, if they are ``signed``."""
        import pyarrow as pa
        from pyiceberg.expressions import AlwaysTrue
        from pyiceberg.io.pyarrow import ArrowScan, schema_to_pyarrow
        from pyiceberg.schema import Schema

        table, names = self.opened, self.request.wanted
        fields = [column for column in table.schema().fields if names is None or column.name in names]
        try:
            projection = Schema(*fields)
            arrow_fields = [
                column.with_nullable(True) for column in schema_to_pyarrow(projection, include_field_ids=False)
            ]
            scan = ArrowScan(table.metadata, table.io, projection, AlwaysTrue())
        except Exception as error:
            raise self._explained(error, what) from error
        operation = "_change_type"
        while operation in {column.name for column in fields}:
            operation += "_"

        def batches() -> Iterator[Any]:
            try:
                for sign, tasks in (("delete", gone), ("insert", added)):
                    for task in tasks:
                        # One file after the other: a file with deletes counts for those that it is listed for only.
                        for batch in scan.to_record_batches([task]):
                            columns = [batch.column(column.name).cast(column.type) for column in arrow_fields]
                            signs = [pa.repeat(pa.scalar(sign), batch.num_rows)] if signed else []
                            yield pa.RecordBatch.from_arrays([*columns, *signs], schema=schema)
            except Exception as error:
                raise self._explained(error, what) from error

        schema = pa.schema([*arrow_fields, pa.field(operation, pa.string())] if signed else arrow_fields)
        return Delivery(schema, batches(), operation=operation if signed else "")

    def _explained(self, error: Exception, what: str) -> JobError:
        """Return the error for something that cannot be read."""
        if "equality deletes" in str(error):
            return refused(
                f"{self.name} has rows that were deleted by the values of columns (equality deletes), which pyiceberg "
                "does not read: rewrite the data files with the engine that wrote them (in Spark, `CALL "
                "system.rewrite_data_files`), or read the table with Spark as table:"
            )
        if isinstance(error, FileNotFoundError):
            return refused(f"{self.name}, {what}: a file is gone ({reason(error)})", way_out(self.request))
        return JobError(f"{self.name}, {what}, cannot be read: {reason(error)}")

    def label(self, position: Position) -> str:
        """Return the snapshot."""
        return "empty" if position["snapshot"] is None else str(position["snapshot"])


def iceberg_table(place: str) -> Any:
    """Return the table ``CATALOG/NAMESPACE.NAME`` of a catalog that pyiceberg is configured for, or of the default one
    without ``CATALOG/``. A path or URI is that of a table without a catalog, or of a file with its metadata."""
    if place.startswith(("/", ".", "file:")) or "://" in place:
        from pyiceberg.table import StaticTable

        return StaticTable.from_metadata(place, iceberg_options())
    catalog, _, name = place.rpartition("/")
    return iceberg_catalog(catalog).load_table(name)


def iceberg_catalog(name: str) -> Any:
    """Return a catalog that pyiceberg is configured for, the default one without a name."""
    from pyiceberg.catalog import load_catalog

    catalog: Any = load_catalog(name or None)
    for option, value in iceberg_options().items():
        catalog.properties.setdefault(option, value)
    return catalog


def has_deletes(manifest: Any) -> bool:
    """Return whether a manifest lists files that delete rows of others."""
    from pyiceberg.manifest import ManifestContent

    return bool(manifest.content == ManifestContent.DELETES)


def live_rows(manifests: Iterable[Any]) -> int | None:
    """Return how many rows the files of manifests have; None if it is unknown, or rows of them are deleted."""
    count = 0
    for manifest in manifests:
        if has_deletes(manifest) or manifest.added_rows_count is None or manifest.existing_rows_count is None:
            return None
        count += manifest.added_rows_count + manifest.existing_rows_count
    return count


def without_tasks(tasks: list[Any], others: list[Any]) -> list[Any]:
    """Return the data files that are not among others, or more often; a file with other deletes is another one."""
    counts, remaining = Counter(map(task_key, others)), []
    for task in tasks:
        key = task_key(task)
        if counts[key]:
            counts[key] -= 1
        else:
            remaining.append(task)
    return remaining


def task_key(task: Any) -> tuple[Any, ...]:
    """Return what decides the rows that a data file has in a snapshot."""
    deletes = frozenset(file.file_path for file in task.delete_files)
    return task.file.file_path, task.file.spec_id, repr(task.file.partition), deletes


FEED_KINDS["iceberg"] = IcebergFeed
