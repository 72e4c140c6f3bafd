"""The kernel alone: without the rest of the runtime, in an engine of a few lines, it maintains what all others do."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from flintlog.compiler.pipeline import compile_program
from flintlog.compiler.source import SourceFile
from flintlog.runtime.kernel.errors import JobError
from flintlog.targets.pyspark.emit import job_templates, program_part

from golden_tests.checks import insertions
from golden_tests.harness import VERSION, ImportedJob, frozen_row
from golden_tests.nightly import seeds
from golden_tests.random_search import scenario_of

ALONE = Path(__file__).with_name("alone.py")
PROGRAMS_AT_ONCE = 4


def maintained_alone(programs: list[Any]) -> list[Any]:
    """What ``alone.py`` says of programs and their batches; raise AssertionError with its traceback if it fails."""
    environment = {**os.environ, "PYTHONPATH": str(ALONE.parents[2])}
    done = subprocess.run(
        [sys.executable, str(ALONE)], input=pickle.dumps(programs), capture_output=True, env=environment
    )
    assert done.returncode == 0, done.stderr.decode()
    return list(pickle.loads(done.stdout))


@pytest.mark.parametrize("first", seeds(1, 5))
def test_random_programs(first: int) -> None:
    """After each batch every relation, also hidden ones, is as in a session, and a recount finds nothing."""
    programs, expected = [], []
    for seed in range(first * PROGRAMS_AT_ONCE, (first + 1) * PROGRAMS_AT_ONCE):
        scenario = scenario_of(seed)
        compilation = compile_program(SourceFile("test.dl", scenario.text))
        job = ImportedJob(compilation)
        tables = {r.name: r.table for r in job.program.relations if r.kind == "input"}
        batches, states = [], []
        for batch in (insertions(scenario.inputs), *scenario.batches):
            try:
                job.run(batch)
            except JobError:
                continue
            batches.append({table: list(batch.get(name, ())) for name, table in tables.items()})
            relations = [relation for relation in job.program.relations if relation.term_columns]
            states.append({relation.table: job.tuples(relation) for relation in relations})
        job.close()
        part, _ = program_part(job_templates(), compilation.plan, VERSION, False)
        programs.append((part, batches))
        expected.append(states)
    assert sum(map(len, expected)) > 2 * PROGRAMS_AT_ONCE
    for states, found in zip(expected, maintained_alone(programs), strict=True):
        for state, (tuples, wrong) in zip(states, found, strict=True):
            assert wrong == []
            assert {table: set(map(frozen_row, rows)) for table, rows in tuples.items()} == state


def test_nothing_else_can_be_imported() -> None:
    """The test above would see it."""
    code = (
        f"import sys; sys.path.insert(0, {str(ALONE.parent)!r}); import alone; sys.meta_path.insert(0, alone.Nothing())"
    )
    for module in ("store.manifest", "engines.duckdb", "system.places"):
        done = subprocess.run(
            [sys.executable, "-c", f"{code}; import flintlog.runtime.{module}"], capture_output=True, text=True
        )
        assert done.returncode == 1 and "the kernel imports" in done.stderr
