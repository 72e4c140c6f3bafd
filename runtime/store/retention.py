"""Commits that a state keeps, besides the last one: the oldest of them is recorded in each manifest."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ..kernel.errors import JobError
from ..kernel.values import shown
from .batches import last_commit
from .manifest import (
    COMMITS_KEPT,
    KEEP,
    Manifest,
    commit_numbers,
    load_manifest,
    parsed_moment,
    read_manifest,
    read_state,
)

CLOCK_AHEAD, CLOCK_BEHIND = timedelta(days=100), timedelta(hours=1)
"""How far the clock may be after and before the last commit of a state that keeps commits for some time."""

UNITS = {"d": "days", "h": "hours", "m": "minutes"}


def checked_keep(given: str | int | None) -> str | None:
    """Return how long to keep commits, as text; raise JobError if it says nothing."""
    keep = None if given is None else str(given)
    if keep is not None and (not keep or not KEEP.fullmatch(keep)):
        raise JobError(
            f"{shown(keep)} does not say how long to keep commits: give a number of commits, at least 2, or of days, "
            "hours or minutes, such as 7d, 12h or 90m"
        )
    return keep


def checked_distance(distance: str | None) -> timedelta | None:
    """Return a distance in time; raise JobError if it is none."""
    if distance is None:
        return None
    parts = re.fullmatch("([1-9][0-9]{0,8})([dhm])", distance)
    if not parts or int(parts[1]) > timedelta.max // timedelta(**{UNITS[parts[2]]: 1}):
        raise JobError(f"{shown(distance)} is not a distance in time: give days, hours or minutes, such as 400d or 12h")
    return timedelta(**{UNITS[parts[2]]: int(parts[1])})


def moment_text(moment: datetime) -> str:
    """Return a time as commits record it."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def moment_after(earlier: str) -> str:
    """Return the time, which is never before an ``earlier`` one: clocks of machines differ."""
    return max(moment_text(datetime.now(UTC)), earlier)


def checked_moment(before: Manifest, keep: str, jump: timedelta | None = None) -> str:
    """Return the time of a commit after the one ``before``. Raise JobError if commits are kept for some time, but the
    clock is so far from the last one that one of the two is probably wrong: a commit in the future gives up those
    before it, and keeps all those after it. A clock up to ``jump`` from it is right, even if it is before."""
    moment = moment_after(before.time if jump is None else "")
    if not before.time:
        return moment
    last, now = parsed_moment(before.time), parsed_moment(moment)
    if jump is None and moment == before.time:
        now = min(datetime.now(UTC), last)
    ahead = now - last
    if jump is None and (not is_time(keep) or -CLOCK_BEHIND <= ahead <= CLOCK_AHEAD):
        return moment
    if jump is not None and abs(ahead) <= jump:
        return moment
    hours = abs(ahead) // timedelta(hours=1) + 1
    far = f"{hours}h" if hours <= 48 else f"{-(-hours // 24)}d"
    raise JobError(
        f"the clock of this machine says {moment_text(now)}, and the last commit {before.time}: one of them is wrong, "
        f"or nothing was applied for long; set the clock or, if it is right, run `vacuum --max-clock-jump {far}`; "
        "nothing was changed"
    )


def is_time(keep: str) -> bool:
    """Return whether commits are kept for some time, rather than a number of them."""
    return bool(keep) and not keep.isdigit()


def oldest_kept(manifest: Manifest) -> int:
    """Return the oldest commit that is kept with a commit; before this was recorded, the one before it."""
    return manifest.kept_from or max(1, manifest.commit - 1)


def kept_after(root: Path, before: Manifest, keep: str, time: str, commit: int) -> int:
    """Return the oldest commit to keep once ``commit`` is the last one, given the commit ``before`` it (or itself), how
    long to ``keep`` commits, and the time. The last commit but one is always kept, since it may be being read; nothing
    is kept that was given up before."""
    first, last = oldest_kept(before), max(1, commit - 1)
    if not is_time(keep):
        return min(last, max(first, commit - int(keep or COMMITS_KEPT) + 1))
    if time < before.time:
        # The times of earlier commits say nothing.
        return last
    limit = moment_text(parsed_moment(time) - timedelta(**{UNITS[keep[-1]]: int(keep[:-1])}))
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
    manifest = read_manifest(root, commit) if first <= commit < last.commit else None
    if manifest is None:
        raise JobError(
            f"commit {commit} is not kept: {root} has the states of commits {first} to {last.commit}; `vacuum --keep` "
            "says how many will be kept from now on"
        )
    return manifest


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


# Sequences of keys

SEQUENCE_UNITS = {"": 1, "d": 86_400_000_000, "h": 3_600_000_000, "m": 60_000_000}
"""The lengths of units of time in sequences, which are microseconds if the order column holds points in time."""


def sequence_distances(kept: Iterable[str], given: Iterable[str] | Mapping[str, Any]) -> dict[str, int]:
    """Return how far behind the newest sequence of a relation those of dead keys are kept, given as REL=DISTANCE or as
    a mapping. Raise JobError for a relation that is not among those that have ``kept`` any, or another distance."""
    items = given.items() if isinstance(given, Mapping) else (item.rpartition("=")[::2] for item in given)
    distances = {}
    for name, distance in items:
        check_sequences(kept, [name])
        match = re.fullmatch(r"([0-9]{1,30})([dhm]?)", str(distance))
        if not match:
            raise JobError(f"{shown(distance)} is no distance: give a whole number, or a time such as 7d, 12h or 90m")
        distances[name] = int(match[1]) * SEQUENCE_UNITS[match[2]]
    return distances


def check_sequences(kept: Iterable[str], given: Iterable[str]) -> None:
    """Raise JobError if one of these relations is not among those that have ``kept`` sequences."""
    for name in given:
        if name not in kept:
            keeping = ", ".join(sorted(kept)) or "none"
            raise JobError(f"{name} keeps no sequences; these relations do: {keeping}")
