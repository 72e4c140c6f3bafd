"""The command ``connect``: say which feeds the rows of input relations come from, and which tables output relations are
kept as."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...inputs.records import input_relation
from ...job.command_line import request_of
from ...job.report import feed_text, feeds_said
from ...kernel.errors import JobError
from ...kernel.model import Program
from ...store.batches import new_batch_id
from ...store.commits import open_state, run_and_commit
from ...store.executors import Executor
from ...store.extensions import FURTHER
from ...store.manifest import NO_TABLES, FeedRecord, commit_numbers, read_state
from ...store.request import Batch
from ...store.task_records import Outcome
from ...system.log import Log
from ...system.transient_errors import obstacles_pass
from ..tables.tables import check_tables, given_tables, tables_at
from .definitions import connected_feeds, defined_feeds, write_connected
from .feed import FeedRequest
from .kinds import open_feed, recorded_source

if TYPE_CHECKING:
    from ...spark.types import SparkSession


@obstacles_pass()
def connect_feeds(
    program: Program,
    spark: SparkSession | Executor | None,
    state: str,
    sources: str | Iterable[str] | Mapping[str, str] = (),
    feeds: str | None = None,
    remove: Iterable[str] = (),
    publish: str | None = None,
    log: Log | None = None,
) -> dict[str, Any]:
    """Connect input relations with feeds, given as ``REL=SOURCE`` or in the file ``feeds``, and disconnect those in
    ``remove``. With ``publish``, keep output relations as tables at this place, such as ``delta:/lake/views`` or
    ``iceberg:lake.views``, or no longer for ``none``. Before ``init`` feeds are recorded beside the state; afterwards
    that is a commit. A relation that is connected anew, or whose columns or filter change, is compared with its feed as
    a whole by the next ``apply``. Each feed is opened, and must have the columns."""
    request = request_of(program, spark, state, log)
    executor, root, log = request.executor, request.root, request.log
    built = bool(commit_numbers(root))
    if publish and not built:
        raise JobError("there is no state yet: give --publish to `init`")
    own = read_state(root).tables if built else NO_TABLES
    place = own.place
    tables = given_tables(publish) if publish else place
    # Also a copy of the state that has them may take them over, if it is told to.
    other = tables != place or bool(publish and not own.belong_to(root))
    if other:
        check_tables(program, tables)
    # Tables that cannot be written are no reason to stay with them.
    before = open_state(program, executor, root, tables=not other) if built else None
    connected = before.feeds if before else connected_feeds(root)
    removed = [remove] if isinstance(remove, str) else list(remove)
    added = bool(sources or feeds or not (removed or publish))
    now = connected_with(program, executor, connected, removed, (sources, feeds) if added else None, log)
    applied = other or dict(connected) != now
    result: dict[str, Any] = {"program": program.name, "applied": applied, "feeds": feeds_said(now)}
    result["tables"] = tables_at(program, tables)
    if before is None:
        if result["applied"]:
            write_connected(root, now)
        return {**result, "commit": 0}
    if not result["applied"]:
        return {**result, "commit": before.commit}

    def work(attempt: str) -> Outcome:
        return Outcome.of(before, before.buckets)

    batch = new_batch_id(root, before, "connect")
    recorded = Batch(batch, "connect", feeds=now, tables=tables)
    manifest = run_and_commit(request, before, recorded, work)
    return {**result, "commit": manifest.commit}


def connected_with(
    program: Program,
    executor: Executor,
    connected: Mapping[str, FeedRecord],
    removed: Iterable[str],
    added: tuple[str | Iterable[str] | Mapping[str, str], str | None] | None,
    log: Log,
) -> dict[str, FeedRecord]:
    """Return the feeds that are ``connected``, without those in ``removed``, with those that are ``added`` as sources
    and a file of definitions. Raise JobError for one that cannot be opened or lacks a column."""
    for name in removed:
        if name not in connected:
            raise JobError(f"{name} has no feed; these have one: {', '.join(sorted(connected)) or 'none'}")
    now = {name: record for name, record in connected.items() if name not in removed}
    for name, record in defined_feeds(program, *added, connected).items() if added else ():
        check_columns(program, executor, name, record)
        old = connected.get(name)
        clean = replace(record, source=recorded_source(record.source))
        # The same columns of the same rows: the identity of the table tells whether the place is right.
        same = old is not None and (old.columns, old.where) == (clean.columns, clean.where)
        kind = clean.source.partition(":")[0]
        kept = old is not None and same and old.source.partition(":")[0] == kind
        now[name] = replace(old, source=clean.source) if old is not None and kept else clean
        log.event("connected", relation=name, source=clean.source)
    return now


def check_columns(program: Program, executor: Executor, name: str, record: FeedRecord) -> None:
    """Raise JobError if a feed cannot be opened, or lacks a column."""
    relation = input_relation(program, name)
    look = open_feed(relation, record, executor).look()
    if not look.columns:
        return
    request = FeedRequest(relation, record, "", executor)
    request.check_filter(look.columns)
    for column in request.columns:
        if column not in look.columns:
            similar = [other for other in look.columns if other.lower() == column.lower()]
            hint = f"; there is {similar[0]}, but names are matched exactly" if similar else ""
            raise JobError(
                f"{record.source} has no column {column}{hint}; give its name for {name} in a file of feeds: "
                f'columns = {{ {column} = "..." }}'
            )


def report_connect(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines that list the feeds."""
    if not result["applied"]:
        yield "nothing to do: this is connected already"
    for name, feed in result["feeds"].items():
        yield f"  {name}: {feed_text(feed)}"
    if not result["feeds"]:
        yield "  no feeds"
    for name, table in result["tables"].items():
        yield f"  {name} is kept as {table}"


FURTHER["connect"] = connect_feeds
