"""Contender: the answers of a program from scratch in DuckDB, alone in its process, with two threads.

Where both can be written, a recursive query and a semi-naive loop of statements, the better one is taken: the query.
Seconds of query and loop, on the data that is measured: closure of the cyclic graph 7.0 and 14.9, of the forward graph
0.5 and 1.3, same generation 2.7 and 5.9, shortest paths 2.5 and 3.2. Points-to has two relations that read each other,
which a recursive query cannot express. ``--way loop`` measures the other one.

Usage: ``python duckdb_answers.py PROGRAM FOLDER ANSWERS [--way cte|loop]``, the folder holding a Parquet file per input
relation; prints a JSON object with the rows and checksums of the answers and the seconds without the start of Python.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path

import duckdb
from checksum import answer

Way = Callable[[duckdb.DuckDBPyConnection], None]


def closure_cte(connection: duckdb.DuckDBPyConnection) -> None:
    """One recursive query."""
    connection.execute("""
        CREATE TABLE reachable AS
        WITH RECURSIVE reachable(src, dst) AS (
            SELECT src, dst FROM link
            UNION
            SELECT r.src, l.dst FROM reachable r JOIN link l ON l.src = r.dst
        )
        SELECT src, dst FROM reachable
    """)


def closure_loop(connection: duckdb.DuckDBPyConnection) -> None:
    """A round extends the paths that the last one found."""
    connection.execute("CREATE TABLE reachable AS SELECT DISTINCT src, dst FROM link")
    connection.execute("CREATE TABLE newest AS FROM reachable")
    step = "SELECT DISTINCT r.src, l.dst FROM newest r JOIN link l ON l.src = r.dst"
    while _next(connection, "newest", f"SELECT * FROM ({step}) ANTI JOIN reachable USING (src, dst)"):
        connection.execute("INSERT INTO reachable FROM newest")


def same_generation_cte(connection: duckdb.DuckDBPyConnection) -> None:
    """One recursive query."""
    connection.execute("""
        CREATE TABLE same AS
        WITH RECURSIVE same(a, b) AS (
            SELECT x.child, y.child FROM parent x JOIN parent y ON y.parent = x.parent
            UNION
            SELECT x.child, y.child FROM same s JOIN parent x ON x.parent = s.a JOIN parent y ON y.parent = s.b
        )
        SELECT a, b FROM same
    """)


def same_generation_loop(connection: duckdb.DuckDBPyConnection) -> None:
    """A round takes the children of the pairs that the last one found."""
    connection.execute("""
        CREATE TABLE same AS
        SELECT DISTINCT x.child AS a, y.child AS b FROM parent x JOIN parent y ON y.parent = x.parent
    """)
    connection.execute("CREATE TABLE newest AS FROM same")
    step = """
        SELECT DISTINCT x.child AS a, y.child AS b
        FROM newest s JOIN parent x ON x.parent = s.a JOIN parent y ON y.parent = s.b
    """
    while _next(connection, "newest", f"SELECT * FROM ({step}) ANTI JOIN same USING (a, b)"):
        connection.execute("INSERT INTO same FROM newest")


def points_to_loop(connection: duckdb.DuckDBPyConnection) -> None:
    """A loop for the two relations, each of which the other reads: a recursive query has one."""
    connection.execute("CREATE TABLE points AS SELECT DISTINCT var, object FROM alloc")
    connection.execute("CREATE TABLE holds (base BIGINT, field BIGINT, object BIGINT)")
    connection.execute("CREATE TABLE new_points AS FROM points")
    connection.execute("CREATE TABLE new_holds AS FROM holds")
    points = """
        SELECT DISTINCT var, object FROM (
            SELECT a.target AS var, p.object FROM new_points p JOIN assign a ON a.source = p.var
            UNION ALL
            SELECT l.target, h.object FROM new_points p JOIN load l ON l.base = p.var
            JOIN holds h ON h.base = p.object AND h.field = l.field
            UNION ALL
            SELECT l.target, h.object FROM new_holds h JOIN points p ON p.object = h.base
            JOIN load l ON l.base = p.var AND l.field = h.field
        ) ANTI JOIN points USING (var, object)
    """
    holds = """
        SELECT DISTINCT base, field, object FROM (
            SELECT b.object AS base, s.field, v.object FROM new_points b JOIN store s ON s.base = b.var
            JOIN points v ON v.var = s.source
            UNION ALL
            SELECT b.object, s.field, v.object FROM new_points v JOIN store s ON s.source = v.var
            JOIN points b ON b.var = s.base
        ) ANTI JOIN holds USING (base, field, object)
    """
    found = 1
    while found:
        connection.execute(f"CREATE TABLE more_points AS {points}")
        found = _next(connection, "new_holds", holds)
        connection.execute("DROP TABLE new_points")
        connection.execute("ALTER TABLE more_points RENAME TO new_points")
        found += _rows(connection, "new_points")
        connection.execute("INSERT INTO points FROM new_points")
        connection.execute("INSERT INTO holds FROM new_holds")


def orders(connection: duckdb.DuckDBPyConnection) -> None:
    """One query; there is no recursion."""
    connection.execute("""
        CREATE TABLE sold AS
        SELECT c.region, p.category, count(*) AS orders
        FROM purchase u JOIN customer c ON c.id = u.customer JOIN product p ON p.id = u.product
        ANTI JOIN blocked b ON b.customer = u.customer
        GROUP BY c.region, p.category
    """)


def shortest_paths_cte(connection: duckdb.DuckDBPyConnection) -> None:
    """A recursive query that keeps a row per key, so that a round updates distances."""
    connection.execute("""
        CREATE TABLE distance AS
        WITH RECURSIVE distance(source, node, length) USING KEY (source, node) AS (
            SELECT s.node, r.dst, min(r.length) FROM source s JOIN road r ON r.src = s.node GROUP BY s.node, r.dst
            UNION
            SELECT d.source, r.dst, min(d.length + r.length)
            FROM distance d JOIN road r ON r.src = d.node
            LEFT JOIN recurring.distance k ON k.source = d.source AND k.node = r.dst
            WHERE d.length + r.length < coalesce(k.length, 9223372036854775807)
            GROUP BY d.source, r.dst
        )
        SELECT source, node, length FROM distance
    """)


def shortest_paths_loop(connection: duckdb.DuckDBPyConnection) -> None:
    """A round extends the paths that were the best so far in the last one."""
    connection.execute("""
        CREATE TABLE distance AS
        SELECT s.node AS source, r.dst AS node, min(r.length) AS length
        FROM source s JOIN road r ON r.src = s.node GROUP BY s.node, r.dst
    """)
    connection.execute("CREATE TABLE newest AS FROM distance")
    step = """
        SELECT n.source, n.node, n.length
        FROM (
            SELECT d.source, r.dst AS node, min(d.length + r.length) AS length
            FROM newest d JOIN road r ON r.src = d.node GROUP BY d.source, r.dst
        ) n LEFT JOIN distance k USING (source, node)
        WHERE k.length IS NULL OR n.length < k.length
    """
    while _next(connection, "newest", step):
        connection.execute("CREATE TABLE kept AS FROM distance ANTI JOIN newest USING (source, node)")
        connection.execute("DROP TABLE distance")
        connection.execute("ALTER TABLE kept RENAME TO distance")
        connection.execute("INSERT INTO distance FROM newest")


def bill_of_materials_cte(connection: duckdb.DuckDBPyConnection) -> None:
    """A round adds up what the parts of the last one contribute to the parts one link above."""
    connection.execute("""
        CREATE TABLE cost AS
        WITH RECURSIVE level(part, cents) AS (
            SELECT part, cents FROM price
            UNION ALL
            SELECT c.whole, sum(c.quantity * l.cents)::BIGINT
            FROM level l JOIN contains c ON c.part = l.part GROUP BY c.whole
        )
        SELECT part, sum(cents)::BIGINT AS cents FROM level GROUP BY part
    """)


def _next(connection: duckdb.DuckDBPyConnection, table: str, query: str) -> int:
    """Put the rows of a query, which may read the table, in its place; returns how many there are."""
    connection.execute(f"CREATE TABLE next_{table} AS {query}")
    connection.execute(f"DROP TABLE {table}")
    connection.execute(f"ALTER TABLE next_{table} RENAME TO {table}")
    return _rows(connection, table)


def _rows(connection: duckdb.DuckDBPyConnection, table: str) -> int:
    row = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    assert row is not None
    return int(row[0])


WAYS: Mapping[str, Mapping[str, Way]] = {
    "closure": {"cte": closure_cte, "loop": closure_loop},
    "same_generation": {"cte": same_generation_cte, "loop": same_generation_loop},
    "points_to": {"loop": points_to_loop},
    "orders": {"query": orders},
    "shortest_paths": {"cte": shortest_paths_cte, "loop": shortest_paths_loop},
    "bill_of_materials": {"cte": bill_of_materials_cte},
}
"""The ways of every program, the better one first."""


def main() -> None:
    """Compute and report."""
    parser = argparse.ArgumentParser()
    parser.add_argument("program", choices=WAYS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("answers", help="a JSON object: the relations to report and their columns")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--way", help="the first one unless given")
    options = parser.parse_args()
    ways = WAYS[options.program]
    start = time.perf_counter()
    connection = duckdb.connect(config={"threads": options.threads})
    for path in sorted(options.folder.glob("*.parquet")):
        connection.execute(f"CREATE TABLE {path.stem} AS FROM read_parquet('{path}')")
    ways[options.way or next(iter(ways))](connection)
    seconds, processor = time.perf_counter() - start, time.process_time()
    answers = {name: asdict(answer(connection, name, columns)) for name, columns in json.loads(options.answers).items()}
    print(json.dumps({"seconds": seconds, "processor": processor, "answers": answers}))


if __name__ == "__main__":
    main()
