"""The command ``recover``: go back to the last commit whose manifest can be read."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from ..batches import new_batch_id, with_batch
from ..commits import collect_garbage, commit_manifest, last_readable
from ..errors import JobError, without_keys
from ..executors import LocalExecutor
from ..files import check_file
from ..log import Log
from ..manifest import STATE_FORMAT, attempt_name, commit_numbers, read_state
from ..model import Program
from ..places import given_place, is_local, remove_tree, sync
from ..publish import finish_publication, published_after
from ..retention import kept_after, moment_after
from ..stored import check_files, stored_files
from .report import summary


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
