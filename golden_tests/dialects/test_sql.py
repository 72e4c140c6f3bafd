"""SQL: what becomes of views, what is refused, and random views beside DuckDB and SQLite."""

from __future__ import annotations

import contextlib
import random
import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
from flintlog.compiler.diagnostics import CompileError, Diagnostics
from flintlog.compiler.editor.converter import converted
from flintlog.compiler.frontend.sql import joins
from flintlog.compiler.frontend.sql.reader import read
from flintlog.compiler.ir import syntax
from flintlog.compiler.pipeline import compile_program, run_passes
from flintlog.compiler.source import SourceFile
from flintlog.runtime.database import decimals as decimals  # Rows with decimals are read.
from flintlog.runtime.kernel.model import MOST_ENTRIES, MOST_ROUNDS
from flintlog.targets.database.lower import lower_rows

from golden_tests.frontend.golden import rendered
from golden_tests.harness import ImportedJob
from golden_tests.nightly import seeds
from golden_tests.packed import Case, cases_of, check
from golden_tests.row_kernel.nodes import RowsState

from .random_sql import COLUMNS, TABLES, Rows, made_batch, made_views

HERE = Path(__file__).parent / "sql"
PROGRAMS = cases_of(HERE / "programs.txt")
REFUSED = cases_of(HERE / "refused.txt")


def program_of(case: Case) -> tuple[syntax.SyntaxProgram, Diagnostics]:
    """Read the program of a case."""
    diagnostics = Diagnostics()
    return read(SourceFile("program.sql", case.program), diagnostics, lambda name: None), diagnostics


@pytest.mark.parametrize("case", PROGRAMS, ids=lambda case: case.name)
def test_programs(case: Case, update_golden: bool) -> None:
    """Views in Flintlog's own language, which pass through the compiler."""
    program, diagnostics = program_of(case)
    assert diagnostics.items == []
    run_passes(program, diagnostics)
    check(HERE / "programs.txt", case, {"flintlog": converted(program)}, update_golden)


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)
def test_refused(case: Case, update_golden: bool) -> None:
    """What is reported about a program, by the frontend and by the passes, with places in its own text."""
    program, diagnostics = program_of(case)
    with contextlib.suppress(CompileError):
        run_passes(replace(program, complete=not diagnostics.failed), diagnostics)
    check(HERE / "refused.txt", case, {"diagnostics": rendered(diagnostics, program)}, update_golden)


class References:
    """The same tables and views in databases that compute them from scratch."""

    def __init__(self, views: str) -> None:
        plain = f"{TABLES}{views}".replace("MATERIALIZED ", "")
        self.duckdb = duckdb.connect()
        self.duckdb.execute(plain)
        self.sqlite: sqlite3.Connection | None = sqlite3.connect(":memory:")
        self.sqlite.execute("PRAGMA case_sensitive_like = ON")
        try:
            self.sqlite.executescript(plain)
            self.sqlite.execute("SELECT * FROM v")
        except sqlite3.OperationalError:
            # It has no parentheses around the parts of a UNION, and older ones lack joins.
            self.sqlite = None

    def rows(self, rows: Rows) -> Counter[tuple[Any, ...]]:
        """Return the rows of the view ``v`` of these rows of tables."""
        for table, own in rows.items():
            marks = ", ".join("?" * len(COLUMNS[table]))
            for connection in filter(None, (self.duckdb, self.sqlite)):
                connection.execute(f"DELETE FROM {table}")
                for row in own:
                    shown = [float(v) if isinstance(v, Decimal) and connection is self.sqlite else v for v in row]
                    connection.execute(f"INSERT INTO {table} VALUES ({marks})", shown)
        found = Counter(self.duckdb.execute("SELECT * FROM v").fetchall())
        if self.sqlite is not None:
            assert Counter(self.sqlite.execute("SELECT * FROM v").fetchall()) == found
        return found


def copies(columns: Sequence[Any], rows: Iterable[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    """Return rows by how often they are there."""
    if columns[-1].name != "copies":
        return Counter(map(tuple, rows))
    return Counter({tuple(row[:-1]): row[-1] for row in rows})


@pytest.mark.parametrize("seed", seeds(30, 600))
def test_random_views(seed: int) -> None:
    """Random views are kept exact through batches, by rows and in columns."""
    rng, views = random.Random(seed), made_views(seed)
    rows: Rows = {table: [] for table in COLUMNS}
    try:
        compilation = compile_program(SourceFile("views.sql", TABLES + views))
    except CompileError as error:
        messages = [item.message for item in error.diagnostics if item.severity == "error"]
        assert all("more than 256 cases" in message for message in messages), (messages, views)
        return
    references = References(views)
    state = RowsState(lower_rows(compilation.plan), MOST_ROUNDS, MOST_ENTRIES)
    tables = {r.name.removesuffix("_in"): r.table for r in state.program.relations if r.kind == "input"}
    (view,) = (relation for relation in state.program.relations if relation.name == "v")
    job = ImportedJob(compilation) if seed % 3 == 0 else None
    try:
        for _ in range(3):
            batch = made_batch(rng, rows)
            expected = references.rows(rows)
            state.apply({tables[table]: changes for table, changes in batch.items()})
            assert copies(view.columns, state.rows(view)) == expected, views
            assert state.state.differences() == []
            if job is not None:
                job.run({name: batch[name.removesuffix("_in")] for name in _inputs(job)})
                assert copies(view.columns, job.rows("v")) == expected, views
    finally:
        state.close()
        if job is not None:
            job.close()


TREE = """
CREATE TABLE org (id INTEGER PRIMARY KEY, boss INTEGER);
CREATE MATERIALIZED VIEW v AS
WITH RECURSIVE t (id, depth) AS (
    SELECT id, 0 FROM org WHERE boss IS NULL UNION ALL SELECT o.id, t.depth + 1 FROM org o JOIN t ON o.boss = t.id
)
SELECT id, depth FROM t WHERE depth > 0;
"""


@pytest.mark.parametrize("seed", seeds(2, 20))
def test_random_trees(seed: int) -> None:
    """A recursion down a tree that keeps copies gives no row twice, whatever is in the table, cycles too."""
    rng, org = random.Random(seed), dict[int, int | None]()
    state = RowsState(lower_rows(compile_program(SourceFile("tree.sql", TREE)).plan), MOST_ROUNDS, MOST_ENTRIES)
    (view,) = (relation for relation in state.program.relations if relation.name == "v")
    connection = duckdb.connect()
    connection.execute(TREE.replace("MATERIALIZED ", ""))
    try:
        for _ in range(8):
            changes: list[tuple[str, tuple[Any, ...]]] = []
            for person in rng.sample(range(9), 4):
                boss = rng.choice((None, *range(9)))
                if person in org and rng.random() < 0.3:
                    changes.append(("-", (person, org.pop(person))))
                else:
                    changes.append(("+", (person, boss)))
                    org[person] = boss
            state.apply({"org": changes})
            connection.execute("DELETE FROM org")
            for row in org.items():
                connection.execute("INSERT INTO org VALUES (?, ?)", row)
            expected = Counter(connection.execute("SELECT * FROM v").fetchall())
            assert [column.name for column in view.columns] == ["id", "depth"]
            assert Counter(state.rows(view)) == expected
    finally:
        state.close()
        connection.close()


def _inputs(job: ImportedJob) -> list[str]:
    return [relation.name for relation in job.program.relations if relation.kind == "input"]


def test_nested_queries_are_read_once() -> None:
    """Joined queries in joined queries are read once each, not twice as often with each level."""
    levels, query, read = 20, "SELECT id, g FROM a", Counter[str]()
    for level in range(levels):
        query = f"SELECT x.id, y.g FROM a AS x LEFT JOIN ({query}) AS y ON x.g = y.id AND x.id > {level}"
    reader, original = joins, joins._read

    def counted(*given: Any) -> Any:
        read["items"] += 1
        return original(*given)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(reader, "_read", counted)
        _, diagnostics = program_of(Case("nested", "nested", f"{TABLES}CREATE MATERIALIZED VIEW v AS {query};"))
    assert diagnostics.items == []
    assert levels < read["items"] < 4 * levels
