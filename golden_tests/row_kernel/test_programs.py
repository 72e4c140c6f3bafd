"""Random programs and batches on rows: whatever happens, state and changes are those of recomputation."""

from __future__ import annotations

import random

import pytest
from flintlog.compiler.pipeline import compile_program
from flintlog.compiler.source import SourceFile
from flintlog.runtime.row_kernel.model import JoinChoice, RowRule
from flintlog.runtime.row_kernel.tables import ROW_PARTS

from golden_tests.checks import Checked, insertions
from golden_tests.nightly import by_day, seeds
from golden_tests.oracle.random_programs import random_batches, random_inputs
from golden_tests.oracle.random_sums import sum_scenario
from golden_tests.oracle.strategies import FEATURES, MORE_FEATURES, random_program
from golden_tests.row_kernel.jobs import RowsJob

MORE = sorted(MORE_FEATURES - {"locations"})

CHUNK = 5
"""So many programs are one test."""


def random_text(rng: random.Random) -> str:
    """A random program, with some of the rarer features."""
    return random_program(rng, FEATURES | {feature for feature in MORE if rng.random() < 0.5})


@by_day(2)
@pytest.mark.parametrize("seed", seeds(4, 100))
def test_programs(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random programs, half of them with joins in any of the orders that there are."""
    chosen = ROW_PARTS["join order"]
    for number in range(CHUNK):
        rng, orders = random.Random(f"rows {seed} {number}"), random.Random(f"orders {seed} {number}")

        def any_order(_: object, rule: RowRule, choice: JoinChoice, orders: random.Random = orders) -> list[int]:
            return [place for place, _ in orders.choice(choice.orders)]

        monkeypatch.setitem(ROW_PARTS, "join order", any_order if number % 2 else chosen)
        text = random_text(rng)
        compilation = compile_program(SourceFile("test.dl", text))
        checked = Checked(RowsJob(compilation), text, compilation)  # type: ignore[arg-type]
        inputs = random_inputs(rng, checked.program)
        for batch in [insertions(inputs), *random_batches(rng, checked.program, inputs, 4)]:
            assert not checked.apply(batch), text


@pytest.mark.parametrize("seed", seeds(6, 30))
def test_sums(seed: int) -> None:
    """Recursions with sums, which order their groups."""
    scenario = sum_scenario(seed)
    compilation = compile_program(SourceFile("test.dl", scenario.text))
    checked = Checked(RowsJob(compilation), scenario.text, compilation)  # type: ignore[arg-type]
    for batch in [insertions(scenario.inputs), *scenario.batches]:
        assert not checked.apply(batch), scenario.text
