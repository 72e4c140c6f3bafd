"""Golden cases as scripts with a file: what their batches do elsewhere, they do here."""

from __future__ import annotations

from pathlib import Path

import pytest

from golden_tests.batch_files import read_batches
from golden_tests.database.jobs import FileJob, script_text
from golden_tests.database.test_programs import OutputsChecked
from golden_tests.language.test_cases import CASES, by_name, compiled, functions_of, whole_text
from golden_tests.nightly import AT_NIGHT

BY_DAY = ("external_functions", "lists", "multiset", "names_of_sql", "optional_columns", "types", "upserts")


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=by_name(case), marks=() if case.name in BY_DAY else AT_NIGHT) for case in CASES],
)
def test_batches(case: Path, tmp_path: Path) -> None:
    """The oracle agrees with every batch."""
    job = FileJob(script_text(compiled(case)), tmp_path, functions_of(case))
    job.module = job.job  # type: ignore[assignment]
    checked = OutputsChecked(job, whole_text(case), compiled(case))  # type: ignore[arg-type]
    for batch in read_batches(case / "batches.dat", job.program).values():
        assert not checked.apply(batch)
    job.close()
