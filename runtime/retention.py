"""Commits that a state keeps, besides the last one: the oldest of them is recorded in each manifest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from .batches import last_commit
from .errors import JobError
from .inputs.values import shown
from .manifest import COMMITS_KEPT, KEEP, Manifest, commit_numbers, load_manifest, read_manifest, read_state

UNITS = {"d": "days", "h": "hours", "m": "minutes"}


def checked_keep(keep: str | None) -> str | None:
    """Return how long to keep commits, as it was given; raise JobError if it says nothing."""
    if keep is not None and (not keep or not KEEP.fullmatch(keep)):
        raise JobError(
            f"{shown(keep)} does not say how long to keep commits: give a number of commits, at least 2, or of days, "
            "hours or minutes, such as 7d, 12h or 90m"
        )
    return keep


def moment_after(earlier: str) -> str:
    """Return the time, which is never before an ``earlier`` one: clocks of machines differ."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return max(now.replace("+00:00", "Z"), earlier)


def oldest_kept(manifest: Manifest) -> int:
    """Return the oldest commit that is kept with a commit; before this was recorded, the one before it."""
    return manifest.kept_from or max(1, manifest.commit - 1)


def kept_after(root: Path, before: Manifest, keep: str, time: str, commit: int) -> int:
    """Return the oldest commit to keep once ``commit`` is the last one, given the commit ``before`` it (or itself), how
    long to ``keep`` commits, and the time. The last commit but one is always kept, since it may be being read; nothing
    is kept that was given up before."""
    first, last = oldest_kept(before), max(1, commit - 1)
    if not keep or keep.isdigit():
        return min(last, max(first, commit - int(keep or COMMITS_KEPT) + 1))
    since = datetime.fromisoformat(time.replace("Z", "+00:00")) - timedelta(**{UNITS[keep[-1]]: int(keep[:-1])})
    limit = since.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    while first < last:
        # A commit was the last one until the next one was made.
        following = before if first + 1 == before.commit else read_manifest(root, first + 1)
        if following is None or not following.time or following.time >= limit:
            break
        first += 1
    return first


def kept_commit(root: Path, commit: int | None) -> Manifest:
    """Return a commit whose state can still be read (default: the last); raise JobError if it is not kept."""
    last = read_state(root)
    if commit is None or commit == last.commit:
        return last
    first = oldest_kept(last)
    found = read_manifest(root, commit) if first <= commit < last.commit else None
    if found is None:
        raise JobError(
            f"commit {commit} is not kept: {root} has the states of commits {first} to {last.commit}; `vacuum --keep` "
            "says how many will be kept from now on"
        )
    return found


def from_commit(root: Path, commit: int, read: Callable[[Manifest], Any]) -> Any:
    """Return what ``read`` makes of a commit. Raise JobError if it is not kept, or not long enough to be read."""
    manifest = kept_commit(root, commit)
    try:
        return read(manifest)
    except Exception as error:
        if not isinstance(error, BrokenPipeError) and is_given_up(root, manifest):
            raise JobError(f"commit {commit} was removed while it was read, since it is not kept any more") from error
        raise


def is_given_up(root: Path, manifest: Manifest) -> bool:
    """Return whether later commits may have removed the files of a commit."""
    try:
        return last_commit(root) > manifest.commit and oldest_kept(read_state(root)) > manifest.commit
    except JobError:
        # The last manifest is damaged.
        return False


def recorded_commits(root: Path) -> Iterator[Manifest]:
    """Yield the commits whose manifests exist and can be read, the last one first."""
    for number in reversed(commit_numbers(root)):
        try:
            yield load_manifest(root, number)
        except (ValueError, FileNotFoundError):
            # It is damaged, or was removed meanwhile.
            continue
