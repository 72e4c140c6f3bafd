"""A value that there is not refuses a batch, whatever reads it."""

from __future__ import annotations

import pytest
from flintlog.compiler.pipeline import compile_program
from flintlog.compiler.source import SourceFile

from golden_tests.checks import Checked
from golden_tests.harness import MemoryJob
from golden_tests.row_kernel.jobs import RowsJob

PROGRAM = """
input relation e(x: int, y: int)
input relation no(x: int)
output relation p(x: int)
"""


@pytest.mark.parametrize("kind", [RowsJob, MemoryJob])
@pytest.mark.parametrize(
    "rule",
    [
        "p(X) :- e(X, Y), A = X + Y.",
        "p(X) :- e(X, Y), A = X + Y, B = A % 5.",
        "p(X) :- e(X, Y), A = X + Y, !no(A).",
        "p(X) :- e(X, Y), A = X + Y, B = A % 5, !no(B).",
        "p(X) :- e(X, Y), A = X + Y, A > 3.",
        "p(A) :- e(X, Y), A = X + Y.",
        "p(X) :- e(X, Y), e(A, X), A = X + Y.",
        "p(max<X>) :- e(X, Y), A = X + Y.",
        "p(X) :- e(X, 1).  p(X) :- p(X), e(X, Y), A = X + Y, !no(A).",
    ],
)
def test_what_reads_them(rule: str, kind: type[RowsJob | MemoryJob]) -> None:
    """A sum that does not fit its type, in a rule that uses it or not."""
    compilation = compile_program(SourceFile("test.dl", PROGRAM + rule))
    checked = Checked(kind(compilation), PROGRAM + rule, compilation)  # type: ignore[arg-type]
    assert checked.apply({"e": [("+", (3, 1)), ("+", (4, 3))]}) == [] and not checked.refused
    assert checked.apply({"e": [("+", (2**63 - 1, 1)), ("+", (7, 2**63 - 1))]}) == [] and checked.refused
    assert checked.apply({"no": [("+", (4,))]}) == [] and not checked.refused
    checked.job.close()
