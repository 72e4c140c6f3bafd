"""Every golden case on rows: its batches do what they do elsewhere, and none of their statements reads a relation as a
whole."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest
from flintlog.runtime.row_kernel.model import WHOLE_GROUP
from flintlog.runtime.row_kernel.tables import ROW_PARTS, RowTables
from flintlog.targets.database.lower import lower_rows

from golden_tests.batch_files import read_batches
from golden_tests.checks import Checked
from golden_tests.language.test_cases import CASES, by_name, compiled, functions_of, whole_text
from golden_tests.row_kernel.jobs import RowsJob


@pytest.mark.parametrize("case", CASES, ids=by_name)
def test_batches(case: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oracle agrees with every batch, and no statement behind the first batch scans a relation that it could
    search."""
    check_batches(case, monkeypatch)


WITH_CHOICES = [
    case
    for case in CASES
    if any(rule.choices for stratum in lower_rows(compiled(case).plan).strata for rule in stratum.rules)
]


@pytest.mark.parametrize("case", WITH_CHOICES, ids=by_name)
def test_other_orders(case: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So they do when joins are in the order that differs most from the compiler's."""
    monkeypatch.setitem(ROW_PARTS, "join order", lambda tables, rule, choice: [n for n, _ in choice.orders[-1]])
    check_batches(case, monkeypatch)


def check_batches(case: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Apply the batches of a case, and read the plan of every statement."""
    job = RowsJob(compiled(case), functions_of(case))
    checked = Checked(job, whole_text(case), compiled(case))  # type: ignore[arg-type]
    plans: dict[str, list[str]] = {}
    execute = RowTables.execute
    watching = False

    def explained(tables: RowTables, sql: str, values: Sequence[object] = ()) -> sqlite3.Cursor:
        if watching and sql not in plans and not sql.startswith("CREATE"):
            plans[sql] = [row[3] for row in execute(tables, f"EXPLAIN QUERY PLAN {sql}", values)]
        return execute(tables, sql, values)

    monkeypatch.setattr(RowTables, "execute", explained)
    for number, batch in enumerate(read_batches(case / "batches.dat", job.program).values()):
        watching = number > 0
        problems = checked.apply(batch, recount=False)
        watching = False
        assert not problems, problems
        assert not job.differences()
    single = {table.bare for table in job.state.tables.tables.values() if table.key == (WHOLE_GROUP,)}
    job.close()
    assert not {sql: plan for sql, plan in plans.items() if scanned(sql, plan) - single}


def scanned(sql: str, plan: Sequence[str]) -> set[str]:
    """The relations that a statement reads from end to end although an equality joins them with a table before them:
    nothing but a scan finds the partners of a product."""
    listed = sql.partition(" FROM ")[2].partition(" WHERE ")[0]
    items = re.findall(r'(temp\.)?"(_rows_of_[^"]+)" AS "?([^" )]+)"?', listed)
    scans = [line.split()[1] for line in plan if line.startswith("SCAN ")]
    wrong = set()
    for place, (temporary, table, alias) in enumerate(items):
        one = rf'"?{re.escape(alias)}"?\."[^"]+"'
        for *_, before in items[:place]:
            other = rf'\+?"?{re.escape(before)}"?\."[^"]+"'
            if not temporary and alias in scans and re.search(rf"(?<!\w)({one} = {other}|{other} = {one})(?!\w)", sql):
                wrong.add(table)
    return wrong
