"""Cut rows by the values of a column, into a Parquet file for each value."""

from __future__ import annotations

import contextlib
import itertools
import operator
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..engines.duckdb import DuckEngine
from ..system.machine import available_cores

ROWS_CUT_AT_ONCE = 100_000


def rows_by_value(rows: Any, by: int, schema: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the rows of an Arrow reader in the order of their column number ``by``, as pairs of a value and a table of
    rows that have it; a value may occur in several pairs in a row. Tables have the first columns of ``rows``, as
    ``schema`` says. Rows that do not fit into memory are sorted on disk."""
    with contextlib.closing(DuckEngine(threads=available_cores())) as engine:
        # Places stand for the names of columns, which may contain anything and differ in case only.
        engine.connection.register("rows", with_places(rows))
        kept = "".join(f"c{place}, " for place in range(len(schema)))
        sql = f"SELECT {kept}c{by} AS sorted_by FROM rows ORDER BY sorted_by"
        for batch in engine.connection.sql(sql).to_arrow_reader(ROWS_CUT_AT_ONCE):
            columns = [batch.column(place).cast(field.type) for place, field in enumerate(schema)]
            table = pa.Table.from_arrays(columns, schema=schema)
            start = 0
            for value, same in itertools.groupby(batch.column(len(schema)).to_pylist()):
                count = sum(1 for _ in same)
                yield value, table.slice(start, count)
                start += count


def with_places(rows: Any) -> Any:
    """Return an Arrow reader whose columns are called after their places."""
    schema = pa.schema([field.with_name(f"c{place}") for place, field in enumerate(rows.schema)])
    batches = (pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in rows)
    return pa.RecordBatchReader.from_batches(schema, batches)


def write_cut(found: Iterator[tuple[Any, Any]], schema: Any, file_of: Callable[[Any], Path]) -> list[tuple[Any, int]]:
    """Write the rows of each value, as :func:`rows_by_value` yields them, to the file that ``file_of`` names; return
    the values with the numbers of their rows."""
    written = []
    for value, same in itertools.groupby(found, operator.itemgetter(0)):
        path, count = file_of(value), 0
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as content, pq.ParquetWriter(content, schema, compression="zstd") as writer:
            for _, rows in same:
                writer.write_table(rows)
                count += rows.num_rows
        written.append((value, count))
    return written
