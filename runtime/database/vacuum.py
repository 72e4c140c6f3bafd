"""The command ``vacuum`` of a state in one SQLite file: remove sequences of keys, and give room back. Scripts lack it;
``flintlog job`` has it."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..row_kernel.model import RowProgram
from ..row_kernel.tables import quoted_sql
from ..store.retention import check_sequences, sequence_distances
from .sequences import sequences_table
from .state import DatabaseState, Result, open_file_state, telling_errors


def vacuum_file(
    program: RowProgram,
    state: str,
    tombstones: Iterable[str] | Mapping[str, Any] = (),
    forget_sequences: Iterable[str] = (),
) -> Result:
    """Remove the sequences of dead keys that are further behind the newest one of their relation than ``tombstones``
    says, as REL=DISTANCE or as a mapping, and all of the relations in ``forget_sequences``; then make the file as small
    as it can be. The result has the number of sequences ``removed`` by relation."""
    started, forgotten = time.monotonic(), list(forget_sequences)
    with open_file_state(program, state) as database:
        with database.transaction():
            records, removed = database.sequences, dict[str, int]()
            distances = sequence_distances(records, tombstones)
            check_sequences(records, forgotten)
            for name, distance in distances.items():
                newest, removed[name] = remove_dead(database, name, distance)
                if newest is not None:
                    records[name]["pruned"] = str(max(newest + 1, int(records[name]["pruned"] or newest + 1)))
            for name in forgotten:
                del records[name]
                table = sequences_table(program.inputs[name])
                count = f"SELECT COUNT(*) FROM {table} WHERE _sequence IS NOT NULL"
                (removed[name],) = database.connection.execute(count).fetchone()
                database.connection.execute(f"DROP TABLE {table}")
            if removed:
                database.record("sequences", records)
        with telling_errors(state):
            # It attaches the new file for a moment.
            database.connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 1)
            database.connection.execute("VACUUM")
            pages, size = (
                database.connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size")
            )
        return {
            "program": program.name,
            "commit": database.commit.number,
            "removed": {"sequences": removed},
            "bytes": pages * size,
            "seconds": round(time.monotonic() - started, 3),
        }


def remove_dead(database: DatabaseState, name: str, distance: int) -> tuple[int | None, int]:
    """Remove the sequences of dead keys of a relation that are further than this ``distance`` behind the newest one;
    return the newest of those that were removed, and their number."""
    relation = database.program.inputs[name]
    table, key = sequences_table(relation), ", ".join(map(quoted_sql, relation.key))
    rows = database.connection.execute(f"SELECT _sequence, _last, {key} FROM {table} WHERE _sequence IS NOT NULL")
    known = [(int(sequence), last, values) for sequence, last, *values in rows]
    newest = max((sequence for sequence, _, _ in known), default=0)
    dead = [(sequence, values) for sequence, last, values in known if last != "+" and sequence < newest - distance]
    chosen = " AND ".join(f"{quoted_sql(column)} = ?" for column in relation.key)
    database.connection.executemany(f"DELETE FROM {table} WHERE {chosen}", (values for _, values in dead))
    return max((sequence for sequence, _ in dead), default=None), len(dead)


def report_file_vacuum(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines that say what was removed, and how large the file is."""
    for name, number in result["removed"]["sequences"].items():
        yield f"removed {number:,} sequence{'' if number == 1 else 's'} of {name}"
    yield f"the file has {result['bytes']:,} bytes"
