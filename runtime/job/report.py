"""Results of commands, and their text for the terminal."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..inputs.values import NOT_TAKEN, not_taken_text
from ..kernel.errors import without_keys
from ..kernel.model import Program
from ..store.commits import relation_rows
from ..store.manifest import FeedRecord, Manifest
from ..store.publish import publication_place
from ..store.set_aside import file_set_aside
from ..system.log import Log


def summary(program: Program, root: Path, manifest: Manifest, started: float) -> dict[str, Any]:
    """Return the result of a command that made a commit; ``started`` is its start by ``time.monotonic()``."""
    changes = {
        relation.name: dict(zip(("inserted", "deleted"), manifest.counts[relation.table], strict=True))
        for relation in program.relations
        if any(manifest.counts.get(relation.table, ())) and not relation.hidden
    }
    return {
        "program": program.name,
        "batch": manifest.batch,
        "commit": manifest.commit,
        "applied": True,
        "changes": changes,
        "rows": relation_rows(program, manifest),
        "published": {item.relation: without_keys(str(publication_place(root, item))) for item in manifest.publish},
        "steps": list(manifest.steps),
        "seconds": round(time.monotonic() - started, 3),
        **({"left_out": dict(manifest.left_out)} if manifest.left_out else {}),
        **({"late": dict(manifest.late)} if manifest.late else {}),
        **(rows_set_aside(root, manifest) if manifest.set_aside else {}),
    }


def known_summary(program: Program, manifest: Manifest, batch: str, log: Log) -> dict[str, Any]:
    """Return the result of a command that commits nothing, since the state has applied its batch before."""
    log.event("known", batch=batch)
    return {"program": program.name, "batch": batch, "commit": manifest.commit, "applied": False}


def rows_set_aside(root: Path, manifest: Manifest) -> dict[str, Any]:
    """Return how many rows a commit has set aside, and the files with them, by relation."""
    return {
        "set_aside": {name: aside.rows for name, aside in manifest.set_aside.items()},
        "quarantine": {name: str(file_set_aside(root, manifest, name)) for name in manifest.set_aside},
    }


def tuples_text(number: int) -> str:
    """Return a number of tuples with its noun."""
    return f"{number:,} tuple{'' if number == 1 else 's'}"


def report_commit(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines that report a commit."""
    if "nothing_new" in result:
        yield f"nothing new in {result['nothing_new']}; commit {result['commit']} is the last one"
        return
    if not result["applied"]:
        yield f"batch {result['batch']} was applied before; nothing to do"
        return
    yield f"batch {result['batch']} is commit {result['commit']}, in {result['seconds']:.1f} s"
    for name, rows in result["rows"].items():
        change = result["changes"].get(name)
        counts = f"  +{change['inserted']:,} -{change['deleted']:,}" if change else ""
        found = ((member, result.get(member, {}).get(name)) for member in NOT_TAKEN)
        notes = [not_taken_text(member, number) for member, number in found if number]
        told = f"  ({', '.join(notes)})" if notes else ""
        yield f"  {name}: {tuples_text(rows)}{counts}{told}"
    for name, file in result.get("quarantine", {}).items():
        yield f"  set aside of {name}: {file}"
    for name, folder in result["published"].items():
        yield f"  changes of {name}: {folder}"


def report_feeds(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each feed of a state, with what the next batch will read."""
    for name, feed in result["feeds"].items():
        yield f"  {name} is fed by {feed_text(feed)}"


def report_tables(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each table that an output relation of a state is kept as."""
    for name, table in result["tables"].items():
        yield f"  {name} is kept as {table}"


def feeds_said(feeds: Mapping[str, FeedRecord]) -> dict[str, dict[str, Any]]:
    """Return feeds as commands report them."""
    return {
        name: {
            "source": record.source,
            "columns": dict(record.columns),
            "where": record.where,
            "position": dict(record.position),
        }
        for name, record in sorted(feeds.items())
    }


def feed_text(feed: Mapping[str, Any]) -> str:
    """Return a feed, what is read of it and its position as text."""
    names = ", ".join(f"{ours} from {theirs}" for ours, theirs in feed["columns"].items())
    said = [feed["source"], names, f"rows where {feed['where']}" if feed["where"] else ""]
    told = ", ".join(filter(None, said))
    if not feed["position"]:
        return f"{told}, not read yet"
    read = ", ".join(
        f"{len(value):,} {kind}" if isinstance(value, dict) else f"{kind} {value}"
        for kind, value in feed["position"].items()
        if kind != "read"
    )
    return f"{told}, read up to {read}"
