"""Feeds of states in one SQLite file, for ``flintlog job``: connect them, and apply what is new in them.

What a feed delivers is staged as for a state in a folder. The file records the feeds; what was read of one, and the
changes that this led to, are in one transaction.
"""

from __future__ import annotations

import contextlib
import itertools
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ...database.command_list import add_log, add_state_file, report_file_status
from ...database.commands import (
    FileBatch,
    apply_given,
    batch_summary,
    follow_folder,
    opened_by,
    status_file,
)
from ...database.job_commands import ALL_FILE_COMMANDS
from ...database.passing_time import advance_file
from ...database.reading import RowReading, StoredChange, row_storing
from ...database.state import DatabaseState, Result, open_file_state
from ...engines.arrow import ROWS_AT_ONCE, arrow_type
from ...engines.duckdb import DuckEngine
from ...inputs.files import Reading
from ...inputs.origins import telling_places
from ...inputs.values import REMOVE_KEY
from ...job.command_line import Command, CommandCall
from ...job.report import feed_text, feeds_said
from ...kernel.errors import JobError, Passing
from ...kernel.model import Program, Relation
from ...kernel.sql import names
from ...kernel.values import stored_row
from ...row_kernel.model import RowProgram, RowRelation
from ...store.executors import LocalExecutor
from ...store.manifest import FeedRecord
from ...store.request import Request
from ...store.sealed_records import from_json
from ...system.ended import until_signal
from ...system.log import Log
from ...system.machine import available_cores
from . import folder, iceberg, kafka_debezium, spark_delta, topic_staging
from .connect import connected_with, report_connect
from .definitions import given_sources
from .deliveries import Taken, check_taken
from .feeding import feed_batch_id, follow_feeds, looked_at, nothing_new, place_taken, take
from .sources import add_feed, add_resync, add_sources

assert all((folder, iceberg, kafka_debezium, spark_delta, topic_staging)), "registered"

SIGNS = {"<": "-", ">": "+"}
"""The sign by which the image of a row before or after an update is applied."""


def as_columns(relation: RowRelation) -> Relation:
    """Return an input relation as code that reads columns knows it."""
    return Relation(
        relation.name,
        relation.table,
        relation.columns,
        relation.kind,
        relation.source,
        key=relation.key,
        copy=relation.copy,
        file=relation.file,
    )


def request_on(database: DatabaseState, executor: LocalExecutor, log: Log) -> Request:
    """Return a request for the input relations of a state."""
    program = database.program
    inputs = tuple(map(as_columns, program.inputs.values()))
    own = Program(program.name, program.sha256, program.compiler, inputs, ())
    return Request(own, executor, Path(database.path), log)


def feeds_of(database: DatabaseState) -> dict[str, FeedRecord]:
    """Return the feeds of the inputs of a state; raise JobError if their record is damaged."""
    try:
        feeds: Mapping[str, FeedRecord] = from_json(Mapping[str, FeedRecord], database.feeds)
    except ValueError as error:
        raise JobError(f"{database.path} is damaged: of its feeds, {error}; restore it from a copy") from error
    return {name: record for name, record in feeds.items() if name in database.program.inputs}


def record_feeds(database: DatabaseState, feeds: Mapping[str, FeedRecord]) -> None:
    """Let a state have these feeds, in the transaction that is open."""
    database.record("feeds", {name: asdict(record) for name, record in feeds.items()})


@dataclass(frozen=True)
class FileInputs:
    """The rows of the inputs in a file, before a batch."""

    database: DatabaseState
    folder: Path

    def count(self, relation: Relation) -> int:
        """Return how many rows a relation has."""
        return self.database.commit.rows[relation.table]

    @contextlib.contextmanager
    def rows(self, relation: Relation) -> Iterator[tuple[DuckEngine, str]]:
        """Yield DuckDB, and a query for the rows of a relation."""
        stored = self.database.program.inputs[relation.name]
        schema = pa.schema([(column.sql, arrow_type(column.type)) for column in relation.columns])
        path = self.folder / f"{relation.table}-stored.parquet"
        with self.database.reading():
            rows = (row[: len(relation.columns)] for row in self.database.rows(stored))
            write_rows(path, schema, (stored_row(relation.columns, row) for row in rows))
        with contextlib.closing(DuckEngine(threads=available_cores(), state=str(self.folder))) as engine:
            yield engine, f"SELECT {names(relation.columns)} FROM {engine.files([str(path)])}"


def write_rows(path: Path, schema: pa.Schema, rows: Iterator[tuple[Any, ...]]) -> None:
    """Write stored rows to a file of Parquet, a part at a time."""
    with pq.ParquetWriter(path, schema, use_dictionary=False) as writer:
        while some := list(itertools.islice(rows, ROWS_AT_ONCE)):
            columns = zip(*some, strict=True)
            arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))


def staged_changes(taken: Taken, relation: RowRelation) -> Iterator[StoredChange]:
    """Yield the changes that a feed has led to, as rows of the file."""
    stored = row_storing(relation)
    for file in taken.files:
        with Path(file).open("rb") as content:
            for batch in pq.ParquetFile(content).iter_batches(ROWS_AT_ONCE):
                signs = batch.column("_op").to_pylist()
                columns = [batch.column(column.sql).to_pylist() for column in relation.columns]
                for sign, *row in zip(signs, *columns, strict=True):
                    yield sign if sign == REMOVE_KEY else SIGNS.get(sign, sign), stored(row)


def apply_file_feeds(
    database: DatabaseState,
    executor: LocalExecutor,
    feeds: Iterable[str],
    resync: Iterable[str],
    read: RowReading,
    log: Log,
) -> Result:
    """Apply everything that is new in the feeds of a state as one batch; commit nothing if nothing is. ``feeds`` are
    other sources for this batch. The rows of relations in ``resync`` are compared as a whole. Raise Passing if another
    process commits meanwhile."""
    started = time.monotonic()
    for option, given in (("--order-column", read.order_column), ("--quarantine", read.quarantine)):
        if given:
            raise JobError(f"a state in a file takes {option} for --changes and --batches only: leave it out for feeds")
    request = request_on(database, executor, log)
    with database.reading():
        before, commit = feeds_of(database), database.commit
    if not before and database.program.clock is None:
        raise JobError("no feed is connected to this state: give --changes or --batches, or `connect` one")
    reading = Reading(False, read.op_column, "", read.net or "", read.all_inserts, read.left_out)
    news = looked_at(request, before, given_sources(feeds), list(resync), reading.left_out)
    if not news:
        return nothing_new(request.program, before, commit.batch, commit.number, log)
    batch = feed_batch_id(news, lambda name: database.commit_of_batch(name) is not None)
    with tempfile.TemporaryDirectory(prefix="flintlog-") as name:
        into = Path(name)
        stored = FileInputs(database, into)
        deliveries = [take(fed, stored, into / fed.request.relation.table, reading, log) for fed in news]
        if not any(fed.look.versioned for fed in news) and all(one.effect == (0, 0) for one in deliveries):
            return nothing_new(request.program, before, commit.batch, commit.number, log)
        changes = {
            one.table: [*staged_changes(one, database.program.inputs[one.request.relation.name])] for one in deliveries
        }
        with database.transaction():
            database.check_order(changes)
            if (feeds_of(database), database.commit.number) != (before, commit.number):
                raise Passing(f"another process has changed {database.path} while feeds were read")
            with telling_places(request.program, lambda about, text: place_taken(about, text, deliveries, reading)):
                record = database.apply(changes, batch)
            for one in deliveries:
                effect = record.changes.get(one.table, (0, 0))
                check_taken(one, record.rows[one.table], (effect[0], effect[1]))
            now = {fed.request.relation.name: fed.record for fed in news}
            record_feeds(database, before | now)
    return batch_summary(database, record, FileBatch("apply", batch, log, started), reading.left_out)


def connect_file_feeds(
    program: RowProgram, state: str, sources: Iterable[str], feeds: str | None, remove: Iterable[str], log: Log
) -> Result:
    """Connect input relations with feeds, given as ``REL=SOURCE`` or in the file ``feeds``, and disconnect those in
    ``remove``; their rows stay."""
    with open_file_state(program, state) as database, LocalExecutor() as executor:
        request = request_on(database, executor, log)
        before = feeds_of(database)
        added = (sources, feeds) if sources or feeds or not remove else None
        now = connected_with(request.program, executor, before, remove, added, log)
        if now != before:
            with database.transaction():
                if feeds_of(database) != before:
                    raise Passing(f"another process has connected feeds of {state} meanwhile")
                record_feeds(database, now)
        return {
            "program": program.name,
            "applied": now != before,
            "feeds": feeds_said(now),
            "tables": {},
            "commit": database.commit.number,
        }


# Commands


def apply_given_or_fed(call: CommandCall) -> None:
    """Apply what is given, or what is new in feeds."""
    options = call.options
    feeds, resync = options.pop("feeds"), options.pop("resync")
    if options["changes"] or options["batches"]:
        if feeds or resync:
            raise JobError("--feed and --resync are for feeds: leave --changes and --batches out")
        return apply_given(call)
    if options.pop("batch"):
        raise JobError("--batch is for changes that are given: the ID of a batch of feeds follows from what it covers")
    state = options.pop("state")
    del options["changes"], options["batches"]
    with opened_by(call, state, options) as database, LocalExecutor() as executor:
        result = apply_file_feeds(database, executor, feeds, resync, RowReading(False, **options), call.log)
        call.tell(result if result["applied"] else advance_file(database, call.log) or result)
    return None


def follow_given_or_fed(call: CommandCall) -> None:
    """Apply batches, or what is new in feeds, until a signal."""
    options, log, ended = call.options, call.log, until_signal()
    feeds = options.pop("feeds")
    if options["batches"]:
        return follow_folder(call)
    state, poll = options.pop("state"), options.pop("poll")
    del options["batches"]
    with (
        contextlib.suppress(KeyboardInterrupt),
        opened_by(call, state, options) as database,
        LocalExecutor(keep=True) as executor,
    ):

        def apply() -> Result:
            result = apply_file_feeds(database, executor, feeds, (), RowReading(False, **options), log)
            return result if result["applied"] else advance_file(database, log) or result

        follow_feeds(apply, poll, call.tell, log, ended)
    return None


def status_with_feeds(call: CommandCall) -> Result:
    """Return what the state contains, and its feeds."""
    with open_file_state(call.program, call.options["state"]) as database:
        feeds = feeds_said(feeds_of(database))
    return {**status_file(call.program, **call.options), "feeds": feeds}


def report_with_feeds(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines that describe the state and its feeds."""
    yield from report_file_status(result)
    for name, feed in result["feeds"].items():
        yield f"  {name} is fed by {feed_text(feed)}"


def with_feeds(command: Command) -> Command:
    """Return a command that also knows feeds."""
    if command.name == "apply":
        return replace(command, options=(*command.options, add_feed, add_resync), run=apply_given_or_fed)
    if command.name == "follow":
        description = "Apply what is new in the connected feeds again and again, or the batches in a folder, and those"
        _, _, rest = command.description.partition(", and those")
        return replace(
            command, description=f"{description}{rest}", options=(*command.options, add_feed), run=follow_given_or_fed
        )
    return replace(command, run=status_with_feeds, report=report_with_feeds) if command.name == "status" else command


FED_FILE_COMMANDS = (
    *map(with_feeds, ALL_FILE_COMMANDS),
    Command(
        "connect",
        "connect relations with feeds",
        "Say which feeds the rows of input relations come from. `apply` and `follow` then read what is new in them. "
        "Sources are delta:TABLE (the path or URI of a Delta table), iceberg:CATALOG/NAMESPACE.TABLE, "
        "kafka-debezium://BROKER:PORT/TOPIC and files:DIR (a folder of change files).",
        (add_state_file, add_log, add_sources),
        lambda call: connect_file_feeds(call.program, log=call.log, **call.options),
        report_connect,
    ),
)
"""The commands of ``flintlog job`` for a state in one SQLite file."""
