"""Interface of every kind of output table: a look at who wrote it last, and changes in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from ..kernel.errors import JobError

FILE_SIZE = 32 * 1024 * 1024
"""The size of the files of a table: to delete a row, its whole file is written again."""


@dataclass(frozen=True)
class Mark:
    """The record of a transaction beside its rows: which state ``writer`` made them, at which of its commits, and the
    ``attempt`` whose tuples the table has since; empty if that is no longer known."""

    writer: int
    commit: int
    attempt: str


@dataclass(frozen=True)
class OutputLook:
    """A table at one moment: its Arrow ``schema``, the mark of the job that wrote it last, if one did, and whether
    something else may have changed rows since (``touched``)."""

    schema: Any
    mark: Mark | None
    touched: bool = False


@dataclass(frozen=True)
class Rows:
    """Rows for a table: Arrow batches with a ``schema``. With an ``operation`` column, those with ``-`` are to be
    deleted and those with ``+`` inserted; ``inserted`` and ``deleted`` count them."""

    schema: Any
    batches: Iterator[Any]
    operation: str = ""
    inserted: int = 0
    deleted: int = 0

    def reader(self) -> Any:
        """Return a reader of the batches."""
        return pa.RecordBatchReader.from_batches(self.schema, self.batches)

    def inserted_only(self) -> Rows:
        """Return rows none of which are to be deleted without their operations."""
        index = self.schema.get_field_index(self.operation)
        plain = (batch.select([n for n in range(batch.num_columns) if n != index]) for batch in self.batches)
        return Rows(self.schema.remove(index), plain, inserted=self.inserted)


class TableMoved(JobError):
    """Another transaction changed a table between the look at it and a change of it."""


class OutputTable(Protocol):
    """A table that a relation is kept as."""

    name: str

    def look(self) -> OutputLook | None:
        """Return what the table is now; None if there is none. Later calls refer to this."""

    def rows(self, columns: list[str]) -> Any:
        """Return a reader of the Arrow batches with the rows of the table."""

    def write(self, rows: Rows, mark: Mark) -> None:
        """Make the table anew with these rows, also with other columns, in one transaction."""

    def change(self, rows: Rows, mark: Mark) -> bool:
        """Delete and insert rows in one transaction. Return False if it did not find just what it was to delete. Raise
        TableMoved if another transaction came first."""

    def force(self) -> None:
        """Force what the last transaction wrote to disk, if the table is on one."""


@dataclass(frozen=True)
class TableKind:
    """A format of output tables: how to open the table of a relation, given its place; what to record of the place that
    all tables are at, which raises JobError for what is none; and how to find that of one table there."""

    open: Callable[[str, str], OutputTable]
    recorded: Callable[[str], str]
    joined: Callable[[str, str], str]


def quoted_name(name: str) -> str:
    """Return the name of a column in SQL, which otherwise folds case."""
    return '"' + name.replace('"', '""') + '"'


def typed_batch(columns: Iterable[Any], schema: Any) -> Any:
    """Return a batch of columns with the types of a schema."""
    arrays = [column.cast(field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
