"""The command ``rollback``: return to the state of an earlier commit."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...job.command_line import COMMANDS, Command, on_executor, request_of
from ...job.report import report_commit, summary
from ...job.shared_options import add_cut, add_place, add_publish, add_state, add_watching, option, positive
from ...kernel.errors import JobError
from ...kernel.model import Program
from ...store.batches import chosen_batch, last_commit, lost_race
from ...store.commits import run_and_commit
from ...store.data_files import check_files, stored_files
from ...store.executors import Executor
from ...store.extensions import FURTHER
from ...store.manifest import Manifest, read_state
from ...store.publish import finish_publication
from ...store.request import Batch
from ...store.retention import kept_commit
from ...store.task_records import Outcome
from ...store.versions import check_program, has_columns_of, under_own_tables
from ...system.log import Log
from ...system.transient_errors import obstacles_pass
from .differences import differences, under_own_columns

if TYPE_CHECKING:
    from ...spark.types import SparkSession


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
    started = time.monotonic()
    request = request_of(program, spark, state, log, None, publish, publish_by)
    executor, root, log = request.executor, request.root, request.log
    last = read_state(root)
    target = kept_commit(root, to)
    check_program(program, target)
    before = under_own_tables(program, last)
    finish_publication(program, executor, root, last)
    batch, generated, applied = chosen_batch(root, last, batch, "rollback")
    if applied or to in (last.commit, last.restores):
        result = {"program": program.name, "batch": last.batch, "commit": last.commit}
        return {**result, "applied": False, "restores": to}
    check_restored(root, last, target)

    def work(attempt: str) -> Outcome:
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
        return replace(outcome, changes=changes, counts=counts)

    manifest = run_and_commit(request, last, Batch(batch, "rollback", generated, restored=target), work)
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


add_own_batch = option(
    "--batch", metavar="ID", help="the ID of the new batch; with a known ID, nothing changes (default: a new ID)"
)
"""The option for the ID of a batch that undoes others."""

COMMANDS["rollback"] = Command(
    "rollback",
    "return to an earlier commit",
    "Make a commit that has the state of an earlier one again, and publish what this changes. Batches that came "
    "after it can be applied again.",
    (
        add_state,
        add_place,
        add_cut,
        add_publish,
        add_watching,
        option("--to", type=positive, required=True, metavar="COMMIT", help="the commit to return to"),
        add_own_batch,
    ),
    on_executor(rollback_state),
    report_rollback,
)
FURTHER["rollback"] = rollback_state
