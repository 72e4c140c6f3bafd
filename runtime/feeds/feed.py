"""Interface of every feed: a look at what is there, all rows as of that look, and the changes since a cursor."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..errors import JobError
from ..executors import Executor
from ..inputs.files import InputFile
from ..inputs.nulls import LeftOut
from ..manifest import FeedRecord
from ..model import Relation

LONGEST_BATCH_ID = 120
"""How long the ID of a batch that follows from its feeds may be until it is shortened."""

Position = Mapping[str, Any]
"""How far a feed was read, as JSON: a version, a snapshot, offsets, or names of files. Empty if it never was."""


@dataclass(frozen=True)
class Look:
    """What a feed has at one moment: the identity of its table, the position after the last change, its columns with
    their types, and the number of rows at that position if that is known. If it is not ``versioned``, the position does
    not tell whether anything is new."""

    table: str
    position: Position
    columns: Mapping[str, str] = field(default_factory=dict)
    rows: int | None = None
    versioned: bool = True


@dataclass(frozen=True)
class Delivery:
    """Rows that a feed delivers: Arrow ``batches`` with a ``schema``, a ``frame`` of Spark's, or ``files``.

    ``operation`` is the column with the operation of each row; without it all rows are insertions. If rows are
    ``events``, the column ``order`` orders them, and a deletion may tell no more than the key. Otherwise each change
    comes with the whole row, before it and after it. ``explained`` returns the error for one that Spark raises when it
    reads the frame.

    ``messages`` are events that are staged already, as tables of ``schema``. If they are all messages since a
    table began (``complete``), the first one about a row must create it.
    """

    schema: Any = None
    batches: Iterable[Any] = ()
    frame: Any = None
    files: Sequence[InputFile] = ()
    operation: str = ""
    order: str = ""
    explained: Callable[[BaseException], JobError] | None = None
    messages: Iterable[Any] | None = None
    complete: bool = False

    @property
    def has_events(self) -> bool:
        """Whether it has changes in their order, those of files or ordered by a column, rather than whole rows."""
        return bool(self.order) or (self.schema is None and self.frame is None)


class OpenFeed(Protocol):
    """An opened feed of a relation."""

    def look(self) -> Look:
        """Return what the feed has now; later calls deliver no more than this."""

    def rows(self, until: Look) -> Delivery:
        """Return all rows as of a look."""

    def changes(self, since: Position, until: Look) -> Delivery | None:
        """Return the changes from a position up to a look; None if only a comparison of all rows tells them."""

    def label(self, position: Position) -> str:
        """Return a position as short text, for the IDs of batches."""


@dataclass(frozen=True)
class FeedRequest:
    """What is needed to open a feed: its relation, its record, its place (the source without the kind), the columns to
    read, all if the rows are filtered, and what runs the command. Rows with nulls where none are allowed are counted in
    ``left_out``, and refused without one."""

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


def delta_options() -> dict[str, str] | None:
    """Return the options of deltalake for a store: those that it does not take from the environment by itself."""
    return {"AWS_ENDPOINT_URL": s3_endpoint(), "AWS_ALLOW_HTTP": "true"} if s3_endpoint().startswith("http:") else None


def iceberg_options() -> dict[str, str]:
    """Return the properties of pyiceberg for a store: those that it does not take from the environment by itself."""
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION", "")
    found = {"s3.endpoint": s3_endpoint(), "s3.region": region}
    return {name: value for name, value in found.items() if value}


def schema_hash(request_columns: Iterable[str], found: Mapping[str, str]) -> str:
    """Return a hash of the columns that a feed reads, with their types."""
    known = [[name, found.get(name, "")] for name in sorted(set(request_columns))]
    return hashlib.sha256(json.dumps(known).encode()).hexdigest()[:16]


def short_hash(value: Any) -> str:
    """Return a short hash of a JSON value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:8]


def way_out(request: FeedRequest) -> str:
    """Return how to go on where changes are not to be had."""
    return (
        f"`apply --resync {request.relation.name}` takes the rows as they are now and applies the difference as one "
        "batch"
    )
