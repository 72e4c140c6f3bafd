"""Results of commands, and their text for the terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..commits import relation_rows
from ..errors import without_keys
from ..explain import report_explanation
from ..inputs.aside import file_set_aside, set_aside_text
from ..inputs.late import late_text
from ..inputs.nulls import left_out_text
from ..manifest import FeedRecord, Manifest
from ..model import Program
from ..publish import publication_place


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
        left_out, late, aside = (result.get(member, {}).get(name) for member in ("left_out", "late", "set_aside"))
        notes = ([left_out_text(left_out)] if left_out else []) + ([late_text(late)] if late else [])
        notes += [set_aside_text(aside)] if aside else []
        told = f"  ({', '.join(notes)})" if notes else ""
        yield f"  {name}: {tuples_text(rows)}{counts}{told}"
    for name, file in result.get("quarantine", {}).items():
        yield f"  set aside of {name}: {file}"
    for name, folder in result["published"].items():
        yield f"  changes of {name}: {folder}"


def report_status(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines that describe the state."""
    yield f"{result['program']}: commit {result['commit']}, batch {result['batch']}, {result['bytes']:,} bytes"
    for name, rows in result["rows"].items():
        yield f"  {name}: {tuples_text(rows)}"
    for name, feed in result["feeds"].items():
        yield f"  {name} is fed by {feed_text(feed)}"
    for name, kept in result["sequences"].items():
        since = f", those of dead keys since {kept['pruned']}" if kept["pruned"] else ""
        yield f"  {name} keeps {kept['keys']:,} sequences by {kept['column']}{since}"
    for name, table in result["tables"].items():
        yield f"  {name} is kept as {table}"
    if result["differs"]:
        yield f"written by another version of the program ({', '.join(result['differs'])}); `upgrade` recomputes "
        yield "the relations that this affects"


def report_verify(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the first ten differences and their number, or a line that says that the state is exact."""
    for difference in result["differences"][:10]:
        yield "  ".join(f"{name}: {value}" for name, value in difference.items())
    if result["differences"]:
        yield f"{len(result['differences'])} differences; `rebuild` recomputes the state"
    else:
        rows = tuples_text(sum(result["rows"].values()))
        yield f"commit {result['commit']} is exact: {rows}, {result['seconds']:.1f} s"


def report_upgrade(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines that report an upgrade: its commit, and what was recomputed, kept and dropped."""
    if not result["applied"]:
        yield "nothing to do: no definition has changed"
        return
    yield from report_commit(result)
    for name in ("recomputed", "kept", "dropped"):
        if result[name]:
            yield f"{name}: {', '.join(result[name])}"


def report_compact(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the line that reports the numbers of files and bytes before and after."""
    (files, fewer), (size, smaller) = result["files"], result["bytes"]
    if result["applied"]:
        yield f"commit {result['commit']}: merged {files:,} files with {size:,} bytes into {fewer:,} with {smaller:,}"
    else:
        yield f"nothing to merge: no relation has files of changes ({files:,} files with {size:,} bytes)"


def feeds_said(feeds: Mapping[str, FeedRecord]) -> dict[str, dict[str, Any]]:
    """Return feeds as commands report them."""
    return {
        name: {"source": record.source, "position": dict(record.position)} for name, record in sorted(feeds.items())
    }


def feed_text(feed: Mapping[str, Any]) -> str:
    """Return a feed and its position as text."""
    if not feed["position"]:
        return f"{feed['source']}, not read yet"
    read = ", ".join(
        f"{len(value):,} {kind}" if isinstance(value, dict) else f"{kind} {value}"
        for kind, value in feed["position"].items()
    )
    return f"{feed['source']}, read up to {read}"


def report_recover(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines that report which commit the state went back to, and which folders were removed."""
    if not result["applied"]:
        yield f"nothing to do: commit {result['commit']} can be read"
        return
    yield f"commit {result['commit']} restores commit {result['from']}"
    for folder in result["unpublished"]:
        yield f"removed: {folder}"
    yield "later batches can be applied again"


REPORTS: dict[str, Callable[[Mapping[str, Any]], Iterator[str]]] = {
    "init": report_commit,
    "apply": report_commit,
    "follow": report_commit,
    "rebuild": report_commit,
    "upgrade": report_upgrade,
    "compact": report_compact,
    "recover": report_recover,
    "status": report_status,
    "verify": report_verify,
    "explain": report_explanation,
}
