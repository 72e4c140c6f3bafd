"""What the page of errors advises to write instead means what the refused rules stand for."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from flintlog.compiler.pipeline import compile_program
from flintlog.compiler.source import SourceFile

from golden_tests.harness import MemoryJob

ERRORS = (Path(__file__).parents[2] / "docs" / "errors.md").read_text(encoding="utf-8")


def advised(code: str) -> str:
    """The last program that the page shows for an error."""
    section = ERRORS.split(f"\n### {code}\n")[1].split("\n### ")[0]
    return re.findall(r"```datalog\n(.*?)```", section, re.DOTALL)[-1]


@pytest.fixture(scope="module")
def sums() -> MemoryJob:
    """The program that is advised for a sum that is part of a recursion."""
    return MemoryJob(compile_program(SourceFile("advice.dl", f"{advised('E0502')}output weight.\n")))


def weights(parts: dict[tuple[str, str], int]) -> set[tuple[str, int]]:
    """What the refused rules of E0502 stand for, where nothing contains itself: a derivation is a choice of tuples."""

    def weight(whole: str) -> int:
        items = [(item, number) for (other, item), number in parts.items() if other == whole]
        return sum(number + weight(item) for item, number in items)

    return {(whole, weight(whole)) for whole, _ in parts}


def test_sum_of_a_recursion(sums: MemoryJob) -> None:
    """Wholes and parts of random sizes, some built in several times over, change by batches."""
    rng = random.Random(502)
    names = [f"p{number}" for number in range(7)]
    pairs = [(whole, item) for at, whole in enumerate(names) for item in names[at + 1 :]]
    parts: dict[tuple[str, str], int] = {}
    twice = 0
    for _ in range(12):
        chosen = rng.sample(pairs, rng.randrange(1, 9))
        changes = [("-", (*pair, parts.pop(pair))) for pair in chosen if pair in parts and rng.random() < 0.7]
        for pair in chosen:
            if pair not in parts:
                parts[pair] = rng.randrange(1, 20)
                changes.append(("+", (*pair, parts[pair])))
        net = {row: op for op, row in changes}
        both = {row for op, row in changes if op == "-"} & {row for op, row in changes if op == "+"}
        sums.run({"part": [(op, row) for row, op in net.items() if row not in both]})
        assert sums.rows("weight") == weights(parts)
        ways = [tuple(row) for row in sums.rows("used")]
        twice += len(ways) > len({(path[0], path[-1]) for *_, path in ways})
    assert twice > 3, "a part that two ways lead to"


def test_sum_of_the_bike(sums: MemoryJob) -> None:
    """A wheel that is built in twice, in front and behind, and two screws of different weight in one thing."""
    now = sums.rows("part")
    parts = {
        ("bike", "frame"): 10,
        ("bike", "front"): 1,
        ("bike", "rear"): 1,
        ("front", "wheel"): 3,
        ("rear", "wheel"): 3,
        ("wheel", "spoke"): 8,
    }
    sums.run({"part": [*(("-", row) for row in now), *(("+", (*pair, n)) for pair, n in parts.items())]})
    assert sums.rows("weight") == weights(parts) == {("bike", 34), ("front", 11), ("rear", 11), ("wheel", 8)}
