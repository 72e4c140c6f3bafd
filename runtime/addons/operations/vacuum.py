"""The command ``vacuum``: remove what the state does not keep any more."""

from __future__ import annotations

import contextlib
import shutil
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ...job.command_line import COMMANDS, Command, request_of
from ...job.shared_options import add_keeping, add_metrics, add_sequences_removed, add_state, option
from ...kernel.model import Program
from ...store.batches import last_commit, new_batch_id
from ...store.commits import open_state, run_and_commit
from ...store.data_files import referenced_files
from ...store.extensions import FURTHER
from ...store.garbage import collect_garbage, readable, remove_unfinished, tidy
from ...store.manifest import PUBLISHED, Manifest, commit_of
from ...store.publish import attempts_in
from ...store.request import Batch
from ...store.retention import (
    check_sequences,
    checked_distance,
    checked_keep,
    checked_moment,
    kept_after,
    oldest_kept,
    sequence_distances,
)
from ...system.log import Log
from ...system.places import files_under, is_local, remove_tree, sync
from .tombstones import without_sequences


def vacuum_state(
    program: Program,
    state: str,
    keep: str | int | None = None,
    keep_published: bool = False,
    log: Log | None = None,
    tombstones: Iterable[str] | Mapping[str, Any] = (),
    forget_sequences: Iterable[str] = (),
    max_clock_jump: str | None = None,
) -> dict[str, Any]:
    """Remove the data files that no kept commit needs, files that crashes have left, and, unless ``keep_published``,
    the changes that other commits have published in the state. ``keep``: how many commits to keep from now on, or for
    how long. ``tombstones``: how far behind the newest sequence of a relation those of dead keys are kept, as
    REL=DISTANCE or as a mapping. ``forget_sequences``: the relations that no longer keep any. ``max_clock_jump``: if
    the clock is up to this far from the last commit, such as 400d, it is right. The result has the numbers of bytes,
    and of sequences, that were ``removed``. Spark is not needed."""
    started = time.monotonic()
    kept = checked_keep(keep)
    request = request_of(program, None, state, log)
    root = request.root
    before = open_state(program, request.executor, root)
    size = sum(files_under(root / "data").values())
    keeping = before.keep if kept is None else kept
    jump = checked_distance(max_clock_jump)
    moment = checked_moment(before, keeping, jump)
    # The number of commits is right after each of them, but time passes without any.
    first = kept_after(root, before, keeping, moment, before.commit)
    manifest = before
    forgotten = list(forget_sequences)
    distances = sequence_distances(before.sequences, tombstones)
    check_sequences(before.sequences, forgotten)
    records, sequences = dict(before.sequences), dict[str, int]()
    if keeping != before.keep or first > oldest_kept(before) or distances or forgotten or jump:
        batch = new_batch_id(root, before, "vacuum")
        work = without_sequences(request, before, distances, forgotten, records, sequences)
        recorded = Batch(batch, "vacuum", sequences=records, keep=kept, jump=jump)
        manifest = run_and_commit(request, before, recorded, work)
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
    """Remove the folders of changes in the state that commits published which are not kept; return the number of
    bytes."""
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


COMMANDS["vacuum"] = Command(
    "vacuum",
    "remove what is not kept any more",
    "Remove data files that no commit needs which is kept, what killed commands have left, and the changes that "
    "other commits have published in the state.",
    (
        add_state,
        add_keeping,
        add_metrics,
        option("--keep-published", action="store_true", help="remove no published changes"),
        add_sequences_removed,
        option(
            "--max-clock-jump",
            metavar="TIME",
            help="the clock is right if it is up to this far from the last commit, such as 400d: go on from it",
        ),
    ),
    lambda call: vacuum_state(call.program, log=call.log, **call.options),
    report_vacuum,
)
FURTHER["vacuum"] = vacuum_state
