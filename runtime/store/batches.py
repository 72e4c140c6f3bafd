"""The batches that a state has applied: their IDs, and the attempts that committed them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..kernel.errors import JobError, Passing
from ..system.places import write_exclusively
from .manifest import (
    BATCHES_INLINE,
    Manifest,
    Natural,
    attempt_id,
    commit_numbers,
    commit_of,
    content_of,
    load_manifest,
)
from .published_names import check_batch
from .sealed_records import check_seal, from_json, record_in, sealed


def last_commit(root: Path) -> int:
    """Return the number of the last commit, 0 if there is none."""
    return max(commit_numbers(root), default=0)


def has_later(root: Path, manifest: Manifest) -> bool:
    """Return whether the state has a later commit; files that are not readable manifests do not count."""
    for number in reversed(commit_numbers(root)):
        if number <= manifest.commit:
            break
        try:
            load_manifest(root, number)
        except ValueError:
            continue
        except FileNotFoundError:
            # It was removed meanwhile, so there are later commits.
            return True
        return True
    return False


def lost_race(root: Path) -> Passing:
    """Return the error for a job when another has committed first."""
    return Passing(f"another job has committed to {root} in the meantime; this one changed nothing: run it again")


@dataclass(frozen=True)
class BatchList:
    """A file of batches: the commit that moved them there, and lists as in a Manifest."""

    commit: Natural
    batches: tuple[str, ...]
    attempts: tuple[str, ...]
    generated: tuple[str, ...]


def with_batch(root: Path, manifest: Manifest | None, attempt: str, batch: str, generated: bool) -> dict[str, Any]:
    """Return the members of a manifest that list batches, with one more, whose ID the job may have ``generated``. When
    the list is longer than 2 * BATCHES_INLINE, all but the last BATCHES_INLINE are moved to a file."""
    batches: tuple[str, ...] = (batch,)
    attempts: tuple[str, ...] = (attempt_id(attempt),)
    own: tuple[str, ...] = (batch,) if generated else ()
    older: tuple[str, ...] = ()
    if manifest is not None:
        batches, attempts = (*manifest.batches, *batches), (*manifest.attempts, *attempts)
        own, older = (*manifest.generated, *own), manifest.older_batches
    if len(batches) > 2 * BATCHES_INLINE:
        commit = commit_of(attempt)
        segment = f"manifest/batches-{commit:012d}.json"
        moved, batches = batches[:-BATCHES_INLINE], batches[-BATCHES_INLINE:]
        listed = BatchList(commit, moved, attempts[:-BATCHES_INLINE], tuple(name for name in own if name in {*moved}))
        # Another job may have written the file first, with the same lists.
        write_exclusively(root / segment, sealed(listed))
        attempts, older = attempts[-BATCHES_INLINE:], (*older, segment)
        own = tuple(name for name in own if name in {*batches})
    lists = {"batches": batches, "attempts": attempts, "generated": own}
    return {"batch": batch, **lists, "older_batches": older}


def batch_lists(root: Path, manifest: Manifest) -> Iterator[Manifest | BatchList]:
    """Yield the lists of all batches of a state: the manifest first, then its files of batches, latest first."""
    yield manifest
    for segment in reversed(manifest.older_batches):
        yield load_batches(root / segment)


def load_batches(path: Path) -> BatchList:
    """Return a file of batches. Raise JobError if it is missing or damaged."""
    try:
        commit, data = int(path.stem.removeprefix("batches-")), content_of(path)
        record = record_in(data)
        check_seal(data)
        listed: BatchList = from_json(BatchList, record)
        if listed.commit != commit:
            raise ValueError(f"it belongs to commit {listed.commit}")
        return listed
    except FileNotFoundError as error:
        raise JobError(f"{path} is missing: {LOST_BATCHES}") from error
    except ValueError as error:
        raise JobError(f"{path} is damaged ({error}): {LOST_BATCHES}") from error


LOST_BATCHES = "without it, it is unknown which batches were applied; restore it from a copy of the state"


def is_known_batch(root: Path, manifest: Manifest, batch: str) -> bool:
    """Return whether a batch with this ID was applied; raise JobError if the state has generated the ID itself."""
    for listed in batch_lists(root, manifest):
        if batch in listed.generated:
            raise JobError(f"{batch} is an ID that this state generated for another batch; choose a different one")
        if batch in listed.batches:
            return True
    return False


def chosen_batch(root: Path, manifest: Manifest, batch: str | None, kind: str) -> tuple[str, bool, bool]:
    """Return the ID of a batch, a new one of a ``kind`` if none is given; whether it is new; and whether the state has
    applied it before. Raise JobError if it cannot be one."""
    chosen = new_batch_id(root, manifest, kind) if batch is None else batch
    check_batch(chosen)
    return chosen, batch is None, batch is not None and is_known_batch(root, manifest, chosen)


def new_batch_id(root: Path, manifest: Manifest, kind: str) -> str:
    """Return an ID that no batch of the state has: ``kind`` and the number of the next commit, or a higher one."""
    used = {batch for listed in batch_lists(root, manifest) for batch in listed.batches}
    used |= {batch for batch, _ in manifest.undone}
    names = (f"{kind}-{number:06d}" for number in itertools.count(manifest.commit + 1))
    return next(name for name in names if name not in used)
