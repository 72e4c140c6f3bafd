"""Random programs and batches through scripts and files: whatever happens, state and changes are those of
recomputation, and a batch that is killed has happened or has not."""

from __future__ import annotations

import contextlib
import random
import signal
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from flintlog.compiler.pipeline import compile_program
from flintlog.compiler.source import SourceFile

from golden_tests.checks import REFUSALS, Checked, insertions
from golden_tests.database.jobs import FileJob, script_text, write_changes
from golden_tests.job.kill import in_child, killing_connect
from golden_tests.nightly import by_day, seeds
from golden_tests.oracle.batches import apply
from golden_tests.oracle.evaluate import evaluate
from golden_tests.oracle.language import parse
from golden_tests.oracle.random_programs import random_batches, random_inputs
from golden_tests.row_kernel.test_programs import random_text


class OutputsChecked(Checked):
    """A job of which the changes of inputs and outputs are kept."""

    def compare_changes(self, expected: Any) -> list[str]:
        """What is wrong with the net changes that are kept."""
        problems = []
        for relation in self.job.module.logged(self.job.program):
            if relation.name in self.state and not relation.hidden:
                found, wanted = self.job.changes[relation.table], expected.get(relation.name, set())
                problems += [] if found == wanted else [f"changes of {relation.name}: {found}, not {wanted}"]
        return problems


@by_day(3)
@pytest.mark.parametrize("seed", seeds(6, 60))
def test_programs(seed: int, tmp_path: Path) -> None:
    """Random programs in files, each batch by a command."""
    rng = random.Random(f"files {seed}")
    text = random_text(rng)
    compilation = compile_program(SourceFile("test.dl", text))
    job = FileJob(script_text(compilation), tmp_path)
    job.module = job.job  # type: ignore[assignment]
    checked = OutputsChecked(job, text, compilation)  # type: ignore[arg-type]
    inputs = random_inputs(rng, checked.program)
    for batch in [insertions(inputs), *random_batches(rng, checked.program, inputs, 3)]:
        assert not checked.apply(batch), text
        if not job.commits:
            # The first rows are refused, and there is nothing to delete from.
            break
    job.close()


def killed_after(job: FileJob, steps: int, given: list[str]) -> bool:
    """Apply changes, or build the state, in another process, which is killed after so many steps of SQLite's; returns
    whether it was."""

    def work() -> None:
        job.job.__dict__["sqlite3"] = type(
            "Watched", (), {**vars(sqlite3), "connect": staticmethod(killing_connect(steps))}
        )
        with contextlib.suppress(job.job.JobError):  # Of a batch that is refused.
            (job.job.apply if job.commits else job.job.init)(str(job.file), given, log=job.job.Log(True))

    ended = in_child(work)
    assert ended in (0, signal.SIGKILL), ended
    return ended != 0


@by_day(1)
@pytest.mark.parametrize("seed", seeds(3, 15))
def test_kills(seed: int, tmp_path: Path) -> None:
    """A batch that is killed at any step is there as a whole, or not at all; and it can be applied again."""
    rng = random.Random(f"kills {seed}")
    text = random_text(rng)
    compilation = compile_program(SourceFile("test.dl", text))
    job, program = FileJob(script_text(compilation), tmp_path), parse(text)
    inputs: Any = random_inputs(rng, program)
    try:
        evaluate(program, inputs)
    except tuple(REFUSALS):
        inputs = {name: type(rows)() for name, rows in inputs.items()}
    first = write_changes(job.program, insertions(inputs), tmp_path / "first", False)
    if killed_after(job, rng.choice((10, 100, 1000, rng.randrange(20_000))), first):
        job.run(insertions(inputs))
    job.commits = commits(job)
    states: list[bool] = []
    for batch in random_batches(rng, program, inputs, 4):
        given = write_changes(job.program, batch, tmp_path / f"kill-{len(states)}")
        before = commits(job)
        killed = killed_after(job, rng.choice((10, 100, 1000, rng.randrange(20_000))), given)
        states.append(killed)
        try:
            after = apply(inputs, batch, program, "")
            evaluate(program, after)
        except Exception:
            after = inputs
        if commits(job) > before:
            inputs = after
        expected = evaluate(program, inputs)
        for relation in job.program.relations:
            if not relation.hidden and relation.name in expected:
                assert job.tuples(relation) == expected[relation.name], text
        assert not job.differences()
    job.close()


def commits(job: FileJob) -> int:
    """The number of the last commit."""
    with job.opened() as state:
        number: int = state.commit.number
        return number
