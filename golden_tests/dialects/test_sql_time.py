"""Views in SQL that read the time, beside DuckDB, where it is a constant."""

from __future__ import annotations

import random
from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import duckdb
import pytest
from flintlog.compiler.pipeline import compile_program
from flintlog.compiler.source import SourceFile
from flintlog.runtime.kernel.model import MOST_ENTRIES, MOST_ROUNDS
from flintlog.targets.database.lower import lower_rows

from golden_tests.nightly import seeds
from golden_tests.row_kernel.nodes import RowsState

TABLES = """
CREATE TABLE g (id INTEGER PRIMARY KEY, a INTEGER NOT NULL, u TIMESTAMP, d DATE);
CREATE TABLE e (a INTEGER NOT NULL, b INTEGER NOT NULL, PRIMARY KEY (a, b));
"""
FIRST = datetime(2026, 1, 1)
TIMES = (
    "CURRENT_TIMESTAMP",
    "now()",
    "now() + INTERVAL '36 hours'",
    "CURRENT_TIMESTAMP - INTERVAL 2 DAY",
    "LOCALTIMESTAMP + INTERVAL '90 minutes'",
)
DAYS = ("CURRENT_DATE", "CURRENT_DATE - INTERVAL '1 day'", "current_date + 2", "CURRENT_DATE - INTERVAL 1 MONTH")
OPERATORS = ("<", ">", "<=", ">=", "=", "<>")
VIEWS = (
    "SELECT id, a FROM g WHERE {c}",
    "SELECT id FROM g WHERE u IS NULL OR {t}",
    "SELECT a, count(*) AS n, max(u) AS m FROM g WHERE {c} GROUP BY a",
    "SELECT id FROM g WHERE NOT ({c})",
    "SELECT a, b FROM e WHERE NOT EXISTS (SELECT 1 FROM g WHERE g.a = e.b AND {c})",
    "SELECT a FROM e WHERE b IN (SELECT a FROM g WHERE {c} AND {c})",
    "SELECT id, CASE WHEN {c} THEN 'in' WHEN {c} THEN 'then' ELSE 'out' END AS k FROM g",
    "SELECT x.id FROM g AS x LEFT JOIN (SELECT a, id FROM g WHERE {c}) AS y ON y.a = x.a WHERE y.id IS NULL",
    "SELECT a, count(*) FILTER (WHERE {c}) AS n FROM g GROUP BY a",
)


def condition(rng: random.Random, kind: str) -> str:
    """A comparison of a column with the time."""
    if kind == "c":
        kind = rng.choice("td")
    column, bounds = ("u", TIMES) if kind == "t" else ("d", DAYS)
    if rng.random() < 0.2:
        first, second = rng.choice(bounds), rng.choice(bounds)
        return f"g.{column} BETWEEN {first} AND {second}"
    sides = [f"g.{column}", rng.choice(bounds)]
    if rng.random() < 0.3:
        sides.reverse()
    return f"{sides[0]} {rng.choice(OPERATORS)} {sides[1]}"


def made_view(rng: random.Random) -> str:
    """A random view."""
    query = rng.choice(VIEWS)
    while "{c}" in query or "{t}" in query:
        for kind in "ct":
            query = query.replace(f"{{{kind}}}", condition(rng, kind), 1)
    return query if " AS x " not in query else query.replace("WHERE g.", "WHERE ")


def moment(rng: random.Random) -> datetime:
    """A time at which something may end."""
    return FIRST + timedelta(hours=rng.randrange(0, 24 * 6, 6))


def in_duckdb(query: str, rows: dict[str, list[tuple[Any, ...]]], now: datetime) -> Counter[tuple[Any, ...]]:
    """The rows of a query at a time."""
    for word in ("CURRENT_TIMESTAMP", "LOCALTIMESTAMP", "now()"):
        query = query.replace(word, f"TIMESTAMP '{now}'")
    for word in ("CURRENT_DATE", "current_date"):
        query = query.replace(word, f"DATE '{now.date()}'")
    with duckdb.connect() as connection:
        connection.execute(TABLES)
        for name, of in rows.items():
            for row in of:
                connection.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", row)
        return Counter(connection.execute(query).fetchall())


@pytest.mark.parametrize("seed", seeds(10, 1000))
def test_random_views(seed: int) -> None:
    """A view that is kept while rows change and the time moves has what DuckDB finds."""
    rng = random.Random(seed)
    query = made_view(rng)
    compilation = compile_program(SourceFile("view.sql", f"{TABLES}CREATE MATERIALIZED VIEW v AS {query};"))
    program = lower_rows(compilation.plan)
    state = RowsState(program, MOST_ROUNDS, MOST_ENTRIES)
    inputs = {relation.name: relation.table for relation in program.relations if relation.kind == "input"}
    view = program.relation("v")
    rows: dict[str, list[tuple[Any, ...]]] = {"g": [], "e": []}
    now = before = None
    try:
        for _ in range(4):
            changes: dict[str, list[tuple[str, tuple[Any, ...]]]] = {}
            for name in rows:
                gone = [row for row in rows[name] if rng.random() < 0.3]
                new = [random_row(rng, name) for _ in range(rng.randrange(5))]
                keys = {row[0] if name == "g" else row for row in rows[name]}
                new = [row for row in new if (row[0] if name == "g" else row) not in keys]
                new = [*{(row[0] if name == "g" else row): row for row in new}.values()]
                rows[name] = [row for row in rows[name] if row not in gone] + new
                changes[inputs[name]] = [*(("-", row) for row in gone), *(("+", row) for row in new)]
            now = (now or FIRST) + timedelta(hours=rng.choice([0, 6, 13, 24, 60]))
            time = [] if now == before else [*([("-", (before,))] if before else []), ("+", (now,))]
            state.apply({**changes, inputs["now"]: time})
            before = now
            kept: Counter[tuple[Any, ...]] = Counter()
            for row in state.rows(view):
                if view.columns[-1].name == "copies":
                    kept[tuple(row[:-1])] += row[-1]
                else:
                    kept[tuple(row)] += 1
            assert kept == in_duckdb(query, rows, now), f"{query} at {now}: {rows}"
            assert state.state.differences() == []
    finally:
        state.close()


def random_row(rng: random.Random, name: str) -> tuple[Any, ...]:
    """A row of a table."""
    if name == "e":
        return rng.randrange(4), rng.randrange(4)
    until = None if rng.random() < 0.2 else moment(rng)
    return rng.randrange(12), rng.randrange(4), until, None if rng.random() < 0.2 else moment(rng).date()
