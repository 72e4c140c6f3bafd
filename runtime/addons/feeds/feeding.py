"""Apply what is new in feeds: once, for ``apply``, or again and again, for ``follow``."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...inputs.files import Reading
from ...inputs.origins import place_of_deletion, telling_places
from ...inputs.records import input_relation, refused
from ...job.report import summary
from ...kernel.errors import JobError, NothingDiffers, Passing
from ...kernel.model import Program, Relation
from ...store.batches import batch_lists
from ...store.commits import open_state, run_and_commit
from ...store.data_files import check_stored, stored_files
from ...store.extensions import FURTHER
from ...store.manifest import FeedRecord, Manifest, connected_files, is_stream
from ...store.request import Batch, Request
from ...store.set_aside import Aside, LeftOut
from ...store.stages import run_stages
from ...store.task_records import Outcome
from ...system.log import Log
from ...system.transient_errors import Troubles
from .definitions import connected_feeds, given_sources, remove_connected
from .deliveries import CommittedInputs, Staging, StoredInputs, Taken, check_outcome, take_changes, take_rows
from .feed import (
    LONGEST_BATCH_ID,
    FeedRequest,
    Look,
    OpenFeed,
    hashed_types,
    schema_hash,
    short_hash,
    way_out,
)
from .kinds import open_feed, split_source
from .stream import without_streams


@dataclass(frozen=True)
class Fed:
    """A feed with news: its request, what it has, and whether all rows are compared instead of reading changes."""

    request: FeedRequest
    feed: OpenFeed
    look: Look
    whole: bool

    @property
    def label(self) -> str:
        """The part of the batch's ID that names the range of this feed."""
        name, record = self.request.relation.name, self.request.record
        until = self.feed.label(self.look.position)
        since = self.feed.label(record.position) if record.position and not self.whole else ""
        return f"{name}@{since}..{until}"

    @property
    def record(self) -> FeedRecord:
        """The record of the feed after the batch."""
        schema = schema_hash(self.request.columns, self.look.columns)
        look = self.look
        return replace(
            self.request.record,
            table=look.table,
            position=look.position,
            schema=schema,
            marks=look.marks,
            rows=-1 if look.rows is None else look.rows,
            types=hashed_types(look.columns) if self.request.record.where else {},
        )


def looked_at(
    asked: Request,
    feeds: Mapping[str, FeedRecord],
    places: Mapping[str, str],
    resync: Iterable[str] = (),
    left_out: LeftOut | None = None,
    aside: Aside | None = None,
) -> list[Fed]:
    """Look at all feeds, each once, and return those with news. Raise JobError if one is not the table that was read
    before, or if rows of one cannot be set ``aside``. ``left_out`` is as in :class:`FeedRequest`."""
    readable = without_streams(feeds)
    for name, record in readable.items() if aside else ():
        if split_source(record.source)[0] == "kafka-debezium":
            raise JobError(
                f"--quarantine cannot set messages of {record.source} aside, which feeds {name}: later messages may "
                "leave out values that an earlier one has; leave the option out, so that wrong messages are refused"
            )
    for name in (*places, *resync):
        if name in feeds and is_stream(feeds[name]):
            raise JobError(f"{name} is fed by {feeds[name].source}: its changes cannot be read again here")
        if name not in readable:
            raise JobError(f"{name} has no feed; these have one: {', '.join(sorted(readable)) or 'none'}")
    news = []
    for name, record in sorted(readable.items()):
        relation = input_relation(asked.program, name)
        feed = open_feed(relation, record, asked.executor, places.get(name, ""), left_out)
        look = feed.look()
        place = split_source(places.get(name, record.source))[1]
        request = FeedRequest(relation, record, place, asked.executor, left_out)
        types = hashed_types(look.columns)
        others = [column for column, kind in record.types.items() if types.get(column) != kind]
        # Other columns are no obstacle, but a filter may now choose other rows among all that there are.
        fed = Fed(request, feed, look, name in resync or not record.position or bool(others))
        for column in fed.request.columns if look.columns else ():
            if column not in look.columns:
                raise refused(f"{record.source} no longer has the column {column}, which {name} is read from")
        request.check_filter(look.columns or None)
        if record.position and name not in resync:
            check_same_table(fed)
        if not fed.whole and (look.position, look.marks) == (record.position, record.marks):
            continue
        news.append(fed)
    return news


@dataclass(frozen=True)
class FirstRows:
    """The feeds that were connected before ``init``, with the rows that the state begins with."""

    root: Path
    connected: Mapping[str, FeedRecord]
    found: list[Fed]

    @property
    def records(self) -> dict[str, FeedRecord]:
        """The records of the feeds after the first commit."""
        return {**self.connected, **{fed.request.relation.name: fed.record for fed in self.found}}

    def take(self, into: Path, reading: Reading, log: Log) -> list[Taken]:
        """Stage all rows of the feeds in a folder for each relation."""
        return [take(fed, None, into / fed.request.relation.table, reading, log) for fed in self.found]

    def check(self, taken: Iterable[Taken], outcome: Any) -> None:
        """Raise Refused if rows that were taken do not fit what they led to."""
        for one in taken:
            check_outcome(one, outcome, initial=True)

    def forget(self) -> None:
        """Remove the records of connected feeds, which the first commit has replaced."""
        remove_connected(connected_files(self.root))


def initial_rows(
    request: Request,
    given: Iterable[str],
    places: str | Iterable[str] | Mapping[str, str],
    left_out: LeftOut | None = None,
    aside: Aside | None = None,
) -> FirstRows:
    """Look at the feeds that were connected before ``init``; raise JobError if one is for a relation whose rows are
    ``given``. ``places`` are other sources of feeds for this command, and ``left_out`` and
    ``aside`` are as in :func:`looked_at`."""
    root = request.root
    connected = connected_feeds(root)
    for name in given:
        if name in connected:
            raise JobError(
                f"{name} is fed by {connected[name].source}: give no rows, or `connect --remove {name}` first"
            )
    news = looked_at(request, connected, given_sources(places), left_out=left_out, aside=aside)
    return FirstRows(root, connected, news)


def check_same_table(fed: Fed) -> None:
    """Raise Refused if a feed has another table than before, or other columns where it is read."""
    record, look = fed.request.record, fed.look
    if look.table != record.table:
        raise refused(
            f"{record.source} is another table than the one that was read up to {fed.feed.label(record.position)} (its "
            f"identity is {look.table}, it was {record.table}): it was dropped and made again, or replaced",
            way_out(fed.request),
        )
    if schema_hash(fed.request.columns, look.columns) != record.schema:
        types = ", ".join(f"{name} {look.columns.get(name)}" for name in dict.fromkeys(fed.request.columns))
        raise refused(
            f"{record.source}: columns that {fed.request.relation.name} is read from have another type, or were "
            f"dropped and added again; they are now {types}",
            way_out(fed.request),
        )


def take(fed: Fed, stored: StoredInputs | None, folder: Path, reading: Reading, log: Log) -> Taken:
    """Stage what a feed has: all its rows, or the changes since it was read, of the ``stored`` ones of a state."""
    request = fed.request
    log.event("read", relation=request.relation.name, feed=request.record.source, range=fed.label)
    delivery = None if fed.whole else fed.feed.changes(request.record.position, fed.look)
    whole, delivery = delivery is None, delivery or fed.feed.rows(fed.look)
    if delivery.messages is not None:
        staged: Taken = FURTHER["take_messages"](request, delivery, stored, folder, whole, log)
        return staged
    if whole:
        # Rows that are compared as a whole have no sequences.
        staging = Staging(folder, replace(reading, sequences=None), log)
        return take_rows(request, delivery, fed.look, stored, staging)
    return take_changes(request, delivery, fed.look, Staging(folder, reading, log))


def place_taken(relation: Relation, named: str, taken: Iterable[Taken], reading: Reading) -> str:
    """Return where a feed deletes a row: the place in its change files, or the feed if it has none."""
    (one,) = (one for one in taken if one.table == relation.table)
    place = place_of_deletion(relation, named, one.origins, reading)
    return place or f" ({one.request.record.source})"


def feed_batch_id(news: Iterable[Fed], is_applied: Callable[[str], bool]) -> str:
    """Return the ID of a batch, which follows from what it covers: a batch that is tried again has the same. If the
    state has applied one with that ID, since a feed was read again from an earlier position, it gets a number."""
    batch = "+".join(fed.label for fed in news)
    if len(batch) > LONGEST_BATCH_ID:
        batch = f"feeds@{short_hash(batch)}{short_hash(batch[::-1])}"
    number, name = 1, batch
    while is_applied(name):
        number += 1
        name = f"{batch}#{number}"
    return name


def nothing_new(
    program: Program, recorded: Mapping[str, FeedRecord], batch: str, commit: int, log: Log
) -> dict[str, Any]:
    """Return the result of a command that found nothing new in any feed that a state has ``recorded``, so that it
    commits nothing after its last ``batch`` and ``commit``."""
    feeds = without_streams(recorded)
    log.event("nothing new", feeds=", ".join(sorted(feeds)))
    names = ", ".join(f"{name} ({record.source})" for name, record in sorted(feeds.items()))
    return {
        "program": program.name,
        "batch": batch,
        "commit": commit,
        "applied": False,
        "nothing_new": names,
    }


def apply_feeds(
    request: Request, places: Iterable[str] | Mapping[str, str], resync: Iterable[str], reading: Reading
) -> dict[str, Any]:
    """Apply everything that is new in the feeds of a state as one batch; commit nothing if nothing is. ``places`` are
    other sources of feeds for this batch. The rows of relations in ``resync`` are compared as a whole."""
    started = time.monotonic()
    program, root, log = request.program, request.root, request.log
    before = open_state(program, request.executor, root)
    request = request.in_buckets(before.buckets)
    if not without_streams(before.feeds) and not (places or resync):
        raise JobError("no feed is connected to this state: give --changes, or `connect` one")
    again = list(resync)
    news = looked_at(request, before.feeds, given_sources(places), again, reading.left_out, reading.aside)
    if not news:
        return nothing_new(program, before.feeds, before.batch, before.commit, log)
    applied = {name for listed in batch_lists(root, before) for name in listed.batches}
    batch = feed_batch_id(news, applied.__contains__)
    if request.options.functions:
        request.options.functions.check(before.functions)
    check_stored(root, before, stored_files(before))
    reading = ordered_feeds(reading, root, before, news)
    stored = CommittedInputs(root, before, request.executor.cores())

    def work(attempt: str) -> Outcome:
        into = root / "data" / attempt / "input"
        deliveries = [take(fed, stored, into / fed.request.relation.table, reading, log) for fed in news]
        if not any(fed.look.versioned for fed in news) and all(one.effect == (0, 0) for one in deliveries):
            raise NothingDiffers
        staged = {one.table: one.files for one in deliveries}
        also = reading.with_sequences(staged)
        with telling_places(program, lambda relation, named: place_taken(relation, named, deliveries, reading)):
            outcome = run_stages(request, before, staged, attempt, also=also)
        for one in deliveries:
            check_outcome(one, outcome, initial=False)
        return outcome

    feeds = {**before.feeds, **{fed.request.relation.name: fed.record for fed in news}}
    try:
        manifest = run_and_commit(request, before, Batch(batch, feeds=feeds, **reading.told), work)
    except NothingDiffers:
        return nothing_new(program, before.feeds, before.batch, before.commit, log)
    return summary(program, root, manifest, started)


def ordered_feeds(reading: Reading, root: Path, before: Manifest, news: Iterable[Fed]) -> Reading:
    """Return how to read the changes of feeds, of which only those of change files may be ordered by a column. Raise
    JobError if that does not fit the sequences that relations keep."""
    for fed in news:
        name = fed.request.relation.name
        if name in before.sequences and (fed.whole or split_source(fed.request.record.source)[0] != "files"):
            raise JobError(
                f"{name} keeps the sequence of each key, and rows of {fed.request.record.source} have none: "
                f"`vacuum --forget-sequences {name}` gives the sequences up"
            )
    return reading.in_order(root, before, [fed.request.relation.name for fed in news])


def follow_feeds(
    apply: Callable[[], dict[str, Any]],
    poll: float,
    told: Callable[[dict[str, Any]], None],
    log: Log,
    ended: threading.Event,
    troubled: Callable[[Passing], None] | None = None,
) -> None:
    """Apply what is new in feeds every ``poll`` seconds, until ``ended`` is set; call ``told`` with the result of each
    batch. After an error that may pass, call ``troubled`` and try again, after pauses that grow. Raise JobError for a
    batch that is refused."""
    troubles = Troubles(log)
    while not ended.is_set():
        try:
            result = apply()
        except Passing as error:
            pause = troubles.note(str(error))
            if troubled:
                troubled(error)
            ended.wait(pause)
            continue
        troubles.over()
        if result["applied"]:
            told(result)
        else:
            ended.wait(poll)


FURTHER.update(apply_feeds=apply_feeds, initial_rows=initial_rows, follow_feeds=follow_feeds)
