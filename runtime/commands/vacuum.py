"""The command ``vacuum``: remove what the state does not keep any more."""

from __future__ import annotations

import contextlib
import shutil
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..batches import last_commit, new_batch_id
from ..commits import (
    collect_garbage,
    open_state,
    readable,
    referenced_files,
    remove_unfinished,
    run_and_commit,
    tidy,
)
from ..executors import LocalExecutor
from ..log import Log
from ..manifest import PUBLISHED, Manifest, commit_of
from ..model import Program
from ..places import files_under, given_place, is_local, remove_tree, sync
from ..publish import attempts_in
from ..retention import checked_keep, kept_after, moment_after, oldest_kept
from .tombstones import check_kept, given_distances, without_sequences


def vacuum_state(
    program: Program,
    state: str,
    keep: str | None = None,
    keep_published: bool = False,
    log: Log | None = None,
    tombstones: Iterable[str] | Mapping[str, Any] = (),
    forget_sequences: Iterable[str] = (),
) -> dict[str, Any]:
    """Remove the data files that no commit needs which is kept, what crashes have left, and, unless
    ``keep_published``, the changes that other commits have published in the state. ``keep``: how many commits to keep
    from now on, or for how long. ``tombstones``: how far behind the newest sequence of a relation those of dead
    keys are kept, as REL=DISTANCE or as a mapping. ``forget_sequences``: the relations that no longer keep any. The
    result has the numbers of bytes, and of sequences, that were ``removed``. Spark is not needed."""
    started, log = time.monotonic(), log or Log()
    keep = checked_keep(keep)
    root = given_place(state)
    executor = LocalExecutor()
    before = open_state(program, executor, root)
    size = sum(files_under(root / "data").values())
    wanted = before.keep if keep is None else keep
    # The number of commits is right after each of them, but time passes without any.
    first = kept_after(root, before, wanted, moment_after(before.time), before.commit)
    manifest = before
    forgotten = list(forget_sequences)
    distances = given_distances(before, tombstones)
    check_kept(before, forgotten)
    records, sequences = dict(before.sequences), dict[str, int]()
    if wanted != before.keep or first > oldest_kept(before) or distances or forgotten:
        batch = new_batch_id(root, before, "vacuum")
        work = without_sequences(executor, root, before, distances, forgotten, records, sequences, log)
        manifest = run_and_commit(
            program,
            executor,
            root,
            before,
            batch,
            PUBLISHED,
            None,
            log,
            work,
            command="vacuum",
            keep=keep,
            sequences=records,
        )
    else:
        collect_garbage(root, manifest)
    sweep_data(root, manifest)
    published = 0 if keep_published else sweep_published(root, manifest)
    return {
        "program": program.name,
        "batch": manifest.batch,
        "commit": manifest.commit,
        "applied": manifest is not before,
        "keep": manifest.keep,
        "kept_from": oldest_kept(manifest),
        "removed": {
            "data": max(0, size - sum(files_under(root / "data").values())),
            "published": published,
            **({"sequences": sequences} if sequences else {}),
        },
        "seconds": round(time.monotonic() - started, 3),
    }


def sweep_data(root: Path, manifest: Manifest) -> None:
    """Remove all files in ``data`` that no kept commit refers to, also those in the folders of commits."""
    kept = {*referenced_files(manifest)}
    for number in range(oldest_kept(manifest), manifest.commit):
        # What cannot be read, and `recover` has gone on without, keeps nothing.
        kept.update(referenced_files(readable(root, number)))
    if last_commit(root) > manifest.commit:
        # It may have removed manifests meanwhile; the next `vacuum` goes on.
        return
    for folder in sorted((root / "data").glob("[0-9]*-*")):
        if int(folder.name.partition("-")[0]) <= manifest.commit:
            with contextlib.suppress(OSError):
                tidy(root, folder, kept, manifest)


def sweep_published(root: Path, manifest: Manifest) -> int:
    """Remove the folders of changes in the state that were published by commits which are not kept; return how many
    bytes that were."""
    removed = 0
    for changes in sorted((root / PUBLISHED).glob("*/changes"), key=str):
        for folder in sorted(changes.glob("batch=*"), key=str):
            attempts = attempts_in(folder)
            if not attempts or max(map(commit_of, attempts)) >= oldest_kept(manifest):
                continue
            removed += sum(files_under(folder).values())
            if is_local(folder):
                # A reader sees all of it or nothing. If this is killed, a later commit removes the rest.
                hidden = folder.with_name(f".{folder.name}.{max(attempts)}.{uuid.uuid4().hex[:8]}")
                folder.rename(hidden)
                shutil.rmtree(hidden, ignore_errors=True)
            else:
                remove_tree(folder)
        if is_local(changes):
            remove_unfinished(root, changes, manifest.commit)
            sync(changes)
    return removed


def report_vacuum(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines that say what was removed, and what is kept."""
    removed = result["removed"]
    yield f"removed {removed['data']:,} bytes of data and {removed['published']:,} bytes of published changes"
    for name, number in removed.get("sequences", {}).items():
        yield f"removed {number:,} sequence{'' if number == 1 else 's'} of {name}"
    yield f"the states of commits {result['kept_from']} to {result['commit']} are kept"
