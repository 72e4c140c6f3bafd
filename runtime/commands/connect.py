"""The command ``connect``: say which feeds the rows of input relations come from, and which tables output relations are
kept as."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..batches import new_batch_id
from ..commits import open_state, run_and_commit
from ..errors import JobError
from ..executors import Executor, executor_of
from ..feeds.definitions import connected_feeds, defined_feeds, write_connected
from ..feeds.feed import FeedRequest
from ..feeds.kinds import open_feed, recorded_source
from ..inputs.records import input_relation
from ..log import Log
from ..manifest import PUBLISHED, FeedRecord, commit_numbers, read_state
from ..model import Program
from ..obstacles import obstacles_pass
from ..outputs.tables import check_tables, given_tables, tables_at
from ..parts import FURTHER
from ..places import given_place
from ..task import Outcome
from .report import REPORTS, feed_text, feeds_said

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
    log, executor = log or Log(), executor_of(spark)
    root = given_place(state)
    built = bool(commit_numbers(root))
    if publish and not built:
        raise JobError("there is no state yet: give --publish to `init`")
    place = read_state(root).tables.place if built else ""
    tables = given_tables(publish) if publish else place
    if tables != place:
        check_tables(program, tables)
    # Tables that cannot be written are no reason to stay with them.
    before = open_state(program, executor, root, tables=tables == place) if built else None
    known = before.feeds if before else connected_feeds(root)
    removed = [remove] if isinstance(remove, str) else list(remove)
    for name in removed:
        if name not in known:
            raise JobError(f"{name} has no feed; these have one: {', '.join(sorted(known)) or 'none'}")
    now = {name: record for name, record in known.items() if name not in removed}
    added = defined_feeds(program, sources, feeds, known) if sources or feeds or not (removed or publish) else {}
    for name, record in added.items():
        check_columns(program, executor, name, record)
        old = known.get(name)
        clean = replace(record, source=recorded_source(record.source))
        # The same columns of the same rows: the identity of the table tells whether the place is right.
        same = old is not None and (old.columns, old.where) == (clean.columns, clean.where)
        kind = clean.source.partition(":")[0]
        kept = old is not None and same and old.source.partition(":")[0] == kind
        now[name] = replace(old, source=clean.source) if old is not None and kept else clean
        log.event("connected", relation=name, source=clean.source)
    applied = (dict(known), place) != (now, tables)
    result: dict[str, Any] = {"program": program.name, "applied": applied, "feeds": feeds_said(now)}
    result["tables"] = tables_at(program, tables)
    if before is None:
        if result["applied"]:
            write_connected(root, now)
        return {**result, "commit": 0}
    if not result["applied"]:
        return {**result, "commit": before.commit}

    def work(attempt: str) -> Any:
        return Outcome.of(before, before.buckets), {}, {}

    batch = new_batch_id(root, before, "connect")
    manifest = run_and_commit(
        program,
        executor,
        root,
        before,
        batch,
        PUBLISHED,
        None,
        log,
        work,
        feeds=now,
        command="connect",
        tables=tables,
    )
    return {**result, "commit": manifest.commit}


def check_columns(program: Program, executor: Executor, name: str, record: FeedRecord) -> None:
    """Raise JobError if a feed cannot be opened, or lacks a column."""
    relation = input_relation(program, name)
    look = open_feed(relation, record, executor).look()
    if not look.columns:
        return
    for column in FeedRequest(relation, record, "", executor).columns:
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
REPORTS["connect"] = report_connect
