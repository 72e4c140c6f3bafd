"""Contender: the whole closure from scratch by a recursive query in DuckDB, alone in its process, with two threads.

Usage: ``python duckdb_cte.py LINKS.parquet [--out CLOSURE.parquet]``; prints a JSON object with the rows, their
checksum and the seconds of the query without the start of Python. ``--out`` keeps the closure, outside of the seconds.
"""

from __future__ import annotations

import argparse
import json
import time

import duckdb

CLOSURE = """
CREATE TABLE reachable AS
WITH RECURSIVE reachable(src, dst) AS (
    SELECT src, dst FROM link
    UNION
    SELECT r.src, l.dst FROM reachable r JOIN link l ON l.src = r.dst
)
SELECT src, dst FROM reachable
"""

#: The rows of ``{relation}`` and a sum over them, in DuckDB and Spark alike. No exchange of columns, or of one column
#: between two rows, leaves the sum as it was.
CHECKSUM = """
SELECT count(*), coalesce(sum((src * 1000003 + dst) * (dst + 7) % 2147483647), 0)
FROM {relation}
"""


def main() -> None:
    """Compute and report."""
    parser = argparse.ArgumentParser()
    parser.add_argument("links")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out")
    options = parser.parse_args()
    start = time.perf_counter()
    connection = duckdb.connect(config={"threads": options.threads})
    connection.read_parquet(options.links).create("link")
    connection.execute(CLOSURE)
    seconds = time.perf_counter() - start
    row = connection.execute(CHECKSUM.format(relation="reachable")).fetchone()
    assert row is not None
    if options.out:
        connection.table("reachable").write_parquet(options.out)
    print(json.dumps({"rows": row[0], "checksum": int(row[1]), "seconds": seconds}))


if __name__ == "__main__":
    main()
