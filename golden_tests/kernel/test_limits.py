"""What is said when a limit stops a recursion: a tuple, its rule, and the input rows behind it, in each engine."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from flintlog.compiler.pipeline import compile_program
from flintlog.compiler.source import SourceFile
from flintlog.targets.pyspark.emit import emit_script

from golden_tests.harness import VERSION, LocalJob, MemoryJob, RoundsJob
from golden_tests.nightly import AT_NIGHT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT = """input relation select(x: int, from: string)  input relation stop(x: int)
output n.
mid(X, S) :- select(X, S).
base: n(X, S) :- mid(X, S).
step: n(X + 1, S) :- n(X, S), !stop(X).
"""
SEEDS = [("+", (-5, 'it\'s "q"')), ("+", (-9, "b"))]
COUNTED = """of the last round, the tuple with the most derivations is n(7, "it's \\"q\\""), with 1
  it follows by rule step (test.dl:5): n(X + 1, S) :- n(X, S), !stop(X).
  behind it: select(-5, "it's \\"q\\"")"""
DEEP = """is n(7, "it's \\"q\\""), with 1
  it follows by rule step (test.dl:5): n(X + 1, S) :- n(X, S), !stop(X).
  the recursion begins with n(-9, "b")
  behind it: select(-9, "b")"""

MESH = "input relation e(x: int, y: int)\noutput p.\np(X, Y) :- e(X, Y).\np(X, Y) :- e(X, Z), p(Z, Y).\n"
EDGES = [("+", (x, y)) for x in range(4) for y in range(4) if x != y]
EXPLODED = """p_entries: more than 20 derivation sets; leave out --recursion derivation-sets, or raise \
--max-entries; nothing was changed
  the tuple with the most derivation sets is p(3, 3), with 3
  it follows by rule p_2 (test.dl:4): p(X, Y) :- e(X, Z), p(Z, Y).
  behind it: e(3, 0), e(0, 3)"""

BETTER = """input relation e(x: int, y: int)
output d.
d(X, Y, min<C>) :- e(X, Y), C = 0.
d(X, Y, min<C>) :- d(X, Z, D), e(Z, Y), C = D - 1.
"""


def compiled(text: str, recursion: str = "ranks") -> Any:
    """The compilation of a program."""
    return compile_program(SourceFile("test.dl", text), recursion=recursion)


def script(text: str, recursion: str = "ranks") -> str:
    """The script of a program."""
    return emit_script(compiled(text, recursion).plan, VERSION, format_code=False)


def refusal(job: Any, changes: Any, **limits: int) -> str:
    """What a job says that a limit stops."""
    if isinstance(job, MemoryJob):
        job.session.max_rounds = limits.get("max_rounds", 10_000)
        job.session.max_entries = limits.get("max_entries", 10_000)
    else:
        job.options = replace(job.options, **limits)
    with pytest.raises(job.module.JobError) as refused:
        job.run(changes)
    return str(refused.value)


def test_counting_up(tmp_path: Path) -> None:
    """A recursion that counts for ever, from the beginning and later, and too deep to be followed to its end."""
    text = "n: not finished after 12 rounds; if the recursion needs more, raise --max-rounds; nothing was changed"
    for job in (MemoryJob(compiled(COUNT)), LocalJob(script(COUNT), tmp_path)):
        assert refusal(job, {"select": SEEDS}, max_rounds=12) == f"{text}\n  {COUNTED}"
        job.run({"select": SEEDS[:0], "stop": [("+", (-5,)), ("+", (-6,))]})
        job.run({"select": SEEDS})
        assert refusal(job, {"stop": [("-", (-5,))]}, max_rounds=12).endswith(COUNTED.partition("  it")[2])
        job.close()


def test_buckets(tmp_path: Path) -> None:
    """A task that counts in a bucket, over relations that other tasks computed."""
    job = LocalJob(script(COUNT), tmp_path, 3)
    said = refusal(job, {"select": SEEDS, "stop": [("+", (5000,))]}, max_rounds=12)
    assert re.search(r"derivations is n\((3|7), .*\n.*by rule step .*\n  behind it: mid\(-[59], ", said)
    job.close()


def test_too_deep() -> None:
    """Where the input rows are further away than is looked, those at the beginning of the recursion are named."""
    job = MemoryJob(compiled(COUNT))
    job.module.MOST_VISITED["duckdb"] = 5
    assert refusal(job, {"select": SEEDS}, max_rounds=12).endswith(DEEP)
    job.close()


def test_derivation_sets(tmp_path: Path) -> None:
    """Too many derivation sets: the tuple that has the most, with its largest set."""
    sets = MemoryJob(compiled(MESH, "derivation-sets")), LocalJob(script(MESH, "derivation-sets"), tmp_path)
    for job in sets:
        assert refusal(job, {"e": EDGES}, max_entries=20) == EXPLODED
        job.close()


def test_improving(tmp_path: Path) -> None:
    """Values that improve for ever replace what they were derived from; deletions that go too deep name no tuple."""
    job = LocalJob(script(BETTER), tmp_path)
    said = refusal(job, {"e": EDGES}, max_rounds=9)
    assert "of the last round, a tuple is d(3, 3, -8)\n" in said
    assert "such tuples follow by rule d_2 (test.dl:4)" in said
    job.close()
    deep = MemoryJob(compiled(MESH))
    deep.use_strategy("incremental")
    chain = [("+", (x, x + 1)) for x in range(30)]
    deep.run({"e": chain})
    said = refusal(deep, {"e": [("-", (29, 30))]}, max_rounds=9)
    assert said.startswith("p: not finished after 9 rounds") and "\n" not in said
    deep.close()


@AT_NIGHT
def test_in_spark(tmp_path: Path, spark: SparkSession) -> None:
    """The same message when the rounds are Spark's SQL."""
    job = RoundsJob(script(COUNT), tmp_path, spark, 1)
    assert refusal(job, {"select": SEEDS}, max_rounds=3).endswith(
        COUNTED.replace("n(7", "n(-2").partition("most derivations ")[2]
    )
    job.close()
