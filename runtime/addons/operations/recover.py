"""The command ``recover``: go back to the last commit whose manifest can be read."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...job.command_line import COMMANDS, Command
from ...job.report import summary
from ...job.shared_options import add_metrics, add_state
from ...kernel.errors import JobError, without_keys
from ...kernel.model import Program
from ...store.batches import new_batch_id, with_batch
from ...store.commits import commit_manifest, last_readable
from ...store.data_files import check_files, stored_files
from ...store.executors import LocalExecutor
from ...store.extensions import FURTHER
from ...store.garbage import collect_garbage
from ...store.manifest import STATE_FORMAT, Manifest, attempt_name, commit_numbers, read_state
from ...store.publish import finish_publication, published_after
from ...store.retention import kept_after, moment_after
from ...system.checksums import check_file
from ...system.log import Log
from ...system.places import given_place, is_local, remove_tree, sync


def recover_state(program: Program, state: str, log: Log | None = None) -> dict[str, Any]:
    """Go back to the last commit whose manifest can be read, if later ones are damaged. Folders that the damaged ones
    have published are removed, and listed in the result as ``unpublished``. The new commit follows the damaged ones, so
    that it overwrites none of them. Spark is not needed. Raise JobError if no manifest can be read."""
    started, log = time.monotonic(), log or Log()
    root = given_place(state)
    numbers = commit_numbers(root)
    before = last_readable(root)
    if before is None:
        read_state(root)
        raise JobError(f"no commit of {root} can be read")
    if before.commit == numbers[-1]:
        result = {"program": before.program.name, "batch": before.batch}
        return {**result, "commit": before.commit, "applied": False}
    files = stored_files(before)
    check_files(root, files, whole=True)
    # No task of this command reads what lies in a store.
    for name in () if is_local(root) else files:
        check_file(root / name, whole=True)
    finish_publication(program, LocalExecutor(), root, before)
    removed = remove_published(root, before, log)
    attempt = attempt_name(numbers[-1] + 1)
    batch = new_batch_id(root, replace(before, commit=numbers[-1]), "recover")
    moment = moment_after(before.time)
    manifest = replace(
        before,
        format=STATE_FORMAT,
        commit=numbers[-1] + 1,
        attempt=attempt,
        **with_batch(root, before, attempt, batch, True),
        changes={},
        counts={},
        publish=(),
        tables=before.tables.unknown(attempt),
        left_out={},
        set_aside={},
        late={},
        steps=(),
        command="recover",
        time=moment,
        seconds=round(time.monotonic() - started, 3),
        kept_from=kept_after(root, before, before.keep, moment, numbers[-1] + 1),
        jumps=(*before.jumps, numbers[-1] + 1),
        restores=before.commit,
    )
    commit_manifest(root, manifest)
    log.event("committed", commit=manifest.commit, batch=batch)
    finish_publication(program, LocalExecutor(), root, manifest)
    collect_garbage(root, manifest)
    return {**summary(program, root, manifest, started), "unpublished": removed, "from": before.commit}


def remove_published(root: Path, before: Manifest, log: Log) -> list[str]:
    """Remove the folders that commits after ``before`` have published, and return their places. Warn of those that
    others may have published."""
    removed, others = [], []
    for place, own in published_after(root, before):
        if not own:
            others.append(str(place))
            continue
        log.warn(f"{place} is removed: the commit that published it cannot be read")
        remove_tree(place)
        if is_local(place):
            sync(place.parent)
        removed.append(without_keys(str(place)))
    if others:
        listed = ", ".join(others[:3]) + (", ..." if len(others) > 3 else "")
        log.warn(f"{listed}: published by other states, or by lost commits of this one; remove the latter, if any")
    return removed


def report_recover(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines that report which commit the state went back to, and which folders were removed."""
    if not result["applied"]:
        yield f"nothing to do: commit {result['commit']} can be read"
        return
    yield f"commit {result['commit']} restores commit {result['from']}"
    for folder in result["unpublished"]:
        yield f"removed: {folder}"
    yield "later batches can be applied again"


COMMANDS["recover"] = Command(
    "recover",
    "return to the last commit that can be read",
    "Return to the last commit whose manifest can be read, if later ones are damaged, and remove the batches that "
    "these published. The batches can then be applied again.",
    (add_state, add_metrics),
    lambda call: recover_state(call.program, log=call.log, **call.options),
    report_recover,
)

FURTHER["recover"] = recover_state
