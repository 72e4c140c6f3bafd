"""Streaming queries as feeds: who they are, and how far relations have had their micro-batches."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ...kernel.errors import JobError, reason
from ...kernel.values import shown
from ...store.manifest import STREAM, FeedRecord, fed_elsewhere, is_stream
from ...system.places import input_place

if TYPE_CHECKING:
    from ...spark.types import DataFrame

QUERY_PROPERTY = "sql.streaming.queryId"
"""The property by which Spark tells the thread of a query its ID."""


def query_of(frame: DataFrame, checkpoint: str | None) -> str:
    """Return the ID of the streaming query that a micro-batch belongs to, which is that of its checkpoint. Raise
    JobError if Spark does not tell it, and no ``checkpoint`` is given."""
    if checkpoint:
        place = input_place(checkpoint) / "metadata"
        try:
            return str(json.loads(place.read_text(encoding="utf-8"))["id"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise JobError(f"{checkpoint} is not the checkpoint of a streaming query: {reason(error)}") from error
    context = getattr(frame.sparkSession, "sparkContext", None)
    query = context.getLocalProperty(QUERY_PROPERTY) if context else None
    if not query:
        raise JobError(
            "Spark does not tell which streaming query this frame belongs to, as with Spark Connect and outside of "
            "foreachBatch: pass checkpoint=FOLDER, the checkpoint of the query"
        )
    return str(query)


def without_streams(feeds: Mapping[str, FeedRecord]) -> dict[str, FeedRecord]:
    """Return the feeds that can be read."""
    return {name: record for name, record in feeds.items() if not is_stream(record)}


def stream_record(query: str, number: int) -> FeedRecord:
    """Return the record of a relation that has had the micro-batches of a query up to a number."""
    return FeedRecord(f"{STREAM}{query}", position={"batch": number})


def due_relations(feeds: Mapping[str, FeedRecord], names: Iterable[str], query: str, number: int) -> list[str]:
    """Return those relations that have not had a micro-batch of a query yet. Raise JobError if one has another feed,
    is changed by another query, or lacks batches before this one."""
    due = []
    for name in names:
        record = feeds.get(name)
        if record is None:
            due.append(name)
            continue
        if not is_stream(record):
            raise fed_elsewhere(name, record.source)
        if record.source != f"{STREAM}{query}":
            raise JobError(
                f"{name} is changed by the streaming query {record.source.removeprefix(STREAM)}, and this is the query "
                f"{query}: a query with a new checkpoint begins with everything again. If it is to go on in place of "
                f"the other one, run `connect --remove {name}` once"
            )
        last = record.position["batch"]
        if number > last + 1:
            raise JobError(
                f"{name} has had the micro-batches of the streaming query {query} up to {last}, and this is number "
                f"{number}: those between are missing, as after `rollback` or in a copy of the state. Return to the "
                f"commit that has them, or run `connect --remove {name}` and a query with a new checkpoint, which "
                "reads them again"
            )
        if number > last:
            due.append(name)
    return due


def checked_number(batch_id: int) -> int:
    """Return the number of a micro-batch; raise JobError for anything else."""
    if isinstance(batch_id, bool) or not isinstance(batch_id, int) or batch_id < 0:
        raise JobError(f"{shown(batch_id)} is not the number that foreachBatch passes with a micro-batch")
    return batch_id
