"""The command ``history``: the commits of a state, as far as they are recorded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ...inputs.values import NOT_TAKEN, not_taken_text
from ...job.command_line import COMMANDS, Command
from ...job.report import feeds_said
from ...job.shared_options import add_state, option, positive
from ...kernel.model import Program
from ...store.batches import batch_lists
from ...store.extensions import FURTHER
from ...store.manifest import Manifest, attempt_id, read_state
from ...store.retention import oldest_kept, recorded_commits
from ...store.versions import without_copies
from ...system.places import given_place


def state_history(program: Program, state: str, limit: int | None = None) -> dict[str, Any]:
    """Return the last commits of a state, at most ``limit``, the newest first: what made each of them, when, and what
    it changed. Those that are ``kept`` can be shown and returned to; those that are ``undone`` were rolled back."""
    root = given_place(state)
    last = read_state(root)
    records: list[dict[str, Any]] = []
    for manifest in recorded_commits(root):
        if manifest.commit > last.commit:
            continue
        if limit is not None and len(records) == limit:
            break
        records.append(commit_record(root, last, manifest))
    return {
        "program": program.name,
        "commit": last.commit,
        "keep": last.keep,
        "kept_from": oldest_kept(last),
        "commits": records,
    }


def commit_record(root: Path, last: Manifest, manifest: Manifest) -> dict[str, Any]:
    """Return the record of a commit, given the last one."""
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
    commit = (batch, attempt_id(attempt))
    return any(commit in zip(listed.batches, listed.attempts, strict=True) for listed in batch_lists(root, last))


def rows_changed_in(manifest: Manifest, inputs: bool) -> dict[str, dict[str, int]]:
    """Return the numbers of rows that a commit has inserted into and deleted from the inputs, or the other relations,
    that users see."""
    changed = {}
    for table, counts in manifest.counts.items():
        relation = manifest.program.relations.get(table)
        if relation is None or not any(counts) or (relation.kind == "input") is not inputs:
            continue
        if table not in manifest.program.hidden or without_copies(relation.columns) != relation.columns:
            changed[relation.name] = {"inserted": counts[0], "deleted": counts[1]}
    return changed


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
        for member in NOT_TAKEN:
            for name, number in record[member].items():
                yield f"  in: {name}, {not_taken_text(member, number)}"
        for step in record["steps"]:
            strata = ", ".join(step["strata"]) or "inputs"
            yield f"  {strata}: {step['engine']} ({step['reason']}), {step['seconds']:.1f} s"
    yield f"the states of commits {result['kept_from']} to {result['commit']} are kept"


COMMANDS["history"] = Command(
    "history",
    "list the commits",
    "List the last commits, the newest first: what made each of them, when, and what it changed.",
    (add_state, option("--limit", type=positive, metavar="N", help="list at most N commits")),
    lambda call: state_history(call.program, **call.options),
    report_history,
)
FURTHER["history"] = state_history
