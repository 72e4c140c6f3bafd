"""What every pass promises, checked after it on random programs, and the delta certificate of every rule."""

from __future__ import annotations

from pathlib import Path

import pytest
from flintlog.compiler.diagnostics import CompileError
from flintlog.compiler.ir.syntax import RECURSIONS
from flintlog.compiler.ir.verify import CHECKS
from flintlog.compiler.pipeline import NODE_PASSES, PASSES, Compilation, compile_program
from flintlog.compiler.processes import compile_processes
from flintlog.compiler.review.certify import certify
from flintlog.compiler.source import SourceFile

from golden_tests.harness import EXAMPLES
from golden_tests.nightly import by_day
from golden_tests.oracle import strategies

PROCESSES = sorted(Path(__file__).parents[1].glob("addons/processes/cases/*/program.dl"))


def check(compilation: Compilation) -> None:
    """Every pass keeps its promises, and every change of every rule is counted exactly once."""
    for name, result in compilation.results.items():
        CHECKS[name](result)
    certificates = certify(compilation.delta)
    assert len(certificates) == len(compilation.rewritten.rules)
    for certificate in certificates:
        assert certificate.holds, str(certificate)


def test_every_pass_has_a_check() -> None:
    """And every check a pass."""
    assert list(CHECKS) == [*(step.name for step in PASSES), "project_sends", "split_nodes"]
    assert CHECKS.keys() == {step.name for step in NODE_PASSES}


@by_day(1)
@pytest.mark.parametrize("seed", range(0, 300, 20))
def test_passes_keep_their_promises_on_random_programs(seed: int) -> None:
    """Twenty programs a seed, with locations, so that localization has something to do."""
    for number in range(seed, seed + 20):
        text = strategies.random_scenario(number, strategies.FEATURES | {"locations"}, 1).text
        check(compile_program(SourceFile("random.dl", text)))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
@pytest.mark.parametrize("recursion", RECURSIONS)
def test_passes_keep_their_promises_on_examples(recursion: str, path: Path) -> None:
    """The example programs, as far as derivation sets cover them."""
    try:
        compilation = compile_program(path, recursion=recursion)
    except CompileError as error:
        assert recursion != "ranks" and {item.code for item in error.diagnostics} & {"E0504"}
        return
    check(compilation)


@pytest.mark.parametrize("path", PROCESSES, ids=lambda path: path.parent.name)
def test_passes_keep_their_promises_on_processes(path: Path) -> None:
    """Each process, and all as one program; a recursion over several has derivation sets."""
    found = compile_processes([path])
    for compilation in (*found.compilations.values(), found.whole):
        check(compilation)


@pytest.mark.parametrize("aggregate", ["count<*>", "count<C>", "count<distinct C>", "sum<C>", "avg<C>"])
def test_values_do_not_decide_which_groups_there_are(aggregate: str) -> None:
    """They may be compared, but not be joined, negated or grouped by."""
    text = "input relation e(x: int, y: int, c: int)\ninput relation f(c: float)\ninput relation i(c: int)\noutput p.\n"
    text += f"p(Y, {aggregate}) :- e(_, Y, C).\np(Y, {aggregate}) :- p(X, L), e(X, Y, C), "
    name = "f" if "avg" in aggregate else "i"
    assert "E0502" not in codes(f"{text}L > 3.\n")
    for body in (f"{name}(L).\n", f"!{name}(L).\n"):
        assert "E0502" in codes(f"{text}{body}")


@pytest.mark.parametrize(("function", "sign"), [("min", "<"), ("max", ">")])
def test_a_value_of_a_recursion_may_be_compared_from_one_side(function: str, sign: str) -> None:
    """Only so that a better value holds where a worse one does, on whichever side of the sign it is written."""
    turned = {"<": ">", ">": "<"}
    for left, op, right in (("C", sign, "7"), ("7", turned[sign], "C")):
        for mark, expected in ((op, set()), (f"{op}=", set()), (turned[op], {"E0503"}), (f"{turned[op]}=", {"E0503"})):
            text = (
                f"input relation e(x: int, y: int, c: int)\noutput p.\np(X, {function}<C>) :- e(X, _, C).\n"
                f"p(Y, {function}<D>) :- p(X, C), {left} {mark} {right}, e(X, Y, _), D = C + 1.\n"
            )
            assert codes(text) == expected, text


def codes(text: str) -> set[str]:
    """The codes of what the compiler reports about a program."""
    try:
        return {item.code for item in compile_program(SourceFile("test.dl", text)).warnings}
    except CompileError as error:
        return {item.code for item in error.diagnostics}
