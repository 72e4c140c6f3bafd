"""Lakes with output tables, of each format: what tests ask of them, and what others do to their tables."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyiceberg.io.pyarrow
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog import load_catalog
from pyiceberg.table.snapshots import Operation, Summary, ancestors_of

from golden_tests.addons.feeds.lake import lake_in


class OutputLake(Protocol):
    """A place with tables, which have the names of their relations."""

    place: str
    #: What becomes the present when a table is changed.
    word: str

    def feed(self, name: str) -> str:
        """How a feed calls a table."""

    def exists(self, name: str) -> bool:
        """Whether there is a table."""

    def rows(self, name: str) -> pa.Table:
        """The rows of a table."""

    def identity(self, name: str) -> str:
        """What tells a table from another of its name."""

    def versions(self, name: str) -> list[Any]:
        """The versions of a table that changed rows or could have, without those that only moved rows."""

    def changes(self, name: str, since: Any) -> pa.Table:
        """The changes after a version, with a column ``sign``."""

    def make(self, name: str, rows: pa.Table) -> None:
        """Make a table as somebody else does."""

    def append(self, name: str, rows: pa.Table) -> None:
        """Add rows."""

    def empty(self, name: str) -> None:
        """Delete all rows."""

    def compact(self, name: str) -> None:
        """Merge files, which changes no row."""

    def remove(self, name: str) -> None:
        """Remove a table."""

    def lose_files(self, name: str) -> None:
        """Remove the data files of a table."""


class DeltaLake:
    """Delta tables in a folder."""

    word = "version"

    def __init__(self, folder: Path) -> None:
        """Begin without tables."""
        self.folder, self.place = folder, f"delta:{folder}"

    def table(self, name: str) -> DeltaTable:
        """A table."""
        return DeltaTable(str(self.folder / name))

    def feed(self, name: str) -> str:
        """How a feed calls a table."""
        return f"delta:{self.folder / name}"

    def exists(self, name: str) -> bool:
        """Whether there is a table."""
        return DeltaTable.is_deltatable(str(self.folder / name))

    def rows(self, name: str) -> pa.Table:
        """The rows of a table."""
        return pa.table(self.table(name).scan())

    def identity(self, name: str) -> str:
        """The ID of a table."""
        return str(self.table(name).metadata().id)

    def versions(self, name: str) -> list[Any]:
        """All versions but those that moved rows."""
        return sorted(entry["version"] for entry in self.table(name).history() if entry["operation"] != "OPTIMIZE")

    def changes(self, name: str, since: Any) -> pa.Table:
        """What the change data feed tells."""
        table = self.table(name)
        first = 0 if since is None else since + 1
        feed = pa.table(table.load_cdf(starting_version=first))
        signs = [-1 if "delete" in kind or "pre" in kind else 1 for kind in feed["_change_type"].to_pylist()]
        columns = [field.name for field in table.schema().fields]
        return feed.select([*columns, "_commit_version"]).append_column("sign", pa.array(signs, pa.int64()))

    def make(self, name: str, rows: pa.Table) -> None:
        """Make a table as somebody else does."""
        write_deltalake(str(self.folder / name), rows)

    def append(self, name: str, rows: pa.Table) -> None:
        """Add rows."""
        write_deltalake(str(self.folder / name), rows, mode="append")

    def empty(self, name: str) -> None:
        """Delete all rows."""
        self.table(name).delete()

    def compact(self, name: str) -> None:
        """Merge files."""
        self.table(name).optimize.compact()

    def remove(self, name: str) -> None:
        """Remove a table."""
        shutil.rmtree(self.folder / name)

    def lose_files(self, name: str) -> None:
        """Remove the data files of a table."""
        for file in (self.folder / name).glob("*.parquet"):
            file.unlink()


class IcebergOutputs:
    """Iceberg tables in a namespace of the catalog ``lake``."""

    word = "snapshot"

    def __init__(self, namespace: str) -> None:
        """Begin without tables."""
        self.namespace, self.place = namespace, f"iceberg:lake.{namespace}"

    def full(self, name: str) -> str:
        """The name of a table in the catalog."""
        return f"{self.namespace}.{name.replace('.', '__')}"

    def table(self, name: str) -> Any:
        """A table."""
        return load_catalog("lake").load_table(self.full(name))

    def feed(self, name: str) -> str:
        """How a feed calls a table."""
        return f"iceberg:lake/{self.full(name)}"

    def exists(self, name: str) -> bool:
        """Whether there is a table."""
        return load_catalog("lake").table_exists(self.full(name))

    def rows(self, name: str) -> pa.Table:
        """The rows of a table."""
        return self.table(name).scan().to_arrow()

    def identity(self, name: str) -> str:
        """The ID of a table."""
        return str(self.table(name).metadata.table_uuid)

    def versions(self, name: str) -> list[Any]:
        """All snapshots of the main branch but those that moved rows."""
        table = self.table(name)
        found = [*ancestors_of(table.current_snapshot(), table.metadata)][::-1]
        return [item.snapshot_id for item in found if item.summary.operation != Operation.REPLACE]

    def changes(self, name: str, since: Any) -> pa.Table:
        """The differences between each snapshot and the one before it."""
        table = self.table(name)
        numbers = [item.snapshot_id for item in ancestors_of(table.current_snapshot(), table.metadata)][::-1]
        kinds = pyiceberg.io.pyarrow.schema_to_pyarrow(table.schema(), include_field_ids=False)
        pairs = list(zip([None, *numbers], numbers, strict=False))
        found = []
        for before, after in pairs[numbers.index(since) + 1 if since is not None else 0 :]:
            for number, sign in ((before, -1), (after, 1)):
                if number is not None:
                    rows = table.scan(snapshot_id=number).to_arrow().cast(kinds)
                    signs = pa.array([sign] * len(rows), pa.int64())
                    order = pa.array([numbers.index(after)] * len(rows), pa.int64())
                    found.append(rows.append_column("_commit_version", order).append_column("sign", signs))
        if found:
            return pa.concat_tables(found)
        none = pa.array([], pa.int64())
        return self.rows(name).slice(0, 0).append_column("_commit_version", none).append_column("sign", none)

    def make(self, name: str, rows: pa.Table) -> None:
        """Make a table as somebody else does."""
        catalog = load_catalog("lake")
        catalog.create_namespace_if_not_exists(self.namespace)
        catalog.create_table(self.full(name), rows.schema).append(rows)

    def append(self, name: str, rows: pa.Table) -> None:
        """Add rows."""
        self.table(name).append(rows)

    def empty(self, name: str) -> None:
        """Delete all rows."""
        self.table(name).delete()

    def compact(self, name: str) -> None:
        """Write all rows into a new file, as an engine does that merges files."""
        table = self.table(name)
        if not table.scan().count():
            return
        rows, old = table.scan().to_arrow(), [task.file for task in table.scan().plan_files()]
        transaction = table.transaction()
        with transaction.update_snapshot().overwrite() as update:
            update._summary = replacing(update)  # type: ignore[method-assign]
            for file in old:
                update.delete_data_file(file)
            for file in pyiceberg.io.pyarrow._dataframe_to_data_files(table.metadata, rows, table.io):
                update.append_data_file(file)
        transaction.commit_transaction()

    def remove(self, name: str) -> None:
        """Remove a table."""
        load_catalog("lake").drop_table(self.full(name))

    def lose_files(self, name: str) -> None:
        """Remove the data files of a table."""
        for task in self.table(name).scan().plan_files():
            Path(task.file.file_path.removeprefix("file://")).unlink()


def replacing(update: Any) -> Callable[..., Summary]:
    """The summary of a snapshot that only moves rows, which the library does not make."""
    own = update._summary
    return lambda properties: Summary(Operation.REPLACE, **own(properties).additional_properties)


LAKES = ("delta", "iceberg")


@contextmanager
def lake_of(kind: str, folder: Path) -> Iterator[OutputLake]:
    """A lake of one kind in a folder."""
    with lake_in(folder) if kind == "iceberg" else nullcontext():
        yield other_lake(kind, folder, "lake")


def other_lake(kind: str, folder: Path, name: str) -> OutputLake:
    """One of several places for tables in a folder, whose catalog is configured."""
    return DeltaLake(folder / name) if kind == "delta" else IcebergOutputs(name)
