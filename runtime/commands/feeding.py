"""Apply what is new in feeds: once, for ``apply``, or again and again, for ``follow``."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..batches import batch_lists
from ..commits import open_state, run_and_commit
from ..errors import JobError, NothingDiffers, Passing
from ..executors import Executor
from ..feeds.definitions import connected_feeds, given_sources, remove_connected
from ..feeds.deliveries import Taken, check_taken, take_changes, take_rows
from ..feeds.feed import LONGEST_BATCH_ID, FeedRequest, Look, OpenFeed, schema_hash, short_hash, way_out
from ..feeds.kinds import open_feed, split_source
from ..feeds.stream import without_streams
from ..inputs.aside import Aside
from ..inputs.files import Reading
from ..inputs.late import reading_in_order, sequences_in
from ..inputs.nulls import LeftOut
from ..inputs.origins import place_of_deletion, telling_places
from ..inputs.records import input_relation, refused
from ..log import Log
from ..manifest import FeedRecord, Manifest, connected_files, is_stream
from ..model import Program, Relation
from ..options import Options
from ..parts import FURTHER
from ..places import given_place
from ..stages import run_stages
from ..stored import check_stored, stored_files
from .report import summary

LONGEST_FEED_WAIT = 30.0
"""The longest pause, in seconds, before feeds are read again after an error that may pass."""


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
        return replace(self.request.record, table=self.look.table, position=self.look.position, schema=schema)


def looked_at(
    program: Program,
    executor: Executor,
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
    found = []
    for name, record in sorted(readable.items()):
        relation = input_relation(program, name)
        feed = open_feed(relation, record, executor, places.get(name, ""), left_out)
        look = feed.look()
        place = split_source(places.get(name, record.source))[1]
        request = FeedRequest(relation, record, place, executor, left_out)
        fed = Fed(request, feed, look, name in resync or not record.position)
        for column in fed.request.columns if look.columns else ():
            if column not in look.columns:
                raise refused(f"{record.source} no longer has the column {column}, which {name} is read from")
        if not fed.whole:
            check_same_table(fed)
            if look.position == record.position:
                continue
        found.append(fed)
    return found


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
        return [take(fed, self.root, None, into / fed.request.relation.table, reading, log) for fed in self.found]

    def check(self, taken: Iterable[Taken], outcome: Any) -> None:
        """Raise Refused if rows that were taken do not fit what they led to."""
        for one in taken:
            check_taken(one, outcome, initial=True)

    def forget(self) -> None:
        """Remove the records of connected feeds, which the first commit has replaced."""
        remove_connected(connected_files(self.root))


def initial_rows(
    program: Program,
    executor: Executor,
    root: Path,
    given: Iterable[str],
    places: str | Iterable[str] | Mapping[str, str],
    left_out: LeftOut | None = None,
    aside: Aside | None = None,
) -> FirstRows:
    """Look at the feeds that were connected before ``init``; raise JobError if one is for a relation whose rows are
    ``given``. ``places`` are other sources of feeds for this command, and ``left_out`` and
    ``aside`` are as in :func:`looked_at`."""
    connected = connected_feeds(root)
    for name in given:
        if name in connected:
            raise JobError(
                f"{name} is fed by {connected[name].source}: give no rows, or `connect --remove {name}` first"
            )
    found = looked_at(program, executor, connected, given_sources(places), left_out=left_out, aside=aside)
    return FirstRows(root, connected, found)


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


def take(fed: Fed, root: Path, before: Manifest | None, folder: Path, reading: Reading, log: Log) -> Taken:
    """Stage what a feed has: all its rows, or the changes since it was read."""
    request = fed.request
    log.event("read", relation=request.relation.name, feed=request.record.source, range=fed.label)
    delivery = None if fed.whole else fed.feed.changes(request.record.position, fed.look)
    whole, delivery = delivery is None, delivery or fed.feed.rows(fed.look)
    if delivery.messages is not None:
        found: Taken = FURTHER["take_messages"](request, delivery, root, before, folder, whole, log)
        return found
    if whole:
        # Rows that are compared as a whole have no sequences.
        whole_reading = replace(reading, sequences=None)
        return take_rows(request, delivery, fed.look, root, before, folder, whole_reading, log)
    return take_changes(request, delivery, fed.look, folder, reading, log)


def place_taken(relation: Relation, named: str, taken: Iterable[Taken], reading: Reading) -> str:
    """Return where a feed deletes a row: the place in its change files, or the feed if it has none."""
    (one,) = (one for one in taken if one.table == relation.table)
    found = place_of_deletion(relation, named, one.origins, reading)
    return found or f" ({one.request.record.source})"


def feed_batch_id(root: Path, before: Manifest, found: Iterable[Fed]) -> str:
    """Return the ID of a batch, which follows from what it covers: a batch that is tried again has the same. If a batch
    of the state has it, since a feed was read again from an earlier position, it gets a number."""
    batch = "+".join(fed.label for fed in found)
    if len(batch) > LONGEST_BATCH_ID:
        batch = f"feeds@{short_hash(batch)}{short_hash(batch[::-1])}"
    known = {name for listed in batch_lists(root, before) for name in listed.batches}
    number, name = 1, batch
    while name in known:
        number += 1
        name = f"{batch}#{number}"
    return name


def nothing_new(program: Program, before: Manifest, log: Log) -> dict[str, Any]:
    """Return the result of a command that found nothing new in any feed, so that it commits nothing."""
    feeds = without_streams(before.feeds)
    log.event("nothing new", feeds=", ".join(sorted(feeds)))
    names = ", ".join(f"{name} ({record.source})" for name, record in sorted(feeds.items()))
    return {
        "program": program.name,
        "batch": before.batch,
        "commit": before.commit,
        "applied": False,
        "nothing_new": names,
    }


def apply_feeds(
    program: Program,
    executor: Executor,
    state: str,
    places: Iterable[str] | Mapping[str, str],
    resync: Iterable[str],
    reading: Reading,
    where: str,
    by: str,
    options: Callable[[int], Options],
    log: Log,
) -> dict[str, Any]:
    """Apply everything that is new in the feeds of a state as one batch; commit nothing if nothing is. ``places`` are
    other sources of feeds for this batch. The rows of relations in ``resync`` are compared as a whole."""
    started = time.monotonic()
    root = given_place(state)
    before = open_state(program, executor, root)
    if not without_streams(before.feeds) and not (places or resync):
        raise JobError("no feed is connected to this state: give --changes, or `connect` one")
    again = list(resync)
    found = looked_at(program, executor, before.feeds, given_sources(places), again, reading.left_out, reading.aside)
    if not found:
        return nothing_new(program, before, log)
    batch = feed_batch_id(root, before, found)
    chosen = options(before.buckets)
    if chosen.functions:
        chosen.functions.check(before.functions)
    check_stored(root, before, stored_files(before))
    reading = ordered_feeds(reading, root, before, found)

    def work(attempt: str) -> Any:
        into = root / "data" / attempt / "input"
        taken = [take(fed, root, before, into / fed.request.relation.table, reading, log) for fed in found]
        if not any(fed.look.versioned for fed in found) and all(one.effect == (0, 0) for one in taken):
            raise NothingDiffers
        staged = {one.table: one.files for one in taken}
        also = sequences_in(reading, staged)
        with telling_places(program, lambda relation, named: place_taken(relation, named, taken, reading)):
            outcome = run_stages(executor, program, before, staged, str(root), attempt, chosen, log, False, also=also)
        for one in taken:
            check_taken(one, outcome, initial=False)
        return outcome, outcome.changes, outcome.counts

    feeds = {**before.feeds, **{fed.request.relation.name: fed.record for fed in found}}
    supplied = chosen.functions
    try:
        manifest = run_and_commit(
            program,
            executor,
            root,
            before,
            batch,
            where,
            supplied,
            log,
            work,
            True,
            by,
            feeds=feeds,
            left_out=reading.left_out,
            aside=reading.aside,
            sequences=reading.sequences.records if reading.sequences else None,
            late=reading.sequences.late if reading.sequences else None,
        )
    except NothingDiffers:
        return nothing_new(program, before, log)
    return summary(program, root, manifest, started)


def ordered_feeds(reading: Reading, root: Path, before: Manifest, found: Iterable[Fed]) -> Reading:
    """Return how to read the changes of feeds, of which only those of change files may be ordered by a column. Raise
    JobError if that does not fit the sequences that relations keep."""
    for fed in found:
        name = fed.request.relation.name
        if name in before.sequences and (fed.whole or split_source(fed.request.record.source)[0] != "files"):
            raise JobError(
                f"{name} keeps the sequence of each key, and rows of {fed.request.record.source} have none: "
                f"`vacuum --forget-sequences {name}` gives the sequences up"
            )
    return reading_in_order(reading, root, before, [fed.request.relation.name for fed in found])


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
    pause = poll
    while not ended.is_set():
        try:
            result = apply()
        except Passing as error:
            pause = min(2 * max(pause, 0.1), LONGEST_FEED_WAIT)
            log.event("trouble", error=str(error), again_in=pause)
            if troubled:
                troubled(error)
            ended.wait(pause)
            continue
        pause = poll
        if result["applied"]:
            told(result)
        else:
            ended.wait(poll)


FURTHER.update(apply_feeds=apply_feeds, initial_rows=initial_rows, follow_feeds=follow_feeds)
