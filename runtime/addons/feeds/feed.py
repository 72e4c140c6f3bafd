"""Interface of every feed: a look at what is there, all rows as of that look, and the changes since a cursor."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ...inputs.files import InputFile
from ...inputs.values import OPERATIONS
from ...kernel.errors import JobError
from ...kernel.model import Relation
from ...kernel.values import shown
from ...store.executors import Executor
from ...store.manifest import FeedRecord
from ...store.set_aside import LeftOut
from ...system.places import without_scheme
from .condition import condition_in, unusable_condition

LONGEST_BATCH_ID = 120
"""The length above which the ID of a batch that follows from its feeds is shortened."""

Position = Mapping[str, Any]
"""The position up to which a feed was read, as JSON: a version, a snapshot, offsets, or names of files. Empty if it was
never read."""


@dataclass(frozen=True)
class Look:
    """A feed at one moment: the identity of its table, the position after the last change, its columns with
    their types, and the number of rows at that position if that is known. If it is not ``versioned``, the position does
    not tell whether anything is new. ``marks`` are as in :class:`FeedRecord`."""

    table: str
    position: Position
    columns: Mapping[str, str] = field(default_factory=dict)
    rows: int | None = None
    versioned: bool = True
    marks: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Delivery:
    """Rows that a feed delivers: Arrow ``batches`` with a ``schema``, a ``frame`` of Spark's, or ``files``.

    ``operation`` is the column with the operation of each row; without it all rows are insertions. Each change comes
    with the whole row, before it and after it. ``explained`` returns the error for one that Spark raises when it reads
    the frame.

    ``messages`` are events that are staged already, as tables of ``schema``. If they are all messages since a
    table began (``complete``), the first one about a row must create it.
    """

    schema: Any = None
    batches: Iterable[Any] = ()
    frame: Any = None
    files: Sequence[InputFile] = ()
    operation: str = ""
    explained: Callable[[BaseException], JobError] | None = None
    messages: Iterable[Any] | None = None
    complete: bool = False

    @property
    def has_events(self) -> bool:
        """Whether it has changes in their order, those of files, rather than whole rows."""
        return self.schema is None and self.frame is None


class OpenFeed(Protocol):
    """An opened feed of a relation."""

    def look(self) -> Look:
        """Return what the feed has now; later calls deliver no more than this."""

    def rows(self, until: Look) -> Delivery:
        """Return all rows as of a look."""

    def changes(self, since: Position, until: Look) -> Delivery | None:
        """Return the changes from a position up to a look, none if only its marks are new; None if only a comparison
        of all rows tells them. Raise Refused if the marks show that what was read is no longer there."""

    def label(self, position: Position) -> str:
        """Return a position as short text, for the IDs of batches."""


@dataclass(frozen=True)
class FeedRequest:
    """The data with which a feed is opened: its relation, its record, its place (the source without the kind), the
    columns to read, all if the rows are filtered, and what runs the command. Rows with nulls where none are allowed are
    counted in ``left_out``, and refused without one."""

    relation: Relation
    record: FeedRecord
    place: str
    executor: Executor
    left_out: LeftOut | None = None

    @property
    def columns(self) -> list[str]:
        """The names of the relation's columns in the table, in order."""
        return [self.record.columns.get(column.name, column.name) for column in self.relation.columns]

    @property
    def wanted(self) -> list[str] | None:
        """The columns to read from the table, each once; None for all of them."""
        return None if self.record.where else list(dict.fromkeys(self.columns))

    def check_filter(self, columns: Iterable[str] | None = None, engine: str = "") -> str:
        """Return the filter in SQL over a table with these columns, if they are known, for an ``engine``: by default
        the one that reads such feeds. It is empty without a filter. Raise JobError if it is no condition over them."""
        engine = engine or ("spark" if self.record.source.startswith("table:") else "duckdb")
        try:
            condition = condition_in(self.record.where, engine) if self.record.where else None
            return condition.sql(columns, engine) if condition and columns is not None else ""
        except ValueError as error:
            raise unusable_condition(self.relation.name, self.record.where, error) from error


def needed_library(name: str, package: str, purpose: str) -> Any:
    """Return a module that a feed needs; raise JobError, naming the package to install, if it is missing."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise JobError(
            f"{purpose} needs the Python package {package}, and {error.name} is not installed for {sys.executable}: "
            f"run `pip install {shlex.quote(package)}`"
        ) from error


def s3_endpoint() -> str:
    """Return the address of the S3 store that the environment names, empty for Amazon's."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", "")


def check_delta_place(place: str) -> None:
    """Raise JobError for the path of a folder that deltalake does not find again, or fails on."""
    path = without_scheme(place)
    unreadable = re.search(r"[][^|\\\x00-\x1f\x7f]|%[0-9A-Fa-f]{2}", path or "")
    if unreadable:
        raise JobError(
            f"delta:{place} cannot be used: the package deltalake does not read paths with {shown(unreadable[0])}; "
            "rename the folder, or make a link to it under another name"
        )


def delta_options() -> dict[str, str] | None:
    """Return the options of deltalake for a store: those that it does not take from the environment by itself."""
    return {"AWS_ENDPOINT_URL": s3_endpoint(), "AWS_ALLOW_HTTP": "true"} if s3_endpoint().startswith("http:") else None


def iceberg_options() -> dict[str, str]:
    """Return the properties of pyiceberg for a store: those that it does not take from the environment by itself."""
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION", "")
    options = {"s3.endpoint": s3_endpoint(), "s3.region": region}
    return {name: value for name, value in options.items() if value}


def schema_hash(request_columns: Iterable[str], found: Mapping[str, str]) -> str:
    """Return a hash of the columns that a feed reads, with their types."""
    columns = [[name, found.get(name, "")] for name in sorted(set(request_columns))]
    return hashlib.sha256(json.dumps(columns).encode()).hexdigest()[:16]


def hashed_types(columns: Mapping[str, str]) -> dict[str, str]:
    """Return a hash of the type of each column."""
    return {name: short_hash(kind) for name, kind in columns.items()}


def short_hash(value: Any) -> str:
    """Return a short hash of a JSON value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:8]


def change_of_rows(operations: Mapping[str, int]) -> int:
    """Return by how much changes make a table larger, given how many there are with each operation."""
    return sum(number if OPERATIONS[operation] == "+" else -number for operation, number in operations.items())


def way_out(request: FeedRequest) -> str:
    """Return how to go on where changes are not to be had."""
    return (
        f"`apply --resync {request.relation.name}` takes the rows as they are now and applies the difference as one "
        "batch"
    )
