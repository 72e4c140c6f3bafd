"""The kinds of feeds, and how to open one."""

from __future__ import annotations

from collections.abc import Callable

from ...kernel.errors import JobError
from ...kernel.model import Relation
from ...store.executors import Executor
from ...store.extensions import FEED_PARTS, lacking_part
from ...store.manifest import FeedRecord
from ...store.set_aside import LeftOut
from ...system.places import bare_location
from .feed import FeedRequest, OpenFeed

FEED_KINDS: dict[str, Callable[[FeedRequest], OpenFeed]] = {}
"""The functions that open a feed, by the beginning of its source. The modules of the kinds register them."""


def split_source(source: str) -> tuple[str, str]:
    """Return the kind and the place of a source; raise JobError if there is no such kind."""
    kind, _, place = source.partition(":")
    if kind not in FEED_PARTS or not place:
        raise JobError(f"{source} is not a feed; give one of {', '.join(f'{name}:...' for name in sorted(FEED_PARTS))}")
    if kind not in FEED_KINDS:
        raise lacking_part(kind, f"the kind of feed of {source}")
    return kind, place


def recorded_source(source: str) -> str:
    """Return a source as states record it, without the keys of a store. Topics have none: their options do not contain
    any, even if one is called ``key``."""
    return source if split_source(source)[0] == "kafka-debezium" else bare_location(source)


def open_feed(
    relation: Relation, record: FeedRecord, executor: Executor, source: str = "", left_out: LeftOut | None = None
) -> OpenFeed:
    """Open the feed of a relation; at another ``source`` of the same kind, if one is given. ``left_out`` is as in
    :class:`FeedRequest`. Raise JobError if its filter is no condition."""
    kind, place = split_source(source or record.source)
    if kind != split_source(record.source)[0]:
        raise JobError(f"{relation.name} is fed by {record.source}; {source} is of another kind, which needs `connect`")
    request = FeedRequest(relation, record, place, executor, left_out)
    request.check_filter()
    return FEED_KINDS[kind](request)
