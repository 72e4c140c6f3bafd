"""Delta tables as outputs, by the package deltalake, without a JVM."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from ...kernel.errors import JobError, reason
from ...store.extensions import TABLE_KINDS
from ...store.output import FILE_SIZE, Mark, OutputLook, Rows, TableKind, TableMoved, quoted_name
from ...system.places import sync, without_scheme
from ..feeds.feed import check_delta_place, delta_options, needed_library

ATTEMPT_KEY = "flintlog.attempt"

WRITER_APP = "flintlog:writer"
"""The application transaction that holds the last writer, beside one for each writer that holds its last commit."""

HARMLESS = ("OPTIMIZE", "VACUUM START", "VACUUM END")
"""Operations that change no row."""

ENTRIES_SEEN = 100
"""The last transaction of a job is looked for in at most this many versions."""


class DeltaOutput:
    """A Delta table with a change data feed."""

    def __init__(self, place: str, relation: str) -> None:
        """Find the library."""
        self.name = f"delta:{place}"
        self.place, self.relation = place, relation
        check_delta_place(place)
        self.library = needed_library("deltalake", "deltalake", f"the table {self.name}")
        self.opened: Any = None

    def look(self) -> OutputLook | None:
        """Return columns and last writer of the newest version."""
        import pyarrow as pa

        try:
            if not self.library.DeltaTable.is_deltatable(self.place, delta_options()):
                self.opened = None
                return None
            table = self.opened = self.library.DeltaTable(self.place, storage_options=delta_options())
            writer = table.transaction_version(WRITER_APP)
            schema = pa.schema(table.schema().to_arrow())
            if writer is None:
                return OutputLook(schema, None)
            commit, touched = int(table.transaction_version(app_of(writer)) or 0), False
            for entry in table.history(ENTRIES_SEEN):
                if ATTEMPT_KEY in entry:
                    return OutputLook(schema, Mark(int(writer), commit, str(entry[ATTEMPT_KEY])), touched)
                touched = touched or entry.get("operation") not in HARMLESS
            return OutputLook(schema, Mark(int(writer), commit, ""), touched=True)
        except Exception as error:
            raise JobError(f"{self.name} cannot be opened: {reason(error)}") from error

    def rows(self, columns: list[str]) -> Any:
        """Return a reader of the rows of the version that was looked at."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_stream(self.opened.scan(columns=columns))

    def write(self, rows: Rows, mark: Mark) -> None:
        """Make the table, or a version with none but these rows."""
        options: dict[str, Any] = {"mode": "error", "configuration": {"delta.enableChangeDataFeed": "true"}}
        if self.opened is not None:
            options = {"mode": "overwrite", "schema_mode": "overwrite"}
        else:
            options |= {"name": self.relation, "description": "A view that a job of Flintlog maintains"}
        self._written(lambda: self._append(rows, mark, **options))

    def change(self, rows: Rows, mark: Mark) -> bool:
        """Append rows, or merge them if some are to be deleted."""
        if not rows.deleted:
            self._written(lambda: self._append(rows.inserted_only(), mark, mode="append"))
            return True
        return bool(self._written(lambda: self._merge(rows, mark)))

    def _append(self, rows: Rows, mark: Mark, **options: Any) -> None:
        """Write rows by the library."""
        self.library.write_deltalake(
            self.place if self.opened is None else self.opened,
            rows.reader(),
            target_file_size=FILE_SIZE,
            storage_options=delta_options(),
            commit_properties=self._properties(mark),
            **options,
        )

    def _merge(self, rows: Rows, mark: Mark) -> bool:
        """Delete and insert rows; nulls are equal here, as are NaNs."""
        columns = [quoted_name(name) for name in rows.schema.names if name != rows.operation]
        operation = quoted_name(rows.operation)
        same = " AND ".join(f"(t.{name} IS NOT DISTINCT FROM s.{name})" for name in columns)
        merger = self.opened.merge(
            rows.reader().read_all(),
            same,
            source_alias="s",
            target_alias="t",
            streamed_exec=False,
            commit_properties=self._properties(mark),
        )
        done = (
            merger.when_matched_delete(f"s.{operation} = '-'")
            .when_not_matched_insert({name: f"s.{name}" for name in columns}, predicate=f"s.{operation} = '+'")
            .execute()
        )
        effect = (done["num_target_rows_inserted"], done["num_target_rows_deleted"])
        return effect == (rows.inserted, rows.deleted)

    def _properties(self, mark: Mark) -> Any:
        """Return the properties in the log of a transaction, which must be the next version."""
        app = self.library.Transaction
        return self.library.CommitProperties(
            custom_metadata={ATTEMPT_KEY: mark.attempt},
            app_transactions=[app(app_of(mark.writer), mark.commit), app(WRITER_APP, mark.writer)],
            max_commit_retries=0,
        )

    def _written(self, write: Any) -> Any:
        """Return the result of a call that writes."""
        try:
            return write()
        except Exception as error:
            if type(error).__name__ == "CommitFailedError" or "already exists" in str(error):
                raise TableMoved(f"{self.name} was changed meanwhile: {reason(error)}") from error
            raise JobError(f"{self.name} cannot be written: {reason(error)}") from error

    def force(self) -> None:
        """Force the files of the newest version, its entry in the log and their folders to disk."""
        place = without_scheme(self.place)
        if place is None:
            return
        table = self.library.DeltaTable(self.place, storage_options=delta_options())
        entry = Path(place, "_delta_log", f"{table.version():020d}.json")
        folders = {entry.parent, Path(place)}
        for line in entry.read_text(encoding="utf-8").splitlines():
            action = json.loads(line)
            for kind in ("add", "cdc"):
                if kind in action:
                    file = Path(place, unquote(action[kind]["path"]))
                    if not file.exists():
                        raise JobError(
                            f"{self.name} lacks files of its newest version, such as {file.name}: remove it, and the "
                            "next command makes it again"
                        )
                    sync(file)
                    folders.add(file.parent)
        sync(entry)
        for folder in sorted(folders, key=str):
            sync(folder)


def app_of(writer: int) -> str:
    """Return the ID of the application transaction that holds the last commit of a writer."""
    return f"flintlog:{writer:x}"


def delta_place(place: str) -> str:
    """Return a folder for tables as it is recorded."""
    path = without_scheme(place)
    return place if path is None else str(Path(path).absolute())


def delta_output_place(place: str, folder: str) -> str:
    """Return where the table of a relation is."""
    return f"{place.rstrip('/')}/{folder}"


TABLE_KINDS["delta"] = TableKind(DeltaOutput, delta_place, delta_output_place)
