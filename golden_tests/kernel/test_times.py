"""Conditions on the time, beside the same rules over an ordinary relation with the time."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from flintlog.compiler.pipeline import Compilation, compile_program
from flintlog.compiler.source import SourceFile
from flintlog.runtime.kernel.model import MOST_ENTRIES, MOST_ROUNDS
from flintlog.targets.database.lower import lower_rows

from golden_tests.harness import ImportedJob, LocalJob, compile_text
from golden_tests.nightly import seeds
from golden_tests.oracle.random_times import Batch, timed_batches, timed_program
from golden_tests.row_kernel.nodes import RowsState

BATCHES = 5


class RowJob:
    """A state by rows, in memory or in a file, opened anew for each batch."""

    def __init__(self, compilation: Compilation, path: Path | None = None) -> None:
        self.path = str(path) if path else ":memory:"
        self.program = lower_rows(compilation.plan)
        self.state = RowsState(self.program, MOST_ROUNDS, MOST_ENTRIES, self.path)

    def run(self, changes: Batch) -> None:
        """Apply a batch."""
        tables = {r.name: r.table for r in self.program.relations if r.kind == "input"}
        self.state.apply({tables[name]: rows for name, rows in changes.items()})

    def rows(self, name: str) -> set[Any]:
        """The tuples of a relation."""
        return {*self.state.rows(self.program.relation(name))}

    def differences(self) -> list[dict[str, Any]]:
        """What a recount finds."""
        return self.state.state.differences()

    def close(self) -> None:
        """Close the state."""
        self.state.close()


class StoredJob(LocalJob):
    """A state in a folder, to which the time is given like rows."""

    def _stage(self, changes: Any, attempt: str) -> dict[str, list[str]]:
        return {self.program.clock.table: [], **super()._stage(changes, attempt)}


def with_time(changes: Batch, relation: str, before: datetime | None, now: datetime) -> Batch:
    """A batch that moves the time, too."""
    if before == now:
        return {**changes, relation: []}
    return {**changes, relation: [*([("-", (before,))] if before else []), ("+", (now,))]}


@contextmanager
def job_of(kind: str, text: str, folder: Path) -> Iterator[Any]:
    """A job of a program, of one kind."""
    compilation = compile_program(SourceFile("timed.dl", text))
    if kind in ("rows", "file"):
        job: Any = RowJob(compilation, folder / "state.db" if kind == "file" else None)
    elif kind == "columns":
        job = ImportedJob(compilation)
    else:
        job = StoredJob(compile_text(text)[1], folder / "state", buckets=3 if kind == "buckets" else 1)
        if kind == "large":
            job.seem_large()
    try:
        yield job
    finally:
        job.close()


def compare(kind: str, seed: int, folder: Path) -> None:
    """Apply random batches to a random program, and compare its outputs with those of its twin."""
    program = timed_program(seed)
    if "now(T)" not in program.text:
        return
    before: datetime | None = None
    with job_of(kind, program.text, folder) as job, job_of("rows", program.with_clock(), folder) as twin:
        outputs = [relation.name for relation in twin.program.relations if relation.output]
        for changes, now in timed_batches(program, seed, BATCHES):
            job.run(with_time(changes, "now", before, now))
            twin.run(with_time(changes, "clock", before, now))
            before = now
            for name in outputs:
                assert {*job.rows(name)} == twin.rows(name), f"{name} at {now}\n{program.text}"
            assert job.differences() == []


@pytest.mark.parametrize("seed", seeds(12, 1000))
def test_by_rows(seed: int, tmp_path: Path) -> None:
    """Row by row, in memory."""
    compare("rows", seed, tmp_path)


@pytest.mark.parametrize("seed", seeds(4, 400))
def test_in_columns(seed: int, tmp_path: Path) -> None:
    """In columns, in memory."""
    compare("columns", seed, tmp_path)


@pytest.mark.parametrize("kind", ["file", "folder", "buckets", "large"])
@pytest.mark.parametrize("seed", seeds(1, 60))
def test_in_states(kind: str, seed: int, tmp_path: Path) -> None:
    """In one file, and in folders: with one bucket, with several, and as where little is read."""
    compare(kind, seed, tmp_path)


@pytest.mark.parametrize("optional", [False, True])
def test_few_rows_are_read(optional: bool) -> None:
    """When only the time moves, rows are searched by its bounds: no relation is looked through."""
    text = f"""
    input relation g(a: int, u: timestamp{"?" * optional}) primary key (a)
    output relation live(a: int)
    live(A) :- g(A, U), now(T), U > T, U < add_seconds(T, 86400).
    """
    with job_of("rows", text, Path()) as job:
        rows = [(number, datetime(2026, 1, 1 + number // 24, number % 24)) for number in range(600)]
        job.run({"g": [("+", row) for row in rows], "now": [("+", (datetime(2026, 1, 3),))]})
        assert job.rows("live") == {(number,) for number in range(49, 72)}
        statements: list[str] = []
        connection = job.state.state.connection
        connection.set_trace_callback(statements.append)
        job.run({"now": [("-", (datetime(2026, 1, 3),)), ("+", (datetime(2026, 1, 3, 1),))]})
        connection.set_trace_callback(None)
        assert job.rows("live") == {(number,) for number in range(50, 73)}
        searches = 0
        for sql in statements:
            for alias in re.findall(r'(?<!temp\.)"_rows_of_g\w*" AS "(\w+)"', sql):
                plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}")]
                assert not any(step.startswith(f"SCAN {alias}") for step in plan), plan
                searches += any(step.startswith(f"SEARCH {alias} ") and ">? AND" in step for step in plan)
        assert searches == 4


def test_bounds_that_stay_cost_nothing() -> None:
    """A condition on the day does nothing until the next one begins."""
    text = """
    input relation s(a: int, d: date)
    output relation due(a: int)
    due(A) :- s(A, D), now(T), D <= to_date(T).
    """
    with job_of("rows", text, Path()) as job:
        job.run({"s": [("+", (1, datetime(2026, 1, 2).date()))], "now": [("+", (datetime(2026, 1, 1),))]})
        statements: list[str] = []
        job.state.state.connection.set_trace_callback(statements.append)
        job.run({"now": [("-", (datetime(2026, 1, 1),)), ("+", (datetime(2026, 1, 1, 23),))]})
        assert not [sql for sql in statements if "s_timed" in sql and not sql.startswith("INSERT INTO _commits")]
        job.run({"now": [("-", (datetime(2026, 1, 1, 23),)), ("+", (datetime(2026, 1, 2),))]})
        assert job.rows("due") == {(1,)}


def test_any_direction() -> None:
    """The method does not depend on it: what a bound passes changes, also on the way back."""
    text = "input relation g(a: int, u: timestamp)\noutput relation o(a: int)\no(A) :- g(A, U), now(T), U != T.\n"
    moments = [datetime(2026, 1, day) for day in (1, 3, 2, 2, 5)]
    for kind in ("rows", "columns"):
        with job_of(kind, text, Path()) as job:
            before = None
            for number, now in enumerate(moments):
                changes: Batch = {
                    "g": [("+", (day, datetime(2026, 1, day))) for day in range(1, 6)] if not number else []
                }
                job.run(with_time(changes, "now", before, now))
                before = now
                assert {*job.rows("o")} == {(day,) for day in range(1, 6) if day != now.day}


def test_a_timed_relation_is_no_input() -> None:
    """Its tuples are those of one relation: it has no key, is no output, and users know it under the other name."""
    compilation = compile_program(SourceFile("p.dl", timed_program(0).text))
    timed = [relation for relation in compilation.rewritten.relations if relation.timed]
    assert timed
    for relation in timed:
        assert relation.hidden and not relation.output and not relation.key and relation.shown_as
        assert dataclasses.replace(relation, timed=False) != relation
