"""``flintlog.open``: views in this process, in memory and in a file."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from decimal import Decimal
from pathlib import Path

import flintlog
import pytest
from flintlog.compiler.pipeline import compile_program

from golden_tests.database.jobs import loaded, script_text

REACH = Path(__file__).parents[2] / "examples" / "reach" / "reach.dl"

TYPED = """
input relation item(name: string?, cost: decimal(9,2), day: date, tags: list<string>)
output relation dear(name: string?, cost: decimal(9,2), day: date, tags: list<string>)
dear(n, c, d, t) :- item(n, c, d, t), c > 2.
"""


def test_batches_in_memory() -> None:
    """Net changes of the outputs, relations, SQL, changes since a commit, and callbacks."""
    heard: list[flintlog.Change] = []
    with flintlog.open(REACH) as view:
        view.on_change("reachable", heard.append)
        changed = view.apply(link=[("+", 1, 2), ("+", 2, 3)])
        assert changed["reachable"].inserted.to_list() == [(1, 2), (1, 3), (2, 3)]
        assert view["link"].to_list() == [(1, 2), (2, 3)]
        assert view.sql("SELECT count(*) FROM reachable WHERE src = ?", (1,)) == [(2,)]
        assert view.apply({"link": [("-", 2, 3), ("+", 3, 4)]}, batch="monday")["reachable"].deleted.to_list() == [
            (1, 3),
            (2, 3),
        ]
        assert view.apply({"link": [("-", 2, 3), ("+", 3, 4)]}, batch="monday") == {}
        assert [*view.changes(since=2)] == [
            (3, "link", "-", (2, 3)),
            (3, "link", "+", (3, 4)),
            (3, "reachable", "-", (1, 3)),
            (3, "reachable", "-", (2, 3)),
            (3, "reachable", "+", (3, 4)),
        ]
        assert len(heard) == 2 and view.commit == 3 and not view.verify()


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (("+", 1), "row 1: it must have an operation and 2 values"),
        (("+", 1, "2"), 'row 1, column dst: "2" is text in quotes'),
        (("+", 1, None), "row 1, column dst: null"),
        (("*", 1, 2), 'row 1, column op: unknown operation "*"'),
        (("+", 1, 2**63), "row 1, column dst: 9223372036854775808 does not fit 64 bits"),
    ],
)
def test_rows_that_are_refused(row: tuple[object, ...], said: str) -> None:
    """The message names the row and the column, and nothing changes."""
    with flintlog.open(REACH) as view:
        with pytest.raises(flintlog.JobError) as error:
            view.apply(link=[row])
        assert f"the changes of link, {said}" in str(error.value) and view.commit == 1
        with pytest.raises(flintlog.JobError, match="cannot be read or written"):
            view.sql("DELETE FROM _commits")


def test_values_of_all_kinds() -> None:
    """Decimals, dates, lists and nulls come out as they went in."""
    row = (None, Decimal("2.50"), date(2026, 1, 2), ["a", "b"])
    with flintlog.open(TYPED) as view:
        assert view.apply(item=[("+", *row), ("+", "x", 1, date(1, 1, 1), ())])["dear"].inserted.to_list() == [row]


def test_a_file_that_a_script_uses_too(tmp_path: Path) -> None:
    """A view and the script of the program take turns on one file."""
    path = tmp_path / "reach.db"
    with flintlog.open(REACH, path) as view:
        view.apply(link=[("+", 1, 2)])
        job = loaded(script_text(compile_program(REACH)))
        (tmp_path / "link.csv").write_text("op,src,dst\n+,2,3\n", encoding="utf-8")
        assert job.apply(str(path), str(tmp_path / "link.csv"), log=job.Log(True))["commit"] == 3
        assert view.commit == 3
        assert view.apply(link=[("+", 3, 4)])["reachable"].inserted.to_list() == [(1, 4), (2, 4), (3, 4)]
    assert not job.verify(str(path), log=job.Log(True))["differences"]
    with flintlog.open(REACH, path) as view:
        assert len(view["reachable"]) == 6
    with pytest.raises(flintlog.JobError, match="written by another program"):
        flintlog.open(TYPED, path)


def test_a_batch_again() -> None:
    """Its commit is returned, and nothing changes."""
    with flintlog.open(REACH) as view:
        first, second = view.apply(link=[("+", 1, 2)], batch="one"), view.apply(link=[("+", 2, 3)])
        again = view.apply(link=[("+", 8, 9)], batch="one")
        assert [(done.commit, done.batch) for done in (first, second, again)] == [
            (2, "one"),
            (3, "batch-000003"),
            (2, "one"),
        ]
        assert first and second and not again and view.commit == 3
        assert [commit for commit, *_ in view.changes(first.commit)] == [3, 3, 3]


def test_a_closed_view() -> None:
    """It is refused with a message, whatever it is asked."""
    view = flintlog.open(REACH)
    view.close()
    for ask in (lambda: view.commit, lambda: view["link"], lambda: view.apply(link=[("+", 1, 2)]), view.verify):
        with pytest.raises(flintlog.JobError, match="is closed"):
            ask()


def test_a_relation_called_closed() -> None:
    """Errors that name it are not taken for those of a closed file."""
    program = "input relation link(closed: int)\noutput closed.\nclosed(A) :- link(A)."
    wrong = pytest.raises(sqlite3.OperationalError, match="no such column: closed")
    with flintlog.open(program, ":memory:") as view, wrong:
        view.sql("SELECT closed FROM _commits")


def test_another_thread() -> None:
    """As of a connection, only the thread that has opened a view uses it."""
    with flintlog.open(REACH) as view:
        errors = []

        def use() -> None:
            try:
                view.apply(link=[("+", 1, 2)])
            except Exception as error:
                errors.append(error)

        thread = threading.Thread(target=use)
        thread.start()
        thread.join()
        assert "thread" in str(errors[0])


def test_nothing_is_imported_that_is_not_there() -> None:
    """A view needs neither DuckDB nor PyArrow."""
    program = f"""
import sys
sys.modules |= dict.fromkeys(("duckdb", "pyarrow", "pyspark", "numpy", "pandas"))
import flintlog
with flintlog.open({str(REACH)!r}) as view:
    print(len(view.apply(link=[("+", 1, 2)])["reachable"].inserted))
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert result.stdout == "1\n", result.stderr


def test_several_open_a_new_file_at_once(tmp_path: Path) -> None:
    """One of them makes it, and the batches of all are there."""
    path = tmp_path / "new.db"
    ready = threading.Barrier(4)

    def work(number: int) -> None:
        ready.wait()
        with flintlog.open(REACH, path) as view:
            view.apply(link=[("+", number, number)])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    with flintlog.open(REACH, path) as view:
        assert len(view["link"]) == 4 and view.commit == 5
