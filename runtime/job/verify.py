"""The command ``verify``: recount all relations from the rules and compare."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..engines.options import Options
from ..kernel.changes import no_changes
from ..kernel.engine import Engine
from ..kernel.method_interface import Bucket
from ..kernel.model import FunctionSource, Program
from ..kernel.recount import recount
from ..spark.engine import SparkEngine
from ..spark.executor import executor_of
from ..store.commits import from_last_commit, relation_rows
from ..store.data_files import check_files, stored_files
from ..store.executors import Executor
from ..store.extensions import FURTHER, supply
from ..store.manifest import Manifest
from ..store.publish import finish_publication
from ..store.reading import load_computed, load_external
from ..store.run_tasks import choose_engine, duck_engine
from ..store.task_records import Task
from ..store.versions import check_program
from ..system.log import Log
from ..system.places import given_place
from .command_line import Command, on_executor
from .report import tuples_text
from .shared_options import add_functions, add_place, add_state, add_working

if TYPE_CHECKING:
    from ..spark.types import SparkSession


def verify_stages(
    executor: Executor, program: Program, manifest: Manifest, state_dir: str, options: Options
) -> list[dict[str, Any]]:
    """Recount every relation from the rules; return the differences, with the first ten tuples of each kind."""
    differences: list[dict[str, Any]] = []
    for stage in program.stages:
        task = Task(options, state_dir, manifest.relations, stages=(stage,), cores=executor.cores())
        executor.describe(f"verify {', '.join(stratum.name for stratum in stage.strata)}")
        if choose_engine(executor, task, options.engine)[0] == "duckdb":
            numbers = range(options.buckets if stage.bucketed else 1)
            for report in executor.on_buckets(numbers, functools.partial(check_task, task)):
                differences += report["findings"]
        else:
            engine = SparkEngine(executor.session("the engine spark"), options.buckets)
            try:
                if task.options.functions:
                    task.options.functions.define(engine)
                differences += check_stage(engine, task, Bucket(), None)
            finally:
                engine.close()
    return differences


def check_stage(engine: Engine, task: Task, bucket: Bucket, part: int | None) -> list[dict[str, Any]]:
    """Recount the strata of a stage on one ``bucket``; ``part`` is its number, None for all buckets."""
    findings = []
    for relation in task.external:
        load_external(engine, task, relation)
    for stratum in task.stages[0].strata:
        for relation in stratum.relations:
            load_computed(engine, task, relation, part)
            no_changes(engine, relation)
    for stratum in task.stages[0].strata:
        for finding in recount(engine, stratum, bucket):
            rows = engine.first(finding.sql, 10)
            if rows:
                findings.append({"relation": finding.relation, "problem": finding.problem, "tuples": rows})
    return findings


def check_task(task: Task, number: int) -> dict[str, Any]:
    """Recount a stage on one bucket in DuckDB."""
    bucketed = task.stages[0].bucketed and task.buckets > 1
    bucket = Bucket(number, task.buckets) if bucketed else Bucket()
    with duck_engine(task, task.threads) as engine:
        return {"findings": check_stage(engine, task, bucket, number if bucketed else None)}


def verify_state(
    program: Program,
    spark: SparkSession | Executor | None,
    state: str,
    engine: str = "auto",
    memory_limit: str = "",
    functions: FunctionSource = None,
    log: Log | None = None,
) -> dict[str, Any]:
    """Check the files of the state, then recount every relation from the rules themselves, not from their delta rules,
    and compare sequences with rows; ``differences`` of the result is empty if the state is exact."""
    started, log = time.monotonic(), log or Log()
    executor = executor_of(spark)
    supplied = supply(program, functions)
    root = given_place(state)

    def verified(manifest: Manifest) -> dict[str, Any]:
        check_program(program, manifest)
        finish_publication(program, executor, root, manifest)
        check_files(root, stored_files(manifest), whole=True)
        options = Options(manifest.buckets, engine, memory_limit=memory_limit, functions=supplied)
        log.event("verify", commit=manifest.commit, on=executor.name, reason=executor.why)
        differences = verify_stages(executor, program, manifest, str(root), options)
        if manifest.sequences:
            differences += FURTHER["sequence_differences"](program, root, manifest)
        return {
            "program": program.name,
            "commit": manifest.commit,
            "rows": relation_rows(program, manifest),
            "differences": differences,
        }

    result: dict[str, Any] = from_last_commit(root, verified)
    return {**result, "seconds": round(time.monotonic() - started, 3)}


def report_verify(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the first ten differences and their number, or a line that says that the state is exact."""
    for difference in result["differences"][:10]:
        yield "  ".join(f"{name}: {value}" for name, value in difference.items())
    if result["differences"]:
        yield f"{len(result['differences'])} differences; `rebuild` recomputes the state"
    else:
        rows = tuples_text(sum(result["rows"].values()))
        yield f"commit {result['commit']} is exact: {rows}, {result['seconds']:.1f} s"


VERIFY = Command(
    "verify",
    "compare the state with the rules",
    "Recount all derivations from the rules and compare them with the state. Exit with 1 if they differ.",
    (add_state, add_place, add_working, add_functions),
    on_executor(verify_state),
    report_verify,
)
