"""Joins are in the order in which they find the fewest rows, whatever the data are."""

from __future__ import annotations

from pathlib import Path

from flintlog.compiler.pipeline import compile_program
from flintlog.compiler.source import SourceFile
from flintlog.runtime.database.state import open_file_state
from flintlog.runtime.row_kernel.deltas import join_order

from golden_tests.row_kernel.jobs import RowsJob

NEAR = """
input relation user(name: int, org: int)
input relation friend(a: int, b: int)
output relation near(a: int, b: int)
near(X, Y) :- user(X, C), user(Y, C), friend(X, Y).
"""


def near_job(path: str = ":memory:") -> RowsJob:
    """A job with a rule that can go on by organizations or by friends."""
    return RowsJob(compile_program(SourceFile("test.dl", NEAR)), path=path)


def orders(job: RowsJob) -> list[tuple[int, ...]]:
    """The orders of joins behind a changed user, in each of the two places."""
    (stratum,) = job.program.strata
    return [join_order(job.state.tables, stratum.rules[0], place) for place in (0, 1)]


def test_statistics_choose(tmp_path: Path) -> None:
    """Of large organizations friends are looked up first; of small ones, colleagues; the file keeps what was counted,
    until half as many rows have changed."""
    job = near_job(str(tmp_path / "state.db"))
    job.run({"user": {("+", (i, i % 2)) for i in range(60)}, "friend": {("+", (i, i + 2)) for i in range(50)}})
    assert orders(job) == [(2, 1), (2, 0)]
    counted = job.state.tables.statistics
    assert counted["user_", ("org",)][:2] == (60, 2)
    job.run({"user": {("-", (59, 1))}, "friend": {("-", (1, 3))}})
    assert counted["user_", ("org",)][:2] == (60, 2) and job.rows("near") == {(i, i + 2) for i in range(50) if i != 1}
    job.close()
    with open_file_state(job.program, str(tmp_path / "state.db")) as state:
        assert state.tables.statistics == counted and all(changes >= 0 for *_, changes in counted.values())

    few = near_job()
    few.run({"user": {("+", (i, i)) for i in range(9)}, "friend": {("+", (i % 3, i)) for i in range(60)}})
    assert orders(few) == [(1, 2), (0, 2)]
    counted = few.state.tables.statistics
    few.run({"user": {("+", (i, i % 2)) for i in range(9, 200)}})
    assert orders(few)[0] == (2, 1) and counted["user_", ("org",)][:2] == (200, 9)
    few.run({"user": {("-", (i, i % 2)) for i in range(9, 200)} | {("+", (i, 1000 + i)) for i in range(9, 200)}})
    assert orders(few)[0] == (1, 2) and counted["user_", ("org",)][:2] == (200, 200)
    few.close()
