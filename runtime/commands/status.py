"""The command ``status``: what a state contains."""

from __future__ import annotations

from typing import Any

from ..commits import from_last_commit, relation_rows
from ..executors import LocalExecutor
from ..manifest import Manifest
from ..model import Program
from ..parts import FURTHER, TABLE_KINDS
from ..places import given_place
from ..publish import finish_publication
from ..stored import stored_bytes
from ..versions import changed_relations
from .report import feeds_said


def state_status(program: Program, state: str) -> dict[str, Any]:
    """Return what the state contains, after publishing what a crash left unpublished. Spark is not needed."""
    root = given_place(state)

    def said(manifest: Manifest) -> dict[str, Any]:
        finished = finish_publication(program, LocalExecutor(), root, manifest)
        written = manifest.tables.relations
        return {
            "program": manifest.program.name,
            "compiler": manifest.program.compiler,
            "differs": changed_relations(program, manifest),
            "commit": manifest.commit,
            "batch": manifest.batch,
            "buckets": manifest.buckets,
            "rows": relation_rows(program, manifest),
            "feeds": feeds_said(manifest.feeds),
            "tables": {name: told_place(manifest.tables.place, item.folder) for name, item in written.items()},
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


def told_place(place: str, folder: str) -> str:
    """Return where the table of a relation is; if the script lacks this format of tables, where all tables are."""
    known = place.partition(":")[0] in TABLE_KINDS
    return str(FURTHER["table_place"](place, folder)) if known else place
