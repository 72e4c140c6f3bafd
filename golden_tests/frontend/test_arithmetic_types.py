"""The types of arithmetic, one line each."""

from __future__ import annotations

import pytest

from golden_tests.frontend.golden import front, rendered

DECLARATION = (
    "input relation n(i: int, f: float, d: decimal(10,2), e: decimal(5,4), w: decimal(38,0), v: decimal(38,10))\n"
)


@pytest.mark.parametrize(
    ("expression", "type_", "computed"),
    [
        ("I + 1", "int", "I + 1"),
        ("I / 2", "int", "I / 2"),
        ("I * F", "float", "(I as float) * F"),
        ("I * 1.5", "float", "(I as float) * 1.5"),
        ("1 + 1.5", "float", "1.0 + 1.5"),
        ("F % 3", "float", "F % 3.0"),
        ("F + D", "float", "F + (D as float)"),
        ("D + E", "decimal(13,4)", "(D as decimal(13,4)) + (E as decimal(13,4))"),
        ("D - I", "decimal(22,2)", "(D as decimal(22,2)) - (I as decimal(22,2))"),
        ("D + 1", "decimal(11,2)", "(D as decimal(11,2)) + 1.00"),
        ("D * E", "decimal(16,6)", "D * E"),
        ("D * 2", "decimal(12,2)", "D * 2"),
        ("D * 1.05", "decimal(14,4)", "D * 1.05"),
        ("0.5 * D", "decimal(12,3)", "0.5 * D"),
        ("D % E", "decimal(12,4)", "(D as decimal(12,4)) % (E as decimal(12,4))"),
        ("D / E", "float", "(D as float) / (E as float)"),
        ("I / D", "float", "(I as float) / (D as float)"),
        ("D / 4", "float", "(D as float) / 4.0"),
        ("W + W", "decimal(38,0)", "W + W"),
        ("W + V", "decimal(38,10)", "(W as decimal(38,10)) + V"),
        ("W * V", "decimal(38,10)", "W * V"),
        ("-D", "decimal(10,2)", "-D"),
        ("-(I + 1)", "int", "-(I + 1)"),
    ],
)
def test_arithmetic(expression: str, type_: str, computed: str) -> None:
    """The type of an expression and the conversions in it."""
    program, resolved, diagnostics = front(f"{DECLARATION}p({expression}) :- n(I, F, D, E, W, V).\n")
    assert not diagnostics.failed, rendered(diagnostics, program)
    argument = resolved.rules[0].head.arguments[0]
    assert (str(argument.type), str(argument)) == (type_, computed)


@pytest.mark.parametrize(
    ("comparison", "compared"),
    [
        ("I < 3", "I < 3"),
        ("I < F", "(I as float) < F"),
        ("I < 2.5", "(I as float) < 2.5"),
        ("D = 5", "D = 5.00"),
        ("D < 1.234", "(D as decimal(11,3)) < 1.234"),
        ("1.5 <= D", "1.50 <= D"),
        ("D != E", "(D as decimal(12,4)) != (E as decimal(12,4))"),
        ("D > I", "(D as decimal(21,2)) > (I as decimal(21,2))"),
        ("F >= D", "F >= (D as float)"),
    ],
)
def test_comparison(comparison: str, compared: str) -> None:
    """The type in which two values are compared."""
    program, resolved, diagnostics = front(f"{DECLARATION}p(I) :- n(I, F, D, E, W, V), {comparison}.\n")
    assert not diagnostics.failed, rendered(diagnostics, program)
    assert str(resolved.rules[0].body[1]) == compared
