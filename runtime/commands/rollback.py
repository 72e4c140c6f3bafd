"""The command ``rollback``: return to the state of an earlier commit."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..batches import check_batch, is_known_batch, last_commit, lost_race, new_batch_id
from ..commits import run_and_commit
from ..errors import JobError
from ..executors import Executor, executor_of
from ..former import differences, under_own_columns
from ..log import Log
from ..manifest import Manifest, read_state
from ..model import Program
from ..obstacles import obstacles_pass
from ..places import given_place
from ..publish import check_cut, finish_publication, published_where
from ..retention import kept_commit
from ..stored import check_files, stored_files
from ..task import Outcome
from ..versions import check_program, has_columns_of, under_own_tables
from .report import report_commit, summary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@obstacles_pass()
def rollback_state(
    program: Program,
    spark: SparkSession | Executor | None,
    state: str,
    to: int,
    batch: str | None = None,
    publish: str | None = None,
    publish_by: str | None = None,
    log: Log | None = None,
) -> dict[str, Any]:
    """Make a commit that has the state of commit ``to`` again, with the batches that were known then; those that came
    later can be applied again. What this changes is published as a batch of its own, with the ID ``batch``. This
    program must have written commit ``to``, but not the commits after it, so that an upgrade can be undone."""
    started, log = time.monotonic(), log or Log()
    by = check_cut(program, publish_by)
    executor = executor_of(spark)
    root = given_place(state)
    last = read_state(root)
    target = kept_commit(root, to)
    check_program(program, target)
    before = under_own_tables(program, last)
    finish_publication(program, executor, root, last)
    generated = batch is None
    batch = batch if batch is not None else new_batch_id(root, last, "rollback")
    check_batch(batch)
    if to in (last.commit, last.restores) or (not generated and is_known_batch(root, last, batch)):
        result = {"program": program.name, "batch": last.batch, "commit": last.commit}
        return {**result, "applied": False, "restores": to}
    check_restored(root, last, target)
    where = published_where(publish)

    def work(attempt: str) -> Any:
        outcome = Outcome.of(target, target.buckets)
        folder = root / "data" / attempt
        former = under_own_columns(program, root, before, folder / "former", attempt)
        changes: dict[str, tuple[str, ...]] = {}
        counts: dict[str, tuple[int, int]] = {}
        for item in program.relations:
            if not (item.output or (item.kind == "input" and (item.copy or not item.hidden))):
                continue
            if not has_columns_of(item, before.program):
                log.warn(f"the changes of {item.name} cannot be published: commit {last.commit} has other columns")
                continue
            try:
                check_files(root, stored_files(former, [item.table]))
            except JobError as error:
                log.warn(f"the changes of {item.name} cannot be published: {error}")
                continue
            changes[item.table], counts[item.table] = differences(executor, root, former, target, item, folder)
        return outcome, changes, counts

    manifest = run_and_commit(
        program, executor, root, last, batch, where, None, log, work, generated, by, command="rollback", restored=target
    )
    return {**summary(program, root, manifest, started), "restores": to}


def check_restored(root: Path, last: Manifest, target: Manifest) -> None:
    """Check the files of a commit to return to; if one is missing because another job has made commits since the
    ``last`` one, raise its error."""
    try:
        check_files(root, stored_files(target))
    except (JobError, OSError) as error:
        if last_commit(root) > last.commit:
            raise lost_race(root) from error
        raise


def report_rollback(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines that report which commit was returned to."""
    if not result["applied"]:
        yield f"nothing to do: that was done before, or commit {result['commit']} has the state of {result['restores']}"
        return
    yield from report_commit(result)
    yield f"this is the state of commit {result['restores']}; later batches can be applied again"
