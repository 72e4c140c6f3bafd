"""Recursions with derivation sets on rows: the same entries as the transition rules of the paper, in any order."""

from __future__ import annotations

import contextlib
import itertools
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from flintlog.compiler.cli import main

from golden_tests.checks import Checked
from golden_tests.database.jobs import FileJob, script_text
from golden_tests.kernel.test_derivation_sets import (
    PASSING,
    annotated,
    random_bursts,
    random_inputs,
    run_alone,
    run_both,
)
from golden_tests.nightly import seeds
from golden_tests.oracle import psn
from golden_tests.row_kernel.jobs import RowsJob


@pytest.mark.parametrize("seed", seeds(2, 40))
def test_random_programs(seed: int) -> None:
    """The very entries, with their copies, that the rules lead to."""
    compared = 0
    for number in range(10):
        rng = random.Random(f"entries {seed} {number}")
        text, size = psn.random_positive_program(rng), rng.randint(2, 3)
        with contextlib.suppress(psn.TooLarge):
            compared += run_both(text, [random_inputs(rng, size) for _ in range(3)], rng, RowsJob)
    assert compared


@pytest.mark.parametrize("seed", seeds(2, 40))
def test_random_bursts(seed: int) -> None:
    """Many bursts in a row, some of which have too many sets."""
    done = 0
    for number in range(10):
        rng = random.Random(f"bursts {seed} {number}")
        text = psn.random_positive_program(rng)
        done += run_alone(text, list(random_bursts(rng, rng.randint(1, 2))), RowsJob)
    assert done > 10


@pytest.mark.parametrize("seed", seeds(2, 20))
def test_bursts_in_files(seed: int, tmp_path: Path) -> None:
    """The same in the state of a script."""
    numbers, done = itertools.count(), 0

    def job_of(compilation: Any) -> FileJob:
        folder = tmp_path / str(next(numbers))
        folder.mkdir()
        return FileJob(script_text(compilation), folder)

    for number in range(4):
        rng = random.Random(f"files {seed} {number}")
        text = psn.random_positive_program(rng)
        done += run_alone(text, list(random_bursts(rng, 1)), job_of)
    assert done


def test_commands(tmp_path: Path) -> None:
    """A script says what it refuses, and explains tuples."""
    program = tmp_path / "p.dl"
    program.write_text(
        "input relation e(x: int, y: int)\noutput p.\np(X, Y) :- e(X, Y).\np(X, Z) :- p(X, Y), e(Y, Z).\n"
    )
    (tmp_path / "e.csv").write_text("x,y\n1,2\n2,1\n2,3\n")
    arguments = ["--target", "database", "--recursion", "derivation-sets", "-o", str(tmp_path)]
    assert CliRunner().invoke(main, ["compile", str(program), *arguments]).exit_code == 0
    state = ["--state", str(tmp_path / "state.db")]

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "p.py", *command, *state], cwd=tmp_path, capture_output=True, text=True, check=False
        )

    refused = run("init", "--input", "e.csv", "--max-entries", "4")
    assert refused.returncode == 1
    assert "p_entries: more than 4 derivation sets; leave out --recursion derivation-sets, or raise" in refused.stderr
    assert run("init", "--input", "e.csv", "--max-entries", "40").returncode == 0
    explained = CliRunner().invoke(main, ["job", "explain", str(tmp_path / "p.py"), *state, "p(1, 3)"])
    assert explained.exit_code == 0 and "link" not in explained.output and "e(2, 3)  given" in explained.output
    assert run("verify").returncode == 0


def test_what_is_never_there_divides_nothing() -> None:
    """What leaves and what comes are never joined."""
    for first, second in (
        ({"start": [("+", (1,))]}, {"start": [("-", (1,))], "q": [("+", (1, 0))]}),
        ({"start": [("+", (1,))], "q": [("+", (1, 2))]}, {"q": [("-", (1, 2)), ("+", (50, 0))]}),
        ({"start": [("+", (1,))], "q": [("+", (1, 2)), ("+", (2, 0))]}, {"start": [("-", (1,)), ("+", (3,))]}),
    ):
        compilation = annotated(PASSING)
        checked = Checked(RowsJob(compilation), PASSING, compilation)  # type: ignore[arg-type]
        for batch in (first, second):
            assert checked.apply(batch) == [] and checked.refused == ""
        assert checked.apply({"start": [("+", (7,))], "q": [("+", (7, 0))]}) == []
        assert "division by zero" in checked.refused
        checked.job.close()
