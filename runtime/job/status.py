"""The command ``status``: what a state contains."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..kernel.model import Program
from ..store.commits import from_last_commit, relation_rows
from ..store.data_files import stored_bytes
from ..store.executors import LocalExecutor
from ..store.extensions import FURTHER, TABLE_KINDS
from ..store.manifest import Manifest, OutputTables
from ..store.publish import finish_publication
from ..store.versions import changed_relations
from ..system.places import given_place
from .command_line import Command
from .report import feeds_said, report_feeds, report_tables, tuples_text
from .shared_options import add_state


def state_status(program: Program, state: str) -> dict[str, Any]:
    """Return what the state contains, after publishing what a crash left unpublished. Spark is not needed."""
    root = given_place(state)

    def said(manifest: Manifest) -> dict[str, Any]:
        finished = finish_publication(program, LocalExecutor(), root, manifest)
        return {
            "program": manifest.program.name,
            "compiler": manifest.program.compiler,
            "differs": changed_relations(program, manifest),
            "commit": manifest.commit,
            "batch": manifest.batch,
            "buckets": manifest.buckets,
            "rows": relation_rows(program, manifest),
            "feeds": feeds_said(manifest.feeds),
            "tables": tables_said(manifest.tables),
            "sequences": {
                name: {
                    "column": record.column,
                    "keys": manifest.relations[record.table].rows,
                    "pruned": int(record.pruned) if record.pruned else None,
                }
                for name, record in manifest.sequences.items()
            },
            "bytes": stored_bytes(root, manifest),
            "finished_publication": finished,
        }

    result: dict[str, Any] = from_last_commit(root, said)
    return result


def tables_said(tables: OutputTables) -> dict[str, str]:
    """Return the tables that output relations are kept as; if the script lacks their format, where all of them are."""
    place = tables.place
    if place.partition(":")[0] not in TABLE_KINDS:
        return dict.fromkeys(tables.relations, place)
    return {name: str(FURTHER["table_place"](place, item.folder)) for name, item in tables.relations.items()}


def report_status(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines that describe the state."""
    yield f"{result['program']}: commit {result['commit']}, batch {result['batch']}, {result['bytes']:,} bytes"
    for name, rows in result["rows"].items():
        yield f"  {name}: {tuples_text(rows)}"
    yield from report_feeds(result)
    for name, kept in result["sequences"].items():
        since = f", those of dead keys since {kept['pruned']}" if kept["pruned"] else ""
        yield f"  {name} keeps {kept['keys']:,} sequences by {kept['column']}{since}"
    yield from report_tables(result)
    if result["differs"]:
        yield f"written by another version of the program ({', '.join(result['differs'])}); `upgrade` recomputes "
        yield "the relations that this affects"


STATUS = Command(
    "status",
    "describe the state",
    "Print what the state contains, and whether this version of the program wrote it.",
    (add_state,),
    lambda call: state_status(call.program, **call.options),
    report_status,
)
