"""Garbage collection: after a commit, remove the files that no kept commit needs."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from pathlib import Path

from ..kernel.errors import JobError
from ..system.places import files_under, is_local, remove_tree
from .batches import last_commit
from .data_files import referenced_files
from .manifest import ATTEMPT, BATCHES_INLINE, Manifest, attempt_id, commit_of, read_manifest
from .publish import is_own, publication_place
from .retention import oldest_kept
from .set_aside import has_notes, remove_noted

MANIFESTS_KEPT = 20


def collect_garbage(root: Path, manifest: Manifest, before: Manifest | None = None) -> None:
    """Remove files that neither the last commit nor another kept one needs. The commit ``before`` is read unless given.

    A job that is suspended here removes nothing that a later commit needs: such a commit refers only to files in
    folders with higher numbers, and to files that commits refer to which this one keeps as well.
    """
    commit = manifest.commit
    if last_commit(root) > commit:
        return
    if before is None or before.commit != commit - 1:
        before = readable(root, commit - 1)
    first = oldest_kept(manifest)
    recent = {*referenced_files(manifest), *referenced_files(before)}
    earlier = files_kept_from(root, first, manifest) | recent
    names = attempts_in_lists(manifest)
    for folder in sorted((root / "data").glob("[0-9]*-*")):
        number = int(folder.name.partition("-")[0])
        if number > commit:
            # It belongs to a running job.
            continue
        if number < first:
            kept = earlier
        elif number >= commit - 1:
            kept = recent
        elif number > commit - BATCHES_INLINE and not is_commit(root, folder.name, names):
            kept = set()
        else:
            # It was tidied after its commit.
            continue
        # A job that lost the race may be removing or writing the same files; the next commit tries again.
        with contextlib.suppress(OSError):
            tidy(root, folder, kept, manifest)
    for path in sorted((root / "manifest").iterdir()):
        numbered = re.match(r"\.?(?:(?<=\.)batches-)?([0-9]{12})\.", path.name)
        limit = commit if path.name.startswith(".") else min(commit - MANIFESTS_KEPT, first - 1)
        if numbered and int(numbered[1]) <= limit:
            path.unlink(missing_ok=True)
    for publication in (*manifest.publish, *(before.publish if before else ())):
        place = publication_place(root, publication)
        if is_local(place):
            remove_unfinished(root, place.parent, commit)


def readable(root: Path, commit: int) -> Manifest | None:
    """Return a commit; None if its manifest is missing, or damaged so that ``recover`` has gone on without it."""
    try:
        return read_manifest(root, commit)
    except JobError:
        return None


def files_kept_from(root: Path, first: int, manifest: Manifest) -> set[str]:
    """Return those files in folders before commit ``first`` that it or a later commit, up to the given last one, refers
    to. A file that a commit does not refer to is not referred to later, unless a commit jumps: so it suffices to look
    at the first commit and those that jump."""
    kept: set[str] = set()
    for number in range(first, manifest.commit):
        commit = readable(root, number)
        kept.update(referenced_files(commit))
        if commit:
            break
    for number in manifest.jumps:
        kept.update(referenced_files(readable(root, number)))
    return kept


def attempts_in_lists(manifest: Manifest) -> set[str]:
    """Return the names, without numbers, of the attempts that made the last commits."""
    return {*manifest.attempts, *(attempt_id(attempt) for _, attempt in manifest.undone)}


def is_commit(root: Path, attempt: str, names: set[str]) -> bool:
    """Return whether an attempt made a commit, whose name may be in a list of ``names``."""
    if attempt_id(attempt) in names:
        return True
    manifest = readable(root, commit_of(attempt))
    return manifest is not None and manifest.attempt == attempt


def tidy(root: Path, folder: Path, kept: set[str], manifest: Manifest) -> None:
    """Remove the files of an attempt that are not in ``kept``, and the hidden ones with rows that it has set aside if
    it made no commit up to the given last one."""
    if has_notes(folder) and not is_commit(root, folder.name, attempts_in_lists(manifest)):
        remove_noted(root, folder)
    (remove_unreferenced if is_local(root) else remove_from_store)(root, folder, kept)


def remove_unreferenced(root: Path, folder: Path, kept: set[str]) -> None:
    """Remove the files of an attempt that are not in ``kept``, and the folders that this leaves empty."""
    for place, _, names in os.walk(folder, topdown=False):
        inside = place.removeprefix(f"{root}/")
        for name in names:
            if f"{inside}/{name}" not in kept:
                Path(place, name).unlink(missing_ok=True)
        remove_if_empty(Path(place))


def remove_from_store(root: Path, folder: Path, kept: set[str]) -> None:
    """Remove the files of an attempt that are not in ``kept`` from a store, which has no empty folders."""
    start = f"data/{folder.name}/"
    names = [start + name for name in files_under(folder)]
    if not kept.intersection(names):
        remove_tree(folder)
        return
    for name in names:
        if name not in kept:
            (root / name).unlink(missing_ok=True)


def remove_if_empty(folder: Path) -> None:
    """Remove a folder if it is empty."""
    if not any(folder.iterdir()):
        folder.rmdir()


def remove_unfinished(root: Path, changes: Path, commit: int) -> None:
    """Remove the temporary folders that crashes have left beside published folders in ``changes``. Another job may just
    be publishing the last commit, and another state any of its commits: those stay."""
    inside = str(changes).startswith(f"{root}/")
    for folder in changes.glob(".batch=*"):
        attempt = re.search(rf"{ATTEMPT.pattern}\Z", folder.stem)
        own = inside or (attempt is not None and is_own(root, attempt[0]))
        if own and (attempt is None or commit_of(attempt[0]) < commit):
            shutil.rmtree(folder, ignore_errors=True)
