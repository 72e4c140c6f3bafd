"""What an upgrade to another program leaves of the rows that were put in, however their relation is declared."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from golden_tests.faults.test_upgrade import States
from golden_tests.nightly import AT_NIGHT, by_day, seeds
from golden_tests.oracle.batches import Batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATHS = "output relation p(a: int, b: int)\np(X, Y) :- e(X, Y).\np(X, Z) :- p(X, Y), e(Y, Z).\n"

#: One input in all the ways in which it can be declared; ``derived`` only is none.
VARIANTS = {
    "plain": "input relation e(a: int, b: int)\n",
    "facts": "input relation e(a: int, b: int)\ne(1, 2).\ne(7, 8).\n",
    "input derived": "input derived relation e(a: int, b: int)\ninput relation s(x: int)\ne(X, X) :- s(X).\n",
    "derived": "relation e(a: int, b: int)\ninput relation s(x: int)\ne(X, X) :- s(X).\n",
    "key": "input output relation e(a: int, b: int) primary key (a)\n",
    "key and facts": "input output relation e(a: int, b: int) primary key (a)\ne(7, 8).\n",
    "symmetric": "input relation e(a: int, b: int) symmetric\n",
}

PAIRS = list(itertools.permutations(VARIANTS, 2))


class Inputs(States):
    """A state of which only the inputs are declared in another way."""

    def __init__(self, place: SparkSession | None, folder: Path, variant: str) -> None:
        """Nothing is built."""
        super().__init__(place, folder, 2, program=VARIANTS[variant] + PATHS)

    def there(self, batch: Batch) -> Batch:
        """A batch as far as the program has its inputs."""
        return {r.name: batch[r.name] for r in self.language.inputs if r.name in batch}


def chosen() -> Iterator[Any]:
    """Pairs of variants and how one becomes the other; by day some of them."""
    for number, (old, new) in enumerate(PAIRS):
        for command, every, first in (("upgrade", 9, 0), ("rebuild", 12, 4)):
            by_day = {old, new} == {"plain", "facts"} or number % every == first
            yield pytest.param(old, new, command, marks=() if by_day else AT_NIGHT)


@by_day(4)
@pytest.mark.parametrize(("old", "new", "command"), list(chosen()))
def test_ways_to_declare_an_input(old: str, new: str, command: str, tmp_path: Path, place: SparkSession | None) -> None:
    """The rows that were put in stay, whatever else gives the relation tuples; what changes is published."""
    states = Inputs(place, tmp_path, old)
    first: Batch = {"e": [("+", (1, 2)), ("+", (2, 3)), ("+", (5, 1))], "s": [("+", (3,)), ("+", (4,))]}
    states.init(states.there(first))
    states.apply(states.there({"e": [("-", (1, 2)), ("+", (4, 5))], "s": [("-", (3,))]}))
    states.check(verify=False)
    states.turn(VARIANTS[new] + PATHS, command)
    states.apply(states.there({"e": [("-", (7, 8)), ("-", (2, 3)), ("+", (8, 9))], "s": [("+", (3,))]}))
    states.check(verify=False)


@pytest.mark.parametrize("seed", seeds(1, 5))
def test_one_way_after_the_other(seed: int, tmp_path: Path, place: SparkSession | None) -> None:
    """Several upgrades, with batches and compaction between them."""
    rng = random.Random(seed)
    numbers = [(a, b) for a in range(4) for b in range(9)]
    states, variant = Inputs(place, tmp_path, "plain"), "plain"
    states.init({"e": [("+", row) for row in dict(rng.sample(numbers, 4)).items()]})
    for _ in range(5):
        if rng.random() < 0.3:
            states.module.compact(place, states.state, log=states.log)
        variant = rng.choice([other for other in VARIANTS if other != variant])
        states.turn(VARIANTS[variant] + PATHS, rng.choice(["upgrade", "upgrade", "rebuild"]))
        there = sorted(states.inputs.get("e", ()))
        gone = rng.sample(there, min(1, len(there)))
        # A key may be declared next, and a state with two rows of one is refused then.
        taken = {row[0] for row in there}
        come = [row for row in dict(rng.sample(numbers, 2)).items() if row[0] not in taken]
        changes: Batch = {"e": [("-", row) for row in gone] + [("+", row) for row in come], "s": [("+", (2,))]}
        states.apply(states.there(changes))
        states.check(verify=False)
