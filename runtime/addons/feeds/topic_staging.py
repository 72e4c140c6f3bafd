"""Stage the messages of a topic as the net changes of a batch."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from ...inputs.net import Netting, first_rows, reader_of, row_text, write_query
from ...inputs.records import refused
from ...inputs.values import REMOVE_KEY
from ...kernel.errors import JobError
from ...kernel.model import Relation
from ...kernel.sql import names
from ...kernel.values import plain_row
from ...store.extensions import FURTHER
from ...system.log import Log
from ...system.places import exposed, rows_of_file
from .debezium_events import TRUNCATED
from .debezium_messages import SNAPSHOT_BEGINS
from .deliveries import StoredInputs, Taken, difference, net_of_images, signs_of
from .feed import Delivery, FeedRequest
from .kafka_client import settings_file, topic_address

SECONDS_BETWEEN_REPORTS = 2.0


def take_messages(
    request: FeedRequest, delivery: Delivery, stored: StoredInputs | None, folder: Path, whole: bool, log: Log
) -> Taken:
    """Stage what messages change. If they tell all rows (``whole``), or those since a TRUNCATE do, that is the
    difference to what the state has."""
    relation = request.relation
    if warning := exposed(settings_file(topic_address(request.place))):
        log.warn(warning)
    with Netting(request.executor.kept) as netting:
        staged = stage_messages(request, delivery, folder, log)
        if stored is not None and not whole:
            warn_of_snapshot(netting, request, staged, stored, log)
        truncated = last_truncation(netting, staged)
        begin = -1 if truncated is None else truncated
        whole = whole or truncated is not None
        if relation.key:
            check_partitions(netting, request, staged)
            if delivery.complete and truncated is None:
                check_beginnings(netting, request, staged)
            path = last_of_keys(netting, request, staged, begin, None if whole else stored, folder)
        else:
            images = folder / "images.parquet"
            columns = names(relation.row_columns)
            sql = f"SELECT {columns}, _op FROM rows WHERE _op <> '{TRUNCATED}' AND _order > {begin}"
            write_query(netting.engine, [staged], sql, images)
            path = net_of_images(netting, request, images, folder)
            if whole and signs_of(path)[1]:
                gone, _ = first_rows(netting.engine, path, f"SELECT {columns} FROM rows WHERE _op = '-'")
                raise incomplete(request, request.relation.columns, gone[0])
        if not whole:
            return Taken(request, [str(path)], None if relation.key else signs_of(path))
        present = folder / "present.parquet"
        columns = names(relation.row_columns)
        write_query(netting.engine, [path], f"SELECT {columns}, '+' AS _op FROM rows WHERE _op = '+'", present)
    if stored is None:
        return Taken(request, [str(present)], None, rows_of_file(present))
    changes = difference(request, stored, [present], folder)
    return Taken(request, [str(changes)], signs_of(changes))


def stage_messages(request: FeedRequest, delivery: Delivery, folder: Path, log: Log) -> Path:
    """Stage messages as they come, and return the file; report how many there were so far."""
    assert delivery.messages is not None
    folder.mkdir(parents=True, exist_ok=True)
    path, count, told = folder / "messages.parquet", 0, time.monotonic()
    with path.open("wb") as content, pq.ParquetWriter(content, delivery.schema) as writer:
        for table in delivery.messages:
            count += table.num_rows
            if table.num_rows:
                writer.write_table(table)
            if time.monotonic() - told > SECONDS_BETWEEN_REPORTS:
                told = time.monotonic()
                log.event("reading", relation=request.relation.name, changes=count)
    return path


def warn_of_snapshot(netting: Netting, request: FeedRequest, staged: Path, stored: StoredInputs, log: Log) -> None:
    """Warn that the connector has begun anew: what was deleted while it did not read the table is not told."""
    begins = f"SELECT _order FROM rows WHERE \"its operation\" = '{SNAPSHOT_BEGINS}'"
    if stored.count(request.relation) and first_rows(netting.engine, staged, begins)[1]:
        log.warn(
            f"{request.record.source}: the connector has taken a snapshot of the table again. If it had lost its "
            f"position, rows that were deleted meanwhile are still in {request.relation.name}: then let it write to a "
            "new topic, and connect that"
        )


def last_truncation(netting: Netting, staged: Path) -> int | None:
    """Return the order of the last TRUNCATE, None if there is none."""
    orders, _ = first_rows(
        netting.engine, staged, f"SELECT MAX(_order) AS n FROM rows WHERE _op = '{TRUNCATED}' HAVING COUNT(*) > 0"
    )
    return int(orders[0][0]) if orders else None


def check_partitions(netting: Netting, request: FeedRequest, staged: Path) -> None:
    """Raise Refused if changes of a key are in two partitions: messages have an order within a partition only."""
    key = ", ".join(request.relation.key)
    twice = f"""SELECT {key}, MIN("its partition"), MAX("its partition") FROM rows WHERE _op <> '{TRUNCATED}'
        GROUP BY {key} HAVING MIN("its partition") <> MAX("its partition")"""
    keys, _ = first_rows(netting.engine, staged, twice)
    if keys:
        *values, one, other = keys[0]
        raise refused(
            f"{request.record.source}: changes of the row with {key_text(request, values)} are in the partitions {one} "
            f"and {other}, so their order is unknown, since partitions were added or messages have no key",
            "let the connector write to a new topic, whose number of partitions stays as it is",
        )


def check_beginnings(netting: Netting, request: FeedRequest, staged: Path) -> None:
    """Raise Refused if the first message about a key says that its row was there before: messages are missing."""
    key = ", ".join(request.relation.key)
    first = f"""SELECT {key} FROM (
            SELECT {key}, "its operation" FROM rows QUALIFY ROW_NUMBER() OVER (PARTITION BY {key} ORDER BY _order) = 1
        ) WHERE "its operation" IN ('u', 'd', 'tombstone')"""
    keys, _ = first_rows(netting.engine, staged, first)
    if keys:
        columns = [column for column in request.relation.columns if column.sql in request.relation.key]
        raise incomplete(request, columns, keys[0])


def incomplete(request: FeedRequest, columns: Any, row: Any) -> JobError:
    """Return the error for a topic that changes or deletes a row that it never created."""
    text = row_text([column.name for column in columns], plain_row(columns, row))
    return refused(
        f"{request.record.source} begins with a change of a row that it does not have, with {text}: it does not tell "
        f"all rows of {request.relation.name}",
        "let the connector take a snapshot of the table (snapshot.mode=initial, or an incremental snapshot); if the "
        "topic has a complete one, add ?complete=true to the source",
    )


def key_text(request: FeedRequest, values: Any) -> str:
    """Return the values of the primary key as text for messages."""
    return row_text([c.name for c in request.relation.columns if c.sql in request.relation.key], values)


# The last message of each key


def last_of_keys(
    netting: Netting,
    request: FeedRequest,
    staged: Path,
    begin: int,
    inputs: StoredInputs | None,
    folder: Path,
) -> Path:
    """Write what the last message of each key behind ``begin`` says, and return the file: its row is there (``+``), or
    none (``x``). Unchanged values that were not sent are those of earlier messages, or of the row that the state
    had in ``inputs``; raise Refused if there are none."""
    relation, path = request.relation, folder / "last.parquet"
    live = f"SELECT * FROM rows WHERE _op <> '{TRUNCATED}' AND _order > {begin}"
    key = ", ".join(relation.key)
    last = f"SELECT * FROM {{}} QUALIFY ROW_NUMBER() OVER (PARTITION BY {key} ORDER BY _order DESC) = 1"
    lacking = f"""SELECT DISTINCT UNNEST("its unchanged") AS name FROM ({last.format(f"({live})")}) WHERE _op = '+'"""
    unchanged = sorted(name for (name,) in all_rows(netting, staged, lacking))
    if not unchanged:
        columns = names(relation.row_columns)
        write_query(netting.engine, [staged], f"SELECT {columns}, {SIGN} FROM ({last.format(f'({live})')})", path)
        return path
    if inputs is None:
        stored = f"SELECT {names(relation.row_columns)} FROM live WHERE false"
        write_query(netting.engine, [staged], with_known_values(relation, live, last, unchanged, stored), path)
    else:
        with inputs.rows(relation) as (engine, stored):
            write_query(engine, [staged], with_known_values(relation, live, last, unchanged, stored), path)
    check_known(netting, request, path, unchanged)
    return path


SIGN = f"CASE WHEN _op = '+' THEN '+' ELSE '{REMOVE_KEY}' END AS _op"
"""The column with the sign by which the last event of a key is staged."""


def with_known_values(relation: Relation, live: str, last: str, unchanged: Sequence[str], stored: str) -> str:
    """Return SQL for the last event of each key, where columns that were not sent have the value of an earlier message,
    or that of the ``stored`` row; NULL if there is none. Values before a deletion are those of another row."""
    key = ", ".join(relation.key)
    sent = ", ".join(
        f"""ARG_MAX({name}, _order) FILTER (NOT LIST_CONTAINS("its unchanged", '{name}')) AS {name}"""
        for name in unchanged
    )
    values = ", ".join(
        f"""CASE WHEN NOT LIST_CONTAINS(q."its unchanged", '{column.sql}') THEN q.{column.sql}
            WHEN k.{column.sql} IS NOT NULL THEN k.{column.sql}
            WHEN g."gone at" IS NULL THEN s.{column.sql} END AS {column.sql}"""
        if column.sql in unchanged
        else f"q.{column.sql}"
        for column in relation.row_columns
    )
    # The messages are read once.
    return f"""WITH live AS MATERIALIZED ({live}),
        gone AS (SELECT {key}, MAX(_order) AS "gone at" FROM live WHERE _op = '-' GROUP BY {key}),
        known AS (
            SELECT {key}, {sent} FROM live LEFT JOIN gone USING ({key})
            WHERE _op = '+' AND ("gone at" IS NULL OR _order > "gone at") GROUP BY {key}
        )
        SELECT {values}, {SIGN} FROM ({last.format("live")}) AS q LEFT JOIN known AS k USING ({key})
        LEFT JOIN gone AS g USING ({key}) LEFT JOIN ({stored}) AS s USING ({key})"""


def check_known(netting: Netting, request: FeedRequest, path: Path, unchanged: Sequence[str]) -> None:
    """Raise Refused if a value that was not sent is not known either."""
    key = ", ".join(request.relation.key)
    for column in request.relation.columns:
        if column.sql not in unchanged:
            continue
        lacking = f"SELECT {key} FROM rows WHERE _op = '+' AND {column.sql} IS NULL"
        keys, _ = first_rows(netting.engine, path, lacking)
        if keys:
            raise refused(
                f"{request.record.source}: column {column.name} of the row with {key_text(request, keys[0])} has the "
                "placeholder of an unchanged value, and no message or stored row before has the value",
                "set REPLICA IDENTITY FULL for the table, and let the connector take a snapshot of it again",
            )


def all_rows(netting: Netting, path: Path, sql: str) -> list[tuple[Any, ...]]:
    """Return all rows of a query over the ``rows`` of a staged file."""
    connection = netting.engine.connection
    connection.register("rows", reader_of([path]))
    rows: list[tuple[Any, ...]] = connection.sql(sql).fetchall()
    connection.unregister("rows")
    return rows


FURTHER["take_messages"] = take_messages
