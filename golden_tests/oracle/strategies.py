"""Hypothesis strategies for programs, inputs and change batches, built on ``random_programs.py``.

Every question of the builder is a draw of its own whose simplest answer comes first, so failures shrink to few rules,
few atoms and few rows. The seeded generators are offered here as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

from hypothesis import strategies as st

from .batches import Batch
from .language import Program, Row
from .random_programs import (
    DOMAIN,
    FEATURES,
    MORE_FEATURES,
    Builder,
    Scenario,
    as_program,
    build_batches,
    build_inputs,
    random_batches,
    random_inputs,
    random_program,
    random_scenario,
)

__all__ = [
    "DOMAIN",
    "FEATURES",
    "MORE_FEATURES",
    "Scenario",
    "batches",
    "inputs",
    "programs",
    "random_batches",
    "random_inputs",
    "random_program",
    "random_scenario",
    "scenarios",
]


@dataclass
class HypothesisChooser:
    """Answers that hypothesis draws and shrinks."""

    draw: st.DrawFn

    def below(self, n: int) -> int:
        """An integer from 0 to ``n`` - 1."""
        return self.draw(st.integers(0, n - 1)) if n > 1 else 0


@st.composite
def programs(draw: st.DrawFn, features: Iterable[str] = FEATURES) -> str:
    """Texts of valid programs that show some of ``features``."""
    return Builder(HypothesisChooser(draw), features).program()


@st.composite
def inputs(draw: st.DrawFn, program: Program | str, most: int = 12) -> dict[str, set[Row]]:
    """Rows for every input relation of ``program``."""
    return build_inputs(Builder(HypothesisChooser(draw), ()), as_program(program), most)


@st.composite
def batches(
    draw: st.DrawFn, program: Program | str, rows: Mapping[str, Set[Row]], most_batches: int = 4, most: int = 6
) -> list[Batch]:
    """One to ``most_batches`` batches to be applied to ``rows`` one after the other."""
    builder = Builder(HypothesisChooser(draw), ())
    return build_batches(builder, as_program(program), rows, builder.number(1, most_batches, 60), most)


@st.composite
def scenarios(draw: st.DrawFn, features: Iterable[str] = FEATURES, most_batches: int = 4) -> Scenario:
    """A program, its first inputs and batches."""
    text = draw(programs(features))
    rows = draw(inputs(text))
    return Scenario(text, rows, draw(batches(text, rows, most_batches)))
