"""What every pass promises, checked after it on random programs, and the delta certificate of every rule."""

from __future__ import annotations

from pathlib import Path

import pytest
from flintlog.compiler.certify import certify
from flintlog.compiler.ir.verify import CHECKS
from flintlog.compiler.pipeline import PASSES, Compilation, compile_program
from flintlog.compiler.source import SourceFile

from golden_tests.harness import EXAMPLES
from golden_tests.oracle import strategies

ROOT = Path(__file__).parents[1]


def check(compilation: Compilation) -> None:
    """Every stage keeps its promises, and every change of every rule is counted exactly once."""
    for step in PASSES:
        CHECKS[step.stage](getattr(compilation, step.stage))
    certificates = certify(compilation.delta)
    assert len(certificates) == len(compilation.rewritten.rules)
    for certificate in certificates:
        assert certificate.holds, str(certificate)


@pytest.mark.parametrize("seed", range(0, 300, 20))
def test_passes_keep_their_promises_on_random_programs(seed: int) -> None:
    """Twenty programs a seed, with locations, so that localization has something to do."""
    for number in range(seed, seed + 20):
        text = strategies.random_scenario(number, strategies.FEATURES | {"locations"}, 1).text
        check(compile_program(SourceFile("random.dl", text)))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_passes_keep_their_promises_on_examples(path: Path) -> None:
    """The example programs."""
    check(compile_program(path))
