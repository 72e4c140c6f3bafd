"""A value that there is not refuses a batch, whatever reads it."""

from __future__ import annotations

import flintlog
import pytest
from flintlog.compiler.pipeline import compile_program
from flintlog.compiler.source import SourceFile

from golden_tests.checks import Checked
from golden_tests.harness import MemoryJob
from golden_tests.nightly import by_day
from golden_tests.row_kernel.jobs import RowsJob

PROGRAM = """
input relation e(x: int, y: int)
input relation no(x: int)
"""

ONE, TWO, THREE = (
    f"output relation p({columns})\n" for columns in ("x: int", "x: int, y: int", "x: int, y: int, z: int")
)


@by_day(12)
@pytest.mark.parametrize("kind", [RowsJob, MemoryJob])
@pytest.mark.parametrize(
    "rule",
    [
        ONE + "p(X) :- e(X, Y), A = X + Y.",
        ONE + "p(X) :- e(X, Y), A = X + Y, B = A % 5.",
        ONE + "p(X) :- e(X, Y), A = X + Y, !no(A).",
        ONE + "p(X) :- e(X, Y), A = X + Y, B = A % 5, !no(B).",
        ONE + "p(X) :- e(X, Y), !no(X + Y).",
        ONE + "p(X) :- e(X, Y), A = X + Y, A > 3.",
        ONE + "p(A) :- e(X, Y), A = X + Y.",
        ONE + "p(X) :- e(X, Y), e(A, X), A = X + Y.",
        ONE + "p(max<X>) :- e(X, Y), A = X + Y.",
        ONE + "p(count<*>) :- e(X, Y), A = X + Y.",
        ONE + "p(count<*>) :- e(X, Y), A = X + Y, A > 3.",
        ONE + "p(count<*>) :- e(X, Y), A = X + Y, !no(A).",
        ONE + "p(count<A>) :- e(X, Y), A = X + Y.",
        ONE + "p(X) :- e(X, 1).  p(X) :- p(X), e(X, Y), A = X + Y, !no(A).",
        TWO + "p(X, count<A>) :- e(X, Y), A = X + Y.",
        TWO + "p(X, count<X + Y>) :- e(X, Y).",
        TWO + "p(count<*>, X) :- e(X, Y), A = X + Y, !no(A).",
        TWO + "p(X, min<Y>) :- e(X, Y), Y < 3.  p(X, min<B>) :- e(X, Y), p(Y, B), A = X + X, !no(A).",
        TWO + "p(X, min<Y>) :- e(X, Y), Y < 3.  p(X, min<B>) :- e(X, Y), p(Y, B), A = X + X.",
        TWO + "p(first<2>, X) :- e(X, Y), A = X + Y, !no(A).",
        TWO + "p(first<2 by Y>, X) :- e(X, Y), A = X + Y, A > 3.",
        TWO + "p(X, count<*>) :- e(X, Y).  p(X, count<*>) :- e(X, Y), p(Y, N), A = X + X.",
        TWO + "p(X, sum<L>) :- e(X, Y), L = Y % 3.  p(X, sum<L>) :- e(X, Y), p(Y, N), A = X + X, L = 1.",
        THREE + "p(X, first<2 by A>, Y) :- e(X, Y), A = X + Y.",
    ],
)
def test_what_reads_them(rule: str, kind: type[RowsJob | MemoryJob]) -> None:
    """A sum that does not fit its type, in a rule that uses it or not."""
    compilation = compile_program(SourceFile("test.dl", PROGRAM + rule))
    checked = Checked(kind(compilation), PROGRAM + rule, compilation)  # type: ignore[arg-type]
    assert checked.apply({"e": [("+", (3, 1)), ("+", (4, 3))]}) == [] and not checked.refused
    large = [("+", (2**63 - 1, 1)), ("+", (2**63 - 1, 3)), ("+", (7, 2**63 - 1))]
    assert checked.apply({"e": large}) == [] and checked.refused
    assert checked.apply({"no": [("+", (4,))]}) == [] and not checked.refused
    assert checked.apply({"e": [("-", (4, 3)), ("+", (4, 2))]}) == [] and not checked.refused
    checked.job.close()


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("output p.\np(X, 10 / Y) :- e(X, Y).", "by zero in p_1 (program.dl:5), for a tuple of p with X = 2;"),
        ("output p.\np(X) :- e(X, Y), 10 / Y > 2.", "by zero in p_1 (program.dl:5), for a tuple of p with X = 2;"),
        ("output p.\np(X, 10 / Y) :- e(X, Y), !no(X).", "for a tuple of p with X = 2;"),
        ("output p.\np(X, sum<S>) :- e(X, Y), S = 10 / Y.", "for a tuple of p with X = 2;"),
        ("output p.\np(sum<S>) :- e(X, Y), S = 10 / Y.", "by zero in p_1 (program.dl:5), for a tuple of p;"),
        ("output p.\np(sum<S>) :- e(X, Y), S = X * 4611686018427387903.", "a sum of p does not fit its type;"),
        (
            "output p.\np(X, f(Y)) :- e(X, Y).",
            "or f without a value, in p_1 (program.dl:5), for a tuple of p with X",
        ),
        ("output p.\np(X, Y) :- e(X, Y).\np(X, 1 / Y) :- e(X, Y).", "for a tuple of p with X = 2;"),
    ],
)
def test_messages(rule: str, said: str) -> None:
    """They have the values that there are, of the rule that lacks one."""
    declared = "extern function f(x: int): int" if "f(Y)" in rule else ""
    text = f"{declared}{PROGRAM}{rule}"
    functions = {"f": lambda x: x or None} if declared else None
    with flintlog.open(text, functions=functions) as view, pytest.raises(flintlog.JobError) as refused:
        view.apply(e=[("+", 1, 1), ("+", 2, 0)])
    assert said in str(refused.value)
