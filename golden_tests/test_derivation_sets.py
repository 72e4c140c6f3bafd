"""Recursions with derivation sets: the job against the paper's transition rules, in any order of the updates."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from typing import Any

import pytest
from flintlog.compiler.pipeline import compile_program
from flintlog.compiler.source import SourceFile

from golden_tests.harness import MemoryJob
from golden_tests.nightly import NIGHTLY, START
from golden_tests.oracle import psn
from golden_tests.oracle.evaluate import evaluate, strata
from golden_tests.oracle.language import Program, Row, parse

Inputs = dict[str, set[Row]]


def annotated(text: str) -> Any:
    """A program compiled with derivation sets."""
    return compile_program(SourceFile("test.dl", text), recursion="derivation-sets")


def text_of(fact: psn.Fact) -> str:
    """A fact as the job writes it; its values are integers, or strings without quotes."""
    values = (f'"{value}"' if isinstance(value, str) else str(value) for value in fact[1])
    return f"{fact[0]}({','.join(values)})"


def expected_entries(system: psn.System, members: set[str], kept: set[str]) -> Counter[tuple[Any, ...]]:
    """The entries of some relations as the job holds them."""
    found: Counter[tuple[Any, ...]] = Counter()
    for (fact, derived, infinite), count in (+system.view).items():
        if fact[0] in members:
            assert kept >= {name for name, _ in derived}
            sets = (tuple(sorted(map(text_of, facts))) for facts in (derived, infinite))
            found[(*fact, *sets)] += count
    return found


def entries_in(job: MemoryJob, members: set[str]) -> Counter[tuple[Any, ...]]:
    """The entries that a job holds."""
    found: Counter[tuple[Any, ...]] = Counter()
    for relation in job.program.relations:
        name = relation.name.removesuffix("_entries")
        if relation.kind == "entries" and name in members:
            for row, count in job.counts(relation).items():
                found[(name, row[:-2], *row[-2:])] += count
    return found


def changes_between(before: Inputs, after: Inputs) -> list[tuple[int, psn.Fact]]:
    """A burst of updates."""
    names = sorted(before.keys() | after.keys())
    gone = [(-1, (name, row)) for name in names for row in sorted(before.get(name, set()) - after.get(name, set()))]
    come = [(1, (name, row)) for name in names for row in sorted(after.get(name, set()) - before.get(name, set()))]
    return [*gone, *come]


def comparable(program: Program) -> set[str]:
    """The recursive relations whose recursion reads inputs and itself only: there the paper's sets and the job's are
    the same, while a job takes what an earlier stratum derives as given."""
    found: set[str] = set()
    inputs = {relation.name for relation in program.inputs}
    for stratum in strata(program):
        read = {a.relation for r in program.rules if r.head.relation in stratum.relations for a in r.body}  # type: ignore[union-attr]
        if stratum.recursive and read <= inputs | set(stratum.relations):
            found |= set(stratum.relations)
    return found


def run_both(text: str, bursts: list[Inputs], rng: random.Random) -> int:
    """Take a job and the transition rules through bursts; returns how many entries were compared."""
    program = parse(text)
    system = psn.System(program.rules, psn.shuffled(rng))
    job = MemoryJob(annotated(text))
    members, before, compared = comparable(program), Inputs(), 0
    kept = {relation.name for relation in program.inputs} | members
    try:
        for inputs in bursts:
            changes = changes_between(before, inputs)
            system.burst(changes)
            batch: dict[str, list[tuple[str, Row]]] = {}
            for sign, (name, row) in changes:
                batch.setdefault(name, []).append(("+" if sign > 0 else "-", row))
            job.run(batch)
            system.run()
            before = inputs
            facts = psn.facts_of(system, program)
            assert facts == evaluate(program, inputs)
            assert {name: job.rows(name) for name in facts} == facts
            assert job.differences() == []
            expected = expected_entries(system, members, kept)
            assert entries_in(job, members) == expected
            compared += expected.total()
    finally:
        job.close()
    return compared


def random_inputs(rng: random.Random, size: int) -> Inputs:
    """Rows of e, f and g over so many values."""
    return {
        name: {row for row in itertools.product(range(size), repeat=arity) if rng.random() < share}
        for name, arity, share in (("e", 2, 0.4), ("f", 1, 0.6), ("g", 2, 0.3))
    }


@pytest.mark.parametrize("block", range(40 if NIGHTLY else 4))
def test_random_programs(block: int) -> None:
    """After every burst the job has the very entries, with their copies, that the rules lead to in a random order."""
    compared = large = 0
    for seed in range(START + 25 * block, START + 25 * (block + 1)):
        rng = random.Random(seed)
        text, size = psn.random_positive_program(rng), rng.randint(2, 3)
        try:
            compared += run_both(text, [random_inputs(rng, size) for _ in range(3)], rng)
        except psn.TooLarge:
            large += 1
    assert compared > 0 and large < 20
