"""Remove sequences that a state keeps for the keys of relations: those of dead keys, or all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from ...inputs.sequences import sequence_relations
from ...kernel.model import Program
from ...kernel.sql import names
from ...store.data_files import check_stored, stored_engine, stored_files
from ...store.manifest import Manifest, SequenceRecord
from ...store.request import Request
from ...store.stages import run_stages
from ...store.task_records import Outcome
from ...store.writing import write_staged


def without_sequences(
    request: Request,
    before: Manifest,
    distances: Mapping[str, int],
    forgotten: Iterable[str],
    records: dict[str, SequenceRecord],
    removed: dict[str, int],
) -> Callable[[str], Any]:
    """Return what computes a commit without the sequences of dead keys that are further than these ``distances`` behind
    the newest one of their relation, and without all those of ``forgotten`` relations. It changes ``records``, and
    enters in ``removed`` how many sequences are removed."""
    kept, root = sequence_relations(before), request.root
    check_stored(root, before, stored_files(before, [before.sequences[name].table for name in distances]))

    def work(attempt: str) -> Outcome:
        staged: dict[str, list[str]] = {}
        for name, distance in distances.items():
            relation, folder = kept[name], root / "data" / attempt / "input" / kept[name].table
            with stored_engine(root, [before], relation) as (engine, (rows,)):
                old = f"_last <> '+' AND _order < (SELECT MAX(_order) FROM ({rows}) AS n) - {distance}"
                count = engine.table("dead", f"SELECT * FROM ({rows}) AS q WHERE {old}")
                removed[name] = count
                if count:
                    newest = int(engine.first("SELECT MAX(_order) AS newest FROM dead", 1)[0]["newest"])
                    since = max(newest + 1, int(records[name].pruned or newest + 1))
                    records[name] = replace(records[name], pruned=str(since))
                    sql = f"SELECT {names(relation.columns)}, '-' AS _op FROM dead"
                    staged[relation.table] = write_staged(engine, sql, folder)
        also = tuple(relation for relation in kept.values() if relation.table in staged)
        outcome = Outcome.of(before, before.buckets)
        if also:
            nothing = Program(before.program.name, "", "", (), ())
            alone = replace(request, program=nothing).in_buckets(before.buckets)
            outcome = run_stages(alone, before, staged, attempt, also=also)
        for name in forgotten:
            removed[name] = outcome.relations.pop(records.pop(name).table).rows
        return replace(outcome, changes={}, counts={})

    return work
