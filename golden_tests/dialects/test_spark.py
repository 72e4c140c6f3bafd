"""Programs of other languages by Spark's engine: integers of all widths, vectors and ties come out as in DuckDB."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from flintlog.compiler.diagnostics import Diagnostics
from flintlog.compiler.dialects import DIALECTS
from flintlog.compiler.ir.syntax_printer import syntax_text
from flintlog.compiler.pipeline import run_passes
from flintlog.compiler.source import SourceFile
from flintlog.targets.pyspark.emit import emit_script

from golden_tests.checks import Checked, insertions
from golden_tests.harness import VERSION, RoundsJob
from golden_tests.nightly import AT_NIGHT
from golden_tests.packed import cases_of

from .halves import without_facts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent
NAMES = {
    "ddlog": (
        "unsigned_wraps",
        "signed_wraps",
        "wide_products",
        "odd_widths",
        "below_zero",
        "casts",
        "elements",
        "bits",
    ),
    "ndlog": ("one_of_equal_paths", "several_witnesses", "strings_joined"),
}
CASES = [
    (dialect, case)
    for dialect, names in NAMES.items()
    for case in cases_of(HERE / dialect / "programs.txt")
    if case.name in names
]


@AT_NIGHT
@pytest.mark.parametrize(("dialect", "text"), [(dialect, case.program) for dialect, case in CASES])
def test_rounds(dialect: str, text: str, spark: SparkSession, tmp_path: Path) -> None:
    """All facts in one batch, of which half are deleted in another one."""
    read = DIALECTS[dialect].read(SourceFile(f"program.{dialect}", text), Diagnostics(), lambda name: None)
    program, facts = without_facts(read)
    compilation = run_passes(program, Diagnostics())
    job = RoundsJob(emit_script(compilation.plan, VERSION, format_code=False), tmp_path / "state", spark)
    try:
        checked = Checked(job, syntax_text(program), compilation)
        batch = insertions(facts)
        assert checked.apply(batch) == []
        if not checked.refused:
            assert checked.apply({name: [("-", row) for _, row in rows[::2]] for name, rows in batch.items()}) == []
    finally:
        job.close()


def test_cases_are_there() -> None:
    """No case has been renamed."""
    assert len(CASES) == sum(map(len, NAMES.values()))
