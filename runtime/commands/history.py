"""The command ``history``: the commits of a state, as far as they are recorded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..batches import batch_lists
from ..inputs.aside import set_aside_text
from ..inputs.late import late_text
from ..inputs.nulls import left_out_text
from ..manifest import Manifest, attempt_id, read_state
from ..model import Program
from ..places import given_place
from ..retention import oldest_kept, recorded_commits
from ..versions import without_copies
from .report import feeds_said


def state_history(program: Program, state: str, limit: int | None = None) -> dict[str, Any]:
    """Return the last commits of a state, at most ``limit``, the newest first: what made each of them, when, and what
    it changed. Those that are ``kept`` can be shown and returned to; those that are ``undone`` were rolled back."""
    root = given_place(state)
    last = read_state(root)
    found: list[dict[str, Any]] = []
    for manifest in recorded_commits(root):
        if manifest.commit > last.commit:
            continue
        if limit is not None and len(found) == limit:
            break
        found.append(commit_record(root, last, manifest))
    return {
        "program": program.name,
        "commit": last.commit,
        "keep": last.keep,
        "kept_from": oldest_kept(last),
        "commits": found,
    }


def commit_record(root: Path, last: Manifest, manifest: Manifest) -> dict[str, Any]:
    """Return what is told of a commit, given the last one."""
    own = (manifest.batch, manifest.attempt)
    record = {
        "commit": manifest.commit,
        "batch": manifest.batch,
        "command": manifest.command,
        "time": manifest.time,
        "seconds": manifest.seconds,
        "in": rows_changed_in(manifest, True),
        "out": rows_changed_in(manifest, False),
        "steps": list(manifest.steps),
        "kept": manifest.commit >= oldest_kept(last),
        "left_out": dict(manifest.left_out),
        "late": dict(manifest.late),
        "set_aside": {name: aside.rows for name, aside in manifest.set_aside.items()},
        "undone": own in last.undone and not is_listed(root, last, *own),
    }
    if manifest.feeds:
        record["feeds"] = feeds_said(manifest.feeds)
    return {**record, "restores": manifest.restores} if manifest.restores else record


def is_listed(root: Path, last: Manifest, batch: str, attempt: str) -> bool:
    """Return whether a batch is in the state, as an attempt has committed it."""
    wanted = (batch, attempt_id(attempt))
    return any(wanted in zip(listed.batches, listed.attempts, strict=True) for listed in batch_lists(root, last))


def rows_changed_in(manifest: Manifest, inputs: bool) -> dict[str, dict[str, int]]:
    """Return how many rows a commit has inserted into and deleted from inputs, or other relations, that users see."""
    found = {}
    for table, counts in manifest.counts.items():
        relation = manifest.program.relations.get(table)
        if relation is None or not any(counts) or (relation.kind == "input") is not inputs:
            continue
        if table not in manifest.program.hidden or without_copies(relation.columns) != relation.columns:
            found[relation.name] = {"inserted": counts[0], "deleted": counts[1]}
    return found


def report_history(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each commit, and lines for what it ran."""
    for record in result["commits"]:
        notes = [f"restores commit {record['restores']}"] if "restores" in record else []
        notes += ["rolled back"] if record["undone"] else []
        notes += [] if record["kept"] else ["not kept"]
        told = f"; {', '.join(notes)}" if notes else ""
        moment = record["time"].replace("T", " ").partition(".")[0] or "at an unknown time"
        yield (
            f"commit {record['commit']}: {record['batch']}, {record['command'] or 'unknown command'}, {moment}, "
            f"{record['seconds']:.1f} s{told}"
        )
        for side in ("in", "out"):
            for name, change in record[side].items():
                yield f"  {side}: {name} +{change['inserted']:,} -{change['deleted']:,}"
        for name, number in record["left_out"].items():
            yield f"  in: {name}, {left_out_text(number)}"
        for name, number in record["late"].items():
            yield f"  in: {name}, {late_text(number)}"
        for name, number in record["set_aside"].items():
            yield f"  in: {name}, {set_aside_text(number)}"
        for step in record["steps"]:
            strata = ", ".join(step["strata"]) or "inputs"
            yield f"  {strata}: {step['engine']} ({step['reason']}), {step['seconds']:.1f} s"
    yield f"the states of commits {result['kept_from']} to {result['commit']} are kept"
