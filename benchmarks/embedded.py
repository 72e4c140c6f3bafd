"""Contender: a view in one SQLite file, kept exact in a process that has its changes at hand, by ``flintlog.open``.

Before any is measured, it deletes as many rows as the first batch changes, which no batch changes, and inserts them
again. Batches are durable when they have been applied.

Usage: ``python embedded.py PROGRAM STATE CHANGES ...``, with the state that ``init`` of a script has built, and folders
with a Parquet file per relation; prints a JSON object per batch.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import flintlog
import pyarrow.parquet as pq

Changes = dict[str, list[tuple[object, ...]]]


def main() -> None:
    """Apply the batches, one after the other."""
    program, state, *folders = map(Path, sys.argv[1:])
    with flintlog.open(program, state) as view:
        batches = [changes_in(folder) for folder in folders]
        others = {name: other_rows(view, name, batches) for name in batches[0]}
        for op in "-+":
            view.apply({name: [(op, *row) for row in rows] for name, rows in others.items()})
        for folder, changes in zip(folders, batches, strict=True):
            start, spent = time.perf_counter(), time.process_time()
            view.apply(changes, batch=folder.parent.name)
            seconds, processor = time.perf_counter() - start, time.process_time() - spent
            print(json.dumps({"seconds": seconds, "processor": processor}), flush=True)


def changes_in(folder: Path) -> Changes:
    """Return the changes in a folder, as rows behind their operations."""
    tables = {path.stem: pq.read_table(path) for path in sorted(folder.glob("*.parquet"))}
    return {
        name: list(zip(*(column.to_pylist() for column in table.columns), strict=True))
        for name, table in tables.items()
    }


def other_rows(view: flintlog.View, name: str, batches: Sequence[Changes]) -> list[tuple[object, ...]]:
    """Return as many rows of a relation as the first batch changes, which no batch changes: the last ones, of which the
    fewest follow in a tree."""
    changed = {row for batch in batches for _, *values in batch.get(name, ()) for row in [tuple(values)]}
    count = len(batches[0][name])
    stored = view.sql(f"SELECT * FROM {name} ORDER BY 1 DESC LIMIT ?", (count + len(changed),))
    return [row for row in stored if row not in changed][:count]


if __name__ == "__main__":
    main()
