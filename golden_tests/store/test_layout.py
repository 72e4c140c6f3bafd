"""How the state lies on disk: what a batch writes and what a read merges, and states that earlier versions wrote."""

from __future__ import annotations

import itertools
import json
import math
import random
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from flintlog.compiler.pipeline import compile_program

from golden_tests.checks import Checked
from golden_tests.harness import LocalJob, MemoryJob, Row, compile_text, load_script
from golden_tests.nightly import AT_NIGHT, by_day, one_in
from golden_tests.oracle.batches import Batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STATES = sorted((Path(__file__).parent / "states").glob("format_*"))
PROGRAM = """
    input relation e(x: int, y: int)
    output p.  output most.
    p(X, Y) :- e(X, Y), X != Y.
    most(X, max<Y>) :- p(X, Y).
    """
ROWS = 18_000


def written(folder: Path, files: set[Path]) -> tuple[set[Path], int]:
    """The files of a state, and the bytes of those that are new, staged rows aside."""
    now = {path for path in folder.rglob("*.parquet") if "staging" not in path.parts}
    return now, sum(path.stat().st_size for path in now - files)


@by_day(1)
@pytest.mark.parametrize(("buckets", "batches"), [(3, 8), pytest.param(1, 40, marks=AT_NIGHT)])
def test_small_batches_write_little(buckets: int, batches: int, tmp_path: Path, spark: SparkSession) -> None:
    """Batches of six changes: each writes a small part of the state, and a read never merges many files."""
    rng = random.Random(buckets)
    job = LocalJob(compile_text(PROGRAM)[1], tmp_path / "state", buckets)
    job.use_strategy("incremental")
    rows: set[Row] = {(rng.randrange(2_000), rng.randrange(2_000)) for _ in range(ROWS)}
    job.run({"e": [("+", row) for row in rows]})
    files, whole = written(tmp_path, set())
    costs, merged = [], 0
    for _ in range(batches):
        gone = rng.sample(sorted(rows), 3)
        come = [(rng.randrange(2_000), rng.randrange(2_000)) for _ in range(3)]
        job.run({"e": [*(("-", row) for row in gone), *(("+", row) for row in come if row not in gone)]})
        rows = rows - set(gone) | {row for row in come if row not in gone}
        files, cost = written(tmp_path, files)
        costs.append(cost)
        entries = [entry for r in job.manifest.relations.values() for entry in r.buckets.values()]
        merged = max(merged, *(len(entry.changes) for entry in entries))
        for entry in entries:
            assert len(entry.changes) == len(entry.change_rows)
            pairs = itertools.pairwise(entry.change_rows)
            assert all(former > job.module.MERGE_RATIO * latter for former, latter in pairs)
    assert job.rows("p") == {row for row in rows if row[0] != row[1]}
    assert job.differences() == []
    assert sum(costs) / len(costs) < whole / 10
    assert 2 <= merged <= 1 + math.log(ROWS, job.module.MERGE_RATIO)
    relation = job.relation("p")
    frame = job.module.relation_frame(spark, tmp_path / "state", job.manifest, relation, hidden=True)
    assert {tuple(row) for row in frame.select("X", "Y").collect()} == job.rows("p")
    assert frame.where("_support = 1").count() == len(job.rows("p"))
    job.close()


def test_declarations_in_another_order(tmp_path: Path) -> None:
    """A recursion whose relations are declared in another order has another name, under which the state has no clock;
    to go on with it would rank tuples from 0 again."""
    rules = "even(X) :- e(X, X). even(Y) :- odd(X), e(X, Y). odd(Y) :- even(X), e(X, Y)."
    declared = ["output relation even(x: int)", "output relation odd(x: int)"]
    scripts = [
        compile_text("\n".join(["input relation e(x: int, y: int)", *order, rules]))[1]
        for order in (declared, declared[::-1])
    ]
    job, other = (LocalJob(script, tmp_path / "state") for script in scripts)
    job.run({"e": [("+", (0, 0)), ("+", (0, 1)), ("+", (1, 2))]})
    job.module.check_program(job.program, job.manifest)
    written = json.loads(json.dumps(job.manifest, default=vars))
    manifest = other.module.from_json(other.module.Manifest, written)  # type: ignore[attr-defined]
    with pytest.raises(other.module.JobError, match=r"odd\+even is declared in a different order; `upgrade`"):  # type: ignore[attr-defined]
        other.module.check_program(other.program, manifest)
    job.close()
    other.close()


@pytest.mark.parametrize("state", STATES, ids=lambda path: path.name)
@pytest.mark.parametrize("last", one_in([1, 2], 2))
def test_states_of_earlier_releases_are_read(state: Path, last: int, tmp_path: Path) -> None:
    """The first commit of an earlier version's state, or the second, is maintained on; the stored state is right."""
    shutil.copytree(state / "state", tmp_path / "state")
    compilation = compile_program(state / "program.dl")
    (script,) = compile_text((state / "program.dl").read_text(encoding="utf-8"), "program.dl")[1:]
    job = LocalJob(script, tmp_path / "state", buckets=2)
    job.manifest = job.module.read_manifest(tmp_path / "state", last)
    assert job.manifest.format == job.module.STATE_FORMAT == int(state.name.removeprefix("format_"))
    for item in job.manifest.publish:
        assert item.folder == f"published/{item.relation}/changes/batch=monday"
    job.module.check_program(job.program, job.manifest)
    assert job.differences() == []
    job.attempts = last
    memory = MemoryJob(compilation)
    memory.run({name: [("+", row) for row in job.rows(name)] for name in ("link", "label")})
    batches: list[Batch] = [
        {"link": [("-", (3, 4)), ("+", (40, 3))], "label": [("+", (3, "three"))]},
        {"link": [("+", (3, 4)), ("+", (13, 40)), ("-", (25, 31))]},
    ]
    for batch in batches:
        job.run(batch)
        memory.run(batch)
        for relation in job.program.relations:
            assert job.tuples(relation) == memory.rows(relation.name)
            assert job.changes[relation.table] == memory.changes[relation.table]
    assert job.differences() == []
    job.close()
    memory.close()


def test_what_is_at_a_moment(tmp_path: Path, spark: SparkSession) -> None:
    """A location that is a date or a timestamp is found in any time zone of the session, however old it is."""
    timestamps = ["2026-03-08 02:30:00", "2026-03-08 03:30:00", "0001-01-01 00:00:00"]
    kinds = {"timestamp": timestamps, "date": ["0001-01-01"]}
    assert spark.conf.get("spark.sql.session.timeZone") == "America/New_York"
    for kind, moments in kinds.items():
        text = f"input relation r(@t: {kind}, i: int)\noutput relation o(@t: {kind}, i: int)\no(@T, I) :- r(@T, I).\n"
        module: Any = load_script(compile_text(text)[1])
        path, state = tmp_path / f"{kind}.csv", str(tmp_path / kind)
        path.write_text("t,i\n" + "".join(f"{moment},{n}\n" for n, moment in enumerate(moments)), encoding="utf-8")
        module.init(spark, state, {"r": str(path)}, buckets=1, log=module.Log(quiet=True))
        for n, moment in enumerate(moments):
            assert [row.i for row in module.relation(spark, state, "o", at=moment).collect()] == [n], moment
        del sys.modules[module.__name__]


@AT_NIGHT
def test_a_relation_without_columns_in_buckets(tmp_path: Path) -> None:
    """It lies in the first of them, also if the state was written by one task and is read by several."""
    text = "input relation e(x: int)\ninput relation on\noutput relation p(x: int)\np(X) :- e(X), on.\n"
    compilation, script = compile_text(text)
    job = LocalJob(script, tmp_path, 3)
    module: Any = job.module
    checked = Checked(job, text, compilation)
    batches: list[Batch] = [
        {"e": [("+", (1,)), ("+", (2,))], "on": [("+", ())]},
        {"e": [("-", (1,))]},
        {"on": [("-", ())]},
        {"e": [("+", (5,))]},
        {"on": [("+", ())], "e": [("+", (6,))]},
    ]
    for few in (300_000, 0, 0, 0, 0), (0, 0, 300_000, 0, 0):
        for rows, batch in zip(few, batches, strict=True):
            module.FEW_ROWS = rows
            assert checked.apply(batch) == []
    job.close()
